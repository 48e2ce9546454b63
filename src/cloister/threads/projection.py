"""A thread's detail, made of its events alone.

Whoever has read the stream from its beginning has all that there is to know. It needs nothing but the envelopes, so a
client can do the same; what is not known is passed over.
"""

from cloister.core.approval import Approval
from cloister.core.dynamic import DynamicToolCallParams
from cloister.core.envelope import Envelope
from cloister.core.errors import InvalidInput
from cloister.core.item import Item, item_from_json
from cloister.core.thread import Thread, ThreadDetail
from cloister.core.turn import Turn
from cloister.core.wire import from_json, keep_json


class Projection:
    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._turns: dict[str, Turn] = {}
        self._items: dict[str, Item] = {}
        self._approvals: dict[str, Approval] = {}
        self._calls: dict[str, DynamicToolCallParams] = {}
        self._last = 0

    def take(self, envelope: Envelope) -> None:
        """The next event. Raises `InvalidInput` if one is missing before it."""
        if envelope.seq is None:
            return
        if envelope.previous_seq != self._last:
            raise InvalidInput(
                f"event {envelope.seq} comes after {envelope.previous_seq}, and the last that was read is {self._last}",
                hint="read the stream again from there",
            )
        self._last = envelope.seq
        payload = envelope.payload
        match envelope.event:
            case "thread.started" | "thread.updated" | "thread.forked" if "thread" in payload:
                self._thread = keep_json(Thread, payload["thread"])
            case "turn.queued" | "turn.started" | "turn.completed":
                turn = keep_json(Turn, payload["turn"])
                self._turns[turn.id] = turn
            case "item.started" | "item.completed" | "item.failed":
                item = item_from_json(payload["item"])
                self._items[item.id] = item
            case "tool_call.requested":
                params = keep_json(DynamicToolCallParams, payload)
                self._calls[params.call_id] = params
            case "tool_call.resolved" | "tool_call.timeout" | "tool_call.cancelled":
                self._calls.pop(payload["call_id"], None)
            case "approval.required":
                approval = from_json(Approval, payload)
                self._approvals[approval.id] = approval
            case "approval.decided" | "approval.expired" | "approval.cancelled":
                self._approvals.pop(payload["id"], None)
            case _:
                pass

    def detail(self) -> ThreadDetail:
        if self._thread is None:
            raise InvalidInput("these are no events of a thread from its beginning")
        return ThreadDetail(
            self._thread,
            tuple(self._turns[key] for key in sorted(self._turns)),
            tuple(self._items[key] for key in sorted(self._items)),
            self._last,
            tuple(self._approvals[key] for key in sorted(self._approvals)),
            tuple(self._calls[key] for key in sorted(self._calls)),
        )
