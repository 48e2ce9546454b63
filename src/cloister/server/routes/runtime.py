"""What this server is and what it can do. Open to everybody, so nothing of what it holds is said."""

import asyncio
from functools import cache

from starlette.requests import Request
from starlette.responses import Response

from cloister import __version__
from cloister.app.engines import make_engine
from cloister.core.errors import CloisterError
from cloister.core.language import Language
from cloister.server.answers import RuntimeInfo, answer
from cloister.server.routing import refusals, router
from cloister.server.service import Service

API_VERSION = "1.0"
# All are always said. One is true when its feature works and a test says so.
CAPABILITIES: dict[str, bool] = {
    "threads": False,
    "turns": False,
    "turn_steer": False,
    "turn_interrupt": False,
    "event_replay": True,
    "external_tools": False,
    "environments": False,
    "worker_runtime": False,
}

routes = router("runtime")


@cache
def confinement() -> dict[str, str]:
    """The layers of the operating system around programs. Found out by confining a process, once."""
    try:
        return dict(make_engine(Language.PYTHON, workers=1, require_confinement=False).confinement())
    except CloisterError as error:
        return {"error": error.message}


@routes.get(
    "/v1/runtime/info",
    responses={200: {"model": RuntimeInfo}, **refusals()},
    response_model=None,
    openapi_extra={"security": []},
)
async def info(request: Request) -> Response:
    """What there is. Takes no token."""
    service: Service = request.app.state.service
    return answer(
        {
            "service": "cloister",
            "runtime_api_version": API_VERSION,
            "version": __version__,
            "bind_host": service.exposure.host,
            "port": service.port,
            "auth_required": True,
            "transports": ["http", "sse", "mcp"],
            # The streams of sessions are replayed where sessions are written down.
            "capabilities": {**CAPABILITIES, "event_replay": CAPABILITIES["event_replay"] and service.cloister.is_kept},
            "experimental": {},
            "languages": [str(language) for language in Language],
            "confinement": await asyncio.to_thread(confinement),
        }
    )
