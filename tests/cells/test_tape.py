"""The tape: what a namespace ran since its last bytes, played again on another worker."""

import pytest

from cloister.cells.tape import MAX_STEPS, Recording, Tape
from cloister.core.limits import SessionLimits
from cloister.engines.monty import MontyEngine
from cloister.ports.engine import Catalog, Finished, Program, Returned, Suspended, Turn

LIMITS = SessionLimits()
CATALOG = Catalog(names=frozenset({"ask"}), revision="1")
NOW = 1_700_000_000_000


def _turn(now_ms: int = NOW) -> Turn:
    return Turn(now_ms, 5000, 2000, lambda _stream, _text: None, CATALOG, 32)


def _recording(code: str, **inputs: int) -> Recording:
    return Recording(Program(code, inputs), CATALOG, NOW)


def test_tape_counts_every_step() -> None:
    tape = Tape()
    tape.add(_recording("1"))
    two = _recording("await ask()")
    two.resumes.append((NOW, [Returned(1, 5)]))
    tape.add(two)
    assert len(tape) == 3


def test_tape_is_full_after_its_greatest_number_of_steps_and_empty_when_cleared() -> None:
    tape = Tape()
    for n in range(MAX_STEPS):
        assert not tape.full, n
        tape.add(_recording("1"))
    assert tape.full
    tape.clear()
    assert (len(tape), tape.full) == (0, False)


@pytest.mark.anyio
async def test_played_tape_gives_the_same_namespace_and_asks_nobody() -> None:
    called = _recording("import time\na = await ask(start)\nthen = time.time()", start=1)
    called.resumes.append((NOW + 7, [Returned(1, 40)]))
    failed = _recording("b = a + 1\n1 / 0")
    tape = Tape()
    tape.add(called)
    tape.add(failed)
    async with MontyEngine(capacity=1) as engine:
        interpreter = await engine.open(LIMITS, seed=3)
        await tape.play(interpreter, LIMITS)
        step = await interpreter.start(Program("[a, b, then, start]"), _turn())
        await interpreter.close()
    assert isinstance(step, Finished)
    assert step.value == [40, 41, (NOW + 7) / 1000, 1]


@pytest.mark.anyio
async def test_played_tape_makes_the_same_random_numbers() -> None:
    code = "import random\na = [random.random() for _ in range(3)]"
    async with MontyEngine(capacity=1) as engine:
        first = await engine.open(LIMITS, seed=11)
        await first.start(Program(code), _turn())
        original = await first.start(Program("a"), _turn())
        await first.close()
        tape = Tape()
        tape.add(_recording(code))
        second = await engine.open(LIMITS, seed=11)
        await tape.play(second, LIMITS)
        played = await second.start(Program("a"), _turn())
        await second.close()
    assert isinstance(original, Finished)
    assert isinstance(played, Finished)
    assert played.value == original.value


@pytest.mark.anyio
async def test_tape_that_takes_another_course_is_refused() -> None:
    tape = Tape()
    tape.add(_recording("await ask()"))  # its answer is not on the tape
    async with MontyEngine(capacity=1) as engine:
        interpreter = await engine.open(LIMITS)
        with pytest.raises(Exception, match="did not end as it had"):
            await tape.play(interpreter, LIMITS)
        await interpreter.close()


@pytest.mark.anyio
async def test_call_is_seen_by_the_engine_before_the_tape_is_needed() -> None:
    async with MontyEngine(capacity=1) as engine:
        interpreter = await engine.open(LIMITS)
        step = await interpreter.start(Program("await ask(5)"), _turn())
        await interpreter.close()
    assert isinstance(step, Suspended)
    assert [(call.name, call.args) for call in step.calls] == [("ask", (5,))]
