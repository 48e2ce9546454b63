"""Stores that are taken elsewhere: everything comes along, what is not whole is refused, what fails leaves nothing."""

import hashlib
import io
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import zstandard

from cloister import Cloister, Completed, Tool, WaitingForApproval, Yielded, tool
from cloister.core.errors import InvalidInput, StoreConflict, StoreError, StoreUnavailable, StoreUnusable
from cloister.ports.clock import SystemClock
from cloister.ports.rows import Append, Batch, Drop, MoveHead, Put, PutBlob, Table
from cloister.ports.store import Store
from cloister.stores import moving
from cloister.stores.memory_store import MemoryStore
from cloister.stores.moving import Counts, export, import_
from cloister.stores.postgres import PostgresStore
from cloister.stores.rules import blobs_of, key_of
from cloister.stores.sqlite import SqliteStore
from cloister.testing.stores.lab import (
    BLOBS,
    HARD,
    attachment,
    blob,
    event,
    everything,
    name_of,
    one_of_each,
    same,
    session,
    write,
)
from tests.stores.pg_server import PgServer

# A fixture is found where it is named.

pytestmark = pytest.mark.anyio
KEY = b"k" * 32


async def exported(store: Store) -> bytes:
    out = io.BytesIO()
    await export(store, out)
    return out.getvalue()


async def contents(store: Store) -> tuple[dict[str, Any], dict[str, bytes | None]]:
    tables = await everything(store)
    names = {name for rows in tables.values() for row in rows for name in blobs_of(row)}
    return tables, {name: await store.blob(name) for name in sorted(names)}


async def fill(store: Store) -> None:
    """Something in every table, in docs that are hard to write, for several sessions."""
    await write(store, *BLOBS, blob(b""))
    for number, doc in enumerate(HARD):
        rows = one_of_each(f"ses_{number}", doc)
        await write(store, *(Put(row) for row in rows), MoveHead(f"ses_{number}", 0))
    await write(store, Put(attachment(b"", "ses_0")), Put(event(7, doc=HARD[0])), Put(event(9, "ses_gone")))


@pytest.fixture
async def filled() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as store:
        await fill(store)
        yield store


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "target.db", clock=SystemClock()) as store:
        yield store


async def is_empty(store: Store) -> bool:
    return not any((await everything(store)).values())


# -- there and back -------------------------------------------------------------------------------------------------


def tools(asked: list[int]) -> list[Tool]:
    @tool(side_effect="read")
    async def look(n: int) -> dict[str, Any]:
        """Look."""
        return {"n": n, "half": n / 2}

    @tool(side_effect="write", idempotent=False, approval_policy="manual")
    async def ask(n: int) -> str:
        """Ask first."""
        asked.append(n)
        return f"allowed {n}"

    return [look, ask]


def at(path: Path) -> SqliteStore:
    return SqliteStore(path, clock=SystemClock())


async def move(source: Store, target: Store, file: Path) -> tuple[Any, Any]:
    """What was in the one and what is in the other, by a file."""
    async with source:
        before = await contents(source)
        with file.open("wb") as out:
            sent = await export(source, out)
    async with target:
        with file.open("rb") as back:
            assert await import_(target, back) == sent
        assert list(await target.check()) == []
        return before, await contents(target)


@pytest.mark.parametrize("language", ["python", "typescript"])
async def test_session_goes_on_after_a_journey_through_another_kind_of_store(
    tmp_path: Path, pg_server: PgServer, language: str
) -> None:
    asked: list[int] = []
    given: dict[str, Any] = {"tools": tools(asked), "snapshot_key": KEY, "workers": 1}
    python = language == "python"
    async with Cloister(store=f"sqlite://{tmp_path}/a.db", **given) as cloister:
        first = await cloister.open_session("s", language=language)
        await first.run("x = (await look(41))['n']" if python else "let x = (await look({n: 41})).n")
        await first.values.set("host", {"a": [1, -0.0, "é\x00"]})
        seen = await first.exec(
            "store('k', [x])\n[x, await ask(7)]" if python else "store('k', [x]); [x, await ask({n: 7})]"
        )
        assert isinstance(seen, WaitingForApproval)
    url = pg_server.url(pg_server.new_database())
    there = await move(at(tmp_path / "a.db"), PostgresStore(url), tmp_path / "1")
    back = await move(PostgresStore(url), at(tmp_path / "b.db"), tmp_path / "2")
    for kept in (there[1], back[0], back[1]):
        same(kept, there[0])
    tables, blobs = there[0]
    assert all(tables[table] for table in ("sessions", "cells", "calls", "approvals", "events", "values"))
    assert blobs

    async with Cloister(store=f"sqlite://{tmp_path}/b.db", **given) as cloister:
        again = await cloister.open_session("s", language=language)
        (question,) = await cloister.approvals(state="pending")
        assert (question.id, asked) == (seen.approvals[0].id, [])
        await cloister.decide(question.id, "allow")
        while isinstance(ended := await again.wait(seen.cell_id), Yielded):
            pass
        assert isinstance(ended, Completed)
        assert (ended.result, asked) == ([41, "allowed 7"], [7])
        assert await again.values.all() == {"k": [41], "host": {"a": [1, -0.0, "é\x00"]}}


async def test_every_table_and_every_doc_comes_back_exactly(filled: MemoryStore, target: SqliteStore) -> None:
    counts = await import_(target, io.BytesIO(await exported(filled)))
    same(await contents(target), await contents(filled))
    assert counts == Counts({table: len(rows) for table, rows in (await everything(filled)).items()}, blobs=4)
    assert all(counts.rows.values())


async def test_events_go_on_behind_those_that_came(filled: MemoryStore, target: SqliteStore) -> None:
    await import_(target, io.BytesIO(await exported(filled)))
    assert await write(target, Append("ses_0", "x", 1)) == (10,)


async def test_session_that_had_no_head_gets_one(target: SqliteStore) -> None:
    async with MemoryStore() as store:
        await write(store, Put(session("ses_a")))
        await import_(target, io.BytesIO(await exported(store)))
    (row,) = await target.sessions()
    assert row.head == 1


async def test_empty_store_is_an_export_too(target: SqliteStore) -> None:
    async with MemoryStore() as store:
        counts = await import_(target, io.BytesIO(await exported(store)))
    assert counts == Counts()


async def test_more_rows_than_a_page_and_a_batch(target: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "_PAGE_ROWS", 7)
    monkeypatch.setattr(moving, "_BATCH_WRITES", 5)
    async with MemoryStore() as store:
        await write(store, *(Put(session(f"ses_{number:03}")) for number in range(50)))
        await write(store, *(MoveHead(f"ses_{number:03}", 0) for number in range(50)))
        await write(store, *(Append(f"ses_{number:03}", "x", number) for number in range(50)))
        await import_(target, io.BytesIO(await exported(store)))
        same(await contents(target), await contents(store))


async def test_large_blob_goes_in_lines_of_at_most_a_mebibyte_and_once(target: SqliteStore) -> None:
    data = bytes(range(256)) * 12_000
    async with MemoryStore() as store:
        await write(store, PutBlob(name_of(data), data))
        await write(store, *(Put(attachment(data, f"ses_{number}")) for number in range(3)))
        file = await exported(store)
        await import_(target, io.BytesIO(file))
    lines = unpack(file).splitlines(keepends=True)
    assert max(map(len, lines)) <= 1 << 20
    assert sum(b'{"blob"' in line for line in lines) == 5
    assert await target.blob(name_of(data)) == data


async def test_leases_and_blobs_that_nothing_refers_to_stay_behind(filled: MemoryStore, target: SqliteStore) -> None:
    await write(filled, blob(b"nobody's"))
    await filled.join("host", 60_000)
    assert await filled.claim("host")
    await filled.release("host")
    await import_(target, io.BytesIO(await exported(filled)))
    assert await target.blob(name_of(b"nobody's")) is None
    assert await target.owners() == []
    await target.join("other", 60_000)
    assert len(await target.claim("other")) == len(HARD)


# -- what is refused ------------------------------------------------------------------------------------------------


def unpack(file: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(file)


def pack(text: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(text)


async def refusal(target: Store, file: bytes) -> StoreError:
    with pytest.raises(StoreUnusable) as raised:
        await import_(target, io.BytesIO(file))
    assert raised.value.hint
    assert await is_empty(target)
    return raised.value


async def test_truncated_file_is_refused_wherever_it_ends(filled: MemoryStore, target: SqliteStore) -> None:
    file = await exported(filled)
    for end in (1, 3, 4, 5, 9, 40, len(file) // 3, len(file) // 2, len(file) - 5, len(file) - 4, len(file) - 1):
        assert "ends too early" in (await refusal(target, file[:end])).message


async def test_lines_that_are_missing_are_noticed(filled: MemoryStore, target: SqliteStore) -> None:
    lines = unpack(await exported(filled)).splitlines(keepends=True)
    for end in range(1, len(lines)):
        assert "ends too early" in (await refusal(target, pack(b"".join(lines[:end])))).message
    for gone in range(1, len(lines) - 1):
        assert "damaged" in (await refusal(target, pack(b"".join(lines[:gone] + lines[gone + 1 :])))).message


async def test_flipped_byte_is_refused_or_changes_nothing(filled: MemoryStore) -> None:
    file, whole = await exported(filled), await contents(filled)
    refused, places = 0, range(0, len(file), 5)
    for place in places:
        flipped = bytearray(file)
        flipped[place] ^= 0x10
        async with MemoryStore() as target:
            try:
                await import_(target, io.BytesIO(bytes(flipped)))
            except StoreUnusable:
                refused += 1
                assert await is_empty(target)
            else:
                # There are bits that zstd does not need.
                assert unpack(bytes(flipped)) == unpack(file)
                same(await contents(target), whole)
    assert refused >= len(places) * 0.95


async def test_change_that_was_packed_again_is_refused(filled: MemoryStore, target: SqliteStore) -> None:
    text = unpack(await exported(filled))
    assert b'"number":1,' in text
    assert "damaged" in (await refusal(target, pack(text.replace(b'"number":1,', b'"number":2,', 1)))).message


@pytest.mark.parametrize("line", [b"{}", b"[]", b"7", b"\xff", b'{"table":"nothing","row":{}}', b"[" * 100_000])
async def test_line_that_is_none_of_ours_is_refused(filled: MemoryStore, target: SqliteStore, line: bytes) -> None:
    header, rest = unpack(await exported(filled)).split(b"\n", 1)
    assert "line 2" in (await refusal(target, pack(header + b"\n" + line + b"\n" + rest))).message


async def test_what_follows_the_end_is_refused(filled: MemoryStore, target: SqliteStore) -> None:
    file = await exported(filled)
    for more in (b"x", b"x" * 10_000, file):
        assert "follows its end" in (await refusal(target, file + more)).message
    assert "follows its end" in (await refusal(target, pack(unpack(file) + b"{}\n"))).message


@pytest.mark.parametrize(
    "file",
    [b"", b"hello", b"SQLite format 3\x00" * 100, pack(b""), pack(b"hello"), pack(b"7\n"), pack(b'{"format":"x"}\n')],
)
async def test_foreign_file_is_refused(target: SqliteStore, file: bytes) -> None:
    assert "is not an export" in (await refusal(target, file)).message


async def test_newer_version_is_refused_by_name(filled: MemoryStore, target: SqliteStore) -> None:
    text = unpack(await exported(filled)).replace(b'"version":3', b'"version":4', 1)
    error = await refusal(target, pack(text))
    assert ("version 4" in error.message, "update Cloister" in (error.hint or "")) == (True, True)


async def test_export_of_the_first_version_is_read(filled: MemoryStore, target: SqliteStore) -> None:
    """Its snapshots say nothing of files, and nothing in it of threads."""
    lines = unpack(await exported(filled)).splitlines()
    later = re.compile(rb',"(blobs|tenant|thread_id|turn_id|item_id)":(\[\]|""|null)')
    threads = re.compile(rb'\{"table":"(threads|turns|items|answers|inputs|tool_calls)"')
    kept = [line for line in lines[:-1] if not threads.match(line)]
    old = [later.sub(b"", line.replace(b'"version":3', b'"version":1', 1)) for line in kept]
    assert old != lines[:-1]
    ended = json.loads(lines[-1])
    tables: tuple[Table, ...] = ("threads", "turns", "items", "answers", "inputs", "tool_calls")
    for table in tables:
        ended["end"]["rows"].pop(table)
        await write(filled, *(Drop(table, key_of(row)) for row in await filled.scan(table)))
    end = {**ended, "sha3_256": hashlib.sha3_256(b"".join(line + b"\n" for line in old)).hexdigest()}
    await import_(target, io.BytesIO(pack(b"\n".join([*old, json.dumps(end).encode()]) + b"\n")))
    assert await everything(target) == await everything(filled)


async def test_blob_that_is_not_what_its_name_says_is_refused(target: SqliteStore) -> None:
    async with MemoryStore() as store:
        await write(store, blob(b"image"), Put(session("ses_a", image=name_of(b"image"))))
        header, first, *rest = unpack(await exported(store)).splitlines()
    changed = {**json.loads(first), "data": "aW1hZ2Y="}
    assert "line 2" in (await refusal(target, pack(b"\n".join([header, json.dumps(changed).encode(), *rest])))).message


@pytest.mark.parametrize("there", [Put(session("ses_mine")), Append("ses_gone", "x", 1)], ids=["session", "event"])
async def test_store_that_is_not_empty_is_refused_and_stays_as_it_is(
    filled: MemoryStore, target: SqliteStore, there: Put | Append
) -> None:
    await write(target, there)
    before = await contents(target)
    with pytest.raises(InvalidInput, match=r"target\.db is not empty: it has (sessions|events)"):
        await import_(target, io.BytesIO(await exported(filled)))
    assert await contents(target) == before


async def test_store_in_use_is_neither_exported_nor_filled(filled: MemoryStore, target: SqliteStore) -> None:
    file = await exported(filled)
    await target.join("host-1", 60_000)
    with pytest.raises(StoreUnavailable, match=r"in use by host-1"):
        await import_(target, io.BytesIO(file))
    with pytest.raises(StoreUnavailable, match=r"in use by host-1"):
        await exported(target)
    assert await is_empty(target)


async def test_store_without_a_blob_is_not_exported(filled: MemoryStore) -> None:
    await write(filled, Put(session("ses_x", image="0" * 64)))
    with pytest.raises(StoreUnusable, match=r"blob 0{64} is not there.*ses_x") as raised:
        await exported(filled)
    assert "store check" in (raised.value.hint or "")


# -- what fails in the middle ---------------------------------------------------------------------------------------


class Failing:
    """A store that does something else when it is written to for the nth time."""

    def __init__(self, store: Store, nth: int, instead: Callable[[Batch], Awaitable[tuple[int, ...]]]) -> None:
        self._store = store
        self._left = nth
        self._instead = instead

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, batch: Batch) -> Awaitable[tuple[int, ...]]:
        self._left -= 1
        return self._instead(batch) if self._left == 0 else self._store.write(batch)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "_BATCH_WRITES", 5)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("nth", [1, 2, 6, 12, 15])
@pytest.mark.parametrize("written", [True, False])
async def test_import_that_fails_leaves_no_row(
    filled: MemoryStore, target: SqliteStore, nth: int, written: bool
) -> None:
    async def fail(batch: Batch) -> tuple[int, ...]:
        if written:
            await target.write(batch)
        raise StoreUnavailable("the disk is full")

    failing = cast("Store", Failing(target, nth, fail))
    file = await exported(filled)
    with pytest.raises(StoreUnavailable, match=r"^the disk is full$"):
        await import_(failing, io.BytesIO(file))
    assert await is_empty(target)
    await import_(target, io.BytesIO(file))


@pytest.mark.usefixtures("small_batches")
async def test_session_that_another_made_meanwhile_is_not_taken_back(filled: MemoryStore, target: SqliteStore) -> None:
    mine = session("ses_3", doc={"mine": True})

    async def make_one(batch: Batch) -> tuple[int, ...]:
        await write(target, Put(mine), MoveHead("ses_3", 0))
        return await target.write(batch)

    with pytest.raises(StoreConflict):
        await import_(cast("Store", Failing(target, 2, make_one)), io.BytesIO(await exported(filled)))
    assert [row.doc for row in await target.sessions()] == [{"mine": True}]
    assert not (await everything(target))["cells"]


@pytest.mark.usefixtures("small_batches")
async def test_store_that_cannot_be_emptied_again_is_told(filled: MemoryStore, target: SqliteStore) -> None:
    class Gone(Failing):
        def write(self, batch: Batch) -> Awaitable[tuple[int, ...]]:
            self._left -= 1
            return self._instead(batch) if self._left <= 0 else self._store.write(batch)

    async def fail(batch: Batch) -> tuple[int, ...]:
        raise StoreUnavailable("the server is gone")

    with pytest.raises(StoreUnavailable, match=r"could not be removed \(the server is gone\)") as raised:
        await import_(cast("Store", Gone(target, 4, fail)), io.BytesIO(await exported(filled)))
    assert "remove it" in (raised.value.hint or "")


async def test_who_watches_is_told_and_can_stop_it(
    filled: MemoryStore, target: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "_TURN", 1)
    monkeypatch.setattr(moving, "_BATCH_WRITES", 5)
    told: list[str] = []

    def watch(doing: str, counts: Counts) -> None:
        told.append(doing)
        if doing == "import" and counts.parts == 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await import_(target, io.BytesIO(await exported(filled)), watch)
    assert set(told) == {"verify", "import"}
    assert await is_empty(target)
