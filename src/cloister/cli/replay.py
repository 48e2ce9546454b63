"""`cloister replay`: go over a finished cell again, and say where it first does something else.

Reads a store and changes nothing in it; whoever has it open need not stop.
"""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cloister.cli.exits import DIVERGED, INVALID, OK, USAGE
from cloister.cli.failures import complain
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.options import AsJson
from cloister.cli.store import StoreUrl, existing_store
from cloister.cli.terminal import one_json_object, safe
from cloister.core.errors import CellNotFound, CloisterError, InvalidInput

if TYPE_CHECKING:
    from cloister.core.replay import ReplayReport

CellId = Annotated[str, Parameter(help="The cell: cel_ and what follows, as `session.history()` and results say it.")]


def replay(cell: CellId, /, *, store: StoreUrl = None, as_json: AsJson = False) -> int:
    try:
        report = run_interruptibly(_replay(cell, store))
    except CloisterError as error:
        complain(error.message, error.hint)
        return USAGE if isinstance(error, (CellNotFound, InvalidInput)) else INVALID
    if as_json:
        from cloister.core.wire import to_json

        with one_json_object() as write:
            write({"ok": report.same, **to_json(report)})
    else:
        print(safe(_told(report)))
    return OK if report.same else DIVERGED


async def _replay(cell: str, url: str | None) -> "ReplayReport":
    from cloister.app.engines import EngineRoom
    from cloister.sessions.replay import replay_cell

    room = EngineRoom(workers=1, require_confinement=False)
    try:
        async with existing_store(url) as store:
            return await replay_cell(store, room.seats, cell)
    finally:
        await room.close()


def _told(report: "ReplayReport") -> str:
    if (diverged := report.diverged) is not None:
        where = [f"step {diverged.step}"] if diverged.step is not None else []
        where += [f"call {diverged.call}"] if diverged.call is not None else []
        kind = str(diverged.kind).replace("_", " ")
        return (
            f"{report.cell_id} of session {report.session_id} is not what it was at {', '.join(where) or 'its start'}: "
            f"{kind}\n  expected {diverged.expected}\n  found    {diverged.actual}"
        )
    steps = f"{report.steps} step{'' if report.steps == 1 else 's'}"
    calls = f"{report.calls} call{'' if report.calls == 1 else 's'}"
    told = f"{report.cell_id} of session {report.session_id} does what it did: {steps}, {calls}."
    return told if report.ended_from_outside is None else f"{told} Ended from outside: {report.ended_from_outside}"
