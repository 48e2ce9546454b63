"""How a thing is timed: interleaved with its baseline, because these numbers only mean something side by side."""

import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

Work = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Row:
    """One promise. `measured` and `target` are in the unit that the name ends with; at most the target is good."""

    name: str
    measured: float
    target: float

    @property
    def ok(self) -> bool:
        return self.measured <= self.target


async def typical(*works: Work, rounds: int = 12, samples: int = 25, warm: int = 10) -> list[float]:
    """The typical seconds of each: the mean of its faster half.

    They are timed in turns, block by block, so that a noisy moment hits all of them alike. What slows a run down here
    is other work on the machine, which comes and goes in milliseconds; the slower half says more about that.
    """
    times: list[list[float]] = [[] for _ in works]
    for work in works:
        for _ in range(warm):
            await work()
    for _ in range(rounds):
        for work, spent in zip(works, times, strict=True):
            await work()
            for _ in range(samples):
                began = time.perf_counter()
                await work()
                spent.append(time.perf_counter() - began)
    return [statistics.mean(sorted(spent)[: max(len(spent) // 2, 1)]) for spent in times]


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
