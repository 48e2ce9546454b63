"""What a run comes back with: the cell's output, calls and ending as one result, scrubbed of secrets."""

from collections.abc import Sequence
from dataclasses import replace

from cloister.cells.cell import Cell
from cloister.cells.driver import Ended
from cloister.cells.notes import cut, forgotten, not_awaited, rolled_back, with_hint
from cloister.core.approval import Approval
from cloister.core.call import ExternalCallRecord
from cloister.core.codes import RunStatus, status_of
from cloister.core.diagnostic import Diagnostic
from cloister.core.run import Metrics, RunResult
from cloister.gate import Handles


class Reporter:
    def __init__(self, handles: Handles) -> None:
        self._handles = handles

    def ended(self, cell: Cell, ended: Ended, duration_ms: float, *, cells_forgotten: int) -> RunResult:
        ending = ended.ending
        # The common case: it ended well, said nothing, called nothing, and there is nothing to remark.
        if ending.fine and not cells_forgotten and not cell.records and cell.output.silent:
            metrics = _metrics(cell, duration_ms)
            silent = RunResult(RunStatus.OK, cell.id, ending.value, diagnostics=ended.diagnostics, metrics=metrics)
            return self._scrubbed(silent)
        extra = list(ended.diagnostics)
        cell.output.finish()
        if cell.output.dropped:
            extra.append(cut(cell.output.dropped))
        if ending.lost:
            extra.append(rolled_back())
        if cells_forgotten:
            extra.append(forgotten(cells_forgotten))
        extra += [not_awaited(name) for name in ending.never_awaited]
        error = with_hint(ending.error) if ending.error is not None else None
        result = RunResult(
            status=status_of(error.code) if error is not None else RunStatus.OK,
            cell_id=cell.id,
            result=ending.value,
            stdout=cell.output.text("stdout"),
            stderr=cell.output.text("stderr"),
            content=cell.output.content(),
            diagnostics=tuple(extra),
            external_calls=_records(cell),
            metrics=_metrics(cell, duration_ms),
            error=error,
        )
        return self._scrubbed(result)

    def waiting(
        self, cell: Cell, approvals: Sequence[Approval], diagnostics: tuple[Diagnostic, ...], duration_ms: float
    ) -> RunResult:
        result = RunResult(
            status=RunStatus.WAITING_FOR_APPROVAL,
            cell_id=cell.id,
            stdout=cell.output.so_far("stdout"),
            stderr=cell.output.so_far("stderr"),
            content=cell.output.content(),
            diagnostics=diagnostics,
            external_calls=_records(cell),
            metrics=_metrics(cell, duration_ms),
            approvals=tuple(approvals),
        )
        return self._scrubbed(result)

    def _scrubbed(self, result: RunResult) -> RunResult:
        """Output was scrubbed as it was printed and calls as they were settled; this is for what a program puts
        together from pieces."""
        redactor = self._handles.redactor()
        if not redactor:
            return result
        return replace(
            result,
            result=redactor.value(result.result),
            error=redactor.error(result.error) if result.error is not None else None,
            diagnostics=tuple(
                replace(note, message=redactor.text(note.message), hint=note.hint and redactor.text(note.hint))
                for note in result.diagnostics
            ),
        )


def _records(cell: Cell) -> tuple[ExternalCallRecord, ...]:
    return tuple(cell.records[number] for number in sorted(cell.records))


def _metrics(cell: Cell, duration_ms: float) -> Metrics:
    return Metrics(
        duration_ms=duration_ms,
        cpu_ms=round(cell.cpu_ms * 1000) / 1000,
        memory_peak_bytes=cell.memory_peak_bytes,
        instructions=cell.instructions,
        external_calls_count=len(cell.records),
    )
