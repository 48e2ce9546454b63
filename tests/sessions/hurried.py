"""A clock for which nothing takes long: what a host does from time to time happens all the time."""

import asyncio

from cloister.ports.clock import SystemClock


class HurriedClock(SystemClock):
    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))
