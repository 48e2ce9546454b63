"""One request to a model: its answer is told as it comes, and journalled before anything of it is acted upon.

Texts and reasoning become items with their first piece, so that deltas have something to belong to. What was begun by a
request that came to nothing is ended by whoever ends the turn, or by `forget_half_said` after a crash.
"""

import logging
from collections.abc import Callable, Sequence
from typing import assert_never

from cloister.core.answer import Answer, CallDelta, ReasoningDelta, Retrying, TextDelta
from cloister.core.digest import digest_json
from cloister.core.errors import AnswerInvalid
from cloister.core.item import AgentMessage, AgentReasoning, Detail, Item, ended
from cloister.core.message import FreeformCall, OutputText, Reasoning, ToolCall, message_to_doc
from cloister.core.offer import offer_to_doc
from cloister.core.turn import Status, TurnUsage
from cloister.ports.model import Asked, Model
from cloister.threads.drivers.journal import Said, Transport, said_of, to_doc
from cloister.threads.open_turn import OpenTurn

log = logging.getLogger("cloister.threads")
# What is to be done about an answer.
Reading = Callable[[Answer], Sequence[Detail]]


async def hear(turn: OpenTurn, model: Model, asked: Asked, transport: Transport, read: Reading) -> Said:
    """Ask, tell, journal. `read` says which items of work the answer leads to; they begin with it."""
    began = turn.now()
    answer: Answer | None = None
    begun: dict[int, Item] = {}
    async with model.request(asked) as pieces:
        async for piece in pieces:
            match piece:
                case TextDelta(index, text):
                    _tell(turn, begun, index, AgentMessage(), text)
                case ReasoningDelta(index, text):
                    _tell(turn, begun, index, AgentReasoning(), text)
                case CallDelta():
                    # What is to be done is told when it is whole.
                    pass
                case Retrying(attempt, code, message, wait_ms):
                    log.info(
                        "request %s of turn %s: %s: %s; again in %s ms", attempt, turn.turn.id, code, message, wait_ms
                    )
                case Answer():
                    answer = piece
                case _:
                    assert_never(piece)
    if answer is None:
        raise AnswerInvalid(f"{model.name} ended without an answer", provider=model.provider, model=model.name)
    model_ms = round((turn.now() - began).total_seconds() * 1000)
    turn.flush()
    items = _items_of(turn, answer, begun, read(answer))
    doc = to_doc(answer, transport, [item.id for item in items])
    settled = await turn.settle(request_digest(model, asked), doc, usage_of(answer, model_ms), items)
    said = said_of(settled)
    assert said is not None
    return said


async def forget_half_said(turn: OpenTurn) -> None:
    """End what was being said when the process of before did: nobody knows how it would have gone on."""
    known = {item_id for one in turn.answers if (said := said_of(one)) is not None for item_id in said.items}
    for item in turn.items:
        is_words = isinstance(item.detail, (AgentMessage, AgentReasoning))
        if is_words and item.id not in known and not item.status.is_final:
            await turn.end(item, Status.INTERRUPTED)


def request_digest(model: Model, asked: Asked) -> str:
    doc = {
        "model": model.name,
        "instructions": asked.instructions,
        "messages": [message_to_doc(one) for one in asked.messages],
        "tools": [offer_to_doc(one) for one in asked.tools],
        "tool_choice": asked.tool_choice,
    }
    return digest_json(doc)


def usage_of(answer: Answer, model_ms: int) -> TurnUsage:
    usage, cost = answer.usage, answer.cost
    is_dollars = cost is not None and cost.currency == "USD"
    return TurnUsage(
        requests=max(usage.requests, 1),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        model_ms=model_ms,
        cost_micros=round(cost.amount * 1_000_000) if cost is not None and is_dollars else 0,
    )


def _tell(turn: OpenTurn, begun: dict[int, Item], index: int, detail: AgentMessage | AgentReasoning, text: str) -> None:
    if not text:
        return
    item = begun.get(index)
    if item is None:
        item = begun[index] = turn.item(detail)
        turn.begin(item)
    turn.delta(item, text)


def _items_of(turn: OpenTurn, answer: Answer, begun: dict[int, Item], work: Sequence[Detail]) -> list[Item]:
    items: list[Item] = []
    for index, part in enumerate(answer.message.parts):
        match part:
            case OutputText(text):
                detail = AgentMessage(text)
            case Reasoning(text):
                detail = AgentReasoning(text)
            case ToolCall() | FreeformCall():
                continue
            case _:
                assert_never(part)
        item = begun.pop(index, None)
        if item is not None and type(item.detail) is type(detail):
            items.append(ended(item, Status.COMPLETED, turn.now(), detail))
        elif part.text:
            items.append(turn.item(detail, Status.COMPLETED))
    # Nothing of it is in the whole: it was not said.
    items += [ended(item, Status.FAILED, turn.now()) for item in begun.values()]
    return [*items, *(turn.item(detail) for detail in work)]
