"""What both clients have: where the server is, who they are there, how long they wait, and what they make of an answer.

Nothing is sent here. A request that may be sent twice is one that the server does once: `retry` has the rule.
"""

import ipaddress
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from cloister.client.ask import Ask, Reply
from cloister.client.errors import AnswerUnreadable, Problem, ServerUnreachable, error_of, problem_of
from cloister.client.retry import Retry, may_repeat
from cloister.core.errors import CloisterError, InvalidInput

URL_VARIABLE: Final = "CLOISTER_URL"
TOKEN_VARIABLE: Final = "CLOISTER_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE_VARIABLE: Final = "CLOISTER_TOKEN_FILE"  # noqa: S105
DEFAULT_URL: Final = "http://127.0.0.1:8787"
DEFAULT_RETRY: Final = Retry()
# The server says something at least every 15 seconds, unless it is told otherwise.
SILENCE_SECONDS: Final = 60.0
# What never left: no connection was made.
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Link:
    """`timeout` in seconds, for one request beside what it may take by its own wish; `silence`, for how long a stream
    may say nothing at all."""

    url: str
    token: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    silence: float = SILENCE_SECONDS
    retry: Retry = DEFAULT_RETRY

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise InvalidInput(f"{self.url!r:.200} is no address of a server", hint=f"write {DEFAULT_URL}")
        if parts.username or parts.password:
            raise InvalidInput("the address of the server has a password in it", hint=f"the token is {TOKEN_VARIABLE}")
        if self.token is not None and (not self.token.isascii() or not self.token.isprintable() or " " in self.token):
            raise InvalidInput("the token has characters in it that no header can carry")
        for name in ("timeout", "silence"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} is a number of seconds above 0, not {getattr(self, name)!r:.80}")
        object.__setattr__(self, "url", self.url.rstrip("/"))

    @property
    def is_local(self) -> bool:
        host = urlsplit(self.url).hostname or ""
        try:
            return host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def options(self) -> dict[str, Any]:
        """For the HTTP library. Redirects are not followed: a token goes where it was told to go."""
        headers = {"accept": "application/json"}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        return {
            "base_url": self.url,
            "headers": headers,
            "timeout": httpx2.Timeout(self.timeout),
            # What proxies the environment names lead away from this machine.
            "trust_env": not self.is_local,
            # Reading the authorities takes longer than most requests, and without TLS they are asked nothing.
            "verify": self.url.startswith("https:"),
        }

    def sending(self, ask: Ask[Any]) -> dict[str, Any]:
        content = ask.content()
        headers = {**ask.headers, **({"content-type": "application/json"} if content is not None else {})}
        patience = self.timeout + ask.takes_ms / 1000 if ask.takes_ms is not None else None
        return {
            "method": ask.method,
            "url": ask.path,
            "content": content,
            "params": dict(ask.query) or None,
            "headers": headers,
            "timeout": httpx2.Timeout(self.timeout, read=patience),
        }

    def unreachable(self, error: httpx2.TransportError) -> ServerUnreachable:
        said = str(error) or type(error).__name__
        return ServerUnreachable(
            f"the server at {self.url} cannot be reached: {said[:_LONGEST_SHOWN]}",
            hint="is it running? `cloister serve` starts one, and CLOISTER_URL says where it is",
        )

    def broken(self, ask: Ask[Any], error: httpx2.TransportError) -> ServerUnreachable:
        """No answer came. What is not repeatable may have been done."""
        if isinstance(error, _UNSENT) or ask.repeatable:
            return self.unreachable(error)
        said = str(error) or type(error).__name__
        return ServerUnreachable(
            f"no answer came from {self.url} to {ask.method} {ask.path}: {said[:_LONGEST_SHOWN]}",
            hint="it may have been done or not: look before you ask again",
        )

    def may_resend(self, ask: Ask[Any], error: httpx2.TransportError) -> bool:
        return isinstance(error, _UNSENT) or ask.repeatable


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer that is none. `again`: the request may be sent once more; `after_ms`: not before that."""

    error: CloisterError
    again: bool = False
    after_ms: int | None = None


def judged(ask: Ask[Any], status: int, headers: Mapping[str, str], body: bytes) -> Reply | Refused:
    """What an answer is."""
    data: Any = None
    is_json = headers.get("content-type", "").partition(";")[0] in ("application/json", "application/problem+json")
    if is_json:
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            is_json = False
    if 200 <= status < 300:
        if body and not is_json:
            return Refused(AnswerUnreadable(f"the answer to {ask.method} {ask.path} is not JSON", hint=_HINT))
        return Reply(status, data, headers)
    problem = problem_of(status, data)
    again = may_repeat(problem, status, repeatable=ask.repeatable)
    return Refused(_error(ask, status, problem), again, _after_ms(headers))


_HINT = "is this the address of a Cloister server, and not of something before it?"


def _error(ask: Ask[Any], status: int, problem: Problem | None) -> CloisterError:
    if problem is not None:
        return error_of(problem)
    return AnswerUnreadable(
        f"{ask.method} {ask.path} was answered with {status}, and no problem that says why", hint=_HINT
    )


def _after_ms(headers: Mapping[str, str]) -> int | None:
    text = headers.get("retry-after", "")
    return int(text) * 1000 if text.isascii() and text.isdecimal() and len(text) < 8 else None


# -- where it is, and with which token --------------------------------------------------------------------------------


def link_of(url: str | None, token: str | None, timeout: float, silence: float, retry: Retry | None) -> Link:
    """What is given, and otherwise what the environment says. On this machine the token that `cloister serve` has made
    for itself will do."""
    found = Link(url or os.environ.get(URL_VARIABLE) or DEFAULT_URL, token, timeout, silence, retry or DEFAULT_RETRY)
    if token is None:
        token = token_of(found)
    return Link(found.url, token, timeout, silence, found.retry)


def token_of(link: Link) -> str | None:
    if said := os.environ.get(TOKEN_VARIABLE):
        return said
    if named := os.environ.get(TOKEN_FILE_VARIABLE):
        try:
            return Path(named).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"the token in {named!r} ({TOKEN_FILE_VARIABLE}) cannot be read: {error}") from None
    if not link.is_local:
        # The token of this machine is for the server of this machine.
        return None
    try:
        return _own_file().read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def _own_file() -> Path:
    """Where `cloister serve` puts the token that it makes."""
    if chosen := os.environ.get("CLOISTER_DATA_DIR"):
        return Path(chosen) / "server.token"
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "cloister" / "server.token"
