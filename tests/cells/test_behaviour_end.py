"""What becomes of cells when their session closes, their host stops, or nobody ever asks for them."""

import asyncio

import pytest

from cloister import (
    ApprovalState,
    CellLimits,
    CellNotFound,
    CloisterError,
    Interrupted,
    RunStatus,
    SessionClosed,
    Terminated,
    WaitingForApproval,
    Yielded,
)
from tests.cells.lab import (
    LONG,
    House,
    Latch,
    Leaving,
    Reader,
    a_few_rounds,
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
ON_A_WORKER = CellLimits(hibernate_after_ms=LONG)


# -- the session closes -----------------------------------------------------------------------------------------------


@in_both
async def test_observers_of_computing_and_queued_cells_are_told_that_the_session_closed(language: str) -> None:
    async with House() as house:
        session = await house.open(language)
        seen = await session.exec("text('a')\n" + program(language, "loop"), yield_ms=LONG)
        assert isinstance(seen, Yielded)
        queued = await start(session, "text('never')")
        observers = [await observe(session, cell_id) for cell_id in (seen.cell_id, queued)]
        await session.close()
        for ended in [await observer for observer in observers]:
            assert isinstance(ended, Interrupted)
            assert ended.error.code == "INTERRUPTED"
            assert ended.content == ()


@pytest.mark.parametrize("limits", [AT_ONCE, ON_A_WORKER], ids=["asleep", "on a worker"])
@in_both
async def test_observer_of_a_waiting_cell_gets_its_output_when_the_session_closes(
    language: str, limits: CellLimits
) -> None:
    latch = Latch()
    async with House(cells=limits) as house:
        session = await house.open(language, latch.tool)
        reader = Reader(session)
        cell_id = await start(session, "text('a')\nstore('k', 1)\nawait hold(1)")
        await latch.until_came()
        if limits is AT_ONCE:
            await reader.until("cell.hibernated", cell_id)
        observer = await observe(session, cell_id)
        await session.close()
        ended = await observer
        assert isinstance(ended, Interrupted)
        assert texts(ended) == ["a"]
        assert latch.cancelled == [1]


@in_both
async def test_observer_of_a_cell_that_waits_for_approval_is_told_and_the_question_is_cancelled(language: str) -> None:
    till = Till()
    async with House() as house:
        session = await house.open(language, till.tool)
        seen = await session.exec("await refund('A7')")
        assert isinstance(seen, WaitingForApproval)
        observer = await observe(session, seen.cell_id)
        await session.close()
        assert isinstance(await observer, Interrupted)
        (approval,) = await house.cloister.approvals()
        assert approval.state is ApprovalState.CANCELLED
        assert till.paid == []


@in_both
async def test_isolated_cells_end_with_their_session(language: str) -> None:
    latch = Latch()
    async with House(cells=AT_ONCE) as house:
        session = await house.open(language, latch.tool)
        waiting = await start(session, "await hold(1)", isolated=True)
        await latch.until_came()
        computing = await session.exec(program(language, "loop"), yield_ms=LONG, isolated=True)
        observers = [await observe(session, cell_id) for cell_id in (waiting, computing.cell_id)]
        await session.close()
        assert [type(await observer) for observer in observers] == [Interrupted, Interrupted]
        assert latch.cancelled == [1]


@in_both
async def test_session_closed_in_the_moment_a_cell_was_started_closes(language: str) -> None:
    async with House() as house:
        for isolated in (False, True):
            session = await house.open(language)
            await start(session, "text('a')", isolated=isolated)
            await session.close()


@in_both
async def test_session_closed_while_a_cell_gives_its_worker_back_tells_of_its_end(language: str) -> None:
    async with House() as house:
        session = await house.open(language)
        reader = Reader(session)
        cell_id = await start(session, "store('k', 1)", isolated=True)
        # No event tells of this moment: it is the one before the event.
        while (await info(session, cell_id)).state != "completed":  # noqa: ASYNC110
            await asyncio.sleep(0)
        await session.close()
        assert [event.kind for event in await reader.rest()][-2:] == ["cell.completed", "session.closed"]
        assert await session.values.all() == {"k": 1}


@in_both
async def test_close_while_a_terminate_is_under_way_lets_both_end(language: str) -> None:
    slow = Leaving()
    async with House(cells=ON_A_WORKER) as house:
        session = await house.open(language, slow.tool)
        cell_id = await start(session, "await linger()")
        await slow.entered.wait()
        ending = asyncio.create_task(session.terminate(cell_id))
        await slow.leaving.wait()
        closing = asyncio.create_task(session.close())
        await a_few_rounds()
        slow.may_leave.set()
        assert isinstance(await ending, Terminated)
        await closing
        # On a slow machine the gate has not waited for it to the end.
        while not slow.gone:  # noqa: ASYNC110
            await asyncio.sleep(0)


@in_both
async def test_close_waits_until_cancelled_calls_have_really_ended(language: str) -> None:
    slow = Leaving()
    async with House(cells=ON_A_WORKER) as house:
        session = await house.open(language, slow.tool)
        await start(session, "await linger()")
        await slow.entered.wait()
        closing = asyncio.create_task(session.close())
        await slow.leaving.wait()
        await a_few_rounds()
        assert not closing.done()
        slow.may_leave.set()
        await closing
        assert slow.gone


@in_both
async def test_closed_session_takes_no_cells_and_knows_none(language: str) -> None:
    async with House() as house:
        session = await house.open(language)
        cell_id = await start(session, "1")
        await session.close()
        await session.close()
        for asking in (
            session.exec("1"),
            session.wait(cell_id),
            session.terminate(cell_id),
            session.wait_any([cell_id]),
        ):
            with pytest.raises(SessionClosed):
                await asking


@in_both
async def test_workers_of_closed_sessions_serve_others(language: str) -> None:
    latch = Latch()
    async with House(workers=1, cells=ON_A_WORKER) as house:
        for _ in range(3):
            session = await house.open(language, latch.tool)
            await start(session, "await hold(1)")
            await session.close()
        looping = await house.open(language)
        await looping.exec(program(language, "loop"), yield_ms=LONG)
        await looping.close()
        last = await house.open(language)
        assert result(await last.exec("1 + 1")) == 2


# -- the host stops ---------------------------------------------------------------------------------------------------


@in_both
async def test_host_that_stops_tells_observers_of_waiting_and_computing_cells(language: str) -> None:
    latch = Latch()
    async with House(cells=CellLimits(hibernate_after_ms=LONG, shutdown_ms=50)) as house:
        one, two = await house.open(language, latch.tool), await house.open(language)
        waiting = await start(one, "text('a')\nawait hold(1)")
        await latch.until_came()
        computing = await two.exec(program(language, "loop"), yield_ms=LONG)
        observers = [await observe(one, waiting), await observe(two, computing.cell_id)]
    first, second = [await observer for observer in observers]
    assert isinstance(first, Interrupted)
    assert texts(first) == ["a"]
    assert isinstance(second, Interrupted)
    assert latch.cancelled == [1]
    with pytest.raises(CloisterError):
        await one.exec("1")


@in_both
async def test_host_that_stops_lets_a_short_computation_end(language: str) -> None:
    count = {
        "python": "n = 0\nfor i in range(200000):\n    n += 1\nn",
        "typescript": "let n = 0; for (let i = 0; i < 200000; i++) n++; n",
    }[language]
    async with House(cells=CellLimits(shutdown_ms=10_000)) as house:
        session = await house.open(language)
        seen = await session.exec("yield_control()\n" + count, yield_ms=LONG)
        observer = await observe(session, seen.cell_id) if isinstance(seen, Yielded) else None
    assert result(await observer if observer is not None else seen) == 200_000


@in_both
async def test_host_that_stops_right_after_a_start_stops(language: str) -> None:
    async with House() as house:
        session = await house.open(language)
        await start(session, "text('a')")
        await start(session, "text('b')")
        await start(session, "text('c')", isolated=True)


@in_both
async def test_run_under_way_is_interrupted_when_the_host_stops(language: str) -> None:
    latch = Latch()
    async with House(cells=CellLimits(shutdown_ms=0)) as house:
        session = await house.open(language, latch.tool)
        running = asyncio.create_task(session.run("await hold(1)"))
        await latch.until_came()
    assert (await running).status is RunStatus.INTERRUPTED


# -- nobody asks ------------------------------------------------------------------------------------------------------


@in_both
async def test_finished_cell_that_nobody_asks_for_is_reaped(language: str) -> None:
    async with House(cells=CellLimits(reap_after_ms=1)) as house:
        session = await house.open(language)
        async with reading(session) as events:
            ids = [await start(session, f"text('a')\n{n}") for n in range(3)]
            for cell_id in ids:
                await events.until("cell.reaped", cell_id)
            assert await session.cells() == []
            for cell_id in ids:
                with pytest.raises(CellNotFound, match=f"exec cell {cell_id} not found"):
                    await session.wait(cell_id)


@in_both
async def test_cell_that_goes_on_is_never_reaped(language: str) -> None:
    latch = Latch()
    async with House(cells=CellLimits(reap_after_ms=1, hibernate_after_ms=0)) as house:
        session = await house.open(language, latch.tool)
        async with reading(session) as events:
            waiting = await start(session, "await hold(1)")
            await latch.until_came()
            done = await start(session, "1", isolated=True)
            await events.until("cell.reaped", done)
            assert (await info(session, waiting)).id == waiting
            observer = await observe(session, waiting)
            await latch.let_go()
            assert result(await observer) == 1


@in_both
async def test_cell_that_was_read_is_not_reaped(language: str) -> None:
    async with House(cells=CellLimits(reap_after_ms=1)) as house:
        session = await house.open(language)
        async with reading(session) as events:
            first = await session.exec("1")
            second = await start(session, "2")
            await events.until("cell.reaped", second)
            assert [event.data["cell_id"] for event in events.seen if event.kind == "cell.reaped"] == [second]
            assert result(first) == 1


@in_both
async def test_unread_results_wait_for_as_long_as_the_host_keeps_them(language: str) -> None:
    async with House() as house:
        session = await house.open(language)
        ids = [await start(session, str(n)) for n in range(20)]
        assert [result(await to_the_end(session, cell_id)) for cell_id in reversed(ids)] == list(reversed(range(20)))
