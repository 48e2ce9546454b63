"""MCP over Streamable HTTP: the SDK's transport over a client of ours that bounds what comes back.

A body is bounded, a compressed one is not taken (none was asked for), a server that cannot be reached loses the line
and not only the one request, and so does one that has forgotten the session. A read that takes too long ends its
request.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client

from cloister.ports.source import SourceFailed
from cloister.tools.sources.mcp.line import MAX_FRAME_BYTES, Line
from cloister.tools.sources.mcp.servers import McpHttp

_CONNECT_SECONDS = 10.0
# Saying goodbye to a server that does not answer must not hold up whoever leaves.
_GOODBYE_SECONDS = 2.0
# A request is given up by whoever waits for it; this is for its connection, once nobody does.
_SLACK_SECONDS = 10.0


@asynccontextmanager
async def http_line(server: McpHttp, values: Mapping[str, str], line: Line) -> AsyncGenerator[tuple[Any, Any]]:
    """`values` are those of its `headers`. Raises `SourceFailed` for one that cannot be sent."""
    for name, text in values.items():
        if not text.isascii() or not text.isprintable():
            raise SourceFailed(f"{server.what}: the value of the header {name!r} is not one line of ASCII", gone=True)
    headers = {"user-agent": "cloister", **values, "accept-encoding": "identity"}
    transport = _Watched(httpx2.AsyncHTTPTransport(), line, server.call_timeout_ms / 1000)
    # Neither proxies nor .netrc of this process: it reaches what was configured, with what was configured.
    async with httpx2.AsyncClient(transport=transport, headers=headers, trust_env=False) as client:
        async with streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_FRAME_BYTES) as (
            reading,
            writing,
        ):
            yield reading, writing


class _Watched(httpx2.AsyncBaseTransport):
    """Answers in the place of a server that cannot, so that the SDK's own tasks never break."""

    def __init__(self, inner: httpx2.AsyncHTTPTransport, line: Line, call_seconds: float) -> None:
        self._inner = inner
        self._line = line
        self._call_seconds = call_seconds

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._line.is_lost:
            return httpx2.Response(502, request=request)
        request.extensions = {**request.extensions, "timeout": self._timeout(request.method)}
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ReadTimeout, httpx2.WriteTimeout, httpx2.PoolTimeout):
            return httpx2.Response(504, request=request)
        except httpx2.TransportError as error:
            self._line.lose(f"it cannot be reached: {str(error) or type(error).__name__}")
            return httpx2.Response(502, request=request)
        if response.status_code >= 400:
            self._line.note = f"HTTP {response.status_code}"
        if response.status_code == 404 and MCP_SESSION_ID in request.headers:
            self._line.lose("it has forgotten the session")
        encoding = response.headers.get("content-encoding", "identity").lower()
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        if encoding != "identity":
            await stream.aclose()
            self._line.note = f"it answers in {encoding!r}, which it was not asked for"
            return httpx2.Response(502, request=request)
        # Events are bounded one by one.
        events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Bounded(stream, None if events else MAX_FRAME_BYTES, self._line),
            extensions=response.extensions,
            request=request,
        )

    def _timeout(self, method: str) -> dict[str, float | None]:
        read: float | None = self._call_seconds + _SLACK_SECONDS
        if method == "GET":
            # Where the server speaks when it has something to say.
            read = None
        if method == "DELETE":
            read = _GOODBYE_SECONDS
        connect = _GOODBYE_SECONDS if method == "DELETE" else _CONNECT_SECONDS
        return {"connect": connect, "pool": _CONNECT_SECONDS, "write": _CONNECT_SECONDS, "read": read}

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, most: int | None, line: Line) -> None:
        self._inner = inner
        self._most = most
        self._line = line

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        try:
            async for chunk in self._inner:
                read += len(chunk)
                if self._most is not None and read > self._most:
                    raise httpx2.StreamError(f"more than {self._most >> 20} MiB")
                yield chunk
        except httpx2.TransportError as error:
            # The one kind of error that the SDK takes for the end of a request, and not of everything.
            raise httpx2.StreamError(str(error) or type(error).__name__) from None

    async def aclose(self) -> None:
        await self._inner.aclose()
