"""A session that is ours for a moment, so that nobody else changes it meanwhile."""

import asyncio
import difflib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cloister.core.errors import SessionExists, SessionNotFound
from cloister.core.ids import check_session_id
from cloister.ports.rows import Batch, Claim, SessionRow, Write
from cloister.ports.store import Store
from cloister.sessions.owner import is_dead, new_owner, process_of

_HOLD_MS = 30_000
_NEAR = 1000


@dataclass(frozen=True, slots=True)
class Claimed:
    store: Store
    claim: Claim

    @property
    def row(self) -> SessionRow:
        return self.claim.row

    async def write(self, writes: Sequence[Write]) -> None:
        await self.store.write(Batch(tuple(writes), self.claim.fence))


async def found(store: Store, session_id: str) -> SessionRow:
    """The session's row. Raises `SessionNotFound`."""
    row = await store.session(check_session_id(session_id))
    if row is None:
        near = difflib.get_close_matches(session_id, [one.id for one in await store.sessions(limit=_NEAR)], n=1)
        hint = f"did you mean {near[0]!r}?" if near else "cloister session list shows those that are"
        raise SessionNotFound(f"there is no session {session_id!r} in {store.url}", hint=hint)
    return row


@asynccontextmanager
async def claimed(store: Store, session_id: str) -> AsyncGenerator[Claimed, None]:
    """The session, ours until the block ends. Raises `SessionNotFound`; or `SessionExists`, naming who has it."""
    await found(store, session_id)
    for other in await store.owners():
        if is_dead(other):
            await store.release(other)
    owner = new_owner()
    await store.join(owner, _HOLD_MS)
    try:
        claims = await store.claim(owner, [session_id])
        if not claims:
            raise SessionExists(
                f"session {session_id!r} is open in {await others(store, owner)}",
                hint="do it there, or close it there first; what only reads works meanwhile",
            )
        yield Claimed(store, claims[0])
    finally:
        await asyncio.shield(store.release(owner))


async def others(store: Store, ours: str | None = None) -> str:
    """Who may have a session, for people: a store does not say which of its owners has it."""
    names = [process_of(owner) for owner in await store.owners() if owner != ours]
    if len(names) == 1:
        return names[0]
    return f"one of {', '.join(names)}" if names else "another process"
