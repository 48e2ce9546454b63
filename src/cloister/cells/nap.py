"""When a program has waited for long enough to sleep. One timer for a whole cell, not one for each of its calls."""

import asyncio
from collections.abc import Awaitable, Callable


class Nap:
    def __init__(self, after: float, fall_asleep: Callable[[], Awaitable[None]]) -> None:
        self._after = after
        self._fall_asleep = fall_asleep
        self._loop = asyncio.get_running_loop()
        # When the wait began that is going on; None while the program runs.
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._falling: asyncio.Future[None] | None = None

    def begin(self) -> None:
        """The program waits from now on."""
        self._since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._after, self._look)

    def end(self) -> None:
        """The wait is over. The timer stays: most waits are short, and setting one costs more than looking in vain."""
        self._since = None

    async def over(self) -> None:
        """The cell is over. Returns when nobody is falling asleep any more, also if it is cancelled meanwhile."""
        self._since = None
        if self._timer is not None:
            self._timer.cancel()
        cancelled = False
        while self._falling is not None and not self._falling.done():
            try:
                await asyncio.shield(self._falling)
            except asyncio.CancelledError:
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError

    def _look(self) -> None:
        self._timer = None
        if self._since is None:
            return
        left = self._since + self._after - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        elif self._falling is None or self._falling.done():
            self._falling = asyncio.ensure_future(self._fall_asleep())
