"""Programs: run to their end, or started as cells that go on while nobody looks."""

from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from cloister.core.cell import Observation
from cloister.core.codes import RunStatus
from cloister.core.errors import InvalidInput, InvalidLanguage
from cloister.core.language import parse_language
from cloister.core.operation import Operation
from cloister.core.run import RunResult
from cloister.core.wire import to_json
from cloister.ports.rows import CellRow
from cloister.server.answers import Cells, Seen, answer
from cloister.server.bodies import Exec, Nothing, Run, Validate, Wait
from cloister.server.routes.parts import CellId, RepeatKey, SessionId, encoded, once
from cloister.server.routing import refusals, router
from cloister.server.visit import visit_of
from cloister.sessions import Session

routes = router("cells", "/v1/sessions/{session_id}")
_RESULT: dict[int | str, dict[str, Any]] = {200: {"model": RunResult}}
_SEEN: dict[int | str, dict[str, Any]] = {200: {"model": Seen}}


@routes.post("/run", responses={**_RESULT, **refusals(404, 409, body=True)}, response_model=None)
async def run(request: Request, session_id: SessionId, body: Run, idempotency_key: RepeatKey = None) -> Response:
    """Run a program to its end, or until it waits for approval. What the program does wrong is in the result."""
    visit = visit_of(request)
    if body.session_id is not None and body.session_id != session_id:
        raise InvalidInput(f"the path says session {session_id!r}, the body {body.session_id!r}")

    async def work(session: Session, operation: Operation | None) -> Any:
        if body.language is not None and parse_language(body.language) is not session.language:
            raise InvalidLanguage(f"session {session.id!r} speaks {session.language}, not {body.language}")
        result = await session.run(
            body.code,
            inputs=body.inputs,
            limits=body.limits.said() if body.limits is not None else None,
            timeout_ms=body.timeout_ms,
            return_snapshot=body.return_snapshot,
            validate_only=body.validate_only,
            operation=operation,
        )
        if result.status is RunStatus.WAITING_FOR_APPROVAL:
            await visit.service.let_go(session, result.cell_id)
        return _told(result)

    return await once(visit, session_id, idempotency_key, body, work, visit.service.run_again)


def _told(result: RunResult) -> Any:
    if result.snapshot is None:
        return result
    return {**cast("dict[str, Any]", to_json(result)), "snapshot": encoded(result.snapshot)}


@routes.post("/validate", responses={**_RESULT, **refusals(404, 409, body=True)}, response_model=None)
async def validate(request: Request, session_id: SessionId, body: Validate) -> Response:
    """Look for mistakes without running anything."""
    session = await visit_of(request).session(session_id)
    return answer(await session.validate(body.code, inputs=body.inputs))


@routes.post("/cells", responses={**_SEEN, **refusals(404, 409, body=True)}, response_model=None)
async def exec_(request: Request, session_id: SessionId, body: Exec, idempotency_key: RepeatKey = None) -> Response:
    """Start a cell and look at it for `yield_ms`. It goes on after that, also when the client goes."""
    visit = visit_of(request)

    async def work(session: Session, operation: Operation | None) -> Observation:
        return await session.exec(
            body.code,
            yield_ms=body.yield_ms,
            max_output_tokens=body.max_output_tokens,
            isolated=body.isolated,
            inputs=body.inputs,
            limits=body.limits.said() if body.limits is not None else None,
            operation=operation,
        )

    async def again(session: Session, row: CellRow) -> Observation:
        return await visit.service.seen_again(session, row, body.yield_ms)

    return await once(visit, session_id, idempotency_key, body, work, again)


@routes.get("/cells", responses={200: {"model": Cells}, **refusals(404, 409)}, response_model=None)
async def list_(request: Request, session_id: SessionId) -> Response:
    """The cells that have not ended, and those whose end nobody has read; the oldest first."""
    session = await visit_of(request).session(session_id)
    return answer({"cells": await session.cells()})


@routes.post("/cells/{cell_id}/wait", responses={**_SEEN, **refusals(404, 409, body=True)}, response_model=None)
async def wait(request: Request, session_id: SessionId, cell_id: CellId, body: Wait | None = None) -> Response:
    """What is new of a cell: as soon as it has ended or waits for approval, and otherwise after `yield_ms`."""
    session = await visit_of(request).session(session_id)
    return answer(await session.wait(cell_id, yield_ms=(body or Wait()).yield_ms))


@routes.post("/cells/{cell_id}/terminate", responses={**_SEEN, **refusals(404, 409, body=True)}, response_model=None)
async def terminate(request: Request, session_id: SessionId, cell_id: CellId, body: Nothing | None = None) -> Response:
    """End a cell: when this answers, it has stopped and its calls are over."""
    del body
    session = await visit_of(request).session(session_id)
    return answer(await session.terminate(cell_id))
