"""The SQL that carries out a tally: a few statements over arrays, however many batches there were."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from cloister.ports.rows import PutBlob, Table
from cloister.stores.postgres.arrays import column
from cloister.stores.postgres.columns import SHAPES, Columns, Shape
from cloister.stores.postgres.order import Order
from cloister.stores.postgres.tally import Asked, Expected, Tally

# SQL of ours, and what goes beside it.
Statement: TypeAlias = tuple[str, Sequence[Any]]

PART_BYTES = 4 << 20
# Blobs above this are asked for before they are sent: what is there already need not travel.
LARGE_BLOB = 64 << 10

BEGIN: Statement = ("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", ())
COMMIT: Statement = ("COMMIT", ())
_WRITE_LOCK = 0x436C6F57


def write_lock(number: int) -> Statement:
    """One transaction at a time changes a store. That keeps events in order and claims apart from writes, and groups
    that touch the same rows in another order cannot deadlock."""
    return ("SELECT pg_advisory_xact_lock(%b::int8::int4, %b::int8::int4)", (_WRITE_LOCK, number))


# -- what is expected -----------------------------------------------------------------------------------------------

_EXPECT_FENCES = """SELECT expect(count(*) = %b) FROM unnest(%b::text[], %b::int8[]) AS e (id, token)
JOIN leases l ON l.session_id = e.id AND l.fence = e.token"""
_EXPECT_ABSENT = "SELECT expect(count(*) = 0) FROM calls WHERE key = ANY(%b::text[])"
_EXPECT_UNSETTLED = "SELECT expect(count(*) = %b) FROM calls WHERE key = ANY(%b::text[]) AND settled IS NULL"
_EXPECT_APPROVALS = """SELECT expect(count(*) = %b) FROM unnest(%b::text[], %b::text[]) AS e (id, state)
JOIN approvals a ON a.id = e.id AND a.state = e.state"""
_EXPECT_HEADS = """SELECT expect(count(*) = %b) FROM unnest(%b::text[], %b::int8[]) AS e (id, head)
JOIN sessions s ON s.id = e.id AND s.head = e.head"""


def expectations(expected: Expected) -> Iterator[Statement]:
    if expected.fences:
        yield _EXPECT_FENCES, (len(expected.fences), column(expected.fences), column(expected.fences.values()))
    if expected.absent:
        yield _EXPECT_ABSENT, (column(expected.absent),)
    if expected.unsettled:
        yield _EXPECT_UNSETTLED, (len(expected.unsettled), column(expected.unsettled))
    if expected.approvals:
        yield (
            _EXPECT_APPROVALS,
            (len(expected.approvals), column(expected.approvals), column(expected.approvals.values())),
        )
    if expected.heads:
        yield _EXPECT_HEADS, (len(expected.heads), column(expected.heads), column(expected.heads.values()))


# -- what is held ---------------------------------------------------------------------------------------------------


def questions(asked: Asked, blobs: Sequence[str]) -> list[Statement]:
    """In this order: fences, calls, approvals, heads, blobs."""
    return [
        ("SELECT session_id, fence FROM leases WHERE session_id = ANY(%b::text[])", (column(asked.fences),)),
        ("SELECT key, intent, settled, attempts FROM calls WHERE key = ANY(%b::text[])", (column(asked.calls),)),
        ("SELECT id, state, session_id FROM approvals WHERE id = ANY(%b::text[])", (column(asked.approvals),)),
        ("SELECT id, head FROM sessions WHERE id = ANY(%b::text[])", (column(asked.heads),)),
        ("SELECT name FROM blobs WHERE name = ANY(%b::text[])", (column(blobs),)),
    ]


# -- what is done ---------------------------------------------------------------------------------------------------

_OF_SESSION: tuple[Table, ...] = (
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
_DROP_SESSIONS = [
    *(
        f'DELETE FROM "{table}" WHERE session_id = ANY(%b::text[])'  # noqa: S608 - names of ours
        for table in (*_OF_SESSION, "leases")
    ),
    "DELETE FROM sessions WHERE id = ANY(%b::text[])",
]

_UPDATE_CALLS = """UPDATE calls AS c SET settled = u.settled, attempts = coalesce(u.attempts, c.attempts)
FROM unnest(%b::text[], %b::text[], %b::int8[]) AS u (key, settled, attempts) WHERE c.key = u.key"""
_UPDATE_HEADS = """UPDATE sessions AS s SET head = u.head
FROM unnest(%b::text[], %b::int8[]) AS u (id, head) WHERE s.id = u.id"""
_PUT_BLOBS = """INSERT INTO blobs (name, size_bytes, put_ms)
SELECT name, size_bytes, coalesce(%b::int8, now_ms()) FROM unnest(%b::text[], %b::int8[]) AS b (name, size_bytes)
ON CONFLICT (name) DO UPDATE SET put_ms = excluded.put_ms"""
_PUT_PARTS = """INSERT INTO blob_parts (name, part, data)
SELECT name, part, data FROM unnest(%b::text[], %b::int8[], %b::bytea[]) AS p (name, part, data)
ON CONFLICT (name, part) DO NOTHING"""
_COUNT_ON = """SELECT setval('event_numbers', greatest(%b::int8, (SELECT last_value FROM event_numbers)))"""
_APPEND = """WITH new AS (
    INSERT INTO events (seq, session_id, kind, at_ms, doc, thread_id, turn_id, item_id)
    SELECT nextval('event_numbers'), session_id, kind, at_ms, doc, thread_id, turn_id, item_id FROM (
        SELECT * FROM unnest(%b::text[], %b::text[], %b::int8[], %b::text[], %b::text[], %b::text[], %b::text[])
        WITH ORDINALITY AS e (session_id, kind, at_ms, doc, thread_id, turn_id, item_id, place) ORDER BY place
    ) AS e RETURNING seq
) SELECT array_agg(seq ORDER BY seq), pg_notify(%b, max(seq)::text) FROM new"""
_NOTIFY = "SELECT pg_notify(%b, %b)"


def _upsert(shape: Shape) -> str:
    arrays = ", ".join(f"%b::{kind}[]" for kind in shape.types)
    rest = [column for column in shape.columns if column not in shape.keys]
    changes = ", ".join(f"{column} = excluded.{column}" for column in rest)
    columns = ", ".join(shape.columns)
    return (
        f"INSERT INTO {shape.name} ({columns}) SELECT * FROM unnest({arrays}) "  # noqa: S608 - names of ours
        f"ON CONFLICT ({', '.join(shape.keys)}) DO UPDATE SET {changes}"
    )


def _delete(shape: Shape) -> str:
    kinds = [shape.types[shape.columns.index(key)] for key in shape.keys]
    arrays = ", ".join(f"%b::{kind}[]" for kind in kinds)
    same = " AND ".join(f"t.{key} = d.{key}" for key in shape.keys)
    return f"DELETE FROM {shape.name} t USING unnest({arrays}) AS d ({', '.join(shape.keys)}) WHERE {same}"  # noqa: S608


_UPSERTS = {table: _upsert(shape) for table, shape in SHAPES.items()}
_DELETES = {table: _delete(shape) for table, shape in SHAPES.items()}


def changes(tally: Tally) -> Iterator[Statement]:
    """All but the events: what goes first, then what comes."""
    if tally.dropped:
        ids = column(tally.dropped)
        yield from ((sql, (ids,)) for sql in _DROP_SESSIONS)
    for table, rows in tally.rows.items():
        if not rows:
            continue
        if gone := [key for key, row in rows.items() if row is None]:
            yield _DELETES[table], _turned(gone)
        if there := [row for row in rows.values() if row is not None]:
            yield _UPSERTS[table], _turned(there)
            if table == "events":
                yield _COUNT_ON, (max(row[0] for row in there),)
    if tally.calls:
        yield from _call_changes(tally)
    if tally.heads:
        yield _UPDATE_HEADS, (column(tally.heads), column(tally.heads.values()))


def _call_changes(tally: Tally) -> Iterator[Statement]:
    gone: list[Columns] = []
    whole: list[Columns] = []
    partly: list[Columns] = []
    for key, change in tally.calls.items():
        if change is None:
            gone.append((key,))
        elif change.intent is None:
            partly.append((key, change.settled, change.attempts))
        else:
            assert change.entry is not None
            intent = change.entry.intent
            place = (key, intent.session_id, intent.cell_id, intent.number)
            whole.append((change.intent, change.settled, change.attempts, *place))
    if gone:
        yield _DELETES["calls"], _turned(gone)
    if whole:
        yield _UPSERTS["calls"], _turned(whole)
    if partly:
        yield _UPDATE_CALLS, _turned(partly)


def asked_for(group: Iterable[Order]) -> list[str]:
    """The large blobs among what they put."""
    return [
        write.name
        for order in group
        for write in order.batch.writes
        if isinstance(write, PutBlob) and len(write.data) > LARGE_BLOB
    ]


def put_blobs(blobs: dict[str, bytes], there: Iterable[str], now_ms: int | None) -> Iterator[Statement]:
    """Those that are there already are only marked as put again."""
    if not blobs:
        return
    yield _PUT_BLOBS, (now_ms, column(blobs), column([len(data) for data in blobs.values()]))
    known = set(there)
    parts: list[Columns] = []
    held = 0
    for name, data in blobs.items():
        if name in known:
            continue
        for part, start in enumerate(range(0, len(data) or 1, PART_BYTES)):
            piece = data[start : start + PART_BYTES]
            parts.append((name, part, piece))
            held += len(piece)
            if held >= PART_BYTES:
                yield _PUT_PARTS, _turned(parts)
                parts, held = [], 0
    if parts:
        yield _PUT_PARTS, _turned(parts)


def append(events: Sequence[Columns], channel: str) -> Statement:
    """Comes last: a number that was taken is gone, even if the transaction fails."""
    return _APPEND, (*_turned(events), channel)


def announce(seq: int, channel: str) -> Statement:
    return _NOTIFY, (channel, str(seq))


def _turned(rows: Sequence[Columns]) -> list[list[Any]]:
    """Rows as columns."""
    return [column(values) for values in zip(*rows, strict=True)]
