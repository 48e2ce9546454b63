"""The ledger: a host's store, and its right to write to the sessions in it.

A host joins the store as an owner and stays one as long as it renews that. When it cannot, its time runs out, another
may claim its sessions, and every write of this one is refused from then on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from weakref import WeakSet

from cloister.core.durability import Durability
from cloister.core.errors import StoreConflict, StoreError
from cloister.core.ids import IdSource
from cloister.ports.clock import Clock
from cloister.ports.rows import Append, Batch, Claim, Drop, EventRow, MoveHead, SessionRow, Write
from cloister.ports.store import Store
from cloister.ports.telemetry import Telemetry
from cloister.sessions.events import EventLog
from cloister.sessions.fences import Fences
from cloister.sessions.ink import Ink
from cloister.sessions.keeper import Keeper
from cloister.sessions.owner import is_dead, new_owner
from cloister.sessions.tail import EventTail

log = logging.getLogger("cloister.sessions")
LEASE_MS = 30_000


class Ledger:
    def __init__(
        self,
        store: Store,
        durability: Durability,
        clock: Clock,
        ids: IdSource,
        lease_ms: int = LEASE_MS,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.store = store
        # Is shown what conversations write down; what cells tell goes another way.
        self.telemetry = telemetry
        self._ids = ids
        self.fences = Fences()
        self.ink = Ink(store, self.fences)
        self.durability = durability
        self._owner = new_owner()
        self._clock = clock
        self.lease_ms = lease_ms
        self._tails: WeakSet[EventTail] = WeakSet()
        self._levels: dict[str, Durability] = {}
        self._renewing: asyncio.Task[None] | None = None
        # The host is going: what has not ended stays as it was written down.
        self.leaving = False
        self._going: set[asyncio.Future[None]] = set()

    async def open(self) -> None:
        await self.store.__aenter__()
        await self.store.join(self._owner, self.lease_ms)
        await self.bury()
        self._renewing = asyncio.get_running_loop().create_task(self._renew())

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        for tail in list(self._tails):
            tail.end()
        self.ink.release_all()
        if self._going:
            await asyncio.wait(self._going)
        try:
            await self.store.release(self._owner)
        except StoreError as error:
            log.warning("the store could not be told that this host is gone: %s", error)
        finally:
            await self.store.__aexit__(None, None, None)

    async def bury(self) -> None:
        """Let go what was held by processes that are known to have ended."""
        for owner in await self.store.owners():
            if owner != self._owner and is_dead(owner):
                await self.store.release(owner)

    async def claim(self, session_ids: Sequence[str]) -> Sequence[Claim]:
        """Those of them that are ours now."""
        claims = await self.store.claim(self._owner, session_ids)
        for claim in claims:
            self.fences.hold(claim.fence)
        return claims

    async def enter(self, session_id: str, writes: Sequence[Write]) -> bool:
        """A new session with what it begins with; False if another owner has one of that id."""
        try:
            # A session that is there already has a head above 0, and then nothing of this is written.
            await self.store.write(Batch((*writes, MoveHead(session_id, 0))))
        except StoreConflict:
            return False
        return bool(await self.claim([session_id]))

    def keeps_calls(self, session_id: str) -> bool:
        """Of a session that is owned, whether what happens within its cells is written down."""
        return self._levels.get(session_id) is not Durability.CELL

    def let_go(self, session_id: str) -> None:
        """The session was closed: whoever wants it may have it."""
        self.ink.let_go(session_id)
        self.fences.drop(session_id)
        self._levels.pop(session_id, None)
        going = asyncio.ensure_future(self._release(session_id))
        self._going.add(going)
        going.add_done_callback(self._going.discard)

    async def _release(self, session_id: str) -> None:
        try:
            await self.store.release(self._owner, [session_id])
        except StoreError as error:
            log.warning("session %s could not be let go: %s", session_id, error)

    async def destroy(self, session_id: str) -> bool:
        """Forget all of a session; False if there is none, or it is another's."""
        if self._going:
            await asyncio.wait(self._going)
        claims = await self.claim([session_id])
        if not claims:
            return False
        await self.store.write(Batch((Drop("sessions", (session_id,)),), claims[0].fence))
        self.fences.drop(session_id)
        return True

    def event_log(self) -> EventLog:
        return EventLog(self._append, self._write, self._events, self.ink.send_along)

    def tail(self, since: int) -> EventTail:
        """The events of all sessions; it ends when the ledger is closed."""
        tail = EventTail(self.store, since)
        self._tails.add(tail)
        return tail

    async def _append(self, events: Sequence[Append], hurried: bool) -> Sequence[int | None]:
        """Each session's own under its own fence, all of them in one go. Their numbers; None for what was refused."""
        by_session: dict[str, list[int]] = {}
        for place, event in enumerate(events):
            by_session.setdefault(event.session_id, []).append(place)
        writes = [
            (places, self.ink.along(session_id, *(events[place] for place in places)))
            for session_id, places in by_session.items()
        ]
        if hurried:
            self.ink.send_along()
        numbers: list[int | None] = [None] * len(events)
        for places, sent in writes:
            try:
                for place, seq in zip(places, await (await sent), strict=True):
                    numbers[place] = seq
            except StoreError as error:
                log.error("%d events of %s were not written down: %s", len(places), events[places[0]].session_id, error)
        return numbers

    def _write(self, session_id: str, writes: Sequence[Write]) -> Awaitable[tuple[int, ...]]:
        self.ink.send_along()
        return self.ink.write(session_id, *writes)

    async def _events(self, session_id: str, since: int, limit: int) -> Sequence[EventRow]:
        return await self.store.events(session_id=session_id, since=since, limit=limit)

    def keeper(self, session_id: str, durability: Durability, kept: SessionRow | None = None) -> Keeper | None:
        if durability is Durability.NONE:
            return None
        self._levels[session_id] = durability
        return Keeper(self.store, self.ink, session_id, durability, self._clock, self._ids, kept)

    async def _renew(self) -> None:
        while True:
            await self._clock.sleep(self.lease_ms / 3000)
            try:
                await self.store.join(self._owner, self.lease_ms)
            except StoreError as error:
                # If it stays so, others take over; their fences are newer than ours.
                log.warning("this host could not renew its hold on the store: %s", error)
