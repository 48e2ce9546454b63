import asyncio
import os
import signal
from pathlib import Path

import pytest

from cloister.core.codes import Code
from cloister.core.errors import EngineUnavailable
from cloister.core.limits import SessionLimits
from cloister.engines.quickjs import pool
from cloister.engines.quickjs.engine import QuickJSEngine
from cloister.engines.quickjs.process import WorkerProcess
from cloister.ports.engine import Failed, Finished, Program, Turn

pytestmark = pytest.mark.anyio
LIMITS = SessionLimits()


def ignore(_stream: str, _text: str) -> None:
    pass


TURN = Turn(now_ms=0, wall_ms=20_000, cpu_ms=10_000, sink=ignore)


def children() -> set[int]:
    """Processes of ours, zombies included."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == os.getpid():
                found.add(int(entry.name))
    return found


async def test_no_process_is_left_when_the_engine_is_left() -> None:
    before = children()
    async with QuickJSEngine(capacity=3) as other:
        opened = [await other.open(LIMITS) for _ in range(2)]
        assert len({interpreter.pid for interpreter in opened}) == 2
    assert children() == before


async def test_no_process_is_left_after_an_exception() -> None:
    async def fail() -> None:
        async with QuickJSEngine() as engine:
            await engine.open(LIMITS)
            raise ZeroDivisionError

    before = children()
    with pytest.raises(ZeroDivisionError):
        await fail()
    assert children() == before


async def test_no_process_is_left_when_entering_and_leaving_at_once() -> None:
    before = children()
    async with QuickJSEngine():
        pass
    assert children() == before


async def test_no_process_is_left_after_a_cancelled_step() -> None:
    before = children()
    async with QuickJSEngine() as engine:
        interpreter = await engine.open(LIMITS)
        task = asyncio.ensure_future(interpreter.start(Program("while (true) {}"), TURN))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await interpreter.worker.ended
        await interpreter.close()
        assert isinstance(await (await engine.open(LIMITS)).start(Program("1"), TURN), Finished)
    assert children() == before


async def test_worker_serves_the_next_session_with_nothing_of_the_last() -> None:
    async with QuickJSEngine(capacity=1) as engine:
        first = await engine.open(LIMITS)
        pid = first.pid
        await first.start(Program("globalThis.secret = 'mine'; Array.prototype.map = null"), TURN)
        await first.close()
        second = await engine.open(LIMITS)
        assert second.pid == pid
        step = await second.start(Program("[typeof secret, typeof [].map]"), TURN)
        assert isinstance(step, Finished)
        assert step.value == ["undefined", "function"]


async def test_worker_is_replaced_after_its_share_of_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_SESSIONS", 2)
    async with QuickJSEngine(capacity=1) as engine:
        pids: list[int | None] = []
        for _ in range(4):
            interpreter = await engine.open(LIMITS)
            pids.append(interpreter.pid)
            await interpreter.close()
    assert pids[0] == pids[1] != pids[2] == pids[3]


async def test_worker_that_grew_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async with QuickJSEngine(capacity=1) as engine:
        first = await engine.open(LIMITS)
        pid = first.pid
        monkeypatch.setattr(pool, "_RESIDENT_BYTES", 1)
        await first.close()
        assert (await engine.open(LIMITS)).pid != pid


async def test_idle_worker_that_died_is_not_handed_out() -> None:
    async with QuickJSEngine(capacity=1) as engine:
        first = await engine.open(LIMITS)
        worker = first.worker
        await first.close()
        os.kill(worker.pid, signal.SIGKILL)
        await worker.ended
        second = await engine.open(LIMITS)
        assert isinstance(await second.start(Program("1"), TURN), Finished)


async def test_worker_killed_under_a_step_is_a_crash_and_the_engine_goes_on() -> None:
    async with QuickJSEngine(capacity=1) as engine:
        first = await engine.open(LIMITS)
        heard = asyncio.Event()
        turn = Turn(0, 20_000, 10_000, lambda _stream, _text: heard.set())
        task = asyncio.ensure_future(first.start(Program("console.log('on'); while (true) {}"), turn))
        await heard.wait()
        os.kill(first.worker.pid, signal.SIGKILL)
        step = await task
        assert isinstance(step, Failed)
        assert (step.error.code, step.fatal) == (Code.ENGINE_CRASHED, True)
        await first.close()
        assert isinstance(await (await engine.open(LIMITS)).start(Program("1"), TURN), Finished)


async def test_session_beyond_the_capacity_waits_for_a_place() -> None:
    async with QuickJSEngine(capacity=1) as engine:
        first = await engine.open(LIMITS)
        waiting = asyncio.ensure_future(engine.open(LIMITS))
        await first.start(Program("1"), TURN)
        assert not waiting.done()
        await first.close()
        assert (await waiting).pid is not None


async def test_cancelled_wait_for_a_place_takes_none() -> None:
    async with QuickJSEngine(capacity=1) as engine:
        first = await engine.open(LIMITS)
        waiting = asyncio.ensure_future(engine.open(LIMITS))
        await first.start(Program("1"), TURN)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await first.close()
        assert (await engine.open(LIMITS)).pid is not None


async def test_closing_twice_or_after_the_engine_is_fine() -> None:
    async with QuickJSEngine() as engine:
        interpreter = await engine.open(LIMITS)
    await interpreter.close()
    await interpreter.close()
    with pytest.raises(EngineUnavailable):
        await engine.open(LIMITS)


async def test_who_asks_again_as_soon_as_no_worker_started_is_told_so_again() -> None:
    starts = 0

    async def none() -> WorkerProcess:
        nonlocal starts
        starts += 1
        raise OSError("no more processes")

    made = pool.Pool(none, capacity=4)

    async def insist() -> None:
        # Without a round of the event loop in between: the starts that failed are hardly over.
        for _ in range(3):
            with pytest.raises(EngineUnavailable, match="no more processes"):
                await made.acquire()

    async with asyncio.timeout(30):
        await asyncio.gather(insist(), insist())
    assert starts >= 3
    await made.close()
