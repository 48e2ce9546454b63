"""What streams of events tell: the events of a session, or of a thread, each written once for all who read it.

Both say `previous_seq`, the number of the event before in the same stream and 0 for the first: a client that has each
event's predecessor has missed nothing. Both go on from the log where a reader was too slow.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from cloister.core.envelope import SCHEMA_VERSION, Envelope
from cloister.core.event import Event
from cloister.core.wire import format_time, to_json
from cloister.server.frames import Frames, framed
from cloister.sessions import Session
from cloister.sessions.events import EventStream
from cloister.threads import Stream


def event_frame(event: Event, previous: int) -> bytes:
    return framed(
        event.kind,
        {
            "schema_version": SCHEMA_VERSION,
            "seq": event.seq,
            "previous_seq": previous,
            "event": event.kind,
            "kind": event.kind.partition(".")[0],
            "session_id": event.session_id,
            "timestamp": format_time(event.at),
            "payload": to_json(event.data),
        },
        event.seq,
    )


def envelope_frame(envelope: Envelope) -> bytes:
    said: dict[str, Any] = {**envelope.extra, "schema_version": envelope.schema_version}
    if envelope.seq is not None:
        said |= {"seq": envelope.seq, "previous_seq": envelope.previous_seq}
    said |= {"event": envelope.event, "kind": envelope.kind}
    for name in ("thread_id", "session_id", "turn_id", "item_id"):
        if (value := getattr(envelope, name)) is not None:
            said[name] = value
    said["timestamp"] = format_time(envelope.timestamp)
    if envelope.created_at is not None:
        said["created_at"] = format_time(envelope.created_at)
    # It comes from the log, as it was written: plain JSON.
    said["payload"] = envelope.payload
    return framed(envelope.event, said, envelope.seq)


class SessionFeed:
    """`since`: the event that the client has last; None where nothing is in a log. `last_event` finds the last event of
    a session up to a number."""

    over = "session_closed"

    def __init__(
        self, session: Session, since: int | None, last_event: Callable[[str, int], Awaitable[int]], frames: Frames
    ) -> None:
        self._session = session
        self._since = since
        self._last_event = last_event
        self._frames = frames
        self._previous = 0
        self._stream: EventStream

    async def __aenter__(self) -> "SessionFeed":
        # Before the log is read: what happens meanwhile is heard.
        self._stream = self._session.events(since=self._since)
        if self._since:
            try:
                self._previous = await self._last_event(self._session.id, self._since)
            except BaseException:
                await self._stream.aclose()
                raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stream.aclose()

    async def next(self, most: int) -> list[bytes]:
        some = self._stream.at_once(most)
        if not some:
            try:
                some = [await anext(self._stream)]
            except StopAsyncIteration:
                return []
            some += self._stream.at_once(most)
        return [self._frame(event) for event in some]

    def _frame(self, event: Event) -> bytes:
        previous, self._previous = self._previous, event.seq
        if self._since is None:
            return event_frame(event, previous)
        return self._frames.of(event.session_id, event.seq, previous, lambda: event_frame(event, previous))

    def end(self) -> None:
        self._stream.end()


class ThreadFeed:
    over = "thread_gone"

    def __init__(self, stream: Stream, frames: Frames) -> None:
        self._stream = stream
        self._frames = frames

    async def __aenter__(self) -> "ThreadFeed":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stream.__aexit__(*exc)

    async def next(self, most: int) -> list[bytes]:
        some = self._stream.at_once(most)
        if not some:
            try:
                some = [await anext(self._stream)]
            except StopAsyncIteration:
                return []
            some += self._stream.at_once(most)
        return [self._frame(envelope) for envelope in some]

    def _frame(self, envelope: Envelope) -> bytes:
        if envelope.seq is None or envelope.previous_seq is None or envelope.thread_id is None:
            return envelope_frame(envelope)
        return self._frames.of(
            envelope.thread_id, envelope.seq, envelope.previous_seq, lambda: envelope_frame(envelope)
        )

    def end(self) -> None:
        self._stream.end()
