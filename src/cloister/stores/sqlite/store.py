"""The store in one SQLite file.

    async with SqliteStore("cloister.db", clock=SystemClock()) as store: ...

`synchronous="full"`, the default, makes every commit wait for the disk: what is acknowledged outlives a power failure.
`"normal"` does not wait: what is acknowledged outlives this process, however it ends, but the last moments before a
power failure may be gone, in whole batches and from the end. Several processes may use one file, each waiting up to
`busy_timeout_ms` for another's commit; they must be on one machine, with the file on a local disk.

All work with the file is done in threads: one writes, a few read. Here it is only handed to them.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import apsw

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
from cloister.stores.rules import check_key
from cloister.stores.sqlite import owners, queries, upkeep
from cloister.stores.sqlite.link import Link
from cloister.stores.sqlite.opening import Synchronous, absolute, connect, open_store
from cloister.stores.sqlite.reader import Readers
from cloister.stores.sqlite.receipt import Receipt
from cloister.stores.sqlite.steps import Hand, steps_of
from cloister.stores.sqlite.threads import SqliteThreads
from cloister.stores.sqlite.trouble import trouble
from cloister.stores.sqlite.watch import Watch, mark_of
from cloister.stores.sqlite.writer import Writer

T = TypeVar("T")

# One for what is long, such as a check, and one for all else meanwhile.
_READERS = 2


@dataclass(frozen=True, slots=True)
class _Open:
    """What there is between `__aenter__` and `__aexit__`."""

    loop: asyncio.AbstractEventLoop
    writer: Writer
    readers: Readers
    watch: Watch


class SqliteStore(SqliteThreads):
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock,
        synchronous: Synchronous = "full",
        busy_timeout_ms: int = 5_000,
    ) -> None:
        if synchronous not in ("full", "normal"):
            raise InvalidInput(f"synchronous must be 'full' or 'normal', not {synchronous!r}")
        self._path = absolute(path)
        self._clock = clock
        self._synchronous: Synchronous = synchronous
        self._busy_timeout_ms = busy_timeout_ms
        self._is_opening = False
        self._open: _Open | None = None

    @property
    def url(self) -> str:
        return f"sqlite://{self._path}"

    async def __aenter__(self) -> "SqliteStore":
        if self._is_opening or self._open is not None:
            raise InvalidInput(f"the store {self._path} is open already")
        self._is_opening = True
        try:
            opening = asyncio.ensure_future(asyncio.to_thread(self._connect))
            try:
                links = await asyncio.shield(opening)
            except asyncio.CancelledError:
                opening.add_done_callback(_close_unused)
                raise
            loop = asyncio.get_running_loop()
            readers = Readers(links[1:], self._path, loop)
            watch = Watch(partial(readers.read, queries.last_event), partial(mark_of, self._path))
            writer = Writer(links[0], self._path, loop, watch.tell)
            self._open = _Open(loop, writer, readers, watch)
        finally:
            self._is_opening = False
        return self

    async def __aexit__(self, *exc: object) -> None:
        opened, self._open = self._open, None
        if opened is None:
            return
        opened.watch.close(self._closed())
        opened.writer.hand_over()
        # Whoever stops waiting for it does not stop it.
        await asyncio.shield(asyncio.to_thread(_close_threads, opened))

    def _connect(self) -> list[Link]:
        """The writer's connection, then the readers'."""
        links = [open_store(self._path, synchronous=self._synchronous, busy_timeout_ms=self._busy_timeout_ms)]
        try:
            for _ in range(_READERS):
                reader = connect(self._path, busy_timeout_ms=self._busy_timeout_ms)
                links.append(reader)
                reader.run("PRAGMA query_only = 1")
        except apsw.Error as error:
            _close_all(links)
            raise trouble(error, self._path) from error
        return links

    def _here(self) -> _Open:
        if self._open is None:
            raise self._closed()
        return self._open

    def _closed(self) -> StoreUnavailable:
        return StoreUnavailable(f"the store {self._path} is not open", hint="use it inside `async with`")

    async def _read(self, query: Callable[[Link], T]) -> T:
        return await self._here().readers.read(query)

    async def _change(self, run: Callable[[Hand], T]) -> T:
        return await self._here().writer.put(run)

    # -- writing -----------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> Awaitable[tuple[int, ...]]:
        try:
            steps = steps_of(batch, self._clock.now_ms())
            return self._here().writer.put(steps, weight=steps.weight)
        except (InvalidInput, StoreUnavailable) as refusal:
            receipt: Receipt[tuple[int, ...]] = Receipt(asyncio.get_running_loop())
            receipt.settle(None, refusal)
            return receipt

    # -- reading -----------------------------------------------------------------------------------------------

    async def session(self, session_id: str) -> SessionRow | None:
        return await self._read(queries.row("sessions", session_id))

    async def sessions(
        self, *, tenant: str | None = None, after: str | None = None, limit: int = 1000
    ) -> Sequence[SessionRow]:
        return await self._read(queries.chosen("sessions", after=after, limit=limit, tenant=tenant))

    async def cell(self, cell_id: str) -> CellRow | None:
        return await self._read(queries.row("cells", cell_id))

    async def cells(
        self,
        session_id: str | None = None,
        *,
        live: bool | None = None,
        operation_key: str | None = None,
        after: str | None = None,
        limit: int = 10_000,
    ) -> Sequence[CellRow]:
        return await self._read(
            queries.chosen(
                "cells", after=after, limit=limit, live=live, session_id=session_id, operation_key=operation_key
            )
        )

    async def call(self, key: str) -> Entry | None:
        return await self._read(queries.row("calls", key))

    async def calls(self, cell_id: str) -> Sequence[Entry]:
        return await self._read(queries.rows("calls", ("cell_id = ?",), (cell_id,), order="number, key"))

    async def approval(self, approval_id: str) -> ApprovalRow | None:
        return await self._read(queries.row("approvals", approval_id))

    async def approvals(
        self,
        *,
        session_id: str | None = None,
        tenant: str | None = None,
        state: str | None = None,
        after: str | None = None,
        limit: int = 1000,
    ) -> Sequence[ApprovalRow]:
        more = None if tenant is None else ("session_id IN (SELECT id FROM sessions WHERE tenant = ?)", tenant)
        return await self._read(
            queries.chosen("approvals", after=after, limit=limit, more=more, session_id=session_id, state=state)
        )

    async def snapshots(self, session_id: str) -> Sequence[SnapshotRow]:
        return await self._read(queries.rows("snapshots", ("session_id = ?",), (session_id,)))

    async def events(
        self, *, session_id: str | None = None, thread_id: str | None = None, since: int = 0, limit: int = 1000
    ) -> Sequence[EventRow]:
        return await self._read(
            queries.chosen("events", after=since, limit=limit, session_id=session_id, thread_id=thread_id)
        )

    async def last_event(
        self, *, session_id: str | None = None, thread_id: str | None = None, upto: int | None = None
    ) -> int:
        return await self._read(queries.last_event_of(upto, session_id=session_id, thread_id=thread_id))

    async def wait_for_events(self, since: int, timeout_ms: int) -> bool:
        return await self._here().watch.wait(since, timeout_ms)

    async def values(self, session_id: str) -> Sequence[ValueRow]:
        return await self._read(queries.rows("values", ("session_id = ?",), (session_id,)))

    async def files(self, session_id: str) -> Sequence[FileRow]:
        return await self._read(queries.rows("files", ("session_id = ?",), (session_id,)))

    async def secrets(self, session_id: str) -> Sequence[SecretRow]:
        return await self._read(queries.rows("secrets", ("session_id = ?",), (session_id,)))

    async def attachments(self, session_id: str) -> Sequence[AttachmentRow]:
        return await self._read(queries.rows("attachments", ("session_id = ?",), (session_id,)))

    async def blob(self, name: str) -> bytes | None:
        return await self._read(queries.blob(name))

    async def scan(
        self, table: Table, *, after: tuple[str | int, ...] | None = None, limit: int = 1000
    ) -> Sequence[Row]:
        return await self._read(queries.scan(table, after, limit))

    # -- owners ------------------------------------------------------------------------------------------------

    async def join(self, owner: str, ttl_ms: int) -> None:
        check_key(owner, "owner")
        now_ms = self._clock.now_ms()
        await self._change(lambda hand: owners.join(hand, owner, now_ms, ttl_ms))

    async def claim(self, owner: str, session_ids: Sequence[str] | None = None) -> Sequence[Claim]:
        check_key(owner, "owner")
        now_ms = self._clock.now_ms()
        return await self._change(lambda hand: owners.claim(hand, owner, session_ids, now_ms))

    async def release(self, owner: str, session_ids: Sequence[str] | None = None) -> None:
        check_key(owner, "owner")
        await self._change(lambda hand: owners.release(hand, owner, session_ids))

    async def owners(self) -> Sequence[str]:
        now_ms = self._clock.now_ms()
        return await self._read(lambda link: queries.owners(link, now_ms))

    async def orphans(self, *, limit: int = 1000) -> Sequence[str]:
        now_ms = self._clock.now_ms()
        return await self._read(lambda link: queries.orphans(link, now_ms, limit))

    # -- upkeep ------------------------------------------------------------------------------------------------

    async def prune(self, *, events_before_ms: int | None = None, keep_events: int | None = None) -> int:
        last = await self._read(queries.last_event)
        beyond = 0
        if keep_events is not None:
            beyond = await self._read(lambda link: upkeep.last_beyond(link, keep_events))
        dropped, done = 0, 0
        while done < last:
            some = upkeep.Prune(done, last, before_ms=events_before_ms, last_dropped=beyond)
            count, done = await self._change(some)
            dropped += count
        return dropped

    async def collect(self) -> int:
        now_ms = self._clock.now_ms()
        return await self._change(lambda hand: upkeep.collect(hand, now_ms))

    async def check(self) -> Sequence[str]:
        return await self._read(upkeep.check)

    async def vacuum(self) -> None:
        await self._here().writer.put(upkeep.vacuum, alone=True)


def _close_threads(opened: _Open) -> None:
    # The writer is the last to close its connection: it leaves no log behind.
    opened.readers.close()
    opened.writer.close()


def _close_all(links: Sequence[Link]) -> None:
    for link in reversed(links):
        link.close()


def _close_unused(opening: asyncio.Future[Any]) -> None:
    """Opened for somebody who does not wait any more."""
    if not opening.cancelled() and opening.exception() is None:
        _close_all(opening.result())
