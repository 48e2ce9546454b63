"""Who may ask for what: every route of the description, for tokens of all kinds and for other tenants."""

import json
import os
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cloister import CloisterError, InvalidConfig, InvalidInput
from cloister.core.serving import ServerLimits
from cloister.core.statuses import HTTP_STATUS
from cloister.server import Exposure, Scope, load_tokens, own_token
from tests.server.lab import ADMIN, APPROVER, OTHER, RUNNER, Running, running

_BODIES: dict[str, Any] = {
    "/run": {"code": "1"},
    "/validate": {"code": "1"},
    "/cells": {"code": "1"},
    "/restore": {"snapshot": ""},
    "/decide": {"decisions": [{"id": "apr_x", "decision": "deny"}]},
    "/attachments": {"content": "", "media_type": "text/plain"},
    "/_/stat": {"path": "/x"},
    "/_/mkdir": {"path": "/x"},
    "/_/move": {"from": "/x", "to": "/y"},
    "/_/copy": {"from": "/x", "to": "/y"},
    "/_/grep": {"pattern": "x"},
    "/{key}": {"value": 1},
    "/{name}": {"value": "x" * 20},
    "/{path}": {"content": "x"},
    "/{approval_id}": {"decision": "deny"},
    "/compact": {"summary": "x", "through_item_id": "itm_x"},
    "/turns": {"input": "x"},
    "/steer": {"input": "x"},
    "/result": {"success": True},
}


def _routes(client: httpx2.Client) -> list[tuple[str, str, dict[str, Any]]]:
    document = client.get("/openapi.json").json()
    return [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def _filled(path: str, ids: dict[str, str]) -> str:
    for name, value in ids.items():
        path = path.replace(f"{{{name}}}", value)
    return re.sub(r"\{attachment_id\}", "0" * 64, re.sub(r"\{(cell_id|key|name|path)\}", "x", path))


def _body(method: str, path: str) -> dict[str, Any]:
    if method in ("get", "delete"):
        return {}
    nothing: dict[str, Any] = {}
    return {"json": next((body for end, body in _BODIES.items() if path.endswith(end)), nothing)}


def test_every_route_refuses_no_token_a_wrong_scope_and_another_tenant(server: Running) -> None:
    with server.client() as ours, server.client(None) as nobody, server.client(OTHER) as other:
        ours.post("/v1/sessions", json={"id": "ours"})
        waiting = ours.post("/v1/sessions/ours/run", json={"code": 'await refund("A", 1)'}).json()
        approval_id = waiting["approvals"][0]["id"]
        thread = ours.post("/v1/threads", json={"session_id": "ours", "driver": "native"}).json()
        turn = ours.post(f"/v1/threads/{thread['id']}/turns", json={"input": "hello"}).json()["turn"]
        ids = {"session_id": "ours", "approval_id": approval_id, "thread_id": thread["id"], "turn_id": turn["id"]}
        ids |= {"call_id": "cal_x"}
        refused = dict.fromkeys(("no token", "scope", "tenant"), 0)
        for method, path, operation in _routes(ours):
            url, body = _filled(path, ids), _body(method, path)
            if {} in operation["security"] or not operation["security"]:
                assert nobody.request(method, url, **body).status_code == 200, path
                continue
            needed = operation["x-cloister-scope"]
            found = nobody.request(method, url, **body)
            assert (found.status_code, found.json()["code"]) == (401, "UNAUTHENTICATED"), path
            assert "bearer" in found.headers["www-authenticate"].lower()
            refused["no token"] += 1
            wrong = server.client(APPROVER if needed == "run" else RUNNER)
            with wrong:
                assert wrong.request(method, url, **body).json()["code"] == "FORBIDDEN", path
            refused["scope"] += 1
            if any(f"{{{name}}}" in path for name in ("session_id", "approval_id", "thread_id")):
                found = other.request(method, url, **body)
                assert found.status_code == 404, (path, found.text)
                assert found.json()["code"] in ("SESSION_NOT_FOUND", "APPROVAL_NOT_FOUND", "THREAD_NOT_FOUND")
                refused["tenant"] += 1
        assert min(refused.values()) > 30, refused
        # Nothing of it is in their lists either, nor is anything changed by all this.
        assert other.get("/v1/sessions").json() == {"sessions": []}
        assert other.get("/v1/approvals").json() == {"approvals": []}
        assert other.get("/v1/threads").json() == {"threads": [], "next_after": None}
        # Nor can a thread of theirs live in a session of ours; what it says is that there is no such session.
        found = other.post("/v1/threads", json={"session_id": "ours"})
        assert (found.status_code, found.json()["code"]) == (404, "SESSION_NOT_FOUND")
        many = other.post("/v1/approvals/decide", json={"decisions": [{"id": approval_id, "decision": "allow"}]})
        assert many.json() == {"results": [{"id": approval_id, "outcome": "not_found"}]}
        assert [one["state"] for one in ours.get("/v1/approvals").json()["approvals"]] == ["pending"]
        # A name is taken for everybody, and a snapshot opens for its own tenant only.
        assert other.post("/v1/sessions", json={"id": "ours"}).status_code == 409
        taken = ours.post("/v1/sessions/ours/snapshot").json()["snapshot"]
        found = other.post("/v1/sessions/restore", json={"snapshot": taken, "id": "stolen"})
        assert found.json()["code"] == "SNAPSHOT_FOREIGN"
        assert ours.get("/v1/sessions/stolen").status_code == 404


def test_pages_of_other_sites_and_other_names_get_nothing(server: Running) -> None:
    with server.client() as client:
        port = server.url.rpartition(":")[2]

        def asked(**headers: str) -> int:
            return client.get("/v1/sessions", headers=headers).status_code

        assert asked(host=f"rebound.example.com:{port}") == 421
        assert asked(host=f"localhost:{port}", origin=f"http://localhost:{port}") == 200
        for origin in ("http://evil.example", "null", f"http://localhost:{port}", "file://", "http://127.0.0.1"):
            assert asked(origin=origin) == 403, origin
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
            found = client.post("/v1/sessions", content=b"{}", headers={"content-type": kind})
            assert (found.status_code, found.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE"), kind
        assert client.get("/healthz", headers={"host": "rebound.example.com"}).status_code == 421
        page = client.get("/docs")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        for asset in ("/docs", "/docs/page.js", "/docs/page.css"):
            assert not re.search(r"https?://", client.get(asset).text), asset


def test_addresses_that_others_can_reach_need_tokens_and_names(tmp_path: Path) -> None:
    Exposure("127.0.0.1").check(configured=False)
    Exposure("::1").check(configured=False)
    for exposure, configured in (
        (Exposure("10.0.0.5"), False),
        (Exposure("example.com"), False),
        (Exposure("0.0.0.0", hosts=("api.example.com",)), False),
        (Exposure("0.0.0.0"), True),
        (Exposure("::"), True),
    ):
        with pytest.raises(InvalidInput):
            exposure.check(configured=configured)
    named = Exposure("0.0.0.0", hosts=("api.example.com",), origins=("https://console.example.com",))
    named.check(configured=True)
    assert named.knows("API.example.com:8787")
    assert not named.knows("127.0.0.1:8787")
    assert named.takes("https://console.example.com", "api.example.com")
    assert not named.takes("https://console.example.com.evil", "api.example.com")
    for bad in ("*", "", "a b", "http://x"):
        with pytest.raises(InvalidInput):
            Exposure(hosts=(bad,))
    with pytest.raises(InvalidInput):
        Exposure(origins=("https://x/path",))


def test_a_file_of_tokens_is_read_only_if_nobody_else_can_read_it(tmp_path: Path) -> None:
    own = tmp_path / "data" / "server.token"
    shown = own_token(own)
    assert os.stat(own).st_mode & 0o777 == 0o600
    assert own_token(own) == shown
    book = load_tokens(None, own, {})
    found = book.find(shown)
    assert found is not None
    assert found.may(Scope.APPROVE)
    assert not book.configured
    assert shown not in repr(vars(book))
    own.chmod(0o640)
    with pytest.raises(InvalidInput, match="can be read by others"):
        own_token(own)
    file = tmp_path / "tokens.toml"
    good = '[[tokens]]\nname = "ci"\ntoken = "0123456789abcdef"\ntenant = "acme"\nscopes = ["run"]\n'
    for text in (
        "",
        "tokens = 3",
        good + 'color = "red"\n',
        good.replace("ef", "é"),
        good.replace("89abcdef", ""),
        good.replace('["run"]', '["root"]'),
        good.replace("acme", "Acme!"),
        good + good,
        good + f'sha256 = "{"0" * 64}"\n',
    ):
        file.write_text(text)
        file.chmod(0o600)
        with pytest.raises((InvalidConfig, InvalidInput)):
            load_tokens(file, own, {})
    file.write_text(good)
    token = load_tokens(file, own, {}).find("0123456789abcdef")
    assert token is not None
    assert (token.tenant, token.may(Scope.RUN), token.may(Scope.APPROVE)) == ("acme", True, False)
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    with pytest.raises(InvalidInput):
        load_tokens(link, own, {})
    with pytest.raises(InvalidInput):
        load_tokens(None, own, {"CLOISTER_SERVER_TOKEN": "short"})


def test_a_token_that_asks_too_often_is_told_when_to_come_again() -> None:
    with running("memory:", limits=ServerLimits(rate_per_min=3)) as server, server.client() as client:
        answers = [client.get("/v1/sessions") for _ in range(4)]
        assert [one.status_code for one in answers] == [200, 200, 200, 429]
        assert 1 <= int(answers[3].headers["retry-after"]) <= 20
        # Others are not kept waiting, nor is it known to be alive.
        assert client.get("/healthz").status_code == 200
        with server.client(RUNNER) as other:
            assert other.get("/v1/sessions").status_code == 200


def test_nothing_that_clients_send_is_in_the_logs(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    from cloister.server.logs import JsonLines

    hidden = "kohlrabi-4711-secret"
    with caplog.at_level("DEBUG", "cloister"), server.client(headers={"x-request-id": "mine-1"}) as client:
        client.post("/v1/sessions", json={"id": "logs"})
        client.put(f"/v1/sessions/logs/secrets/{hidden}", json={"value": hidden, "allow": ["pay"]})
        client.put("/v1/sessions/logs/secrets/CARD", json={"value": hidden, "allow": ["pay"]})
        client.put("/v1/sessions/logs/secrets/CARD", json={"value": {"x": hidden}})
        client.get(f"/v1/sessions/logs/files/{hidden}?x={hidden}")
        found = client.post("/v1/sessions/logs/run", json={"code": "await pay(card=secret('CARD'))"})
        assert found.json()["result"] == f"paid with {len(hidden)} characters"
        assert found.headers["x-request-id"] == "mine-1"
        assert client.get("/v1/sessions/logs/secrets").json()["secrets"][0]["name"] == "CARD"
    written = "\n".join(JsonLines().format(record) for record in caplog.records if record.name.startswith("cloister"))
    assert '"route": "/v1/sessions/{session_id}/run"' in written
    assert json.loads(written.splitlines()[-1])["status"] == 200
    for text in (hidden, ADMIN):
        assert text not in written


def test_every_error_of_ours_has_a_status() -> None:
    kinds, codes = [CloisterError], set[str]()
    while kinds:
        kind = kinds.pop()
        # Those of a client say what it was told, or not told.
        if not kind.__module__.startswith("cloister.client"):
            codes.add(kind.code)
        kinds += kind.__subclasses__()
    assert codes <= HTTP_STATUS.keys()
