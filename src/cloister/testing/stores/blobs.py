"""Blobs: large bytes by the name of their content, and when they are let go of. Upkeep that changes nothing."""

from typing import Any

from cloister.ports.rows import KEYS, TABLE_OF, Drop, Put, Row
from cloister.stores.rules import key_of
from cloister.testing.behaviour import Chapter
from cloister.testing.stores.lab import (
    BLOBS,
    HARD,
    StoreLab,
    append,
    attachment,
    blob,
    cell,
    everything,
    file,
    name_of,
    one_of_each,
    put,
    same,
    scanned,
    session,
    snapshot,
    write,
)

chapter = Chapter[StoreLab]()
timed = Chapter[StoreLab]()

# Longer than any store keeps a blob for no other reason than that it was written lately.
LONG_MS = 3_600_000


@chapter("a blob is found by its name, byte for byte, and one that nobody wrote is not there")
async def _found(lab: StoreLab) -> None:
    parts = [b"", b"\x00", bytes(range(256)) * 7, "text é".encode()]
    await write(lab.store, *(blob(data) for data in parts))
    for data in parts:
        same(await lab.store.blob(name_of(data)), data)
    assert await lab.store.blob(name_of(b"other")) is None
    assert await lab.store.blob("") is None


@chapter("a blob that is written again is there as before")
async def _again(lab: StoreLab) -> None:
    await write(lab.store, blob(b"data"), blob(b"data"))
    await write(lab.store, blob(b"data"))
    assert await lab.store.blob(name_of(b"data")) == b"data"


@chapter("a blob of 8 MiB is written whole")
async def _large(lab: StoreLab) -> None:
    data = bytes(range(256)) * (8 << 12)
    await write(lab.store, blob(data), Put(file(blob=name_of(data))))
    assert await lab.store.blob(name_of(data)) == data


@chapter("a blob that was just written is not collected, though its row comes in a later batch")
async def _young(lab: StoreLab) -> None:
    await write(lab.store, blob(b"data"))
    assert await lab.store.collect() == 0
    assert await lab.store.blob(name_of(b"data")) == b"data"
    await put(lab.store, file(blob=name_of(b"data")))
    assert await lab.store.collect() == 0
    assert await lab.store.blob(name_of(b"data")) == b"data"


@timed("a blob that nothing refers to is collected once it is not young any more")
async def _collected(lab: StoreLab) -> None:
    await write(lab.store, blob(b"one"), blob(b"two"))
    await lab.let_pass(LONG_MS)
    await write(lab.store, blob(b"three"))
    assert await lab.store.collect() == 2
    assert await lab.store.blob(name_of(b"one")) is None
    assert await lab.store.blob(name_of(b"three")) == b"three"
    assert await lab.store.collect() == 0


@timed("a blob is young for a minute")
async def _minute(lab: StoreLab) -> None:
    await write(lab.store, blob(b"data"))
    await lab.let_pass(50_000)
    assert await lab.store.collect() == 0
    await lab.let_pass(20_000)
    assert await lab.store.collect() == 1


@timed("a blob that is written again is young again, though it was there")
async def _young_again(lab: StoreLab) -> None:
    await write(lab.store, blob(b"data"))
    await lab.let_pass(LONG_MS)
    await write(lab.store, blob(b"data"))
    assert await lab.store.collect() == 0
    await put(lab.store, file(blob=name_of(b"data")))
    assert await lab.store.blob(name_of(b"data")) == b"data"


def _holders(data: bytes) -> list[Row]:
    name = name_of(data)
    others = snapshot("snp_b", image=name_of(b"image"), blobs=(name_of(b"file"), name))
    return [session(image=name), cell(image=name), snapshot(image=name), others, file(blob=name), attachment(data)]


@timed("a blob stays as long as a row refers to it, in whichever table")
async def _held(lab: StoreLab) -> None:
    data = b"data"
    for row in _holders(data):
        await write(lab.store, blob(data), Put(row))
        await lab.let_pass(LONG_MS)
        assert await lab.store.collect() == 0, row
        assert await lab.store.blob(name_of(data)) == data
        await write(lab.store, Drop(TABLE_OF[type(row)], key_of(row)))
        assert await lab.store.collect() == 1, row
        assert await lab.store.blob(name_of(data)) is None


@timed("a blob goes when the last row that refers to it is gone, and not before")
async def _last(lab: StoreLab) -> None:
    data = b"data"
    rows = _holders(data)
    await write(lab.store, blob(data), *(Put(row) for row in rows))
    await lab.let_pass(LONG_MS)
    for row in reversed(rows):
        assert await lab.store.collect() == 0
        await write(lab.store, Drop(TABLE_OF[type(row)], key_of(row)))
    assert await lab.store.collect() == 1


@timed("a row that is written over lets go of what it referred to")
async def _over(lab: StoreLab) -> None:
    old, new = name_of(b"old"), name_of(b"new")
    changes: list[tuple[Row, Row]] = [
        (session(image=old), session(image=new)),
        (session(image=old), session(image=None)),
        (cell(image=old), cell(image=None)),
        (snapshot(image=old), snapshot(image=new)),
        (snapshot(blobs=(old, new)), snapshot(blobs=(new,))),
        (snapshot(blobs=(old,)), snapshot()),
        (file(blob=old), file(blob=new)),
    ]
    for before, after in changes:
        await write(lab.store, blob(b"old"), blob(b"new"), Put(before))
        await put(lab.store, after)
        await lab.let_pass(LONG_MS)
        await lab.store.collect()
        assert await lab.store.blob(old) is None, after
        await write(lab.store, Drop(TABLE_OF[type(after)], key_of(after)))


@timed("what a dropped session alone referred to is collected, and what it shared with another is not")
async def _dropped(lab: StoreLab) -> None:
    shared = [Put(row) for row in one_of_each("ses_b")]
    alone: list[Any] = [blob(b"alone"), Put(cell("cel_x", image=name_of(b"alone")))]
    await write(lab.store, *BLOBS, *alone, *shared, *(Put(row) for row in one_of_each("ses_a")))
    await lab.let_pass(LONG_MS)
    await write(lab.store, Drop("sessions", ("ses_a",)))
    assert await lab.store.collect() == 1
    for one in BLOBS:
        assert await lab.store.blob(one.name) == one.data


@timed("a refused batch refers to nothing")
async def _refused(lab: StoreLab) -> None:
    await write(lab.store, blob(b"data"))
    answer = write(lab.store, Put(file(blob=name_of(b"data"))), Put(file("a\x00")))
    try:
        await answer
    except ValueError:
        pass
    await lab.let_pass(LONG_MS)
    assert await lab.store.collect() == 1


# -- upkeep ---------------------------------------------------------------------------------------------------------


async def _fill(lab: StoreLab) -> dict[str, list[Row]]:
    rows = [row for place, doc in enumerate(HARD) for row in one_of_each(f"ses_{place}", doc)]
    await write(lab.store, *BLOBS, *(Put(row) for row in rows))
    await append(lab.store, 5)
    return await everything(lab.store)


@chapter("nothing is wrong with a store that is sound")
async def _sound(lab: StoreLab) -> None:
    assert list(await lab.store.check()) == []
    await _fill(lab)
    await write(lab.store, Drop("sessions", ("ses_0",)), blob(b"nobody's"))
    await lab.store.prune(keep_events=1)
    assert list(await lab.store.check()) == []


@chapter("a check names the blob that a row refers to and that is not there")
async def _missing(lab: StoreLab) -> None:
    await put(lab.store, file("/lost", blob=name_of(b"lost")))
    wrong = await lab.store.check()
    assert any(name_of(b"lost") in words for words in wrong), wrong


@chapter("a check names the blob that a snapshot keeps and that is not there")
async def _missing_of_snapshot(lab: StoreLab) -> None:
    await write(lab.store, *BLOBS, Put(snapshot("snp_1", blobs=(name_of(b"file"), name_of(b"lost")))))
    wrong = await lab.store.check()
    assert any(name_of(b"lost") in words for words in wrong), wrong
    assert not any(name_of(b"file") in words for words in wrong), wrong


@chapter("giving room back keeps everything")
async def _vacuum(lab: StoreLab) -> None:
    before = await _fill(lab)
    await append(lab.store, 200, "ses_gone", doc={"text": "x" * 1000})
    last = (await append(lab.store))[0]
    for row in (await lab.store.events(session_id="ses_gone"))[:100]:
        await write(lab.store, Drop("events", (row.seq,)))
    kept = await scanned(lab.store, "events")
    await lab.store.vacuum()
    after = await everything(lab.store)
    assert after.pop("events") == kept
    assert after == {table: before[table] for table in KEYS if table != "events"}
    for one in BLOBS:
        assert await lab.store.blob(one.name) == one.data
    assert min(await append(lab.store)) > last
