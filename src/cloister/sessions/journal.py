"""The journal over a store: intents and settlements are rows there, written under the fence of their session.

A read that may be made again need not be on record before it is made: its intent shares a commit with whatever comes
next, at the latest with its own settlement. Every other intent is safe before the tool is called.
"""

from cloister.core.capability import SideEffect
from cloister.ports.journal import Entry, Intent, Settled
from cloister.ports.rows import Intend, Settle
from cloister.ports.store import Store
from cloister.sessions.ink import Ink

_HARMLESS = frozenset({SideEffect.NONE, SideEffect.READ})


class StoreJournal:
    remembers_all = True

    def __init__(self, store: Store, ink: Ink) -> None:
        self._store = store
        self._ink = ink
        # The session of each call that is under way: a settlement does not say whose it is.
        self._sessions: dict[str, str] = {}

    async def intend(self, intent: Intent) -> None:
        self._sessions[intent.key] = intent.session_id
        if intent.idempotent and intent.side_effect in _HARMLESS:
            self._ink.hold(intent.session_id, Intend(intent))
        else:
            await self._ink.write(intent.session_id, Intend(intent))

    async def settle(self, settled: Settled) -> None:
        await self._ink.write(self._sessions.pop(settled.key, ""), Settle(settled))

    async def look_up(self, key: str) -> Entry | None:
        return await self._store.call(key)

    async def of_cell(self, cell_id: str) -> list[Entry]:
        return list(await self._store.calls(cell_id))
