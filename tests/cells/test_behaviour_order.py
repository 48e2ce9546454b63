"""Cells beside each other: one at a time in the namespace, isolated ones at once, and how many there may be."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cloister import CellLimits, Completed, QueueFull, SessionLimits, Terminated, WaitingForApproval, Yielded
from tests.cells.lab import (
    LONG,
    House,
    Latch,
    a_few_rounds,
    codes,
    error_code,
    in_both,
    info,
    observe,
    program,
    reading,
    result,
    start,
    states,
    to_the_end,
)
from tests.sessions.till import Till


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House() as made:
        yield made


# -- in order ---------------------------------------------------------------------------------------------------------


@in_both
async def test_queued_cells_run_in_the_order_in_which_they_came(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session, reading(session) as events:
        ids = [await start(session, f"await hold({n})") for n in range(6)]
        await latch.until_came()
        assert await states(session) == ["waiting"] + ["queued"] * 5
        await latch.let_go()
        assert result(await session.wait(ids[-1])) == 5
        assert latch.came == list(range(6))
        await events.until("cell.completed", ids[-1])
        assert [event.data["cell_id"] for event in events.seen if event.kind == "cell.completed"] == ids
        assert [result(await session.wait(cell_id)) for cell_id in ids[:-1]] == list(range(5))


@in_both
async def test_cells_share_the_namespace_one_after_the_other(house: House, language: str) -> None:
    async with await house.open(language) as session:
        await start(session, program(language, "let", "x", 1))
        await start(session, program(language, "let", "x", "x + 1"))
        assert result(await session.exec("x")) == 2


@in_both
async def test_failed_cell_does_not_hold_up_those_behind_it(house: House, language: str) -> None:
    async with await house.open(language) as session:
        first = await start(session, program(language, "fail"))
        second = await start(session, "this is no program")
        assert result(await session.exec("1 + 1")) == 2
        assert error_code(await session.wait(first)) == "RUNTIME_ERROR"
        assert error_code(await session.wait(second)) == "SYNTAX_ERROR"


@in_both
async def test_run_stands_in_line_behind_the_cells_that_came_before(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        first = await start(session, "await hold(1)\n" + program(language, "let", "x", "'set'"))
        running = asyncio.create_task(session.run("x"))
        await latch.until_came()
        await a_few_rounds()
        assert not running.done()
        await latch.let_go()
        assert (await running).result == "set"
        assert isinstance(await session.wait(first), Completed)


@in_both
async def test_full_queue_refuses_the_next_and_nothing_is_half_done(language: str) -> None:
    latch = Latch()
    async with House(cells=CellLimits(max_queued=2)) as house:
        session = await house.open(language, latch.tool)
        ids = [await start(session, f"await hold({n})") for n in range(3)]
        before = await session.cells()
        for _ in range(2):
            with pytest.raises(QueueFull, match="2 cells in line already"):
                await session.exec("await hold(99)")
        assert [cell.id for cell in await session.cells()] == [cell.id for cell in before] == ids
        # Another line is another matter.
        assert result(await session.exec("'beside'", isolated=True)) == "beside"
        await latch.let_go()
        assert [result(await session.wait(cell_id)) for cell_id in ids] == [0, 1, 2]
        assert latch.came == [0, 1, 2]
        assert result(await session.exec("await hold(3)")) == 3


@in_both
async def test_terminated_cell_makes_room_in_a_full_queue(language: str) -> None:
    latch = Latch()
    async with House(cells=CellLimits(max_queued=1)) as house:
        session = await house.open(language, latch.tool)
        front, queued = await start(session, "await hold(1)"), await start(session, "await hold(2)")
        with pytest.raises(QueueFull):
            await start(session, "await hold(3)")
        assert isinstance(await session.terminate(queued), Terminated)
        last = await start(session, "await hold(4)")
        await latch.let_go()
        assert [result(await session.wait(cell_id)) for cell_id in (front, last)] == [1, 4]
        assert latch.came == [1, 4]


@in_both
async def test_process_has_a_bound_over_all_sessions(language: str) -> None:
    latch = Latch()
    async with House(cells=CellLimits(max_cells=3)) as house:
        sessions = [await house.open(language, latch.tool) for _ in range(2)]
        ids = [await start(sessions[0], "await hold(1)"), await start(sessions[0], "await hold(2)", isolated=True)]
        other = await start(sessions[1], "await hold(3)")
        for session in sessions:
            for isolated in (False, True):
                with pytest.raises(QueueFull, match="no more than 3 may be"):
                    await session.exec("await hold(99)", isolated=isolated)
        await latch.let_go()
        assert [result(await sessions[0].wait(cell_id)) for cell_id in ids] == [1, 2]
        assert result(await sessions[1].wait(other)) == 3
        assert result(await sessions[1].exec("await hold(4)")) == 4
        assert sorted(latch.came) == [1, 2, 3, 4]


# -- isolated ---------------------------------------------------------------------------------------------------------


@in_both
async def test_isolated_cell_neither_sees_nor_changes_the_sessions_variables(house: House, language: str) -> None:
    async with await house.open(language) as session:
        await session.run(program(language, "let", "x", 1))
        assert result(await session.exec(program(language, "is_defined", "x"), isolated=True)) is False
        own = program(language, "let", "x", 2) + "\n" + program(language, "let", "y", 3) + "\nx + y"
        assert result(await session.exec(own, isolated=True)) == 5
        assert result(await session.exec("x")) == 1
        for isolated in (False, True):
            assert result(await session.exec(program(language, "is_defined", "y"), isolated=isolated)) is False


@in_both
async def test_isolated_cell_runs_while_another_cell_of_the_session_waits(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        waiting = await start(session, "await hold(1)")
        await latch.until_came()
        assert result(await session.exec("'beside'", isolated=True)) == "beside"
        await latch.let_go(2)
        assert result(await session.exec("await hold(2)", isolated=True)) == 2
        await latch.let_go()
        assert result(await session.wait(waiting)) == 1


@in_both
async def test_isolated_cells_have_a_bound_of_their_own(language: str) -> None:
    latch = Latch()
    async with House(cells=CellLimits(max_isolated=2, hibernate_after_ms=0)) as house:
        session, other = await house.open(language, latch.tool), await house.open(language)
        ids = [await start(session, f"await hold({n})", isolated=True) for n in (1, 2)]
        await latch.until_came(2)
        with pytest.raises(QueueFull, match="2 isolated cells already"):
            await session.exec("await hold(99)", isolated=True)
        assert result(await session.exec("'in line'")) == "in line"
        assert result(await other.exec("'elsewhere'", isolated=True)) == "elsewhere"
        assert isinstance(await session.terminate(ids[0]), Terminated)
        assert result(await session.exec("'room again'", isolated=True)) == "room again"
        await latch.let_go()
        assert result(await session.wait(ids[1])) == 2
        assert 99 not in latch.came


@in_both
async def test_isolated_cell_that_waits_for_approval_does_not_hold_up_the_session(house: House, language: str) -> None:
    till = Till()
    async with await house.open(language, till.tool) as session:
        asked = await session.exec("await refund('A7')", isolated=True)
        assert isinstance(asked, WaitingForApproval)
        assert (await session.run("1 + 1")).result == 2
        assert result(await session.exec("2 + 2")) == 4
        await house.cloister.decide(asked.approvals[0].id, "allow")
        assert result(await session.wait(asked.cell_id)) == "paid 10 for A7"


@in_both
async def test_isolated_cells_outnumber_the_workers(house: House, language: str) -> None:
    async with await house.open(language) as session:
        ids = [await start(session, f"store('k{n}', {n})\n{n}", isolated=True) for n in range(12)]
        assert [result(await to_the_end(session, cell_id)) for cell_id in ids] == list(range(12))
        assert await session.values.all() == {f"k{n}": n for n in range(12)}


# -- the list ---------------------------------------------------------------------------------------------------------


@in_both
async def test_list_says_where_each_cell_is_and_forgets_those_that_were_read(language: str) -> None:
    latch, till = Latch(), Till()
    async with House(cells=CellLimits(hibernate_after_ms=0)) as house:
        session = await house.open(language, latch.tool, till.tool)
        async with reading(session) as events:
            front = await start(session, "await hold(1)")
            queued = await start(session, "await hold(2)")
            asking = await start(session, "await refund('A7')", isolated=True)
            done = await start(session, "'done'", isolated=True)
            await events.until("approval.required")
            for kind, cell_id in (("cell.completed", done), ("cell.hibernated", asking), ("cell.hibernated", front)):
                if not any(event.kind == kind and event.data["cell_id"] == cell_id for event in events.seen):
                    await events.until(kind, cell_id)
            observer = await observe(session, front)
            listed = {cell.id: cell for cell in await session.cells()}
            assert list(listed) == [front, queued, asking, done]
            assert [str(cell.state) for cell in listed.values()] == ["asleep", "queued", "asleep", "completed"]
            assert [cell.isolated for cell in listed.values()] == [False, False, True, True]
            assert [cell.observed for cell in listed.values()] == [True, False, False, False]
            assert [cell.waiting_for for cell in listed.values()] == [("hold",), (), ("refund",), ()]
            (approval,) = await house.cloister.approvals(session_id=session.id)
            assert [cell.approvals for cell in listed.values()] == [(), (), (approval.id,), ()]
            assert result(await session.wait(done)) == "done"
            assert [cell.id for cell in await session.cells()] == [front, queued, asking]
            await latch.let_go()
            assert result(await observer) == 1
            assert result(await session.wait(queued)) == 2
            await session.terminate(asking)
            assert await session.cells() == []


@in_both
async def test_computing_cell_is_listed_as_running(house: House, language: str) -> None:
    async with await house.open(language) as session:
        seen = await session.exec(program(language, "loop"), yield_ms=LONG)
        assert isinstance(seen, Yielded)
        assert str((await info(session, seen.cell_id)).state) == "running"
        await session.terminate(seen.cell_id)


# -- calls that nobody awaits -----------------------------------------------------------------------------------------


@in_both
async def test_calls_that_were_never_awaited_are_cancelled_and_reported(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        code = program(language, "let", "t", "hold(1)") + ";\n'end'"
        seen = await session.exec(code)
        assert result(seen) == "end"
        assert isinstance(seen, Completed)
        assert codes(seen).count("CALL_NOT_AWAITED") == 1
        assert [call.name for call in seen.external_calls] == ["hold"]
        assert [str(call.status) for call in seen.external_calls] != ["ok"]
        assert len(latch.cancelled) == len(latch.came)


@in_both
async def test_calls_are_counted_for_each_cell_anew(language: str) -> None:
    latch = Latch()
    async with House(limits=SessionLimits(max_external_calls=1, wall_ms=LONG, cpu_ms=LONG)) as house:
        session = await house.open(language, latch.tool)
        await latch.let_go()
        assert result(await session.exec("await hold(1)")) == 1
        assert result(await session.exec("await hold(2)")) == 2
        assert error_code(await session.exec("await hold(3)\nawait hold(4)")) == "EXTERNAL_CALLS_EXCEEDED"
        assert latch.came == [1, 2, 3]
