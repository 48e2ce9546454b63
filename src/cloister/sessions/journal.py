"""The journal over a store: intents and settlements are rows there, written under the fence of their session.

A read that may be made again need not be on record before it is made, nor before its program goes on: its intent and
its settlement share a commit with whatever comes next. Nothing that happens after it is on record without it. Every
other intent is safe before the tool is called, and every other settlement before anybody sees it.
"""

from cloister.core.capability import HARMLESS
from cloister.ports.journal import Entry, Intent, Settled
from cloister.ports.rows import Intend, Settle
from cloister.ports.store import Store
from cloister.sessions.ink import Ink


class StoreJournal:
    remembers_all = True

    def __init__(self, store: Store, ink: Ink) -> None:
        self._store = store
        self._ink = ink
        # The session and cell of each call that is under way: a settlement does not say whose it is.
        self._under_way: dict[str, tuple[str, str]] = {}

    async def intend(self, intent: Intent) -> None:
        self._under_way[intent.key] = (intent.session_id, intent.cell_id)
        if intent.idempotent and intent.side_effect in HARMLESS:
            self._ink.hold(intent.session_id, Intend(intent))
        else:
            await self._ink.write_after(intent.session_id, intent.cell_id, Intend(intent))

    async def settle(self, settled: Settled) -> None:
        session_id, _ = self._under_way.pop(settled.key, ("", ""))
        await self._ink.write(session_id, Settle(settled))

    async def settle_soon(self, settled: Settled) -> None:
        session_id, cell_id = self._under_way.pop(settled.key, ("", ""))
        await self._ink.go_ahead(session_id, cell_id, Settle(settled))

    async def look_up(self, key: str) -> Entry | None:
        await self._ink.catch_up(key.rpartition("/")[0])
        return await self._store.call(key)

    async def of_cell(self, cell_id: str) -> list[Entry]:
        await self._ink.catch_up(cell_id)
        return list(await self._store.calls(cell_id))
