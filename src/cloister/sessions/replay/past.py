"""What is on record of one finished cell: all that its behaviour depends on, read from a store and checked.

Whatever is missing makes a replay impossible and is named. Nothing that is read is trusted to have its form.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from cloister.cells.file_record import Asked, FileRecord, unpack
from cloister.core.cell import CellState
from cloister.core.digest import digest_bytes
from cloister.core.errors import CannotReplay, CellNotFound, InvalidInput
from cloister.core.language import Language, parse_language
from cloister.core.limits import SessionLimits
from cloister.core.value import Json
from cloister.core.wire import from_json
from cloister.ports.engine import Call, Catalog, Program
from cloister.ports.journal import Entry
from cloister.ports.rows import CellRow, SessionRow, SnapshotRow
from cloister.ports.store import Store
from cloister.sessions.asleep import call_from_json
from cloister.sessions.replay.paper import catalog_from_json, shown

_CELL_ID = re.compile("cel_[0-9A-Z]{1,60}")
_ENDS = frozenset({CellState.COMPLETED, CellState.FAILED, CellState.TERMINATED, CellState.INTERRUPTED})


@dataclass(frozen=True, slots=True)
class Start:
    """What the program found when it began."""

    now_ms: int
    seed: int
    image: bytes | None
    engine: str
    values: Mapping[str, Json]
    catalog: Catalog


@dataclass(frozen=True, slots=True)
class Told:
    """What the program was told of one call. With a seal it is in the journal, with neither it is a timer's end."""

    number: int
    seal: str | None = None
    other: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Past:
    cell_id: str
    session_id: str
    language: Language
    program: Program
    bounds: SessionLimits
    state: CellState
    # As `RunResult` is written down.
    result: Mapping[str, Any]
    # None for a program that never ran.
    start: Start | None
    course: Sequence[tuple[int, Sequence[Told]]]
    # The calls that the program waited for, by number, as it made them.
    calls: Mapping[int, Call]
    # After how many answers it had made each of them, at the latest.
    made: Mapping[int, int]
    entries: Mapping[int, Entry]
    # What it asked of files, and was told.
    filed: Sequence[Asked]
    # What it stored, in brief.
    written: Mapping[str, Json]


async def read_past(store: Store, cell_id: str) -> Past:
    """Raises `CellNotFound`, or `CannotReplay` for what is not, or not yet, all there."""
    row = await _cell(store, cell_id)
    session = await store.session(row.session_id)
    if session is None:
        raise _missing(cell_id, "its session")
    snapshots = await store.snapshots(row.session_id)
    entries = await store.calls(cell_id)
    try:
        start = await _start(store, row, session, snapshots)
        parts = [one.doc for one in snapshots if one.cell_id == cell_id and "course" in one.doc]
        course, calls, made = _course(row, parts)
        program = row.doc["program"]
        return Past(
            cell_id=cell_id,
            session_id=row.session_id,
            language=parse_language(session.doc["language"]),
            program=Program(program["code"], program["inputs"], program.get("cwd")),
            bounds=from_json(SessionLimits, row.doc["limits"]),
            state=CellState(row.state),
            result=row.doc["result"],
            start=start,
            course=course,
            calls=calls,
            made=made,
            entries={entry.intent.number: entry for entry in entries},
            filed=_filed(row, parts),
            written=row.doc.get("written") or {},
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CannotReplay(
            f"what is written down of cell {cell_id} cannot be read: {type(error).__name__}: {error}",
            hint="`cloister store check` looks for damage",
        ) from error


async def _cell(store: Store, cell_id: str) -> CellRow:
    if not isinstance(cast("object", cell_id), str) or _CELL_ID.fullmatch(cell_id) is None:
        raise InvalidInput(f"{str(cell_id)[:80]!r} is no id of a cell", hint="session.history() shows those there are")
    row = await store.cell(cell_id)
    if row is None:
        raise CellNotFound(f"there is no cell {cell_id} in {store.url}", hint="session.history() shows those there are")
    if "direct" in row.doc:
        raise CannotReplay(
            f"cell {cell_id} is a call that the host made itself: there is no program to go over",
            hint="its arguments and how it ended are in the journal: session.history() shows it",
        )
    if row.state not in _ENDS or "result" not in row.doc:
        raise CannotReplay(f"cell {cell_id} has not ended: it is {row.state}", hint="wait for it, or terminate it")
    if "before" not in row.doc:
        raise CannotReplay(
            f"cell {cell_id} was not written down call by call",
            hint="sessions with durability='call' can be replayed",
        )
    return row


async def _start(store: Store, row: CellRow, session: SessionRow, snapshots: Sequence[SnapshotRow]) -> Start | None:
    start: Mapping[str, Any] | None = row.doc["start"]
    if start is None:
        return None
    if "from" in start:
        raise CannotReplay(
            f"cell {row.id} began elsewhere: it came with a snapshot of a session",
            hint="replay the cell that the snapshot was made of, where it ran",
        )
    if not start["ran"]:
        return None
    docs = {one.id: one.doc for one in snapshots}
    values = start["values"] if "values" in start else _part(docs, row.id, start["values_at"], "values")
    catalog = start["catalog"] if "catalog" in start else _part(docs, row.id, start["catalog_at"], "catalog")
    image = None
    if (name := start["image"]) is not None:
        image = await store.blob(name)
        if image is None:
            raise _missing(row.id, "the namespace that it began in")
        if digest_bytes(image) != name:
            raise CannotReplay(
                f"the namespace that cell {row.id} began in is damaged", hint="`cloister store check` says more"
            )
    return Start(
        start["now_ms"],
        start["seed"],
        image,
        start["engine"],
        values,
        catalog_from_json(catalog, session.doc["mark"]),
    )


def _part(docs: Mapping[str, Mapping[str, Any]], cell_id: str, at: str, what: str) -> Any:
    if what not in docs.get(at, ()):
        raise _missing(cell_id, {"values": "the stored values", "catalog": "the names of the tools"}[what])
    return docs[at][what]


def _course(
    row: CellRow, docs: Sequence[Mapping[str, Any]]
) -> tuple[list[tuple[int, Sequence[Told]]], dict[int, Call], dict[int, int]]:
    """In order, from the waits that were written down for good and from what came after the last of them."""
    calls: dict[int, Call] = {}
    made: dict[int, int] = {}
    items: list[Any] = []
    parts = sorted(docs, key=lambda doc: doc["course"][0])
    for doc in parts:
        place, some = doc["course"]
        if place != len(items):
            raise _missing(row.id, f"what it was told after step {len(items) + 1}")
        items += some
        for call in map(call_from_json, doc["asleep"]["pending"]):
            calls.setdefault(call.number, call)
            made.setdefault(call.number, len(items))
    if (row.doc["parts"], row.doc["before"]) != (len(parts), len(items)):
        raise _missing(row.id, f"what it was told after step {len(items) + 1}")
    items += row.doc["tail"]
    return [(now_ms, [_told(one) for one in told]) for now_ms, told in items], calls, made


def _filed(row: CellRow, docs: Sequence[Mapping[str, Any]]) -> list[Asked]:
    """In order, from the same places."""
    own = row.doc.get("filed")
    if own is None:
        return []
    if (lost := FileRecord.from_json(row.doc).lost) is not None:
        raise CannotReplay(
            f"cell {row.id} cannot be replayed: {lost}",
            hint="session.fork(at=...) has the files as they were at its end, or where it waited",
        )
    items: list[Asked] = []
    for place, packed in sorted((doc["filed"] for doc in docs if "filed" in doc), key=lambda part: part[0]):
        if place != len(items):
            raise _missing(row.id, "what it was told of files")
        items += unpack(packed)
    if own["before"] != len(items):
        raise _missing(row.id, "what it was told of files")
    items += unpack(own["tail"])
    for one in items:
        if len(one) not in (3, 4):
            raise ValueError(f"{shown(one)} is no answer")
    return items


def _told(item: Any) -> Told:
    if isinstance(item, int):
        return Told(item)
    number, what = item
    if not isinstance(number, int):
        raise TypeError(f"{number!r} is no call")
    return Told(number, seal=what) if isinstance(what, str) else Told(number, other=what)


def _missing(cell_id: str, what: str) -> CannotReplay:
    return CannotReplay(
        f"cell {cell_id} cannot be replayed: {what} is not in the store any more",
        hint="it was collected, or written by an older version",
    )
