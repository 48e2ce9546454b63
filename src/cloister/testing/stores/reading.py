"""Reads: in which order rows come, page by page, and which."""

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from cloister.core.errors import InvalidInput
from cloister.ports.journal import Entry
from cloister.ports.rows import KEYS, Drop, Put, Row
from cloister.stores.rules import key_of
from cloister.testing.behaviour import Chapter
from cloister.testing.stores.lab import (
    NOW_MS,
    StoreLab,
    append,
    approval,
    attachment,
    cell,
    event,
    file,
    intent,
    name_of,
    one_of_each,
    put,
    read_back,
    refused,
    same,
    scanned,
    secret,
    session,
    snapshot,
    value,
)

chapter = Chapter[StoreLab]()

# In the order of their code points, which is that of their UTF-8, and not that of UTF-16, of a locale or without case.
NAMES: list[str] = [*"!|%|10|9|A|Z|_|a|a |a b|a.b|a/b|ab|e\u0301|z|\u00e9|\uff5e|\U0001f600".split("|")]
assert sorted(NAMES) == NAMES


def _mixed(names: list[str]) -> list[str]:
    return names[1::2] + names[0::2]


def _ids(rows: Any) -> list[str]:
    return [row.id for row in rows]


@chapter("sessions come in the order of their ids, page by page")
async def _sessions(lab: StoreLab) -> None:
    await put(lab.store, *(session(name) for name in _mixed(NAMES)))
    assert _ids(await lab.store.sessions()) == NAMES
    assert _ids(await lab.store.sessions(limit=5)) == NAMES[:5]
    for place, name in enumerate(NAMES):
        assert _ids(await lab.store.sessions(after=name, limit=3)) == NAMES[place + 1 : place + 4]
    # From where somebody was who is gone by now.
    assert _ids(await lab.store.sessions(after="B", limit=1)) == ["Z"]


@chapter("cells come in the order of their ids, of one session or of all, live or not, page by page")
async def _cells(lab: StoreLab) -> None:
    rows = [cell(f"cel_{n:02}", f"ses_{n % 3}", live=n % 2 == 0, number=n) for n in range(24)]
    await put(lab.store, *rows[12:], *rows[:12])
    ids = _ids(rows)
    assert _ids(await lab.store.cells()) == ids
    assert _ids(await lab.store.cells("ses_1")) == ids[1::3]
    assert _ids(await lab.store.cells(live=True)) == ids[0::2]
    assert _ids(await lab.store.cells(live=False)) == ids[1::2]
    assert _ids(await lab.store.cells("ses_1", live=False)) == ids[1::6]
    assert _ids(await lab.store.cells(after="cel_09", limit=3)) == ids[10:13]
    assert _ids(await lab.store.cells("ses_0", live=True, after="cel_06", limit=2)) == ["cel_12", "cel_18"]
    assert list(await lab.store.cells("ses_9")) == []


@chapter("a cell is found in its session by the key under which it was asked for, whatever becomes of it")
async def _operations(lab: StoreLab) -> None:
    store = lab.store
    rows = [cell("cel_1", operation_key="k"), cell("cel_2"), cell("cel_3", operation_key="k 2")]
    await put(store, *rows, cell("cel_4", "ses_b", operation_key="k"))
    same(list(await store.cells("ses_a", operation_key="k")), rows[:1])
    same(list(await store.cells("ses_a", operation_key="K")), [])
    assert _ids(await store.cells(operation_key="k")) == ["cel_1", "cel_4"]
    ended = replace(rows[0], state="completed", live=False, ended_ms=NOW_MS)
    await put(store, replace(rows[0], state="asleep", doc={"x": 1}), ended)
    same(list(await store.cells("ses_a", operation_key="k", live=False)), [ended])
    await put(store, replace(ended, operation_key=None))
    same(list(await store.cells("ses_a", operation_key="k")), [])


@chapter("a cell that has ended is live no more")
async def _ended(lab: StoreLab) -> None:
    await put(lab.store, cell("cel_1"), cell("cel_2"))
    await put(lab.store, cell("cel_1", live=False, state="completed", ended_ms=5))
    assert _ids(await lab.store.cells(live=True)) == ["cel_2"]
    assert _ids(await lab.store.cells(live=False)) == ["cel_1"]


@chapter("approvals come in the order of their ids, of a session, in a state, page by page")
async def _approvals(lab: StoreLab) -> None:
    states = ["pending", "allowed", "denied"]
    rows = [approval(f"apr_{n:02}", f"ses_{n % 2}", state=states[n % 3]) for n in range(12)]
    await put(lab.store, *rows[6:], *rows[:6])
    ids = _ids(rows)
    assert _ids(await lab.store.approvals()) == ids
    assert _ids(await lab.store.approvals(session_id="ses_1")) == ids[1::2]
    assert _ids(await lab.store.approvals(state="allowed")) == ids[1::3]
    assert _ids(await lab.store.approvals(session_id="ses_0", state="pending")) == ids[0::6]
    assert _ids(await lab.store.approvals(after="apr_03", limit=4)) == ids[4:8]
    assert _ids(await lab.store.approvals(session_id="ses_1", state="allowed", after="apr_01", limit=1)) == ["apr_07"]


@chapter("the snapshots of a session come in the order of their ids")
async def _snapshots(lab: StoreLab) -> None:
    await put(lab.store, *(snapshot(name) for name in _mixed(NAMES)), snapshot("snp_other", "ses_b"))
    assert _ids(await lab.store.snapshots("ses_a")) == NAMES


@chapter("the calls of a cell come in the order of their numbers")
async def _calls(lab: StoreLab) -> None:
    numbers = [10, 2, 1, 33, 9]
    await put(lab.store, *(Entry(intent(number)) for number in numbers), Entry(intent(3, "cel_b")))
    assert [entry.intent.number for entry in await lab.store.calls("cel_a")] == sorted(numbers)


@chapter("values, files, secrets and attachments of a session come in the order of their keys, and nobody else's do")
async def _own(lab: StoreLab) -> None:
    store = lab.store
    names = _mixed(NAMES)
    data = [name.encode() for name in names]
    for owner in ("ses_a", "ses_b"):
        await put(store, *(value(name, owner) for name in names), *(file(name, owner) for name in names))
        await put(store, *(secret(name, owner) for name in names), *(attachment(part, owner) for part in data))
    assert [row.key for row in await store.values("ses_a")] == NAMES
    assert [row.path for row in await store.files("ses_a")] == NAMES
    assert [row.name for row in await store.secrets("ses_a")] == NAMES
    assert [row.blob for row in await store.attachments("ses_a")] == sorted(map(name_of, data))
    assert {row.session_id for row in await store.values("ses_b")} == {"ses_b"}


@chapter("a scan goes through every row of every table, in the order of its keys, whatever the size of its pages")
async def _scan(lab: StoreLab) -> None:
    rows: list[Row] = [row for name in _mixed(NAMES) for row in one_of_each(name)]
    rows += [event(seq) for seq in (9, 10, 100, 2)]
    rows += [value(f"key {n}", name) for name in ("a", "ab") for n in range(3)]
    await put(lab.store, *rows)
    for table in KEYS:
        whole = await scanned(lab.store, table)
        keys = [key_of(row) for row in whole]
        assert keys == sorted(keys), f"{table}: {keys}"
        for row in whole:
            same(row, await read_back(lab.store, row))
        for limit in (1, 2, 7):
            assert await scanned(lab.store, table, limit) == whole, table
    assert sum([len(await scanned(lab.store, table)) for table in KEYS]) == len(rows)


@chapter("a scan goes on behind a row that is gone")
async def _scan_on(lab: StoreLab) -> None:
    await put(lab.store, *(value(key, owner) for owner in ("ses_a", "ses_b") for key in ("a", "b", "c")))
    page = await lab.store.scan("values", after=("ses_a", "bb"), limit=2)
    assert [key_of(row) for row in page] == [("ses_a", "c"), ("ses_b", "a")]
    page = await lab.store.scan("values", after=("ses_a", "zzz"), limit=1)
    assert [key_of(row) for row in page] == [("ses_b", "a")]


@chapter("keys that only look alike are not the same")
async def _alike(lab: StoreLab) -> None:
    alike = ["a", "A", "a ", " a", "\u00e9", "e\u0301", "\u017f", "s", "%", "_", "a%", "'", '"', "\\", "\\x00", "a\n"]
    for place, name in enumerate(alike):
        await put(lab.store, session(name, used_ms=place), value(name, value=place), approval(name, name))
    for place, name in enumerate(alike):
        row = await lab.store.session(name)
        assert row is not None
        assert (row.id, row.used_ms) == (name, place)
        assert _ids(await lab.store.approvals(session_id=name)) == [name]
    assert {row.key: row.value for row in await lab.store.values("ses_a")} == {
        name: place for place, name in enumerate(alike)
    }


@chapter("a key of 1,024 bytes is kept, and a longer one is refused as invalid")
async def _long(lab: StoreLab) -> None:
    for most in ("k" * 1024, "\u00e9" * 512, "\U0001f600" * 256):
        rows: list[Row] = [session(most), cell(most, most), approval(most, most), value(most, most), file(most, most)]
        await put(lab.store, *rows)
        for row in rows:
            same(await read_back(lab.store, row), row)
        for row in (session(most + "k"), value(most + "k"), value("k", most + "k"), file(most + "k")):
            await refused(InvalidInput, lab.store, Put(row))


@chapter("a key with a NUL or half a surrogate pair in it is refused as invalid")
async def _nul(lab: StoreLab) -> None:
    for bad in ("a\x00b", "\x00", "half \ud83d"):
        rows: list[Row] = [*one_of_each(bad), value(bad), file(bad), secret(bad), cell(state=bad), event(1, kind=bad)]
        for row in rows:
            await refused(InvalidInput, lab.store, Put(cell("cel_other")), Put(row))
        await refused(InvalidInput, lab.store, Put(cell("cel_other")), Drop("sessions", (bad,)))
    assert await lab.store.cell("cel_other") is None


@chapter("a read by a key that cannot be finds nothing, or is refused as invalid")
async def _read_nul(lab: StoreLab) -> None:
    await put(lab.store, *one_of_each("a"))
    await append(lab.store, 1, "a")
    store = lab.store
    one_by_one = (store.session, store.cell, store.call, store.approval, store.blob)
    several = (store.cells, store.calls, store.values, store.files, store.secrets, store.attachments, store.snapshots)
    for bad in ("a\x00b", "a\x00", "half \ud83d"):
        readings: list[Awaitable[object]] = [store.events(session_id=bad), store.approvals(session_id=bad)]
        readings += [read(bad) for read in (*one_by_one, *several)]
        for reading in readings:
            try:
                assert not await reading
            except InvalidInput:
                pass
    assert await store.session("a") is not None
