"""Events on their way to whoever listens: numbered, stamped, and never in anybody's way.

Nothing is made of an event that nobody hears. A reader that is slow has a bounded line of its own: it misses the
oldest, and is told how many; no cell ever waits for it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from cloister.core.errors import InvalidInput
from cloister.core.event import Event
from cloister.ports.clock import Clock, moment

log = logging.getLogger("cloister.sessions")
EventListener: TypeAlias = Callable[[Event], None]
_MOST_UNREAD = 10_000


class Events:
    """The events of all sessions of a host. Event loop only."""

    def __init__(self, clock: Clock, listener: EventListener | None = None) -> None:
        if listener is not None and not callable(listener):
            raise InvalidInput(f"on_event is a function that takes an event, not {type(listener).__name__}")
        self._clock = clock
        self._listener = listener
        self._seq = 0
        self._streams: dict[str, set[EventStream]] = {}

    def heard(self, session_id: str) -> bool:
        """Whether anybody listens to that session."""
        return self._listener is not None or session_id in self._streams

    def emit(self, kind: str, session_id: str, data: Mapping[str, Any]) -> None:
        if not self.heard(session_id):
            return
        self._seq += 1
        event = Event(self._seq, kind, session_id, moment(self._clock.now_ms()), data)
        for stream in self._streams.get(session_id, ()):
            stream.push(event)
        if self._listener is not None:
            try:
                self._listener(event)
            # Containment: a listener is the host's; no call may fail because it does.
            except Exception:
                log.exception("the listener of events failed on %s", kind)

    def subscribe(self, session_id: str, *, most_unread: int = _MOST_UNREAD) -> "EventStream":
        """What happens in that session from now on."""
        stream = EventStream(session_id, most_unread, self._leave)
        self._streams.setdefault(session_id, set()).add(stream)
        return stream

    def close(self, session_id: str) -> None:
        """The session is over: its readers come to their end."""
        for stream in self._streams.pop(session_id, ()):
            stream.end()

    def _leave(self, stream: "EventStream") -> None:
        left = self._streams.get(stream.session_id)
        if left is not None:
            left.discard(stream)
            if not left:
                del self._streams[stream.session_id]


class EventStream:
    """`async for event in session.events()`. Ends with the session; `aclose` ends it before."""

    def __init__(self, session_id: str, most_unread: int, on_close: Callable[["EventStream"], None]) -> None:
        self.session_id = session_id
        self._unread: deque[Event] = deque(maxlen=most_unread)
        self._missed = 0
        self._on_close = on_close
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
        while not self._unread:
            if self._ended:
                raise StopAsyncIteration
            if self._waiter is not None:
                raise InvalidInput("these events are read already: ask for another stream")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._missed:
            missed, self._missed = self._missed, 0
            first = self._unread[0]
            return Event(first.seq - 1, "events.missed", self.session_id, first.at, {"count": missed})
        return self._unread.popleft()

    async def aclose(self) -> None:
        self._on_close(self)
        self.end()

    async def __aenter__(self) -> "EventStream":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
