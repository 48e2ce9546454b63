"""Time as the kernel sees it: given, never taken, so that tests need no sleeps."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970, for stamps and ids."""
        ...

    def monotonic(self) -> float:
        """Seconds that only go forward, for durations and deadlines."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # Asked several times for every program.
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def moment(now_ms: int) -> datetime:
    """A clock's milliseconds as a datetime in UTC."""
    return datetime.fromtimestamp(now_ms / 1000, UTC)
