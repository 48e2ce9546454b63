"""Sessions that come and go leave nothing: file descriptors, processes, threads and memory stay where they were."""

import gc
import os
import threading
from dataclasses import dataclass

import pytest

from cloister import Cloister, SessionLimits
from tests.security.watch import descendants, resident_bytes

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WARM_UP = 500
CYCLES = 10_000
LIMITS = SessionLimits(memory_mb=32)
GROWN_MB = 20


@dataclass(frozen=True, slots=True)
class Footprint:
    descriptors: int
    processes: int
    threads: int
    resident_mb: float
    children_mb: float

    @classmethod
    def now(cls) -> "Footprint":
        gc.collect()
        children = descendants()
        return cls(
            descriptors=len(os.listdir("/proc/self/fd")),
            processes=len(children),
            threads=threading.active_count(),
            resident_mb=resident_bytes() / (1 << 20),
            children_mb=sum(resident_bytes(pid) for pid in children) / (1 << 20),
        )


async def _cycle(cloister: Cloister, language: str, times: int) -> None:
    for number in range(times):
        async with await cloister.open_session(f"s{number}", language=language, limits=LIMITS) as session:
            result = await session.run("1 + 1")
            assert result.result == 2, result.error


@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", ["python", "typescript"])
async def test_ten_thousand_sessions_leave_nothing_behind(language: str) -> None:
    async with Cloister(workers=2, snapshot_key=b"k" * 32) as cloister:
        await _cycle(cloister, language, WARM_UP)
        before = Footprint.now()
        await _cycle(cloister, language, CYCLES)
        after = Footprint.now()
    told = f"{before} -> {after}"
    assert abs(after.descriptors - before.descriptors) <= 2, told
    assert abs(after.processes - before.processes) <= 1, told
    assert abs(after.threads - before.threads) <= 1, told
    assert after.resident_mb - before.resident_mb < GROWN_MB, told
    assert after.children_mb - before.children_mb < 2 * GROWN_MB, told


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("language", "attack"), [("python", "while True: pass"), ("typescript", "while (true) {}")])
async def test_hundreds_of_killed_workers_leave_nothing_behind(language: str, attack: str) -> None:
    async with Cloister(workers=2, snapshot_key=b"k" * 32) as cloister:
        before = await _killed(cloister, language, attack, 20)
        after = await _killed(cloister, language, attack, 200)
    told = f"{before} -> {after}"
    assert abs(after.descriptors - before.descriptors) <= 4, told
    assert abs(after.processes - before.processes) <= 1, told
    assert abs(after.threads - before.threads) <= 2, told
    assert after.resident_mb - before.resident_mb < GROWN_MB, told


async def _killed(cloister: Cloister, language: str, attack: str, times: int) -> Footprint:
    for number in range(times):
        async with await cloister.open_session(
            f"k{number}", language=language, limits=SessionLimits(cpu_ms=20, wall_ms=2000, memory_mb=32)
        ) as session:
            assert (await session.run(attack)).status == "timeout"
    await _cycle(cloister, language, 5)
    return Footprint.now()
