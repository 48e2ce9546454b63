"""A batch in line: checked, its docs written out, with the ticket of whoever waits for it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cloister.ports.rows import Append, Batch, Decide, Drop, Entry, EventRow, Intend, Put, PutBlob, Settle, Write
from cloister.stores.json_docs import dumps, dumps_intent, dumps_settled
from cloister.stores.postgres.columns import SHAPES, Columns, encode_entry
from cloister.stores.postgres.ticket import Ticket
from cloister.stores.rules import check_batch, table_of

# What a write takes besides its texts, roughly.
_WRITE_BYTES = 200
_SIZED = frozenset({str, bytes})


@dataclass(slots=True)
class Order:
    batch: Batch
    # Beside each write what goes into columns; () where that is the write itself.
    parts: tuple[Columns, ...]
    ticket: Ticket[tuple[int, ...]] = field(default_factory=Ticket[tuple[int, ...]])
    # About how many bytes.
    size: int = 0

    def __post_init__(self) -> None:
        sizes = [len(part) for parts in self.parts for part in parts if part.__class__ in _SIZED]
        self.size = _WRITE_BYTES * len(self.parts) + sum(sizes)

    @property
    def writes(self) -> Iterator[tuple[Write, Columns]]:
        return zip(self.batch.writes, self.parts, strict=True)

    @property
    def appends(self) -> bool:
        return any(isinstance(write, Append) for write in self.batch.writes)

    @property
    def touches_events(self) -> bool:
        """By their numbers, so that it matters which were given before."""
        return any(
            (isinstance(write, Put) and isinstance(write.row, EventRow))
            or (isinstance(write, Drop) and write.table == "events")
            for write in self.batch.writes
        )


def prepare(batch: Batch) -> tuple[Columns, ...]:
    """What of the batch goes into columns. Raises `InvalidInput` for what no store takes."""
    check_batch(batch)
    return tuple(_columns(write) for write in batch.writes)


def _columns(write: Any) -> Columns:
    match write:
        case Put(row=Entry() as entry):
            return encode_entry(entry)
        case Put(row=row) | Decide(row=row):
            return SHAPES[table_of(row)].encode(row)
        case Intend(intent=intent):
            return (dumps_intent(intent),)
        case Settle(settled=settled):
            return (dumps_settled(settled),)
        case Append():
            within = (write.thread_id, write.turn_id, write.item_id)
            return (write.session_id, write.kind, write.at_ms, dumps(write.doc), *within)
        case PutBlob(data=data):
            return (data,)
        case _:
            return ()
