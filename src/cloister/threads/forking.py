"""A fork of a thread, written down: what was said up to the end of a turn, under ids of its own.

Turns, items and what models answered go along; operations of a client do not, they were the original's.
"""

from collections.abc import Iterable
from dataclasses import replace

from cloister.core.errors import InvalidInput, TurnNotFound
from cloister.core.item import ContextCompaction
from cloister.core.thread import Thread, ThreadDetail
from cloister.core.turn import Turn
from cloister.ports.rows import CellRow, Put, Write
from cloister.ports.store import Store
from cloister.threads.pen import Pen
from cloister.threads.rows import answer_copy


def turn_of_fork(detail: ThreadDetail, turn_id: str | None) -> Turn | None:
    """The turn of that id, or the last that has ended; None if none has."""
    ended = [turn for turn in detail.turns if turn.status.is_final]
    if turn_id is None:
        return ended[-1] if ended else None
    found = next((turn for turn in ended if turn.id == turn_id), None)
    if found is None:
        if any(turn.id == turn_id for turn in detail.turns):
            raise InvalidInput(f"turn {turn_id!r} has not ended", hint="fork at one that has, or interrupt it")
        raise TurnNotFound(f"thread {detail.thread.id!r} has no turn {turn_id!r}")
    return found


async def write_fork(store: Store, pen: Pen, thread: Thread, detail: ThreadDetail, until: Turn | None) -> None:
    """`detail` is the original's."""
    writes: list[Write] = [*pen.thread("thread.forked", thread)]
    new_ids: dict[str, str] = {}
    taken = [turn for turn in detail.turns if turn.status.is_final and until and turn.number <= until.number]
    for turn in taken:
        copy = replace(turn, id=pen.new_id("trn_"), thread_id=thread.id, operation_key=None)
        new_ids[turn.id] = copy.id
        writes += pen.turn("turn.completed", copy, "")
    for item in detail.items:
        if item.turn_id not in new_ids:
            continue
        new_ids[item.id] = pen.new_id("itm_")
        made = item.detail
        if isinstance(made, ContextCompaction):
            made = replace(made, through_item_id=new_ids.get(made.through_item_id, ""))
        where = {"id": new_ids[item.id], "thread_id": thread.id, "turn_id": new_ids[item.turn_id]}
        writes += pen.item(replace(item, **where, detail=made))
    for turn in taken:
        for row in await store.answers(turn.id):
            writes.append(Put(answer_copy(row, new_ids[turn.id], thread, new_ids)))
    await pen.write(*writes)


def last_cell(cells: Iterable[CellRow], until: Turn | None) -> str | None:
    """The last cell of the session's own namespace that had ended when the turn had."""
    if until is None or until.ended_at is None:
        return None
    end_ms = round(until.ended_at.timestamp() * 1000)
    found = [
        row for row in cells if row.ended_ms is not None and row.ended_ms <= end_ms and not row.doc.get("isolated")
    ]
    return max(found, key=lambda row: row.number).id if found else None
