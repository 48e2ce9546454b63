"""Whether the server is there, whether it can serve, and what it counts."""

from starlette.requests import Request
from starlette.responses import Response

from cloister.core.errors import CloisterError
from cloister.server.answers import Health, answer
from cloister.server.metrics import MEDIA_TYPE
from cloister.server.problems import Problem
from cloister.server.routing import refusals, router
from cloister.server.service import Service

routes = router("health")


def _service(request: Request) -> Service:
    return request.app.state.service


@routes.get("/healthz", responses={200: {"model": Health}, **refusals()}, response_model=None)
async def healthz() -> Response:
    """The process answers."""
    return answer({"status": "ok"})


@routes.get("/readyz", responses={200: {"model": Health}, **refusals()}, response_model=None)
async def readyz(request: Request) -> Response:
    """Requests can be served: the store answers, and the server is not stopping."""
    service = _service(request)
    if service.closing.is_set():
        raise Problem("SHUTTING_DOWN", "the server is stopping", headers={"retry-after": "2"})
    try:
        await service.cloister.stored_sessions(limit=1)
    except CloisterError as error:
        raise Problem(error.code, "the store does not answer") from None
    return answer({"status": "ready"})


@routes.get(
    "/metrics",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **refusals()},
    response_model=None,
)
async def metrics(request: Request) -> Response:
    """In the text format of Prometheus. Where other machines can reach the server it takes a token with `admin`."""
    return Response(_service(request).metrics.text(), 200, None, MEDIA_TYPE)
