"""Sessions that are written down: what another process finds, and what it goes on with."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cloister import (
    ApprovalState,
    Cloister,
    Completed,
    Event,
    InvalidInput,
    SessionExists,
    SnapshotCapabilityMismatch,
    Tool,
    WaitingForApproval,
    Yielded,
    tool,
)
from cloister.ports.clock import SystemClock
from cloister.stores.sqlite import SqliteStore

pytestmark = pytest.mark.anyio
KEY = b"k" * 32


class World:
    """Tools with effects, and a database that can be looked at as if its process had died."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.copies = 0
        self.done: list[str] = []
        self.entered = asyncio.Event()
        self.let_go = asyncio.Event()

        @tool(side_effect="write", idempotent=False)
        async def pay(n: int) -> str:
            """Pay."""
            self.done.append(f"pay {n}")
            return f"paid {n}"

        @tool(side_effect="write", idempotent=False)
        async def hold(n: int) -> str:
            """Take as long as it takes."""
            self.done.append(f"hold {n}")
            self.entered.set()
            await self.let_go.wait()
            return f"held {n}"

        @tool(side_effect="read")
        async def look(n: int) -> str:
            """Look, which may be done twice."""
            self.done.append(f"look {n}")
            self.entered.set()
            await self.let_go.wait()
            return f"looked {n}"

        @tool(side_effect="write", idempotent=False, approval_policy="manual")
        async def ask(n: int) -> str:
            """Ask first."""
            self.done.append(f"ask {n}")
            return f"allowed {n}"

        self.tools: list[Tool] = [pay, hold, look, ask]

    @property
    def path(self) -> Path:
        return self.directory / "store.db"

    def open(self, path: Path | None = None, **options: Any) -> Cloister:
        given: dict[str, Any] = {"tools": self.tools, "snapshot_key": KEY, "workers": 2, **options}
        return Cloister(store=f"sqlite://{path or self.path}", **given)

    async def died(self) -> Path:
        """The database as it would be found if this process had been killed just now."""
        self.copies += 1
        found = self.directory / f"found_{self.copies}.db"
        for suffix in ("", "-wal"):
            if (source := Path(f"{self.path}{suffix}")).exists():
                shutil.copy(source, f"{found}{suffix}")
        async with SqliteStore(found, clock=SystemClock()) as store:
            for owner in await store.owners():
                await store.release(owner)
        return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@asynccontextmanager
async def after_death(world: World, **options: Any) -> AsyncGenerator[Cloister, None]:
    found = await world.died()
    async with world.open(found, **options) as cloister:
        yield cloister


async def ended(session: Any, cell_id: str) -> Any:
    async with asyncio.timeout(30):
        while isinstance(seen := await session.wait(cell_id), Yielded):
            pass
    return seen


PROGRAMS: dict[str, Callable[[str], str]] = {
    "python": lambda name: f"a = 1\nb = await {name}(7)\n[a, b]",
    "typescript": lambda name: f"let a = 1; let b = await {name}({{n: 7}}); [a, b]",
}
both = pytest.mark.parametrize("language", ["python", "typescript"])


@both
async def test_variables_and_values_are_there_when_a_session_is_opened_again(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        await session.run("x = 41" if language == "python" else "let x = 41")
        await session.exec("store('k', [1])")
        await session.values.set("host", {"a": 1})
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        assert (await session.run("x + 1")).result == 42
        assert await session.values.all() == {"k": [1], "host": {"a": 1}}


@both
async def test_call_that_nobody_knows_the_end_of_is_unknown_and_not_made_again(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        seen = await session.exec(PROGRAMS[language]("hold"), yield_ms=0)
        await world.entered.wait()
        async with after_death(world) as other:
            (cell,) = (await other.recovery_report()).cells
            assert (cell.session_id, cell.cell_id, cell.outcome) == ("s", seen.cell_id, "goes on")
            again = await other.open_session("s")
            end = await ended(again, seen.cell_id)
            assert end.error.code == "OUTCOME_UNKNOWN"
        world.let_go.set()
        assert (await ended(session, seen.cell_id)).result == [1, "held 7"]
    assert world.done == ["hold 7"]


@both
async def test_read_that_was_under_way_is_made_again(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        seen = await session.exec(PROGRAMS[language]("look"), yield_ms=0)
        await world.entered.wait()
        found = await world.died()
        world.let_go.set()
        async with world.open(found) as other:
            again = await other.open_session("s")
            assert (await ended(again, seen.cell_id)).result == [1, "looked 7"]
    assert world.done == ["look 7", "look 7"]


@both
async def test_program_that_waits_for_a_person_is_still_asked_about_under_the_same_id(
    world: World, language: str
) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        seen = await session.exec(PROGRAMS[language]("ask"))
        assert isinstance(seen, WaitingForApproval)
        async with after_death(world) as other:
            (question,) = await other.approvals(state="pending")
            assert question.id == seen.approvals[0].id
            (cell,) = (await other.recovery_report()).cells
            assert cell.outcome == "waits"
            await other.decide(question.id, "allow")
            again = await other.open_session("s")
            end = await ended(again, seen.cell_id)
            assert isinstance(end, Completed)
            assert end.result == [1, "allowed 7"]
            assert (await again.run("a + 1")).result == 2
    assert world.done == ["ask 7"]


async def test_answer_that_was_given_before_the_end_counts_after_it(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        seen = await session.exec("[await ask(1), await hold(2)]")
        assert isinstance(seen, WaitingForApproval)
        await cloister.decide(seen.approvals[0].id, "allow_always")
        await world.entered.wait()
        async with after_death(world) as other:
            again = await other.open_session("s")
            end = await ended(again, seen.cell_id)
            assert end.error.code == "OUTCOME_UNKNOWN"
            # What was allowed for good is allowed.
            assert (await again.run("await ask(1)")).result == "allowed 1"
            assert {question.state for question in await other.approvals()} <= {ApprovalState.ALLOWED}
        world.let_go.set()
    assert world.done.count("ask 1") == 2


async def test_end_that_nobody_has_read_is_kept_for_whoever_asks(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        seen = await session.exec("print('early')\ntext('late')\n6 * 7", yield_ms=0)
        async with asyncio.timeout(30):
            while (await session.cells())[0].state != "completed":  # noqa: ASYNC110
                await asyncio.sleep(0)
        async with after_death(world) as other:
            again = await other.open_session("s")
            end = await again.wait(seen.cell_id)
            assert isinstance(end, Completed)
            assert end.result == 42
            assert "".join(item["text"] for item in end.content) == "early\nlate"
            assert await again.cells() == []


async def test_cells_in_line_begin_when_their_turn_comes(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        first = await session.exec("x = 1\nawait look(1)", yield_ms=0)
        second = await session.exec("x + 1", yield_ms=0)
        await world.entered.wait()
        found = await world.died()
        world.let_go.set()
        async with world.open(found) as other:
            outcomes = {cell.cell_id: cell.outcome for cell in (await other.recovery_report()).cells}
            # What a read waits for is written down beside it, and may not be safe yet.
            assert outcomes[first.cell_id] in ("goes on", "begins")
            assert outcomes[second.cell_id] == "begins"
            again = await other.open_session("s")
            assert (await ended(again, second.cell_id)).result == 2


async def test_session_with_tools_of_its_own_is_held_until_it_gets_them(world: World) -> None:
    @tool(side_effect="read")
    async def own(n: int) -> int:
        """Its own."""
        world.entered.set()
        await world.let_go.wait()
        return n

    async with world.open() as cloister:
        session = await cloister.open_session("s", tools=[own])
        seen = await session.exec("await own(5)", yield_ms=0)
        await world.entered.wait()
        found = await world.died()
        world.let_go.set()
        async with world.open(found) as other:
            (cell,) = (await other.recovery_report()).cells
            assert (cell.outcome, "of its own" in (cell.reason or "")) == ("held", True)
            with pytest.raises(SnapshotCapabilityMismatch, match="own"):
                await other.open_session("s")
            again = await other.open_session("s", tools=[own])
            assert (await ended(again, seen.cell_id)).result == 5


async def test_session_that_another_host_has_is_left_to_it(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        await session.exec("await hold(1)", yield_ms=0)
        await world.entered.wait()
        async with world.open() as other:
            assert (await other.recovery_report()).elsewhere == ("s",)
            with pytest.raises(SessionExists, match="another process"):
                await other.open_session("s")
        world.let_go.set()


async def test_closed_session_is_opened_by_another_host(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        await session.run("x = 1")
        await session.close()
        async with asyncio.timeout(30), world.open() as other:
            while True:
                try:
                    again = await other.open_session("s")
                    break
                except SessionExists:
                    await asyncio.sleep(0)
            assert (await again.run("x")).result == 1


async def test_destroyed_session_is_gone(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        await session.run("x = 1")
        assert await cloister.destroy_session("s")
    async with world.open() as cloister:
        again = await cloister.open_session("s")
        assert (await again.run("x")).error is not None
        assert not await cloister.destroy_session("nobody")


async def test_events_of_before_are_read_from_the_log_and_go_on_without_a_gap(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        await session.run("await pay(1)")
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        events = session.events(since=0)
        await session.run("await pay(2)")
        read: list[Event] = []
        async with asyncio.timeout(30):
            async for event in events:
                read.append(event)
                if [one.kind for one in read].count("cell.completed") == 2:
                    break
        # That the first host has left is nothing that has happened to the session.
        kinds = ["session.opened", "cell.started", "call.requested", "call.settled", "cell.completed"]
        assert [event.kind for event in read] == kinds * 2
        numbers = [event.seq for event in read]
        assert numbers == sorted(set(numbers))
        middle = numbers[4]
        later = session.events(since=middle)
        assert (await anext(later)).seq == numbers[5]


async def test_slow_reader_is_healed_from_the_log(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        stream = cloister._events.subscribe("s", since=0, most_unread=2)  # pyright: ignore[reportPrivateUsage]
        for _ in range(5):
            await session.run("await pay(1)")
        kinds: list[str] = []
        async with asyncio.timeout(30):
            while kinds.count("cell.completed") < 5:
                kinds.append((await anext(stream)).kind)
        assert kinds[0] == "session.opened"
        assert kinds[1:] == ["cell.started", "call.requested", "call.settled", "cell.completed"] * 5


@both
async def test_fork_at_a_call_goes_its_own_way_from_there(world: World, language: str) -> None:
    code = {
        "python": "done = []\nfor i in range(20):\n    done.append(await pay(i))\n    store('at', i)\nlen(done)",
        "typescript": "const done = [];\nfor (let i = 0; i < 20; i++) { done.push(await pay({n: i})); store('at', i) }"
        "\ndone.length",
    }[language]
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        assert (await session.run(code)).result == 20
        (cell,) = await session.history()
        assert [call.name for call in cell.calls] == ["pay"] * 20
        world.done.clear()
        fork = await session.fork(at=cell.calls[14].id, session_id="branch")
        assert fork.is_asleep
        result = await fork.resume()
        assert result.result == 20
        # The first fourteen were answered before; the others are made anew.
        assert world.done == [f"pay {n}" for n in range(14, 20)]
        assert await fork.values.all() == {"at": 19}
        await fork.values.set("at", "elsewhere")
        assert await session.values.all() == {"at": 19}


async def test_fork_at_the_end_of_a_cell_has_what_it_left(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        await session.run("x = 'then'\nstore('k', 1)")
        await session.run("x = 'now'\nstore('k', 2)")
        first, _ = await session.history()
        fork = await session.fork(at=first.id)
        assert (await fork.run("x")).result == "then"
        assert await fork.values.all() == {"k": 1}
        assert (await session.run("x")).result == "now"
        with pytest.raises(InvalidInput, match="nothing of that id"):
            await session.fork(at="cal_" + "0" * 26)


async def test_fork_is_in_the_store_too(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        await session.run("x = 1\nstore('k', 1)")
        await session.fork(session_id="branch")
    async with world.open() as cloister:
        branch = await cloister.open_session("branch")
        assert (await branch.run("x + 1")).result == 2
        assert await branch.values.all() == {"k": 1}


async def test_session_in_memory_can_be_forked_as_it_is() -> None:
    async with Cloister(snapshot_key=KEY) as cloister:
        session = await cloister.open_session("s")
        await session.run("x = 1")
        fork = await session.fork()
        assert (await fork.run("x + 1")).result == 2
        with pytest.raises(InvalidInput, match="not written down"):
            await session.history()
        with pytest.raises(InvalidInput, match="kept by sessions that are written down"):
            session.events(since=0)


@pytest.mark.parametrize(
    "url", ["nonsense", "sqlite:", "sqlite://host/x.db", "sqlite:///", "mysql://h/d", "memory:x", 7]
)
def test_what_is_no_store_is_refused_by_name(url: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        Cloister(store=url)
    assert refused.value.hint is not None


def test_durability_without_a_store_is_refused() -> None:
    with pytest.raises(InvalidInput, match="needs a store"):
        Cloister(durability="call")
    with pytest.raises(InvalidInput, match="'none', 'cell' or 'call'"):
        Cloister(durability="always")
