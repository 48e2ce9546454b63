"""The object a host holds: opening, finding, restoring and closing sessions."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cloister import (
    Cloister,
    CloisterError,
    InvalidInput,
    InvalidLanguage,
    InvalidSessionId,
    RunStatus,
    SessionClosed,
    SessionExists,
    SessionLimits,
    SessionNotFound,
    Tool,
    TypeCheck,
    run_sync,
    tool,
)

pytestmark = pytest.mark.anyio


@tool(side_effect="read")
async def get_order(order_id: str) -> str:
    return order_id


def _children() -> set[int]:
    """The processes that this one started and that still run."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        found |= {int(pid) for pid in (task / "children").read_text().split()}
    return {pid for pid in found if "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[-1].split()[0]}


# -- opening ------------------------------------------------------------------------------------------------------


async def test_session_is_opened_with_the_defaults() -> None:
    async with Cloister() as cloister:
        session = await cloister.open_session()
        meta = session.meta()
        assert (meta.id, meta.language, meta.limits) == ("default", "python", SessionLimits())
        assert (meta.title, meta.labels, meta.snapshot_version) == (None, {}, 1)


async def test_session_is_opened_as_asked() -> None:
    async with Cloister() as cloister:
        session = await cloister.open_session(
            "a", language="python", limits=SessionLimits(wall_ms=7), title="Orders", labels={"team": "x"}
        )
        meta = session.meta()
        assert (meta.id, meta.limits.wall_ms, meta.title, meta.labels) == ("a", 7, "Orders", {"team": "x"})


async def test_session_has_the_limits_and_tools_of_its_cloister() -> None:
    async with Cloister(tools=[get_order], limits=SessionLimits(wall_ms=4321)) as cloister:
        session = await cloister.open_session()
        assert session.limits.wall_ms == 4321
        assert (await session.run("await get_order('A')")).result == "A"


async def test_session_s_own_tools_are_not_those_of_another() -> None:
    async with Cloister() as cloister:
        with_tool = await cloister.open_session("a", tools=[get_order])
        without = await cloister.open_session("b")
        assert (await with_tool.run("await get_order('A')")).ok
        result = await without.run("await get_order('A')")
        assert result.error is not None
        assert result.error.code == "UNKNOWN_TOOL"


async def test_plain_function_is_a_tool() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    async with Cloister(tools=[add]) as cloister:
        assert (await (await cloister.open_session()).run("await add(1, b=2)")).result == 3


async def test_id_in_use_is_refused_and_the_session_stays() -> None:
    async with Cloister() as cloister:
        session = await cloister.open_session("a")
        await session.run("x = 1")
        with pytest.raises(SessionExists, match="'a'"):
            await cloister.open_session("a")
        assert (await session.run("x")).result == 1


async def test_two_who_open_one_id_at_once_do_not_both_get_it() -> None:
    async with Cloister() as cloister:
        made = await asyncio.gather(*(cloister.open_session("a") for _ in range(5)), return_exceptions=True)
        assert sum(isinstance(one, SessionExists) for one in made) == 4
        assert len(await cloister.list_sessions()) == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"session_id": "a b"}, InvalidSessionId),
        ({"session_id": ""}, InvalidSessionId),
        ({"session_id": None}, InvalidSessionId),
        ({"language": "cobol"}, InvalidLanguage),
        ({"type_check": "sometimes"}, InvalidInput),
        ({"tools": [get_order, get_order]}, InvalidInput),
        ({"tools": ["get_order"]}, TypeError),
        ({"tools": [lambda: None]}, InvalidInput),
    ],
)
async def test_session_that_cannot_be_opened_leaves_nothing(options: dict[str, Any], error: type[Exception]) -> None:
    async with Cloister() as cloister:
        with pytest.raises(error):
            await cloister.open_session(**options)
        assert await cloister.list_sessions() == []


async def test_tool_that_cannot_be_described_is_refused_when_the_session_is_opened() -> None:
    class Opaque: ...

    def show(it: Opaque) -> None: ...

    async with Cloister() as cloister:
        with pytest.raises(InvalidInput, match="show"):
            await cloister.open_session(tools=[show])
        assert await cloister.list_sessions() == []


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 0},
        {"workers": -1},
        {"workers": True},
        {"workers": "2"},
        {"workers": 1.5},
        {"type_check": "sometimes"},
        {"snapshot_key": b"short"},
        {"tools": [get_order, get_order]},
    ],
    ids=str,
)
def test_cloister_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Cloister(**options)


@pytest.mark.parametrize("types", ["strict", "warn", "off", TypeCheck.STRICT])
async def test_type_check_of_the_cloister_is_its_sessions_default(types: Any) -> None:
    async with Cloister(type_check=types) as cloister:
        result = await (await cloister.open_session()).run("def f() -> int:\n    return 'a'\n1")
        found = [str(one.severity) for one in result.diagnostics]
        assert found == {"strict": ["error"], "warn": ["warning"], "off": []}[str(types)]


# -- finding ------------------------------------------------------------------------------------------------------


async def test_open_sessions_are_listed_and_found() -> None:
    async with Cloister() as cloister:
        first = await cloister.open_session("a")
        await cloister.open_session("b")
        assert [meta.id for meta in await cloister.list_sessions()] == ["a", "b"]
        assert cloister.session("a") is first
        await first.close()
        assert [meta.id for meta in await cloister.list_sessions()] == ["b"]


async def test_session_that_is_not_there_is_not_found() -> None:
    async with Cloister() as cloister:
        with pytest.raises(SessionNotFound, match="'a'"):
            cloister.session("a")
        with pytest.raises(InvalidSessionId):
            cloister.session("a b")


async def test_session_s_times_are_the_clock_s() -> None:
    class Hands:
        now = 1_700_000_000_000

        def now_ms(self) -> int:
            return self.now

        def monotonic(self) -> float:
            return self.now / 1000

        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(0)

    hands = Hands()
    async with Cloister(clock=hands) as cloister:
        session = await cloister.open_session()
        hands.now += 5000
        result = await session.run("import time\ntime.time()")
        meta = session.meta()
        assert meta.created_at == datetime.fromtimestamp(1_700_000_000, UTC)
        assert meta.last_used_at == datetime.fromtimestamp(1_700_000_005, UTC)
        assert result.result == 1_700_000_005


async def test_sleeping_program_sleeps_by_the_given_clock() -> None:
    slept: list[float] = []

    class Hands:
        def now_ms(self) -> int:
            return 1_700_000_000_000

        def monotonic(self) -> float:
            return 0.0

        async def sleep(self, seconds: float) -> None:
            slept.append(seconds)

    async with Cloister(clock=Hands()) as cloister:
        session = await cloister.open_session()
        assert (await session.run("import asyncio\nawait asyncio.sleep(3600)\n1")).result == 1
    assert slept == [3600]


async def test_destroyed_session_is_closed_and_gone() -> None:
    async with Cloister() as cloister:
        session = await cloister.open_session("a")
        await cloister.destroy_session("a")
        assert session.closed
        assert await cloister.list_sessions() == []
        with pytest.raises(SessionClosed):
            await session.run("1")


async def test_destroying_a_session_that_was_closed_is_fine() -> None:
    async with Cloister() as cloister:
        session = await cloister.open_session("a")
        await session.close()
        assert await cloister.destroy_session("a") is False


async def test_destroying_tells_whether_there_was_a_session() -> None:
    async with Cloister() as cloister:
        await cloister.open_session("a")
        assert await cloister.destroy_session("a") is True
        assert await cloister.destroy_session("a") is False


# -- restoring ----------------------------------------------------------------------------------------------------


async def test_snapshot_can_be_restored_exactly_where_restoring_works() -> None:
    def other(order_id: str, more: int = 1) -> str:
        return order_id * more

    key = b"one key for all of these Cloisters"
    async with Cloister(snapshot_key=key, tools=[get_order]) as cloister:
        blob = await (await cloister.open_session("a")).snapshot()
    cases: list[tuple[dict[str, Any], bytes, bool]] = [
        ({"snapshot_key": key, "tools": [get_order]}, blob, True),
        ({"snapshot_key": key, "tools": [get_order, Tool(other, name="more")]}, blob, True),
        ({"snapshot_key": key}, blob, False),
        ({"snapshot_key": key, "tools": [Tool(other, name="get_order")]}, blob, False),
        ({"snapshot_key": b"another key, of other people", "tools": [get_order]}, blob, False),
        ({"snapshot_key": key, "tools": [get_order]}, blob[:-1], False),
        ({"snapshot_key": key, "tools": [get_order]}, b"", False),
    ]
    for options, data, can in cases:
        async with Cloister(**options) as cloister:
            assert cloister.can_restore(data) is can
            if can:
                await cloister.restore_session(data)
            else:
                with pytest.raises(CloisterError):
                    await cloister.restore_session(data)


async def test_tools_that_will_be_given_count_for_whether_it_can_be_restored() -> None:
    async with Cloister() as cloister:
        session = await cloister.open_session("a", tools=[get_order])
        blob = await session.snapshot()
        assert cloister.can_restore(blob)
        await session.close()
        assert not cloister.can_restore(blob)
        assert cloister.can_restore(blob, tools=[get_order])


async def test_restored_session_needs_a_free_id() -> None:
    async with Cloister() as cloister:
        session = await cloister.open_session("a")
        blob = await session.snapshot()
        with pytest.raises(SessionExists):
            await cloister.restore_session(blob)
        with pytest.raises(InvalidSessionId):
            await cloister.restore_session(blob, session_id="a b")
        assert (await cloister.restore_session(blob, session_id="b")).id == "b"


async def test_empty_id_for_a_restored_session_is_refused() -> None:
    async with Cloister() as cloister:
        session = await cloister.open_session("a")
        blob = await session.snapshot()
        await session.close()
        with pytest.raises(InvalidSessionId):
            await cloister.restore_session(blob, session_id="")


# -- entering and leaving -----------------------------------------------------------------------------------------


async def test_cloister_that_was_not_entered_opens_nothing() -> None:
    with pytest.raises(CloisterError, match="enter"):
        await Cloister().open_session()


async def test_cloister_is_entered_once() -> None:
    cloister = Cloister()
    async with cloister:
        with pytest.raises(CloisterError, match="once"):
            await cloister.__aenter__()


async def test_cloister_that_was_left_opens_nothing() -> None:
    async with Cloister() as cloister:
        await cloister.open_session()
    before = _children()
    with pytest.raises(CloisterError):
        await cloister.open_session("late")
    assert _children() == before


async def test_leaving_closes_every_session_and_every_worker_process() -> None:
    before = _children()
    async with Cloister(workers=3) as cloister:
        sessions = [await cloister.open_session(f"s{n}") for n in range(4)]
        await asyncio.gather(*(one.run("1") for one in sessions))
        assert len(_children() - before) >= 3
    assert _children() == before
    assert all(one.closed for one in sessions)


async def test_leaving_after_an_error_closes_every_worker_process_too() -> None:
    before = _children()

    async def fail() -> None:
        async with Cloister() as cloister:
            await (await cloister.open_session()).run("1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert _children() == before


async def test_nothing_starts_before_the_first_session() -> None:
    before = _children()
    async with Cloister():
        assert _children() == before


async def test_leaving_leaves_no_open_descriptors() -> None:
    async def cycle() -> None:
        async with Cloister(workers=2) as cloister:
            await (await cloister.open_session()).run("1")

    await cycle()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await cycle()
    assert len(os.listdir("/proc/self/fd")) <= before


# -- one program --------------------------------------------------------------------------------------------------


async def test_run_once_runs_one_program_and_leaves_nothing() -> None:
    before = _children()
    result = await Cloister.run_once("(await get_order('A')) + k", tools=[get_order], inputs={"k": "!"})
    assert (result.status, result.result) == (RunStatus.OK, "A!")
    assert _children() == before


async def test_run_once_has_the_limits_it_is_given() -> None:
    result = await Cloister.run_once("while True:\n    pass", limits=SessionLimits(cpu_ms=20))
    assert result.status is RunStatus.TIMEOUT


async def test_run_sync_is_refused_inside_a_loop() -> None:
    with pytest.raises(CloisterError, match="run_once"):
        run_sync("1")


def test_run_sync_runs_one_program() -> None:
    assert run_sync("k * 2", inputs={"k": 21}).result == 42
