"""MCP servers over Streamable HTTP: the lab on uvicorn, and servers that misbehave, on loopback."""

import asyncio
import gzip
import json
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cloister.ports.source import SourceFailed
from cloister.tools.sources.mcp import McpHttp, McpSource
from tests.tools.sources.told import about, failure_of

pytestmark = pytest.mark.anyio

LAB = str(Path(__file__).with_name("lab_server.py"))


@asynccontextmanager
async def lab(port: int = 0) -> AsyncGenerator[int]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, LAB, "http", str(port), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield int(await process.stdout.readline())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def at(port: int, **options: Any) -> McpHttp:
    plain: dict[str, Any] = {"name": "lab", "url": f"http://127.0.0.1:{port}/mcp"}
    return McpHttp(**{**plain, **options})


@pytest.fixture(scope="module")
async def port() -> AsyncIterator[int]:
    async with lab() as found:
        yield found


async def test_tools_are_listed_and_called_at_once(port: int) -> None:
    async with McpSource(at(port)) as source:
        assert "lab.add" in [one.full_name for one in await source.manifests()]
        met = [source.call("lab.meet", {"place": "web", "people": 4}, about()) for _ in range(4)]
        assert await asyncio.gather(*met) == ["web"] * 4
        assert await source.call("lab.add", {"a": 1, "b": 1}, about()) == {"total": 2}
        assert "no paper" in (await failure_of(source, "lab.fail", {"reason": "no paper"})).message


async def test_headers_are_sent_and_their_secrets_do_not_come_back(port: int) -> None:
    headers = {"Authorization": lambda: "Bearer tok-12345-abcde", "X-Team": "blue"}
    async with McpSource(at(port, headers=headers)) as source:
        told = str(await source.call("lab.headers", {}, about()))
        assert "blue" in told
        assert "'authorization': '[secret]'" in told
        assert "tok-12345" not in told


async def test_cancelling_a_call_cancels_it_at_the_server(port: int) -> None:
    began = asyncio.Event()
    context = about()
    object.__setattr__(context, "progress", lambda _text, _share: began.set())  # pyright: ignore[reportUnknownLambdaType]
    async with McpSource(at(port)) as source:
        call = asyncio.ensure_future(source.call("lab.hang", {}, context))
        await began.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await source.call("lab.when_cancelled", {}, about()) == "it was"


async def test_a_changed_list_is_read_again_and_told(port: int) -> None:
    async with McpSource(at(port)) as source:
        told = asyncio.Event()
        source.subscribe(told.set)
        assert await source.call("lab.grow", {"name": "web_sprout"}, about()) == "grown"
        await told.wait()
        assert await source.call("lab.web_sprout", {}, about()) == "new here"


@pytest.mark.slow
async def test_a_server_that_died_and_came_back_is_used_again() -> None:
    async with lab() as port:
        source = McpSource(at(port, patience_ms=60_000))
        await source.__aenter__()
        try:
            failed = await failure_of(source, "lab.crash")
            assert "MCP server 'lab'" in failed.message
            async with lab(port):
                assert await source.call("lab.say", {"text": "back"}, about()) == "back"
        finally:
            await source.__aexit__()


async def test_a_session_that_the_server_has_forgotten_is_made_anew() -> None:
    forgotten = False

    def act(handler: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        if message["method"] == "initialize":
            begin(handler, message, session="one" if not forgotten else "two")
        elif forgotten and handler.headers["mcp-session-id"] == "one":
            reply(handler, 404, b"")
        elif not begin(handler, message):
            result = {"content": [{"type": "text", "text": handler.headers["mcp-session-id"]}]}
            reply(handler, 200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    with serving(act) as port:
        async with McpSource(at(port, patience_ms=60_000)) as source:
            assert await source.call("lab.t0", {}, about()) == "one"
            forgotten = True
            failed = await failure_of(source, "lab.t0")
            assert failed.message == "MCP server 'lab' is gone: it has forgotten the session"
            assert await source.call("lab.t0", {}, about()) == "two"


async def test_a_server_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(SourceFailed, match="MCP server 'lab' is gone: it cannot be reached") as failed:
        # A port that nothing can listen at.
        await McpSource(at(1)).__aenter__()
    assert failed.value.gone


# -- servers that misbehave --------------------------------------------------------------------------------------------

Act = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


@contextmanager
def serving(act: Act) -> Generator[int]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if "id" not in message:
                self.send_response(202)
                self.send_header("content-length", "0")
                self.end_headers()
                return
            try:
                act(self, message)
            except OSError:
                pass  # the client had enough

        def do_GET(self) -> None:
            reply(self, 405, b"")

        def do_DELETE(self) -> None:
            reply(self, 200, b"")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def reply(
    handler: BaseHTTPRequestHandler, status: int, body: bytes, kind: str = "application/json", **more: str
) -> None:
    handler.send_response(status)
    for name, value in {"content-type": kind, "content-length": str(len(body)), **more}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def always(status: int, body: bytes, kind: str = "application/json", **more: str) -> Act:
    return lambda handler, _message: reply(handler, status, body, kind, **more)


def begin(handler: BaseHTTPRequestHandler, message: dict[str, Any], tools: int = 1, session: str = "") -> bool:
    """The beginning of an honest server; whether it was that."""
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"},
        },
        "tools/list": {"tools": [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(tools)]},
    }
    if message["method"] not in results:
        return False
    result = results[message["method"]]
    more = {"mcp_session_id": session} if session else {}
    reply(handler, 200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode(), **more)
    return True


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (always(401, b"no"), "HTTP 401"),
        (always(200, b"<html>", "text/html"), "Unexpected content type"),
        (always(200, b"not json"), "Failed to parse JSON"),
        (always(302, b"", location="http://169.254.169.254/"), "not followed"),
        (always(200, gzip.compress(b"{}"), content_encoding="gzip"), "answers in 'gzip'"),
        (always(200, b"x" * (17 << 20)), "more than 16 MiB"),
    ],
)
async def test_a_server_that_does_not_come_up_is_named_with_the_reason(act: Act, said: str) -> None:
    with serving(act) as port:
        with pytest.raises(SourceFailed) as failed:
            await McpSource(at(port)).__aenter__()
        assert said in failed.value.message
        assert failed.value.message.startswith("MCP server 'lab'")


async def test_an_answer_that_is_too_large_fails_its_call_and_no_other() -> None:
    def act(handler: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        if begin(handler, message, tools=2):
            return
        if message["params"]["name"] == "t0":
            reply(handler, 200, b'{"a": "' + b"x" * (17 << 20))
        else:
            result = {"content": [{"type": "text", "text": "fine"}]}
            reply(handler, 200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    with serving(act) as port:
        async with McpSource(at(port)) as source:
            assert "16 MiB" in (await failure_of(source, "lab.t0")).message
            assert await source.call("lab.t1", {}, about()) == "fine"


async def test_an_event_without_end_fails_its_call() -> None:
    def act(handler: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        if begin(handler, message):
            return
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("connection", "close")
        handler.end_headers()
        handler.close_connection = True
        handler.wfile.write(b"data: ")
        for _ in range(40):
            handler.wfile.write(b"x" * (1 << 20))

    with serving(act) as port:
        async with McpSource(at(port)) as source:
            assert "did not answer properly: SSE" in (await failure_of(source, "lab.t0")).message
