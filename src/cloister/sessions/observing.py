"""What an observer is given: the content that is new, within its budget, and how the cell stands.

When something had to be cut, the whole output is in the session's files.
"""

import json
from dataclasses import replace
from typing import Any

from cloister.cells.cut import cut_middle, fit
from cloister.cells.life import Life
from cloister.core.cell import (
    CellState,
    Completed,
    Content,
    Failed,
    Interrupted,
    Observation,
    Terminated,
)
from cloister.core.codes import Code
from cloister.core.diagnostic import Diagnostic, ErrorObject, Severity
from cloister.core.errors import InvalidInput, QuotaExceeded
from cloister.core.run import RunResult
from cloister.sessions.files import Files

_SCALARS = (int, float, bool, type(None))
_LOST = ErrorObject(Code.INTERRUPTED, "the cell was stopped")


def output_path(cell_id: str) -> str:
    return f"/outputs/{cell_id}.txt"


class Teller:
    """Tells observers of one session's cells."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def news(self, life: Life) -> tuple[Content, str | None]:
        """The content since the last time, and where the whole of it is, if some of it is missing."""
        content = life.cell.output.take()
        if not content or life.max_output_bytes is None:
            return content, None
        shown, missing = fit(content, life.max_output_bytes, output_path(life.id))
        if not missing:
            return content, None
        saved = self._save(life, life.cell.output.whole())
        if saved is None:
            shown, _ = fit(content, life.max_output_bytes, None)
        return shown, saved

    def end(self, life: Life, result: RunResult, *, content: bool = True) -> Observation:
        """The end of a cell; without its content for one who only ended it, while another observes."""
        shown, saved = self.news(life) if content else ((), None)
        if life.cell.machine.state is CellState.COMPLETED:
            return self._completed(life, result, shown, saved)
        ended: dict[str, Any] = {
            "cell_id": life.id,
            "diagnostics": result.diagnostics,
            "external_calls": result.external_calls,
            "metrics": result.metrics,
        }
        match life.cell.machine.state:
            case CellState.FAILED:
                return Failed(**ended, content=shown, saved_output=saved, error=result.error or _LOST)
            case CellState.TERMINATED:
                return Terminated(**ended, content=shown, saved_output=saved)
            case _:
                return Interrupted(**ended, content=shown, saved_output=saved, error=result.error or _LOST)

    def finished(self, life: Life) -> None:
        """No more output comes: the file that was saved meanwhile gets the rest."""
        self._save(life, life.cell.output.whole())

    def _completed(self, life: Life, result: RunResult, shown: Content, saved: str | None) -> Completed:
        completed = Completed(
            cell_id=life.id,
            content=shown,
            saved_output=saved,
            diagnostics=result.diagnostics,
            external_calls=result.external_calls,
            metrics=result.metrics,
            result=result.result,
        )
        value, most = result.result, life.max_output_bytes
        if most is None or isinstance(value, _SCALARS):
            return completed
        written = json.dumps(value, ensure_ascii=False)
        if len(written) * 4 <= most or len(written.encode("utf-8", "replace")) <= most:
            return completed
        # A value that was cut is no value any more: it is shown as text, and is whole in the file.
        saved = self._save(life, f"{life.cell.output.whole()}\n{json.dumps(value, indent=1, ensure_ascii=False)}\n")
        text, _ = cut_middle(written, most, saved)
        note = Diagnostic(
            Severity.WARNING,
            Code.RESULT_TOO_LARGE,
            "the result is larger than an observation may be, and is shown as text with its middle cut",
            "keep it in a variable and return what is needed of it",
        )
        return replace(
            completed,
            diagnostics=(*result.diagnostics, note),
            content=(*shown, {"type": "input_text", "text": text}),
            saved_output=saved,
            result=None,
        )

    def _save(self, life: Life, text: str) -> str | None:
        path = output_path(life.id)
        try:
            self._files.put(path, text)
        except (QuotaExceeded, InvalidInput):
            # There is no room, or the program has put something else there.
            return None
        life.saved = True
        return path
