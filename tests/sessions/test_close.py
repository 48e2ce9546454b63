"""Closing a session: whatever it is doing, it ends, and says how."""

import asyncio

import pytest

from cloister import Cloister, RunStatus, Session, SessionClosed, SessionLimits
from tests.sessions.door import Door, value

pytestmark = pytest.mark.anyio

LONG = SessionLimits(wall_ms=60_000, cpu_ms=60_000)
SPIN = "print('begun', flush=True)\nwhile True:\n    pass"


async def _soon(session: Session) -> None:
    """Close it. The bound only turns a hang into a failure."""
    await asyncio.wait_for(session.close(), 10)


async def test_closed_session_refuses_to_run_validate_and_snapshot(session: Session) -> None:
    await session.run("x = 1")
    await session.close()
    assert session.closed
    for asked in (session.run("x"), session.validate("x"), session.snapshot(), session.resume()):
        with pytest.raises(SessionClosed):
            await asked


async def test_closing_twice_is_fine(session: Session) -> None:
    await session.close()
    await session.close()
    assert session.closed


async def test_session_is_closed_by_its_with_block(cloister: Cloister) -> None:
    async with await cloister.open_session() as session:
        assert not session.closed
    assert session.closed


async def test_closed_session_s_id_is_free_again(cloister: Cloister) -> None:
    first = await cloister.open_session("a")
    await first.run("x = 1")
    await first.close()
    second = await cloister.open_session("a")
    result = await second.run("x")
    assert result.error is not None


async def test_closing_stops_a_program_that_waits_for_a_tool(cloister: Cloister) -> None:
    door = Door()
    session = await cloister.open_session(tools=[door.tool], limits=LONG)
    run = asyncio.create_task(session.run("await knock(n=1)"))
    await door.until_knocked()
    await _soon(session)
    assert (await run).status is RunStatus.INTERRUPTED
    assert door.cancelled == [1]


async def test_closing_stops_a_program_that_waits_for_several_tools(cloister: Cloister) -> None:
    door = Door()
    session = await cloister.open_session(tools=[door.tool], limits=LONG)
    run = asyncio.create_task(session.run("import asyncio\nawait asyncio.gather(knock(n=1), knock(n=2))"))
    await door.until_knocked(2)
    await _soon(session)
    assert (await run).status is RunStatus.INTERRUPTED
    assert sorted(door.cancelled) == [1, 2]


@pytest.mark.parametrize("before", ["", "await knock(n=1)\n"], ids=["at once", "after a call"])
async def test_closing_stops_a_program_that_computes(cloister: Cloister, before: str) -> None:
    door = Door()
    door.open()
    session = await cloister.open_session(tools=[door.tool], limits=LONG)
    printed, loop = asyncio.Event(), asyncio.get_running_loop()

    def heard(_stream: str, _text: str) -> None:
        loop.call_soon_threadsafe(printed.set)

    run = asyncio.create_task(session.run(before + SPIN, on_output=heard))
    await asyncio.wait_for(printed.wait(), 10)
    await _soon(session)
    assert (await run).status is RunStatus.INTERRUPTED


async def test_closing_stops_a_program_that_was_only_just_asked_for(cloister: Cloister) -> None:
    session = await cloister.open_session(limits=SessionLimits(wall_ms=4000, cpu_ms=4000))
    run = asyncio.create_task(session.run("while True:\n    pass"))
    await asyncio.sleep(0)
    await _soon(session)
    try:
        result = await run
    except SessionClosed:
        return
    assert result.status is RunStatus.INTERRUPTED


async def test_runs_in_line_of_a_session_that_is_closed_are_refused(cloister: Cloister) -> None:
    door = Door()
    session = await cloister.open_session(tools=[door.tool], limits=LONG)
    first = asyncio.create_task(session.run("await knock(n=1)"))
    await door.until_knocked()
    second = asyncio.create_task(session.run("2"))
    await asyncio.sleep(0)
    await _soon(session)
    assert (await first).status is RunStatus.INTERRUPTED
    with pytest.raises(SessionClosed):
        await second


async def test_closed_session_s_worker_serves_another() -> None:
    async with Cloister(workers=1) as cloister:
        door = Door()
        first = await cloister.open_session("first", tools=[door.tool], limits=LONG)
        run = asyncio.create_task(first.run("await knock(n=1)"))
        await door.until_knocked()
        await _soon(first)
        await run
        second = await cloister.open_session("second")
        assert value(await second.run("2")) == 2


async def test_leaving_the_cloister_stops_what_runs() -> None:
    door = Door()
    async with Cloister(workers=1, tools=[door.tool], limits=LONG) as cloister:
        session = await cloister.open_session()
        run = asyncio.create_task(session.run("await knock(n=1)"))
        await door.until_knocked()
    assert (await run).status is RunStatus.INTERRUPTED
