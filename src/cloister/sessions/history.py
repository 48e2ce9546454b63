"""The past of one session, from its store: what it did, and what it was at each moment that was written down.

A moment is the end of a cell, or a program's wait for calls. A fork at the end of a cell has its variables, stored
values and files; a fork at a call has the program too, waiting for that call, which nobody has made there.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from cloister.core.call import CallStatus
from cloister.core.cell import CellState
from cloister.core.errors import InvalidInput, StoreUnusable
from cloister.core.history import PastCall, PastCell, PastSnapshot
from cloister.ports.clock import moment
from cloister.ports.journal import Entry
from cloister.ports.rows import CellRow, SnapshotRow
from cloister.ports.store import Store
from cloister.sessions.direct_rows import NUMBER, is_direct
from cloister.sessions.envelope import Envelope
from cloister.sessions.files import files_at

_ID = re.compile("(cel|cal)_[0-9A-Z]{1,60}")
_WHERE = "session.history() shows the cells and calls where it can be"


async def read_history(store: Store, session_id: str) -> list[PastCell]:
    """The oldest first."""
    moments = await store.snapshots(session_id)
    of_cell: dict[str | None, list[SnapshotRow]] = {}
    for row in moments:
        of_cell.setdefault(row.cell_id, []).append(row)
    return [
        _past(row, await store.calls(row.id), of_cell.get(row.id, []))
        for row in sorted(await store.cells(session_id), key=lambda row: row.number)
    ]


def _past(row: CellRow, calls: Sequence[Entry], moments: Sequence[SnapshotRow]) -> PastCell:
    last = max((one.call_number or 0 for one in moments), default=0)
    direct = is_direct(row)
    return PastCell(
        id=row.id,
        number=row.number,
        state=CellState(row.state),
        isolated=row.doc["isolated"],
        code=row.doc["program"]["code"],
        created_at=moment(row.created_ms),
        ended_at=moment(row.ended_ms) if row.ended_ms is not None else None,
        calls=(_unmade(row),) if direct and not calls else tuple(_past_call(entry, last) for entry in calls),
        snapshots=tuple(PastSnapshot(one.id, moment(one.created_ms), one.call_number) for one in moments),
        direct=direct,
        forkable=any(one.call_number is None for one in moments),
    )


def _unmade(row: CellRow) -> PastCall:
    """A direct call that a person was asked about and that has not been made: the journal has no trace of it."""
    direct, records = row.doc["direct"], row.doc.get("result", {}).get("external_calls", ())
    status = CallStatus(records[0]["status"]) if records else CallStatus.APPROVAL_PENDING if row.live else None
    settled_at = moment(row.ended_ms) if records and row.ended_ms is not None else None
    return PastCall(
        direct["asked"]["call_id"], NUMBER, direct["name"], moment(row.created_ms), status, settled_at=settled_at
    )


def _past_call(entry: Entry, last: int) -> PastCall:
    intent, settled = entry.intent, entry.settled
    return PastCall(
        id=intent.call_id,
        number=intent.number,
        name=intent.name,
        requested_at=moment(intent.at_ms),
        status=settled.status if settled is not None else None,
        settled_at=moment(settled.at_ms) if settled is not None else None,
        forkable=intent.number <= last,
    )


async def envelope_at(store: Store, session_id: str, at: str, base: Envelope) -> Envelope:
    """The session as it was when the cell of that id had ended, or where a program waited for the call of that id.
    `base` is what it is now. Raises `InvalidInput` for an id of which nothing is written down."""
    if not isinstance(cast("object", at), str) or _ID.fullmatch(at) is None:
        raise InvalidInput(f"{str(at)[:80]!r} is no id of a cell or a call", hint=_WHERE)
    moments = await store.snapshots(session_id)
    found = await _find(store, session_id, at, moments)
    if found is None:
        raise InvalidInput(
            f"session {session_id!r} cannot be forked at {at!r}: {await _why(store, session_id, at)}", hint=_WHERE
        )
    image = await store.blob(found.image)
    if image is None:
        raise StoreUnusable(f"the bytes of snapshot {found.id} are not in the store")
    values = await _values(found, moments)
    had = {"values": values, "calls": found.doc["calls"], "files": files_at(found, moments), "contents": {}}
    if found.call_number is None:
        return replace(base, state=image, cell=None, **had, left_out=())
    row = await store.cell(found.cell_id or "")
    code = row.doc["program"]["code"] if row is not None else ""
    return replace(base, state=image, cell=_asleep(found, code, values), **had, left_out=())


def _asleep(found: SnapshotRow, code: str, values: Mapping[str, Any]) -> dict[str, Any]:
    kept = found.doc["asleep"]
    # What it said was heard; whoever forks it hears what comes.
    fresh: dict[str, Any] = {"code": code, "said": [], "dropped": 0, "begun": {}, "records": []}
    stored = {"view": dict(values), "written": found.doc["written"]}
    return {**kept, **fresh, "values": stored, "unmade": [call[0] for call in kept["pending"] if call[4] == "tool"]}


async def _find(store: Store, session_id: str, at: str, moments: Sequence[SnapshotRow]) -> SnapshotRow | None:
    if at.startswith("cel_"):
        return next((row for row in moments if row.cell_id == at and row.call_number is None), None)
    for cell in await store.cells(session_id):
        for entry in await store.calls(cell.id):
            if entry.intent.call_id == at:
                number = entry.intent.number
                waits = [row for row in moments if row.cell_id == cell.id and (row.call_number or 0) >= number]
                return min(waits, key=lambda row: row.call_number or 0, default=None)
    return None


async def _why(store: Store, session_id: str, at: str) -> str:
    row = await store.cell(at) if at.startswith("cel_") else None
    if row is None:
        return "nothing of that id is written down, or not any more"
    if row.session_id != session_id:
        return f"that is a cell of session {row.session_id!r}"
    return "it left nothing behind" if row.ended_ms is not None else "it has not ended"


async def _values(found: SnapshotRow, moments: Sequence[SnapshotRow]) -> Mapping[str, Any]:
    """Written down where they changed, and referred to from there on."""
    if "values" in found.doc:
        return found.doc["values"]
    source = next((row for row in moments if row.id == found.doc["values_at"]), None)
    if source is None:
        raise StoreUnusable(f"the stored values of snapshot {found.id} are not in the store")
    return source.doc["values"]
