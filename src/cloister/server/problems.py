"""What is wrong with a request, as RFC 9457 has it: a status, our code, what to do, and where in the body it is."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from cloister.core.errors import CloisterError
from cloister.core.statuses import HTTP_STATUS

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


def of_error(error: CloisterError) -> Problem:
    return Problem(error.code, error.message, hint=error.hint)


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
            said["pointer"] = "".join(f"/{_escaped(str(part))}" for part in path)
        else:
            said["parameter"] = str(path[0] if path else where)
        errors.append(said)
    first = errors[0]
    pointer = first.get("pointer")
    place = f"the body at {pointer!r}" if pointer else "the body" if pointer == "" else first.get("parameter", "")
    return Problem("INVALID_INPUT", f"{place}: {first['detail']}"[:_LONGEST], pointer=pointer, errors=errors)


def _said(one: Mapping[str, Any]) -> str:
    if one["type"] == "extra_forbidden":
        return "there is no such field"
    return str(one["msg"])[:300]


def _escaped(part: str) -> str:
    return part[:200].replace("~", "~0").replace("/", "~1")
