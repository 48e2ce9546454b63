"""Ending a cell for sure: wherever it is, with all its calls, and as if it had never been."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cloister import (
    ApprovalState,
    CellBusy,
    CellLimits,
    CellNotFound,
    Completed,
    Failed,
    RunStatus,
    Terminated,
    WaitingForApproval,
    Yielded,
)
from cloister.engines.monty.seat import Desk
from tests.cells.lab import (
    LONG,
    House,
    Latch,
    Leaving,
    a_few_rounds,
    behaviour,
    codes,
    in_both,
    info,
    observe,
    program,
    reading,
    result,
    start,
    states,
    texts,
)
from tests.sessions.till import Till

AT_ONCE = CellLimits(hibernate_after_ms=0)
ON_A_WORKER = CellLimits(hibernate_after_ms=LONG)


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House(cells=ON_A_WORKER) as made:
        yield made


@pytest.fixture(scope="module")
async def sleepy() -> AsyncIterator[House]:
    async with House(cells=AT_ONCE) as made:
        yield made


# -- wherever it is ---------------------------------------------------------------------------------------------------


@in_both
async def test_endless_loop_is_terminated_and_the_session_goes_on(house: House, language: str) -> None:
    async with await house.open(language) as session:
        await session.run(program(language, "let", "x", 1))
        first = await session.exec(program(language, "let", "x", 2) + "\n" + program(language, "loop"), yield_ms=LONG)
        assert isinstance(first, Yielded)
        ended = await session.terminate(first.cell_id)
        assert isinstance(ended, Terminated)
        assert "ROLLED_BACK" in codes(ended)
        assert await session.cells() == []
        assert (await session.run("x")).result == 1


@in_both
async def test_cell_that_waits_on_a_worker_is_terminated_and_its_call_cancelled(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        await session.run(program(language, "let", "x", 1))
        cell_id = await start(session, program(language, "let", "x", 2) + "\ntext('a')\nawait hold(1)")
        await latch.until_came()
        assert (await info(session, cell_id)).state == "waiting"
        ended = await session.terminate(cell_id)
        assert isinstance(ended, Terminated)
        assert texts(ended) == ["a"]
        assert [(call.name, str(call.status)) for call in ended.external_calls] == [("hold", "error")]
        assert latch.cancelled == [1]
        assert (await session.run("x")).result == 1


@in_both
async def test_cell_that_hibernates_in_a_call_is_terminated(sleepy: House, language: str) -> None:
    latch = Latch()
    async with await sleepy.open(language, latch.tool) as session, reading(session) as events:
        await session.run(program(language, "let", "x", 1))
        cell_id = await start(session, program(language, "let", "x", 2) + "\ntext('a')\nawait hold(1)")
        await events.until("cell.hibernated", cell_id)
        assert (await info(session, cell_id)).state == "asleep"
        ended = await session.terminate(cell_id)
        assert isinstance(ended, Terminated)
        assert texts(ended) == ["a"]
        assert latch.cancelled == [1]
        assert (await session.run("x")).result == 1


@in_both
async def test_cell_that_sleeps_for_approval_is_terminated_and_its_question_cancelled(
    house: House, language: str
) -> None:
    till = Till()
    async with await house.open(language, till.tool) as session:
        await session.run(program(language, "let", "x", 1))
        first = await session.exec(program(language, "let", "x", 2) + "\ntext('a')\nawait refund('A7')")
        assert isinstance(first, WaitingForApproval)
        ended = await session.terminate(first.cell_id)
        assert isinstance(ended, Terminated)
        assert ended.content == ()
        (approval,) = await house.cloister.approvals(session_id=session.id)
        assert approval.state is ApprovalState.CANCELLED
        assert till.paid == []
        # The turn is free again.
        assert (await session.run("x")).result == 1


@in_both
async def test_no_question_is_left_of_a_cell_that_is_terminated_on_its_way_to_sleep(language: str) -> None:
    async with House() as house, await house.open(language, Till().tool) as session:
        for rounds in range(24):
            async with reading(session) as events:
                cell_id = await start(session, "await refund('A7')")
                await events.until("approval.required")
                for _ in range(rounds):
                    await asyncio.sleep(0)
                assert isinstance(await session.terminate(cell_id), Terminated)
            states_of = {one.state for one in await house.cloister.approvals(session_id=session.id)}
            assert states_of == {ApprovalState.CANCELLED}, f"after {rounds} rounds"


@in_both
async def test_queued_cell_is_terminated_and_never_runs(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session, reading(session) as events:
        front = await start(session, "await hold(1)")
        queued = await start(session, "await hold(2)")
        last = await start(session, "await hold(3)")
        await latch.until_came()
        assert await states(session) == ["waiting", "queued", "queued"]
        ended = await session.terminate(queued)
        assert isinstance(ended, Terminated)
        assert ended.content == ()
        await latch.let_go()
        assert result(await session.wait(front)) == 1
        assert result(await session.wait(last)) == 3
        assert latch.came == [1, 3]
        await events.until("cell.completed", last)
        started = [event.data["cell_id"] for event in events.seen if event.kind == "cell.started"]
        assert started == [front, last]


@in_both
async def test_cell_that_waits_for_its_first_worker_is_terminated(language: str) -> None:
    async with House(workers=1, cells=ON_A_WORKER) as house:
        busy, other = await house.open(language), await house.open(language)
        looping = await busy.exec(program(language, "loop"), yield_ms=LONG)
        waiting = await start(other, "text('never')")
        await a_few_rounds()
        ended = await other.terminate(waiting)
        assert isinstance(ended, Terminated)
        assert ended.content == ()
        assert isinstance(await busy.terminate(looping.cell_id), Terminated)
        # The one worker is neither lost nor counted twice.
        assert [(await session.run("1 + 1")).result for session in (busy, other)] == [2, 2]


@in_both
async def test_cell_that_waits_for_a_worker_to_wake_on_is_terminated(language: str) -> None:
    latch = Latch()
    async with House(workers=1, cells=AT_ONCE) as house:
        busy, other = await house.open(language), await house.open(language, latch.tool)
        await other.run(program(language, "let", "x", 1))
        async with reading(other) as events:
            sleeping = await start(other, program(language, "let", "x", 2) + "\nawait hold(1)")
            await events.until("cell.hibernated", sleeping)
            looping = await busy.exec(program(language, "loop"), yield_ms=LONG)
            await latch.let_go()
            await events.until("call.settled")
            await a_few_rounds()
            assert isinstance(await other.terminate(sleeping), Terminated)
        assert isinstance(await busy.terminate(looping.cell_id), Terminated)
        assert (await other.run("x")).result == 1
        assert (await busy.run("1 + 1")).result == 2


@in_both
async def test_cell_terminated_in_the_moment_it_was_started_ends(language: str) -> None:
    async with House() as house:
        session = await house.open(language)
        cell_id = await start(session, "text('a')")
        assert isinstance(await session.terminate(cell_id), Terminated)
        assert (await session.run("1 + 1")).result == 2


@behaviour
async def test_python_cell_that_moves_from_desk_to_cabin_is_terminated_cleanly(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leaving, close = asyncio.Event(), Desk.close

    async def seen_closing(desk: Desk) -> None:
        leaving.set()
        await close(desk)

    monkeypatch.setattr(Desk, "close", seen_closing)
    latch = Latch()
    async with await house.open("python", latch.tool) as session:
        await session.run("x = 1")
        cell_id = await start(session, "await hold(1)")
        await leaving.wait()
        assert isinstance(await session.terminate(cell_id), Terminated)
        assert (await session.run("x")).result == 1
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


@in_both
async def test_finished_cell_gives_its_result_to_whoever_terminates_it(house: House, language: str) -> None:
    async with await house.open(language) as session, reading(session) as events:
        good, bad = await start(session, "text('a')\n'end'"), await start(session, program(language, "fail"))
        await events.until("cell.completed", bad)
        seen = await session.terminate(good)
        assert isinstance(seen, Completed)
        assert (seen.result, texts(seen)) == ("end", ["a"])
        assert isinstance(await session.wait(bad, terminate=True), Failed)
        for cell_id in (good, bad):
            with pytest.raises(CellNotFound):
                await session.terminate(cell_id)


@in_both
async def test_run_is_terminated_by_its_cell_id_and_says_so_to_its_caller(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        running = asyncio.create_task(session.run("await hold(1)"))
        await latch.until_came()
        ((cell,),) = [await session.cells()]
        assert isinstance(await session.terminate(cell.id), Terminated)
        ended = await running
        assert ended.status in (RunStatus.INTERRUPTED, RunStatus.CANCELLED)
        assert latch.cancelled == [1]


# -- for sure ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [ON_A_WORKER, AT_ONCE], ids=["on a worker", "asleep"])
@in_both
async def test_terminate_waits_until_cancelled_calls_have_really_ended(language: str, limits: CellLimits) -> None:
    slow = Leaving()
    async with House(cells=limits) as house:
        session = await house.open(language, slow.tool)
        async with reading(session) as events:
            cell_id = await start(session, "await linger()")
            await slow.entered.wait()
            if limits is AT_ONCE:
                await events.until("cell.hibernated", cell_id)
            ending = asyncio.create_task(session.terminate(cell_id))
            await slow.leaving.wait()
            await a_few_rounds()
            assert not ending.done()
            assert (await info(session, cell_id)).state == "stopping"
            slow.may_leave.set()
            assert isinstance(await ending, Terminated)
            assert slow.gone


@in_both
async def test_terminate_waits_for_the_last_of_several_calls(sleepy: House, language: str) -> None:
    slow, latch = Leaving(), Latch()
    async with await sleepy.open(language, slow.tool, latch.tool) as session, reading(session) as events:
        cell_id = await start(session, program(language, "together", "linger(), hold(1)"))
        await slow.entered.wait()
        # Asleep, so that there is no worker to wait for.
        await events.until("cell.hibernated", cell_id)
        ending = asyncio.create_task(session.terminate(cell_id))
        await slow.leaving.wait()
        await a_few_rounds()
        assert latch.cancelled == [1]
        assert not ending.done()
        slow.may_leave.set()
        assert isinstance(await ending, Terminated)
        assert slow.gone


@in_both
async def test_several_calls_at_once_are_all_cancelled(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(session, program(language, "together", "hold(1), hold(2), hold(3)"))
        await latch.until_came(3)
        ended = await session.terminate(cell_id)
        assert isinstance(ended, Terminated)
        assert sorted(latch.cancelled) == [1, 2, 3]
        assert len(ended.external_calls) == 3


@in_both
async def test_second_terminate_is_refused_while_the_first_is_under_way_and_then_finds_nothing(
    house: House, language: str
) -> None:
    slow = Leaving()
    async with await house.open(language, slow.tool) as session:
        cell_id = await start(session, "await linger()")
        await slow.entered.wait()
        ending = asyncio.create_task(session.terminate(cell_id))
        await slow.leaving.wait()
        with pytest.raises(CellBusy) as refused:
            await session.terminate(cell_id)
        assert refused.value.message == f"exec cell {cell_id} is already being terminated"
        slow.may_leave.set()
        assert isinstance(await ending, Terminated)
        with pytest.raises(CellNotFound, match=f"exec cell {cell_id} not found"):
            await session.terminate(cell_id)


@in_both
async def test_cell_whose_terminator_was_cancelled_ends_all_the_same(house: House, language: str) -> None:
    slow = Leaving()
    async with await house.open(language, slow.tool) as session, reading(session) as events:
        cell_id = await start(session, "text('a')\nawait linger()")
        await slow.entered.wait()
        ending = asyncio.create_task(session.terminate(cell_id))
        await slow.leaving.wait()
        ending.cancel()
        slow.may_leave.set()
        await events.until("cell.terminated", cell_id)
        seen = await session.wait(cell_id)
        assert isinstance(seen, Terminated)
        assert texts(seen) == ["a"]


@in_both
async def test_observer_gets_the_content_and_the_terminator_only_the_end(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(session, "text('a')\nawait hold(1)")
        await latch.until_came()
        observer = await observe(session, cell_id)
        ended = await session.terminate(cell_id)
        assert isinstance(ended, Terminated)
        assert ended.content == ()
        seen = await observer
        assert isinstance(seen, Terminated)
        assert texts(seen) == ["a"]
        assert await session.cells() == []


@in_both
async def test_wait_with_terminate_ends_the_cell_first(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(session, "text('a')\nawait hold(1)")
        await latch.until_came()
        ended = await session.wait(cell_id, yield_ms=0, terminate=True)
        assert isinstance(ended, Terminated)
        assert texts(ended) == ["a"]


# -- and as if it had never been --------------------------------------------------------------------------------------


@in_both
async def test_terminated_cell_stores_nothing(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(session, "store('k', 1)\nawait hold(1)")
        await latch.until_came()
        await session.terminate(cell_id)
        assert await session.values.all() == {}


@in_both
async def test_neighbours_of_a_terminated_cell_go_on(sleepy: House, language: str) -> None:
    latch = Latch()
    async with await sleepy.open(language, latch.tool) as session, await sleepy.open(language, latch.tool) as other:
        await session.run(program(language, "let", "x", 1))
        doomed = await start(session, "await hold(1)")
        queued = await start(session, "[await hold(2), x]")
        isolated = await start(session, "await hold(3)", isolated=True)
        elsewhere = await start(other, "await hold(4)")
        await latch.until_came(3)
        assert isinstance(await session.terminate(doomed), Terminated)
        await latch.let_go()
        assert result(await session.wait(queued)) == [2, 1]
        assert result(await session.wait(isolated)) == 3
        assert result(await other.wait(elsewhere)) == 4
        assert latch.cancelled == [1]


@in_both
async def test_isolated_cell_is_terminated_and_the_session_does_not_notice(house: House, language: str) -> None:
    async with await house.open(language) as session:
        await session.run(program(language, "let", "x", 1))
        looping = await session.exec(program(language, "loop"), yield_ms=LONG, isolated=True)
        ended = await session.terminate(looping.cell_id)
        assert isinstance(ended, Terminated)
        assert "ROLLED_BACK" not in codes(ended)
        assert (await session.run("x")).result == 1
