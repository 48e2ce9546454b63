"""Programs as items: run once, observed, told.

A cell is found again by its item. One that has ended and been read before a crash, and of which the model was not told,
is told from what was written down. While a person has to answer, nobody waits but the turn.
"""

from dataclasses import replace
from typing import Any

from cloister.core.cell import (
    Content,
    Failed,
    Interrupted,
    Observation,
    WaitingForApproval,
    Yielded,
)
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import CellBusy, CellNotFound, CodeExecutionUnavailable, InvalidInput
from cloister.core.item import CellRun, Item, ToolCall
from cloister.core.turn import Status
from cloister.threads.drivers.hints import hinted
from cloister.threads.drivers.telling import refused, seen_of
from cloister.threads.drivers.workers import named, no_worker
from cloister.threads.open_turn import OpenTurn


async def run_cell(turn: OpenTurn, item: Item) -> None:
    """A program to its end, or until it yields."""
    detail = item.detail
    assert isinstance(detail, CellRun)
    if detail.error is not None:
        await turn.end(item, Status.FAILED, replace(detail, content=refused(detail.error), outcome="refused"))
        return
    seen, content = await _to_the_end(turn, await _begun(turn, item), detail.code)
    if isinstance(seen, Yielded):
        turn.goes_on(seen.cell_id)
    error = seen.error if isinstance(seen, (Failed, Interrupted)) else None
    told = replace(detail, cell_id=seen.cell_id, content=content, error=error, outcome=seen.status)
    await turn.end(item, Status.FAILED if error is not None else Status.COMPLETED, told)
    if error is not None and error.code == CodeExecutionUnavailable.code:
        raise no_worker()


async def wait_for_cell(turn: OpenTurn, item: Item) -> None:
    """What is new of a cell that went on."""
    detail = item.detail
    assert isinstance(detail, ToolCall)
    given: dict[str, Any] = dict(detail.arguments)
    cell_id = given.pop("cell_id")
    if isinstance(cell_id, str):
        turn.tends(cell_id)
    try:
        seen, content = await _to_the_end(turn, await _looked_at(turn, cell_id, given))
    except (CellNotFound, CellBusy, InvalidInput) as wrong:
        error = ErrorObject(wrong.code, wrong.message, wrong.hint)
        told = replace(detail, success=False, content=refused(error), error=error)
        await turn.end(item, Status.FAILED, told)
        return
    finally:
        if isinstance(cell_id, str):
            # It may go on, and the turn be interrupted. Of one that has been read there is nothing to hear.
            turn.goes_on(cell_id)
    # The call went well, also where it tells of a program that did not.
    await turn.end(item, detail=replace(detail, cell_id=seen.cell_id, success=True, content=content))


async def _begun(turn: OpenTurn, item: Item) -> Observation:
    if turn.resumed:
        cell_id = await turn.cell_of(item)
        if cell_id is not None:
            return await turn.session.wait(cell_id)
        past = await turn.end_of(item)
        if past is not None:
            return past
    return await turn.exec(item, item.detail.code)


async def _looked_at(turn: OpenTurn, cell_id: Any, terms: dict[str, Any]) -> Observation:
    try:
        return await turn.session.wait(cell_id, **terms)
    except CellNotFound:
        past = await turn.past_cell(cell_id) if turn.resumed and isinstance(cell_id, str) else None
        if past is None:
            raise
        return past


async def _to_the_end(turn: OpenTurn, seen: Observation, code: str = "") -> tuple[Observation, Content]:
    """On, past all questions to people; with all that was said meanwhile."""
    said: Content = ()
    while isinstance(seen, WaitingForApproval):
        said += seen.content
        await turn.session.decided([approval.id for approval in seen.approvals])
        seen = await turn.session.wait(seen.cell_id)
    seen = named(seen)
    if isinstance(seen, Failed):
        session = turn.session
        seen = replace(seen, error=hinted(seen.error, code, session.language, session.tools))
    return seen, (*said, *seen_of(seen))
