"""The description of the API (OpenAPI 3.1): what FastAPI knows of the routes, and what the door adds to every one."""

import re
from collections.abc import Mapping
from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from cloister.server.answers import ProblemAnswer
from cloister.server.door import scope_of
from cloister.server.examples import EXAMPLES, TEXTS
from cloister.server.tokens import Scope

_PARAMETER = re.compile(r"\{([a-z_]+)\}")
_OPEN = ("/healthz", "/readyz", "/v1/runtime/info")
_ABOUT = """\
Sessions in which programs run sealed, the cells in them, what they hold, the questions they wait for, and what happens.

Bodies are JSON; a field that is not known is refused. Problems are RFC 9457 with our `code`. Times are RFC 3339 in UTC.
"""
Json = dict[str, Any]


def describe(app: FastAPI) -> Json:
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=_ABOUT,
        routes=app.routes,
        separate_input_output_schemas=False,
    )
    components = cast("Json", document.setdefault("components", {}))
    schemas = cast("Json", components.setdefault("schemas", {}))
    _, made = models_json_schema([(ProblemAnswer, "validation")], ref_template="#/components/schemas/{model}")
    schemas.update(made["$defs"])
    # FastAPI's own form of refusals, which is not ours.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for name, schema in schemas.items():
        _open_up(cast("Json", schema))
        if name in EXAMPLES:
            schema["examples"] = [EXAMPLES[name]]
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in cast("Json", document["paths"]).items():
        for operation in cast("Json", methods).values():
            _complete(path, cast("Json", operation))
    _link(cast("Json", document["paths"]))
    return document


# What the answers of these are good for: the ids that they give, by the parameter of other routes.
_GIVES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("/v1/sessions", "201"): {"session_id": "$response.body#/id"},
    ("/v1/threads", "201"): {"thread_id": "$response.body#/id"},
    ("/v1/threads/{thread_id}/turns", "201"): {
        "thread_id": "$response.body#/thread/id",
        "turn_id": "$response.body#/turn/id",
    },
    ("/v1/sessions/{session_id}/cells", "200"): {
        "session_id": "$request.path.session_id",
        "cell_id": "$response.body#/cell_id",
    },
    ("/v1/sessions/{session_id}/attachments", "201"): {
        "session_id": "$request.path.session_id",
        "attachment_id": "$response.body#/id",
    },
}


def _link(paths: Json) -> None:
    """Each answer that makes something names the routes that take it, and nothing else that they would have to know."""
    for (source, status), given in _GIVES.items():
        links: Json = {}
        for path, methods in paths.items():
            if set(_PARAMETER.findall(path)) != set(given):
                continue
            for operation in cast("Json", methods).values():
                name = cast("Json", operation)["operationId"]
                links[name] = {"operationId": name, "parameters": {f"path.{key}": given[key] for key in given}}
        paths[source]["post"]["responses"][status]["links"] = links


def _open_up(schema: Json) -> None:
    """What is not known is kept beside the fields of a type, and not under a name of its own."""
    if cast("Json", schema.get("properties", {})).pop("extra", None) is not None:
        schema["additionalProperties"] = True


def _complete(path: str, operation: Json) -> None:
    operation["security"] = [] if path in _OPEN else [{"token": []}]
    if path == "/metrics":
        # On loopback it takes none.
        operation["security"] = [{}, {"token": []}]
    if path not in _OPEN:
        needed = scope_of(path)
        which = f"`{needed}` or `admin`" if needed is not Scope.ADMIN else "`admin`"
        operation["x-cloister-scope"] = str(needed)
        about = operation.get("description", "")
        operation["description"] = f"{about}\n\nTakes a token with the scope {which}.".strip()
    for response in cast("Json", operation["responses"]).values():
        said = cast("Json", response)
        content = cast("Json", said.get("content", {}))
        for media_type in content.keys() & TEXTS.keys():
            # FastAPI says of every route that it answers JSON.
            content.pop("application/json", None)
            content[media_type]["example"] = TEXTS[media_type]
        said.setdefault("headers", {})["X-Request-Id"] = {
            "schema": {"type": "string"},
            "description": "What the logs of the server call this request.",
        }
