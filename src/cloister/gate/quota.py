"""Stage 7: how much of one capability a session may use at a time, and in a minute.

There is one line, first come first served. Whoever is first in it goes when there is a slot *and* a token, and
takes both in that moment: those who wait hold neither, so nobody who waits for a token keeps a slot from working,
and tokens cannot be hoarded in the line. Being cancelled in line therefore costs nobody anything.

What is promised, for every stretch of t seconds: at most `concurrency` calls run at any moment of it, and at most
`rate_per_min` + t * `rate_per_min` / 60 calls start in it (a full bucket, and what comes in meanwhile).
"""

import asyncio

from cloister.core.limits import CapabilityLimits
from cloister.ports.clock import Clock


class Bucket:
    """A minute's worth of tokens at the most, full at the beginning. They come back one by one."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._interval = 60.0 / per_minute
        self._size = float(per_minute)
        self._clock = clock
        self._tokens = self._size
        self._seen = clock.monotonic()

    def missing(self) -> float:
        """Seconds until there is a token; 0 when there is one."""
        now = self._clock.monotonic()
        self._tokens = min(self._tokens + (now - self._seen) / self._interval, self._size)
        self._seen = now
        lack = 1.0 - self._tokens
        # Sums of fractions end a hair below one; nobody should wait for a hair.
        return lack * self._interval if lack > 1e-9 else 0.0

    def take(self) -> None:
        """Only after `missing` was 0. A hair that was not there yet is owed."""
        self._tokens -= 1.0


class Quota:
    """The quota of one capability in one session. Every `enter` that returns is followed by one `leave`."""

    def __init__(self, limits: CapabilityLimits, clock: Clock) -> None:
        self._slots = limits.concurrency
        self._bucket = Bucket(limits.rate_per_min, clock) if limits.rate_per_min is not None else None
        self._clock = clock
        self._running = 0
        self._waiting = 0
        # Held by the first in line until it goes: asyncio's locks are first come, first served.
        self._line = asyncio.Lock()
        # What the first in line waits for when there is no slot.
        self._vacancy: asyncio.Future[None] | None = None

    @property
    def running(self) -> int:
        return self._running

    @property
    def waiting(self) -> int:
        return self._waiting

    def try_enter(self) -> bool:
        """Enter if that takes no waiting, which it does when anybody waits already."""
        if self._waiting or self._running >= self._slots:
            return False
        if self._bucket is not None and self._bucket.missing() > 0:
            return False
        self._take()
        return True

    async def enter(self) -> None:
        if self.try_enter():
            return
        self._waiting += 1
        try:
            async with self._line:
                await self._turn()
                # Nothing is awaited after this: a cancellation finds the call in line or gone in, never between.
                self._take()
        finally:
            self._waiting -= 1

    def leave(self) -> None:
        self._running -= 1
        if self._vacancy is not None and not self._vacancy.done():
            self._vacancy.set_result(None)

    async def _turn(self) -> None:
        """For the first in line: returns when there is a slot and a token."""
        while True:
            if self._running >= self._slots:
                self._vacancy = asyncio.get_running_loop().create_future()
                await self._vacancy
            elif self._bucket is not None and (wait := self._bucket.missing()) > 0:
                await self._clock.sleep(wait)
            else:
                return

    def _take(self) -> None:
        self._running += 1
        if self._bucket is not None:
            self._bucket.take()
