"""What is no request, or two at once: answered once, as a problem, by a server that goes on and logs nothing of it."""

import json
import logging
import socket
import threading
from collections.abc import Callable

import pytest

from cloister.core.serving import ServerLimits
from cloister.server.logs import JsonLines
from tests.server.lab import ADMIN, Running, running

_PATIENCE_S = 20
_BODY = b"2\r\n{}\r\n0\r\n\r\n"


def _raw(server: Running, *parts: bytes) -> bytes:
    """What comes back until the server closes the connection. Each part goes when the one before has been answered."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=_PATIENCE_S) as wire:
        found = b""
        for place, part in enumerate(parts):
            wire.sendall(part)
            while place < len(parts) - 1 and b"\r\n\r\n" not in found:
                found += wire.recv(1 << 16)
        while part := wire.recv(1 << 16):
            found += part
    return found


def _post(server: Running, *heads: str, token: str = ADMIN) -> bytes:
    host = server.url.removeprefix("http://")
    lines = ["POST /v1/sessions HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {token}", *heads]
    return "\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode()


def _problem(found: bytes) -> tuple[int, str]:
    head, _, body = found.partition(b"\r\n\r\n")
    assert found.count(b"HTTP/1.1 ") == 1, found
    lines = head.decode().lower().split("\r\n")
    assert "content-type: application/problem+json" in lines, found
    assert "connection: close" in lines, found
    said = json.loads(body)
    assert f"x-request-id: {said['request_id']}" in lines
    return said["status"], said["code"]


def test_request_with_two_lengths_is_never_read_as_two_requests(server: Running) -> None:
    # What a proxy in front of us may have taken for a body, and the other way round.
    second = _post(server, "Content-Length: 0")
    for heads, body in (
        (("Content-Length: 4", "Transfer-Encoding: chunked"), _BODY),
        (("Transfer-Encoding: chunked", "Content-Length: 0"), _BODY),
        (("Content-Length: 0", "Content-Length: 300"), b""),
        (("Content-Length: +0",), b""),
        (("Content-Length: -1",), b""),
        (("Transfer-Encoding: xchunked",), _BODY),
        (("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), _BODY),
        (("Transfer-Encoding : chunked",), _BODY),
        (("Transfer-Encoding: chunked",), b"zz\r\n{}\r\n0\r\n\r\n"),
        (("Transfer-Encoding: chunked",), b"-2\r\n{}\r\n0\r\n\r\n"),
    ):
        assert _problem(_raw(server, _post(server, *heads) + body + second)) == (400, "MALFORMED"), heads


def test_what_is_no_request_is_a_problem_and_heads_are_bounded(server: Running) -> None:
    host = server.url.removeprefix("http://").encode()
    get = b"GET /healthz HTTP/1.1\r\nHost: " + host + b"\r\n"
    for bad in (
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: " + host + b"\r\n\r\n",
        get + b"X: a\x00b\r\n\r\n",
        get + b"Host: " + host + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost : " + host + b"\r\n\r\n",
    ):
        assert _problem(_raw(server, bad)) == (400, "MALFORMED"), bad
    for large in (
        get + b"X-Long: " + b"a" * 70_000 + b"\r\n\r\n",
        get + b"".join(b"X-%d: %s\r\n" % (number, b"a" * 60) for number in range(1200)) + b"\r\n",
        get.replace(b"/healthz", b"/" + b"a" * 70_000) + b"\r\n",
    ):
        # Whichever notices first: the reader, while it waits for the rest, or the door.
        assert _problem(_raw(server, large)) in ((431, "HEADERS_TOO_LARGE"), (400, "MALFORMED"))
    with server.client() as client:
        assert client.get("/healthz").status_code == 200


def test_head_that_comes_too_slowly_is_refused_and_who_says_nothing_is_hung_up_on() -> None:
    with running("memory:", limits=ServerLimits(head_timeout_ms=300)) as server:
        host = server.url.removeprefix("http://").encode()
        get = b"GET /healthz HTTP/1.1\r\nHost: " + host + b"\r\n"
        # What follows comes when it has been refused already.
        assert _problem(_raw(server, get)) == (408, "UPLOAD_TIMEOUT")
        assert _raw(server) == b""
        # The same of the second over one connection.
        first, second = _raw(server, get + b"\r\n", get).split(b"HTTP/1.1 ")[1:]
        assert first.startswith(b"200")
        assert second.startswith(b"408")
        with server.client() as client:
            assert client.get("/healthz").status_code == 200


def test_rubbish_behind_an_answer_ends_the_connection_and_is_in_no_log(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    host = server.url.removeprefix("http://").encode()
    get = b"GET /healthz HTTP/1.1\r\nHost: " + host + b"\r\n"
    with caplog.at_level("DEBUG"):
        # The answer has been given when the body turns out to be none.
        found = _raw(server, get + b"Transfer-Encoding: chunked\r\n\r\n", b"kohlrabi\r\n")
        assert found.count(b"HTTP/1.1 ") == 1
        assert found.startswith(b"HTTP/1.1 200")
        # One that asks for something else than HTTP is answered as if it had not.
        upgrade = get + b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: kohlrabi\r\n\r\n"
        assert _raw(server, upgrade).startswith(b"HTTP/1.1 200")
    written = [JsonLines().format(record) for record in caplog.records]
    assert not [line for line in written if "kohlrabi" in line]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


class Lines(logging.Handler):
    """What is logged, as it is written; and when a request has failed, which is after its client has heard."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self.failed = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.written.append(JsonLines().format(record))
        if record.getMessage() == "a request failed":
            self.failed.set()


def test_request_that_breaks_tells_the_log_where_and_nobody_with_what(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("kohlrabi") from ValueError("kohlrabi too")

    breaks: Callable[..., None] = broken
    monkeypatch.setattr(server.service.cloister, "list_sessions", breaks)
    lines, logger = Lines(), logging.getLogger()
    logger.addHandler(lines)
    try:
        with server.client() as client:
            found = client.get("/v1/sessions", headers={"x-request-id": "mine-2"})
        assert lines.failed.wait(_PATIENCE_S)
    finally:
        logger.removeHandler(lines)
    assert (found.status_code, found.json()["code"], found.json()["request_id"]) == (500, "INTERNAL", "mine-2")
    assert "kohlrabi" not in found.text
    assert not [line for line in lines.written if "kohlrabi" in line]
    [error] = [json.loads(line) for line in lines.written if '"message": "a request failed"' in line]
    assert (error["level"], error["error"]) == ("error", "RuntimeError")
    assert any(place.endswith("in broken") for place in error["where"])


def test_log_of_others_is_told_without_what_their_errors_say() -> None:
    def said(name: str, message: str) -> str:
        return json.loads(JsonLines().format(logging.LogRecord(name, 40, "", 0, message, None, None)))["message"]

    told = "Task exception was never retrieved\nfuture: <Task exception=ValueError('kohlrabi')>"
    assert said("asyncio", told) == "Task exception was never retrieved"
    assert said("cloister.gate", "tool pay failed\nwhere it did") == "tool pay failed\nwhere it did"
