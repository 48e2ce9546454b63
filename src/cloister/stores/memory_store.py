"""A store in memory: for tests, as the model of all others, and for `durability="none"`. It is gone with its process.

A batch is applied within the call of `write`, so what is returned is done already. Several stores with the same
`MemoryData` are handles on the same data; they belong to one event loop.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from cloister.core.errors import CloisterError, StoreUnavailable
from cloister.ports.clock import Clock, SystemClock
from cloister.ports.journal import Entry
from cloister.ports.rows import (
    ApprovalRow,
    AttachmentRow,
    Batch,
    CellRow,
    Claim,
    EventRow,
    FileRow,
    Row,
    SecretRow,
    SessionRow,
    SnapshotRow,
    Table,
    ValueRow,
)
from cloister.stores.memory_data import MemoryData
from cloister.stores.memory_tables import MemoryTable, one, some, thaw
from cloister.stores.memory_threads import MemoryThreads
from cloister.stores.rules import check_key


class MemoryStore(MemoryThreads):
    def __init__(self, clock: Clock | None = None, data: MemoryData | None = None) -> None:
        self._clock = clock or SystemClock()
        self._held = data or MemoryData()
        self._is_open = False

    @property
    def url(self) -> str:
        return "memory:store"

    async def __aenter__(self) -> "MemoryStore":
        self._is_open = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._is_open = False
        self._held.wake()

    @property
    def _data(self) -> MemoryData:
        if not self._is_open:
            raise StoreUnavailable("the store is not open", hint="use it within `async with`")
        return self._held

    def _now(self) -> float:
        # A wall clock that is set back must not make an owner's time longer.
        return self._clock.monotonic() * 1000

    # -- writing ----------------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> Awaitable[tuple[int, ...]]:
        answer: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        try:
            answer.set_result(self._data.write(batch, self._now()))
        except CloisterError as refusal:
            # One that nobody awaits is logged by asyncio.
            answer.set_exception(refusal)
        return answer

    # -- reading ----------------------------------------------------------------------------------------------------

    async def session(self, session_id: str) -> SessionRow | None:
        return one(self._data.sessions, session_id)

    async def sessions(
        self, *, tenant: str | None = None, after: str | None = None, limit: int = 1000
    ) -> Sequence[SessionRow]:
        rows = self._data.sessions.pages(_key(after))
        return some((held for held in rows if tenant is None or held.bare.tenant == tenant), limit)

    async def cell(self, cell_id: str) -> CellRow | None:
        return one(self._data.cells, cell_id)

    async def cells(
        self,
        session_id: str | None = None,
        *,
        live: bool | None = None,
        operation_key: str | None = None,
        after: str | None = None,
        limit: int = 10_000,
    ) -> Sequence[CellRow]:
        wanted = (
            held
            for held in self._data.cells.pages(_key(after), session_id=session_id)
            if (live is None or held.bare.live == live)
            and (operation_key is None or held.bare.operation_key == operation_key)
        )
        return some(wanted, limit)

    async def call(self, key: str) -> Entry | None:
        return one(self._data.calls, key)

    async def calls(self, cell_id: str) -> Sequence[Entry]:
        table = self._data.calls
        entries = [held for key in table.keys_of("cell", cell_id) if (held := table.get(key)) is not None]
        return [thaw(held) for held in sorted(entries, key=lambda held: held.bare.intent.number)]

    async def approval(self, approval_id: str) -> ApprovalRow | None:
        return one(self._data.approvals, approval_id)

    async def approvals(
        self,
        *,
        session_id: str | None = None,
        tenant: str | None = None,
        state: str | None = None,
        after: str | None = None,
        limit: int = 1000,
    ) -> Sequence[ApprovalRow]:
        rows = self._data.approvals.pages(_key(after), session_id=session_id)
        wanted = (held for held in rows if state is None or held.bare.state == state)
        return some((held for held in wanted if tenant is None or self._tenant(held.bare) == tenant), limit)

    def _tenant(self, row: ApprovalRow) -> str | None:
        held = self._data.sessions.get((row.session_id,))
        return None if held is None else held.bare.tenant

    async def snapshots(self, session_id: str) -> Sequence[SnapshotRow]:
        return some(self._data.snapshots.pages(session_id=session_id))

    async def events(
        self, *, session_id: str | None = None, thread_id: str | None = None, since: int = 0, limit: int = 1000
    ) -> Sequence[EventRow]:
        rows = self._data.events.pages((since,), session_id=session_id, thread_id=thread_id)
        both = session_id is not None and thread_id is not None
        return some((held for held in rows if not both or held.bare.session_id == session_id), limit)

    async def last_event(
        self, *, session_id: str | None = None, thread_id: str | None = None, upto: int | None = None
    ) -> int:
        if session_id is None and thread_id is None and upto is None:
            return self._data.last_event()
        rows = self._data.events.pages(session_id=session_id, thread_id=thread_id)
        return max((held.bare.seq for held in rows if upto is None or held.bare.seq <= upto), default=0)

    async def wait_for_events(self, since: int, timeout_ms: int) -> bool:
        if self._data.last_event() <= since and timeout_ms > 0:
            await self._new_events(since, timeout_ms / 1000)
        return self._data.last_event() > since

    async def _new_events(self, since: int, timeout: float) -> None:
        time_up = asyncio.ensure_future(self._clock.sleep(timeout))
        try:
            while self._data.last_event() <= since and not time_up.done():
                woken = self._data.next_wake()
                try:
                    await asyncio.wait((woken, time_up), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    woken.cancel()
        finally:
            time_up.cancel()

    async def values(self, session_id: str) -> Sequence[ValueRow]:
        return some(self._data.values.pages(session_id=session_id))

    async def files(self, session_id: str) -> Sequence[FileRow]:
        return some(self._data.files.pages(session_id=session_id))

    async def secrets(self, session_id: str) -> Sequence[SecretRow]:
        return some(self._data.secrets.pages(session_id=session_id))

    async def attachments(self, session_id: str) -> Sequence[AttachmentRow]:
        return some(self._data.attachments.pages(session_id=session_id))

    async def blob(self, name: str) -> bytes | None:
        return self._data.blob(name)

    async def scan(
        self, table: Table, *, after: tuple[str | int, ...] | None = None, limit: int = 1000
    ) -> Sequence[Row]:
        rows: MemoryTable[Any] = self._data.table(table)
        return some(rows.pages(after), limit)

    # -- owners -----------------------------------------------------------------------------------------------------

    async def join(self, owner: str, ttl_ms: int) -> None:
        check_key(owner, "the name of an owner")
        self._data.join(owner, self._now() + ttl_ms)

    async def claim(self, owner: str, session_ids: Sequence[str] | None = None) -> Sequence[Claim]:
        check_key(owner, "the name of an owner")
        return self._data.claim(owner, session_ids, self._now())

    async def release(self, owner: str, session_ids: Sequence[str] | None = None) -> None:
        self._data.release(owner, session_ids)

    async def owners(self) -> Sequence[str]:
        return self._data.owners(self._now())

    async def orphans(self, *, limit: int = 1000) -> Sequence[str]:
        return self._data.orphans(self._now())[:limit]

    # -- upkeep -----------------------------------------------------------------------------------------------------

    async def prune(self, *, events_before_ms: int | None = None, keep_events: int | None = None) -> int:
        return self._data.prune(events_before_ms, keep_events)

    async def collect(self) -> int:
        return self._data.collect(self._now())

    async def check(self) -> Sequence[str]:
        return self._data.check()

    async def vacuum(self) -> None:
        """Memory gives back what it does not need by itself."""
        _ = self._data


def _key(name: str | None) -> tuple[str] | None:
    return None if name is None else (name,)
