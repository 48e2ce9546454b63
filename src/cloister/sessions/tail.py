"""The events of all sessions in a store, in the order of their numbers, whoever wrote them.

They are read from the log and from nowhere else: what comes is told when it is safe, without a gap and without a
repetition, and a reader that is slow makes nobody wait.
"""

import asyncio
from collections import deque

from cloister.core.errors import StoreUnavailable
from cloister.core.event import Event
from cloister.ports.clock import moment
from cloister.ports.rows import EventRow
from cloister.ports.store import Store

_PAGE = 500
# Nothing depends on it: whoever waits is woken by what is written.
_LONG_MS = 60_000


class EventTail:
    """`async for event in cloister.events()`. Ends with the host; `aclose` ends it before."""

    def __init__(self, store: Store, since: int) -> None:
        self._store = store
        self._last = since
        self._found: deque[EventRow] = deque()
        self._over = asyncio.Event()

    def end(self) -> None:
        self._over.set()

    def __aiter__(self) -> "EventTail":
        return self

    async def __anext__(self) -> Event:
        while not self._found:
            if self._over.is_set():
                raise StopAsyncIteration
            try:
                self._found.extend(await self._store.events(since=self._last, limit=_PAGE))
                if not self._found:
                    await self._wait()
            except StoreUnavailable:
                # One that has ended had no more to tell; any other reader must know.
                if not self._over.is_set():
                    raise
        row = self._found.popleft()
        self._last = row.seq
        return Event(row.seq, row.kind, row.session_id, moment(row.at_ms), row.doc)

    async def aclose(self) -> None:
        self.end()

    async def __aenter__(self) -> "EventTail":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def _wait(self) -> None:
        """Until there may be more, or there will be no more."""
        more = asyncio.ensure_future(self._store.wait_for_events(self._last, _LONG_MS))
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait([more, over], return_when=asyncio.FIRST_COMPLETED)
            if more.done():
                await more
        finally:
            more.cancel()
            over.cancel()
            await asyncio.gather(more, over, return_exceptions=True)
