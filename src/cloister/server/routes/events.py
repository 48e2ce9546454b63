"""What happens in a session, as a stream."""

from starlette.requests import Request
from starlette.responses import Response

from cloister.core.errors import InvalidInput
from cloister.server.feeds import SessionFeed
from cloister.server.routes.parts import STREAM, LastEventId, SessionId, SinceSeq, begins_after
from cloister.server.routing import refusals, router
from cloister.server.sse import Streaming
from cloister.server.visit import visit_of

routes = router("events", "/v1/sessions/{session_id}")


@routes.get("/events", responses={**STREAM, **refusals(404, 409)}, response_model=None)
async def events(
    request: Request,
    session_id: SessionId,
    since_seq: SinceSeq = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Server-sent events: those of the log first, then those that come, until the session or the server ends."""
    visit = visit_of(request)
    service, session = visit.service, await visit.session(session_id)
    if session.is_kept:
        since = await begins_after(service, since_seq, last_event_id) or 0
    elif since_seq is None and last_event_id is None:
        since = None
    else:
        raise InvalidInput(
            f"session {session.id!r} is not written down, and so its events of before are not there",
            hint="leave since_seq and Last-Event-ID out: what happens from now on is told",
        )
    return Streaming(service, SessionFeed(session, since, service.cloister.last_event, service.frames))
