"""Cells and snapshots: a waiting cell goes on in another host, and a session goes back without losing its line."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cloister import CellLimits, RunStatus, Terminated, WaitingForApproval
from tests.cells.lab import (
    LONG,
    House,
    Latch,
    a_few_rounds,
    in_both,
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
ON_A_WORKER = CellLimits(hibernate_after_ms=LONG)


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House(cells=AT_ONCE) as made:
        yield made


# -- in another host --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["resume", "wait"])
@pytest.mark.parametrize("limits", [AT_ONCE, CellLimits(hibernate_after_ms=LONG)], ids=["asleep", "on a worker"])
@in_both
async def test_snapshot_of_a_waiting_cell_goes_on_elsewhere(language: str, limits: CellLimits, way: str) -> None:
    latch, elsewhere = Latch(), Latch()
    async with House(cells=limits) as house:
        session = await house.open(language, latch.tool)
        await session.values.set("k", 10)
        async with reading(session) as events:
            setup = program(language, "let", "x", 5) + "\nstore('own', 1)\ntext('a')"
            cell_id = await start(session, setup + "\nstore('sum', load('k') + load('own') + x + await hold(1))\n'end'")
            await latch.until_came()
            if limits is AT_ONCE:
                await events.until("cell.hibernated", cell_id)
        snapshot = await session.snapshot()
        # The one here is not held up by it.
        await latch.let_go()
        assert result(await session.wait(cell_id)) == "end"
        assert await session.values.get("sum") == 17
    await elsewhere.let_go()
    async with House(cells=limits) as other:
        copy = await other.cloister.restore_session(snapshot, tools=[elsewhere.tool])
        assert copy.is_asleep
        ended: Any
        if way == "resume":
            ended = await copy.resume()
            assert ended.result == "end"
        else:
            ended = await copy.wait(cell_id)
            assert result(ended) == "end"
        assert await copy.values.all() == {"k": 10, "own": 1, "sum": 17}
        assert [item["text"] for item in ended.content] == ["a"]
        assert result(await copy.exec("x")) == 5


@in_both
async def test_snapshot_of_a_cell_that_asks_is_asked_about_anew_elsewhere(house: House, language: str) -> None:
    here, there = Till(), Till()
    async with await house.open(language, here.tool) as session:
        seen = await session.exec("text('a')\nawait refund('A7')")
        assert isinstance(seen, WaitingForApproval)
        snapshot = await session.snapshot()
    async with House(cells=AT_ONCE) as other:
        copy = await other.cloister.restore_session(snapshot, tools=[there.tool])
        again = await copy.wait(seen.cell_id)
        assert isinstance(again, WaitingForApproval)
        await other.cloister.decide(again.approvals[0].id, "allow")
        assert result(await copy.wait(seen.cell_id)) == "paid 10 for A7"
        assert (here.paid, there.paid) == ([], [("A7", 10)])


@in_both
async def test_cells_stand_in_line_behind_one_that_came_with_a_snapshot(language: str) -> None:
    latch = Latch()
    async with House(cells=AT_ONCE) as house:
        session = await house.open(language, latch.tool)
        await start(session, program(language, "let", "x", "await hold(1)"))
        await latch.until_came()
        snapshot = await session.snapshot()
    await latch.let_go()
    async with House(cells=AT_ONCE) as other:
        copy = await other.cloister.restore_session(snapshot, tools=[latch.tool])
        queued = await start(copy, "x")
        assert (await copy.resume()).status is RunStatus.OK
        assert result(await copy.wait(queued)) == 1


@in_both
async def test_snapshot_of_a_computing_session_waits_for_its_cell(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        seen = await session.exec(program(language, "loop"), yield_ms=LONG)
        taking = asyncio.create_task(session.snapshot())
        await a_few_rounds()
        assert not taking.done()
        assert isinstance(await session.terminate(seen.cell_id), Terminated)
        assert len(await taking) > 0


@pytest.mark.parametrize("limits", [AT_ONCE, ON_A_WORKER], ids=["asleep", "on a worker"])
@in_both
async def test_snapshots_that_are_being_taken_when_their_cell_is_terminated_are_taken(
    language: str, limits: CellLimits
) -> None:
    latch = Latch()
    async with House(cells=limits) as house:
        session = await house.open(language, latch.tool)
        await session.run(program(language, "let", "x", 1))
        cell_id = await start(session, "await hold(1)")
        await latch.until_came()
        taking = [asyncio.create_task(session.snapshot()) for _ in range(3)]
        await asyncio.sleep(0)
        assert isinstance(await session.terminate(cell_id), Terminated)
        taken = await asyncio.gather(*taking, return_exceptions=True)
        assert [type(one) for one in taken] == [bytes] * 3


# -- back, in the same host -------------------------------------------------------------------------------------------


@in_both
async def test_cell_that_came_after_a_restore_was_asked_for_runs_in_what_was_restored(
    house: House, language: str
) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        await session.run(program(language, "let", "x", "'then'"))
        snapshot = await session.snapshot()
        await session.run(program(language, "let", "x", "'now'"))
        before = await start(session, "await hold(1);\nx")
        restoring = asyncio.create_task(session.restore(snapshot))
        await latch.until_came()
        after = await start(session, "x")
        await latch.let_go()
        await restoring
        assert result(await session.wait(before)) == "now"
        assert result(await session.wait(after)) == "then"


@in_both
async def test_cell_that_stood_in_line_behind_one_that_was_given_up_runs_in_what_was_restored(
    house: House, language: str
) -> None:
    till = Till()
    async with await house.open(language, till.tool) as session:
        await session.run(program(language, "let", "x", "'then'"))
        snapshot = await session.snapshot()
        await session.run(program(language, "let", "x", "'now'"))
        assert isinstance(await session.exec("await refund('A7')"), WaitingForApproval)
        queued = await start(session, "x")
        await session.restore(snapshot)
        assert (await session.run("x")).result == "then"
        assert result(await session.wait(queued)) == "then"


@in_both
async def test_observer_of_a_sleeping_cell_is_told_when_the_session_goes_back(house: House, language: str) -> None:
    till = Till()
    async with await house.open(language, till.tool) as session:
        snapshot = await session.snapshot()
        seen = await session.exec("await refund('A7')")
        assert isinstance(seen, WaitingForApproval)
        observer = await observe(session, seen.cell_id)
        await session.restore(snapshot)
        ended = await observer
        assert ended.status in ("interrupted", "terminated")
        assert (await session.run("1 + 1")).result == 2


# -- within the host's budget -----------------------------------------------------------------------------------------


@in_both
async def test_cell_that_came_with_a_snapshot_is_told_within_the_hosts_budget(language: str) -> None:
    latch = Latch()
    limits = CellLimits(hibernate_after_ms=0, max_output_tokens=10)
    async with House(cells=limits) as house:
        session = await house.open(language, latch.tool)
        cell_id = await start(session, "text(given)\nawait hold(1)", inputs={"given": "z" * 1000})
        await latch.until_came()
        snapshot = await session.snapshot()
    await latch.let_go()
    async with House(cells=limits) as other:
        copy = await other.cloister.restore_session(snapshot, tools=[latch.tool])
        ended = await to_the_end(copy, cell_id)
        assert "".join(texts(ended)).count("z") == 40


@in_both
async def test_run_that_is_waited_for_is_told_within_the_hosts_budget(language: str) -> None:
    till = Till()
    async with House(cells=CellLimits(max_output_tokens=10)) as house:
        session = await house.open(language, till.tool)
        ran = await session.run("text(given)\nawait refund('A7')", inputs={"given": "z" * 1000})
        seen = await session.wait(ran.cell_id)
        assert isinstance(seen, WaitingForApproval)
        assert "".join(texts(seen)).count("z") == 40
