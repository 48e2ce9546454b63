"""Secrets: put in, used by programs through handles, and never told again."""

from typing import Annotated

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from cloister.server.answers import Destroyed, Secrets, SecretSet, answer
from cloister.server.bodies import PutSecret
from cloister.server.problems import Problem
from cloister.server.routes.parts import SessionId
from cloister.server.routing import refusals, router
from cloister.server.visit import visit_of

routes = router("secrets", "/v1/sessions/{session_id}/secrets")
Name = Annotated[str, Path(min_length=1, max_length=256)]


@routes.get("", responses={200: {"model": Secrets}, **refusals(404, 409)}, response_model=None)
async def list_(request: Request, session_id: SessionId) -> Response:
    """Names, times, and what each is allowed for."""
    session = await visit_of(request).session(session_id)
    return answer({"secrets": await session.secrets.list()})


@routes.put("/{name}", responses={200: {"model": SecretSet}, **refusals(404, 409, body=True)}, response_model=None)
async def put(request: Request, session_id: SessionId, name: Name, body: PutSecret) -> Response:
    """Add a secret, or replace it. `allow` names the tools that may have it."""
    session = await visit_of(request).session(session_id)
    await session.secrets.set(name, body.value, allow=body.allow)
    return answer({"name": name})


@routes.delete("/{name}", responses={200: {"model": Destroyed}, **refusals(404, 409, body=True)}, response_model=None)
async def delete(request: Request, session_id: SessionId, name: Name) -> Response:
    """Programs cannot use it any more."""
    session = await visit_of(request).session(session_id)
    if not await session.secrets.delete(name):
        raise Problem("NOT_FOUND", f"there is no secret {name[:80]!r}")
    return answer({"deleted": True})
