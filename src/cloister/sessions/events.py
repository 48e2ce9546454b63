"""Events on their way to whoever listens: numbered, stamped, and never in anybody's way.

Those of a session that is written down go into the store's log first, many at a time, and get their numbers there. Of
all others nothing is made unless somebody hears it. A reader that is slow has a bounded line of its own: what it missed
is read from the log, or, where there is none, it is told how many it missed. No cell ever waits for it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from cloister.core.errors import InvalidInput, StoreError
from cloister.core.event import Event
from cloister.core.strand import Strand
from cloister.ports.clock import Clock, moment
from cloister.ports.rows import Append, EventRow, Write
from cloister.ports.telemetry import Telemetry

log = logging.getLogger("cloister.sessions")
EventListener: TypeAlias = Callable[[Event], None]
_MOST_UNREAD = 10_000
_PAGE = 500
_MOMENT_SECONDS = 0.005
# The first words of events that a conversation tells of itself.
CONVERSATION = ("thread.", "turn.", "item.", "tool_call.")
# In place of a session's id, for whoever listens to all of them.
_ALL = ""


class EventLog:
    """The log of a store, as events need it: `append` gives them their numbers, or None to those that it could not
    take, in a moment or at once; `write` takes those of one session with other writes, in one, behind all that was
    appended; `read` finds them again; `hurry` says that somebody waits for what was appended."""

    def __init__(
        self,
        append: Callable[[Sequence[Append], bool], Awaitable[Sequence[int | None]]],
        write: Callable[[str, Sequence[Write]], Awaitable[Sequence[int]]],
        read: Callable[[str, int, int], Awaitable[Sequence[EventRow]]],
        hurry: Callable[[], None],
    ) -> None:
        self.append = append
        self.write = write
        self.read = read
        self.hurry = hurry


class Events:
    """The events of all sessions of a host. Event loop only."""

    def __init__(
        self,
        clock: Clock,
        listener: EventListener | None = None,
        event_log: EventLog | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        if listener is not None and not callable(listener):
            raise InvalidInput(f"on_event is a function that takes an event, not {type(listener).__name__}")
        self._clock = clock
        self._listener = listener
        self._log = event_log
        self._telemetry = telemetry
        self._seq = 0
        self._streams: dict[str, set[EventStream]] = {}
        # Sessions whose events are written down.
        self._kept: set[str] = set()
        # On their way into the log, in order.
        self._unwritten: list[Append] = []
        # In the log, or nearly, and to be delivered before any that come later.
        self._handed: list[tuple[Sequence[Append], Awaitable[Sequence[int]]]] = []
        # By session, the cells that conversations started.
        self._strands: dict[str, dict[str, Strand]] = {}
        self._writing: asyncio.Future[None] | None = None
        self._left = False
        # Somebody waits for those that have gathered.
        self._hasty = False
        # No event of a session that is written down and that anybody here has heard of has a higher number.
        self.last = 0
        # Done when those that have gathered are to be written.
        self._pause: asyncio.Future[None] | None = None
        # Done when those that have gathered are on their way.
        self._sent: list[asyncio.Future[None]] = []

    def leave(self) -> None:
        """The host goes: what it does to its sessions here from now on does not happen to them."""
        self._left = True

    def heard(self, session_id: str) -> bool:
        """Whether anybody listens to that session, now or later."""
        if self._left and session_id in self._kept:
            return False
        listens = (
            self._listener is not None
            or self._telemetry is not None
            or session_id in self._streams
            or _ALL in self._streams
        )
        return listens or session_id in self._kept

    def keep(self, session_id: str) -> None:
        """From now on its events are written down."""
        if self._log is not None:
            self._kept.add(session_id)

    def emit(self, kind: str, session_id: str, data: Mapping[str, Any]) -> None:
        if not self.heard(session_id):
            return
        now_ms = self._clock.now_ms()
        if self._telemetry is not None:
            self._telemetry.told(kind, session_id, data, self.strand(session_id, data.get("cell_id")))
        if session_id in self._kept:
            self._unwritten.append(self._append(kind, session_id, now_ms, data))
            self._start_writing()
            return
        self._seq += 1
        self._deliver(Event(self._seq, kind, session_id, moment(now_ms), data))

    def emit_with(
        self, kind: str, session_id: str, data: Mapping[str, Any], *writes: Write
    ) -> Awaitable[object] | None:
        """The same, in one with the writes that it tells of: what is on record was told, and what was told is on
        record. What to wait for; None, and nothing happens, where events of that session are not written down."""
        if self._log is None or self._left or session_id not in self._kept:
            return None
        if self._telemetry is not None:
            self._telemetry.told(kind, session_id, data, self.strand(session_id, data.get("cell_id")))
        # What was told of the session before comes before it.
        told = [one for one in self._unwritten if one.session_id == session_id]
        self._unwritten = [one for one in self._unwritten if one.session_id != session_id]
        told.append(self._append(kind, session_id, self._clock.now_ms(), data))
        written = self._log.write(session_id, (*told, *writes))
        self._handed.append((told, written))
        self._hurry()
        self._start_writing()
        return written

    def _append(self, kind: str, session_id: str, now_ms: int, data: Mapping[str, Any]) -> Append:
        strand = self.strand(session_id, data.get("cell_id"))
        within = () if strand is None else (strand.thread_id, strand.turn_id, strand.item_id)
        return Append(session_id, kind, now_ms, data, *within)

    def _start_writing(self) -> None:
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())

    def assign(self, session_id: str, cell_id: str, strand: Strand | None) -> None:
        """What happens to that cell is in the stream of a thread too, from now on."""
        if strand is not None:
            self._strands.setdefault(session_id, {})[cell_id] = strand

    def unassign(self, session_id: str, cell_id: str) -> None:
        self._strands.get(session_id, {}).pop(cell_id, None)

    def strand(self, session_id: str, cell_id: object) -> Strand | None:
        """The conversation that started the cell."""
        known = self._strands.get(session_id)
        return known.get(cell_id) if known and isinstance(cell_id, str) else None

    async def flush(self) -> None:
        """Returns when all that was told so far is written down."""
        while self._writing is not None:
            self._hasty = True
            self._hurry()
            if self._log is not None:
                self._log.hurry()
            await asyncio.wait([self._writing], timeout=_MOMENT_SECONDS)

    async def sent(self) -> None:
        """Returns when all that was told so far is on its way into the log: it comes before whatever is written next.
        Nobody waits for the disk."""
        if self._log is None:
            return
        # Those before them, which they wait for.
        self._log.hurry()
        if self._unwritten:
            self._hasty = True
            self._hurry()
            sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._sent.append(sent)
            await sent
            self._log.hurry()

    def subscribe(self, session_id: str, *, since: int | None = None, most_unread: int = _MOST_UNREAD) -> "EventStream":
        """What happens in that session from now on; or since the event of that number, as far as it is in the log."""
        read = partial(self._page, self._log, session_id) if self._log and session_id in self._kept else None
        stream = EventStream(session_id, most_unread, self._leave, read, since)
        self._streams.setdefault(session_id, set()).add(stream)
        return stream

    def subscribe_to_all(self, *, most_unread: int = _MOST_UNREAD) -> "EventStream":
        """What happens in all sessions from now on, where nothing is written down."""
        stream = EventStream(_ALL, most_unread, self._leave)
        self._streams.setdefault(_ALL, set()).add(stream)
        return stream

    async def _page(self, source: EventLog, session_id: str, after: int) -> Sequence[Event]:
        """A page without what conversations tell of themselves, which is in the streams of `cloister.threads`."""
        await self.flush()
        while rows := await source.read(session_id, after, _PAGE):
            if page := [_event(row) for row in rows if not row.kind.startswith(CONVERSATION)]:
                return page
            after = rows[-1].seq
        return []

    def close_all(self) -> None:
        """The host is over."""
        for stream in self._streams.pop(_ALL, ()):
            stream.end()

    def close(self, session_id: str) -> None:
        """The session is over: its readers come to their end."""
        self._kept.discard(session_id)
        self._strands.pop(session_id, None)
        for stream in self._streams.pop(session_id, ()):
            stream.end()

    def _deliver(self, event: Event) -> None:
        for stream in (*self._streams.get(event.session_id, ()), *self._streams.get(_ALL, ())):
            stream.push(event)
        if self._listener is not None:
            try:
                self._listener(event)
            # Containment: a listener is the host's; no call may fail because it does.
            except Exception:
                log.exception("the listener of events failed on %s", event.kind)

    async def _write(self) -> None:
        """All that has gathered, as often as something has. What cannot be written is told to nobody."""
        assert self._log is not None
        try:
            while self._unwritten or self._handed:
                if not self._handed:
                    await self._gather()
                if self._handed:
                    # Their numbers are below those of all that has gathered meanwhile.
                    handed, self._handed = self._handed, []
                    for told, written in handed:
                        self._deliver_all(told, await _numbers(told, written))
                    continue
                some, self._unwritten = self._unwritten, []
                hasty, self._hasty = self._hasty or self._are_read(some), False
                # They hear of it in the next round of the event loop, and `append` hands over in this one: whatever is
                # handed over from then on comes behind it.
                self._tell_sent()
                self._deliver_all(some, await self._log.append(some, hasty))
        finally:
            self._writing = None
            self._tell_sent()

    def _are_read(self, some: Sequence[Append]) -> bool:
        """Whether somebody waits for one of these: a moment is what they wait, and no write to come."""
        streams = self._streams
        return bool(streams) and (_ALL in streams or any(one.session_id in streams for one in some))

    def _tell_sent(self) -> None:
        waiting, self._sent = self._sent, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def _deliver_all(self, some: Sequence[Append], numbers: Sequence[int | None]) -> None:
        written = [(seq, one) for seq, one in zip(numbers, some, strict=True) if seq is not None]
        if self._listener is None and not self._streams:
            self.last = max([self.last, *(seq for seq, _ in written)])
            return
        for seq, one in sorted(written, key=lambda pair: pair[0]):
            self.last = max(self.last, seq)
            self._deliver(Event(seq, one.kind, one.session_id, moment(one.at_ms), one.doc))

    async def _gather(self) -> None:
        """What happens within a moment goes along: a commit for each of them would be in the way of the calls'."""
        loop = asyncio.get_running_loop()
        self._pause = loop.create_future()
        timer = loop.call_later(_MOMENT_SECONDS, self._hurry)
        try:
            await self._pause
        finally:
            timer.cancel()
            self._pause = None

    def _hurry(self) -> None:
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)

    def _leave(self, stream: "EventStream") -> None:
        left = self._streams.get(stream.session_id)
        if left is not None:
            left.discard(stream)
            if not left:
                del self._streams[stream.session_id]


class EventStream:
    """`async for event in session.events()`. Ends with the session; `aclose` ends it before."""

    def __init__(
        self,
        session_id: str,
        most_unread: int,
        on_close: Callable[["EventStream"], None],
        read: Callable[[int], Awaitable[Sequence[Event]]] | None = None,
        since: int | None = None,
    ) -> None:
        self.session_id = session_id
        self._unread: deque[Event] = deque(maxlen=most_unread)
        self._missed = 0
        self._on_close = on_close
        self._read = read
        # The number of the last event that the reader has; None until it has one.
        self._last = since
        # From the log, before what comes by itself.
        self._found: deque[Event] = deque()
        self._behind = since is not None
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    def push(self, event: Event) -> None:
        if len(self._unread) == self._unread.maxlen:
            self._missed += 1
        self._unread.append(event)
        self._wake()

    def end(self) -> None:
        self._ended = True
        self._wake()

    def __aiter__(self) -> "EventStream":
        return self

    async def __anext__(self) -> Event:
        while True:
            if self._missed and self._read is not None and self._last is not None:
                # Whatever came by itself is in the log too.
                self._missed, self._behind = 0, True
            if self._behind and not self._found:
                await self._catch_up()
            event = self._next()
            if event is not None:
                return event
            if self._behind:
                continue
            if self._ended:
                raise StopAsyncIteration
            if self._waiter is not None:
                raise InvalidInput("these events are read already: ask for another stream")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def at_once(self, most: int) -> list[Event]:
        """What can be told without waiting, and no more than so many."""
        found: list[Event] = []
        while len(found) < most and (event := self._next()) is not None:
            found.append(event)
        return found

    async def aclose(self) -> None:
        self._on_close(self)
        self.end()

    async def __aenter__(self) -> "EventStream":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def _catch_up(self) -> None:
        """A page of the log. When there is no more, what came meanwhile by itself goes on where it ends."""
        assert self._read is not None
        page = await self._read(self._last or 0)
        self._found.extend(page)
        self._behind = bool(page)

    def _next(self) -> Event | None:
        if self._found:
            event = self._found.popleft()
            self._last = event.seq
            return event
        while self._unread and not self._behind:
            if self._missed:
                missed, self._missed = self._missed, 0
                first = self._unread[0]
                return Event(first.seq - 1, "events.missed", self.session_id, first.at, {"count": missed})
            event = self._unread.popleft()
            # It may have been read from the log before it came by itself.
            if self._last is None or event.seq > self._last:
                self._last = event.seq
                return event
        return None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def _numbers(told: Sequence[Append], written: Awaitable[Sequence[int]]) -> Sequence[int | None]:
    try:
        return await written
    except StoreError as error:
        log.error("%d events of %s were not written down: %s", len(told), told[0].session_id, error)
        return [None] * len(told)


def _event(row: EventRow) -> Event:
    return Event(row.seq, row.kind, row.session_id, moment(row.at_ms), row.doc)
