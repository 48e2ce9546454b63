"""A look at a program without running any of it, in the namespace that it would run in."""

import asyncio

from cloister.cells.notes import first_error
from cloister.cells.seats import Seats
from cloister.core.codes import Code, RunStatus, status_of
from cloister.core.diagnostic import ErrorObject
from cloister.core.run import Metrics, RunResult
from cloister.ports.engine import Checked, Program, Turn, TypeCheck
from cloister.sessions.cells import Cells

ASLEEP = ErrorObject(
    Code.INVALID_INPUT,
    "the session sleeps in the middle of a cell",
    "decide its approvals and resume() it, or terminate() that cell first",
)


async def check_program(cells: Cells, seats: Seats, program: Program, types: TypeCheck, turn: Turn) -> Checked | None:
    """What is found once it is its turn; None when a cell sleeps on the namespace. Types are looked at in any case."""
    place = await cells.order.turn()
    if place is None:
        return None
    try:
        looked_at = cells.driver.namespace
        interpreter = await seats.take(looked_at)
        try:
            shown = TypeCheck.WARN if types is TypeCheck.OFF else types
            checked = await interpreter.check(program, shown, turn, starting=False)
        except BaseException:
            await asyncio.shield(seats.lose(looked_at))
            raise
        await seats.leave(looked_at)
        return checked
    finally:
        cells.order.leave(place)


def checked_result(checked: Checked, cell_id: str, seconds: float) -> RunResult:
    """What was found, as the result of a run that did not run."""
    error = first_error(checked.diagnostics)
    return RunResult(
        status=status_of(error.code) if error else RunStatus.OK,
        cell_id=cell_id,
        diagnostics=checked.diagnostics,
        error=error,
        metrics=Metrics(duration_ms=round(seconds * 1000, 3)),
    )
