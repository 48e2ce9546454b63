"""Cells of another process that nobody goes on with: how their rows end.

What they had said is kept, so that whoever waits for them gets it with the reason.
"""

import sys
from dataclasses import replace

from cloister.cells.notes import with_hint
from cloister.cells.output import Output
from cloister.core.cell import CellState
from cloister.core.codes import Code, status_of
from cloister.core.diagnostic import ErrorObject
from cloister.core.run import RunResult
from cloister.core.wire import to_json
from cloister.ports.rows import CellRow

_OF_WAITS = ("asleep", "asked", "manual")


def has_ended(row: CellRow) -> bool:
    return "result" in row.doc


def ended_row(row: CellRow, error: ErrorObject, now_ms: int) -> CellRow:
    """The cell's row when it has ended with that error, and nobody has read so yet."""
    said = Output(sys.maxsize)
    said.take_up(row.doc.get("asleep", {}).get("said", ()))
    result = RunResult(status_of(error.code), row.id, content=said.content(), error=with_hint(error))
    state = CellState.INTERRUPTED if error.code == Code.INTERRUPTED else CellState.FAILED
    doc = {key: value for key, value in row.doc.items() if key not in _OF_WAITS}
    doc |= {"result": to_json(result), "content": list(said.content())}
    return replace(row, state=str(state), live=True, ended_ms=now_ms, doc=doc, image=None)
