"""`/openapi.json`, and `/docs`: a page of our own that shows it. Nothing on it comes from anywhere else."""

import json
from importlib.resources import files
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)


def page_routes(document: dict[str, Any]) -> APIRouter:
    routes = APIRouter(include_in_schema=False)
    written = json.dumps(document, separators=(",", ":")).encode()
    assets = files("cloister.server") / "assets"

    async def openapi(_: Request) -> Response:
        return Response(written, media_type="application/json")

    async def page(_: Request) -> Response:
        return _asset(assets.joinpath("page.html").read_bytes(), "text/html; charset=utf-8")

    async def script(_: Request) -> Response:
        return _asset(assets.joinpath("page.js").read_bytes(), "text/javascript; charset=utf-8")

    async def style(_: Request) -> Response:
        return _asset(assets.joinpath("page.css").read_bytes(), "text/css; charset=utf-8")

    routes.add_api_route("/openapi.json", openapi, response_model=None)
    routes.add_api_route("/docs", page, response_model=None)
    routes.add_api_route("/docs/page.js", script, response_model=None)
    routes.add_api_route("/docs/page.css", style, response_model=None)
    return routes


def _asset(data: bytes, media_type: str) -> Response:
    return Response(data, 200, {"content-security-policy": _POLICY}, media_type)
