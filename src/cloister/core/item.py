"""An item: one thing in a turn that a reader of the conversation can see, with what there is to know of its kind.

The kind is the tag: `detail` is of exactly the type that belongs to it. Unknown fields of what was stored are kept;
a kind that is not known is refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias, cast

from cloister.core.cell import Content
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import InvalidInput
from cloister.core.language import Language
from cloister.core.turn import Status
from cloister.core.wire import keep_json, to_json


class ItemKind(StrEnum):
    USER_MESSAGE = "user_message"
    AGENT_MESSAGE = "agent_message"
    AGENT_REASONING = "agent_reasoning"
    TOOL_CALL = "tool_call"
    CELL = "cell"
    NOTIFICATION = "notification"
    CONTEXT_COMPACTION = "context_compaction"
    ERROR = "error"


def _extra() -> Any:
    return field(default_factory=dict[str, Any], repr=False)


@dataclass(frozen=True, slots=True)
class UserMessage:
    content: Content
    # When it came in the middle of a turn: the input that it is, and the id that the client gave it.
    input_id: str | None = None
    client_id: str | None = None
    extra: Mapping[str, Any] = _extra()


@dataclass(frozen=True, slots=True)
class AgentMessage:
    text: str = ""
    extra: Mapping[str, Any] = _extra()


@dataclass(frozen=True, slots=True)
class AgentReasoning:
    text: str = ""
    extra: Mapping[str, Any] = _extra()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model made by itself, or that a client's tool was asked."""

    tool: str
    namespace: str | None = None
    # The call at the gate; None before it came there.
    call_id: str | None = None
    # The cell that it is a call of.
    cell_id: str | None = None
    # What the model named it.
    model_call_id: str | None = None
    arguments: Any = None
    success: bool | None = None
    content: Content = ()
    error: ErrorObject | None = None
    extra: Mapping[str, Any] = _extra()


@dataclass(frozen=True, slots=True)
class CellRun:
    """A program that the model wrote."""

    code: str
    language: Language = Language.PYTHON
    # None before it was accepted as a cell.
    cell_id: str | None = None
    model_call_id: str | None = None
    # How it stood when the model was told: "completed", "failed", "yielded", …; "refused" if it was not run.
    outcome: str | None = None
    # What the model was told of it.
    content: Content = ()
    error: ErrorObject | None = None
    extra: Mapping[str, Any] = _extra()


@dataclass(frozen=True, slots=True)
class Notification:
    """Something that nobody said: a finished background cell, or what a program notified."""

    content: Content
    input_id: str | None = None
    client_id: str | None = None
    cell_id: str | None = None
    extra: Mapping[str, Any] = _extra()


@dataclass(frozen=True, slots=True)
class ContextCompaction:
    """From here on the model is told `summary` in place of all items up to `through_item_id`. The log keeps them."""

    summary: str
    through_item_id: str
    extra: Mapping[str, Any] = _extra()


@dataclass(frozen=True, slots=True)
class ErrorDetail:
    error: ErrorObject
    extra: Mapping[str, Any] = _extra()


Detail: TypeAlias = (
    UserMessage | AgentMessage | AgentReasoning | ToolCall | CellRun | Notification | ContextCompaction | ErrorDetail
)
DETAILS: Mapping[ItemKind, type[Any]] = {
    ItemKind.USER_MESSAGE: UserMessage,
    ItemKind.AGENT_MESSAGE: AgentMessage,
    ItemKind.AGENT_REASONING: AgentReasoning,
    ItemKind.TOOL_CALL: ToolCall,
    ItemKind.CELL: CellRun,
    ItemKind.NOTIFICATION: Notification,
    ItemKind.CONTEXT_COMPACTION: ContextCompaction,
    ItemKind.ERROR: ErrorDetail,
}
KIND_OF: Mapping[type[Any], ItemKind] = {made: kind for kind, made in DETAILS.items()}


@dataclass(frozen=True, slots=True)
class Item:
    id: str
    thread_id: str
    turn_id: str
    kind: ItemKind
    status: Status
    created_at: datetime
    detail: Any
    ended_at: datetime | None = None
    extra: Mapping[str, Any] = _extra()

    def __post_init__(self) -> None:
        if type(self.detail) is not DETAILS[self.kind]:
            raise InvalidInput(f"an item of kind {self.kind.value!r} has no {type(self.detail).__name__}")


@dataclass(frozen=True, slots=True)
class _Outline:
    """An item without what depends on its kind."""

    id: str
    thread_id: str
    turn_id: str
    kind: ItemKind
    status: Status
    created_at: datetime
    ended_at: datetime | None = None
    extra: Mapping[str, Any] = _extra()


def item_from_json(data: Any) -> Item:
    if not isinstance(data, Mapping):
        raise InvalidInput(f"an item is read from a JSON object, not from {type(data).__name__}")
    given = dict(cast("Mapping[str, Any]", data))
    detail = given.pop("detail", {})
    outline = keep_json(_Outline, given)
    return Item(
        outline.id,
        outline.thread_id,
        outline.turn_id,
        outline.kind,
        outline.status,
        outline.created_at,
        keep_json(DETAILS[outline.kind], detail),
        outline.ended_at,
        outline.extra,
    )


def item_to_json(item: Item) -> dict[str, Any]:
    return cast("dict[str, Any]", to_json(item))


def ended(item: Item, status: Status, at: datetime, detail: Detail | None = None) -> Item:
    return replace(item, status=status, ended_at=at, detail=item.detail if detail is None else detail)
