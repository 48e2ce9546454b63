"""Ends of cells that are no fault of their programs: there was no worker for one, or its worker died under it.

A thread has names of its own for both, whatever the engine. The first ends the turn, because the next program would
find none either; the second is told to the model, whose next program gets another worker. Neither ends the thread.
"""

import logging
from dataclasses import replace

from cloister.core.cell import Failed, Interrupted, Observation
from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import CodeExecutionUnavailable, ConfinementUnavailable, EngineUnavailable

log = logging.getLogger("cloister.threads")
STOPPED = "code_execution_stopped"
_NO_WORKER = (EngineUnavailable.code, ConfinementUnavailable.code)


def named(seen: Observation) -> Observation:
    """The same, with the thread's name for what became of its worker."""
    match seen:
        case Failed(error=ErrorObject(code=Code.ENGINE_CRASHED) as error):
            return replace(seen, error=replace(error, code=STOPPED))
        case Interrupted(diagnostics=notes) if any(note.code in _NO_WORKER for note in notes):
            log.error("cell %s found no worker: %s", seen.cell_id, seen.error.message)
            # What is wrong with the host is for its log, not for a model.
            others = tuple(note for note in notes if note.code not in _NO_WORKER)
            missing = no_worker()
            error = ErrorObject(missing.code, missing.message, missing.hint)
            return replace(seen, error=error, diagnostics=others)
        case _:
            return seen


def no_worker() -> CodeExecutionUnavailable:
    return CodeExecutionUnavailable(
        "programs cannot be run now: no worker starts", hint="the log of the host says why; then begin another turn"
    )
