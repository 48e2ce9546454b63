"""A row as columns, and back. Every column has the name of its field; docs and values are JSON text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from cloister.core.call import CallStatus
from cloister.core.capability import SideEffect
from cloister.ports.journal import Entry, Intent, Settled
from cloister.ports.rows import KEYS, TABLE_OF, Row, Table
from cloister.stores.json_docs import dumps, dumps_settled, loads, loads_settled
from cloister.stores.sqlite.link import Columns


@dataclass(frozen=True, slots=True)
class Shape:
    """How one table is written and read."""

    table: Table
    # What to select, in the order that `decode` takes; what to put, in the order that `encode` gives.
    select: str
    put: str
    encode: Callable[[Any], Columns]
    decode: Callable[[Columns], Any]


# A row's fields that are JSON.
_JSON = frozenset({"blobs", "doc", "value"})
_BOOLS = frozenset({"archived", "live"})
# Not written by a put: see `MoveHead`.
_KEPT = frozenset({("sessions", "head")})


def _put_statement(table: Table, names: tuple[str, ...]) -> str:
    keys = KEYS[table]
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys)
    return (
        f'INSERT INTO "{table}" ({", ".join(names)}) VALUES ({", ".join("?" * len(names))}) '  # noqa: S608
        f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changes}"
    )


def _plain_shape(kind: type[Any], table: Table) -> Shape:
    names = tuple(field.name for field in fields(kind))
    written = tuple(name for name in names if (table, name) not in _KEPT)
    json_at = [place for place, name in enumerate(names) if name in _JSON]
    bools_at = [place for place, name in enumerate(names) if name in _BOOLS]

    def encode(row: Any) -> Columns:
        return tuple([dumps(getattr(row, name)) if name in _JSON else getattr(row, name) for name in written])

    def decode(columns: Columns) -> Any:
        parts = list(columns)
        for place in json_at:
            parts[place] = loads(parts[place])
        for place in bools_at:
            parts[place] = bool(parts[place])
        return kind(*parts)

    return Shape(table, ", ".join(names), _put_statement(table, written), encode, decode)


# -- cells: written again with each wait, which changes nothing that they are found by --------------------------------

CELL_AGAIN = (
    "UPDATE cells SET state = ?, ended_ms = ?, doc = ?, image = ?, thread_id = ?, turn_id = ?, item_id = ? "
    "WHERE id = ? AND session_id = ? AND number = ? AND live = ? AND created_ms = ? AND operation_key IS ?"
)


def columns_again(columns: Columns) -> Columns:
    """Those of a row, as `CELL_AGAIN` wants them."""
    cell_id, session_id, number, state, live, created_ms, ended_ms, doc, image, *within, key = columns
    return (state, ended_ms, doc, image, *within, cell_id, session_id, number, live, created_ms, key)


# -- calls: an intent is flat in its table, a settlement is one text --------------------------------------------------

_INTENT = "key, call_id, session_id, cell_id, number, name, side_effect, idempotent, request_digest, at_ms"
_ENTRY = f"{_INTENT}, arguments, attempts, status, settled"
# The entry without its values, which may be large and which no rule of the journal looks at.
CALL_OUTLINE = f"SELECT {_INTENT}, NULL, attempts, status, NULL FROM calls WHERE key = ?"  # noqa: S608


def encode_entry(entry: Entry) -> Columns:
    intent = entry.intent
    return (
        intent.key,
        intent.call_id,
        intent.session_id,
        intent.cell_id,
        intent.number,
        intent.name,
        intent.side_effect.value,
        intent.idempotent,
        intent.request_digest,
        intent.at_ms,
        None if intent.arguments is None else dumps(intent.arguments),
        entry.attempts,
        *settled_columns(entry.settled),
    )


def settled_columns(settled: Settled | None) -> tuple[str | None, str | None]:
    return (None, None) if settled is None else (settled.status.value, dumps_settled(settled))


def decode_entry(columns: Columns) -> Entry:
    key, call_id, session_id, cell_id, number, name, side_effect, idempotent, digest, at_ms = columns[:10]
    arguments, attempts, status, settled = columns[10:]
    intent = Intent(
        key=key,
        call_id=call_id,
        session_id=session_id,
        cell_id=cell_id,
        number=number,
        name=name,
        side_effect=SideEffect(side_effect),
        idempotent=bool(idempotent),
        arguments=None if arguments is None else loads(arguments),
        request_digest=digest,
        at_ms=at_ms,
    )
    if status is None:
        return Entry(intent, None, attempts)
    outline = Settled(key, CallStatus(status), 0)
    return Entry(intent, outline if settled is None else loads_settled(settled), attempts)


SHAPES: Mapping[Table, Shape] = {
    table: _plain_shape(kind, table)
    if kind is not Entry
    else Shape(table, _ENTRY, _put_statement(table, tuple(_ENTRY.split(", "))), encode_entry, decode_entry)
    for kind, table in TABLE_OF.items()
}


def shape_of(row: Row) -> Shape:
    return SHAPES[TABLE_OF[type(row)]]
