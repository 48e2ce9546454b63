"""Who waits for events. Our own writer tells of its own; while somebody waits, the file is asked about others' too."""

import asyncio
from collections.abc import Awaitable, Callable

from cloister.core.errors import CloisterError

# How late an event of another process may be noticed.
POLL_S = 0.05


class Watch:
    """`ask` reads the number of the last event in the file."""

    def __init__(self, ask: Callable[[], Awaitable[int]]) -> None:
        self._ask = ask
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
        while True:
            await asyncio.sleep(POLL_S)
            try:
                last = await self._ask()
            except CloisterError as error:
                self.close(error)
                return
            self.tell(last)
