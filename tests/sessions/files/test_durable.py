"""Files that are written down: what another process finds, at which moment, and how often."""

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cloister import (
    Cloister,
    Completed,
    Failed,
    FileNotFound,
    InitialFile,
    Interrupted,
    InvalidInput,
    Mount,
    Session,
    Terminated,
    Tool,
    Yielded,
    tool,
)
from cloister.ports.clock import SystemClock
from cloister.stores.sqlite import SqliteStore
from tests.sessions.files.programs import append, ask, read, through_load

pytestmark = pytest.mark.anyio
KEY = b"k" * 32
both = pytest.mark.parametrize("language", ["python", "typescript"])


class World:
    """A database that can be looked at as if its process had died at that moment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.copies = 0
        self.entered = asyncio.Event()
        self.let_go = asyncio.Event()

        @tool(side_effect="write", idempotent=False)
        async def pay(n: int) -> str:
            """Pay."""
            return f"paid {n}"

        @tool(side_effect="read")
        async def hold(n: int) -> str:
            """Take as long as it takes."""
            self.entered.set()
            await self.let_go.wait()
            return f"held {n}"

        @tool(side_effect="write", approval_policy="manual")
        async def ask(n: int) -> str:
            """Ask first."""
            return f"allowed {n}"

        self.tools: list[Tool] = [pay, hold, ask]

    def copy(self) -> Path:
        self.copies += 1
        found = self.directory / f"found_{self.copies}.db"
        for suffix in ("", "-wal"):
            if (source := self.directory / f"store.db{suffix}").exists():
                shutil.copy(source, f"{found}{suffix}")
        return found

    def open(self, path: Path | None = None, **options: Any) -> Cloister:
        given: dict[str, Any] = {"tools": self.tools, "snapshot_key": KEY, "workers": 2, **options}
        return Cloister(store=f"sqlite://{path or self.directory / 'store.db'}", **given)

    @asynccontextmanager
    async def after_death(self, found: Path | None = None, **options: Any) -> AsyncGenerator[Cloister, None]:
        found = found or self.copy()
        async with SqliteStore(found, clock=SystemClock()) as store:
            for owner in await store.owners():
                await store.release(owner)
            assert list(await store.check()) == []
        async with self.open(found, **options) as cloister:
            yield cloister


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(tmp_path)
    through_load(monkeypatch.setattr, world.copy)
    return world


async def ended(session: Session, cell_id: str) -> Any:
    async with asyncio.timeout(30):
        while isinstance(seen := await session.wait(cell_id), Yielded):
            pass
    return seen


def call(language: str, name: str, n: int) -> str:
    return f"await {name}({n})" if language == "python" else f"await {name}({{n: {n}}})"


# -- the host ---------------------------------------------------------------------------------------------------------


async def test_what_the_host_did_is_there_after_a_crash(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session(
            "s", files={"/begin": "text", "/fixed": InitialFile(b"\xff", read_only=True)}
        )
        await session.files.write("/a/b", "one")
        await session.files.write("/a/b", " two", mode="a")
        await session.files.write("/gone/x", "x")
        await session.files.delete("/gone", recursive=True)
        await session.files.mkdir("/empty")
        await session.files.move("/begin", "/moved")
        before = await session.files.list(recursive=True)
        stats = [await session.files.stat(entry.path) for entry in before]
        async with world.after_death() as other:
            again = await other.open_session("s")
            assert await again.files.list(recursive=True) == before
            assert [await again.files.stat(entry.path) for entry in before] == stats
            assert await again.files.read_text("a/b") == "one two"
            assert await again.files.read("fixed") == b"\xff"
            with pytest.raises(InvalidInput, match="read-only"):
                await again.files.delete("fixed")


async def test_initial_files_are_for_new_sessions(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", files={"/a": "first"})
        await session.files.write("/a", "changed")
    async with world.open() as cloister:
        session = await cloister.open_session("s", files={"/a": "first", "/b": "more"})
        assert await session.files.read_text("/a") == "changed"
        assert not await session.files.exists("/b")


async def test_contents_stay_in_the_store_until_somebody_needs_them(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        await session.files.write("/a", "one")
        await session.files.write("/b", "two")
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        assert not session.files.are_here
        assert (await session.files.stat("/a")).size_bytes == 3
        await session.files.move("/a", "/c")
        await session.files.copy("/c", "/d")
        assert not session.files.are_here
        await session.files.write("/b", "!", mode="a")
        assert await session.files.read_text("/d") == "one"
        assert (await session.run(read("/b"))).result == "two!"
        assert session.files.are_here
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        assert [await session.files.read_text(path) for path in ("/b", "/c", "/d")] == ["two!", "one", "one"]


async def test_equal_contents_are_stored_once(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        for name in "abc":
            await session.files.write(f"/{name}", "the same " * 1000)
        store = cloister._ledger.store  # type: ignore[union-attr]
        assert len({row.blob for row in await store.files("s")}) == 1


async def test_destroyed_session_takes_its_files_along(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        await session.files.write("/a", "x")
        await cloister.destroy_session("s")
        session = await cloister.open_session("s")
        assert await session.files.list() == []


# -- programs ---------------------------------------------------------------------------------------------------------


@both
async def test_file_is_as_it_was_where_the_program_waited(world: World, language: str) -> None:
    """The process dies after a write that no wait has followed: the program writes it again, and it is there once."""
    code = "\n".join(
        [
            append("/log", "one "),
            call(language, "pay", 1),
            append("/log", "two "),
            "load('crash')",
            call(language, "pay", 2),
            append("/log", "three"),
            read("/log"),
        ]
    )
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        seen = await session.exec(code)
        told = await ended(session, seen.cell_id) if isinstance(seen, Yielded) else seen
        assert isinstance(told, Completed)
        assert told.result == "one two three"
    async with world.after_death(world.directory / "found_1.db") as cloister:
        session = cloister.session("s")
        seen = await ended(session, seen.cell_id)
        assert isinstance(seen, Completed)
        assert seen.result == "one two three"
        assert await session.files.read_text("/log") == "one two three"


@both
async def test_other_programs_and_the_host_see_a_write_at_once(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        seen = await session.exec(f"{append('/log', 'one')}\n{call(language, 'hold', 1)}", yield_ms=0)
        await world.entered.wait()
        assert await session.files.read_text("/log") == "one"
        other = await session.exec(f"{append('/log', ' two')}\n{read('/log')}", isolated=True)
        assert isinstance(other, Completed)
        assert other.result == "one two"
        world.let_go.set()
        await ended(session, seen.cell_id)


@both
async def test_failed_and_terminated_programs_keep_what_they_wrote(world: World, language: str) -> None:
    fail = "raise ValueError('no')" if language == "python" else "throw new Error('no')"
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        assert isinstance(await session.exec(f"{append('/failed', 'x')}\n{fail}"), Failed)
        seen = await session.exec(f"{append('/ended', 'x')}\n{call(language, 'hold', 1)}", yield_ms=0)
        await world.entered.wait()
        assert isinstance(await session.terminate(seen.cell_id), Terminated)
        endless = "while True: pass" if language == "python" else "while (true) {}"
        result = await session.run(f"{append('/stopped', 'x')}\n{endless}", limits={"cpu_ms": 100})
        assert result.status == "timeout"
        async with world.after_death() as other:
            again = await other.open_session("s", language=language)
            assert [entry.name for entry in await again.files.list()] == ["ended", "failed", "stopped"]


async def test_refused_files_are_told_to_the_program(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", files={"/fixed": InitialFile("x", read_only=True)})
        result = await session.run(append("/fixed", "more"))
        assert result.error is not None
        assert "'/fixed' is read-only" in result.error.message
        result = await session.run(ask("nonsense", 1))
        assert result.error is not None
        assert "does not take this" in result.error.message


async def test_durability_of_cells_writes_files_with_the_end(world: World) -> None:
    async with world.open(durability="cell") as cloister:
        session = await cloister.open_session("s")
        await session.run(append("/log", "one "))
        seen = await session.exec(f"{append('/log', 'two ')}\nawait hold(1)\n{read('/log')}", yield_ms=0)
        await world.entered.wait()
        # What is held for a moment goes with this.
        await session.values.set("k", 1)
        async with world.after_death() as other:
            world.let_go.set()
            again = await other.open_session("s")
            assert isinstance(await again.wait(seen.cell_id), Interrupted)
            assert await again.files.read_text("/log") == "one "
        await ended(session, seen.cell_id)


# -- looking back -----------------------------------------------------------------------------------------------------


@both
async def test_fork_sees_files_as_they_were(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language, files={"/old": "old"})
        first = await session.run(append("/log", "one "))
        code = [
            append("/log", "two "),
            call(language, "pay", 1),
            ask("delete", "/old", False),
            append("/log", "three "),
        ]
        code += [call(language, "pay", 2), append("/log", "four")]
        second = await session.run("\n".join(code))
        await session.files.write("/log", "gone")
        await session.files.delete("/log")
        calls = [one.id for one in second.external_calls]
        assert await cloister._ledger.store.collect() == 0  # type: ignore[union-attr]

        async def log(at: str | None) -> tuple[str, bool]:
            fork = await session.fork(at=at)
            return await fork.files.read_text("/log"), await fork.files.exists("/old")

        assert await log(first.cell_id) == ("one ", True)
        assert await log(calls[0]) == ("one two ", True)
        assert await log(calls[1]) == ("one two three ", False)
        assert await log(second.cell_id) == ("one two three four", False)
        with pytest.raises(FileNotFound):
            await log(None)
        fork = await session.fork(at=calls[1], session_id="fork")
        assert (await fork.resume()).status == "ok"
        assert await fork.files.read_text("/log") == "one two three four"
        assert not await session.files.exists("/log")
    async with world.open() as cloister:
        fork = await cloister.open_session("fork", language=language)
        assert await fork.files.read_text("/log") == "one two three four"


async def test_contents_that_only_a_snapshot_needs_are_not_collected(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        first = await session.run(append("/log", "only in a snapshot"))
        await session.files.delete("/log")
    later = _Later()
    async with SqliteStore(world.directory / "store.db", clock=later) as store:
        later.ms = 3_600_000
        await store.collect()
        assert list(await store.check()) == []
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        fork = await session.fork(at=first.cell_id)
        assert await fork.files.read_text("/log") == "only in a snapshot"


class _Later(SystemClock):
    ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ms


async def test_fork_at_a_question_has_values_and_files_though_it_was_written_down_twice(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        await session.values.set("k", 1)
        code = f"import asyncio\n{append('/log', 'one')}\nawait asyncio.gather(pay(1), ask(2))"
        result = await session.run(code)
        assert result.status == "waiting_for_approval"
        [paid] = [one.id for one in result.external_calls if one.name == "pay"]
        fork = await session.fork(at=paid)
        assert await fork.values.all() == {"k": 1}
        assert await fork.files.read_text("/log") == "one"


async def test_waits_that_take_turns_in_the_store_do_not_refer_to_each_other_in_a_ring(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        code = f"import asyncio\n{append('/log', 'one')}\nawait asyncio.gather(hold(1), ask(2))"
        first = await session.exec(code, yield_ms=0)
        await world.entered.wait()
        beside = await session.exec(f"{append('/beside', 'x')}\nawait pay(3)", isolated=True)
        await session.files.write("/later", "")
        world.let_go.set()
        waiting = await ended(session, first.cell_id)
        assert waiting.status == "waiting_for_approval"
        calls = {one.name: one.id for cell in await session.history() for one in cell.calls}
        assert isinstance(beside, Completed)

        async def there(at: str) -> list[str]:
            fork = await session.fork(at=at)
            return [entry.name for entry in await fork.files.list()]

        assert await there(calls["hold"]) == ["log"]
        assert await there(calls["pay"]) == ["beside", "log"]


async def test_snapshot_carries_files_elsewhere(world: World) -> None:
    async with Cloister(tools=world.tools, snapshot_key=KEY) as cloister:
        session = await cloister.open_session("s", files={"/a": "one", "/fixed": InitialFile("x", read_only=True)})
        await session.files.mkdir("/empty")
        before = await session.files.list(recursive=True)
        blob = await session.snapshot()
        await session.files.write("/a", "changed")
        await session.files.write("/b", "new")
        await session.restore(blob)
        assert await session.files.list(recursive=True) == before
        fork = await session.fork()
        await fork.files.write("/a", "forked")
        assert await session.files.read_text("/a") == "one"
    async with world.open() as cloister:
        copy = await cloister.restore_session(blob)
        assert await copy.files.list(recursive=True) == before
        assert (await copy.files.stat("/fixed")).read_only
    async with world.open() as cloister:
        copy = await cloister.open_session("s")
        assert await copy.files.read_text("/a") == "one"


async def test_session_that_goes_back_does_so_in_the_store_too(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", files={"/a": "one"})
        blob = await session.snapshot()
        await session.files.write("/a", "two")
        await session.files.write("/b", "more")
        await session.restore(blob)
        async with world.after_death() as other:
            again = await other.open_session("s")
            assert [entry.path for entry in await again.files.list()] == ["/a"]
            assert await again.files.read_text("/a") == "one"


# -- mounts -----------------------------------------------------------------------------------------------------------


async def test_changes_of_a_mount_are_kept_and_the_mount_is_given_again(world: World, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "a").write_text("real a")
    (real / "b").write_text("real b")
    mounts = {"/repo": Mount(real, "copy_on_write")}
    async with world.open() as cloister:
        session = await cloister.open_session("s", mounts=mounts)
        await session.run(append("/repo/a", " and more"))
        await session.files.delete("/repo/b")
        seen = await session.exec("await hold(1)", yield_ms=0)
        await world.entered.wait()
        fork = await session.fork()
        assert await fork.files.read_text("/repo/a") == "real a and more"
        found = world.copy()
        world.let_go.set()
        await ended(session, seen.cell_id)
    async with world.after_death(found) as cloister:
        report = await cloister.recovery_report()
        assert {cell.outcome for cell in report.cells} == {"held"}
        session = await cloister.open_session("s", mounts=mounts)
        assert (await ended(session, seen.cell_id)).result == "held 1"
        assert [entry.name for entry in await session.files.list("/repo")] == ["a"]
        assert await session.files.read_text("/repo/a") == "real a and more"
    assert (real / "a").read_text() == "real a"
