"""Several hosts on one store, one after the other or at once: who goes on with what, and who is told."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cloister import (
    CellNotFound,
    Cloister,
    InvalidInput,
    RecoveryReport,
    SessionExists,
    SnapshotCapabilityMismatch,
    tool,
)
from cloister.core.cell import Completed, Failed, Interrupted
from cloister.ports.store import Store
from cloister.stores.postgres import PostgresStore
from tests.sessions.hurried import HurriedClock
from tests.stores.pg_server import PgServer

pytestmark = pytest.mark.anyio
KEY = b"k" * 32


@tool(side_effect="write", idempotent=False, approval_policy="manual")
async def ask(n: int) -> str:
    """Ask first."""
    return f"allowed {n}"


@tool(side_effect="write")
async def extra(n: int) -> str:
    """What not every host has."""
    return f"extra {n}"


def _made(store: str | Store, *tools: Any, **options: Any) -> Cloister:
    return Cloister(tools=[ask, *tools], store=store, snapshot_key=KEY, workers=1, clock=HurriedClock(), **options)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str | Store]:
    """A handle on one store, as often as it is asked for."""
    if request.param == "sqlite":
        return lambda: f"sqlite://{tmp_path}/s.db"
    server: PgServer = request.getfixturevalue("pg_server")
    schema = server.new_schema()
    return lambda: PostgresStore(server.url(), schema=schema)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/s.db"


async def _report(cloister: Cloister, holds: Callable[[RecoveryReport], bool]) -> RecoveryReport:
    """Once it is so."""
    async with asyncio.timeout(30):
        while not holds(report := await cloister.recovery_report()):  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)
    return report


@asynccontextmanager
async def _left(store: str | Store, *tools: Any, session_id: str = "s") -> AsyncGenerator[Any, None]:
    """A host with a session whose cell waits for a person. It leaves at the end, and takes nobody with it."""
    async with _made(store, *tools) as cloister:
        session = await cloister.open_session(session_id)
        await session.run("x = 20")
        seen = await session.exec("y = await ask(1)\n[x, y]", yield_ms=20_000)
        assert seen.status == "waiting_for_approval"
        yield seen


# -- another host goes ---------------------------------------------------------------------------------------------


async def test_sessions_of_a_host_that_goes_are_gone_on_with_by_one_that_stays(place: Callable[[], Any]) -> None:
    async with AsyncExitStack() as first:
        seen = await first.enter_async_context(_left(place()))
        async with _made(place()) as second:
            assert (await second.recovery_report()).elsewhere == ("s",)
            assert await second.approvals() == []
            async with second.events() as events:
                await first.aclose()
                report = await _report(second, lambda report: bool(report.cells))
                event = await anext(events)
                while event.kind != "cell.recovered":
                    event = await anext(events)
            [cell] = report.cells
            assert (cell.session_id, cell.cell_id, cell.outcome) == ("s", seen.cell_id, "waits")
            assert report.elsewhere == ()
            assert (event.session_id, event.data) == ("s", {"cell_id": seen.cell_id, "outcome": "waits"})
            [question] = await second.approvals(state="pending")
            await second.decide(question.id, "allow")
            session = await second.open_session("s")
            told = await session.wait(seen.cell_id)
            assert isinstance(told, Completed)
            assert told.result == [20, "allowed 1"]


async def test_what_a_host_could_not_go_on_with_is_left_to_one_that_can(file: str) -> None:
    async with AsyncExitStack() as first:
        seen = await first.enter_async_context(_left(file, extra))
        async with _made(file) as poor:
            await first.aclose()
            report = await _report(poor, lambda report: bool(report.cells))
            [cell] = report.cells
            assert (cell.outcome, cell.cell_id) == ("held", seen.cell_id)
            assert "extra" in (cell.reason or "")
            async with _made(file, extra) as rich:
                assert [cell.outcome for cell in (await rich.recovery_report()).cells] == ["waits"]
                assert (await (await rich.open_session("s")).run("x")).status == "validation_error"


async def test_cell_that_relies_on_a_tool_that_has_changed_is_held_and_one_with_more_tools_is_not(file: str) -> None:
    @tool(name="extra", side_effect="write")
    async def changed(n: str) -> str:
        return n

    @tool
    async def another() -> int:
        return 1

    async with _left(file, extra):
        pass
    async with _made(file, changed) as host:
        (cell,) = (await host.recovery_report()).cells
        assert (cell.outcome, cell.reason) == ("held", "its tools are not there as they were: extra")
    async with _made(file, extra, another) as host:
        (cell,) = (await host.recovery_report()).cells
        assert cell.outcome != "held"


async def test_session_of_another_host_is_waited_for(place: Callable[[], Any]) -> None:
    async with AsyncExitStack() as first:
        await first.enter_async_context(_left(place()))
        async with _made(place()) as second:
            with pytest.raises(SessionExists, match="another process"):
                await second.open_session("s")
            with pytest.raises(SessionExists, match="another process"):
                await second.open_session("s", wait_ms=30)
            opening = asyncio.ensure_future(second.open_session("s", wait_ms=60_000))
            await asyncio.sleep(0)
            await first.aclose()
            assert len(await (await opening).cells()) == 1


async def test_time_to_wait_is_checked(file: str) -> None:
    async with _made(file) as cloister:
        for wrong in (-1, 1.5, True, 10**12):
            with pytest.raises(InvalidInput, match="wait_ms"):
                await cloister.open_session("s", wait_ms=wrong)  # type: ignore[arg-type]


async def test_a_host_does_not_take_over_from_itself(file: str) -> None:
    async with _made(file) as cloister:
        session = await cloister.open_session("s")
        seen = await session.exec("await ask(1)", yield_ms=20_000)
        # Time for many looks.
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert (await cloister.recovery_report()).cells == ()
        await cloister.decide((await cloister.approvals())[0].id, "allow")
        told = await session.wait(seen.cell_id)
        assert isinstance(told, Completed)


async def test_many_sessions_that_are_left_at_once_are_opened_while_they_are_taken_over(file: str) -> None:
    names = [f"s{n}" for n in range(30)]
    async with AsyncExitStack() as first:
        cloister = await first.enter_async_context(_made(file))
        for name in names:
            await (await cloister.open_session(name)).exec("await ask(1)", yield_ms=20_000)
        async with _made(file) as second:
            opening = [asyncio.ensure_future(second.open_session(name, wait_ms=60_000)) for name in names]
            await first.aclose()
            sessions = await asyncio.gather(*opening)
            assert [session.id for session in sessions] == names
            assert all([len(await session.cells()) == 1 for session in sessions])
            assert len(await second.approvals(state="pending")) == len(names)


# -- what cannot go on -----------------------------------------------------------------------------------------------


async def test_held_cell_is_given_up_by_name_and_its_session_goes_on(place: Callable[[], Any]) -> None:
    async with _left(place(), extra) as seen:
        pass
    async with _made(place()) as cloister:
        [cell] = (await cloister.recovery_report()).cells
        assert cell.outcome == "held"
        [held] = [event async for event in _so_far(cloister) if event.kind == "cell.recovered"]
        assert held.data["outcome"] == "held"
        assert "extra" in held.data["reason"]
        with pytest.raises(SnapshotCapabilityMismatch) as refused:
            await cloister.open_session("s")
        assert "abandon" in (refused.value.hint or "")
        [given_up] = await cloister.abandon("s")
        assert (given_up.cell_id, given_up.outcome) == (seen.cell_id, "abandoned")
        assert (await cloister.recovery_report()).cells == (given_up,)
        assert [one.state for one in await cloister.approvals()] == ["cancelled"]
        session = await cloister.open_session("s")
        told = await session.wait(seen.cell_id)
        assert isinstance(told, Failed)
        assert told.error.code == "UNKNOWN_TOOL"
        assert "extra" in told.error.message
        assert (await session.run("x + 1")).result == 21


async def test_cell_that_was_given_up_stays_so_after_a_restart(file: str) -> None:
    async with _left(file, extra) as seen:
        pass
    async with _made(file) as cloister:
        await cloister.abandon(seen.cell_id)
    async with _made(file, extra) as cloister:
        [cell] = (await cloister.recovery_report()).cells
        assert (cell.cell_id, cell.outcome) == (seen.cell_id, "ended")
        told = await (await cloister.open_session("s")).wait(seen.cell_id)
        assert isinstance(told, Failed)


async def test_session_with_terms_of_its_own_is_given_up_as_interrupted(file: str) -> None:
    async with _made(file) as cloister:
        session = await cloister.open_session("s", deny=['name == "other"'])
        seen = await session.exec("print('so far')\nawait ask(1)", yield_ms=0)
        seen = await session.wait(seen.cell_id)
    async with _made(file) as cloister:
        await cloister.abandon("s")
        session = await cloister.open_session("s", deny=['name == "other"'])
        told = await session.wait(seen.cell_id)
        assert isinstance(told, Interrupted)
        assert told.error.code == "INTERRUPTED"


async def test_only_what_is_held_can_be_given_up(file: str) -> None:
    async with _left(file) as seen:
        pass
    async with _made(file) as cloister:
        for name in ("s", seen.cell_id, "nothing"):
            with pytest.raises(CellNotFound, match="is held here"):
                await cloister.abandon(name)
    async with Cloister() as cloister:
        with pytest.raises(CellNotFound):
            await cloister.abandon("s")


async def test_what_another_host_left_and_nobody_took_can_be_given_up(file: str) -> None:
    async with AsyncExitStack() as first:
        seen = await first.enter_async_context(_left(file, extra))
        async with _made(file) as second:
            await first.aclose()
            await _report(second, lambda report: bool(report.cells))
            [given_up] = await second.abandon(seen.cell_id)
            assert given_up.outcome == "abandoned"
            told = await (await second.open_session("s")).wait(seen.cell_id)
            assert isinstance(told, Failed)


async def test_session_that_was_destroyed_is_not_held_any_more(file: str) -> None:
    async with _left(file, extra):
        pass
    async with _made(file) as cloister:
        assert await cloister.destroy_session("s")
        session = await cloister.open_session("s")
        assert await session.cells() == []
        assert (await session.run("x")).status == "runtime_error"


async def _so_far(cloister: Cloister) -> AsyncGenerator[Any, None]:
    last = 0
    async with cloister.events(since=0) as events:
        # What a host says when it opens is written down a moment later.
        async for event in events:
            last = event.seq
            yield event
            if event.kind == "cell.recovered":
                break
    assert last
