"""How much of a session is written down: by its host, or as it was asked for itself."""

from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, InvalidInput, SessionExists
from cloister.core.cell import Interrupted
from cloister.ports.clock import SystemClock
from cloister.ports.rows import Table
from cloister.stores.sqlite import SqliteStore
from tests.sessions.test_durable import World

pytestmark = pytest.mark.anyio
TABLES: tuple[Table, ...] = ("sessions", "cells", "calls", "approvals", "snapshots", "events", "values", "files")


@pytest.fixture(name="world")
def make_world(tmp_path: Path) -> World:
    return World(tmp_path)


async def kept(path: Path) -> dict[str, list[Any]]:
    async with SqliteStore(path, clock=SystemClock()) as store:
        return {table: list(await store.scan(table)) for table in TABLES}


PROGRAM = "store('k', 1)\nx = await pay(1)\nprint(x)\nx"


async def use(cloister: Cloister, **options: Any) -> None:
    session = await cloister.open_session("s", **options)
    assert (await session.run(PROGRAM)).result == "paid 1"
    seen = await session.exec("await ask(2)", yield_ms=20_000)
    assert seen.status == "waiting_for_approval"
    await session.call("pay", {"n": 3})
    await session.values.set("host", 1)
    await session.terminate(seen.cell_id)


async def test_session_of_level_none_leaves_no_trace_in_a_store(world: World) -> None:
    async with world.open() as cloister:
        await use(cloister, durability="none")
        with pytest.raises(InvalidInput, match="not written down"):
            await cloister.session("s").history()
    assert not any((await kept(world.path)).values())


@pytest.mark.parametrize("level", ["call", "cell", "none"])
async def test_level_of_a_session_comes_before_that_of_its_host(world: World, level: str) -> None:
    async with world.open(durability="none" if level == "call" else "call") as cloister:
        await use(cloister, durability=level)
    found = await kept(world.path)
    assert len(found["sessions"]) == (level != "none")
    assert len(found["calls"]) == (2 if level == "call" else 0)


async def test_level_cell_writes_what_a_cell_left_and_neither_calls_nor_waits(world: World) -> None:
    async with world.open() as cloister:
        await use(cloister, durability="cell")
    found = await kept(world.path)
    assert found["calls"] == []
    assert [row.state for row in found["approvals"]] == ["cancelled"]
    assert all(row.call_number is None for row in found["snapshots"])
    assert {row.key for row in found["values"]} == {"k", "host"}
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        assert (await session.run("[x, load('k')]")).result == ["paid 1", 1]


async def test_cell_under_way_is_interrupted_where_its_calls_were_not_written_down(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", durability="cell")
        await session.run("x = 1")
        seen = await session.exec("x = 2\nawait hold(1)", yield_ms=0)
        waiting = await session.exec("await ask(1)", yield_ms=0, isolated=True)
        await world.entered.wait()
        # What is held for a moment goes with this.
        await session.values.set("k", 1)
        found = await world.died()
        world.let_go.set()
    async with world.open(found) as other:
        report = {cell.cell_id: cell.outcome for cell in (await other.recovery_report()).cells}
        assert report == {seen.cell_id: "interrupted", waiting.cell_id: "interrupted"}
        assert await other.approvals(state="pending") == []
        again = await other.open_session("s")
        told = await again.wait(seen.cell_id)
        assert isinstance(told, Interrupted)
        assert "how far it had come" in told.error.message
        assert (await again.run("x")).result == 1
    # Whatever it had done was not done again.
    assert world.done == ["hold 1"]


async def test_fork_is_kept_like_the_session_that_it_was_made_from(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", durability="none")
        await session.run("x = 1")
        fork = await session.fork(session_id="f")
        assert (await fork.run("await pay(x)")).ok
    assert not any((await kept(world.path)).values())


async def test_level_needs_a_store(world: World) -> None:
    async with Cloister(tools=world.tools) as cloister:
        with pytest.raises(InvalidInput, match="needs a store"):
            await cloister.open_session("s", durability="cell")
        with pytest.raises(InvalidInput, match="'none', 'cell' or 'call'"):
            await cloister.open_session("s", durability="most")
        assert (await (await cloister.open_session("s", durability="none")).run("1")).ok


async def test_session_in_the_store_is_not_opened_beside_it(world: World) -> None:
    async with world.open() as cloister:
        async with await cloister.open_session("s") as session:
            await session.run("x = 1")
        with pytest.raises(InvalidInput, match="is in the store"):
            await cloister.open_session("s", durability="none")
        assert (await (await cloister.open_session("s")).run("x")).result == 1


async def test_level_of_a_stored_session_can_change_while_nothing_is_under_way(world: World) -> None:
    async with world.open() as cloister:
        async with await cloister.open_session("s", durability="cell") as session:
            await session.run("x = await pay(1)")
        async with await cloister.open_session("s", durability="call") as session:
            await session.run("x = await pay(2)")
        async with await cloister.open_session("s") as session:
            await session.exec("await ask(1)", yield_ms=20_000)
            found = await world.died()
    assert len((await kept(world.path))["calls"]) == 1
    async with world.open(found, tools=world.tools[:1]) as cloister:
        with pytest.raises(Exception, match="cannot go on yet"):
            await cloister.open_session("s", durability="cell")
        with pytest.raises(InvalidInput, match="cells that have not ended"):
            await cloister.open_session("s", durability="cell", tools=world.tools[1:])
        assert (await (await cloister.open_session("s", tools=world.tools[1:])).cells())[0].approvals
        with pytest.raises(SessionExists):
            await cloister.open_session("s")
