"""Cells: what observing one costs, what a waiting one holds, how fast ten thousand go on, how late a yield is."""

import subprocess
import sys
import time
from collections.abc import AsyncIterator
from statistics import quantiles
from typing import Any

import pydantic_monty as monty

from bench.measure import Row, typical
from cloister import Cloister, Completed, SessionLimits, Yielded

_LIMITS = SessionLimits(wall_ms=60_000, cpu_ms=60_000, max_external_calls=100_000)
_MONTY_LIMITS: Any = {"max_suspensions": 10**9}
_BURN = {"python": "while True:\n    pass", "typescript": "while (true) {}"}
_YIELD_MS = 30


async def rows() -> AsyncIterator[Row]:
    yield await _exec()
    for row in _many():
        yield row
    for language in ("python", "typescript"):
        yield await _yield_latency(language)


async def _exec() -> Row:
    async with monty.AsyncMonty() as pool, pool.checkout(limits=_MONTY_LIMITS) as baseline:
        async with Cloister(limits=_LIMITS, type_check="off") as cloister:
            session = await cloister.open_session()

            async def ours() -> None:
                seen = await session.exec("1 + 1")
                assert isinstance(seen, Completed), seen

            async def theirs() -> None:
                await baseline.feed_run("1 + 1")

            mine, base = await typical(ours, theirs)
    return Row("exec to Completed of 1 + 1, Python, types off [x AsyncMonty feed_run]", mine / base, 1.7)


def _many() -> list[Row]:
    """In a process of its own, whose memory nothing else has touched."""
    printed = subprocess.check_output([sys.executable, "-m", "bench.many"], text=True)
    kilobytes, ratio = map(float, printed.split())
    return [
        Row("a waiting Python cell, 10,000 on 2 workers [KB of host memory beyond its image]", kilobytes, 15.0),
        Row("deciding 10,000 waiting cells, per cell [x AsyncMonty checkout+load+resume+dump]", ratio, 2.5),
    ]


async def _yield_latency(language: str) -> Row:
    """How much later than asked an observer is told, while both workers compute."""
    late: list[float] = []
    limits = SessionLimits(cpu_ms=120_000, wall_ms=120_000)
    async with Cloister(limits=limits, workers=2) as cloister:
        sessions = [await cloister.open_session(f"s{n}", language=language) for n in range(2)]
        cells = [(await session.exec(_BURN[language], yield_ms=500)).cell_id for session in sessions]
        for _ in range(100):
            for session, cell in zip(sessions, cells, strict=True):
                began = time.perf_counter()
                seen = await session.wait(cell, yield_ms=_YIELD_MS)
                late.append((time.perf_counter() - began) * 1000 - _YIELD_MS)
                assert isinstance(seen, Yielded), seen
        for session, cell in zip(sessions, cells, strict=True):
            await session.terminate(cell)
    p99 = quantiles(late, n=100)[98]
    return Row(f"a yield over its timer while 2 workers compute, {language}, p99 [ms]", p99, 20.0)
