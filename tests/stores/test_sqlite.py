"""The SQLite store: its commits, its file, and what it does when either is in trouble."""

import asyncio
import gc
import os
import random
import shutil
import signal
import stat
import threading
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, cast

import apsw
import pytest
from hypothesis import given, settings

from cloister.core.digest import digest_bytes
from cloister.core.errors import CloisterError, InvalidInput, StoreConflict, StoreError, StoreUnavailable, StoreUnusable
from cloister.ports.rows import (
    KEYS,
    Append,
    Batch,
    CellRow,
    EventRow,
    Intend,
    MoveHead,
    Put,
    PutBlob,
    SessionRow,
    Settle,
    SnapshotRow,
    ValueRow,
)
from cloister.stores.sqlite import SqliteStore
from cloister.stores.sqlite.opening import APPLICATION_ID, MIGRATIONS, open_store
from cloister.stores.sqlite.steps import Hand
from cloister.testing.journal import make_intent, make_settled
from cloister.testing.stores import ALL, Behaviour, StoreLab
from cloister.testing.stores.history import Step, compare, histories
from tests.stores.sqlite_child import batch_of
from tests.stores.sqlite_lab import HandClock, all_heard, child, connections, contents, heard, sql, store_at, tell

pytestmark = pytest.mark.anyio
T = TypeVar("T")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with store_at(tmp_path / "a.db") as store:
        yield store


def put(key: str, value: Any = None) -> Batch:
    return Batch((Put(ValueRow("ses_a", key, value, 1, 1)),))


async def keys(store: SqliteStore) -> list[str]:
    return [row.key for row in await store.values("ses_a")]


# -- what every store does ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behaviour", ALL, ids=lambda behaviour: behaviour.slug)
async def test_store(tmp_path: Path, behaviour: Behaviour[StoreLab]) -> None:
    clock = HandClock()

    async def advance(ms: int) -> None:
        clock.at_ms += ms

    async with store_at(tmp_path / "a.db", clock=clock) as store:
        await behaviour.check(StoreLab(store, lambda: store_at(tmp_path / "a.db", clock=clock), advance))


@settings(max_examples=30)
@given(histories())
async def test_it_takes_every_history_as_the_store_in_memory_does(history: list[Step]) -> None:
    with TemporaryDirectory() as place:
        async with store_at(Path(place) / "a.db", synchronous="normal") as store:
            await compare(store, history)


# -- commits --------------------------------------------------------------------------------------------------------


def count_commits(connection: Any) -> list[None]:
    commits: list[None] = []

    def note() -> bool:
        commits.append(None)
        return False

    connection.set_commit_hook(note)
    return commits


async def test_what_comes_during_a_commit_is_in_the_next_one_together(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with connections() as made:
        async with store_at(path) as store:
            commits = count_commits(made[0])
            with child("hold", path) as other:
                assert heard(other) == "held"
                answers = [store.write(put(f"{n:03}")) for n in range(300)]
                tell(other)
                for answer in answers:
                    await answer
            assert len(await keys(store)) == 300
            # What the writer had taken before it waited for the lock, and all the rest.
            assert 1 <= len(commits) <= 3


async def test_one_wake_up_tells_of_all_batches_of_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    async with store_at(path) as store:
        loop, calls = asyncio.get_running_loop(), list[object]()
        call_soon = loop.call_soon_threadsafe

        def note(callback: Any, *args: Any) -> Any:
            calls.append(callback)
            return call_soon(callback, *args)

        with child("hold", path) as other:
            assert heard(other) == "held"
            answers = [store.write(put(f"{n}")) for n in range(100)]
            monkeypatch.setattr(loop, "call_soon_threadsafe", note)
            tell(other)
            for answer in answers:
                await answer
        assert 1 <= len(calls) <= 3


async def test_a_refused_batch_is_rolled_back_alone_in_the_commit_that_it_shares(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with connections() as made:
        async with store_at(path) as store:
            await store.write(Batch((Put(SessionRow("ses_a", 1, 1)),)))
            commits = count_commits(made[0])
            with child("hold", path) as other:
                assert heard(other) == "held"
                batches = [Batch((*put(f"{n}").writes, MoveHead("ses_a", 99 if n % 2 else n // 2))) for n in range(8)]
                answers = [store.write(batch) for batch in batches]
                tell(other)
                outcomes = [await _outcome(answer) for answer in answers]
            assert outcomes == [None, StoreConflict] * 4
            assert await keys(store) == ["0", "2", "4", "6"]
            assert len(commits) <= 3


async def _outcome(answer: Any) -> type[BaseException] | None:
    try:
        await answer
    except CloisterError as error:
        return type(error)
    return None


async def test_large_docs_and_blobs_keep_their_place_in_the_order(store: SqliteStore) -> None:
    big = ["x" * 1000] * 3000
    answers = [store.write(put("key", big if n % 3 == 0 else n)) for n in range(10)]
    answers.append(store.write(Batch((PutBlob("b" * 64, os.urandom(9 << 20)), *put("last", 10).writes))))
    answers.append(store.write(put("key", "end")))
    await answers[-1]
    assert {row.key: row.value for row in await store.values("ses_a")} == {"key": "end", "last": 10}
    for answer in answers:
        await answer


async def test_what_cannot_be_written_as_json_is_refused_whether_it_is_small_or_large(store: SqliteStore) -> None:
    for bad in ({"a": float("nan")}, [*range(100_000), {1, 2}], ["x"] * 50_000 + ["\ud800"]):
        with pytest.raises(InvalidInput):
            await store.write(put("bad", bad))
    with pytest.raises(InvalidInput, match="over the bound"):
        await store.write(put("bad", "x" * (17 << 20)))
    assert await keys(store) == []


async def test_a_row_that_does_not_fit_is_refused_alone(store: SqliteStore) -> None:
    nothing: Any = None
    bad: list[CellRow] = [replace(_cell(1), state=nothing), replace(_cell(1), live=nothing)]
    bad += [replace(_cell(1), live=strange) for strange in cast("list[Any]", ["yes", [True]])]
    answers = [store.write(Batch((*put(f"{n}").writes, Put(row)))) for n, row in enumerate(bad)]
    good = store.write(put("good"))
    assert [await _outcome(answer) for answer in answers] == [InvalidInput] * 4
    await good
    assert await keys(store) == ["good"]


async def test_events_with_numbers_far_apart_are_pruned_at_once(store: SqliteStore) -> None:
    far = [Put(EventRow(seq, "ses_a", "x", 1)) for seq in (5, 1 << 40, 1 << 62)]
    await store.write(Batch(tuple(far)))
    assert await store.prune(keep_events=1) == 2
    assert [row.seq for row in await store.events()] == [1 << 62]


@pytest.mark.parametrize(("synchronous", "number"), [("full", 2), ("normal", 1)])
async def test_the_disk_is_waited_for_as_it_was_asked(tmp_path: Path, synchronous: Any, number: int) -> None:
    with connections() as made:
        async with store_at(tmp_path / "a.db", synchronous=synchronous):
            assert made[0].execute("PRAGMA synchronous").get == number
            assert made[0].execute("PRAGMA journal_mode").get == "wal"


async def test_options_that_do_not_exist_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="'off'"):
        store_at(tmp_path / "a.db", synchronous="off")
    for nowhere in ("", ":memory:"):
        with pytest.raises(InvalidInput, match="no place for a store"):
            SqliteStore(nowhere, clock=HandClock())


async def test_a_receipt_that_was_cancelled_says_to_others_what_became_of_it(store: SqliteStore) -> None:
    answer = store.write(Batch((MoveHead("ses_nobody", 0),)))
    waiting = asyncio.ensure_future(answer)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(StoreConflict):
        await answer
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_store_that_is_closed_while_it_opens_or_waits_leaves_no_thread(tmp_path: Path) -> None:
    opening = asyncio.ensure_future(store_at(tmp_path / "a.db").__aenter__())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    async with store_at(tmp_path / "b.db") as store:
        waiting = asyncio.ensure_future(store.wait_for_events(0, 60_000))
        await store.write(put("a"))
    with pytest.raises(StoreUnavailable, match="not open"):
        await waiting
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.write(put("b"))
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.values("ses_a")
    assert not [thread for thread in threading.enumerate() if str(tmp_path) in thread.name]
    async with store_at(tmp_path / "a.db") as store:
        await store.write(put("a"))


# -- the file -------------------------------------------------------------------------------------------------------


async def test_only_its_user_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "made" / "by us" / "a.db"
    before = os.umask(0)
    try:
        async with store_at(path) as store:
            await store.write(put("a"))
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


async def test_a_closed_store_is_one_file_that_says_whose_it_is(tmp_path: Path) -> None:
    async with store_at(tmp_path / "a.db") as store:
        await store.write(put("a"))
        assert store.url == f"sqlite://{tmp_path}/a.db"
    assert os.listdir(tmp_path) == ["a.db"]
    assert sql(tmp_path / "a.db", "PRAGMA application_id") == [(APPLICATION_ID,)]
    assert sql(tmp_path / "a.db", "PRAGMA user_version") == [(len(MIGRATIONS),)]


async def refusal(path: Path) -> StoreError:
    """How the file is refused, leaving it and what is beside it as they were."""
    before = contents(path.parent)
    with pytest.raises(StoreError) as caught:
        await store_at(path, busy_timeout_ms=50).__aenter__()
    gc.collect()
    assert contents(path.parent) == before
    assert str(path) in caught.value.message
    assert caught.value.hint
    return caught.value


async def test_another_programs_database_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    sql(path, "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    error = await refusal(path)
    assert isinstance(error, StoreUnusable)
    assert "another program's" in error.message
    sql(path, "PRAGMA application_id = 252006673")
    assert isinstance(await refusal(path), StoreUnusable)


async def test_another_programs_unfinished_log_is_left_as_it_was(tmp_path: Path) -> None:
    made, path = tmp_path / "made.db", tmp_path / "copies" / "a.db"
    path.parent.mkdir()
    with connections() as open_ones:
        sql(made, "PRAGMA journal_mode = WAL")
        connection: Any = apsw.Connection(str(made))
        connection.execute("CREATE TABLE t (a)")
        for suffix in ("", "-wal"):
            shutil.copy(f"{made}{suffix}", f"{path}{suffix}")
        connection.close()
    assert len(open_ones) == 2
    assert isinstance(await refusal(path), StoreUnusable)


@pytest.mark.parametrize("is_checkpointed", [True, False])
async def test_a_newer_schema_is_refused_and_left_as_it_was(tmp_path: Path, is_checkpointed: bool) -> None:
    made, path = tmp_path / "made.db", tmp_path / "copies" / "a.db"
    path.parent.mkdir()
    async with store_at(made) as store:
        await store.write(put("a"))
    connection: Any = apsw.Connection(str(made))
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    if is_checkpointed:
        connection.close()
    for suffix in ("", "-wal"):
        if os.path.exists(f"{made}{suffix}"):
            shutil.copy(f"{made}{suffix}", f"{path}{suffix}")
    connection.close()
    before = contents(path.parent)
    with pytest.raises(StoreUnusable, match="newer Cloister") as caught:
        await store_at(path).__aenter__()
    assert "update Cloister" in str(caught.value.hint)
    # The index of the log is made anew by whoever looks at it.
    after = {name: data for name, data in contents(path.parent).items() if not name.endswith("-shm")}
    assert after == before


async def test_what_is_no_database_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    for data in (b"x", b"not a database " * 1000, b"SQLite format 3\x00", bytes(5000)):
        path.write_bytes(data)
        error = await refusal(path)
        assert isinstance(error, StoreUnusable)
        assert "not a database" in error.message


async def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="is a directory"):
        await store_at(tmp_path).__aenter__()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreUnusable, match="not a regular file"):
        await store_at(tmp_path / "pipe").__aenter__()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await store_at(tmp_path / "file" / "a.db").__aenter__()


async def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch()
    async with store_at(tmp_path / "a.db") as store:
        await store.write(put("a"))


async def _a_full_store(path: Path) -> None:
    async with store_at(path, synchronous="normal") as store:
        for n in range(60):
            data = random.Random(n).randbytes(3000)
            await store.write(Batch((*batch_of("a", n).writes, PutBlob(digest_bytes(data), data))))
            await store.write(Batch((Put(SessionRow(f"ses_{n}", 1, 1)), Put(_cell(n)), Intend(make_intent(n)))))
            if n % 2:
                await store.write(Batch((Settle(make_settled(n, value={"n": n})),)))


def _cell(n: int, **doc: Any) -> CellRow:
    return CellRow(f"cel_{n:026}", f"ses_{n:026}", 1, "waiting", True, 1, None, doc)


async def test_a_truncated_store_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await _a_full_store(path)
    whole = path.read_bytes()
    for size in (len(whole) // 2, len(whole) - 4096, 4096, 5000, 99):
        path.write_bytes(whole[:size])
        assert isinstance(await refusal(path), StoreUnusable)


async def test_a_damaged_page_is_found_and_never_raises_anything_but_a_store_error(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await _a_full_store(path)
    whole = path.read_bytes()
    chance = random.Random(1)
    for page in range(len(whole) // 4096):
        garbage = chance.randbytes(4096) if page % 2 else bytes(4096)
        path.write_bytes(whole[: page * 4096] + garbage + whole[page * 4096 + 4096 :])
        found = await _look_at_everything(path)
        assert found, f"page {page + 1} is damaged, and nobody noticed"
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)


async def _look_at_everything(path: Path) -> list[str]:
    found: list[str] = []
    try:
        async with store_at(path, synchronous="normal") as store:
            found += await store.check()
            for table in KEYS:
                try:
                    await store.scan(table)
                except StoreUnusable as error:
                    found.append(error.message)
            for n in range(10):
                try:
                    await store.write(batch_of("new", n))
                    await store.calls("cel_a")
                    await store.blob(digest_bytes(random.Random(n).randbytes(3000)))
                except StoreError as error:
                    found.append(error.message)
    except StoreUnusable as error:
        found.append(error.message)
    return found


async def test_a_row_whose_bytes_were_changed_is_told_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with store_at(path) as store:
        await store.write(put("a", {"text": "unmistakable"}))
        await store.write(Batch((PutBlob("c" * 64, b"compressible" * 1000),)))
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"unmistakable"', b'"unmistakable\xff'))
    sql(path, "UPDATE contents SET data = x'00112233'")
    async with store_at(path) as store:
        with pytest.raises(StoreUnusable, match="a row cannot be read"):
            await store.values("ses_a")
        with pytest.raises(StoreUnusable, match="a row cannot be read"):
            await store.blob("c" * 64)
        assert list(await store.check()) == [f"blob {'c' * 64} is not what was written"]


# -- trouble --------------------------------------------------------------------------------------------------------


async def test_a_full_disk_fails_the_whole_commit_and_the_store_goes_on_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with connections() as made:
        async with store_at(path) as store:
            await store.write(put("before"))
            pages = made[0].execute("PRAGMA page_count").get
            made[0].execute(f"PRAGMA max_page_count = {pages + 20}").fetchall()
            with child("hold", path) as other:
                assert heard(other) == "held"
                first = store.write(put("first"))
                # Small ones beside one that does not fit: all in one commit, or all but the first.
                answers = [store.write(put(f"small {n}")) for n in range(5)]
                answers.append(store.write(Batch((PutBlob("a" * 64, os.urandom(1 << 20)), *put("large").writes))))
                tell(other)
                outcomes = [await _outcome(answer) for answer in answers]
            written = await keys(store)
            assert outcomes[-1] is StoreUnavailable
            assert ("first" in written) == (await _outcome(first) is None)
            assert [f"small {n}" in written for n in range(5)] == [outcome is None for outcome in outcomes[:5]]
            assert "large" not in written
            with pytest.raises(StoreUnavailable, match="the disk is full") as caught:
                await store.write(Batch((PutBlob("a" * 64, os.urandom(1 << 20)),)))
            assert str(path) in caught.value.message
            await store.write(put("fits"))
            made[0].execute(f"PRAGMA max_page_count = {1 << 30}").fetchall()
            await store.write(Batch((PutBlob("a" * 64, os.urandom(1 << 20)), *put("large").writes)))
            assert {"before", "fits", "large"} <= set(await keys(store))
            assert await store.blob("a" * 64) is not None


async def test_all_of_a_commit_that_fails_is_told_so_and_none_of_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with connections() as made:
        async with store_at(path) as store:
            await store.write(put("before"))
            # From a commit hook, SQLite makes a rollback of the commit.
            made[0].set_commit_hook(lambda: True)
            outcomes = [await _outcome(answer) for answer in [store.write(put(f"{n}")) for n in range(20)]]
            assert outcomes == [StoreUnavailable] * 20
            made[0].set_commit_hook(None)
            await store.write(put("after"))
            assert await keys(store) == ["after", "before"]


async def test_a_read_only_file_is_refused_with_a_hint(tmp_path: Path) -> None:
    # Not under pytest's directory, which only its user may enter.
    place = Path(f"/tmp/cloister-{os.getpid()}-{time.monotonic_ns()}")
    place.mkdir(0o755)
    try:
        path = place / "a.db"
        async with store_at(path) as store:
            await store.write(put("a"))
        path.chmod(0o444)
        place.chmod(0o555)
        if os.getuid() == 0:
            with child("open_as_nobody", path) as other:
                said = heard(other)
        else:
            said = await _said_by(path)
        assert said.startswith("STORE_UNAVAILABLE")
        assert "read-only" in said or "cannot be opened" in said
        assert str(path) in said
    finally:
        place.chmod(0o755)
        shutil.rmtree(place)


async def _said_by(path: Path) -> str:
    try:
        async with store_at(path):
            return "opened"
    except StoreError as error:
        return f"{error.code}: {error.message}"


async def test_a_stopped_process_that_holds_the_lock_is_waited_for_only_so_long(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with store_at(path, busy_timeout_ms=150) as store:
        await store.write(put("before"))
        with child("hold", path) as other:
            assert heard(other) == "held"
            other.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match="locked by another process") as caught:
                await store.write(put("refused"))
            assert 0.1 < time.monotonic() - began < 20
            assert str(path) in caught.value.message
            # Reads do not care.
            assert await keys(store) == ["before"]
            other.send_signal(signal.SIGCONT)
            tell(other)
            other.wait()
        await store.write(put("again"))
        assert await keys(store) == ["again", "before"]


async def test_a_file_that_was_removed_or_replaced_is_not_written_to_any_more(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with store_at(path) as store:
        await store.write(put("a"))
        path.rename(tmp_path / "b.db")
        with pytest.raises(StoreUnavailable, match="removed, or replaced"):
            await store.write(put("b"))
        path.touch()
        with pytest.raises(StoreUnavailable, match="removed, or replaced"):
            await store.write(put("b"))
        path.unlink()
        (tmp_path / "b.db").rename(path)
        await store.write(put("c"))
        assert await keys(store) == ["a", "c"]


# -- other processes ------------------------------------------------------------------------------------------------

_SLOW = pytest.mark.slow


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=_SLOW) for seed in range(2, 24))])
async def test_what_was_acknowledged_before_a_kill_is_there_and_every_batch_is_whole(tmp_path: Path, seed: int) -> None:
    path, chance = tmp_path / "a.db", random.Random(seed)
    for life in range(2):
        acknowledged = -1
        with child("write", path, f"life {life}", 1_000_000) as writer:
            for _ in range(chance.randrange(1, 400)):
                acknowledged = max(acknowledged, int(heard(writer)))
            time.sleep(chance.random() * 0.01)
            writer.kill()
            acknowledged = max([acknowledged, *map(int, all_heard(writer))])
        async with store_at(path) as store:
            assert list(await store.check()) == []
            await _assert_whole(store, f"life {life}", acknowledged)


async def _assert_whole(store: SqliteStore, name: str, acknowledged: int) -> None:
    there = {key.rsplit("/", 1)[0] for key in await keys(store) if key.startswith(f"{name}/")}
    numbers = sorted(int(key.rsplit("/", 1)[1]) for key in there)
    # Eight tasks write in order: those before an acknowledged one are there, and those after it without a gap.
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > acknowledged
    events = [row.doc["key"] for row in await store.events(limit=1_000_000)]
    assert [key for key in events if key in there] == sorted(there)
    pairs = {key for key in await keys(store) if key.startswith(f"{name}/")}
    assert pairs == {f"{key}/{part}" for key in there for part in ("first", "last")}
    for number in (numbers[0], numbers[-1]):
        [blob] = [write for write in batch_of(name, number).writes if isinstance(write, PutBlob)]
        assert await store.blob(blob.name) == blob.data


async def test_two_processes_write_at_once_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with store_at(path, busy_timeout_ms=30_000) as store:
        with child("write", path, "one", 300) as one, child("write", path, "two", 300) as two:
            for number in range(100):
                await store.write(batch_of("here", number))
            for other in (one, two):
                lines = await asyncio.to_thread(all_heard, other)
                assert lines[-1] == "closed"
                assert sorted(map(int, lines[:-1])) == list(range(300))
        for name, count in (("one", 300), ("two", 300), ("here", 100)):
            await _assert_whole(store, name, count - 1)
        assert len(await store.events(limit=10_000)) == 700
        assert list(await store.check()) == []


async def test_processes_that_make_one_store_at_once_make_it_once(tmp_path: Path) -> None:
    for round_ in range(2):
        path = tmp_path / f"{round_}" / "a.db"
        with (
            child("open", path) as one,
            child("open", path) as two,
            child("open", path) as three,
            child("open", path) as four,
        ):
            others = (one, two, three, four)
            assert [heard(other) for other in others] == ["ready"] * 4
            for other in others:
                tell(other)
            assert [heard(other) for other in others] == ["opened"] * 4
        async with store_at(path) as store:
            assert len(await store.events()) == 4
            assert list(await store.check()) == []


async def test_stores_opened_at_once_in_one_process_make_it_once(tmp_path: Path) -> None:
    stores = [store_at(tmp_path / "a.db") for _ in range(8)]
    await asyncio.gather(*(store.__aenter__() for store in stores))
    await asyncio.gather(*(store.write(put(f"{n}")) for n, store in enumerate(stores)))
    assert len(await keys(stores[0])) == 8
    for store in stores:
        await store.__aexit__()
    assert os.listdir(tmp_path) == ["a.db"]


async def test_a_migration_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cloister.stores.sqlite import opening

    path = tmp_path / "a.db"
    async with store_at(path) as store:
        await store.write(put("a"))
    monkeypatch.setattr(opening, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE more (a); CREATE TABLE more (a)"))
    with pytest.raises(StoreUnavailable):
        await store_at(path).__aenter__()
    monkeypatch.setattr(opening, "MIGRATIONS", MIGRATIONS)
    async with store_at(path) as store:
        assert await keys(store) == ["a"]
    monkeypatch.setattr(opening, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE more (a)"))
    for _ in range(2):
        async with store_at(path) as store:
            assert await keys(store) == ["a"]
    assert sql(path, "PRAGMA user_version") == [(len(MIGRATIONS) + 1,)]


async def test_store_of_the_first_schema_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cloister.stores.sqlite import opening

    path = tmp_path / "a.db"
    row = SnapshotRow("snp_a", "ses_a", 1, "0" * 64, "cel_a", 2, {"x": 1})
    monkeypatch.setattr(opening, "MIGRATIONS", MIGRATIONS[:1])
    async with store_at(path):
        sql(path, f"INSERT INTO snapshots VALUES ('snp_a', 'ses_a', 1, '{'0' * 64}', 'cel_a', 2, '{{\"x\":1}}')")
    monkeypatch.setattr(opening, "MIGRATIONS", MIGRATIONS)
    async with store_at(path) as store:
        assert list(await store.snapshots("ses_a")) == [row]
        await store.write(Batch((Put(replace(row, blobs=("1" * 64,))),)))
        assert [found.blobs for found in await store.snapshots("ses_a")] == [("1" * 64,)]


async def test_events_of_another_process_wake_those_who_wait_here(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with store_at(path) as store:
        with child("open", path) as other:
            assert heard(other) == "ready"
            waiting = asyncio.ensure_future(store.wait_for_events(0, 60_000))
            await asyncio.sleep(0)
            tell(other)
            assert await waiting
        assert [row.kind for row in await store.events()] == ["test.opened"]


# -- size and speed -------------------------------------------------------------------------------------------------


async def test_a_settled_small_call_with_its_events_takes_little(tmp_path: Path) -> None:
    path, calls = tmp_path / "a.db", 500
    async with store_at(path, synchronous="normal"):
        pass
    empty = path.stat().st_size
    async with store_at(path, synchronous="normal") as store:
        for n in range(calls):
            cell_id = f"cel_{n // 20:026}"
            digest = {"request_digest": "e" * 64}
            intended = Append("ses_a", "call.intended", 1_700_000_000_000, {"call_id": f"cal_{n:026}", **digest})
            settled = Append("ses_a", "call.settled", 1_700_000_000_000, {"call_id": f"cal_{n:026}", "status": "ok"})
            await store.write(Batch((Intend(make_intent(n, cell_id, arguments={"order_id": "A7"})), intended)))
            await store.write(Batch((Settle(make_settled(n, cell_id, {"id": "A7", "total": 12.5})), settled)))
    assert (path.stat().st_size - empty) / calls < 1150


async def test_a_blob_is_compressed_when_that_helps_and_written_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    smooth, rough = b"again and again " * 100_000, random.Random(1).randbytes(100_000)
    async with store_at(path) as store:
        for data in (smooth, rough, b"", b"small") * 3:
            await store.write(Batch((PutBlob(digest_bytes(data), data),)))
        for data in (smooth, rough, b"", b"small"):
            assert await store.blob(digest_bytes(data)) == data
        assert list(await store.check()) == []
    async with store_at(tmp_path / "empty.db"):
        pass
    assert 90_000 < path.stat().st_size - (tmp_path / "empty.db").stat().st_size < 150_000


async def test_vacuum_gives_room_back(tmp_path: Path) -> None:
    path, clock = tmp_path / "a.db", HandClock()
    data = random.Random(1).randbytes(3 << 20)
    async with store_at(path, clock=clock) as store:
        await store.write(Batch((PutBlob(digest_bytes(data), data), Append("ses_a", "x", 1))))
        clock.at_ms += 120_000
        assert await store.collect() == 1
        waiting = [store.write(put(f"{n}")) for n in range(10)]
        await store.vacuum()
        for answer in waiting:
            await answer
        assert path.stat().st_size < 1 << 20
        assert len(await keys(store)) == 10


async def test_nothing_that_opening_has_begun_is_in_the_way_of_a_vacuum(tmp_path: Path) -> None:
    link = open_store(str(tmp_path / "a.db"), synchronous="full", busy_timeout_ms=1000)
    # Another cursor on the same connection, as the writer has: what the first one has not ended stays so.
    Hand(link.raw).run("VACUUM")
    link.close()


async def test_ten_thousand_sessions_are_claimed_and_their_cells_read_for_less_than_it_took_to_write_them(
    tmp_path: Path,
) -> None:
    count = 10_000
    async with store_at(tmp_path / "a.db", synchronous="normal") as store:

        async def fill() -> None:
            for start in range(0, count, 1000):
                some = range(start, start + 1000)
                sessions = [Put(SessionRow(f"ses_{n:026}", 1, 1, {"note": "x" * 200})) for n in some]
                await store.write(Batch((*sessions, *[Put(_cell(n, source="x" * 200)) for n in some])))

        _, took_writing = await _worked(fill())
        claiming: list[float] = []
        reading: list[float] = []
        # What else goes on in this process is in these too, now and then.
        for owner in ("one", "two", "three"):
            await store.join(owner, 60_000)
            claims, took = await _worked(store.claim(owner))
            claiming.append(took)
            cells, took = await _worked(store.cells(live=True))
            reading.append(took)
            assert len(claims) == len(cells) == count
            await store.release(owner)
        # One statement each. One for every session is many times what it takes to write all of them in ten batches.
        assert min(claiming) < took_writing
        assert min(reading) < took_writing


async def _worked(work: Awaitable[T]) -> tuple[T, float]:
    """With the processor time that it took, of all threads: how long that lasts is up to the machine."""
    began = time.process_time()
    return await work, time.process_time() - began
