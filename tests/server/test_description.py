"""The description of the API says what there is, with an example of everything that travels."""

from collections.abc import Generator
from typing import Any

import jsonschema_rs
import pytest

from cloister.server.examples import EXAMPLES
from tests.server.lab import Running

Json = dict[str, Any]
# Of api.md: every route that there is, and no other.
_ROUTES = {
    "GET /healthz", "GET /readyz", "GET /metrics", "GET /v1/runtime/info",
    "POST /v1/sessions", "GET /v1/sessions", "POST /v1/sessions/restore",
    "GET /v1/sessions/{session_id}", "PATCH /v1/sessions/{session_id}", "DELETE /v1/sessions/{session_id}",
    "POST /v1/sessions/{session_id}/run", "POST /v1/sessions/{session_id}/validate",
    "POST /v1/sessions/{session_id}/cells", "GET /v1/sessions/{session_id}/cells",
    "POST /v1/sessions/{session_id}/cells/{cell_id}/wait", "POST /v1/sessions/{session_id}/cells/{cell_id}/terminate",
    "POST /v1/sessions/{session_id}/snapshot", "POST /v1/sessions/{session_id}/fork",
    "GET /v1/sessions/{session_id}/catalog", "GET /v1/sessions/{session_id}/events",
    "GET /v1/sessions/{session_id}/files/{path}", "PUT /v1/sessions/{session_id}/files/{path}",
    "DELETE /v1/sessions/{session_id}/files/{path}",
    "POST /v1/sessions/{session_id}/files/_/stat", "POST /v1/sessions/{session_id}/files/_/move",
    "POST /v1/sessions/{session_id}/files/_/copy", "POST /v1/sessions/{session_id}/files/_/grep",
    "POST /v1/sessions/{session_id}/files/_/mkdir",
    "GET /v1/sessions/{session_id}/values", "GET /v1/sessions/{session_id}/values/{key}",
    "PUT /v1/sessions/{session_id}/values/{key}", "DELETE /v1/sessions/{session_id}/values/{key}",
    "GET /v1/sessions/{session_id}/secrets", "PUT /v1/sessions/{session_id}/secrets/{name}",
    "DELETE /v1/sessions/{session_id}/secrets/{name}",
    "GET /v1/sessions/{session_id}/attachments", "POST /v1/sessions/{session_id}/attachments",
    "GET /v1/sessions/{session_id}/attachments/{attachment_id}",
    "DELETE /v1/sessions/{session_id}/attachments/{attachment_id}",
    "GET /v1/approvals", "POST /v1/approvals/{approval_id}", "POST /v1/approvals/decide",
    "POST /v1/threads", "GET /v1/threads", "GET /v1/threads/{thread_id}", "PATCH /v1/threads/{thread_id}",
    "POST /v1/threads/{thread_id}/fork", "POST /v1/threads/{thread_id}/compact",
    "GET /v1/threads/{thread_id}/events",
    "POST /v1/threads/{thread_id}/turns", "GET /v1/threads/{thread_id}/turns/{turn_id}",
    "POST /v1/threads/{thread_id}/turns/{turn_id}/steer", "POST /v1/threads/{thread_id}/turns/{turn_id}/interrupt",
    "POST /v1/threads/{thread_id}/turns/{turn_id}/tool-calls/{call_id}/result",
}  # fmt: skip


@pytest.fixture(scope="module")
def document(server: Running) -> Generator[Json, None, None]:
    with server.client(None) as client:
        yield client.get("/openapi.json").json()


def _operations(document: Json) -> list[tuple[str, Json]]:
    return [
        (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def _examples(document: Json, content: Json) -> list[Any]:
    """Those of a media type, or of the types that it may be."""
    if "example" in content:
        return [content["example"]]
    found: list[Any] = []
    waiting = [content["schema"]]
    while waiting:
        schema = waiting.pop()
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        found += schema.get("examples", ())
        waiting += [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return found


def test_every_route_is_there_and_no_other(document: Json) -> None:
    assert {name for name, _ in _operations(document)} == _ROUTES


def test_everything_that_travels_has_an_example_that_fits(document: Json) -> None:
    for name, operation in _operations(document):
        bodies = [operation["requestBody"]["content"]] if "requestBody" in operation else []
        for status, answer in operation["responses"].items():
            bodies += [answer["content"]]
            if not status.startswith("2"):
                assert set(answer["content"]) == {"application/problem+json"}, (name, status)
        for body in bodies:
            for media_type, content in body.items():
                examples = _examples(document, content)
                assert examples, (name, media_type)
                if media_type.endswith("json"):
                    schema = {**content["schema"], "components": document["components"]}
                    validator = jsonschema_rs.Draft202012Validator(schema)
                    for example in examples:
                        assert validator.is_valid(example), (name, [str(one) for one in validator.iter_errors(example)])
    # None is of something that is not told any more.
    assert EXAMPLES.keys() <= document["components"]["schemas"].keys()
