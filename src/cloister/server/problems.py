"""What is wrong with a request, as RFC 9457 has it: a status, our code, what to do, and where in the body it is."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from cloister.core.errors import CloisterError, InvalidInput
from cloister.core.statuses import HTTP_STATUS
from cloister.server.fitting import KIND

MEDIA_TYPE = "application/problem+json"
# More than these are not listed: a body may be wrong in a million places.
_MOST_ERRORS = 20
_LONGEST = 2000


class Problem(Exception):
    """Raised by whoever finds that a request cannot be served."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        hint: str | None = None,
        pointer: str | None = None,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.status = HTTP_STATUS.get(code, 500)
        self.detail = detail
        self.hint = hint
        self.pointer = pointer
        self.errors = errors
        self.headers = dict(headers or {})

    def body(self, request_id: str) -> bytes:
        said: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail[:_LONGEST],
            "request_id": request_id,
        }
        for name, value in (("hint", self.hint), ("pointer", self.pointer)):
            if value is not None:
                said[name] = value[:_LONGEST]
        if self.errors:
            said["errors"] = [dict(error) for error in self.errors]
        return json.dumps(said, separators=(",", ":")).encode()

    def response(self, request_id: str) -> Response:
        return Response(self.body(request_id), self.status, self.headers, MEDIA_TYPE)


def broken() -> Problem:
    return Problem("INTERNAL", "this is a defect of Cloister; the log of the server says more")


def of_error(error: CloisterError) -> Problem:
    # What it is about may be known where it was refused, as a path into what was asked: into the body.
    path = error.at if isinstance(error, InvalidInput) else ()
    pointer = "".join(f"/{_escaped(str(part))}" for part in path) or None
    return Problem(error.code, error.message, hint=error.hint, pointer=pointer)


def of_validation(error: RequestValidationError) -> Problem:
    """Every place that does not fit, as a JSON pointer into the body, or as the name of a parameter."""
    found = list(error.errors())
    if any(one["type"] == "json_invalid" for one in found):
        return Problem(
            "MALFORMED", f"the body is not JSON: {found[0].get('ctx', {}).get('error', 'it cannot be read')}"
        )
    errors: list[dict[str, str]] = []
    for one in found[:_MOST_ERRORS]:
        where, *path = one["loc"] or ("body",)
        said = {"detail": _said(one)}
        if where == "body":
            said["pointer"] = _pointer(error.body, path, is_missing=one["type"] == "missing")
        else:
            said["parameter"] = str(path[0] if path else where)
        errors.append(said)
    first = errors[0]
    # Of what the core has refused, which has a code of its own.
    context: Mapping[str, str] = found[0]["ctx"] if found[0]["type"] == KIND else {}
    pointer = first.get("pointer")
    place = f"the body at {pointer!r}" if pointer else "the body" if pointer == "" else first.get("parameter", "")
    return Problem(
        context.get("code", "INVALID_INPUT"),
        f"{place}: {first['detail']}"[:_LONGEST],
        hint=context.get("hint") or None,
        pointer=pointer,
        errors=errors,
    )


def _pointer(body: object, path: Sequence[str | int], *, is_missing: bool) -> str:
    """Without the names of alternatives that the body was held against, which are in the path and not in the body."""
    kept: list[str] = []
    node: Any = body
    for place, part in enumerate(path):
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            if not (is_missing and place == len(path) - 1):
                continue
        kept.append(f"/{_escaped(str(part))}")
    return "".join(kept)


def _said(one: Mapping[str, Any]) -> str:
    if one["type"] == "extra_forbidden":
        return "there is no such field"
    return str(one["msg"])[:300]


def _escaped(part: str) -> str:
    return part[:200].replace("~", "~0").replace("/", "~1")
