"""What happens in a session, as a stream."""

from typing import Annotated

from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response

from cloister.core.errors import InvalidInput
from cloister.server.problems import Problem
from cloister.server.routes.parts import SessionId
from cloister.server.routing import refusals, router
from cloister.server.sse import EventStreamAnswer, Frames
from cloister.server.visit import visit_of

routes = router("events", "/v1/sessions/{session_id}")
_FRAMES = Frames()
_STREAM = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events, for ever."}}


@routes.get("/events", responses={**_STREAM, **refusals(404, 409)}, response_model=None)
async def events(
    request: Request,
    session_id: SessionId,
    since_seq: Annotated[
        int | None, Query(ge=0, le=2**53 - 1, description="Events after this one. Without it, all that are in the log.")
    ] = None,
    last_event_id: Annotated[
        str | None,
        Header(alias="Last-Event-ID", pattern=r"^[0-9]{1,15}$", description="As `since_seq`; browsers send it."),
    ] = None,
) -> Response:
    """Server-sent events: those of the log first, then those that come, until the session or the server ends."""
    visit = visit_of(request)
    session = await visit.session(session_id)
    service = visit.service
    if service.streams >= service.limits.max_streams:
        raise Problem(
            "RATE_LIMITED",
            f"there are {service.streams} streams already, and no more than {service.limits.max_streams} may be open",
            headers={"retry-after": "5"},
        )
    # What a client that was cut off says of itself is newer than what its address says.
    since = int(last_event_id) if last_event_id is not None else since_seq
    if session.is_kept:
        return EventStreamAnswer(service, session, since or 0, _FRAMES)
    if since is not None:
        raise InvalidInput(
            f"session {session.id!r} is not written down, and so its events of before are not there",
            hint="leave since_seq and Last-Event-ID out: what happens from now on is told",
        )
    return EventStreamAnswer(service, session, None, _FRAMES)
