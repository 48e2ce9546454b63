"""Turns: begun, looked at, steered, interrupted, and the calls of a client's tools answered."""

from typing import Annotated, Any, TypeAlias

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from cloister.server.answers import answer
from cloister.server.bodies import Nothing
from cloister.server.routes.threads import ThreadId, threads_of
from cloister.server.routing import refusals, router
from cloister.server.thread_answers import SteerReceipt, ToolCallAccepted, Turn, TurnBegun
from cloister.server.thread_bodies import BeginTurn, Steer, ToolCallAnswer
from cloister.server.visit import visit_of

routes = router("turns", "/v1/threads/{thread_id}/turns")
TurnId: TypeAlias = Annotated[str, Path(alias="turn_id", min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_\-]+$")]
CallId: TypeAlias = Annotated[str, Path(alias="call_id", min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_\-]+$")]
_TURN: dict[int | str, dict[str, Any]] = {200: {"model": Turn}}


@routes.post(
    "",
    status_code=201,
    responses={
        201: {"model": TurnBegun},
        200: {"model": TurnBegun, "description": "The turn that this operation_key made before."},
        **refusals(404, 409, body=True),
    },
    response_model=None,
)
async def begin(request: Request, thread_id: ThreadId, body: BeginTurn) -> Response:
    """Say something: a turn that begins now, or when those before it have ended."""
    begun = await threads_of(request).begin(thread_id, body.params(), tenant=visit_of(request).owner)
    location = f"/v1/threads/{thread_id}/turns/{begun.turn.id}"
    said = {"thread": begun.thread, "turn": begun.turn}
    return answer(said, 200 if begun.is_known else 201, {"location": location})


@routes.get("/{turn_id}", responses={**_TURN, **refusals(404, 409)}, response_model=None)
async def get(request: Request, thread_id: ThreadId, turn_id: TurnId) -> Response:
    """How far it is, and how it ended."""
    return answer(await threads_of(request).get_turn(thread_id, turn_id, tenant=visit_of(request).owner))


@routes.post(
    "/{turn_id}/steer", responses={200: {"model": SteerReceipt}, **refusals(404, 409, body=True)}, response_model=None
)
async def steer(request: Request, thread_id: ThreadId, turn_id: TurnId, body: Steer) -> Response:
    """Say something in the middle of a turn, for its next request to the model. The receipt says what has become of it:
    `queued`, `delivered`, or `dropped` when the turn had ended; `turn.steer_dropped` tells it later."""
    owner = visit_of(request).owner
    return answer(await threads_of(request).steer(thread_id, turn_id, body.params(), tenant=owner))


@routes.post("/{turn_id}/interrupt", responses={**_TURN, **refusals(404, 409, body=True)}, response_model=None)
async def interrupt(request: Request, thread_id: ThreadId, turn_id: TurnId, body: Nothing | None = None) -> Response:
    """End it for sure: when this answers, its cells have stopped. What programs stored stays. One that has ended stays
    as it is."""
    del body
    return answer(await threads_of(request).interrupt(thread_id, turn_id, tenant=visit_of(request).owner))


@routes.post(
    "/{turn_id}/tool-calls/{call_id}/result",
    status_code=202,
    responses={202: {"model": ToolCallAccepted}, **refusals(404, 409, body=True)},
    response_model=None,
)
async def resolve(
    request: Request, thread_id: ThreadId, turn_id: TurnId, call_id: CallId, body: ToolCallAnswer
) -> Response:
    """The client's answer to a call of its tool, once: it is safe when this answers. A call that was answered, timed
    out or ended with its turn is not there."""
    threads, owner = threads_of(request), visit_of(request).owner
    await threads.answer(thread_id, turn_id, call_id, body.result(), tenant=owner)
    return answer({"call_id": call_id}, 202)
