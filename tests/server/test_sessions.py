"""Sessions over HTTP, and all that they hold: what is kept, what is refused, and with which words."""

import asyncio
import base64
import socket
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cloister.core.serving import ServerLimits
from tests.server.lab import OTHER, RUNNER, Running, running


def _problem(found: httpx2.Response) -> tuple[int, str]:
    assert found.headers["content-type"] == "application/problem+json", found.text
    said = found.json()
    assert said["status"] == found.status_code
    assert said["request_id"] == found.headers["x-request-id"]
    return found.status_code, said["code"]


def test_a_session_is_made_used_described_copied_and_destroyed(server: Running) -> None:
    with server.client(RUNNER) as client:
        files = {"a.txt": {"content": "tea"}, "b.bin": {"content": "/w==", "encoding": "base64", "read_only": True}}
        made = client.post("/v1/sessions", json={"id": "story", "labels": {"team": "a"}, "files": files})
        assert (made.status_code, made.headers["location"]) == (201, "/v1/sessions/story")
        assert _problem(client.post("/v1/sessions", json={"id": "story"})) == (409, "SESSION_EXISTS")
        wide = client.post("/v1/sessions", json={"limits": {"memory_mb": 1 << 20}})
        assert _problem(wide) == (422, "INVALID_LIMITS")
        assert wide.json()["pointer"] == "/limits"

        def run(code: str, session: str = "story", **given: Any) -> dict[str, Any]:
            return client.post(f"/v1/sessions/{session}/run", json={"code": code, **given}).json()

        assert run("x = n + 1\nx", inputs={"n": 41})["result"] == 42
        assert run("store('k', [x]); 1 +")["error"]["code"] == "SYNTAX_ERROR"
        assert run("store('k', [x])")["status"] == "ok"
        assert run("x", validate_only=True)["result"] is None
        assert client.post("/v1/sessions/story/validate", json={"code": "nope("}).json()["status"] == "validation_error"
        assert run("2**70")["result"] == 2**70

        # Described, listed, found by label.
        changed = client.patch("/v1/sessions/story", json={"title": "Story", "labels": {"team": "b"}}).json()
        assert (changed["title"], changed["labels"]) == ("Story", {"team": "b"})
        for number in range(5):
            client.post("/v1/sessions", json={"id": f"page-{number}", "durability": "none" if number % 2 else None})
        names: list[str] = []
        after = "page-"
        while True:
            page = client.get("/v1/sessions", params={"limit": 2, "after": after}).json()
            names += [one["id"] for one in page["sessions"] if one["id"].startswith("page-")]
            if "next_after" not in page or page["next_after"] > "page-9":
                break
            after = page["next_after"]
        assert names == [f"page-{number}" for number in range(5)]
        assert [one["id"] for one in client.get("/v1/sessions?label=team=b").json()["sessions"]] == ["story"]

        # Copied: each goes its own way.
        taken = client.post("/v1/sessions/story/snapshot").json()
        copy = client.post("/v1/sessions/restore", json={"snapshot": taken["snapshot"], "id": "copy"})
        fork = client.post("/v1/sessions/story/fork", json={"id": "fork"})
        assert (copy.status_code, fork.status_code, fork.json()["labels"]) == (201, 201, {"team": "b"})
        assert (run("x = 7\nx")["result"], run("x", "copy")["result"], run("x", "fork")["result"]) == (7, 42, 42)
        assert client.get("/v1/sessions/fork/values/k").json()["value"] == [42]
        broken = taken["snapshot"][:-8] + "AAAAAAA="
        assert _problem(client.post("/v1/sessions/restore", json={"snapshot": broken})) == (422, "SNAPSHOT_CORRUPT")
        assert _problem(client.post("/v1/sessions/restore", json={"snapshot": "%"})) == (422, "INVALID_INPUT")

        tools = client.get("/v1/sessions/story/catalog").json()
        assert [one["name"] for one in tools["tools"]] == ["get_order", "pay", "refund"]
        assert "async def get_order" in tools["stubs"]

        assert client.delete("/v1/sessions/story").json() == {"deleted": True}
        assert _problem(client.delete("/v1/sessions/story")) == (404, "SESSION_NOT_FOUND")
        assert _problem(client.post("/v1/sessions/story/run", json={"code": "1"})) == (404, "SESSION_NOT_FOUND")


def test_files_are_written_only_over_what_the_client_has_seen(server: Running) -> None:
    with server.client(RUNNER) as client:
        client.post("/v1/sessions", json={"id": "files"})
        root = "/v1/sessions/files/files"
        first = client.put(f"{root}/d/a.txt", json={"content": "one"}, headers={"if-none-match": "*"})
        tag = first.headers["etag"]
        again = client.put(f"{root}/d/a.txt", json={"content": "one"}, headers={"if-none-match": "*"})
        assert _problem(again) == (412, "PRECONDITION_FAILED")
        second = client.put(f"{root}/d/a.txt", json={"content": "two"}, headers={"if-match": tag})
        assert second.status_code == 200
        late = client.put(f"{root}/d/a.txt", json={"content": "three"}, headers={"if-match": tag})
        assert _problem(late) == (412, "PRECONDITION_FAILED")
        late = client.delete(f"{root}/d/a.txt", headers={"if-match": tag})
        assert _problem(late) == (412, "PRECONDITION_FAILED")
        assert _problem(client.put(f"{root}/new", json={"content": ""}, headers={"if-match": "*"}))[0] == 412
        weak = client.put(f"{root}/d/a.txt", json={"content": ""}, headers={"if-match": 'W/"x"'})
        assert _problem(weak)[0] in (412, 422)
        found = client.get(f"{root}/d/a.txt")
        assert (found.json()["content"], found.headers["etag"]) == ("two", second.headers["etag"])
        client.put(f"{root}/raw", json={"content": base64.b64encode(b"\xff\x00").decode(), "encoding": "base64"})
        raw = client.get(f"{root}/raw").json()
        assert (base64.b64decode(raw["content"]), raw["encoding"]) == (b"\xff\x00", "base64")

        def op(name: str, **body: Any) -> httpx2.Response:
            return client.post(f"{root}/_/{name}", json=body)

        assert op("stat", path="d").json()["kind"] == "directory"
        assert op("mkdir", path="/e/f").status_code == 200
        assert _problem(op("mkdir", path="/e/f")) == (409, "FILE_CONFLICT")
        assert op("copy", **{"from": "d/a.txt", "to": "e/f/b.txt"}).status_code == 200
        assert op("move", **{"from": "d/a.txt", "to": "c.txt"}).status_code == 200
        assert op("grep", pattern="^tw", glob="**/*.txt").json()["matches"][0]["line"] == 1
        assert _problem(op("grep", pattern="(")) == (422, "INVALID_INPUT")
        listed = client.get(f"{root}/", params={"recursive": True}).json()["entries"]
        assert {one["path"] for one in listed} == {"/c.txt", "/d", "/e", "/e/f", "/e/f/b.txt", "/raw"}
        for bad in ("..%2f..%2fetc%2fpasswd", "a%00b", "x" * 5000):
            assert client.get(f"{root}/{bad}").status_code in (404, 422), bad
        assert _problem(client.delete(f"{root}/e")) == (409, "FILE_CONFLICT")
        assert client.delete(f"{root}/e?recursive=true").json() == {"deleted": True}
        assert _problem(client.delete(f"{root}/e")) == (404, "FILE_NOT_FOUND")
        assert _problem(client.delete(f"{root}/")) == (422, "INVALID_INPUT")
        assert client.post("/v1/sessions/files/run", json={"code": "open('/c.txt').read()"}).json()["result"] == "two"


def test_values_secrets_and_attachments_are_kept_and_secrets_never_told(server: Running) -> None:
    with server.client(RUNNER) as client:
        client.post("/v1/sessions", json={"id": "held"})
        root = "/v1/sessions/held"
        for value in (None, [1, {"x": "\u2028"}], 2**60, "\x00"):
            assert client.put(f"{root}/values/k%2Fk", json={"value": value}).status_code == 200
            assert client.get(f"{root}/values/k%2Fk").json() == {"key": "k/k", "value": value}
        assert _problem(client.put(f"{root}/values/k", content=b'{"value": NaN}', headers=_JSON))[0] == 422
        assert [one["key"] for one in client.get(f"{root}/values").json()["values"]] == ["k/k"]
        assert client.delete(f"{root}/values/k%2Fk").json() == {"deleted": True}
        assert _problem(client.delete(f"{root}/values/k%2Fk")) == (404, "NOT_FOUND")

        hidden = "4711-4711-4711-4711"
        assert client.put(f"{root}/secrets/CARD", json={"value": hidden, "allow": ["pay"]}).json() == {"name": "CARD"}
        assert hidden not in client.get(f"{root}/secrets").text
        assert client.get(f"{root}/secrets/CARD").status_code == 405
        assert _problem(client.put(f"{root}/secrets/CARD", json={"value": hidden, "allow": ["nope"]}))[0] == 422
        ran = client.post(f"{root}/run", json={"code": "await pay(card=secret('CARD'))"})
        assert ran.json()["result"] == f"paid with {len(hidden)} characters"
        assert hidden not in ran.text
        assert client.delete(f"{root}/secrets/CARD").json() == {"deleted": True}

        body = {"content": base64.b64encode(b"hello").decode(), "media_type": "text/plain", "name": "h.txt"}
        made = client.post(f"{root}/attachments", json=body)
        assert made.status_code == 201
        found = client.get(made.headers["location"]).json()
        assert base64.b64decode(found["content"]) == b"hello"
        assert [one["id"] for one in client.get(f"{root}/attachments").json()["attachments"]] == [found["id"]]
        assert client.delete(made.headers["location"]).json() == {"deleted": True}
        assert _problem(client.get(made.headers["location"])) == (404, "ATTACHMENT_NOT_FOUND")


_JSON = {"content-type": "application/json"}


def test_cells_go_on_and_wait_for_people_until_they_are_answered_once(server: Running) -> None:
    with server.client() as client:
        client.post("/v1/sessions", json={"id": "cells"})
        root = "/v1/sessions/cells"
        code = 'text("before")\nawait refund(order_id="A7", amount=3)'
        asked = client.post(f"{root}/cells", json={"code": code, "yield_ms": 60_000}).json()
        assert (asked["status"], asked["content"][0]["text"]) == ("waiting_for_approval", "before")
        assert client.get(f"{root}/cells").json()["cells"][0]["approvals"] == [asked["approvals"][0]["id"]]
        pending = client.get("/v1/approvals?state=pending&session_id=cells").json()["approvals"]
        assert [one["arguments"] for one in pending] == [{"order_id": "A7", "amount": 3}]
        url = f"/v1/approvals/{pending[0]['id']}"
        assert _problem(client.post(url, json={"decision": "maybe"})) == (422, "INVALID_INPUT")
        outcomes = [client.post(url, json={"decision": word}).json()["outcome"] for word in ("allow", "deny", "allow")]
        assert outcomes == ["executed", "already_decided", "already_decided"]
        ended = client.post(f"{root}/cells/{asked['cell_id']}/wait", json={"yield_ms": 30_000}).json()
        assert (ended["status"], ended["result"], ended["content"]) == ("completed", "paid 3 for A7", [])
        again = client.post(f"{root}/cells/{asked['cell_id']}/wait")
        assert _problem(again) == (404, "CELL_NOT_FOUND")

        # A run that waits goes on by itself once somebody has answered; and one is stopped.
        for decision, status in (("allow", "completed"), ("deny", "failed")):
            waiting = client.post(f"{root}/run", json={"code": code}).json()
            assert waiting["status"] == "waiting_for_approval"
            one = {"id": waiting["approvals"][0]["id"], "decision": decision, "message": "because"}
            many = client.post("/v1/approvals/decide", json={"decisions": [one, {**one, "id": "apr_none"}, one]}).json()
            word = "executed" if decision == "allow" else "denied"
            assert [two["outcome"] for two in many["results"]] == [word, "not_found", "already_decided"]
            seen = client.post(f"{root}/cells/{waiting['cell_id']}/wait", json={"yield_ms": 30_000}).json()
            assert seen["status"] == status
        held = client.post(f"{root}/cells", json={"code": code, "isolated": True}).json()
        assert client.post(f"{root}/cells/{held['cell_id']}/terminate", json={}).json()["status"] == "terminated"
        assert client.get("/v1/approvals?state=pending&session_id=cells").json() == {"approvals": []}


@pytest.mark.anyio
async def test_a_request_with_a_key_is_done_once_however_often_it_is_sent(server: Running) -> None:
    async with server.async_client(RUNNER) as client:
        await client.post("/v1/sessions", json={"id": "once"})
        await client.post("/v1/sessions/once/run", json={"code": "n = 0"})

        async def sent(key: str, code: str = "n += 1\nn", path: str = "run") -> httpx2.Response:
            headers = {"idempotency-key": key}
            return await client.post(f"/v1/sessions/once/{path}", json={"code": code}, headers=headers)

        answers = await asyncio.gather(*(sent("a") for _ in range(20)))
        assert {one.text for one in answers} == {answers[0].text}
        assert answers[0].json()["result"] == 1
        assert sorted(one.headers.get("idempotency-replayed", "false") for one in answers).count("true") == 19
        assert _problem(await sent("a", "n += 2\nn")) == (409, "IDEMPOTENCY_CONFLICT")
        assert (await sent("b")).json()["result"] == 2
        cells = await asyncio.gather(sent("a", path="cells"), sent("a", path="cells"))
        assert cells[0].json()["result"] == cells[1].json()["result"] == 3
        elsewhere = await client.post(
            "/v1/sessions/once/validate", json={"code": "1"}, headers={"idempotency-key": "a"}
        )
        assert _problem(elsewhere) == (422, "INVALID_INPUT")


def test_what_does_not_fit_is_refused_with_where_it_is_wrong(server: Running) -> None:
    with server.client() as client:
        client.post("/v1/sessions", json={"id": "bad"})
        run = "/v1/sessions/bad/run"
        wrong: list[tuple[Any, str]] = [
            ({"code": 1}, "/code"),
            ({"code": "1", "limits": {"wall_ms": "1"}}, "/limits/wall_ms"),
            ({"code": "1", "a/b~c": 1}, "/a~1b~0c"),
            ({"code": "1", "limits": {"nope": 1}}, "/limits/nope"),
            ([], ""),
            ({}, "/code"),
        ]
        for body, pointer in wrong:
            found = client.post(run, json=body)
            assert _problem(found) == (422, "INVALID_INPUT")
            assert found.json()["pointer"] == pointer
        for change in ({"title": None}, {"labels": None}, {"id": "x"}):
            found = client.patch("/v1/sessions/bad", json=change)
            assert _problem(found) == (422, "INVALID_INPUT")
            assert found.json()["pointer"] == f"/{next(iter(change))}"
        # A key of repetition is for what it is kept for.
        for method, path in (("POST", ""), ("PATCH", "/bad"), ("PUT", "/bad/values/k"), ("DELETE", "/bad")):
            found = client.request(method, f"/v1/sessions{path}", json={}, headers={"idempotency-key": "k"})
            assert _problem(found) == (422, "INVALID_INPUT"), path
            assert "Idempotency-Key" in found.json()["detail"]
        # What is yet to come cannot be asked for.
        assert _problem(client.get(f"/v1/sessions/bad/events?since_seq={2**50}")) == (422, "INVALID_INPUT")
        for content in (b"{", b"\xff\xfe", b"[" * 100_000, b'{"code": "1"}x', b"\x00"):
            assert _problem(client.post(run, content=content, headers=_JSON)) == (400, "MALFORMED"), content[:20]
        assert _problem(client.post(run, json={"code": "1", "session_id": "other"})) == (422, "INVALID_INPUT")
        assert _problem(client.post(run, json={"code": "1", "language": "typescript"})) == (422, "INVALID_LANGUAGE")
        assert _problem(client.get("/v1/sessions?limit=2&limit=3")) == (422, "INVALID_INPUT")
        assert _problem(client.get("/v1/sessions?nope=1")) == (422, "INVALID_INPUT")
        assert _problem(client.put("/v1/sessions")) == (405, "METHOD_NOT_ALLOWED")
        assert _problem(client.get("/v1/nothing")) == (404, "NOT_FOUND")
        assert _problem(client.post("/v1/sessions/%2e%2e/run", json={"code": "1"}))[0] in (404, 422)
        assert _problem(client.get("/v1/sessions/bad%0d%0ax")) == (422, "INVALID_INPUT")
        # Nothing of it was kept, and the session goes on.
        assert client.post(run, json={"code": "1"}).json()["result"] == 1


def test_large_and_slow_bodies_are_cut_off_and_others_served_meanwhile() -> None:
    limits = ServerLimits(max_body_bytes=2000, max_upload_bytes=4000, body_timeout_ms=300)
    with running("memory:", limits=limits) as server, server.client() as client:
        client.post("/v1/sessions", json={"id": "s"})
        long = {"code": "#" * 2500}
        assert _problem(client.post("/v1/sessions/s/run", json=long)) == (413, "BODY_TOO_LARGE")
        parts = (b"#" * 500 for _ in range(100))
        chunked = client.post("/v1/sessions/s/run", content=parts, headers=_JSON)
        assert _problem(chunked) == (413, "BODY_TOO_LARGE")
        assert client.put("/v1/sessions/s/files/f", json={"content": "#" * 2500}).status_code == 200
        assert _problem(client.put("/v1/sessions/s/files/f", json={"content": "#" * 4500}))[0] == 413

        host, port = server.url.removeprefix("http://").split(":")
        heads = f"POST /v1/sessions/s/run HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        heads += f"Authorization: {client.headers['authorization']}\r\n"

        def raw(text: str) -> bytes:
            with socket.create_connection((host, int(port)), timeout=20) as wire:
                wire.sendall(text.encode())
                wire.settimeout(20)
                found = b""
                while part := wire.recv(4096):
                    found += part
                return found

        slow = raw(f"{heads}Content-Length: 100\r\n\r\n{{")
        assert slow.startswith(b"HTTP/1.1 408")
        # Two lengths, or one that is none: never read as two requests.
        for bad in (
            f"{heads}Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345",
            f"{heads}Content-Length: -5\r\n\r\n12345",
            f"{heads}Content-Length: 0x5\r\n\r\n12345",
            f"{heads}Transfer-Encoding: chunked, identity\r\n\r\n12345",
        ):
            assert raw(bad).startswith((b"HTTP/1.1 400", b"HTTP/1.1 501")), bad
        assert client.post("/v1/sessions/s/run", json={"code": "1 + 1"}).json()["result"] == 2


def _ended(client: httpx2.Client, asked: dict[str, Any], session: str = "always") -> dict[str, Any]:
    url = f"/v1/sessions/{session}/cells/{asked['cell_id']}/wait"
    return client.post(url, json={"yield_ms": 30_000}).json()


def test_what_is_always_allowed_is_what_its_rule_says(server: Running) -> None:
    with server.client() as client:
        client.post("/v1/sessions", json={"id": "always"})

        def run(order: str, amount: int) -> dict[str, Any]:
            code = f"await refund(order_id={order!r}, amount={amount})"
            return client.post("/v1/sessions/always/run", json={"code": code}).json()

        def decided(asked: dict[str, Any], **body: Any) -> httpx2.Response:
            return client.post(f"/v1/approvals/{asked['approvals'][0]['id']}", json=body)

        asked = run("A1", 5)
        for body in ({"decision": "allow_always", "rule": "args.amount <"}, {"decision": "allow", "rule": "true"}):
            refused = decided(asked, **body)
            assert _problem(refused) == (422, "INVALID_INPUT"), body
            assert refused.json()["pointer"] == "/rule"
        told = decided(asked, decision="allow_always", rule="args.amount < 10", message="small ones").json()
        assert told["outcome"] == "executed"
        approval = told["approval"]
        assert (approval["state"], approval["decision"], approval["rule"], approval["message"]) == (
            "allowed", "allow_always", "args.amount < 10", "small ones"
        )  # fmt: skip
        assert _ended(client, asked)["status"] == "completed"
        assert run("B2", 9)["result"] == "paid 9 for B2"
        # Without a rule: those with the same arguments.
        asked = run("B2", 10)
        assert decided(asked, decision="allow_always").json()["outcome"] == "executed"
        assert _ended(client, asked)["result"] == "paid 10 for B2"
        assert run("B2", 10)["result"] == "paid 10 for B2"
        asked = run("B2", 11)
        assert decided(asked, decision="deny", message="not today").json()["outcome"] == "denied"
        assert "not today" in _ended(client, asked)["error"]["message"]
        run("C3", 12)
        # Each state can be asked for, a page at a time.
        first = client.get("/v1/approvals?session_id=always&limit=2").json()
        rest = client.get("/v1/approvals?session_id=always", params={"after": first["next_after"]}).json()
        states = [one["state"] for one in (*first["approvals"], *rest["approvals"])]
        assert states == ["allowed", "allowed", "denied", "pending"]
        for state in ("allowed", "pending", "denied", "expired"):
            found = client.get(f"/v1/approvals?session_id=always&state={state}").json()["approvals"]
            assert len(found) == states.count(state)
        assert _problem(client.get("/v1/approvals?state=perhaps")) == (422, "INVALID_INPUT")


def test_question_that_nobody_answers_in_time_has_expired() -> None:
    with running("memory:", approval_ttl_ms=1) as server, server.client() as client:
        client.post("/v1/sessions", json={"id": "late"})
        run = client.post("/v1/sessions/late/run", json={"code": "await refund('A', 1)"}).json()
        asked = run["approvals"][0]["id"] if run["approvals"] else None
        if asked is None:
            # It was over before the run could tell of it.
            asked = client.get("/v1/approvals?session_id=late").json()["approvals"][0]["id"]
        else:
            assert _ended(client, run, "late")["error"]["code"] == "APPROVAL_EXPIRED"
        told = client.post(f"/v1/approvals/{asked}", json={"decision": "allow"}).json()
        assert (told["outcome"], told["approval"]["state"]) == ("expired", "expired")
        many = client.post("/v1/approvals/decide", json={"decisions": [{"id": asked, "decision": "allow"}]}).json()
        assert [one["outcome"] for one in many["results"]] == ["expired"]


def test_question_of_a_server_before_is_told_as_it_ended(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/c.db"
    with running(url) as first, first.client() as client:
        client.post("/v1/sessions", json={"id": "kept"})
        run = client.post("/v1/sessions/kept/run", json={"code": "await refund('A', 1)"}).json()
        asked = f"/v1/approvals/{run['approvals'][0]['id']}"
        assert client.post(asked, json={"decision": "deny"}).json()["outcome"] == "denied"
        assert _ended(client, run, "kept")["status"] == "failed"
    with running(url) as second:
        with second.client() as client:
            told = client.post(asked, json={"decision": "allow"}).json()
            assert (told["outcome"], told["approval"]["state"]) == ("already_decided", "denied")
        with second.client(OTHER) as client:
            assert _problem(client.post(asked, json={"decision": "allow"})) == (404, "APPROVAL_NOT_FOUND")
