"""What every store decides alike, as pure functions: the rules of the journal, what a batch may hold, what a row is
found by and which blobs it refers to.

Knows no database. A store calls `check_batch` before it touches anything, and `intended`, `settled` with the entry that
it holds under the key; what these return is the entry to hold from then on.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, TypeAlias

from cloister.core.call import CallStatus
from cloister.core.errors import InvalidInput
from cloister.ports.journal import Entry, Intent, Settled
from cloister.ports.rows import (
    KEYS,
    TABLE_OF,
    AnswerRow,
    Append,
    ApprovalRow,
    AttachmentRow,
    Batch,
    CellRow,
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

MAX_KEY_BYTES = 1024
MAX_BLOB_BYTES = 512 << 20
# A blob stays for so long after it was last put, whether a row refers to it or not: the row may come in the next batch.
BLOB_GRACE_MS = 60_000
# What a column of 64 bits holds.
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


# -- the journal ----------------------------------------------------------------------------------------------------


def intended(entry: Entry | None, intent: Intent) -> Entry:
    """The entry after an intent: its first, or one more attempt. Raises `InvalidInput` if the key does not allow it."""
    if entry is None:
        return Entry(intent)
    if not entry.intent.asks_the_same_as(intent):
        raise InvalidInput(f"call {intent.key!r} was another request: a key has one intent")
    if entry.settled is not None and entry.settled.status != CallStatus.UNKNOWN:
        raise InvalidInput(f"call {intent.key!r} is settled", hint="look it up instead of making it again")
    if not entry.intent.idempotent:
        raise InvalidInput(f"call {intent.key!r} may have happened, and must not happen twice")
    return replace(entry, settled=None, attempts=entry.attempts + 1)


def settled(entry: Entry | None, settlement: Settled) -> Entry:
    """The entry after its settlement. Raises `InvalidInput` if the key does not allow it."""
    if entry is None:
        raise InvalidInput(f"call {settlement.key!r} has no intent, so it cannot be settled")
    if entry.settled is not None:
        raise InvalidInput(f"call {settlement.key!r} is settled already")
    if settlement.status == CallStatus.APPROVAL_PENDING:
        raise InvalidInput(f"call {settlement.key!r} waits for approval, which is no end")
    return replace(entry, settled=settlement)


# -- rows -----------------------------------------------------------------------------------------------------------


def table_of(row: Row) -> Table:
    return TABLE_OF[type(row)]


def key_of(row: Row) -> tuple[str | int, ...]:
    """What the row is found by, in the order of `KEYS`."""
    if isinstance(row, Entry):
        return (row.intent.key,)
    return tuple(getattr(row, name) for name in KEYS[TABLE_OF[type(row)]])


def blobs_of(row: Row) -> tuple[str, ...]:
    """The names of the blobs that the row keeps."""
    match row:
        case SnapshotRow(image=name, blobs=blobs):
            return (name, *blobs)
        case SessionRow(image=str(name)) | CellRow(image=str(name)):
            return (name,)
        case FileRow(blob=name) | AttachmentRow(blob=name):
            return (name,)
        case _:
            return ()


# -- what a batch may hold ------------------------------------------------------------------------------------------


# What to call a field in a refusal, and whether it may be absent.
_Column: TypeAlias = tuple[str, bool]
_Values: TypeAlias = Callable[[Any], tuple[Any, ...]]


# Texts that no row is found by as a whole: they may be longer than a key.
_LONG = frozenset({(ThreadRow, "search"), (ThreadRow, "labels")})


def _columns(kind: type[Any], of: type[Any]) -> tuple[_Values, tuple[_Column, ...]]:
    """What says the values of all fields of that type, and what they are; those that may be absent come last."""
    found = [field for field in fields(kind) if field.type in (of, of | None) and (kind, field.name) not in _LONG]
    found.sort(key=lambda field: field.type == of | None)
    columns = tuple((f"{kind.__name__}.{field.name}", field.type == of | None) for field in found)
    return _values([field.name for field in found]), columns


def _values(names: Sequence[str]) -> _Values:
    if not names:
        return lambda _part: ()
    if len(names) == 1:
        get = attrgetter(names[0])
        return lambda part: (get(part),)
    return attrgetter(*names)


_KINDS: tuple[type[Any], ...] = (
    SessionRow,
    CellRow,
    ApprovalRow,
    SnapshotRow,
    EventRow,
    ValueRow,
    FileRow,
    SecretRow,
    AttachmentRow,
    ThreadRow,
    TurnRow,
    ItemRow,
    AnswerRow,
    InputRow,
    ToolCallRow,
    Intent,
    Settled,
    PutBlob,
    Append,
    MoveHead,
    Fence,
)
# Every field that is a plain text or number is a column somewhere.
_TEXTS = {kind: _columns(kind, str) for kind in _KINDS}
_NUMBERS = {kind: _columns(kind, int) for kind in _KINDS}


def check_key(text: object, what: str) -> None:
    """Raises `InvalidInput` unless `text` can be a key: text without NUL, of up to `MAX_KEY_BYTES`."""
    size = _check_text(text, what)
    if size > MAX_KEY_BYTES:
        raise InvalidInput(f"{what} takes {size} bytes, which is over the bound of {MAX_KEY_BYTES}")


def _check_text(text: object, what: str) -> int:
    """How many bytes it takes."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be text, not {text!r}")
    if "\x00" in text:
        raise InvalidInput(f"{what} has a NUL in it: {text!r:.100}")
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} has half a surrogate pair in it: {text!r:.100}") from None


def check_batch(batch: Batch) -> None:
    """Raises `InvalidInput` for keys, numbers and blobs that no store takes. Docs are checked when they are encoded."""
    if batch.fence is not None:
        _check_columns(batch.fence)
    for write in batch.writes:
        _check_write(write)


def _check_write(write: Write) -> None:
    match write:
        case Put(row=Entry() as entry):
            _check_entry(entry)
        case Put(row=row):
            _check_columns(row)
            if isinstance(row, EventRow) and row.seq < 1:
                raise InvalidInput(f"events are numbered from 1, not {row.seq}")
            if isinstance(row, ThreadRow):
                _check_text(row.search, "ThreadRow.search")
                _check_text(row.labels, "ThreadRow.labels")
            if isinstance(row, SnapshotRow):
                for name in row.blobs:
                    check_key(name, "SnapshotRow.blobs")
        case Drop(table=table, key=key):
            check_row_key(table, key)
        case PutBlob(data=data):
            _check_columns(write)
            if len(data) > MAX_BLOB_BYTES:
                raise InvalidInput(f"a blob of {len(data)} bytes is over the bound of {MAX_BLOB_BYTES}")
        case Intend(intent=intent):
            _check_columns(intent)
        case Settle(settled=settlement):
            _check_columns(settlement)
        case Decide(row=row, was=was):
            check_key(was, "Decide.was")
            _check_columns(row)
        case Append() | MoveHead():
            _check_columns(write)


def _check_entry(entry: Entry) -> None:
    _check_columns(entry.intent)
    if entry.settled is not None:
        _check_columns(entry.settled)
        if entry.settled.key != entry.intent.key:
            raise InvalidInput(f"the settlement of {entry.settled.key!r} is not that of {entry.intent.key!r}")


def check_row_key(table: Table, key: tuple[str | int, ...]) -> None:
    """Raises `InvalidInput` unless `key` could be a row's, in that table."""
    names = KEYS[table]
    if len(key) != len(names):
        raise InvalidInput(f"a key of {table} is ({', '.join(names)}), not {key!r:.200}")
    for name, part in zip(names, key, strict=True):
        if name in ("seq", "number"):
            _check_number(part, f"{table}.{name}")
        else:
            check_key(part, f"{table}.{name}")


def _check_columns(part: Any) -> None:
    kind: type[Any] = part.__class__
    values, columns = _TEXTS[kind]
    texts = values(part)
    if not _are_plain(texts, columns):
        for text, (what, may_be_absent) in zip(texts, columns, strict=True):
            if text is not None or not may_be_absent:
                check_key(text, what)
    values, columns = _NUMBERS[kind]
    for number, (what, may_be_absent) in zip(values(part), columns, strict=True):
        if number.__class__ is int and _LEAST <= number <= _MOST:
            continue
        if number is not None or not may_be_absent:
            _check_number(number, what)


def _are_plain(texts: tuple[Any, ...], columns: tuple[_Column, ...]) -> bool:
    """Whether they are so ordinary that each is a key, as they nearly always are: together they are short and of ASCII
    that is printed. Asked a hundred times for every call that is made, so all of them are looked at as one."""
    most = len(texts)
    while most and texts[most - 1] is None and columns[most - 1][1]:
        most -= 1
    try:
        text = "".join(texts[:most])
    except TypeError:
        # One is no text, or absent among others that are there.
        return False
    return len(text) <= MAX_KEY_BYTES and text.isascii() and text.isprintable()


def _check_number(number: object, what: str) -> None:
    if not isinstance(number, int) or not _LEAST <= number <= _MOST:
        raise InvalidInput(f"{what} must be a whole number of 64 bits, not {number!r:.100}")
