"""Spans of turns, cells and calls, made of what is told of them.

A span is open while something is at work here. A cell that falls asleep for a person's answer ends its span, and begins
another when it wakes, maybe days later and in another process: what waits holds no memory, and a trace that is looked
at meanwhile is whole. So there are never more open spans than work under way, and a bound on them all the same.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from opentelemetry.context import Context, get_current
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, Tracer, set_span_in_context

from cloister.core.strand import Strand
from cloister.ports.telemetry import IN_TURN
from cloister.telemetry import conventions as names
from cloister.telemetry.meters import Meters

# Of each kind; the oldest are ended when there are more.
_MOST = 10_000
_MOST_ENDED = 1_000
_NS_PER_MS = 1_000_000


class Open:
    """Spans of one kind that have not ended, by the ids of what they are of."""

    def __init__(self) -> None:
        self._spans: OrderedDict[str, Span] = OrderedDict()

    def add(self, key: str, span: Span) -> None:
        self.end(key)
        self._spans[key] = span
        if len(self._spans) > _MOST:
            self._spans.popitem(last=False)[1].end()

    def get(self, key: str | None) -> Span | None:
        return self._spans.get(key) if key is not None else None

    def pop(self, key: str) -> Span | None:
        return self._spans.pop(key, None)

    def end(self, key: str) -> None:
        if (span := self.pop(key)) is not None:
            span.end()

    def end_all(self) -> None:
        while self._spans:
            self._spans.popitem()[1].end()


class Spans:
    def __init__(self, tracer: Tracer, meters: Meters) -> None:
        self._tracer = tracer
        self._meters = meters
        self._turns, self._cells, self._calls = Open(), Open(), Open()
        # Where turns were asked for that stand in line.
        self._asked: OrderedDict[str, Context] = OrderedDict()
        # Turns that have ended, for what goes on after them.
        self._ended: OrderedDict[str, SpanContext] = OrderedDict()
        # The open calls of each cell.
        self._of_cell: dict[str, set[str]] = {}

    def told(self, kind: str, session_id: str, data: Mapping[str, Any], strand: Strand | None) -> None:
        match kind:
            case "turn.queued":
                self._asked[data["turn"]["id"]] = get_current()
                if len(self._asked) > _MOST:
                    self._asked.popitem(last=False)
            case "turn.started":
                self._turn_started(data["turn"])
            case "turn.completed":
                self._turn_ended(data["turn"])
            case "cell.started" | "cell.woken":
                self._cell_started(data["cell_id"], session_id, strand, resumed=kind != "cell.started")
            case "cell.hibernated" if "approvals" in data:
                self._cell_asleep(data["cell_id"])
            case "cell.completed" | "cell.terminated":
                self._cell_ended(data, session_id, strand)
            case "call.requested":
                self._call_started(data, session_id, strand)
            case "call.settled" | "call.denied" | "call.unknown":
                self._call_ended(data, session_id, strand)
            case _:
                pass

    def close(self) -> None:
        for of in (self._calls, self._cells, self._turns):
            of.end_all()

    def call(self, call_id: str) -> Span | None:
        return self._calls.get(call_id)

    def in_turn(self) -> Context | None:
        """The turn that this task works for, as a parent."""
        turn_id = IN_TURN.get()
        return self._of_turn(turn_id, None) if turn_id is not None else None

    # -- turns -------------------------------------------------------------------------------------------------------

    def _turn_started(self, turn: Mapping[str, Any]) -> None:
        asked = self._asked.pop(turn["id"], None)
        span = self._begin_turn(turn["id"], asked)
        span.set_attribute(names.CONVERSATION_ID, turn["thread_id"])

    def _of_turn(self, turn_id: str, strand: Strand | None) -> Context:
        """A turn as a parent, also when it has ended before a cell of its; one that was begun in another process has a
        span of its own here."""
        if (ended := self._ended.get(turn_id)) is not None:
            return set_span_in_context(NonRecordingSpan(ended))
        span = self._turns.get(turn_id)
        if span is None:
            span = self._begin_turn(turn_id, None)
            span.set_attribute(names.RESUMED, True)
            if strand is not None:
                span.set_attribute(names.CONVERSATION_ID, strand.thread_id)
        return set_span_in_context(span)

    def _begin_turn(self, turn_id: str, parent: Context | None) -> Span:
        known = {names.OPERATION: names.INVOKE_AGENT, names.AGENT_NAME: names.AGENT, names.TURN_ID: turn_id}
        span = self._tracer.start_span(f"{names.INVOKE_AGENT} {names.AGENT}", parent, attributes=known)
        self._turns.add(turn_id, span)
        return span

    def _turn_ended(self, turn: Mapping[str, Any]) -> None:
        self._asked.pop(turn["id"], None)
        self._meters.turn(turn["status"], _seconds(turn))
        span = self._turns.pop(turn["id"])
        if span is None:
            return
        span.set_attribute(names.TURN_STATUS, turn["status"])
        if turn.get("model"):
            span.set_attribute(names.REQUEST_MODEL, turn["model"])
        for name, count in ((names.INPUT_TOKENS, "input_tokens"), (names.OUTPUT_TOKENS, "output_tokens")):
            span.set_attribute(name, turn["usage"][count])
        failed(span, turn.get("error"))
        span.end()
        self._ended[turn["id"]] = span.get_span_context()
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)

    # -- cells -------------------------------------------------------------------------------------------------------

    def _cell_started(self, cell_id: str, session_id: str, strand: Strand | None, *, resumed: bool) -> None:
        if resumed and self._cells.get(cell_id) is not None:
            # It lent its seat while a call was under way, and has never been away.
            return
        known: dict[str, Any] = {names.CELL_ID: cell_id, names.SESSION_ID: session_id}
        if resumed:
            known[names.RESUMED] = True
        self._cells.add(cell_id, self._tracer.start_span(names.CELL, self._parent(strand), attributes=known))

    def _parent(self, strand: Strand | None) -> Context | None:
        """The turn, or else whatever this task is doing."""
        if strand is None:
            return None
        return self._of_turn(strand.turn_id, strand)

    def _cell_asleep(self, cell_id: str) -> None:
        for call_id in self._of_cell.pop(cell_id, ()):
            if (call := self._calls.pop(call_id)) is not None:
                call.set_attribute(names.CALL_STATUS, "approval_pending")
                call.end()
        if (span := self._cells.pop(cell_id)) is not None:
            span.set_attribute(names.CELL_STATE, "waiting")
            span.end()

    def _cell_ended(self, data: Mapping[str, Any], session_id: str, strand: Strand | None) -> None:
        cell_id = data["cell_id"]
        for call_id in self._of_cell.pop(cell_id, ()):
            self._calls.end(call_id)
        self._meters.cell(data["state"], data["duration_ms"] / 1000)
        span = self._cells.pop(cell_id)
        if span is None:
            # It ended in its sleep.
            return
        span.set_attribute(names.CELL_STATE, data["state"])
        failed(span, data.get("error"))
        span.end()

    # -- calls -------------------------------------------------------------------------------------------------------

    def _call_started(self, data: Mapping[str, Any], session_id: str, strand: Strand | None) -> None:
        call_id, cell_id = data["call_id"], data["cell_id"]
        self._calls.add(call_id, self._call_span(data["name"], call_id, cell_id, session_id, strand))
        self._of_cell.setdefault(cell_id, set()).add(call_id)

    def _call_span(
        self, name: str, call_id: str, cell_id: str, session_id: str, strand: Strand | None, start_ns: int | None = None
    ) -> Span:
        cell = self._cells.get(cell_id)
        parent = set_span_in_context(cell) if cell is not None else self._parent(strand)
        known = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: name[:200],
            names.TOOL_TYPE: "function",
            names.TOOL_CALL_ID: call_id,
            names.CELL_ID: cell_id,
            names.SESSION_ID: session_id,
        }
        title = f"{names.EXECUTE_TOOL} {name[:200]}"
        return self._tracer.start_span(title, parent, attributes=known, start_time=start_ns)

    def _call_ended(self, data: Mapping[str, Any], session_id: str, strand: Strand | None) -> None:
        call_id, cell_id, record = data["call_id"], data["cell_id"], data["record"]
        error, status = record.get("error"), record["status"]
        span = self._calls.pop(call_id)
        if span is None:
            # It was asked for before its cell fell asleep; what it has taken since is known.
            start_ns = time.time_ns() - round(record["duration_ms"] * _NS_PER_MS)
            span = self._call_span(record["name"], call_id, cell_id, session_id, strand, start_ns)
            span.set_attribute(names.RESUMED, True)
        elif (others := self._of_cell.get(cell_id)) is not None:
            others.discard(call_id)
            if not others:
                del self._of_cell[cell_id]
        span.set_attribute(names.CALL_STATUS, status)
        span.set_attribute(names.SIDE_EFFECT, record["side_effect"])
        failed(span, error)
        span.end()
        # A program may make up any name: of those that are none, there is one.
        known = "unknown" if error and error["code"] == "UNKNOWN_TOOL" else record["name"]
        self._meters.call(known, status, record["duration_ms"] / 1000)


def failed(span: Span, error: Mapping[str, Any] | None) -> None:
    """Its code, and not what it says: that may have a program's words in it."""
    if error:
        span.set_attribute(names.ERROR_TYPE, error["code"])
        span.set_status(Status(StatusCode.ERROR, error["code"]))


def _seconds(turn: Mapping[str, Any]) -> float:
    """How long a turn took, also if it began in another process; one that never began took no time."""
    began, ended = turn.get("started_at"), turn.get("ended_at")
    if began is None or ended is None:
        return 0.0
    return max((datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds(), 0.0)
