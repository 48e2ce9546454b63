"""What a store in memory holds, and how a batch changes it: whole, or not at all.

Knows nothing of handles and when they are open. Everything here happens within one call, so nobody sees half of it.
Moments are milliseconds of whoever calls, and only go forward.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from cloister.core.digest import digest_bytes
from cloister.core.errors import InvalidInput, LeaseLost, StoreConflict
from cloister.ports.journal import Entry, Intent, Settled
from cloister.ports.rows import (
    KEYS,
    AnswerRow,
    Append,
    ApprovalRow,
    AttachmentRow,
    Batch,
    CellRow,
    Claim,
    Decide,
    Drop,
    EventRow,
    Fence,
    FileRow,
    InputRow,
    Intend,
    ItemRow,
    MoveHead,
    Put,
    PutBlob,
    Row,
    SecretRow,
    SessionRow,
    Settle,
    SnapshotRow,
    Table,
    ThreadRow,
    ToolCallRow,
    TurnRow,
    ValueRow,
    Write,
)
from cloister.stores.json_docs import dumps_settled
from cloister.stores.memory_tables import Held, Key, MemoryTable, bare_entry, freeze, thaw
from cloister.stores.rules import BLOB_GRACE_MS, blobs_of, check_batch, intended, key_of, settled, table_of


class MemoryData:
    """Give the same to several stores, and they are handles on the same data."""

    def __init__(self) -> None:
        self.sessions = MemoryTable[SessionRow]("sessions")
        self.cells = MemoryTable[CellRow]("cells")
        self.calls = MemoryTable[Entry]("calls")
        self.approvals = MemoryTable[ApprovalRow]("approvals")
        self.snapshots = MemoryTable[SnapshotRow]("snapshots")
        self.events = MemoryTable[EventRow]("events")
        self.values = MemoryTable[ValueRow]("values")
        self.files = MemoryTable[FileRow]("files")
        self.secrets = MemoryTable[SecretRow]("secrets")
        self.attachments = MemoryTable[AttachmentRow]("attachments")
        self.threads = MemoryTable[ThreadRow]("threads")
        self.turns = MemoryTable[TurnRow]("turns")
        self.items = MemoryTable[ItemRow]("items")
        self.answers = MemoryTable[AnswerRow]("answers")
        self.inputs = MemoryTable[InputRow]("inputs")
        self.tool_calls = MemoryTable[ToolCallRow]("tool_calls")
        # Each with the moment when it was last put.
        self._blobs: dict[str, tuple[bytes, float]] = {}
        # Who is an owner, and until when.
        self._owners: dict[str, float] = {}
        self._leases: dict[str, tuple[str, int]] = {}
        self._last_token = 0
        self._last_seq = 0
        # How to take back what the batch at hand has done so far, the latest last.
        self._undo: list[Callable[[], object]] = []
        self._waits: set[asyncio.Future[None]] = set()

    def table(self, name: Table) -> MemoryTable[Any]:
        return getattr(self, name)

    def blob(self, name: str) -> bytes | None:
        held = self._blobs.get(name)
        return None if held is None else held[0]

    def last_event(self) -> int:
        """The number of the last that is there; 0 if there is none."""
        key = self.events.last_key()
        return 0 if key is None else cast("int", key[0])

    def next_wake(self) -> asyncio.Future[None]:
        """Done when there is a new event, or a handle was closed."""
        wait: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wait.add_done_callback(self._waits.discard)
        self._waits.add(wait)
        return wait

    def wake(self) -> None:
        for wait in self._waits:
            if not wait.done():
                wait.set_result(None)

    # -- writing ----------------------------------------------------------------------------------------------------

    def write(self, batch: Batch, now: float) -> tuple[int, ...]:
        """The numbers of its events; raises why it is refused, and then nothing has changed."""
        check_batch(batch)
        if batch.fence is not None:
            self._check_fence(batch.fence)
        self._undo = []
        numbers: list[int] = []
        last, last_seq = self.last_event(), self._last_seq
        try:
            for one in batch.writes:
                self._apply(one, now, numbers)
        except BaseException:
            for take_back in reversed(self._undo):
                take_back()
            # Nobody has seen the numbers that it took.
            self._last_seq = last_seq
            raise
        finally:
            self._undo = []
        if self.last_event() > last:
            self.wake()
        return tuple(numbers)

    def _check_fence(self, fence: Fence) -> None:
        lease = self._leases.get(fence.session_id)
        if lease is None or lease[1] != fence.token:
            raise LeaseLost(f"session {fence.session_id!r} is not this owner's any more: another may go on with it")

    def _apply(self, write: Write, now: float, numbers: list[int]) -> None:
        match write:
            case Put(row=row):
                self._put(row)
            case Drop(table="sessions", key=key):
                self._drop_session(cast("str", key[0]))
            case Drop(table=table, key=key):
                self._drop(table, key)
            case PutBlob(name=name, data=data):
                self._set(self._blobs, name, (bytes(data), now))
            case Intend(intent=intent):
                self._intend(intent)
            case Settle(settled=settlement):
                self._settle(settlement)
            case Append(session_id=session_id, kind=kind, at_ms=at_ms, doc=doc):
                self._last_seq += 1
                within = (write.thread_id, write.turn_id, write.item_id)
                self._put(EventRow(self._last_seq, session_id, kind, at_ms, doc, *within))
                numbers.append(self._last_seq)
            case Decide(row=row, was=was):
                held = self.approvals.get((row.id,))
                if held is None or held.bare.state != was:
                    now_is = "not there" if held is None else f"{held.bare.state!r}"
                    raise StoreConflict(f"approval {row.id!r} is not {was!r} any more: it is {now_is}")
                self._put(row)
            case MoveHead(session_id=session_id, was=was):
                self._move_head(session_id, was)

    def _put(self, row: Row) -> None:
        held: Held[Any] = freeze(row)
        if isinstance(row, SessionRow):
            old = self.sessions.get((row.id,))
            held = replace(held, bare=replace(held.bare, head=0 if old is None else old.bare.head))
        elif isinstance(row, EventRow):
            self._last_seq = max(self._last_seq, row.seq)
        self._hold(table_of(row), key_of(row), held)

    def _hold(self, name: Table, key: Key, held: Held[Any]) -> None:
        table = self.table(name)
        old = table.get(key)
        self._undo.append(lambda: table.drop(key) if old is None else table.put(key, old))
        table.put(key, held)

    def _drop(self, name: Table, key: Key) -> None:
        table = self.table(name)
        old = table.get(key)
        if old is not None:
            self._undo.append(lambda: table.put(key, old))
            table.drop(key)

    def _drop_session(self, session_id: str) -> None:
        self._drop("sessions", (session_id,))
        for table in KEYS:
            if table not in ("sessions", "events"):
                for key in self.table(table).keys_of("session", session_id):
                    self._drop(table, key)
        self._unset(self._leases, session_id)

    def _intend(self, intent: Intent) -> None:
        key = (intent.key,)
        old = self.calls.get(key)
        entry = intended(old.bare if old is not None else None, intent)
        # The first intent stands as it was written.
        self._hold("calls", key, freeze(entry) if old is None else Held(entry, old.text))

    def _settle(self, settlement: Settled) -> None:
        key = (settlement.key,)
        old = self.calls.get(key)
        entry = settled(old.bare if old is not None else None, settlement)
        assert old is not None
        self._hold("calls", key, Held(bare_entry(entry), old.text, dumps_settled(settlement)))

    def _move_head(self, session_id: str, was: int) -> None:
        held = self.sessions.get((session_id,))
        if held is None or held.bare.head != was:
            now_is = "not there" if held is None else f"at {held.bare.head}"
            raise StoreConflict(f"the head of session {session_id!r} is not at {was} any more: it is {now_is}")
        self._hold("sessions", (session_id,), replace(held, bare=replace(held.bare, head=was + 1)))

    def _set(self, mapping: dict[str, Any], key: str, value: object) -> None:
        old = mapping.get(key)
        self._undo.append(lambda: mapping.pop(key) if old is None else mapping.__setitem__(key, old))
        mapping[key] = value

    def _unset(self, mapping: dict[str, Any], key: str) -> None:
        old = mapping.pop(key, None)
        if old is not None:
            self._undo.append(lambda: mapping.__setitem__(key, old))

    # -- owners -----------------------------------------------------------------------------------------------------

    def join(self, owner: str, until: float) -> None:
        self._owners[owner] = until

    def claim(self, owner: str, session_ids: Sequence[str] | None, now: float) -> list[Claim]:
        wanted = None if session_ids is None else set(session_ids)
        claims: list[Claim] = []
        for held in self.sessions.pages():
            name = held.bare.id
            if (wanted is None or name in wanted) and self._is_free_for(owner, name, now):
                self._last_token += 1
                self._leases[name] = (owner, self._last_token)
                claims.append(Claim(Fence(name, self._last_token), thaw(held)))
        return claims

    def _is_free_for(self, owner: str, session_id: str, now: float) -> bool:
        lease = self._leases.get(session_id)
        return lease is None or lease[0] == owner or self._owners.get(lease[0], now) <= now

    def release(self, owner: str, session_ids: Sequence[str] | None) -> None:
        names = list(self._leases) if session_ids is None else session_ids
        for name in names:
            lease = self._leases.get(name)
            if lease is not None and lease[0] == owner:
                del self._leases[name]
        if session_ids is None:
            self._owners.pop(owner, None)

    def owners(self, now: float) -> list[str]:
        return sorted(owner for owner, until in self._owners.items() if until > now)

    def orphans(self, now: float) -> list[str]:
        busy = {held.bare.session_id for held in self.cells.pages() if held.bare.live}
        # Nobody has no name, so this asks whether anybody at all could have it.
        return sorted(
            name for name in busy if self.sessions.get((name,)) is not None and self._is_free_for("", name, now)
        )

    # -- upkeep -----------------------------------------------------------------------------------------------------

    def prune(self, before_ms: int | None, keep: int | None) -> int:
        if keep is not None and keep < 0:
            raise InvalidInput(f"keep_events must not be below 0, and is {keep}")
        rows = [held.bare for held in self.events.pages()]
        busy = {held.bare.session_id for held in self.cells.pages() if held.bare.live}
        beyond = 0 if keep is None else len(rows) - keep
        old = [
            row.seq
            for place, row in enumerate(rows)
            if (place < beyond or (before_ms is not None and row.at_ms < before_ms))
            and row.session_id not in busy
            and (row.thread_id is None or self.threads.get((row.thread_id,)) is None)
        ]
        for seq in old:
            self.events.drop((seq,))
        return len(old)

    def collect(self, now: float) -> int:
        held = self._referred()
        old = [name for name, (_, at) in self._blobs.items() if name not in held and at + BLOB_GRACE_MS <= now]
        for name in old:
            del self._blobs[name]
        return len(old)

    def check(self) -> list[str]:
        wrong = [
            f"{where} refers to blob {name}, which is not there"
            for name, where in sorted(self._referred().items())
            if name not in self._blobs
        ]
        for name, (data, _) in self._blobs.items():
            if digest_bytes(data) != name:
                wrong.append(f"blob {name} is not what its name says")
        return wrong

    def _referred(self) -> dict[str, str]:
        """The blobs that rows refer to, each with one of those rows in words."""
        return {
            name: f"{table} {key_of(held.bare)!r}"
            for table in KEYS
            for held in self.table(table).pages()
            for name in blobs_of(held.bare)
        }
