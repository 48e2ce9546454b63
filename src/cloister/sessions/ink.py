"""Writes of a host's sessions on their way to the store, each under the fence of its session.

What need not be safe by itself is held for a moment, so that it shares the commit of what comes next: a program's wait
that leads to nothing but reads, say. The order within a session is kept: whatever is held goes first. Events, for which
only their own order counts, go along behind the next write of any session.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from cloister.core.errors import StoreError
from cloister.ports.rows import Batch, Write
from cloister.ports.store import Store
from cloister.sessions.fences import Fences

# A program that waits for longer is safe where it waits.
_HOLD_SECONDS = 0.02
# Events that no write has taken along go by themselves after this.
_ALONG_SECONDS = 0.01
log = logging.getLogger("cloister.sessions")


class Ink:
    def __init__(self, store: Store, fences: Fences) -> None:
        self._store = store
        self._fences = fences
        self._held: dict[str, list[Write]] = {}
        # Who must know when what is held for a session is refused.
        self._lost: dict[str, list[Callable[[], None]]] = {}
        self._heeding: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        # Batches that go with the next write, and who waits for them.
        self._along: list[tuple[Batch, asyncio.Future[Awaitable[tuple[int, ...]]]]] = []
        self._along_timer: asyncio.TimerHandle | None = None

    def write(self, session_id: str, *writes: Write) -> Awaitable[tuple[int, ...]]:
        """Done when these, and all before them, are safe."""
        self.release(session_id)
        written = self._store.write(Batch(writes, self._fences.get(session_id)))
        # Behind it: somebody waits for the write, and nobody for what goes along.
        self.send_along()
        return written

    def along(self, session_id: str, *writes: Write) -> "asyncio.Future[Awaitable[tuple[int, ...]]]":
        """Have these written with whatever is written next, of any session, or in a moment: a commit of their own would
        be in the way of that. Done when they are on their way, with what to wait for then."""
        loop = asyncio.get_running_loop()
        sent: asyncio.Future[Awaitable[tuple[int, ...]]] = loop.create_future()
        self._along.append((Batch(writes, self._fences.get(session_id)), sent))
        if self._along_timer is None:
            self._along_timer = loop.call_later(_ALONG_SECONDS, self.send_along)
        return sent

    def send_along(self) -> None:
        """What would go along goes now."""
        if self._along_timer is not None:
            self._along_timer.cancel()
            self._along_timer = None
        batches, self._along = self._along, []
        for batch, sent in batches:
            written = self._store.write(batch)
            # Who stopped waiting has not stopped the write.
            if not sent.done():
                sent.set_result(written)

    def holds(self, session_id: str) -> bool:
        """Whether the session is ours to write to."""
        return self._fences.get(session_id) is not None

    def hold(self, session_id: str, *writes: Write, lost: Callable[[], None] | None = None) -> "Held":
        """These go with what comes next, or in a moment; or at once, for one who waits for them. `lost` is called when
        they are refused."""
        self._held.setdefault(session_id, []).extend(writes)
        if lost is not None:
            self._lost.setdefault(session_id, []).append(lost)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_HOLD_SECONDS, self.release_all)
        return Held(self, session_id)

    def release(self, session_id: str) -> None:
        """Hand over what is held of a session that is written to, or let go."""
        held = self._held.pop(session_id, None)
        if held:
            written = self._store.write(Batch(tuple(held), self._fences.get(session_id)))
            for lost in self._lost.pop(session_id, ()):
                self.heed(written, lost)

    def heed(self, written: Awaitable[object], lost: Callable[[], None]) -> None:
        """Call `lost` when it turns out that this was not written."""
        heeding = asyncio.get_running_loop().create_task(_heed(written, lost))
        self._heeding.add(heeding)
        heeding.add_done_callback(self._heeding.discard)

    def release_all(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for session_id in list(self._held):
            self.release(session_id)
        self.send_along()


async def _heed(written: Awaitable[object], lost: Callable[[], None]) -> None:
    try:
        await written
    except StoreError as error:
        log.error("changes were not written down: %s", error)
        lost()


class Held:
    """What is held, for one who must know that it is safe."""

    def __init__(self, ink: Ink, session_id: str) -> None:
        self._ink = ink
        self._session_id = session_id

    def __await__(self) -> Generator[Any, None, object]:
        return self._ink.write(self._session_id).__await__()
