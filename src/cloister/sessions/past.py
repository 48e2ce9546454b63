"""Cells whose end somebody has read: what was told of it then, told once more from what was written down."""

from typing import Any

from cloister.cells.cut import fit
from cloister.core.cell import CellState, Completed, Failed, Interrupted, Observation, Terminated
from cloister.core.diagnostic import ErrorObject
from cloister.core.run import RunResult
from cloister.core.wire import from_json
from cloister.ports.rows import CellRow

_LOST = ErrorObject("INTERRUPTED", "the cell was stopped")


def end_of(row: CellRow | None) -> Observation | None:
    """How the cell has ended, with all of its output; None for one that is still to be read."""
    if row is None or (result := result_of(row)) is None:
        return None
    content, most = result.content, row.doc.get("max_output_bytes")
    if most is not None:
        content, _ = fit(content, most)
    common: dict[str, Any] = {
        "cell_id": row.id,
        "content": content,
        "diagnostics": result.diagnostics,
        "external_calls": result.external_calls,
        "metrics": result.metrics,
    }
    match CellState(row.state):
        case CellState.COMPLETED:
            return Completed(**common, result=result.result)
        case CellState.TERMINATED:
            return Terminated(**common)
        case CellState.INTERRUPTED:
            return Interrupted(**common, error=result.error or _LOST)
        case _:
            return Failed(**common, error=result.error or _LOST)


def result_of(row: CellRow) -> RunResult | None:
    """The same, as a run tells it."""
    return from_json(RunResult, row.doc["result"]) if not row.live and "result" in row.doc else None
