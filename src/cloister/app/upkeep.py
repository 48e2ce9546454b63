"""Upkeep: what a host with a store does again and again while it is open, without anybody asking.

It goes on with what other hosts have left, takes the answers that others give to its questions, and keeps the store
from growing for ever. A store that is in trouble is logged, and asked again the next time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from cloister.app.letterbox import Letterbox
from cloister.app.recovery import Recovery
from cloister.core.errors import CloisterError
from cloister.core.event import EventRetention
from cloister.ports.clock import Clock
from cloister.sessions.ledger import Ledger

log = logging.getLogger("cloister.app")
# So often within the time of a lease.
_LOOKS = 6
# Answers that are given within a moment are taken together, however much else happens in the store.
_MOMENT_MS = 100


class Upkeep:
    """`also`: what others have left besides."""

    def __init__(
        self,
        ledger: Ledger,
        recovery: Recovery,
        letterbox: Letterbox,
        retention: EventRetention,
        clock: Clock,
        also: Callable[[], Awaitable[object]],
    ) -> None:
        self._also = also
        self._ledger = ledger
        self._recovery = recovery
        self._letterbox = letterbox
        self._retention = retention
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        rounds = (
            ("taking over what others have left", self._ledger.lease_ms / _LOOKS, self._look),
            ("taking the answers of others", _MOMENT_MS, self._letterbox.look),
            ("keeping the store small", self._retention.every_ms, self._tidy),
        )
        self._tasks = [loop.create_task(self._again(*one), name=f"cloister: {one[0]}") for one in rounds]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _look(self) -> None:
        await self._recovery.look()
        await self._also()

    async def _tidy(self) -> None:
        keep, store = self._retention, self._ledger.store
        if keep.max_age_ms is not None or keep.max_events is not None:
            before_ms = self._clock.now_ms() - keep.max_age_ms if keep.max_age_ms is not None else None
            await store.prune(events_before_ms=before_ms, keep_events=keep.max_events)
        await store.collect()

    async def _again(self, what: str, every_ms: float, work: Callable[[], Awaitable[object]]) -> None:
        while True:
            await self._clock.sleep(every_ms / 1000)
            try:
                await work()
            except CloisterError as error:
                log.warning("%s: not this time: %s", what, error)
            # Containment: nobody awaits this task, and the next time may go better.
            except Exception:
                log.exception("%s broke", what)
