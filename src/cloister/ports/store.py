"""The store port: what survives the process.

A store is opened as an async context manager and belongs to one event loop. What a caller may rely on:

- **Order and atomicity.** Batches take effect in the order in which `write` was called, each of them whole or not at
  all. A batch that is refused changes nothing and does not keep those after it from being written.
- **Durability.** When a write is done, the batch outlives the process and, as far as the store was not told otherwise,
  the machine; so does every batch written before it. A store may commit many batches at once; none is acknowledged
  before it is safe.
- **Refusals** come as `StoreConflict` (a head or an approval is not what the batch says), `LeaseLost` (the fence is
  old) and `InvalidInput` (the rules of the journal). **Trouble** comes as `StoreUnavailable`: the disk is full, the
  server is gone. Then the batch was not written, or, if the store cannot know, it was written whole; whatever was
  acknowledged stays. A store that was in trouble works again when the cause is gone.
- **Reads** see all that was acknowledged before they began.
- **Owners.** A process joins as an owner for a time and renews that. A session belongs to the owner that claimed it
  until it is released, or its owner's time is over and another claims it: from then on the former owner's fence is old
  and its writes are refused. Time is the store's own.
- **Sizes.** A doc is up to 16 MiB of JSON, a blob up to 512 MiB. Keys are text without NUL, up to 1,024 bytes.
- **Trust.** A store keeps what it is given. Secrets are sealed before they come here; whoever can write to a store's
  files owns what is in them.
"""

from collections.abc import Awaitable, Sequence
from typing import Protocol

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
from cloister.ports.threads import ThreadReads


class Store(ThreadReads, Protocol):
    @property
    def url(self) -> str:
        """Where it is, without passwords."""
        ...

    async def __aenter__(self) -> "Store": ...
    async def __aexit__(self, *exc: object) -> None:
        """What was written before is safe; what is written after is refused."""
        ...

    # -- writing -----------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> Awaitable[tuple[int, ...]]:
        """The batch takes its place in the order at this call. What is returned is done when the batch is safe, with
        the numbers of the events that were appended, or raises why it was not written. A refusal that nobody awaits is
        logged."""
        ...

    # -- reading -----------------------------------------------------------------------------------------------

    async def session(self, session_id: str) -> SessionRow | None: ...
    async def sessions(
        self, *, tenant: str | None = None, after: str | None = None, limit: int = 1000
    ) -> Sequence[SessionRow]:
        """In the order of their ids, those after `after`; of one tenant, or of all."""
        ...

    async def cell(self, cell_id: str) -> CellRow | None: ...
    async def cells(
        self,
        session_id: str | None = None,
        *,
        live: bool | None = None,
        operation_key: str | None = None,
        after: str | None = None,
        limit: int = 10_000,
    ) -> Sequence[CellRow]:
        """In the order of their ids, which is that of their beginning."""
        ...

    async def call(self, key: str) -> Entry | None: ...
    async def calls(self, cell_id: str) -> Sequence[Entry]:
        """In the order of their numbers."""
        ...

    async def approval(self, approval_id: str) -> ApprovalRow | None: ...
    async def approvals(
        self,
        *,
        session_id: str | None = None,
        tenant: str | None = None,
        state: str | None = None,
        after: str | None = None,
        limit: int = 1000,
    ) -> Sequence[ApprovalRow]:
        """In the order of their ids; a tenant's are those of its sessions."""
        ...

    async def snapshots(self, session_id: str) -> Sequence[SnapshotRow]:
        """In the order of their ids."""
        ...

    async def events(
        self, *, session_id: str | None = None, thread_id: str | None = None, since: int = 0, limit: int = 1000
    ) -> Sequence[EventRow]:
        """Those with a number above `since`, in order. There is never one yet to come with a number below the last."""
        ...

    async def last_event(
        self, *, session_id: str | None = None, thread_id: str | None = None, upto: int | None = None
    ) -> int:
        """The number of the last event that is there, of a session or a thread, up to a number; 0 if there is none."""
        ...

    async def wait_for_events(self, since: int, timeout_ms: int) -> bool:
        """Returns when there may be an event with a number above `since`, whoever wrote it; False when time is up."""
        ...

    async def values(self, session_id: str) -> Sequence[ValueRow]: ...
    async def files(self, session_id: str) -> Sequence[FileRow]: ...
    async def secrets(self, session_id: str) -> Sequence[SecretRow]: ...
    async def attachments(self, session_id: str) -> Sequence[AttachmentRow]: ...
    async def blob(self, name: str) -> bytes | None: ...
    async def scan(
        self, table: Table, *, after: tuple[str | int, ...] | None = None, limit: int = 1000
    ) -> Sequence[Row]:
        """Everything in a table, in the order of its keys: to take a whole store elsewhere."""
        ...

    # -- owners ------------------------------------------------------------------------------------------------

    async def join(self, owner: str, ttl_ms: int) -> None:
        """Be an owner for so long from now on; again and again, to stay one."""
        ...

    async def claim(self, owner: str, session_ids: Sequence[str] | None = None) -> Sequence[Claim]:
        """Take those of the sessions (of all, if none are named) that nobody owns, or whose owner's time is over, or
        that are this owner's already. Each gets a new fence. Sessions that others own are left out."""
        ...

    async def release(self, owner: str, session_ids: Sequence[str] | None = None) -> None:
        """Nobody owns them any more; with None, none of this owner's, who leaves."""
        ...

    async def owners(self) -> Sequence[str]:
        """Those whose time is not over."""
        ...

    async def orphans(self, *, limit: int = 1000) -> Sequence[str]:
        """Sessions with live cells that nobody owns, or whose owner's time is over; in the order of their ids."""
        ...

    # -- upkeep ------------------------------------------------------------------------------------------------

    async def prune(self, *, events_before_ms: int | None = None, keep_events: int | None = None) -> int:
        """Drop events by age and number, but none of a session with live cells, and none of a thread that is there: its
        log is what it is made of. Returns how many."""
        ...

    async def collect(self) -> int:
        """Remove blobs that nothing refers to and that were not written a moment ago; returns how many."""
        ...

    async def check(self) -> Sequence[str]:
        """What is wrong with it, in words; nothing if it is sound."""
        ...

    async def vacuum(self) -> None:
        """Give room back to the system."""
        ...
