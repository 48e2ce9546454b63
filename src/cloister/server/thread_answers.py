"""What routes of threads and turns answer with. For the description of the API only: the JSON is the core's own."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field

from cloister.core import item as kinds
from cloister.core.approval import Approval
from cloister.core.dynamic import DynamicToolCallParams
from cloister.core.thread import Thread
from cloister.core.turn import Status, SteerReceipt, Turn
from cloister.server.answers import Answer


class Threads(Answer):
    threads: list[Thread]
    # Give it as `after`, for those that come next; null at the end. A page may be short, or empty, before that.
    next_after: str | None


class _Item(BaseModel):
    id: str
    thread_id: str
    turn_id: str
    status: Status
    created_at: str
    ended_at: str | None = None


class UserMessageItem(_Item):
    kind: Literal["user_message"]
    detail: kinds.UserMessage


class AgentMessageItem(_Item):
    kind: Literal["agent_message"]
    detail: kinds.AgentMessage


class AgentReasoningItem(_Item):
    kind: Literal["agent_reasoning"]
    detail: kinds.AgentReasoning


class ToolCallItem(_Item):
    kind: Literal["tool_call"]
    detail: kinds.ToolCall


class CellItem(_Item):
    kind: Literal["cell"]
    detail: kinds.CellRun


class NotificationItem(_Item):
    kind: Literal["notification"]
    detail: kinds.Notification


class CompactionItem(_Item):
    kind: Literal["context_compaction"]
    detail: kinds.ContextCompaction


class ErrorItem(_Item):
    kind: Literal["error"]
    detail: kinds.ErrorDetail


ItemAnswer: TypeAlias = Annotated[
    UserMessageItem
    | AgentMessageItem
    | AgentReasoningItem
    | ToolCallItem
    | CellItem
    | NotificationItem
    | CompactionItem
    | ErrorItem,
    Field(discriminator="kind"),
]


class ThreadDetail(Answer):
    """All of a thread at one moment: who reads its events from `latest_seq` on misses nothing."""

    thread: Thread
    turns: list[Turn]
    items: list[ItemAnswer]
    latest_seq: int
    pending_approvals: list[Approval]
    pending_tool_calls: list[DynamicToolCallParams]


class TurnBegun(Answer):
    thread: Thread
    turn: Turn


class ToolCallAccepted(Answer):
    """The answer is written down, and what waits for it goes on."""

    call_id: str


__all__ = ["SteerReceipt", "Thread", "Turn"]
