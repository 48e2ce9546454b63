"""The connection to a provider: what leaves in headers is a list, and how much comes back is bounded.

The SDKs put into a request what they find in the environment: organisations, projects, headers, telemetry. Here only
what the protocol needs goes on, with the headers and the key of this request, which the SDKs never hold. Proxies and
.netrc of the process are not looked at, redirects are not followed, compressed answers are not asked for.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

import httpx2

from cloister.core.offer import FreeformTool
from cloister.threads.models.settings import ModelSettings

# What an SDK may say for itself; the rest of what it says is left behind.
_PASSED = frozenset(
    ["accept", "content-type", "content-length", "host", "transfer-encoding", "anthropic-version", "anthropic-beta"]
)


@dataclass
class Sending:
    """What belongs to one request, and what became of it."""

    headers: Mapping[str, str]
    max_bytes: int
    heard: Callable[[], None]
    # What is offered as a tool whose input is text, by its name on the wire.
    freeform: Mapping[str, FreeformTool] = field(default_factory=dict[str, FreeformTool])
    exceeded: bool = False
    encoding: str | None = None


# The SDKs insist on a key; here it is replaced.
NO_KEY = "not-held-here"
CURRENT: ContextVar[Sending] = ContextVar("cloister_model_sending")


class Stopped(Exception):
    """We do not read on; `Sending` says why."""


def open_client(settings: ModelSettings) -> httpx2.AsyncClient:
    # Connecting only: how long an answer may take is watched elsewhere.
    timeout = httpx2.Timeout(None, connect=settings.connect_timeout_ms / 1000)
    return httpx2.AsyncClient(transport=Wire(), trust_env=False, follow_redirects=False, timeout=timeout)


class Wire(httpx2.AsyncBaseTransport):
    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        sending = CURRENT.get()
        passed = {name: value for name, value in request.headers.items() if name.lower() in _PASSED}
        headers = {**passed, "user-agent": "cloister", "accept-encoding": "identity", **sending.headers}
        request.headers = httpx2.Headers(headers)
        response = await self._inner.handle_async_request(request)
        sending.heard()
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding != "identity":
            await stream.aclose()
            sending.encoding = encoding[:40]
            raise Stopped
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Bounded(stream, sending),
            extensions=response.extensions,
            request=request,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, sending: Sending) -> None:
        self._inner = inner
        self._sending = sending

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._inner:
            read += len(chunk)
            self._sending.heard()
            if read > self._sending.max_bytes:
                self._sending.exceeded = True
                raise Stopped
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
