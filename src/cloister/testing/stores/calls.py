"""Calls: the rules of the journal, which a store keeps as a journal does. The journal's own suite, through a store."""

from collections.abc import Awaitable, Callable

from cloister.core.call import CallStatus
from cloister.core.value import Json
from cloister.ports.journal import Entry, Intent, Journal, Settled
from cloister.ports.rows import Batch, Drop, Intend, Settle
from cloister.ports.store import Store
from cloister.testing.behaviour import Behaviour, Chapter
from cloister.testing.journal import BEHAVIOURS as OF_JOURNALS
from cloister.testing.stores.lab import HARD, StoreLab, intent, same, settlement, write

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
