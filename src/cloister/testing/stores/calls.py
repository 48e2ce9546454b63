"""Calls: the rules of the journal, which a store keeps as a journal does. The journal's own suite, through a store."""

import asyncio
from collections.abc import Awaitable, Callable

from cloister.core.call import CallStatus
from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.ports.journal import Entry, Intent, Journal, Settled
from cloister.ports.rows import Append, Batch, Drop, Intend, Put, Settle, Write
from cloister.ports.store import Store
from cloister.testing.behaviour import Behaviour, Chapter
from cloister.testing.journal import BEHAVIOURS as OF_JOURNALS
from cloister.testing.stores.lab import (
    HARD,
    NOW_MS,
    StoreLab,
    blob,
    intent,
    name_of,
    refused,
    same,
    settlement,
    snapshot,
    write,
)

chapter = Chapter[StoreLab]()

# Tried here with other values: a store refuses half a surrogate pair, which a journal may keep.
_OTHERWISE = "arguments and values come back equal and of the same types, whatever JSON they are"


class StoreJournal:
    """A store, seen as a journal."""

    remembers_all = True

    def __init__(self, store: Store) -> None:
        self._store = store

    async def intend(self, intent: Intent) -> None:
        await self._store.write(Batch((Intend(intent),)))

    async def settle(self, settled: Settled) -> None:
        await self._store.write(Batch((Settle(settled),)))

    async def settle_soon(self, settled: Settled) -> None:
        await self.settle(settled)

    async def look_up(self, key: str) -> Entry | None:
        return await self._store.call(key)

    async def of_cell(self, cell_id: str) -> list[Entry]:
        return list(await self._store.calls(cell_id))


def _through_a_store(behaviour: Behaviour[Journal]) -> Callable[[StoreLab], Awaitable[None]]:
    async def check(lab: StoreLab) -> None:
        await behaviour.check(StoreJournal(lab.store))

    return check


assert _OTHERWISE in {behaviour.sentence for behaviour in OF_JOURNALS}
for _behaviour in OF_JOURNALS:
    if _behaviour.sentence != _OTHERWISE:
        chapter(f"as in a journal, {_behaviour.sentence}")(_through_a_store(_behaviour))


@chapter("arguments and values of calls come back as they were, whatever JSON they are")
async def _round_trip(lab: StoreLab) -> None:
    plain: list[Json] = [None, False, 0, -0.0, "", "\x00", []]
    for number, value in enumerate([*HARD, *plain]):
        await write(lab.store, Intend(intent(number, arguments=value)), Settle(settlement(number, value=value)))
        same(
            await lab.store.call(f"cel_a/{number}"),
            Entry(intent(number, arguments=value), settlement(number, value=value)),
        )


@chapter("a call that was dropped is as if it had never been")
async def _dropped(lab: StoreLab) -> None:
    await write(lab.store, Intend(intent(idempotent=False)), Settle(settlement()))
    await write(lab.store, Drop("calls", ("cel_a/1",)))
    assert list(await lab.store.calls("cel_a")) == []
    await write(lab.store, Intend(intent(idempotent=False)))
    assert await lab.store.call("cel_a/1") == Entry(intent(idempotent=False))


@chapter("an attempt takes an unknown end away within the batch that makes it")
async def _attempt(lab: StoreLab) -> None:
    unknown = settlement(status=CallStatus.UNKNOWN, value=None)
    await write(lab.store, Intend(intent()), Settle(unknown), Intend(intent()), Settle(settlement()))
    assert await lab.store.call("cel_a/1") == Entry(intent(), settlement(), attempts=2)


def _waits(count: int, first: int = 1) -> list[Write]:
    """What a program leaves that reads one thing after the other."""
    writes: list[Write] = []
    for number in range(first, first + count):
        image = b"image %d" % number
        writes += [blob(image), Put(snapshot(f"snp_{number:03}", image=name_of(image), call_number=number))]
        writes += [Intend(intent(number)), Settle(settlement(number)), Append("ses_a", f"call {number}", NOW_MS)]
    return writes


@chapter("many calls, snapshots, blobs and events of one batch are all there, the events in their order")
async def _many(lab: StoreLab) -> None:
    numbers = await write(lab.store, *_waits(37))
    assert list(numbers) == sorted(set(numbers))
    assert len(numbers) == 37
    assert [row.kind for row in await lab.store.events()] == [f"call {number}" for number in range(1, 38)]
    assert list(await lab.store.calls("cel_a")) == [Entry(intent(n), settlement(n)) for n in range(1, 38)]
    assert [row.call_number for row in await lab.store.snapshots("ses_a")] == list(range(1, 38))
    for number in range(1, 38):
        assert await lab.store.blob(name_of(b"image %d" % number)) == b"image %d" % number
    # Some of them are there already, and some twice.
    again = [blob(b"image 3"), blob(b"new"), blob(b"new"), blob(b"image 4")]
    await write(lab.store, *again)
    assert await lab.store.blob(name_of(b"new")) == b"new"
    assert await lab.store.check() == []


@chapter("a batch of many calls is refused whole if one of them was settled before, and those beside it are written")
async def _one_of_many(lab: StoreLab) -> None:
    await write(lab.store, Intend(intent(12)), Settle(settlement(12)))
    before = lab.store.write(Batch(tuple(_waits(3, 100))))
    refusing = asyncio.ensure_future(refused(InvalidInput, lab.store, *_waits(20)))
    after = lab.store.write(Batch(tuple(_waits(3, 200))))
    assert len(await before) == len(await after) == 3
    await refusing
    numbers = [entry.intent.number for entry in await lab.store.calls("cel_a")]
    assert numbers == [12, 100, 101, 102, 200, 201, 202]
    assert [row.call_number for row in await lab.store.snapshots("ses_a")] == [100, 101, 102, 200, 201, 202]


@chapter("an end that comes before its intent, or a second one, refuses a batch however much is in it")
async def _out_of_order(lab: StoreLab) -> None:
    await refused(InvalidInput, lab.store, Settle(settlement(50)), Intend(intent(50)), *_waits(5))
    await refused(InvalidInput, lab.store, *_waits(5), Settle(settlement(3)))
    await refused(InvalidInput, lab.store, *_waits(5), Intend(intent(3)))
    await write(lab.store, Intend(intent(50)), Intend(intent(50)), *_waits(5), Settle(settlement(50)))
    assert await lab.store.call("cel_a/50") == Entry(intent(50), settlement(50), attempts=2)
