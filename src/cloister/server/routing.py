"""How routes are made here: a router for each noun, and no parameter of a query, or key, that would be ignored."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from cloister.server.answers import ProblemAnswer
from cloister.server.problems import MEDIA_TYPE, Problem

REPEAT_KEY = "Idempotency-Key"


class StrictRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = frozenset(one.alias for one in self.dependant.query_params)
        headers = {one.alias for one in self.dependant.header_params}
        # Where a key of repetition would be taken and mean nothing.
        ignores_keys = "GET" not in (self.methods or ()) and REPEAT_KEY not in headers

        async def strictly(request: Request) -> Response:
            if ignores_keys and REPEAT_KEY in request.headers:
                raise Problem(
                    "INVALID_INPUT",
                    f"{REPEAT_KEY} is for /run and /cells only",
                    hint="a turn has an `operation_key`; leave the header out elsewhere",
                )
            if request.scope["query_string"]:
                names = [name for name, _ in request.query_params.multi_items()]
                for name in names:
                    if name not in known:
                        raise Problem(
                            "INVALID_INPUT",
                            f"there is no parameter {name[:80]!r}",
                            hint=f"there are {', '.join(sorted(known))}" if known else "it takes none",
                        )
                if len(names) != len(set(names)):
                    raise Problem("INVALID_INPUT", "a parameter is there twice")
            return await handle(request)

        return strictly


_WHAT = {
    400: "It is no request that can be read, or its body is not JSON.",
    401: "No token, or one that is not known.",
    403: "The token has not the scope, or the page's origin may not use this server.",
    404: "There is no such thing, or it is another tenant's.",
    405: "The path has no such method.",
    408: "The request has not come in time.",
    409: "It is not in a state in which this can be done; `code` says why.",
    412: "The file is not as If-Match says.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    421: "The server is not asked for by its name.",
    422: "Something in it does not fit; `pointer` says where.",
    429: "Too many requests, or too many cells; come again after Retry-After.",
    431: "The address and the headers are too large.",
    500: "A defect of Cloister.",
    502: "The model was asked and did not answer as it must.",
    503: "The server is stopping, or something that it needs is not there.",
    504: "The model took too long.",
}


def refusals(*more: int, body: bool = False) -> dict[int | str, dict[str, Any]]:
    """The problems that a route may answer with, beside those that every route has."""
    statuses = {400, 401, 403, 421, 422, 429, 431, 500, 503, *more}
    if body:
        statuses |= {408, 413, 415}
    return {
        status: {
            "description": _WHAT[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{ProblemAnswer.__name__}"}}},
        }
        for status in sorted(statuses)
    }


def router(tag: str, prefix: str = "") -> APIRouter:
    return APIRouter(prefix=prefix, tags=[tag], route_class=StrictRoute)
