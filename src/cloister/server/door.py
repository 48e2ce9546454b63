"""The way in: every request passes here first, and nothing behind it has to look again.

Host, Origin, token, rate, scope, media type, size and time of the body, in this order. It also gives each request an
id, waits for it when the server stops, counts it and logs it. Plain ASGI: it costs every request the least.
"""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from cloister.core.errors import CloisterError
from cloister.ports.telemetry import Serving
from cloister.server.logs import access, current_request, log
from cloister.server.mounting import Mounts
from cloister.server.problems import MEDIA_TYPE, Problem, broken, of_error
from cloister.server.rates import Rates
from cloister.server.service import Service
from cloister.server.tokens import Scope as TokenScope
from cloister.server.tokens import Token
from cloister.server.visit import KEY, Visit

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# For everybody.
_OPEN = frozenset(
    {"/healthz", "/readyz", "/openapi.json", "/docs", "/docs/page.js", "/docs/page.css", "/v1/runtime/info"}
)
_UPLOADS = re.compile(
    r"/v1/sessions/[^/]+/(?:files/|attachments\Z)|/v1/sessions(?:/restore)?\Z|/v1/sessions/[^/]+/restore\Z"
)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}\Z")
MAX_HEADS_BYTES = 64 << 10
# What comes behind such a request is not read as another one.
_CLOSE = {"connection": "close"}
SECURE = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
]


class Door:
    def __init__(self, app: App, service: Service, mounts: Mounts) -> None:
        self._app = app
        self._service = service
        self._mounts = mounts
        self._rates = Rates(service.limits.rate_per_min)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            # There are no websockets here; refused before they are accepted.
            await send({"type": "websocket.close", "code": 1008})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        telemetry = self._service.telemetry
        if telemetry is None:
            await _Passing(self, scope, send).serve(receive)
            return
        with telemetry.serving(scope["path"], dict(scope["headers"])) as serving:
            await _Passing(self, scope, send, serving).serve(receive)

    # -- who -------------------------------------------------------------------------------------------------

    def admit(self, path: str, heads: dict[bytes, bytes]) -> Token | None:
        """Who it is from; None where everybody may. Raises `Problem`."""
        service = self._service
        host = heads.get(b"host", b"").decode("latin-1")
        if not service.exposure.knows(host):
            raise Problem(
                "HOST_REFUSED",
                f"this server is not {host[:200]!r}",
                hint="ask for it by an address that it is bound to, or start it with --allow-host",
            )
        origin = heads.get(b"origin")
        if origin is not None and not service.exposure.takes(origin.decode("latin-1"), host):
            raise Problem(
                "ORIGIN_REFUSED",
                "pages of that origin may not use this server",
                hint="start it with --allow-origin, if they should",
            )
        if path in _OPEN or (path == "/metrics" and service.exposure.is_loopback):
            return None
        token = self._known(heads.get(b"authorization"))
        if (wait := self._rates.take(token.name)) > 0:
            raise Problem(
                "RATE_LIMITED",
                f"more than {service.limits.rate_per_min} requests in a minute",
                headers={"retry-after": str(wait)},
            )
        needed = scope_of(path)
        if not token.may(needed):
            raise Problem("FORBIDDEN", f"this token has not the scope {needed}")
        if service.closing.is_set():
            raise Problem("SHUTTING_DOWN", "the server is stopping", headers={"retry-after": "2"})
        return token

    def _known(self, header: bytes | None) -> Token:
        scheme, _, shown = (header or b"").decode("latin-1").partition(" ")
        token = self._service.tokens.find(shown.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            what = "it takes a token" if header is None else "the token is not known"
            raise Problem(
                "UNAUTHENTICATED",
                f"{what}: Authorization: Bearer …",
                hint="`cloister serve` says where its token is",
                headers={"www-authenticate": 'Bearer realm="cloister"'},
            )
        return token

    # -- what ------------------------------------------------------------------------------------------------

    async def body(self, path: str, heads: dict[bytes, bytes], receive: Receive) -> bytes:
        """All of it. Raises `Problem`."""
        limits = self._service.limits
        most = limits.max_upload_bytes if _UPLOADS.match(path) else limits.max_body_bytes
        length = heads.get(b"content-length")
        if length is None and b"transfer-encoding" not in heads:
            return b""
        if length is not None and (not length.isdigit() or len(length) > 15 or int(length) > most):
            raise _too_large(most)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(limits.body_timeout_ms / 1000):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Gone
                    part = message.get("body", b"")
                    size += len(part)
                    if size > most:
                        raise _too_large(most)
                    parts.append(part)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise Problem(
                "UPLOAD_TIMEOUT",
                f"the body has not come whole within {limits.body_timeout_ms} ms",
                headers=_CLOSE,
            ) from None
        whole = b"".join(parts) if len(parts) != 1 else parts[0]
        if whole:
            kind = heads.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if kind != b"application/json":
                raise Problem(
                    "UNSUPPORTED_MEDIA_TYPE",
                    "bodies are JSON here",
                    hint="send it with Content-Type: application/json",
                )
        return whole

    async def onward(self, scope: Scope, receive: Receive, send: Send, path: str, token: Token | None) -> None:
        if path == "/mcp":
            assert token is not None
            scope["route"] = _McpRoute
            await self._mounts.serve(scope, receive, send, token)
        else:
            await self._app(scope, receive, send)

    @property
    def service(self) -> Service:
        return self._service


def new_request_id() -> str:
    return f"req_{os.urandom(10).hex()}"


class Gone(Exception):
    """The client has gone before its request was there."""


class _McpRoute:
    path = "/mcp"


class _Passing:
    """One request on its way."""

    __slots__ = ("_began", "_door", "_id", "_scope", "_send", "_sent", "_serving", "_status", "_token")

    def __init__(self, door: Door, scope: Scope, send: Send, serving: Serving | None = None) -> None:
        self._door = door
        self._scope = scope
        self._send = send
        self._serving = serving
        self._status = 0
        self._sent = False
        self._token: Token | None = None
        self._began = time.perf_counter()
        self._id = ""

    async def serve(self, receive: Receive) -> None:
        scope, door = self._scope, self._door
        heads: dict[bytes, bytes] = {}
        twice, size = False, len(scope.get("raw_path", b"")) + len(scope["query_string"])
        for name, value in scope["headers"]:
            twice = twice or (name in heads and name in _ONCE)
            heads[name] = value
            size += len(name) + len(value)
        asked = heads.get(b"x-request-id", b"")
        self._id = asked.decode() if _REQUEST_ID.match(asked) else new_request_id()
        current_request.set(self._id)
        service = door.service
        service.enter()
        try:
            _check_heads(heads, size, twice=twice)
            path: str = scope["path"]
            self._token = door.admit(path, heads)
            if scope["method"] in ("POST", "PUT", "PATCH", "DELETE"):
                receive = _replayed(await door.body(path, heads, receive), receive)
            if self._token is not None:
                scope[KEY] = Visit(service, self._token, self._id)
            await door.onward(scope, receive, self._through, path, self._token)
        except Problem as problem:
            await self._refuse(problem)
        except CloisterError as error:
            await self._refuse(of_error(error))
        except Gone:
            pass
        # Containment: one request must not be the end of others; what broke is for the log alone.
        except Exception:  # noqa: BLE001
            log.exception("a request failed")
            await self._refuse(broken())
        finally:
            service.leave()
            self._account()

    async def _through(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._sent = True
            self._status = message["status"]
            message["headers"] = [*message.get("headers", ()), (b"x-request-id", self._id.encode()), *SECURE]
        await self._send(message)

    async def _refuse(self, problem: Problem) -> None:
        if self._sent:
            return
        body = problem.body(self._id)
        own = [(name.encode(), value.encode("latin-1")) for name, value in problem.headers.items()]
        heads = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode()), *own]
        await self._through({"type": "http.response.start", "status": problem.status, "headers": heads})
        await self._through({"type": "http.response.body", "body": body})

    def _account(self) -> None:
        spent = time.perf_counter() - self._began
        scope = self._scope
        route = getattr(scope.get("route"), "path", None) or "none"
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._door.service.metrics.request(method, route, self._status, spent)
        if self._serving is not None:
            self._serving.answered(method, route, self._status)
        if access.isEnabledFor(20):
            said = {"method": method, "route": route, "status": self._status, "duration_ms": round(spent * 1000, 2)}
            if self._token is not None:
                said |= {"token": self._token.name, "tenant": self._token.tenant}
            access.info("request", extra={"said": said})


_ONCE = frozenset(
    {b"host", b"origin", b"authorization", b"content-type", b"content-length", b"idempotency-key", b"if-match"}
)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


def _check_heads(heads: dict[bytes, bytes], size: int, *, twice: bool) -> None:
    if size > MAX_HEADS_BYTES:
        raise Problem(
            "HEADERS_TOO_LARGE", f"an address and its headers have at most {MAX_HEADS_BYTES} bytes", headers=_CLOSE
        )
    if twice:
        raise Problem("MALFORMED", "a header is there twice that can be there once only", headers=_CLOSE)
    if b"content-length" in heads and b"transfer-encoding" in heads:
        # Whoever is in front of us may go by the other one, and take the rest for a request of somebody else.
        raise Problem("MALFORMED", "a body has a Content-Length or is chunked, not both", headers=_CLOSE)


def scope_of(path: str) -> TokenScope:
    """What a token needs for a path. `runtime/info` and the pages about the API need none."""
    if path == "/metrics":
        return TokenScope.ADMIN
    return TokenScope.APPROVE if path.startswith("/v1/approvals") else TokenScope.RUN


def _replayed(body: bytes, receive: Receive) -> Receive:
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


def _too_large(most: int) -> Problem:
    # The rest of it is not read, so the connection cannot be used for another.
    return Problem("BODY_TOO_LARGE", f"a body here has at most {most} bytes", headers=_CLOSE)
