"""Who waits for events. Our own writer tells of its own; while somebody waits, the file is asked about others' too, and
that only when somebody has written to it: looking whether anybody has costs next to nothing.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable

from cloister.core.errors import CloisterError

# How late an event of another process may be noticed: while others write, and when nobody has for a while.
POLL_S = 0.05
_SLOWEST_S = 0.2
_SLOWER = 1.05
# Two writes within one tick of the system's clock may look like one: the file is asked after so many looks at least.
_ASK_EVERY = 10


def mark_of(path: str) -> object:
    """What every commit changes: the size and the time of the log beside the file."""
    try:
        found = os.stat(f"{path}-wal")
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class Watch:
    """`ask` reads the number of the last event in the file. `mark` is another after each write to it, by whomever; None
    if nobody can tell."""

    def __init__(self, ask: Callable[[], Awaitable[int]], mark: Callable[[], object] = lambda: None) -> None:
        self._ask = ask
        self._mark = mark
        self._waiting: dict[asyncio.Future[None], int] = {}
        self._polling: asyncio.Task[None] | None = None

    def tell(self, last: int) -> None:
        """There is an event with this number."""
        for waiter, since in self._waiting.items():
            if since < last and not waiter.done():
                waiter.set_result(None)

    async def wait(self, since: int, timeout_ms: int) -> bool:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Before the first question, or an event that is written meanwhile would be missed.
        self._waiting[waiter] = since
        try:
            self.tell(await self._ask())
            if self._polling is None:
                self._polling = asyncio.create_task(self._poll())
            # Not cancelled when time is up: it may be done by then.
            await asyncio.wait([waiter], timeout=timeout_ms / 1000)
            if not waiter.done():
                return False
            await waiter
        finally:
            del self._waiting[waiter]
            if not self._waiting and self._polling is not None:
                self._polling.cancel()
                self._polling = None
        return True

    def close(self, why: BaseException) -> None:
        """Raised by all who wait."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(why)

    async def _poll(self) -> None:
        marked, looks, pause = None, 0, POLL_S
        while True:
            await asyncio.sleep(pause)
            # Before the question: what is written meanwhile is another mark.
            mark, looks = self._mark(), looks + 1
            is_same = mark is not None and mark == marked
            pause = min(pause * _SLOWER, _SLOWEST_S) if is_same else POLL_S
            if is_same and looks < _ASK_EVERY:
                continue
            marked, looks = mark, 0
            try:
                last = await self._ask()
            except CloisterError as error:
                self.close(error)
                return
            self.tell(last)
