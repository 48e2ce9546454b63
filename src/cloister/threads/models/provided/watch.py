"""The one owner of a request's deadlines: for the whole of it, and for the silence between two signs of life."""

import asyncio
from collections.abc import Callable

from anyio import CancelScope

from cloister.ports.clock import Clock


class Watch:
    """Calls `expire` once, with what took too long. Stands still while nobody waits for the provider."""

    def __init__(self, clock: Clock, whole_ms: int, idle_ms: int, expire: Callable[[str], None]) -> None:
        self._clock = clock
        self._until = clock.monotonic() + whole_ms / 1000
        self._whole_ms = whole_ms
        self._idle_ms = idle_ms
        self._expire = expire
        self._heard_at: float | None = None

    def heard(self) -> None:
        """A sign of life, or the beginning of waiting for one."""
        self._heard_at = self._clock.monotonic()

    def rest(self) -> None:
        """It is not the provider that is waited for."""
        self._heard_at = None

    async def run(self) -> None:
        while True:
            now = self._clock.monotonic()
            if now >= self._until:
                return self._expire(f"no answer within {self._whole_ms} ms")
            silent_until = None if self._heard_at is None else self._heard_at + self._idle_ms / 1000
            if silent_until is not None and now >= silent_until:
                return self._expire(f"nothing was heard for {self._idle_ms} ms")
            # While resting, the silence that follows cannot be over sooner than this.
            nearest = silent_until if silent_until is not None else now + self._idle_ms / 1000
            await self._clock.sleep(max(min(nearest, self._until) - now, 0.001))


async def ended(task: "asyncio.Task[None]", seconds: float) -> None:
    """Cancel a task and see it end, also when whoever waits is being cancelled."""
    task.cancel()
    waiting = asyncio.ensure_future(asyncio.wait([task], timeout=seconds))
    cancelled = False
    # Of both kinds: a cancelled scope would interrupt every wait there is, over and over.
    with CancelScope(shield=True):
        while not waiting.done():
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:
                cancelled = True
    if cancelled:
        raise asyncio.CancelledError
