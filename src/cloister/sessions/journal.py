"""The journal over a store: intents and settlements are rows there, written under the fence of their session.

A read that may be made again need not be on record before it is made: its intent shares a commit with whatever comes
next, at the latest with its own settlement. Every other intent is safe before the tool is called.
"""

from cloister.core.capability import SideEffect
from cloister.ports.journal import Entry, Intent, Settled
from cloister.ports.rows import Batch, Intend, Settle
from cloister.ports.store import Store
from cloister.sessions.fences import Fences

_HARMLESS = frozenset({SideEffect.NONE, SideEffect.READ})


class StoreJournal:
    remembers_all = True

    def __init__(self, store: Store, fences: Fences) -> None:
        self._store = store
        self._fences = fences
        # The session of each call that is under way: a settlement does not say whose it is.
        self._sessions: dict[str, str] = {}

    async def intend(self, intent: Intent) -> None:
        fence = self._fences.get(intent.session_id)
        written = self._store.write(Batch((Intend(intent),), fence))
        self._sessions[intent.key] = intent.session_id
        if not (intent.idempotent and intent.side_effect in _HARMLESS):
            await written

    async def settle(self, settled: Settled) -> None:
        fence = self._fences.get(self._sessions.pop(settled.key, ""))
        await self._store.write(Batch((Settle(settled),), fence))

    async def look_up(self, key: str) -> Entry | None:
        return await self._store.call(key)

    async def of_cell(self, cell_id: str) -> list[Entry]:
        return list(await self._store.calls(cell_id))
