"""A write as what the writer does for it: a step, made where the batch is handed over, run inside its savepoint.

Docs are encoded when the step is made: that holds the interpreter, whichever thread does it, and to find out beforehand
how large they are takes longer than most of them do. Blobs are packed by the writer, beside the event loop.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import apsw
import zstandard

from cloister.core.call import CallStatus
from cloister.core.errors import LeaseLost, StoreConflict
from cloister.ports.journal import Entry, Intent, Settled
from cloister.ports.rows import (
    KEYS,
    Append,
    ApprovalRow,
    Batch,
    CellRow,
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
from cloister.stores.json_docs import dumps
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

    __slots__ = ("appended", "fences")

    def __init__(self, raw: apsw.Connection) -> None:
        super().__init__(raw)
        # The numbers of the events that this batch has appended.
        self.appended: list[int] = []
        # Those that were found to fit in this transaction: nobody else can change them in it.
        self.fences: dict[str, int] = {}

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
    steps = tuple([_step(write, now_ms) for write in _made_and_settled(batch.writes)])
    weight = _WRITE_BYTES * len(steps)
    for step in steps:
        for part in step.args:
            if part.__class__ is tuple:
                weight += _doc_bytes(part)
            elif part.__class__ is bytes:
                weight += len(part)
    return Steps(batch.fence, steps, weight)


@dataclass(frozen=True, slots=True)
class _Made:
    """A call whose intent and settlement are in one batch."""

    intent: Intent
    settled: Settled


def _made_and_settled(writes: Sequence[Write]) -> Sequence[Write | _Made]:
    """The same writes, with both parts of a call as one: that is one statement, and the row is written once."""
    out: list[Write | _Made] = []
    # Where an intent is that nothing was written about since.
    intents: dict[str, int] = {}
    for write in writes:
        match write:
            case Intend(intent=intent):
                if intents.pop(intent.key, None) is None:
                    intents[intent.key] = len(out)
            case Settle(settled=settled) if settled.status is not CallStatus.APPROVAL_PENDING:
                place = intents.pop(settled.key, None)
                if place is not None:
                    made = out[place]
                    assert isinstance(made, Intend)
                    out[place] = _Made(made.intent, settled)
                    continue
            case Drop() | Put(row=Entry()):
                intents.clear()
            case _:
                pass
        out.append(write)
    return out


def _doc_bytes(columns: Columns) -> int:
    """Of the largest: of those that are no docs, none is of a size that matters."""
    return max([len(column) for column in columns if column.__class__ is str], default=0)


def _step(write: Write | _Made, now_ms: int) -> Step:
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
        case _Made(intent=intent, settled=settled):
            return partial(_make, intent, settled, encode_entry(Entry(intent, settled)))
        case Append(session_id=session_id, kind=kind, at_ms=at_ms, doc=doc):
            within = (write.thread_id, write.turn_id, write.item_id)
            return partial(_append, (session_id, kind, at_ms, dumps(doc), *within))
        case Decide(row=row, was=was):
            return partial(_decide, row, dumps(row.doc), was)
        case MoveHead(session_id=session_id, was=was):
            return partial(_move_head, session_id, was)


# -- the steps: each with its columns first and the writer's hand last ------------------------------------------------


def _run(statement: str, columns: Columns, hand: Hand) -> None:
    hand.run(statement, columns)


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


def _make(intent: Intent, settled: Settled, columns: Columns, hand: Hand) -> None:
    if not hand.changes(_INTEND, columns):
        # The key is known: the rules of the journal say what may be written over it.
        _intend(intent, encode_entry(Entry(intent)), hand)
        _settle(settled, settled_columns(settled), hand)


def _outline(hand: Hand, key: str) -> Entry | None:
    found = hand.rows(CALL_OUTLINE, (key,))
    return decode_entry(found[0]) if found else None


_APPEND = "INSERT INTO events (session_id, kind, at_ms, doc, thread_id, turn_id, item_id) VALUES (?, ?, ?, ?, ?, ?, ?)"


def _append(columns: Columns, hand: Hand) -> None:
    seq = hand.inserted(_APPEND, columns)
    hand.appended.append(seq)


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


def _put_blob(name: str, data: bytes, now_ms: int, hand: Hand) -> None:
    if hand.changes("UPDATE blobs SET written_ms = max(written_ms, ?) WHERE name = ?", (now_ms, name)):
        return
    packed = pack(data)
    content = hand.inserted("INSERT INTO contents (data) VALUES (?)", (data if packed is None else packed,))
    hand.run("INSERT INTO blobs VALUES (?, ?, ?, ?)", (name, now_ms, packed is not None, content))


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
