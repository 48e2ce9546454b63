"""What a store is told of files: whose changes, when, and what happens when it says no."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace

import pytest

from cloister.core.errors import StoreUnavailable, StoreUnusable
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.ports.rows import Batch, Drop, FileRow, Put, PutBlob, SnapshotRow, Write
from cloister.sessions.carrying import carried
from cloister.sessions.envelope import Envelope, seal, unseal
from cloister.sessions.fences import Fences
from cloister.sessions.files import Book, Files, files_at
from cloister.sessions.ink import Ink
from cloister.stores.memory_store import MemoryStore
from tests.sessions.files.clock import HandClock

pytestmark = pytest.mark.anyio


class Shelf:
    """Keeps what it is given, unless it is told to refuse."""

    def __init__(self) -> None:
        self.rows: dict[str, FileRow] = {}
        self.blobs: dict[str, bytes] = {}
        self.refuses = False
        self.files = Files(HandClock(), session_id="s", keep=self.keep, load=self.load)

    async def keep(self, writes: Sequence[Write]) -> None:
        if self.refuses:
            raise StoreUnavailable("the disk is full")
        self.take(writes)

    def take(self, writes: Sequence[Write]) -> None:
        for write in writes:
            match write:
                case PutBlob(name=name, data=data):
                    self.blobs[name] = data
                case Put(row=FileRow() as row):
                    assert row.blob in self.blobs
                    self.rows[row.path] = row
                case Drop(table="files", key=("s", str(path))):
                    self.rows.pop(path, None)
                case _:
                    raise AssertionError(write)

    async def load(self, name: str) -> bytes | None:
        return self.blobs.get(name)

    async def reopened(self) -> Files:
        other = Shelf()
        other.blobs = self.blobs
        other.files.take_up(self.rows.values())
        return other.files


async def _tree(files: Files) -> dict[str, str | None]:
    entries = await files.list(recursive=True)
    return {one.path: await files.read_text(one.path) if one.kind == "file" else None for one in entries}


async def test_changes_wait_for_the_turn_of_who_made_them() -> None:
    shelf = Shelf()
    one, other = shelf.files.door("cel_1"), shelf.files.door("cel_2")
    one("files.write", ("/one", "1", "text", "w"))
    other("files.write", ("/other", "2", "text", "w"))
    await shelf.files.write("/host", "h")
    assert set(shelf.rows) == {"/host"}
    shelf.take(shelf.files.book.page("cel_2").writes)
    assert set(shelf.rows) == {"/host", "/other"}
    assert shelf.files.book.page("cel_2").writes == ()
    shelf.take(shelf.files.book.page("cel_1").writes)
    assert set(shelf.rows) == {"/host", "/other", "/one"}


async def test_file_is_not_written_down_without_the_directories_that_another_made() -> None:
    shelf = Shelf()
    door = shelf.files.door("cel_1")
    door("files.mkdir", ("/d/e", True, False))
    door("files.write", ("/f", "", "text", "w"))
    await shelf.files.write("/d/e/x", "x")
    assert set(shelf.rows) == {"/d", "/d/e", "/d/e/x"}
    door("files.delete", ("/d", True))
    await shelf.files.write("/d", "a file now")
    assert set(shelf.rows) == {"/d"}
    assert await _tree(await shelf.reopened()) == {"/d": "a file now"}


async def test_what_was_refused_goes_with_the_next_that_is_written() -> None:
    shelf = Shelf()
    shelf.refuses = True
    with pytest.raises(StoreUnavailable):
        await shelf.files.write("/a", "one")
    assert shelf.rows == {}
    assert await shelf.files.read_text("/a") == "one"
    shelf.refuses = False
    await shelf.files.write("/b", "two")
    assert await _tree(await shelf.reopened()) == {"/a": "one", "/b": "two"}


async def test_missing_bytes_are_a_damaged_store() -> None:
    shelf = Shelf()
    await shelf.files.write("/a", "one")
    shelf.blobs.clear()
    again = await shelf.reopened()
    assert not again.are_here
    with pytest.raises(StoreUnusable, match="not in the store"):
        await again.read("/a")
    with pytest.raises(StoreUnusable):
        await again.fetch()


async def test_row_below_a_file_does_not_keep_the_session_from_opening() -> None:
    shelf = Shelf()
    await shelf.files.write("/a", "one")
    await shelf.files.write("/b/c", "two")
    wrong = replace(shelf.rows["/b/c"], path="/a/c")
    shelf.rows["/a/c"] = wrong
    assert await _tree(await shelf.reopened()) == {"/a": "one", "/b": None, "/b/c": "two"}


# -- snapshots --------------------------------------------------------------------------------------------------------


def _snapshot(book: Book, name: str) -> SnapshotRow:
    manifest = book.manifest(name)
    return SnapshotRow(name, "s", 0, "0" * 64, doc=manifest.doc, blobs=manifest.blobs)


async def test_snapshots_say_what_changed_and_know_what_was_before() -> None:
    shelf = Shelf()
    book, rows = shelf.files.book, list[SnapshotRow]()
    expected: list[list[str]] = []

    async def moment(name: str) -> None:
        rows.append(_snapshot(book, name))
        expected.append([entry.path for entry in await shelf.files.list(recursive=True)])

    await moment("snp_0")
    assert rows[0].doc == {}
    await shelf.files.write("/a", "one")
    await shelf.files.write("/b/c", "two")
    await moment("snp_1")
    await moment("snp_2")
    assert rows[2].doc == {"files": {"at": "snp_1"}}
    await shelf.files.delete("/b", recursive=True)
    await moment("snp_3")
    assert set(rows[3].doc["files"]["changed"]) == {"/b", "/b/c"}
    await shelf.files.write("/d", "three")
    await moment("snp_4")
    assert len(rows[4].blobs) == 1
    assert [sorted(files_at(row, rows)) for row in rows] == expected
    with pytest.raises(StoreUnusable, match="snp_4"):
        files_at(rows[-1], rows[2:])


async def test_snapshot_after_one_that_was_lost_says_everything() -> None:
    shelf = Shelf()
    await shelf.files.write("/a", "one")
    _snapshot(shelf.files.book, "snp_1")
    await shelf.files.write("/b", "two")
    page = shelf.files.book.page("host")
    shelf.files.book.give_back(page)
    row = _snapshot(shelf.files.book, "snp_2")
    assert sorted(files_at(row, [row])) == ["/a", "/b"]


def _envelope(files: Files) -> Envelope:
    entries, contents = files.entries()
    limits = SessionLimits()
    return Envelope("s", Language.PYTHON, "e", "1", limits, {}, "", b"state", files=entries, contents=contents)


async def test_snapshot_leaves_out_the_largest_files_and_names_them() -> None:
    files = Files(HandClock())
    await files.write("/large", "x" * 60)
    await files.write("/same", "x" * 60)
    await files.write("/d/small", "y" * 30)
    await files.write("/empty", "")
    envelope = unseal(seal(await carried(_envelope(files), files, 60), b"k" * 32), b"k" * 32)
    assert envelope.left_out == ("file /large (60 bytes)", "file /same (60 bytes)")
    assert (envelope.state, set(envelope.files)) == (b"state", {"/d", "/d/small", "/empty"})
    other = Files(HandClock())
    await other.write("/gone", "")
    other.replace(envelope.files, envelope.contents)
    assert await _tree(other) == {"/d": None, "/d/small": "y" * 30, "/empty": ""}
    whole = await carried(_envelope(files), files, 90)
    assert (whole.left_out, sorted(whole.files)) == ((), ["/d", "/d/small", "/empty", "/large", "/same"])
    assert len(whole.contents) == 3


async def test_snapshot_has_bytes_that_were_only_in_the_store() -> None:
    shelf = Shelf()
    await shelf.files.write("/a", "one")
    again = await shelf.reopened()
    envelope = await carried(_envelope(again), again)
    assert list(envelope.contents.values()) == [b"one"]


# -- ink --------------------------------------------------------------------------------------------------------------


class Refusing(MemoryStore):
    def write(self, batch: Batch) -> Awaitable[tuple[int, ...]]:
        answer: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        answer.set_exception(StoreUnavailable("the disk is full"))
        return answer


async def test_who_must_know_hears_that_what_was_held_is_lost() -> None:
    async with Refusing() as store:
        ink, lost = Ink(store, Fences()), asyncio.Event()
        ink.hold("s", Drop("files", ("s", "/a")), lost=lost.set)
        ink.hold("s", Drop("files", ("s", "/b")))
        async with asyncio.timeout(10):
            await lost.wait()
