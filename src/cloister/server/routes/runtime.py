"""What this server is and what it can do. Open to everybody, so nothing of what it holds is said."""

import asyncio
from functools import cache

from starlette.requests import Request
from starlette.responses import Response

from cloister import __version__
from cloister.app.engines import make_engine
from cloister.core.errors import CloisterError
from cloister.core.language import Language
from cloister.core.thread import DriverKind
from cloister.server.answers import RuntimeInfo, answer
from cloister.server.routing import refusals, router
from cloister.server.service import Service

API_VERSION = "1.0"
routes = router("runtime")


@cache
def confinement() -> dict[str, str]:
    """The layers of the operating system around programs. Found out by confining a process, once."""
    try:
        return dict(make_engine(Language.PYTHON, workers=1, require_confinement=False).confinement())
    except CloisterError as error:
        return {"error": error.message}


def capabilities(service: Service, layers: dict[str, str]) -> dict[str, bool]:
    """All are always said; one is true when its feature works here. Threads are kept in a store; turns have somebody
    who drives them; programs run in workers of their own, which could be started."""
    kept, works = service.cloister.is_kept, "error" not in layers
    driven = service.cloister.threads.driven if kept else frozenset[DriverKind]()
    return {
        "threads": kept,
        "turns": bool(driven),
        "turn_steer": bool(driven),
        "turn_interrupt": bool(driven),
        "event_replay": kept,
        "external_tools": bool(driven) and works,
        # Where programs work: drivers that run none have no use for them.
        "environments": DriverKind.CODE in driven and works,
        "worker_runtime": works,
    }


@routes.get(
    "/v1/runtime/info",
    responses={200: {"model": RuntimeInfo}, **refusals()},
    response_model=None,
    openapi_extra={"security": []},
)
async def info(request: Request) -> Response:
    """What there is. Takes no token."""
    service: Service = request.app.state.service
    layers = await asyncio.to_thread(confinement)
    return answer(
        {
            "service": "cloister",
            "runtime_api_version": API_VERSION,
            "version": __version__,
            "bind_host": service.exposure.host,
            "port": service.port,
            "auth_required": True,
            "transports": service.transports,
            "capabilities": capabilities(service, layers),
            "experimental": {},
            "languages": [str(language) for language in Language],
            "confinement": layers,
        }
    )
