"""Stored values: what programs `store` and `load`."""

from typing import Annotated

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from cloister.server.answers import Destroyed, Value, Values, answer
from cloister.server.bodies import PutValue
from cloister.server.problems import Problem
from cloister.server.routes.parts import SessionId
from cloister.server.routing import refusals, router
from cloister.server.visit import visit_of

routes = router("values", "/v1/sessions/{session_id}/values")
Key = Annotated[str, Path(min_length=1, max_length=256)]


@routes.get("", responses={200: {"model": Values}, **refusals(404, 409)}, response_model=None)
async def list_(request: Request, session_id: SessionId) -> Response:
    """What is stored, by key."""
    session = await visit_of(request).session(session_id)
    return answer({"values": await session.values.list()})


@routes.get("/{key:path}", responses={200: {"model": Value}, **refusals(404, 409)}, response_model=None)
async def get(request: Request, session_id: SessionId, key: Key) -> Response:
    """One of them."""
    session = await visit_of(request).session(session_id)
    if not any(info.key == key for info in await session.values.list()):
        raise Problem("NOT_FOUND", f"nothing is stored under {key[:80]!r}")
    return answer({"key": key, "value": await session.values.get(key)})


@routes.put("/{key:path}", responses={200: {"model": Value}, **refusals(404, 409, body=True)}, response_model=None)
async def put(request: Request, session_id: SessionId, key: Key, body: PutValue) -> Response:
    """Store one, over what is there."""
    session = await visit_of(request).session(session_id)
    await session.values.set(key, body.value)
    return answer({"key": key, "value": body.value})


@routes.delete(
    "/{key:path}", responses={200: {"model": Destroyed}, **refusals(404, 409, body=True)}, response_model=None
)
async def delete(request: Request, session_id: SessionId, key: Key) -> Response:
    """Nothing is stored under the key any more."""
    session = await visit_of(request).session(session_id)
    if not await session.values.delete(key):
        raise Problem("NOT_FOUND", f"nothing is stored under {key[:80]!r}")
    return answer({"deleted": True})
