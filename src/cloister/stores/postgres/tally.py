"""What a group of batches comes to: the last word on every row, worked out before anything is sent.

A tally is made either with what the store *holds* under every key that the batches ask about, and then refuses
batches one by one; or without, and then it notes what must hold for all of them to be right (`Expected`), which the
server checks in the same round trip. The second is the common case. Anything else than "all are right" is `Undecided`
there, and the group is tallied again the first way.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from cloister.core.call import CallStatus
from cloister.core.errors import CloisterError, LeaseLost, StoreConflict
from cloister.ports.journal import Entry, Intent, Settled
from cloister.ports.rows import (
    Append,
    Batch,
    Decide,
    Drop,
    Fence,
    Intend,
    MoveHead,
    Put,
    PutBlob,
    Settle,
    Table,
    Write,
)
from cloister.stores import rules
from cloister.stores.postgres.columns import SHAPES, Columns
from cloister.stores.postgres.order import Order

Key = tuple[str | int, ...]


class Undecided(Exception):
    """It depends on what the store holds."""


@dataclass(slots=True)
class Asked:
    """The keys whose rows decide about batches."""

    fences: set[str] = field(default_factory=set[str])
    calls: set[str] = field(default_factory=set[str])
    approvals: set[str] = field(default_factory=set[str])
    heads: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class Held:
    """What the store holds under them; a key that is missing has no row."""

    fences: dict[str, int] = field(default_factory=dict[str, int])
    calls: dict[str, Entry] = field(default_factory=dict[str, Entry])
    # The state and the session.
    approvals: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    heads: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(slots=True)
class Expected:
    """What was taken for granted."""

    fences: dict[str, int] = field(default_factory=dict[str, int])
    absent: dict[str, None] = field(default_factory=dict[str, None])
    unsettled: dict[str, None] = field(default_factory=dict[str, None])
    approvals: dict[str, str] = field(default_factory=dict[str, str])
    heads: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class CallChange:
    """With `intent` the whole row is written; without, only what follows it, and None keeps the attempts."""

    entry: Entry | None
    intent: str | None
    settled: str | None
    attempts: int | None


def asked_by(batches: Iterable[Batch]) -> Asked:
    asked = Asked()
    for batch in batches:
        if batch.fence is not None:
            asked.fences.add(batch.fence.session_id)
        for write in batch.writes:
            match write:
                case Intend(intent=Intent(key=key)) | Settle(settled=Settled(key=key)):
                    asked.calls.add(key)
                case Decide(row=row):
                    asked.approvals.add(row.id)
                case MoveHead(session_id=session_id):
                    asked.heads.add(session_id)
                case _:
                    pass
    return asked


class Tally:
    def __init__(self, held: Held | None = None) -> None:
        self._held = held
        self.expected = Expected()
        # By table and key; None for a row that goes.
        self.rows: dict[Table, dict[Key, Columns | None]] = {table: {} for table in SHAPES if table != "calls"}
        self.calls: dict[str, CallChange | None] = {}
        # Sessions that go with all that was theirs until then.
        self.dropped: dict[str, None] = {}
        # The head that each session gets.
        self.heads: dict[str, int] = {}
        self.blobs: dict[str, bytes] = {}
        self.events: list[Columns] = []
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []

    def add(self, order: Order) -> range:
        """Take the batch in, and return the places of its events among all of the group. When it raises, the batch
        is refused and nothing of it is left."""
        first = len(self.events)
        self._undo.clear()
        try:
            if order.batch.fence is not None:
                self._check_fence(order.batch.fence)
            for write, columns in order.writes:
                self._write(write, columns)
        except CloisterError as refusal:
            if self._held is None:
                raise Undecided from refusal
            for part, key, before in reversed(self._undo):
                if before is _MISSING:
                    part.pop(key, None)
                else:
                    part[key] = before
            del self.events[first:]
            raise
        return range(first, len(self.events))

    def _set(self, part: dict[Any, Any], key: Any, value: Any) -> None:
        self._undo.append((part, key, part.get(key, _MISSING)))
        part[key] = value

    def _unset(self, part: dict[Any, Any], key: Any) -> None:
        if key in part:
            self._undo.append((part, key, part.pop(key)))

    def _write(self, write: Write, columns: Columns) -> None:
        match write:
            case Put(row=Entry() as entry):
                self._set(self.calls, entry.intent.key, CallChange(entry, columns[0], columns[1], entry.attempts))
            case Put(row=row):
                self._set(self.rows[rules.table_of(row)], rules.key_of(row), columns)
            case Drop(table="sessions", key=(str(session_id),)):
                self._drop_session(session_id)
            case Drop(table="calls", key=(key,)):
                self._set(self.calls, key, None)
            case Drop(table=table, key=key):
                self._set(self.rows[table], key, None)
            case PutBlob(name=name, data=data):
                self._set(self.blobs, name, data)
            case Intend(intent=intent):
                self._intend(intent, columns[0])
            case Settle(settled=settled):
                self._settle(settled, columns[0])
            case Append():
                self.events.append(columns)
            case Decide(row=row, was=was):
                self._decide(row.id, was, columns)
            case MoveHead(session_id=session_id, was=was):
                self._move_head(session_id, was)

    # -- what decides ----------------------------------------------------------------------------------------------

    def _check_fence(self, fence: Fence) -> None:
        session_id = fence.session_id
        if self._held is not None:
            token = None if session_id in self.dropped else self._held.fences.get(session_id)
        elif session_id in self.dropped:
            raise Undecided
        else:
            token = self.expected.fences.setdefault(session_id, fence.token)
        if token != fence.token:
            raise LeaseLost(f"session {session_id!r} belongs to another owner, or to none: this fence is old")

    def _intend(self, intent: Intent, text: str) -> None:
        known, entry = self._entry(intent.key)
        if not known:
            self.expected.absent[intent.key] = None
        after = rules.intended(entry, intent)
        change = self.calls.get(intent.key)
        if entry is None:
            change = CallChange(after, text, None, after.attempts)
        else:
            # The first intent stays as it was written.
            change = CallChange(after, change.intent if change is not None else None, None, after.attempts)
        self._set(self.calls, intent.key, change)

    def _settle(self, settled: Settled, text: str) -> None:
        known, entry = self._entry(settled.key)
        if not known:
            if settled.status == CallStatus.APPROVAL_PENDING:
                raise Undecided
            self.expected.unsettled[settled.key] = None
            self._set(self.calls, settled.key, CallChange(None, None, text, None))
            return
        after = rules.settled(entry, settled)
        change = self.calls.get(settled.key)
        intent = change.intent if change is not None else None
        self._set(self.calls, settled.key, CallChange(after, intent, text, after.attempts))

    def _entry(self, key: str) -> tuple[bool, Entry | None]:
        """Whether it is known, and what it is by now."""
        if key in self.calls:
            change = self.calls[key]
            if change is not None and change.entry is None:
                raise Undecided
            return True, None if change is None else change.entry
        if self._held is None:
            if self.dropped:
                raise Undecided
            return False, None
        entry = self._held.calls.get(key)
        return True, None if entry is None or entry.intent.session_id in self.dropped else entry

    def _decide(self, approval_id: str, was: str, columns: Columns) -> None:
        approvals = self.rows["approvals"]
        state: str | None
        if (approval_id,) in approvals:
            row = approvals[approval_id,]
            state = None if row is None else row[_STATE]
        elif self._held is not None:
            state, session_id = self._held.approvals.get(approval_id, (None, None))
            state = None if session_id in self.dropped else state
        elif self.dropped:
            raise Undecided
        else:
            state = self.expected.approvals[approval_id] = was
        if state is None:
            raise StoreConflict(f"approval {approval_id!r} is not there")
        if state != was:
            raise StoreConflict(f"approval {approval_id!r} is {state!r} by now, not {was!r}")
        self._set(approvals, (approval_id,), columns)

    def _move_head(self, session_id: str, was: int) -> None:
        head: int | None
        if session_id in self.heads:
            head = self.heads[session_id]
        elif session_id in self.dropped:
            head = None
        elif self._held is not None:
            head = self._held.heads.get(session_id)
        elif was == 0 and (session_id,) in self.rows["sessions"]:
            # It is new, most likely, and the server looks before it is put.
            raise Undecided
        else:
            head = self.expected.heads[session_id] = was
        if head is None and self.rows["sessions"].get((session_id,)) is not None:
            head = 0
        if head != was:
            raise StoreConflict(
                f"session {session_id!r} is not there"
                if head is None
                else f"the head of session {session_id!r} is {head}, not {was}"
            )
        self._set(self.heads, session_id, was + 1)

    def _drop_session(self, session_id: str) -> None:
        for table, rows in self.rows.items():
            if table == "events":
                continue
            place = 0 if table == "sessions" else SHAPES[table].columns.index("session_id")
            for key in [key for key, row in rows.items() if row is not None and row[place] == session_id]:
                # Not forgotten: it may have been another session's before it was put.
                self._set(rows, key, None)
        for key, change in list(self.calls.items()):
            if change is None:
                continue
            if change.entry is None:
                raise Undecided
            if change.entry.intent.session_id == session_id:
                self._set(self.calls, key, None)
        self._unset(self.heads, session_id)
        self._unset(self.rows["sessions"], (session_id,))
        self._set(self.dropped, session_id, None)


_MISSING = object()
_STATE = SHAPES["approvals"].columns.index("state")
