"""Cells that wait: without a worker, as bytes, and within the time that they have."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cloister import CellLimits, Completed, Event, RunStatus, SessionLimits, Yielded
from tests.cells.lab import (
    LONG,
    House,
    Latch,
    a_few_rounds,
    error_code,
    in_both,
    info,
    observe,
    program,
    reading,
    result,
    start,
    texts,
    to_the_end,
)
from tests.sessions.till import Till

AT_ONCE = CellLimits(hibernate_after_ms=0)


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House(cells=AT_ONCE) as made:
        yield made


# -- without a worker -------------------------------------------------------------------------------------------------


@in_both
async def test_five_sessions_wait_in_tools_at_once_on_one_worker(language: str) -> None:
    latch = Latch()
    async with House(workers=1, cells=AT_ONCE) as house:
        sessions = [await house.open(language, latch.tool) for _ in range(5)]
        ids: list[str] = []
        for n, session in enumerate(sessions):
            await session.run(program(language, "let", "own", n))
            ids.append(await start(session, f"[await hold({n}), own]"))
        await latch.until_came(5)
        assert result(await sessions[0].exec("'free'", isolated=True)) == "free"
        await latch.let_go()
        for n, session in enumerate(sessions):
            assert result(await session.wait(ids[n])) == [n, n]


@in_both
async def test_durable_program_that_waits_leaves_its_worker_only_to_whoever_stands_in_line(
    language: str, tmp_path: Path
) -> None:
    latch = Latch()
    cells = CellLimits(hibernate_after_ms=LONG)
    async with House(workers=1, cells=cells, store=f"sqlite://{tmp_path / 'store.db'}") as house:
        sessions = [await house.open(language, latch.tool) for _ in range(4)]
        async with reading(sessions[0]) as events:
            ids = [await start(sessions[0], program(language, "let", "own", 0) + ";\n[await hold(0), own]")]
            await latch.until_came(1)
            # Nobody needs its worker.
            await a_few_rounds()
            assert sessions[0].worker_pid is not None
            for n, session in enumerate(sessions[1:], 1):
                code = program(language, "let", "own", n)
                ids.append(await start(session, f"{code};\n[await hold({n}), own, await hold({n}), own]"))
            await latch.until_came(4)
            assert sessions[0].worker_pid is None
            assert [(await info(s, i)).state for s, i in zip(sessions, ids, strict=True)] == ["waiting"] * 4
            await latch.let_go()
            assert result(await sessions[0].wait(ids[0])) == [0, 0]
            for n, session in enumerate(sessions[1:], 1):
                assert result(await session.wait(ids[n])) == [n] * 4
                assert result(await session.exec("own")) == n
            await events.until("cell.completed")
            # Its worker was lent: it did not sleep.
            assert not {"cell.hibernated", "cell.woken"} & set(events.kinds)


@in_both
async def test_sleeping_cell_holds_no_worker_and_wakes_with_all_it_had(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session, reading(session) as events:
        await session.run(program(language, "let", "before", 1))
        code = (
            program(language, "let", "inside", 2) + "\ntext('a')\n" + program(language, "let", "got", "await hold(3)")
        )
        cell_id = await start(session, code + "\ntext('b');\n[before, inside, got]")
        await events.until("cell.hibernated", cell_id)
        assert session.worker_pid is None
        assert texts(await session.wait(cell_id, yield_ms=0)) == ["a"]
        await latch.let_go()
        seen = await session.wait(cell_id)
        assert (result(seen), texts(seen)) == ([1, 2, 3], ["b"])
        assert result(await session.exec("[before, inside, got]")) == [1, 2, 3]


@in_both
async def test_gathered_calls_are_settled_one_by_one_across_several_sleeps(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session, reading(session) as events:
        cell_id = await start(session, program(language, "as_they_come", 4))
        await latch.until_came(4)
        for n in (2, 0, 3):
            await events.until("cell.hibernated", cell_id)
            await latch.let_go(n)
            await events.until("cell.woken", cell_id)
        await events.until("cell.hibernated", cell_id)
        await latch.let_go()
        seen = await session.wait(cell_id)
        assert (result(seen), texts(seen)) == ("all", ["2", "0", "3", "1"])
        assert sorted(latch.came) == [0, 1, 2, 3]
        assert isinstance(seen, Completed)
        assert len(seen.external_calls) == 4


@in_both
async def test_cell_sleeps_again_and_again(house: House, language: str) -> None:
    latch = Latch()
    code = "\n".join(f"text(await hold({n}))" for n in range(5))
    async with await house.open(language, latch.tool) as session, reading(session) as events:
        cell_id = await start(session, code)
        for n in range(5):
            await events.until("cell.hibernated", cell_id)
            await latch.let_go(n)
        assert texts(await session.wait(cell_id)) == ["0", "1", "2", "3", "4"]


@in_both
async def test_failed_call_of_a_sleeping_cell_can_be_caught(house: House, language: str) -> None:
    till, latch = Till(), Latch()
    code = program(language, "caught", "[await hold(1), await refund('A7', 'much')]")
    async with await house.open(language, till.tool, latch.tool) as session, reading(session) as events:
        cell_id = await start(session, code)
        await events.until("cell.hibernated", cell_id)
        await latch.let_go()
        assert "INVALID_ARGUMENTS" in result(await to_the_end(session, cell_id))


@in_both
async def test_run_hibernates_too_and_its_caller_does_not_notice(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session, reading(session) as events:
        running = asyncio.create_task(session.run("text('a')\nawait hold(1)"))
        await events.until("cell.hibernated")
        await latch.let_go()
        ran = await running
        assert (ran.result, ran.content) == (1, ({"type": "input_text", "text": "a"},))


# -- within its time --------------------------------------------------------------------------------------------------


@in_both
async def test_cell_has_its_own_wall_and_not_that_of_a_run(language: str) -> None:
    limits = SessionLimits(wall_ms=300, cpu_ms=LONG)
    async with House(limits=limits) as house:
        session = await house.open(language)
        nap = program(language, "sleep", 0.6)
        assert result(await session.exec(nap)) == "slept"
        ran = await session.run(nap)
        assert (ran.status, ran.error and ran.error.code) == (RunStatus.TIMEOUT, "TIMEOUT_WALL")


@pytest.mark.parametrize("hibernate_after_ms", [0, LONG], ids=["asleep", "on a worker"])
@in_both
async def test_cell_that_waits_past_its_wall_fails_and_its_call_is_cancelled(
    language: str, hibernate_after_ms: int
) -> None:
    latch = Latch()
    async with House(cells=CellLimits(cell_wall_ms=800, hibernate_after_ms=hibernate_after_ms)) as house:
        session = await house.open(language, latch.tool)
        await session.run(program(language, "let", "x", 1))
        seen = await session.exec(program(language, "let", "x", 2) + "\ntext('a')\nawait hold(1)", yield_ms=LONG)
        assert error_code(seen) == "TIMEOUT_WALL"
        assert texts(seen) == ["a"]
        assert latch.cancelled == latch.came == [1]
        assert (await session.run("x")).result == 1


@in_both
async def test_cell_that_computes_past_its_wall_fails(language: str) -> None:
    async with House(cells=CellLimits(cell_wall_ms=500)) as house:
        session = await house.open(language)
        seen = await session.exec(program(language, "loop"), yield_ms=LONG)
        ended = await to_the_end(session, seen.cell_id) if isinstance(seen, Yielded) else seen
        assert error_code(ended) == "TIMEOUT_WALL"
        assert (await session.run("1 + 1")).result == 2


@in_both
async def test_time_in_line_is_not_the_cells(language: str) -> None:
    async with House(cells=CellLimits(cell_wall_ms=1_500)) as house:
        session = await house.open(language)
        first = await start(session, program(language, "sleep", 0.8))
        second = await start(session, program(language, "sleep", 0.8))
        assert result(await to_the_end(session, first)) == "slept"
        assert result(await to_the_end(session, second)) == "slept"


@in_both
async def test_worker_that_dies_fails_its_cell_and_the_session_goes_on(house: House, language: str) -> None:
    async with await house.open(language) as session:
        await session.run(program(language, "let", "x", 1))
        seen = await session.exec(program(language, "let", "x", 2) + "\n" + program(language, "loop"), yield_ms=LONG)
        assert isinstance(seen, Yielded)
        assert session.worker_pid is not None
        observer = await observe(session, seen.cell_id)
        queued = await start(session, "x")
        os.kill(session.worker_pid, signal.SIGKILL)
        assert error_code(await observer) == "ENGINE_CRASHED"
        assert result(await session.wait(queued)) == 1


@in_both
async def test_short_wait_does_not_cost_a_sleep(language: str) -> None:
    latch = Latch()
    await latch.let_go()
    async with House(cells=CellLimits(hibernate_after_ms=LONG)) as house:
        session = await house.open(language, latch.tool)
        async with reading(session) as events:
            assert result(await session.exec("await hold(1)\nawait hold(2)")) == 2
            await events.until("cell.completed")
            assert "cell.hibernated" not in events.kinds
            cell_id = await start(session, "await hold(3)")
            await events.until("cell.completed", cell_id)
            assert (await info(session, cell_id)).state == "completed"
            await a_few_rounds()


@in_both
async def test_namespace_that_is_rebuilt_says_and_stores_nothing_twice(language: str) -> None:
    told: list[Event] = []
    async with House(on_event=told.append) as house:
        session = await house.open(language)
        await session.exec(program(language, "let", "x", 1) + "\nnotify('n')\ntext('t')\nstore('k', 1)")
        await session.exec(program(language, "let", "y", "load('k') + x") + "\nexit()")
        await session.values.set("k", 100)
        assert session.worker_pid is not None
        os.kill(session.worker_pid, signal.SIGKILL)
        # Whoever comes first may find the worker dead.
        await session.exec("1")
        seen = await session.exec("[x, y, load('k')]")
        assert (result(seen), seen.content) == ([1, 2, 100], ())
        assert [event.kind for event in told].count("cell.notified") == 1


@in_both
async def test_narrower_cell_sleeps_and_what_it_assigned_is_kept(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session, reading(session) as events:
        await session.run(program(language, "let", "x", 1))
        code = program(language, "let", "y", "x + await hold(1)")
        cell_id = await start(session, code, limits={"memory_mb": 32})
        await events.until("cell.hibernated", cell_id)
        await latch.let_go()
        assert isinstance(await session.wait(cell_id), Completed)
        assert result(await session.exec("x + y")) == 3
