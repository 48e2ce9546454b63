"""Seats: few workers, many namespaces, in order, and nothing lost on the way."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cloister.cells.seats import Namespace, Seats
from cloister.cells.tape import Recording
from cloister.core.limits import SessionLimits
from cloister.engines.monty import MontyEngine
from cloister.ports.engine import Catalog, Finished, Interpreter, Program, Turn

pytestmark = pytest.mark.anyio

LIMITS = SessionLimits()
NOW = 1_700_000_000_000


@pytest.fixture
async def one() -> AsyncIterator[Seats]:
    async with MontyEngine(capacity=1) as engine:
        yield Seats(engine)


@pytest.fixture
async def two() -> AsyncIterator[Seats]:
    async with MontyEngine(capacity=2) as engine:
        yield Seats(engine)


def _namespace() -> Namespace:
    return Namespace(LIMITS, seed=1)


async def _run(seats: Seats, namespace: Namespace, code: str) -> Any:
    """One cell, as a session runs it: take, run, put on the tape, leave."""
    interpreter = await seats.take(namespace)
    program = Program(code)
    step = await interpreter.start(program, Turn(NOW, 5000, 2000, lambda _s, _t: None, Catalog(), 32))
    assert isinstance(step, Finished), step
    namespace.tape.add(Recording(program, Catalog(), NOW))
    await seats.leave(namespace)
    return step.value


async def _until_in_line() -> None:
    """Let every task that is ready run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


async def _soon(task: "asyncio.Task[Any]") -> Any:
    """The task's result. The bound only turns a deadlock into a failure."""
    return await asyncio.wait_for(task, 10)


def _kill(interpreter: Interpreter | None) -> None:
    assert interpreter is not None
    assert interpreter.pid is not None
    os.kill(interpreter.pid, signal.SIGKILL)


async def test_namespace_that_is_left_keeps_its_seat(one: Seats) -> None:
    namespace = _namespace()
    first = await one.take(namespace)
    await one.leave(namespace)
    assert await one.take(namespace) is first
    await one.lose(namespace)


async def test_namespace_unused_for_longest_gives_its_seat_away(two: Seats) -> None:
    names = {key: _namespace() for key in "ABC"}
    for key in "AB":
        await _run(two, names[key], f"x = {key!r}")
    await _run(two, names["A"], "x")
    await _run(two, names["C"], "x = 'C'")
    assert {key for key, namespace in names.items() if namespace.interpreter is not None} == {"A", "C"}
    await two.close()


async def test_evicted_namespace_comes_back_as_it_was(one: Seats) -> None:
    first, second = _namespace(), _namespace()
    await _run(one, first, "x = 1\ndef f():\n    return x + 1")
    await _run(one, second, "x = 2")
    assert await _run(one, first, "f()") == 2
    assert await _run(one, second, "x") == 2
    await one.close()


async def test_there_are_never_more_interpreters_than_seats(two: Seats) -> None:
    names = [_namespace() for _ in range(8)]
    most = 0

    async def use(namespace: Namespace) -> None:
        nonlocal most
        for _ in range(3):
            await two.take(namespace)
            most = max(most, sum(other.interpreter is not None for other in names))
            await asyncio.sleep(0)
            await two.leave(namespace)

    await asyncio.wait_for(asyncio.gather(*(use(namespace) for namespace in names)), 60)
    # How many there are at once is the machine's affair, up to that.
    assert most in (1, 2)
    await two.close()


async def test_those_who_wait_are_served_in_the_order_they_came(one: Seats) -> None:
    names = {key: _namespace() for key in "ABCD"}
    served: list[str] = []

    async def use(key: str) -> None:
        await one.take(names[key])
        served.append(key)
        await one.lose(names[key])

    await one.take(names["A"])
    waiting = [asyncio.create_task(use(key)) for key in "BC"]
    await _until_in_line()
    # D comes in the very moment in which A goes, when B was told and has not moved yet.
    await one.lose(names["A"])
    await use("D")
    await _soon(asyncio.gather(*waiting))  # pyright: ignore[reportArgumentType]
    assert served == ["B", "C", "D"]


async def test_session_that_wants_one_seat_does_not_wait_behind_one_that_wants_many(one: Seats) -> None:
    holder = _namespace()
    served: list[str] = []

    async def use(owner: str) -> None:
        namespace = Namespace(LIMITS, seed=1, owner=owner)
        await one.take(namespace)
        served.append(owner)
        await one.lose(namespace)

    await one.take(holder)
    waiting = [asyncio.create_task(use(owner)) for owner in ("many", "many", "many", "one")]
    await _until_in_line()
    await one.lose(holder)
    await _soon(asyncio.gather(*waiting))  # pyright: ignore[reportArgumentType]
    assert served == ["many", "one", "many", "many"]


async def test_one_who_goes_away_in_line_does_not_hold_up_the_others(one: Seats) -> None:
    names = {key: _namespace() for key in "ABC"}
    await one.take(names["A"])
    impatient = asyncio.create_task(one.take(names["B"]))
    patient = asyncio.create_task(one.take(names["C"]))
    await _until_in_line()
    impatient.cancel()
    await _until_in_line()
    await one.lose(names["A"])
    await _soon(patient)
    await one.lose(names["C"])


async def test_one_who_goes_away_just_when_called_passes_the_seat_on(one: Seats) -> None:
    names = {key: _namespace() for key in "ABC"}
    await one.take(names["A"])
    called = asyncio.create_task(one.take(names["B"]))
    patient = asyncio.create_task(one.take(names["C"]))
    await _until_in_line()
    await one.lose(names["A"])
    called.cancel()
    await _soon(patient)
    await one.lose(names["C"])


async def test_one_who_goes_away_while_a_seat_is_emptied_does_not_take_it_along(one: Seats) -> None:
    names = {key: _namespace() for key in "ABC"}
    await _run(one, names["A"], "x = 1")
    evicting = asyncio.create_task(one.take(names["B"]))
    await _until_in_line()
    evicting.cancel()
    await asyncio.wait([evicting])
    await _soon(asyncio.create_task(one.take(names["C"])))
    await one.lose(names["C"])
    assert await _run(one, names["A"], "x") == 1
    await one.close()


async def test_namespace_that_is_wanted_while_it_is_evicted_waits_for_a_seat_again(one: Seats) -> None:
    names = {key: _namespace() for key in "AB"}
    await _run(one, names["A"], "x = 1")
    evicting = asyncio.create_task(one.take(names["B"]))
    await _until_in_line()
    wanted = asyncio.create_task(one.take(names["A"]))
    await _soon(evicting)
    await _until_in_line()
    assert not wanted.done()
    await one.lose(names["B"])
    await _soon(wanted)
    assert await _run(one, names["A"], "x") == 1
    await one.close()


async def test_namespace_that_is_left_while_others_wait_gives_its_seat_to_the_first(one: Seats) -> None:
    first, second = _namespace(), _namespace()
    await one.take(first)
    waiting = asyncio.create_task(one.take(second))
    await _until_in_line()
    await one.leave(first)
    await _soon(waiting)
    assert first.interpreter is None
    await one.lose(second)


async def test_lost_namespace_is_what_its_bytes_and_its_tape_say(one: Seats) -> None:
    namespace = _namespace()
    await _run(one, namespace, "x = 1")
    interpreter = await one.take(namespace)
    # Not on the tape: as if the cell had been stopped.
    await interpreter.start(Program("x = 2"), Turn(NOW, 5000, 2000, lambda _s, _t: None, Catalog(), 32))
    await one.lose(namespace)
    assert await _run(one, namespace, "x") == 1
    await one.close()


async def test_saved_namespace_is_bytes_and_stays_alive(one: Seats) -> None:
    namespace = _namespace()
    await _run(one, namespace, "x = 1")
    state = await one.save(namespace)
    assert state == namespace.state
    assert state is not None
    assert namespace.interpreter is not None
    assert len(namespace.tape) == 0
    await one.close()


async def test_namespace_that_never_ran_has_no_bytes(one: Seats) -> None:
    assert await one.save(_namespace()) is None


async def test_saving_twice_gives_the_same_bytes(one: Seats) -> None:
    namespace = _namespace()
    await _run(one, namespace, "x = 1")
    assert await one.save(namespace) == await one.save(namespace)
    await one.close()


async def test_full_tape_becomes_bytes_when_the_cell_ends(one: Seats) -> None:
    namespace = _namespace()
    for _ in range(70):
        await _run(one, namespace, "1")
    assert namespace.state is not None
    assert len(namespace.tape) < 64
    await one.close()


async def test_worker_that_dies_between_two_cells_costs_nothing(one: Seats) -> None:
    namespace = _namespace()
    await _run(one, namespace, "x = 1")
    await one.save(namespace)
    await _run(one, namespace, "y = x + 1")
    _kill(namespace.interpreter)
    await one.lose(namespace)
    assert await _run(one, namespace, "[x, y]") == [1, 2]
    await one.close()


async def test_namespace_whose_worker_died_can_still_be_saved(one: Seats) -> None:
    namespace = _namespace()
    await _run(one, namespace, "x = 1")
    _kill(namespace.interpreter)
    assert await one.save(namespace) is not None
    assert await _run(one, namespace, "x") == 1
    await one.close()


async def test_dead_worker_of_another_is_no_obstacle(one: Seats) -> None:
    dead, living = _namespace(), _namespace()
    await _run(one, dead, "x = 1")
    _kill(dead.interpreter)
    assert await _run(one, living, "2") == 2
    assert await _run(one, dead, "x") == 1
    await one.close()


async def test_borrowed_interpreter_has_the_namespace_and_its_own_limits(one: Seats) -> None:
    namespace = _namespace()
    await _run(one, namespace, "x = 1")
    narrow = await one.borrow(namespace, SessionLimits(max_stack_depth=20))
    turn = Turn(NOW, 5000, 2000, lambda _s, _t: None, Catalog(), 32)
    assert isinstance(await narrow.start(Program("x"), turn), Finished)
    deep = await narrow.start(Program("def f(n):\n    return f(n - 1) if n else 0\nf(100)"), turn)
    assert not isinstance(deep, Finished)
    await one.give_back(narrow)
    assert await _run(one, namespace, "def f(n):\n    return f(n - 1) if n else 0\nf(100)") == 0
    await one.close()


async def test_namespace_with_bytes_that_no_engine_reads_gives_its_seat_back(one: Seats) -> None:
    with pytest.raises(ValueError, match="bytes"):
        await one.take(Namespace(LIMITS, seed=1, state=b"nonsense"))
    assert await _run(one, _namespace(), "1") == 1
    await one.close()
