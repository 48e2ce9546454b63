"""A tool that a test opens when it wants to: calls wait behind it, and tell when they have come."""

import asyncio

from cloister import CapabilityLimits, RunResult, Tool


class Door:
    """`knock(n)` waits until the door is open and gives `n` back."""

    def __init__(self, *, name: str = "knock", idempotent: bool = True) -> None:
        self.arrived: list[int] = []
        self.cancelled: list[int] = []
        self._came = asyncio.Condition()
        self._open = asyncio.Event()
        self.tool = Tool(
            self._knock,
            name=name,
            idempotent=idempotent,
            limits=CapabilityLimits(timeout_ms=60_000, concurrency=100),
            side_effect="write",
        )

    async def _knock(self, n: int = 0) -> int:
        async with self._came:
            self.arrived.append(n)
            self._came.notify_all()
        try:
            await self._open.wait()
        except asyncio.CancelledError:
            self.cancelled.append(n)
            raise
        return n

    def open(self) -> None:
        self._open.set()

    async def until_knocked(self, times: int = 1) -> None:
        async with self._came:
            await asyncio.wait_for(self._came.wait_for(lambda: len(self.arrived) >= times), 30)


def value(result: RunResult) -> object:
    """The result of a good run; its error otherwise, so that a failing test shows it."""
    return result.result if result.ok else result.error


def codes(result: RunResult) -> list[str]:
    return [str(found.code) for found in result.diagnostics]
