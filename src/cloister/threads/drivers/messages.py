"""Items and journalled answers as the messages that a model is told.

Every answer comes as its provider gave it, followed by one result for each of its calls: what is not there, because the
turn was interrupted, is said to be so. What people, cells and summaries said stands between. Nothing is asked here, and
the same items give the same messages, so a request that is made again after a crash is the same request.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cloister.core.content import text_of
from cloister.core.item import (
    AgentMessage,
    CellRun,
    ContextCompaction,
    Item,
    Notification,
    ToolCall,
    UserMessage,
)
from cloister.core.message import (
    AssistantMessage,
    ContentPart,
    FreeformCall,
    InputImage,
    InputText,
    Message,
    OutputText,
    Part,
    SystemMessage,
    ToolResult,
    contents_of,
    user_text,
)
from cloister.core.message import ToolCall as Called
from cloister.core.message import UserMessage as UserSaid
from cloister.core.turn import Status
from cloister.ports.model import ModelCapabilities
from cloister.threads.compacting import was_asked
from cloister.threads.drivers.fences import fenced
from cloister.threads.drivers.journal import Said, Transport
from cloister.threads.open_turn import compacted

_SUMMARY = "A summary of the conversation up to here, in place of what was said:\n\n"
_UNSEEN = InputText("[an image was here; this model takes none]")
_STOPPED = {
    Status.INTERRUPTED: "[interrupted] the turn was interrupted before this ended",
    Status.CANCELLED: "[cancelled] this was not done",
}
_NOTHING = "[failed] the turn ended before this did"


@dataclass(frozen=True, slots=True)
class Conversation:
    messages: tuple[Message, ...]
    # How often the model has answered in all, and how many of that are not among the messages.
    answers: int = 0
    answers_before: int = 0


def conversation(
    items: Sequence[Item],
    answers: Mapping[str, Sequence[Said]],
    capabilities: ModelCapabilities,
    current_turn_id: str | None = None,
) -> Conversation:
    """`items` are all of the thread's, `answers` those of each of its turns. Images that the model cannot see are said
    to be there, but those of the current turn, which the model refuses by name."""
    return _Telling(items, answers, capabilities, current_turn_id).told()


class _Telling:
    def __init__(
        self,
        items: Sequence[Item],
        answers: Mapping[str, Sequence[Said]],
        capabilities: ModelCapabilities,
        current_turn_id: str | None,
    ) -> None:
        self._items = items
        self._by_id = {item.id: item for item in items}
        self._capabilities = capabilities
        self._current = current_turn_id
        self._answers = answers
        self._of_item = {item_id: said for each in answers.values() for said in each for item_id in said.items}

    def told(self) -> Conversation:
        messages: list[Message] = []
        told: set[int] = set()
        for item in compacted(self._items):
            said = self._of_item.get(item.id)
            if said is None:
                messages += self._of_others(item)
            elif id(said) not in told and said.transport is not Transport.SUMMARY:
                told.add(id(said))
                messages += self._exchange(said)
        # Summaries that were made outside of a turn are answers of the model too.
        summaries = sum(map(was_asked, self._items))
        given = sum(isinstance(message, AssistantMessage) for message in messages)
        total = sum(map(len, self._answers.values())) + summaries
        return Conversation(tuple(messages), total, max(total - given, 0))

    def _of_others(self, item: Item) -> Iterable[Message]:
        match item.detail:
            case ContextCompaction(summary=summary):
                yield user_text(_SUMMARY + summary)
            case UserMessage(content=content):
                can = self._capabilities.images or item.turn_id == self._current
                yield UserSaid(_seen(contents_of(content), can=can))
            case Notification(content=content):
                yield SystemMessage(text_of(content))
            case AgentMessage(text=text) if text and not self._answers.get(item.turn_id):
                # Of a turn whose answers are not on record, or of another driver.
                yield AssistantMessage((OutputText(text),))
            case _:
                pass

    def _exchange(self, said: Said) -> Iterable[Message]:
        """An answer, and what came of it."""
        message = said.answer.message
        if not message.parts:
            return
        work = [item for one in said.items if (item := self._by_id.get(one)) is not None and _is_work(item)]
        by_call: dict[str | None, Item] = {item.detail.model_call_id: item for item in work}
        if said.transport is Transport.FENCED or not self._capabilities.tools:
            yield _in_words(message, by_call) if message.calls else message
            if work:
                parts = [part for item in work for part in _content(item)]
                yield UserSaid(_seen(tuple(parts), can=self._capabilities.images))
            return
        yield message
        for call in message.calls:
            item = by_call.get(call.id)
            content = _content(item) if item is not None else (InputText(_NOTHING),)
            failed = item is None or item.status is not Status.COMPLETED
            seen = _seen(content, can=self._capabilities.images_in_results)
            yield ToolResult(call.id, call.name, seen, is_error=failed)


def _in_words(message: AssistantMessage, by_call: Mapping[str | None, Item]) -> AssistantMessage:
    """Its calls as a model without tools would have written them. What it thought led to calls, and stays out: some
    providers refuse it without them."""
    parts: list[Part] = []
    for part in message.parts:
        match part:
            case Called() | FreeformCall():
                item = by_call.get(part.id)
                detail = item.detail if item is not None else None
                parts.append(OutputText(_words(part, detail)))
            case OutputText():
                parts.append(part)
            case _:
                pass
    return replace(message, parts=tuple(parts))


def _words(call: Called | FreeformCall, detail: Any) -> str:
    match detail:
        case CellRun(code=code, language=language):
            return fenced(code, language)
        case ToolCall(tool="wait", arguments={"cell_id": str() as cell_id}):
            return fenced(cell_id, "wait")
        case _:
            given = call.input if isinstance(call, FreeformCall) else call.arguments
            return f"\n[{call.name} was called with {given}]\n"


def _is_work(item: Item) -> bool:
    return isinstance(item.detail, (CellRun, ToolCall))


def _content(item: Item) -> tuple[ContentPart, ...]:
    """What the model is told of a cell or a call."""
    content: tuple[Mapping[str, Any], ...] = item.detail.content
    if content:
        return contents_of(content)
    return (InputText(_STOPPED.get(item.status, _NOTHING)),)


def _seen(content: tuple[ContentPart, ...], *, can: bool) -> tuple[ContentPart, ...]:
    return content if can else tuple(_UNSEEN if isinstance(part, InputImage) else part for part in content)
