"""The worker that looks at programs without running them, apart from those that hold sessions.

A cell is hostile text: parsing it may take longer than it may, and then the process is killed. A session must
not die of being asked whether a program is fine, so its own worker is not the one that looks.
"""

import asyncio
from collections.abc import Awaitable, Callable

from cloister.engines.quickjs import frames
from cloister.engines.quickjs.process import WorkerLost, WorkerProcess, bury
from cloister.engines.warden import Verdict
from cloister.ports.engine import Turn


class Overdue(Exception):
    """Looking at the program took longer than the program itself may take."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict)
        self.verdict: Verdict = verdict


class Checker:
    """Starts its worker when it is first needed, and again after it was killed."""

    def __init__(self, spawn: Callable[[], Awaitable[WorkerProcess]]) -> None:
        self._spawn = spawn
        self._worker: WorkerProcess | None = None
        # One request at a time is the worker's protocol, and two callers must not start two workers.
        self._one = asyncio.Lock()

    async def examine(self, frame: bytes, turn: Turn) -> bytes:
        """The worker's answer. Raises `Overdue`, or `WorkerLost` when it died of something else."""
        async with self._one:
            if self._worker is None or not self._worker.alive:
                self._worker = await self._spawn()
            warden = self._worker.warden
            warden.watch(turn.wall_ms, turn.cpu_ms)
            try:
                _, payload = await self._worker.ask(frame, frames.CHECKED)
            except WorkerLost:
                if warden.verdict is not None:
                    raise Overdue(warden.verdict) from None
                raise
            finally:
                warden.rest()
            return payload

    def distrust(self, why: str) -> None:
        if self._worker is not None:
            self._worker.misbehaved(why)

    async def close(self) -> None:
        async with self._one:
            if self._worker is not None:
                await bury(self._worker)
