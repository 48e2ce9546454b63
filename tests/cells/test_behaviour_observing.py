"""Those who look at a cell: what they are told, when, and that nothing is told twice or lost."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cloister import CellBusy, CellNotFound, Completed, Event, InvalidInput, Observation, Session, Terminated, Yielded
from tests.cells.lab import (
    LONG,
    House,
    Latch,
    a_few_rounds,
    behaviour,
    in_both,
    info,
    observe,
    program,
    reading,
    result,
    start,
    texts,
)


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House() as made:
        yield made


# -- yields -----------------------------------------------------------------------------------------------------------


@in_both
async def test_yield_timer_tells_the_output_so_far_and_the_rest_comes_later_once(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        first = await session.exec("text('a')\nawait hold(1)\ntext('b')\n'end'", yield_ms=1)
        await latch.until_came()
        more = await session.wait(first.cell_id, yield_ms=1)
        assert isinstance(first, Yielded)
        assert isinstance(more, Yielded)
        # Whether the first came before the text is the machine's business.
        assert texts(first) + texts(more) == ["a"]
        await latch.let_go()
        second = await session.wait(first.cell_id)
        assert (result(second), texts(second)) == ("end", ["b"])


@in_both
async def test_lines_printed_after_an_observation_are_told_in_the_next(house: House, language: str) -> None:
    latch = Latch()
    code = "\nawait hold(1)\n".join(program(language, "print", f"'{letter}'") for letter in "ab")
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(session, code)
        await latch.until_came()
        assert texts(await session.wait(cell_id, yield_ms=0)) == ["a\n"]
        await latch.let_go()
        assert texts(await session.wait(cell_id)) == ["b\n"]


@in_both
async def test_zero_yield_returns_at_once_and_the_cell_goes_on(house: House, language: str) -> None:
    async with await house.open(language) as session:
        first = await session.exec("text('a')\n'end'", yield_ms=0)
        assert isinstance(first, Yielded)
        assert first.content == ()
        second = await session.wait(first.cell_id)
        assert (result(second), texts(second)) == ("end", ["a"])


@in_both
async def test_completion_wins_over_the_yield_timer_when_both_are_there(house: House, language: str) -> None:
    async with await house.open(language) as session, reading(session) as events:
        cell_id = await start(session, "text('a')\n'end'")
        await events.until("cell.completed")
        seen = await session.wait(cell_id, yield_ms=0)
        assert (result(seen), texts(seen)) == ("end", ["a"])


@in_both
async def test_cell_keeps_running_after_a_yield_across_several_waits(house: House, language: str) -> None:
    latch = Latch()
    code = "\n".join(f"text('before {n}')\nawait hold({n})" for n in (1, 2, 3)) + "\n'end'"
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(session, code)
        for n in (1, 2, 3):
            await latch.until_came(n)
            seen = await session.wait(cell_id, yield_ms=0)
            assert isinstance(seen, Yielded)
            assert texts(seen) == [f"before {n}"]
            again = await session.wait(cell_id, yield_ms=0)
            assert again == Yielded(cell_id=cell_id)
            await latch.let_go(n)
        last = await session.wait(cell_id)
        assert (result(last), last.content) == ("end", ())


@in_both
async def test_yield_control_returns_to_the_observer_at_once(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        seen = await session.exec("text('a')\nyield_control()\nawait hold(1)\ntext('b')", yield_ms=LONG)
        assert isinstance(seen, Yielded)
        assert texts(seen) == ["a"]
        await latch.let_go()
        assert texts(await session.wait(seen.cell_id)) == ["b"]


@in_both
async def test_yield_control_returns_to_an_observer_that_came_later(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(session, "await hold(1)\nyield_control()\nawait hold(2)")
        observer = await observe(session, cell_id)
        await latch.until_came()
        await latch.let_go(1)
        assert await observer == Yielded(cell_id=cell_id)
        await latch.let_go()
        assert result(await session.wait(cell_id)) == 2


@in_both
async def test_yield_control_that_nobody_sees_does_nothing_to_the_next_wait(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(session, "yield_control()\nawait hold(1)")
        await latch.until_came()
        observer = await observe(session, cell_id)
        await a_few_rounds()
        assert not observer.done()
        await latch.let_go()
        assert result(await observer) == 1


@in_both
async def test_yield_control_that_nobody_sees_is_nothing_to_tell_later(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(session, "yield_control()\nawait hold(1)")
        await latch.until_came()
        assert await session.wait_any([cell_id], timeout_ms=0) is None
        await latch.let_go()
        assert result(await session.wait(cell_id)) == 1


# -- one observer at a time -------------------------------------------------------------------------------------------


@in_both
async def test_second_observer_is_refused_and_the_first_is_not_displaced(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(session, "await hold(1)\ntext('a')")
        first = await observe(session, cell_id)
        for yield_ms in (0, LONG):
            with pytest.raises(CellBusy) as refused:
                await session.wait(cell_id, yield_ms=yield_ms)
            assert refused.value.message == f"exec cell {cell_id} already has an active observer"
        await latch.let_go()
        assert texts(await first) == ["a"]


@in_both
async def test_exec_itself_is_an_observer(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        starting = asyncio.create_task(session.exec("await hold(1)", yield_ms=LONG))
        await latch.until_came()
        ((cell,),) = [await session.cells()]
        assert cell.observed
        with pytest.raises(CellBusy, match="already has an active observer"):
            await session.wait(cell.id)
        await latch.let_go()
        assert result(await starting) == 1


@in_both
async def test_observer_that_is_cancelled_loses_nothing(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        starting = asyncio.create_task(session.exec("text('a')\nawait hold(1)\ntext('b')\n'end'", yield_ms=LONG))
        await latch.until_came()
        ((cell,),) = [await session.cells()]
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        observer = await observe(session, cell.id)
        observer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await observer
        assert not (await info(session, cell.id)).observed
        await latch.let_go()
        seen = await session.wait(cell.id)
        assert (result(seen), texts(seen)) == ("end", ["a", "b"])


@in_both
async def test_observer_cancelled_in_the_moment_of_the_end_leaves_the_result(language: str) -> None:
    latch, observers = Latch(), list["asyncio.Task[Observation]"]()

    def cancel_them(event: Event) -> None:
        # The observer has been told to come, and has not come yet.
        if event.kind == "cell.completed":
            for observer in observers:
                observer.cancel()

    async with House(on_event=cancel_them) as house:
        session = await house.open(language, latch.tool)
        cell_id = await start(session, "text('a')\nawait hold(1)")
        await latch.until_came()
        observers.append(await observe(session, cell_id))
        await latch.let_go()
        with pytest.raises(asyncio.CancelledError):
            await observers[0]
        seen = await session.wait(cell_id)
        assert (result(seen), texts(seen)) == (1, ["a"])


# -- what can be waited for -------------------------------------------------------------------------------------------


@in_both
async def test_finished_unread_cell_gives_its_result_once_and_is_then_not_found(house: House, language: str) -> None:
    async with await house.open(language) as session, reading(session) as events:
        cell_id = await start(session, "text('a')\n'end'")
        await events.until("cell.completed")
        assert [cell.id for cell in await session.cells()] == [cell_id]
        seen = await session.wait(cell_id)
        assert (result(seen), texts(seen)) == ("end", ["a"])
        with pytest.raises(CellNotFound) as missing:
            await session.wait(cell_id)
        assert missing.value.message == f"exec cell {cell_id} not found"
        assert await session.cells() == []


@pytest.mark.parametrize("way", ["wait", "wait_any", "terminate", "wait_terminate"])
@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        ("cel_nowhere", "cel_nowhere"),
        ("", ""),
        (17, "17"),
        (None, "None"),
        (1.5, "1.5"),
        ("x" * 5000, repr("x" * 5000)[:80]),
        (b"cel_1", "b'cel_1'"),
    ],
)
@behaviour
async def test_what_is_no_cell_is_not_found_and_is_named(house: House, way: str, wrong: Any, shown: str) -> None:
    async with await house.open("python") as session:
        with pytest.raises(CellNotFound) as missing:
            await _ask(session, way, wrong)
    assert missing.value.message == f"exec cell {shown} not found"


@pytest.mark.parametrize("way", ["wait", "terminate", "wait_any"])
@behaviour
async def test_list_in_place_of_an_id_is_not_found(house: House, way: str) -> None:
    async with await house.open("python") as session:
        with pytest.raises(CellNotFound):
            await _ask(session, way, ["cel_1"])


@behaviour
async def test_resume_of_what_is_no_id_is_refused(house: House) -> None:
    async with await house.open("python") as session:
        refused = await session.resume(["cel_1"])  # pyright: ignore[reportArgumentType]
        assert refused.error is not None
        assert refused.error.code == "INVALID_INPUT"


async def _ask(session: Session, way: str, cell_id: Any) -> None:
    match way:
        case "wait":
            await session.wait(cell_id)
        case "wait_any":
            await session.wait_any([cell_id])
        case "terminate":
            await session.terminate(cell_id)
        case _:
            await session.wait(cell_id, terminate=True)


@in_both
async def test_cell_of_another_session_is_not_found(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session, await house.open(language) as other:
        cell_id = await start(session, "await hold(1)")
        for way in ("wait", "wait_any", "terminate", "wait_terminate"):
            with pytest.raises(CellNotFound, match=f"exec cell {cell_id} not found"):
                await _ask(other, way, cell_id)
        await latch.let_go()
        assert result(await session.wait(cell_id)) == 1


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (-1, "yield_ms cannot be negative: -1"),
        (86_400_001, "yield_ms is longer than a day: 86400001"),
        (10**30, "yield_ms is longer than a day"),
        (True, "yield_ms is a whole number of milliseconds, not bool"),
        (1.0, "yield_ms is a whole number of milliseconds, not float"),
        ("10", "yield_ms is a whole number of milliseconds, not str"),
        (None, "yield_ms is a whole number of milliseconds, not NoneType"),
    ],
)
@behaviour
async def test_yield_that_is_no_time_is_refused_in_words_and_no_cell_is_left(
    house: House, wrong: Any, why: str
) -> None:
    latch = Latch()
    async with await house.open("python", latch.tool) as session:
        with pytest.raises(InvalidInput) as refused:
            await session.exec("await hold(1)", yield_ms=wrong)
        assert refused.value.message.startswith(why)
        assert await session.cells() == []
        cell_id = await start(session, "await hold(2)")
        with pytest.raises(InvalidInput) as refused:
            await session.wait(cell_id, yield_ms=wrong)
        assert refused.value.message.startswith(why)
        await latch.let_go()
        assert result(await session.wait(cell_id)) == 2
        assert latch.came == [2]


@in_both
async def test_wait_on_a_run_that_is_under_way_is_refused(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        running = asyncio.create_task(session.run("await hold(1)"))
        await latch.until_came()
        ((cell,),) = [await session.cells()]
        with pytest.raises(CellBusy, match="belongs to a run that is under way"):
            await session.wait(cell.id)
        await latch.let_go()
        assert (await running).result == 1
        assert await session.cells() == []


# -- the first of several ---------------------------------------------------------------------------------------------


@in_both
async def test_wait_any_tells_of_the_first_that_finishes_and_the_others_stay(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        ids = [await start(session, f"text('t{n}')\nawait hold({n})", isolated=True) for n in (1, 2)]
        await latch.until_came(2)
        first = asyncio.create_task(session.wait_any(ids, timeout_ms=LONG))
        await latch.let_go(2)
        seen = await first
        assert seen is not None
        assert (seen.cell_id, result(seen), texts(seen)) == (ids[1], 2, ["t2"])
        await latch.let_go(1)
        other = await session.wait(ids[0])
        assert (result(other), texts(other)) == (1, ["t1"])


@in_both
async def test_wait_any_is_nothing_in_time_and_takes_nothing(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(session, "text('a')\nawait hold(1)")
        await latch.until_came()
        assert await session.wait_any([cell_id], timeout_ms=0) is None
        assert await session.wait_any([cell_id], timeout_ms=1) is None
        await latch.let_go()
        assert texts(await session.wait(cell_id)) == ["a"]


@in_both
async def test_wait_any_refuses_observed_cells_and_leaves_the_others_alone(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        ids = [await start(session, f"await hold({n})", isolated=True) for n in (1, 2)]
        observer = await observe(session, ids[1])
        with pytest.raises(CellBusy, match=f"exec cell {ids[1]} already has an active observer"):
            await session.wait_any(ids)
        assert not (await info(session, ids[0])).observed
        await latch.let_go()
        assert result(await observer) == 2
        assert result(await session.wait(ids[0])) == 1


@in_both
async def test_wait_any_is_told_by_yield_control(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        quiet = await start(session, "await hold(1)", isolated=True)
        cell_id = await start(session, "await hold(2)\ntext('look')\nyield_control()\nawait hold(3)")
        await latch.until_came(2)
        first = asyncio.create_task(session.wait_any([quiet, cell_id], timeout_ms=LONG))
        await latch.let_go(2)
        seen = await first
        assert isinstance(seen, Yielded)
        assert (seen.cell_id, texts(seen)) == (cell_id, ["look"])
        await latch.let_go()


@in_both
async def test_wait_any_observes_all_of_them_and_none_once_it_is_cancelled(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        ids = [await start(session, f"text({n})\nawait hold({n})", isolated=True) for n in (1, 2)]
        await latch.until_came(2)
        first = asyncio.create_task(session.wait_any(ids, timeout_ms=LONG))
        await a_few_rounds()
        for cell_id in ids:
            with pytest.raises(CellBusy, match=f"exec cell {cell_id} already has an active observer"):
                await session.wait(cell_id)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert [cell.observed for cell in await session.cells()] == [False, False]
        await latch.let_go()
        assert [texts(await session.wait(cell_id)) for cell_id in ids] == [["1"], ["2"]]


@in_both
async def test_wait_any_is_told_of_one_that_somebody_terminates(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        ids = [await start(session, f"text({n})\nawait hold({n})", isolated=True) for n in (1, 2)]
        await latch.until_came(2)
        first = asyncio.create_task(session.wait_any(ids, timeout_ms=LONG))
        await a_few_rounds()
        assert (await session.terminate(ids[1])).content == ()
        seen = await first
        assert isinstance(seen, Terminated)
        assert (seen.cell_id, texts(seen)) == (ids[1], ["2"])
        await latch.let_go()
        assert result(await session.wait(ids[0])) == 1


@behaviour
async def test_wait_any_of_nothing_is_refused_and_of_one_twice_is_fine(house: House) -> None:
    async with await house.open("python") as session:
        with pytest.raises(InvalidInput, match="there is no cell to wait for"):
            await session.wait_any([])
        with pytest.raises(InvalidInput, match="a list of ids, not str"):
            await session.wait_any("cel_1")
        cell_id = await start(session, "1")
        seen = await session.wait_any([cell_id, cell_id])
        assert isinstance(seen, Completed)


@in_both
async def test_wait_any_with_an_unknown_id_observes_none_of_them(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(session, "await hold(1)")
        with pytest.raises(CellNotFound, match="exec cell cel_x not found"):
            await session.wait_any([cell_id, "cel_x"])
        assert not (await info(session, cell_id)).observed
        assert isinstance(await session.terminate(cell_id), Terminated)


@in_both
async def test_program_that_computes_yields_too(house: House, language: str) -> None:
    async with await house.open(language) as session:
        seen = await session.exec(program(language, "loop"), yield_ms=LONG)
        assert isinstance(seen, Yielded)
        assert isinstance(await session.wait(seen.cell_id, yield_ms=1), Yielded)
        await session.terminate(seen.cell_id)
