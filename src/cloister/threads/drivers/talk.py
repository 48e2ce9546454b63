"""The loop of every driver: ask, journal, do what the answer says, and again, until it says nothing more.

Where it stands is read from what was written down, in each round anew: going on after a crash is going on. Drivers
differ in their `Work` alone: what they offer a model, what they take its answer for, and how that is done.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cloister.core.answer import Answer, FinishReason
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import ContextExceeded
from cloister.core.item import ContextCompaction, Detail, Item, Notification, UserMessage
from cloister.core.offer import OfferedTool
from cloister.core.turn import Status
from cloister.ports.model import Asked, Model
from cloister.threads.compacting import through_before
from cloister.threads.driver import TurnEnd
from cloister.threads.drivers.hearing import forget_half_said, hear
from cloister.threads.drivers.journal import Said, Transport, said_of
from cloister.threads.drivers.messages import Conversation, conversation
from cloister.threads.drivers.summary import summarise
from cloister.threads.open_turn import BudgetSpent, OpenTurn, compacted

# An answer with nothing to do that is not all there is: the turn has no answer.
_ENDS = {
    FinishReason.LENGTH: ErrorObject(
        "answer_cut", "the model's answer was cut off", "let it say more: max_output_tokens; or go on in another turn"
    ),
    FinishReason.CONTENT_FILTER: ErrorObject("content_filtered", "the provider kept back what the model said"),
    FinishReason.ERROR: ErrorObject("model_failed", "the provider broke off the answer", "try again"),
}


@dataclass(frozen=True, slots=True)
class Offer:
    instructions: str
    tools: tuple[OfferedTool, ...]


class Work(Protocol):
    """Of one turn."""

    @property
    def transport(self) -> Transport: ...

    async def offer(self) -> Offer:
        """What the model is told of what it can do, for the next request."""
        ...

    def read(self, answer: Answer) -> Sequence[Detail]:
        """What an answer leads to, one item each, before anything of it is done."""
        ...

    async def do(self, items: Sequence[Item]) -> None:
        """Do what has not ended; each item ends with what the model is told of it. After a crash some of it may have
        been done already."""
        ...


class Talk:
    def __init__(self, turn: OpenTurn, model: Model, work: Work, *, may_compact: bool = True) -> None:
        """`may_compact`: have what was said before this turn summarised when the model cannot take all of it."""
        self._may_compact = may_compact
        self._turn = turn
        self._model = model
        self._work = work
        # Of turns that are over.
        self._past: dict[str, Sequence[Said]] = {}

    async def run(self) -> TurnEnd:
        turn = self._turn
        if turn.resumed:
            await forget_half_said(turn)
        while True:
            last = self._last()
            if last is not None:
                if todo := [item for item in self._items(last) if not item.status.is_final]:
                    await self._work.do(todo)
                # Also when it was done before a crash.
                if (finish := await turn.finished()) is not None:
                    await self._give_up(last)
                    return TurnEnd(finished=True, answer=finish.arguments["value"])
                if not self._goes_on(last):
                    return TurnEnd(_ENDS.get(last.answer.finish))
            try:
                turn.check_budget()
            except BudgetSpent:
                if last is not None and self._is_done(last):
                    # It was complete; what came since finds no request to go with.
                    return TurnEnd()
                raise
            await turn.take_inputs()
            await self._ask()

    # -- where it stands ---------------------------------------------------------------------------------------------

    def _last(self) -> Said | None:
        """The last answer that was not a summary."""
        found = [said for one in self._turn.answers if (said := said_of(one)) is not None]
        return next((one for one in reversed(found) if one.transport is not Transport.SUMMARY), None)

    def _items(self, said: Said) -> list[Item]:
        return [item for item in self._turn.items if item.id in said.items]

    def _is_done(self, said: Said) -> bool:
        """Whether it says that nothing is to be done any more."""
        return not any(item for item in self._items(said) if _is_work(item))

    def _goes_on(self, last: Said) -> bool:
        """Whether there is something that the model has to be told."""
        if not self._is_done(last):
            return True
        if self._turn.is_spoken_to:
            return last.answer.finish not in _ENDS
        newest = max(last.items, default="")
        return any(
            item.id > newest and isinstance(item.detail, (UserMessage, Notification)) for item in self._turn.items
        )

    async def _give_up(self, last: Said) -> None:
        """What was not begun when the turn was finished is not done."""
        for item in self._items(last):
            if not item.status.is_final:
                await self._turn.end(item, Status.CANCELLED)

    # -- asked -------------------------------------------------------------------------------------------------------

    async def _ask(self) -> None:
        told = await self._conversation()
        offer = await self._work.offer()
        asked = Asked(told.messages, offer.instructions, offer.tools, answers_before=told.answers_before)
        try:
            await hear(self._turn, self._model, asked, self._work.transport, self._work.read)
        except ContextExceeded:
            if not self._may_compact or not await self._make_room():
                raise

    async def _make_room(self) -> bool:
        """Have what was said before this turn summarised, once. Whether there was anything."""
        turn = self._turn
        if any(said.transport is Transport.SUMMARY for one in turn.answers if (said := said_of(one)) is not None):
            return False
        items = await turn.all_items()
        through = through_before(items, list({item.turn_id for item in items} - {turn.turn.id}))
        if through is None:
            return False
        turn.check_budget()
        shown = [item for item in compacted(items) if item.id <= through or isinstance(item.detail, ContextCompaction)]
        made = await summarise(self._model, shown, (await self._conversation()).answers, turn.now)
        detail = ContextCompaction(made.text, through, {"model": self._model.name})
        item = turn.item(detail, Status.COMPLETED)
        await turn.settle(made.request_digest, {**made.answer, "items": [item.id]}, made.usage, [item])
        return True

    async def _conversation(self) -> Conversation:
        turn = self._turn
        items = await turn.all_items()
        turns = list(dict.fromkeys(item.turn_id for item in items))
        unread = [turn_id for turn_id in turns if turn_id not in self._past and turn_id != turn.turn.id]
        # Together: a conversation has many turns, and each is a question to the store.
        read = await asyncio.gather(*map(turn.answers_of, unread))
        self._past |= zip(unread, map(_said, read), strict=True)
        past = {**self._past, turn.turn.id: _said(turn.answers)}
        answers = {turn_id: past[turn_id] for turn_id in turns}
        return conversation(items, answers, self._model.capabilities, turn.turn.id)


def _said(settled: Sequence[object]) -> Sequence[Said]:
    return [said for one in settled if (said := said_of(one)) is not None]  # pyright: ignore[reportArgumentType]


def _is_work(item: Item) -> bool:
    return not isinstance(item.detail, (UserMessage, Notification, ContextCompaction)) and item.kind in (
        "cell",
        "tool_call",
    )
