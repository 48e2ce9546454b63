"""How much of one capability a session may use at a time, and in a minute.

Whoever finds it used up waits in line, first come first served, and the wait counts against the call's own timeout.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from cloister.core.limits import CapabilityLimits
from cloister.ports.clock import Clock


class Bucket:
    """Holds a minute's worth of tokens at the most. Each call takes one, and they come back one by one."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._interval = 60.0 / per_minute
        self._size = per_minute
        self._clock = clock
        self._tokens = float(per_minute)
        self._seen = clock.monotonic()
        # Held by the first in line while it waits for its token: asyncio's locks are first come, first served.
        self._line = asyncio.Lock()

    async def take(self) -> None:
        async with self._line:
            while (wait := self._missing()) > 0:
                await self._clock.sleep(wait)
            self._tokens -= 1

    def _missing(self) -> float:
        """Seconds until there is a token."""
        now = self._clock.monotonic()
        self._tokens = min(self._tokens + (now - self._seen) / self._interval, self._size)
        self._seen = now
        missing = 1 - self._tokens
        # Sums of fractions end a hair below one; nobody should wait for a hair.
        return missing * self._interval if missing > 1e-9 else 0.0


class Quota:
    """The quota of one capability in one session."""

    def __init__(self, limits: CapabilityLimits, clock: Clock) -> None:
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._bucket = Bucket(limits.rate_per_min, clock) if limits.rate_per_min is not None else None

    @asynccontextmanager
    async def use(self) -> AsyncGenerator[None]:
        async with self._slots:
            if self._bucket is not None:
                await self._bucket.take()
            yield
