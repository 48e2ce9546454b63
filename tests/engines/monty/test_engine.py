"""What is the Python engine's own, beyond the conformance suite: its processes, its bytes, its checker."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cloister.core.errors import EngineUnavailable, SnapshotCorrupt
from cloister.core.limits import SessionLimits
from cloister.engines.monty import MontyEngine
from cloister.ports.engine import Catalog, Failed, Finished, Program, Returned, Suspended, Turn, TypeCheck

pytestmark = pytest.mark.anyio

LIMITS = SessionLimits()
CATALOG = Catalog(names=frozenset({"ask"}), stubs="async def ask(n: int) -> int: ...\n", revision="1")


def _turn() -> Turn:
    return Turn(1_700_000_000_000, 5000, 2000, lambda _stream, _text: None, CATALOG, 32)


def _children() -> set[int]:
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


@pytest.fixture
async def engine() -> AsyncIterator[MontyEngine]:
    async with MontyEngine(capacity=2) as made:
        yield made


async def test_interpreter_has_a_process_of_its_own(engine: MontyEngine) -> None:
    first, second = await engine.open(LIMITS), await engine.open(LIMITS)
    assert first.pid != second.pid
    assert {first.pid, second.pid} <= _children()
    await first.close()
    await second.close()


async def test_engine_that_is_left_has_no_processes() -> None:
    before = _children()
    async with MontyEngine(capacity=2) as engine:
        await engine.open(LIMITS)
        await engine.open(LIMITS)
    assert _children() == before


async def test_nothing_starts_before_the_engine_is_entered() -> None:
    before = _children()
    MontyEngine(capacity=2)
    assert _children() == before


@pytest.mark.parametrize(
    "state", [b"", b"x", b"CMY1", b"CMY1\x02\x00\x00\x00{}", b"CMY1\xff\xff\xff\xff{}", b"\0" * 99]
)
async def test_bytes_that_are_no_state_are_refused_and_the_worker_is_given_back(
    engine: MontyEngine, state: bytes
) -> None:
    for _ in range(4):
        with pytest.raises(SnapshotCorrupt):
            await engine.open(LIMITS, state)
    interpreter = await engine.open(LIMITS)
    assert isinstance(await interpreter.start(Program("1"), _turn()), Finished)
    await interpreter.close()


async def test_state_cut_short_is_refused(engine: MontyEngine) -> None:
    interpreter = await engine.open(LIMITS)
    await interpreter.start(Program("x = [1, 2, 3]"), _turn())
    state = await interpreter.dump()
    await interpreter.close()
    for cut in (4, len(state) // 2, len(state) - 1):
        with pytest.raises(SnapshotCorrupt):
            await engine.open(LIMITS, state[:cut])


async def test_worker_that_was_killed_makes_dump_say_so(engine: MontyEngine) -> None:
    interpreter = await engine.open(LIMITS)
    await interpreter.start(Program("x = 1"), _turn())
    assert interpreter.pid is not None
    os.kill(interpreter.pid, signal.SIGKILL)
    with pytest.raises(EngineUnavailable):
        await interpreter.dump()
    await interpreter.close()


async def test_killed_worker_is_replaced(engine: MontyEngine) -> None:
    for _ in range(4):
        interpreter = await engine.open(LIMITS)
        assert interpreter.pid is not None
        os.kill(interpreter.pid, signal.SIGKILL)
        step = await interpreter.start(Program("1"), _turn())
        assert isinstance(step, Failed)
        assert (step.error.code, step.fatal) == ("ENGINE_CRASHED", True)
        await interpreter.close()
    last = await engine.open(LIMITS)
    assert isinstance(await last.start(Program("1"), _turn()), Finished)
    await last.close()


async def test_checker_that_was_killed_is_replaced_and_the_program_checked(engine: MontyEngine) -> None:
    interpreter = await engine.open(LIMITS)
    before = _children()
    program = Program("x: int = 'a'")
    first = await interpreter.check(program, TypeCheck.WARN, _turn(), starting=False)
    checkers = _children() - before or before - {interpreter.pid}
    for pid in checkers:
        os.kill(pid, signal.SIGKILL)
    second = await interpreter.check(program, TypeCheck.WARN, _turn(), starting=False)
    assert [str(found.code) for found in second.diagnostics] == ["TYPE_ERROR"]
    assert second.diagnostics == first.diagnostics
    await interpreter.close()


async def test_close_does_not_wait_for_a_suspended_program(engine: MontyEngine) -> None:
    interpreter = await engine.open(LIMITS)
    assert isinstance(await interpreter.start(Program("await ask(1)"), _turn()), Suspended)
    await asyncio.wait_for(interpreter.close(), 10)
    await interpreter.close()


async def test_interrupt_between_steps_ends_the_next_one(engine: MontyEngine) -> None:
    interpreter = await engine.open(LIMITS)
    await interpreter.start(Program("await ask(1)"), _turn())
    interpreter.interrupt()
    step = await interpreter.resume([Returned(1, 1)], _turn())
    assert isinstance(step, Failed)
    assert step.fatal
    await interpreter.close()


async def test_open_interpreters_of_one_engine_do_not_see_each_other(engine: MontyEngine) -> None:
    first, second = await engine.open(LIMITS), await engine.open(LIMITS)
    await first.start(Program("x = 1"), _turn())
    step = await second.start(Program("x"), _turn())
    assert isinstance(step, Failed)
    assert "NameError" in step.error.message
    await first.close()
    await second.close()


async def test_worker_given_back_keeps_nothing_for_the_next(engine: MontyEngine) -> None:
    first = await engine.open(LIMITS)
    await first.start(Program("x = 1"), _turn())
    await first.close()
    for _ in range(3):
        again = await engine.open(LIMITS)
        assert isinstance(await again.start(Program("x"), _turn()), Failed)
        await again.close()


async def test_engine_says_what_its_python_cannot_do(engine: MontyEngine) -> None:
    assert any("yield" in line for line in engine.unsupported())
    assert (engine.name, engine.language) == ("monty", "python")
    assert engine.version.startswith("monty ")
