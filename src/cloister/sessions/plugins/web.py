"""The web, for programs: GET and POST to the hosts that the host allows, and to nothing else.

Every hop is looked at anew: its URL against the allow-list, every address of its host against what is public. Headers
that a program set stay with the origin that it named. A redirect goes from https to https, and takes a body nowhere.
"""

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urljoin

from cloister.core.errors import InvalidInput
from cloister.core.limits import CapabilityLimits
from cloister.core.value import Json
from cloister.gate.threads import THREADS
from cloister.sessions.plugins.address import AllowList, NotAllowed, Target
from cloister.sessions.plugins.message import check_headers, shown
from cloister.sessions.plugins.plugin import Contribution, PluginContext
from cloister.sessions.prompt.parts import PromptPart
from cloister.tools.fetch import Answer, Exchange, Request, TooLarge
from cloister.tools.outbound import Address, Refused, Resolver, system_resolver
from cloister.tools.tool import Tool, ToolError

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# What may go on to another origin.
_PLAIN_HEADERS = frozenset({"accept", "accept-language", "user-agent"})
# Milliseconds that the gate gives beyond our own time, so that ours is what is told.
_MARGIN_MS = 1000
_RESULT: dict[str, Any] = {
    "type": "object",
    "title": "Response",
    "properties": {
        "url": {"type": "string", "description": "Where it came from, after redirects."},
        "status": {"type": "integer"},
        "headers": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "By their names in lower case.",
        },
        "text": {"type": ["string", "null"], "description": "The body, if it is text."},
        "base64": {"type": ["string", "null"], "description": "The body, if it is not."},
    },
    "required": ["url", "status", "headers", "text", "base64"],
}


class Web:
    """The plugin: `plugins=[Web(allow=["api.example.com"])]`.

    allow: hosts, `*.host` for all below one, `host:port`; https, unless an entry begins with `http://`. allow_private:
    addresses (`10.0.0.7`, `127.0.0.1:8080`) that may be reached though they are not public. timeout_ms: for a call with
    all its redirects. resolve: how names become addresses, for hosts with a resolver of their own.
    """

    name = "web"

    def __init__(
        self,
        *,
        allow: Iterable[str],
        allow_private: Iterable[str] = (),
        timeout_ms: int = 10_000,
        max_bytes: int = 512 << 10,
        max_redirects: int = 5,
        resolve: Resolver = system_resolver,
    ) -> None:
        self._allowed = AllowList(allow, allow_private)
        for what, value, least in (
            ("timeout_ms", timeout_ms, 1),
            ("max_bytes", max_bytes, 1),
            ("max_redirects", max_redirects, 0),
        ):
            if type(value) is not int or value < least:
                raise InvalidInput(f"{what} is a whole number of at least {least}, not {value!r}")
        self._timeout_ms = timeout_ms
        self._max_bytes = max_bytes
        self._max_redirects = max_redirects
        self._resolve = resolve
        # Bytes grow by a third in base64, and by more when JSON escapes them.
        limits = CapabilityLimits(timeout_ms=timeout_ms + _MARGIN_MS, max_response_bytes=6 * max_bytes + (256 << 10))
        self._tools = (
            Tool(self._get, name="http_get", side_effect="network", limits=limits, output_schema=_RESULT),
            Tool(
                self._post,
                name="http_post",
                side_effect="network",
                limits=limits,
                output_schema=_RESULT,
                idempotent=False,
            ),
        )

    def attach(self, context: PluginContext) -> Contribution:
        hosts = ", ".join(self._allowed.said)
        return Contribution(
            tools=self._tools,
            prompt=[PromptPart("notes", f"`http_get` and `http_post` reach these hosts and no others: {hosts}.")],
        )

    async def _get(self, url: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """Fetch a URL with GET. A status of 400 and more is an answer, not an error.

        Args:
            url: Where; its host must be one that is allowed.
            headers: Headers to send. A secret's handle may stand in a value.
        """
        return await self._asked("GET", url, headers or {}, None)

    async def _post(
        self, url: str, json: Any = None, body: str | None = None, headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Send something with POST. A status of 400 and more is an answer, not an error.

        Args:
            url: Where; its host must be one that is allowed.
            json: What to send, as JSON.
            body: What to send instead, as text; set the content-type in headers.
            headers: Headers to send. A secret's handle may stand in a value.
        """
        if json is not None and body is not None:
            raise ToolError("INVALID_ARGUMENTS", "give json or body, and not both")
        sent, given = _body(json, body), dict(headers or {})
        if json is not None and not any(name.lower() == "content-type" for name in given):
            given["content-type"] = "application/json"
        return await self._asked("POST", url, given, sent)

    async def _asked(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return await self._follow(url, Request(method, url, check_headers(headers), body=body))
        except TimeoutError:
            raise ToolError("TIMEOUT", f"no answer within {self._timeout_ms} ms") from None
        except NotAllowed as refusal:
            hint = f"allowed are {', '.join(self._allowed.said)}" if refusal.code == "HOST_NOT_ALLOWED" else None
            raise ToolError(refusal.code, refusal.message, hint) from None

    async def _follow(self, url: str, request: Request) -> dict[str, Any]:
        target = self._allowed.target(url)
        for _ in range(self._max_redirects + 1):
            answer = await self._one(target, request)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or location is None:
                return {"url": target.url, **shown(answer)}
            target, request = self._next(target, request, answer.status, location)
        raise NotAllowed("TOO_MANY_REDIRECTS", f"there were more than {self._max_redirects} redirects")

    def _next(self, was: Target, request: Request, status: int, location: str) -> tuple[Target, Request]:
        target = self._allowed.target(urljoin(was.url, location))
        if was.scheme == "https" and target.scheme != "https":
            raise NotAllowed("REDIRECT_REFUSED", "a redirect leads away from https")
        headers, method, body = request.headers, request.method, request.body
        if method == "POST" and status in (301, 302, 303):
            method, body = "GET", None
            headers = {name: value for name, value in headers.items() if name != "content-type"}
        if target.origin != was.origin:
            if method == "POST":
                raise NotAllowed("REDIRECT_REFUSED", "a redirect would send the body to another host")
            headers = {name: value for name, value in headers.items() if name in _PLAIN_HEADERS}
        return target, Request(method, target.url, headers, body=body)

    async def _one(self, target: Target, request: Request) -> Answer:
        def lookup(_host: str, _port: int) -> Sequence[Address]:
            return self._allowed.addresses(target, self._resolve)

        exchange = Exchange(lookup, time.monotonic() + self._timeout_ms / 1000, self._max_bytes, unpack=False)
        asked = replace(request, url=target.url)
        try:
            # A name may take long to be found: that is for a thread, which nobody waits for longer than agreed.
            ended = await THREADS.run(lambda: exchange.once(asked))
        except asyncio.CancelledError:
            exchange.stop()
            raise
        match ended.error:
            case TooLarge() as large:
                raise NotAllowed("RESPONSE_TOO_LARGE", large.message) from None
            case Refused() as refused:
                raise NotAllowed("CONNECT_FAILED", refused.message) from None
            case None:
                assert isinstance(ended.value, Answer)
                return ended.value
            case error:
                raise error


def _body(value: Json, body: str | None) -> bytes:
    if value is None:
        return (body or "").encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
