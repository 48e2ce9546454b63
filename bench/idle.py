"""`python -m bench.idle LANGUAGE`: prints the KB of host memory that an idle session takes, in a process of its own.

The larger of two measurements: how much the process grew (which free room in its heap can hide) and how much Python
allocated (which does not see what native code holds).
"""

import asyncio
import gc
import sys
import tracemalloc

from bench.measure import resident_bytes
from cloister import Cloister, Session, SessionLimits

COUNT = 1000
BINDING = {"python": "x = 1", "typescript": "let x = 1"}


async def measure(language: str) -> float:
    async with Cloister(limits=SessionLimits(wall_ms=60_000), workers=2, type_check="off") as cloister:
        sessions: list[Session] = []

        async def open_some(count: int, name: str) -> None:
            for n in range(count):
                sessions.append(await cloister.open_session(f"{name}_{n}", language=language))
                await sessions[-1].run(BINDING[language])
            gc.collect()

        await open_some(50, "warm")
        before = resident_bytes()
        await open_some(COUNT, "idle")
        grown = resident_bytes() - before
        tracemalloc.start()
        traced, _ = tracemalloc.get_traced_memory()
        await open_some(COUNT, "traced")
        allocated = tracemalloc.get_traced_memory()[0] - traced
        return max(grown, allocated) / COUNT / 1024


if __name__ == "__main__":
    sys.stdout.write(f"{asyncio.run(measure(sys.argv[1])):.3f}\n")
