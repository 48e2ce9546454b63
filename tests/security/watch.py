"""Looking at the host from the host while hostile code runs: its event loop, its memory, its processes."""

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.pulse import lived_s

_BEAT_S = 0.005


def resident_bytes(pid: int | str = "self") -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descendants(pid: int | None = None) -> list[int]:
    """Every process below `pid` (this one): children, their children, and those that are dead but not buried."""
    found: list[int] = []
    parents = _parents()
    line = [os.getpid() if pid is None else pid]
    while line:
        above = line.pop()
        children = [child for child, parent in parents.items() if parent == above]
        found += children
        line += children
    return found


def _parents() -> dict[int, int]:
    out: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                # The name of a process may hold spaces and parentheses: what counts stands after the last one.
                out[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return out


async def few_enough(bound: int, *, besides: frozenset[int] = frozenset(), seconds: float = 2.0) -> bool:
    """Whether at most `bound` processes are below this one, `besides` those; one just killed is given time to go."""
    deadline = time.monotonic() + seconds
    while len(set(descendants()) - besides) > bound:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)  # nobody announces that a process of another's was buried
    return True


class Heartbeat:
    """A task that should run every few milliseconds. `longest_gap_ms` is how long the loop kept it waiting, without
    the time in which the loop itself had to wait for a core."""

    def __init__(self) -> None:
        self.longest_gap_ms = 0.0
        self.peak_bytes = 0
        self.began_bytes = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Heartbeat":
        self.began_bytes = self.peak_bytes = resident_bytes()
        self._task = asyncio.create_task(self._beat())
        await asyncio.sleep(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        await asyncio.sleep(_BEAT_S)  # one beat after the end, or a stall at the very end is not seen
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    @property
    def grown_mb(self) -> int:
        return (self.peak_bytes - self.began_bytes) >> 20

    async def _beat(self) -> None:
        # A thread that holds the loop up by computing may itself be short of a core: then it is what the process has
        # computed that says how long.
        last, last_cpu = lived_s(), time.process_time()
        while True:
            await asyncio.sleep(_BEAT_S)
            now, now_cpu = lived_s(), time.process_time()
            gap_s = min(now - last - _BEAT_S, now_cpu - last_cpu)
            self.longest_gap_ms = max(self.longest_gap_ms, gap_s * 1000)
            self.peak_bytes = max(self.peak_bytes, resident_bytes())
            last, last_cpu = now, now_cpu
