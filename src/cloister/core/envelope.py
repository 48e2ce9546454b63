"""An event as it travels: in the stream of a thread, or of a session.

`seq` is global and never reused; `previous_seq` is that of the event before it *in the same stream*, 0 for the first:
who sees it differ from the last that it has read has missed something. What is ephemeral, such as a delta, has neither.
Fields that are not known survive a round trip.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cloister.core.errors import InvalidInput
from cloister.core.wire import keep_json, to_json

SCHEMA_VERSION = 1

THREAD_EVENTS = ("thread.started", "thread.forked", "thread.updated")
TURN_EVENTS = (
    # Accepted behind another one; one that begins at once has no such event.
    "turn.queued",
    "turn.started",
    "turn.steered",
    "turn.steer_dropped",
    "turn.interrupt_requested",
    # However it ended: the turn's status says how.
    "turn.completed",
)
ITEM_EVENTS = ("item.started", "item.delta", "item.completed", "item.failed")
TOOL_CALL_EVENTS = ("tool_call.requested", "tool_call.resolved", "tool_call.timeout", "tool_call.cancelled")
CELL_EVENTS = (
    "cell.started",
    "cell.yielded",
    "cell.notified",
    "cell.hibernated",
    "cell.woken",
    "cell.completed",
    "cell.terminated",
)
CALL_EVENTS = ("call.requested", "call.settled", "call.denied", "call.unknown")
APPROVAL_EVENTS = ("approval.required", "approval.decided", "approval.expired")
SESSION_EVENTS = ("session.opened", "session.restored", "session.forked", "session.closed")
# Told to who listens, and not written down.
EPHEMERAL = frozenset({"item.delta"})


@dataclass(frozen=True, slots=True)
class Envelope:
    """Either `thread_id` or `session_id` is there: whose stream it is."""

    event: str
    timestamp: datetime
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])
    schema_version: int = SCHEMA_VERSION
    seq: int | None = None
    previous_seq: int | None = None
    # What the event is of: the part of its name before the dot, if nothing else is said.
    kind: str = ""
    thread_id: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    item_id: str | None = None
    created_at: datetime | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if (self.thread_id is None) == (self.session_id is None):
            raise InvalidInput("an event is of a thread's stream or of a session's: it has one of their ids")
        if (self.seq is None) != (self.previous_seq is None):
            raise InvalidInput("an event has a seq and a previous_seq, or neither")
        if not self.kind:
            object.__setattr__(self, "kind", self.event.partition(".")[0])

    @property
    def is_ephemeral(self) -> bool:
        return self.seq is None


def envelope_from_json(data: Any) -> Envelope:
    return keep_json(Envelope, data)


def envelope_to_json(envelope: Envelope) -> dict[str, Any]:
    return to_json(envelope)
