"""The warden, over real processes: it kills what overstays, and only that."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from cloister.engines.warden import CPU_GRACE_MS, Verdict, Warden, verdict_error

SPIN = "print(flush=True)\nwhile True: pass"
WAIT = "import sys; print(flush=True); sys.stdin.read()"
GROW = "print(flush=True); input(); a = bytearray(50_000_000); print(flush=True); input()"

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a Python process and waits until it is under way; kills what is left in the end."""
    started: list[subprocess.Popen[str]] = []

    def run(code: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


async def _until_dead(process: "subprocess.Popen[str]") -> int:
    return await asyncio.wait_for(asyncio.to_thread(process.wait), 20)


@pytest.mark.anyio
async def test_process_that_outlives_its_wall_time_is_killed(start: Start) -> None:
    process = start(WAIT)
    warden = Warden(process.pid)
    warden.watch(wall_ms=20, cpu_ms=60_000)
    assert await _until_dead(process) == -signal.SIGKILL
    assert warden.verdict == "TIMEOUT_WALL"
    warden.close()


@pytest.mark.anyio
async def test_process_that_uses_too_much_processor_time_is_killed(start: Start) -> None:
    process = start(SPIN)
    warden = Warden(process.pid)
    warden.watch(wall_ms=60_000, cpu_ms=20)
    assert await _until_dead(process) == -signal.SIGKILL
    assert warden.verdict == "TIMEOUT_CPU"
    warden.close()


@pytest.mark.anyio
async def test_process_that_only_waits_uses_no_processor_time_and_lives(start: Start) -> None:
    process = start(WAIT)
    warden = Warden(process.pid)
    warden.watch(wall_ms=60_000, cpu_ms=1)
    # Twice as long as its whole allowance: a warden that counted time instead of work would have killed it.
    await asyncio.sleep(2 * (1 + CPU_GRACE_MS) / 1000)
    assert warden.alive
    assert warden.verdict is None
    warden.close()


@pytest.mark.anyio
async def test_process_is_left_alone_once_its_step_is_over(start: Start) -> None:
    process = start(WAIT)
    warden = Warden(process.pid)
    warden.watch(wall_ms=20, cpu_ms=60_000)
    warden.rest()
    await asyncio.sleep(0.06)
    assert process.poll() is None
    assert warden.verdict is None
    warden.close()


@pytest.mark.anyio
async def test_second_watch_takes_the_place_of_the_first(start: Start) -> None:
    process = start(WAIT)
    warden = Warden(process.pid)
    warden.watch(wall_ms=20, cpu_ms=60_000)
    warden.watch(wall_ms=60_000, cpu_ms=60_000)
    await asyncio.sleep(0.06)
    assert process.poll() is None
    warden.close()


@pytest.mark.anyio
async def test_new_step_has_no_verdict_of_the_one_before(start: Start) -> None:
    process = start(WAIT)
    warden = Warden(process.pid)
    warden.kill("INTERRUPTED")
    warden.watch(wall_ms=60_000, cpu_ms=60_000)
    assert warden.verdict is None
    warden.close()


def test_first_verdict_stands(start: Start) -> None:
    warden = Warden(start(WAIT).pid)
    warden.kill("INTERRUPTED")
    warden.kill("TIMEOUT_WALL")
    assert warden.verdict == "INTERRUPTED"
    warden.close()


def test_killing_a_process_that_is_gone_is_fine(start: Start) -> None:
    process = start(WAIT)
    warden = Warden(process.pid)
    process.kill()
    process.wait()
    warden.kill("INTERRUPTED")
    assert not warden.alive
    warden.close()


def test_killing_after_closing_hits_nobody(start: Start) -> None:
    process = start(WAIT)
    warden = Warden(process.pid)
    warden.close()
    warden.kill("INTERRUPTED")
    assert process.poll() is None


def test_closing_twice_is_fine_and_gives_the_descriptors_back(start: Start) -> None:
    process = start(WAIT)
    before = set(os.listdir("/proc/self/fd"))
    warden = Warden(process.pid)
    assert set(os.listdir("/proc/self/fd")) > before
    warden.close()
    warden.close()
    assert set(os.listdir("/proc/self/fd")) == before


def test_peak_of_memory_is_seen(start: Start) -> None:
    process = start(GROW)
    assert process.stdin is not None
    assert process.stdout is not None
    warden = Warden(process.pid)
    before = warden.peak_bytes()
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()
    assert before > 0
    assert warden.peak_bytes() >= before + 40_000_000
    warden.close()


def test_processor_time_of_a_process_that_is_gone_is_zero(start: Start) -> None:
    process = start(WAIT)
    warden = Warden(process.pid)
    process.kill()
    process.wait()
    assert warden.cpu_ms() == 0.0
    warden.close()


@pytest.mark.parametrize("verdict", ["TIMEOUT_WALL", "TIMEOUT_CPU", "INTERRUPTED"])
def test_verdict_becomes_an_error_of_its_code(verdict: Verdict) -> None:
    error = verdict_error(verdict)
    assert error.code == verdict
    assert error.message
    # What a program can do about a limit is said; about its host it can do nothing.
    assert bool(error.hint) is verdict.startswith("TIMEOUT")
