"""Rows as columns: what is written of each, and how it is made again from what is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from cloister.ports.journal import Entry
from cloister.ports.rows import (
    KEYS,
    TABLE_OF,
    AnswerRow,
    ApprovalRow,
    AttachmentRow,
    CellRow,
    EventRow,
    FileRow,
    InputRow,
    ItemRow,
    Row,
    SecretRow,
    SessionRow,
    SnapshotRow,
    Table,
    ThreadRow,
    ToolCallRow,
    TurnRow,
    ValueRow,
)
from cloister.stores.json_docs import dumps, dumps_intent, dumps_settled, loads, loads_intent, loads_settled

Columns: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A table: its columns in the order of the row's fields, with their types, and those that are JSON."""

    table: Table
    columns: tuple[str, ...]
    types: tuple[str, ...]
    docs: frozenset[int]
    make: Callable[..., Row]
    # Read, but not written by a put.
    extra: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """In SQL, where `values` is a word of the language."""
        return f'"{self.table}"'

    @property
    def keys(self) -> tuple[str, ...]:
        return KEYS[self.table]

    @property
    def selected(self) -> str:
        return ", ".join((*self.columns, *self.extra))

    def encode(self, row: Row) -> Columns:
        parts = [getattr(row, column) for column in self.columns]
        for place in self.docs:
            parts[place] = dumps(parts[place])
        return tuple(parts)

    def decode(self, columns: Columns) -> Any:
        parts = list(columns)
        for place in self.docs:
            parts[place] = loads(parts[place])
        return self.make(*parts)


def _shape(make: type[Any], columns: str, extra: tuple[str, ...] = ()) -> Shape:
    pairs = [column.split() for column in columns.split(",")]
    return Shape(
        table=TABLE_OF[make],
        columns=tuple(name for name, _ in pairs),
        types=tuple("text" if kind == "json" else kind for _, kind in pairs),
        docs=frozenset(place for place, (_, kind) in enumerate(pairs) if kind == "json"),
        make=make,
        extra=extra,
    )


def _entry(intent: str, settled: str | None, attempts: int, *_: Any) -> Entry:
    return Entry(loads_intent(intent), None if settled is None else loads_settled(settled), attempts)


def encode_entry(entry: Entry) -> Columns:
    intent = entry.intent
    settled = None if entry.settled is None else dumps_settled(entry.settled)
    place = (intent.key, intent.session_id, intent.cell_id, intent.number)
    return (dumps_intent(intent), settled, entry.attempts, *place)


SHAPES: Mapping[Table, Shape] = {
    shape.table: shape
    for shape in (
        _shape(SessionRow, "id text, created_ms int8, used_ms int8, doc json, image text, tenant text", ("head",)),
        _shape(
            CellRow,
            "id text, session_id text, number int8, state text, live bool, created_ms int8, ended_ms int8, doc json,"
            " image text, thread_id text, turn_id text, item_id text, operation_key text",
        ),
        _shape(ApprovalRow, "id text, session_id text, cell_id text, state text, created_ms int8, doc json"),
        _shape(
            SnapshotRow,
            "id text, session_id text, created_ms int8, image text, cell_id text, call_number int8, doc json,"
            " blobs json",
        ),
        _shape(
            EventRow,
            "seq int8, session_id text, kind text, at_ms int8, doc json, thread_id text, turn_id text, item_id text",
        ),
        _shape(ValueRow, "session_id text, key text, value json, created_ms int8, updated_ms int8"),
        _shape(FileRow, "session_id text, path text, blob text, size_bytes int8, modified_ms int8, doc json"),
        _shape(SecretRow, "session_id text, name text, sealed bytea, created_ms int8, updated_ms int8, doc json"),
        _shape(
            AttachmentRow, "session_id text, blob text, media_type text, size_bytes int8, created_ms int8, doc json"
        ),
        _shape(
            ThreadRow,
            "id text, session_id text, created_ms int8, updated_ms int8, tenant text, archived bool, search text,"
            " labels text, doc json",
        ),
        _shape(
            TurnRow,
            "id text, session_id text, thread_id text, number int8, state text, live bool, created_ms int8,"
            " ended_ms int8, operation_key text, doc json",
        ),
        _shape(
            ItemRow,
            "id text, session_id text, thread_id text, turn_id text, kind text, state text, created_ms int8, doc json",
        ),
        _shape(
            AnswerRow,
            "turn_id text, number int8, session_id text, thread_id text, request_digest text, at_ms int8, doc json",
        ),
        _shape(
            InputRow,
            "id text, session_id text, thread_id text, state text, created_ms int8, turn_id text, client_id text,"
            " doc json",
        ),
        _shape(
            ToolCallRow,
            "id text, session_id text, thread_id text, turn_id text, state text, created_ms int8, doc json",
        ),
        Shape(
            table="calls",
            columns=("intent", "settled", "attempts", "key", "session_id", "cell_id", "number"),
            types=("text", "text", "int8", "text", "text", "text", "int8"),
            docs=frozenset(),
            make=_entry,
        ),
    )
}
