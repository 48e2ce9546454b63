"""A write as what the writer does for it: a step, made where the batch is handed over, run inside its savepoint.

Docs are encoded when the step is made: that holds the interpreter, whichever thread does it, and to find out beforehand
how large they are takes longer than most of them do. Blobs are packed by the writer, beside the event loop.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import apsw
import zstandard

from cloister.core.call import CallStatus
from cloister.core.errors import InvalidInput, LeaseLost, StoreConflict
from cloister.ports.journal import Entry, Intent, Settled
from cloister.ports.rows import (
    KEYS,
    Append,
    ApprovalRow,
    Batch,
    CellRow,
    Decide,
    Drop,
    EventRow,
    Fence,
    Intend,
    MoveHead,
    Put,
    PutBlob,
    Settle,
    SnapshotRow,
    Table,
    Write,
)
from cloister.stores import rules
from cloister.stores.json_docs import dumps
from cloister.stores.sqlite import many
from cloister.stores.sqlite.link import Columns, Link
from cloister.stores.sqlite.shapes import (
    CALL_OUTLINE,
    CELL_AGAIN,
    SHAPES,
    columns_again,
    decode_entry,
    encode_entry,
    settled_columns,
    shape_of,
)


class Hand(Link):
    """What a step works with: the writer's connection, in a transaction."""

    __slots__ = ("appended", "fences", "one_by_one")

    def __init__(self, raw: apsw.Connection) -> None:
        super().__init__(raw)
        # The numbers of the events that this batch has appended.
        self.appended: list[int] = []
        # Those that were found to fit in this transaction: nobody else can change them in it.
        self.fences: dict[str, int] = {}
        # Whether what is wrong must be found out: then no writes are made as one.
        self.one_by_one = False

    def begin(self) -> None:
        self.fences.clear()
        self.run("BEGIN IMMEDIATE")


# Its columns first, and the writer's hand last.
Step: TypeAlias = partial[None]


@dataclass(frozen=True, slots=True)
class Steps:
    """A batch, ready for the writer."""

    fence: Fence | None
    steps: tuple[Step, ...]
    # About how many bytes.
    weight: int

    def __call__(self, hand: Hand) -> tuple[int, ...]:
        if self.fence is not None:
            _check_fence(hand, self.fence)
        for step in self.steps:
            step(hand)
        return tuple(hand.appended)


# A write without its doc.
_WRITE_BYTES = 500


def steps_of(batch: Batch, now_ms: int) -> Steps:
    """Raises `InvalidInput` for what no store takes."""
    rules.check_batch(batch)
    gathered = _Gathered(batch.writes)
    alike, rest = list(gathered.steps(now_ms)), [_step(write, now_ms) for write in gathered.rest]
    weight = _WRITE_BYTES * len(batch.writes) + gathered.size + sum(map(_size, rest))
    return Steps(batch.fence, (*alike, *rest), weight)


def _size(step: Step) -> int:
    """Of its blob and its docs: nothing else is of a size that matters."""
    size = 0
    for part in step.args:
        if part.__class__ is bytes or part.__class__ is str:
            size += len(part)
        elif part.__class__ is tuple:
            size += _texts((part,))
        elif part.__class__ is list:
            size += _texts(part)
    return size


def _texts(rows: Sequence[Columns]) -> int:
    return sum([len(part) for columns in rows for part in columns if part.__class__ is str])


@dataclass(frozen=True, slots=True)
class _Made:
    """A call whose intent and settlement are in one batch: the row is written once."""

    intent: Intent
    settled: Settled
    columns: Columns


class _Gathered:
    """A batch's writes: of the most frequent kinds those that are alike, and the rest in their order. Nothing in it is
    removed, and no event or call comes from elsewhere: so writes of different kinds are never about the same row."""

    def __init__(self, writes: Sequence[Write]) -> None:
        self.rest: list[Write] = []
        # Of blobs and docs of the steps, once they are made.
        self.size = 0
        self._blobs: dict[str, bytes] = {}
        self._snapshots: list[SnapshotRow] = []
        self._events: list[Append] = []
        self._made: list[_Made] = []
        if len(writes) < _LEAST_GATHERED or any(map(_stands_alone, writes)):
            self.rest.extend(writes)
            return
        intents: dict[str, Intent] = {}
        # Calls about which there is more to say than one intent and one end.
        more: set[str] = set()
        for write in writes:
            match write:
                case PutBlob(name=name, data=data):
                    self._blobs[name] = data
                case Append():
                    self._events.append(write)
                case Put(row=SnapshotRow() as row):
                    self._snapshots.append(row)
                case Intend(intent=intent) if intent.key not in intents and intent.key not in more:
                    intents[intent.key] = intent
                case Settle(settled=settled) if settled.key in intents and settled.status not in _NO_END:
                    more.add(settled.key)
                    intent = intents.pop(settled.key)
                    self._made.append(_Made(intent, settled, encode_entry(Entry(intent, settled))))
                case Intend(intent=Intent(key=key)) | Settle(settled=Settled(key=key)):
                    more.add(key)
                    if (first := intents.pop(key, None)) is not None:
                        self.rest.append(Intend(first))
                    self.rest.append(write)
                case _:
                    self.rest.append(write)
        # Of those that are still under way there is nothing else here.
        self.rest.extend(map(Intend, intents.values()))

    def steps(self, now_ms: int) -> Iterator[Step]:
        if self._blobs:
            self.size += sum(map(len, self._blobs.values()))
            yield partial(_put_blobs, list(self._blobs.items()), now_ms)
        if self._made:
            self.size += _texts([call.columns for call in self._made])
            yield partial(_make, self._made)
        if self._snapshots:
            shape = SHAPES["snapshots"]
            rows = [shape.encode(row) for row in self._snapshots]
            self.size += _texts(rows)
            yield partial(_run_all, shape.put, rows)
        if self._events:
            rows = [_event_columns(event) for event in self._events]
            self.size += _texts(rows)
            yield partial(_append, rows)


# What is gathered of fewer saves nothing.
_LEAST_GATHERED = 3
_FROM_ELSEWHERE = frozenset({Entry, EventRow})
_NO_END = frozenset({CallStatus.APPROVAL_PENDING})


def _stands_alone(write: Write) -> bool:
    """Whether the order of the whole batch matters because of it."""
    if isinstance(write, Put):
        return write.row.__class__ in _FROM_ELSEWHERE
    return isinstance(write, Drop)


def _step(write: Write, now_ms: int) -> Step:
    match write:
        case Put(row=row):
            shape = shape_of(row)
            if isinstance(row, CellRow):
                return partial(_put_cell, shape.encode(row))
            return partial(_run, shape.put, shape.encode(row))
        case Drop(table=table, key=key):
            return partial(_drop, table, key)
        case PutBlob(name=name, data=data):
            return partial(_put_blob, name, data, now_ms)
        case Intend(intent=intent):
            return partial(_intend, intent, encode_entry(Entry(intent)))
        case Settle(settled=settled):
            return partial(_settle, settled, settled_columns(settled))
        case Append():
            return partial(_append, [_event_columns(write)])
        case Decide(row=row, was=was):
            return partial(_decide, row, dumps(row.doc), was)
        case MoveHead(session_id=session_id, was=was):
            return partial(_move_head, session_id, was)


# -- the steps: each with its columns first and the writer's hand last ------------------------------------------------


def _run(statement: str, columns: Columns, hand: Hand) -> None:
    hand.run(statement, columns)


def _run_all(statement: str, rows: Sequence[Columns], hand: Hand) -> None:
    many.changed(hand, statement, rows)


def _put_cell(columns: Columns, hand: Hand) -> None:
    # Nearly always one that is there and goes on: then its indexes are not touched.
    if not hand.changes(CELL_AGAIN, columns_again(columns)):
        hand.run(SHAPES["cells"].put, columns)


def _check_fence(hand: Hand, fence: Fence) -> None:
    if hand.fences.get(fence.session_id) == fence.token:
        return
    held = hand.rows("SELECT fence FROM sessions WHERE id = ? AND owner IS NOT NULL", (fence.session_id,))
    if held != [(fence.token,)]:
        raise LeaseLost(
            f"session {fence.session_id!r} is not ours any more: its fence is not {fence.token}",
            hint="claim it again, and read it anew before going on",
        )
    hand.fences[fence.session_id] = fence.token


_OWNED_BY_SESSION: tuple[Table, ...] = (
    "cells",
    "calls",
    "approvals",
    "snapshots",
    "values",
    "files",
    "secrets",
    "attachments",
    "threads",
    "turns",
    "items",
    "answers",
    "inputs",
    "tool_calls",
)
_DROP: Mapping[Table, str] = {
    table: f'DELETE FROM "{table}" WHERE ' + " AND ".join(f"{name} = ?" for name in names)  # noqa: S608
    for table, names in KEYS.items()
}
_DROP_OWNED = tuple(f'DELETE FROM "{table}" WHERE session_id = ?' for table in _OWNED_BY_SESSION)  # noqa: S608


def _drop(table: Table, key: tuple[str | int, ...], hand: Hand) -> None:
    if table == "sessions":
        hand.fences.clear()
        for statement in _DROP_OWNED:
            hand.run(statement, key)
    hand.run(_DROP[table], key)


_INTEND = SHAPES["calls"].put.partition(" DO UPDATE")[0] + " DO NOTHING"


def _intend(intent: Intent, columns: Columns, hand: Hand) -> None:
    # Nearly always the first of its key: then one statement does it.
    if hand.changes(_INTEND, columns):
        return
    rules.intended(_outline(hand, intent.key), intent)
    hand.run("UPDATE calls SET attempts = attempts + 1, status = NULL, settled = NULL WHERE key = ?", (intent.key,))


_SETTLE = "UPDATE calls SET status = ?, settled = ? WHERE key = ?"


def _settle(settled: Settled, columns: Columns, hand: Hand) -> None:
    pending = settled.status is CallStatus.APPROVAL_PENDING
    if not pending and hand.changes(f"{_SETTLE} AND status IS NULL", (*columns, settled.key)):
        return
    rules.settled(_outline(hand, settled.key), settled)
    hand.run(_SETTLE, (*columns, settled.key))


def _make(calls: Sequence[_Made], hand: Hand) -> None:
    if not hand.one_by_one and many.changed(hand, _INTEND, [call.columns for call in calls]) == len(calls):
        return
    for call in calls:
        # Where keys are known, the rules of the journal say what may be written over them.
        if not hand.one_by_one:
            raise InvalidInput("a call of these is on record already: they are written one by one")
        _intend(call.intent, encode_entry(Entry(call.intent)), hand)
        _settle(call.settled, settled_columns(call.settled), hand)


def _outline(hand: Hand, key: str) -> Entry | None:
    found = hand.rows(CALL_OUTLINE, (key,))
    return decode_entry(found[0]) if found else None


_APPEND = "INSERT INTO events (session_id, kind, at_ms, doc, thread_id, turn_id, item_id) VALUES (?, ?, ?, ?, ?, ?, ?)"


def _event_columns(event: Append) -> Columns:
    within = (event.thread_id, event.turn_id, event.item_id)
    return (event.session_id, event.kind, event.at_ms, dumps(event.doc), *within)


def _append(events: Sequence[Columns], hand: Hand) -> None:
    hand.appended.extend(many.inserted(hand, _APPEND, events))


def _decide(row: ApprovalRow, doc: str, was: str, hand: Hand) -> None:
    if not hand.changes(
        "UPDATE approvals SET session_id = ?, cell_id = ?, state = ?, created_ms = ?, doc = ? "
        "WHERE id = ? AND state = ?",
        (row.session_id, row.cell_id, row.state, row.created_ms, doc, row.id, was),
    ):
        found = hand.rows("SELECT state FROM approvals WHERE id = ?", (row.id,))
        state = repr(found[0][0]) if found else "not there"
        raise StoreConflict(f"approval {row.id!r} is {state}, not {was!r}")


def _move_head(session_id: str, was: int, hand: Hand) -> None:
    if not hand.changes("UPDATE sessions SET head = head + 1 WHERE id = ? AND head = ?", (session_id, was)):
        found = hand.rows("SELECT head FROM sessions WHERE id = ?", (session_id,))
        head = found[0][0] if found else "not there"
        raise StoreConflict(f"the head of session {session_id!r} is {head}, not {was}")


# -- blobs ----------------------------------------------------------------------------------------------------------

# Below this, the frame of the compression takes what it saves.
_LEAST_PACKED = 256
_CONTENT = "INSERT INTO contents (data) VALUES (?)"
_BLOB = "INSERT INTO blobs VALUES (?, ?, ?, ?)"


def _put_blob(name: str, data: bytes, now_ms: int, hand: Hand) -> None:
    if hand.changes("UPDATE blobs SET written_ms = max(written_ms, ?) WHERE name = ?", (now_ms, name)):
        return
    packed = pack(data)
    content = hand.inserted(_CONTENT, (data if packed is None else packed,))
    hand.run(_BLOB, (name, now_ms, packed is not None, content))


def _put_blobs(blobs: Sequence[tuple[str, bytes]], now_ms: int, hand: Hand) -> None:
    for some in many.parts(blobs):
        names = [name for name, _ in some]
        found = hand.rows(f"SELECT name FROM blobs WHERE name IN ({', '.join('?' * len(names))})", tuple(names))  # noqa: S608
        there = {name for (name,) in found}
        packed = [(name, data, pack(data)) for name, data in some if name not in there]
        rows = [(data if small is None else small,) for _, data, small in packed]
        contents = many.inserted(hand, _CONTENT, rows)
        blobs_rows = [
            (name, now_ms, small is not None, at) for (name, _, small), at in zip(packed, contents, strict=True)
        ]
        many.changed(hand, _BLOB, blobs_rows)
        for name, data in some:
            if name in there:
                _put_blob(name, data, now_ms, hand)


_local = threading.local()


def _compressor() -> zstandard.ZstdCompressor:
    """The thread's own: it may not be used by two at once, and to make one takes longer than most images do."""
    made = getattr(_local, "compressor", None)
    if made is None:
        made = _local.compressor = zstandard.ZstdCompressor(level=3)
    return made


def pack(data: bytes) -> bytes | None:
    """None if it would not save a tenth."""
    if len(data) < _LEAST_PACKED:
        return None
    packed = _compressor().compress(data)
    return packed if len(packed) < len(data) * 9 // 10 else None


def unpack(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(data)
