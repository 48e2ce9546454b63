"""The store itself: the port's reads in SQL, everything else handed to those who do it."""

from collections.abc import Awaitable, Sequence
from typing import Any

from cloister.core.errors import InvalidInput, StoreUnavailable
from cloister.ports.clock import Clock
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
from cloister.stores.postgres.address import Address
from cloister.stores.postgres.bell import Bell
from cloister.stores.postgres.columns import SHAPES
from cloister.stores.postgres.owners import Owners
from cloister.stores.postgres.readers import Readers
from cloister.stores.postgres.schema import bring_up_to_date
from cloister.stores.postgres.threads import PostgresThreads, equals, where
from cloister.stores.postgres.upkeep import Upkeep
from cloister.stores.postgres.writer import Writer
from cloister.stores.rules import check_key, check_row_key


class PostgresStore(PostgresThreads):
    """`url` is `postgresql://user:password@host:port/database`; all is in one `schema` of that database, which is made
    if it is not there. With a `clock`, owners and young blobs go by it; otherwise by the server's.

    A write is safe when the server's `synchronous_commit` says so: with `?options=-c synchronous_commit=off` in the
    URL the last moments may be lost when the machine fails, as that was asked for.
    """

    def __init__(self, url: str, *, schema: str = "cloister", clock: Clock | None = None) -> None:
        self._address = Address(url, schema)
        self._bell = Bell(self._address)
        self._readers = Readers(self._address)
        self._writer = Writer(self._address, clock, self._bell.ring)
        self._owners = Owners(self._readers, self._writer, clock)
        self._upkeep = Upkeep(self._address, self._readers, self._writer, clock)
        self._opened = False

    def __repr__(self) -> str:
        return f"PostgresStore({self.url!r}, schema={self._address.schema!r})"

    @property
    def url(self) -> str:
        return self._address.url

    async def __aenter__(self) -> "PostgresStore":
        if self._opened:
            raise StoreUnavailable("a store is opened once: make another")
        self._opened = True
        await self._writer.open(lambda connection: bring_up_to_date(connection, self._address))
        self._readers.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            await self._writer.close()
        finally:
            await self._bell.close()
            await self._readers.close()

    def write(self, batch: Batch) -> Awaitable[tuple[int, ...]]:
        return self._writer.write(batch)

    # -- reading -----------------------------------------------------------------------------------------------------

    async def session(self, session_id: str) -> SessionRow | None:
        return await self._one("sessions", session_id)

    async def sessions(
        self, *, tenant: str | None = None, after: str | None = None, limit: int = 1000
    ) -> Sequence[SessionRow]:
        return await self._many("sessions", after=_after(after), limit=limit, tenant=tenant)

    async def cell(self, cell_id: str) -> CellRow | None:
        return await self._one("cells", cell_id)

    async def cells(
        self,
        session_id: str | None = None,
        *,
        live: bool | None = None,
        operation_key: str | None = None,
        after: str | None = None,
        limit: int = 10_000,
    ) -> Sequence[CellRow]:
        # As a literal, so that the index of the live ones is used.
        condition = "" if live is None else "live" if live else "NOT live"
        return await self._many(
            "cells",
            condition=condition,
            after=_after(after),
            limit=limit,
            session_id=session_id,
            operation_key=operation_key,
        )

    async def call(self, key: str) -> Entry | None:
        return await self._one("calls", key)

    async def calls(self, cell_id: str) -> Sequence[Entry]:
        return await self._many("calls", order="number, key", cell_id=cell_id)

    async def approval(self, approval_id: str) -> ApprovalRow | None:
        return await self._one("approvals", approval_id)

    async def approvals(
        self,
        *,
        session_id: str | None = None,
        tenant: str | None = None,
        state: str | None = None,
        after: str | None = None,
        limit: int = 1000,
    ) -> Sequence[ApprovalRow]:
        more = None if tenant is None else ("session_id IN (SELECT id FROM sessions WHERE tenant = %b)", tenant)
        return await self._many(
            "approvals", after=_after(after), limit=limit, more=more, session_id=session_id, state=state
        )

    async def snapshots(self, session_id: str) -> Sequence[SnapshotRow]:
        return await self._many("snapshots", session_id=session_id)

    async def events(
        self, *, session_id: str | None = None, thread_id: str | None = None, since: int = 0, limit: int = 1000
    ) -> Sequence[EventRow]:
        return await self._many("events", after=(since,), limit=limit, session_id=session_id, thread_id=thread_id)

    async def last_event(
        self, *, session_id: str | None = None, thread_id: str | None = None, upto: int | None = None
    ) -> int:
        conditions, parameters = equals(session_id=session_id, thread_id=thread_id)
        if upto is not None:
            conditions.append("seq <= %b")
            parameters.append(upto)
        query = f"SELECT coalesce(max(seq), 0) FROM events{where(conditions)}"  # noqa: S608 - names of ours
        [(last,)] = await self._readers.fetch(query, parameters)
        return last

    async def wait_for_events(self, since: int, timeout_ms: int) -> bool:
        if self._bell.last > since:
            self._readers.check_open()
            return True
        [(there,)] = await self._readers.fetch("SELECT EXISTS (SELECT 1 FROM events WHERE seq > %b)", (since,))
        if there or timeout_ms <= 0:
            return there
        return await self._bell.wait(since, timeout_ms / 1000)

    async def values(self, session_id: str) -> Sequence[ValueRow]:
        return await self._many("values", session_id=session_id)

    async def files(self, session_id: str) -> Sequence[FileRow]:
        return await self._many("files", session_id=session_id)

    async def secrets(self, session_id: str) -> Sequence[SecretRow]:
        return await self._many("secrets", session_id=session_id)

    async def attachments(self, session_id: str) -> Sequence[AttachmentRow]:
        return await self._many("attachments", session_id=session_id)

    async def blob(self, name: str) -> bytes | None:
        check_key(name, "name")
        rows = await self._readers.fetch("SELECT data FROM blob_parts WHERE name = %b ORDER BY part", (name,))
        return b"".join(part for (part,) in rows) if rows else None

    async def scan(
        self, table: Table, *, after: tuple[str | int, ...] | None = None, limit: int = 1000
    ) -> Sequence[Row]:
        if table not in SHAPES:
            raise InvalidInput(f"there is no table {table!r}: use one of {', '.join(SHAPES)}")
        if after is not None:
            check_row_key(table, after)
        return await self._many(table, after=after, limit=limit)

    # -- owners and upkeep -------------------------------------------------------------------------------------------

    async def join(self, owner: str, ttl_ms: int) -> None:
        await self._owners.join(owner, ttl_ms)

    async def claim(self, owner: str, session_ids: Sequence[str] | None = None) -> Sequence[Claim]:
        return await self._owners.claim(owner, session_ids)

    async def release(self, owner: str, session_ids: Sequence[str] | None = None) -> None:
        await self._owners.release(owner, session_ids)

    async def owners(self) -> Sequence[str]:
        return await self._owners.names()

    async def orphans(self, *, limit: int = 1000) -> Sequence[str]:
        return await self._owners.orphans(limit)

    async def prune(self, *, events_before_ms: int | None = None, keep_events: int | None = None) -> int:
        return await self._upkeep.prune(events_before_ms, keep_events)

    async def collect(self) -> int:
        return await self._upkeep.collect()

    async def check(self) -> Sequence[str]:
        return await self._upkeep.check()

    async def vacuum(self) -> None:
        await self._upkeep.vacuum()

    # -- how rows are read -------------------------------------------------------------------------------------------

    async def _one(self, table: Table, key: str) -> Any:
        column = SHAPES[table].keys[0]
        check_key(key, column)
        query = f"SELECT {SHAPES[table].selected} FROM {table} WHERE {column} = %b"  # noqa: S608 - names of ours
        rows = await self._readers.fetch(query, (key,))
        return SHAPES[table].decode(rows[0]) if rows else None

    async def _many(
        self,
        table: Table,
        *,
        condition: str = "",
        order: str = "",
        after: tuple[str | int, ...] | None = None,
        limit: int | None = None,
        more: tuple[str, Any] | None = None,
        **equal: str | None,
    ) -> list[Any]:
        """Rows in the order of their keys, those that are `equal` in the columns named, behind `after`."""
        shape = SHAPES[table]
        keys = ", ".join(shape.keys)
        conditions, parameters = equals(**equal)
        if condition:
            conditions.append(condition)
        if more is not None:
            conditions.append(more[0])
            parameters.append(more[1])
        if after is not None:
            conditions.append(f"({keys}) > ({', '.join(['%b'] * len(after))})")
            parameters.extend(after)
        query = f"SELECT {shape.selected} FROM {shape.name}{where(conditions)} ORDER BY {order or keys}"  # noqa: S608
        if limit is not None:
            query += " LIMIT %b"
            parameters.append(limit)
        return [shape.decode(row) for row in await self._readers.fetch(query, parameters)]


def _after(key: str | None) -> tuple[str] | None:
    if key is None:
        return None
    check_key(key, "after")
    return (key,)
