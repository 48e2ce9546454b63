"""What does not fit is refused with its code and its place, leaves nothing behind, and keeps nobody waiting."""

import json
from typing import Any

import httpx2
import pytest

from cloister.core.serving import ServerLimits
from tests.server.lab import OTHER, Running, running
from tests.server.puppet import puppet

_JSON = {"content-type": "application/json"}
_DEEP: Any = json.loads("[" * 300 + "]" * 300)
_TOOL = {"name": "a"}


def _refused(found: httpx2.Response) -> tuple[int, str, str | None]:
    assert found.headers["content-type"] == "application/problem+json", found.text
    said = found.json()
    assert said["status"] == found.status_code
    return found.status_code, said["code"], said.get("pointer")


def _state(client: httpx2.Client) -> tuple[list[str], list[str]]:
    sessions, threads = client.get("/v1/sessions").json()["sessions"], client.get("/v1/threads").json()["threads"]
    return [one["id"] for one in sessions], [one["id"] for one in threads]


_THREADS: list[tuple[dict[str, Any], str, str | None]] = [
    ({"nope": 1}, "INVALID_INPUT", "/nope"),
    ({"title": "x" * 501}, "INVALID_INPUT", "/title"),
    ({"title": "\x00"}, "INVALID_INPUT", "/title"),
    ({"title": "\ud800"}, "INVALID_INPUT", "/title"),
    ({"title": 1}, "INVALID_INPUT", "/title"),
    ({"session_id": "a/b"}, "INVALID_INPUT", "/session_id"),
    ({"driver": "other"}, "INVALID_INPUT", "/driver"),
    ({"language": "perl"}, "INVALID_INPUT", "/language"),
    ({"wake": "always"}, "INVALID_INPUT", "/wake"),
    ({"labels": {"a": "\n"}}, "INVALID_INPUT", "/labels"),
    ({"labels": {"": "x"}}, "INVALID_INPUT", "/labels"),
    ({"labels": {"a": 1}}, "INVALID_INPUT", "/labels/a"),
    ({"metadata": {"x": "y" * 70_000}}, "INVALID_INPUT", "/metadata"),
    ({"metadata": {"x": _DEEP}}, "INVALID_INPUT", "/metadata"),
    ({"metadata": {"x": "\ud800"}}, "INVALID_INPUT", "/metadata"),
    ({"metadata": []}, "INVALID_INPUT", "/metadata"),
    ({"dynamic_tools": [_TOOL, {"name": "a b"}]}, "INVALID_INPUT", "/dynamic_tools/1/name"),
    ({"dynamic_tools": [{"name": "class"}]}, "INVALID_TOOL_NAME", "/dynamic_tools/0"),
    ({"dynamic_tools": [{"name": "a", "namespace": "os"}]}, "INVALID_TOOL_NAME", "/dynamic_tools/0"),
    ({"dynamic_tools": [_TOOL, _TOOL]}, "INVALID_INPUT", "/dynamic_tools"),
    ({"dynamic_tools": [{"name": f"a{n}"} for n in range(129)]}, "INVALID_INPUT", "/dynamic_tools"),
    ({"dynamic_tools": [{"name": "a", "x": 1}]}, "INVALID_INPUT", "/dynamic_tools/0/x"),
    ({"environments": [{"environment_id": "attic"}]}, "INVALID_INPUT", "/environments/0"),
    ({"environments": [{"cwd": "/../x"}]}, "INVALID_INPUT", "/environments/0"),
    ({"environments": [{"environment_id": ""}]}, "INVALID_INPUT", "/environments/0/environment_id"),
]
_SCHEMAS: list[Any] = [
    {"type": 7},
    {"type": "string"},
    {"$ref": "https://evil.test/x.json"},
    {"properties": {"a": {"pattern": "("}}},
    {"properties": {"a": _DEEP}},
    {"type": "object", "required": "a"},
]
_TURNS: list[tuple[Any, str, str | None]] = [
    ({}, "INVALID_INPUT", "/input"),
    ({"input": []}, "INVALID_INPUT", "/input"),
    ({"input": {"a": 1}}, "INVALID_INPUT", "/input"),
    ({"input": [{"type": "x"}]}, "INVALID_INPUT", "/input/0"),
    ({"input": [{"type": "input_text"}]}, "INVALID_INPUT", "/input/0/text"),
    ({"input": [{"type": "input_text", "text": "\ud800"}]}, "INVALID_INPUT", "/input/0/text"),
    ({"input": [{"type": "input_image", "image_url": "file:///x"}]}, "INVALID_INPUT", "/input/0/image_url"),
    ({"input": "x", "operation_key": ""}, "INVALID_INPUT", "/operation_key"),
    ({"input": "x", "operation_key": "é" * 65}, "INVALID_INPUT", "/operation_key"),
    ({"input": "x", "budget": {"iterations": 0}}, "INVALID_INPUT", "/budget/iterations"),
    ({"input": "x", "budget": {"wall_ms": 1.5}}, "INVALID_INPUT", "/budget/wall_ms"),
    ({"input": "x", "budget": {"money": 1}}, "INVALID_INPUT", "/budget/money"),
    ({"input": "x", "environment_id": "attic"}, "INVALID_INPUT", "/environment_id"),
    ({"input": "x", "accepts_finish": "yes"}, "INVALID_INPUT", "/accepts_finish"),
    ([], "INVALID_INPUT", ""),
]


@pytest.fixture(scope="module")
def ready(server: Running) -> tuple[Running, str, str]:
    """A thread with a turn that has ended."""
    with server.client() as client:
        thread_id = client.post("/v1/threads", json={"driver": "native"}).json()["id"]
        turn_id = client.post(f"/v1/threads/{thread_id}/turns", json={"input": "hi"}).json()["turn"]["id"]
        client.post(f"/v1/threads/{thread_id}/turns/{turn_id}/interrupt")
    return server, thread_id, turn_id


def test_thread_that_does_not_fit_is_refused_and_leaves_nothing(ready: tuple[Running, str, str]) -> None:
    with ready[0].client() as client:
        before = _state(client)
        for body, code, pointer in _THREADS:
            # As text: what is no Unicode can be written in JSON.
            found = client.post("/v1/threads", content=json.dumps(body), headers=_JSON)
            assert _refused(found) == (422, code, pointer), body
        for schema in _SCHEMAS:
            body = {"dynamic_tools": [_TOOL | {"input_schema": schema}]}
            assert _refused(client.post("/v1/threads", json=body)) == (
                422, "INVALID_INPUT", "/dynamic_tools/0/input_schema"
            ), schema  # fmt: skip
        for content in (b"{", b"\xff\xfe", b"[" * 100_000, b"{}x", b"\x00"):
            assert _refused(client.post("/v1/threads", content=content, headers=_JSON))[:2] == (400, "MALFORMED")
        assert _state(client) == before
        url = f"/v1/threads/{ready[1]}"
        for patch, pointer in (
            ({"driver": "code"}, "/driver"),
            ({"labels": None}, "/labels"),
            ({"archived": None}, "/archived"),
            ({"model": ""}, "/model"),
            ({"wake": None}, "/wake"),
        ):
            assert _refused(client.patch(url, json=patch)) == (422, "INVALID_INPUT", pointer), patch
        for query in ("limit=0", "limit=x", "archived=perhaps", "label=team", "label==x", "nope=1", "session_id=a/b"):
            assert _refused(client.get(f"/v1/threads?{query}"))[:2] == (422, "INVALID_INPUT"), query
        # A place between pages is any text, and finds what comes behind it.
        assert client.get("/v1/threads", params={"after": "!"}).json() == {"threads": [], "next_after": None}


def test_turn_that_does_not_fit_is_refused_and_leaves_nothing(ready: tuple[Running, str, str]) -> None:
    server, thread_id, turn_id = ready
    url = f"/v1/threads/{thread_id}"
    with server.client() as client:
        before = client.get(url).json()
        for body, code, pointer in _TURNS:
            found = client.post(f"{url}/turns", content=json.dumps(body), headers=_JSON)
            assert _refused(found) == (422, code, pointer), body
        keyed = client.post(f"{url}/turns", json={"input": "x"}, headers={"idempotency-key": "k"})
        assert _refused(keyed)[:2] == (422, "INVALID_INPUT")
        assert "operation_key" in keyed.json()["hint"]
        for body, pointer in (
            ({"success": "yes"}, "/success"),
            ({}, "/success"),
            ({"success": True, "content": "x"}, "/content"),
            ({"success": True, "content": [{"type": "input_text", "text": 1}]}, "/content/0/text"),
            ({"success": True, "content": [{"type": "input_image", "image_url": "x"}]}, "/content/0/image_url"),
            ({"success": True, "content": [{"type": "input_text", "text": "x"}] * 257}, "/content"),
            ({"success": True, "error": "x"}, "/error"),
        ):
            found = client.post(f"{url}/turns/{turn_id}/tool-calls/cal_x/result", json=body)
            assert _refused(found) == (422, "INVALID_INPUT", pointer), body
        found = client.post(f"{url}/turns/{turn_id}/tool-calls/cal_x/result", json={"success": True})
        assert _refused(found)[:2] == (404, "TOOL_CALL_NOT_FOUND")
        for body, pointer in (({"input": ""}, None), ({"input": "x", "id": "é" * 65}, "/id"), ({"id": "x"}, "/input")):
            found = client.post(f"{url}/turns/{turn_id}/steer", json=body)
            if pointer is None:
                assert found.status_code == 200
            else:
                assert _refused(found) == (422, "INVALID_INPUT", pointer), body
        for path in ("trn_none", "trn_none/steer", "trn_none/interrupt"):
            sent: dict[str, Any] = {"json": {"input": "x"}} if path.endswith("steer") else {}
            method = "GET" if path == "trn_none" else "POST"
            assert _refused(client.request(method, f"{url}/turns/{path}", **sent))[:2] == (404, "TURN_NOT_FOUND")
        for path in ("a%00b", "%2e%2e", "x" * 65, "a b"):
            assert client.get(f"/v1/threads/{path}").status_code in (404, 422), path
        assert _refused(client.post(f"{url}/fork", json={"turn_id": "trn_none"}))[:2] == (404, "TURN_NOT_FOUND")
        missing = client.post(f"{url}/compact", json={"summary": "x", "through_item_id": "itm_none"})
        assert _refused(missing) == (422, "INVALID_INPUT", "/through_item_id")
        after = client.get(url).json()
        assert [one["id"] for one in after["turns"]] == [one["id"] for one in before["turns"]]
        assert after["items"] == before["items"]
        # Of another thread's turn, and of another tenant's thread, nothing is there.
        second = client.post("/v1/threads", json={"driver": "native"}).json()["id"]
        assert _refused(client.get(f"/v1/threads/{second}/turns/{turn_id}"))[:2] == (404, "TURN_NOT_FOUND")
        with server.client(OTHER) as other:
            theirs = other.get(f"{url}/turns/{turn_id}")
            assert _refused(theirs)[:2] == (404, "THREAD_NOT_FOUND")


def test_same_operation_is_the_same_turn_also_for_the_next_server(tmp_path: Any) -> None:
    store, drivers = f"sqlite:///{tmp_path}/cloister.db?synchronous=normal", {"native": puppet}
    body = {"input": "say hi", "operation_key": "r-1"}
    with running(store, drivers=drivers) as server, server.client() as client:
        url = f"/v1/threads/{client.post('/v1/threads', json={'driver': 'native'}).json()['id']}"
        first = client.post(f"{url}/turns", json=body)
        again = client.post(f"{url}/turns", json=body)
        assert (first.status_code, again.status_code) == (201, 200)
    with running(store, drivers=drivers) as server, server.client() as client:
        later = client.post(f"{url}/turns", json=body)
        assert (later.status_code, later.json()["turn"]["id"]) == (200, first.json()["turn"]["id"])
        other = client.post(f"{url}/turns", json=body | {"input": "say ho"})
        assert _refused(other)[:2] == (409, "OPERATION_CONFLICT")
        # Turns that wait are bounded, and so is what is said in their middle.
        stay = client.post(f"{url}/turns", json={"input": "stay"}).json()["turn"]["id"]
        codes = [client.post(f"{url}/turns", json={"input": "say x"}).status_code for _ in range(32)]
        assert codes == [201] * 31 + [429]
        assert client.post(f"{url}/turns/{stay}/interrupt").json()["status"] == "interrupted"


def test_bodies_of_threads_have_the_bounds_of_all_others() -> None:
    limits = ServerLimits(max_body_bytes=2000, body_timeout_ms=300)
    with running("memory:", limits=limits) as server, server.client() as client:
        long = client.post("/v1/threads/thr_x/turns", json={"input": "x" * 2500})
        assert _refused(long)[:2] == (413, "BODY_TOO_LARGE")
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
            found = client.post("/v1/threads", content=b"{}", headers={"content-type": kind})
            assert _refused(found)[:2] == (415, "UNSUPPORTED_MEDIA_TYPE"), kind
