"""The application: routes behind the door, and what a client is told when something is wrong."""

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cloister import __version__
from cloister.core.errors import CloisterError
from cloister.server.description import describe
from cloister.server.door import Door
from cloister.server.logs import current_request
from cloister.server.mounting import Mounts
from cloister.server.pages import page_routes
from cloister.server.problems import Problem, broken, of_error, of_validation
from cloister.server.routes import ROUTERS
from cloister.server.service import Service

_CODES = {400: "MALFORMED", 404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 413: "BODY_TOO_LARGE"}


def make_application(service: Service, mounts: Mounts | None = None) -> Door:
    """An ASGI application over a service whose runtime has been entered."""
    app = FastAPI(title="Cloister", version=__version__, openapi_url=None, docs_url=None, redoc_url=None)
    # A path is right or it is not: no redirect, which would lose the body and show the address.
    app.router.redirect_slashes = False
    app.state.service = service
    for router in ROUTERS:
        app.include_router(router)
    document = describe(app)
    app.include_router(page_routes(document))
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(CloisterError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _broken)
    return Door(app, service, mounts or Mounts())


def _told(problem: Problem) -> Response:
    return problem.response(current_request.get() or "")


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return _told(error)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, CloisterError)
    return _told(of_error(error))


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _told(of_validation(error))


async def _broken(_: Request, error: Exception) -> Response:
    """What it was is for the log alone: the door writes it down, where this comes to next."""
    del error
    return _told(broken())


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "INTERNAL")
    match code:
        case "NOT_FOUND":
            detail = "there is nothing at this path"
        case "METHOD_NOT_ALLOWED":
            detail = f"this path has no {request.method}"
        case "MALFORMED":
            detail = "the body is not JSON, or is nested too deeply"
        case _:
            detail = "it cannot be served"
    return _told(Problem(code, detail, headers=dict(error.headers or {})))
