"""What must be known of an MCP server to talk to it: how it is started or where it is, and on which terms.

Plain data, checked when it is made. Needs no MCP SDK. Values of `env` and `headers` are never shown; each may be a
function that gives the value, which is asked at every connection.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from cloister.core.capability import check_namespace
from cloister.core.errors import InvalidInput, InvalidToolName
from cloister.tools.sources.held import Value
from cloister.tools.sources.names import identifier
from cloister.tools.sources.terms import Terms

_LONGEST_NAME = 100
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# The protocol's own; one that is set by hand would break it.
_OWN_HEADERS = frozenset(
    "accept connection content-length content-type host last-event-id mcp-protocol-version mcp-session-id "
    "transfer-encoding".split()
)
_CEILING_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What both kinds of server have."""

    name: str
    # The name made an identifier, if it is not said.
    namespace: str | None = None
    # Only these tools, by either name; `*` stands for anything.
    tools: Sequence[str] | None = None
    # In the place of the default: manual for tools that call themselves destructive, none for the others.
    approval: Any = None
    # By tool, before `approval`.
    approvals: Mapping[str, Any] = field(default_factory=dict[str, Any])
    defer_loading: bool = False
    # From the start to the list of its tools.
    connect_timeout_ms: int = 30_000
    call_timeout_ms: int = 60_000
    # How long a call waits for a server that is gone to come back.
    patience_ms: int = 2_000
    max_response_bytes: int = 1 << 20
    concurrency: int = 16

    @property
    def what(self) -> str:
        return f"MCP server {self.name!r}"

    @property
    def space(self) -> str:
        """The namespace of its tools."""
        return self.namespace or identifier(self.name, "server", global_name=True)

    @property
    def terms(self) -> Terms:
        return Terms.parse(self.tools, self.approval, self.approvals, what=self.what)

    def check(self) -> None:
        """Raises `InvalidInput`."""
        if not isinstance(self.name, str) or not 0 < len(self.name) <= _LONGEST_NAME or not self.name.isprintable():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(
                f"{self.name!r} cannot be the name of an MCP server", hint=f"use 1 to {_LONGEST_NAME} characters"
            )
        if self.namespace is not None:
            try:
                check_namespace(self.namespace)
            except InvalidToolName as error:
                raise InvalidInput(f"{self.what}: namespace {error.message}", hint=error.hint) from None
        numbers = {
            "connect_timeout_ms": _CEILING_MS,
            "call_timeout_ms": _CEILING_MS,
            "patience_ms": _CEILING_MS,
            "max_response_bytes": 1 << 26,
            "concurrency": 1000,
        }
        for key, most in numbers.items():
            value = getattr(self, key)
            least = 0 if key == "patience_ms" else 1
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise self.wrong(key, f"is a whole number from {least} to {most}, not {value!r}")
        if not isinstance(self.defer_loading, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise self.wrong("defer_loading", "is true or false")
        _ = self.terms

    def wrong(self, key: str, reason: str, hint: str | None = None) -> InvalidInput:
        return InvalidInput(f"{self.what}: `{key}` {reason}", hint=hint)

    def check_values(self, key: str, values: object) -> None:
        """What is wrong is said without a value: this text ends up in logs."""
        if not isinstance(values, Mapping):
            raise self.wrong(key, "is a mapping of names to texts")
        for name, value in values.items():  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(name, str) or not name or "\0" in name or "=" in name:
                raise self.wrong(key, f"has the name {name!r}, which cannot be one")
            if not callable(value) and (not isinstance(value, str) or "\0" in value):  # pyright: ignore[reportUnknownArgumentType]
                raise self.wrong(key, f"has a value for {name!r} that is neither text nor a function that gives it")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpStdio(Server):
    """A server that is started here and spoken to over its standard input and output.

    Its environment is `PATH`, `HOME`, `LANG` and `env`, and nothing else of the host's.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, Value] = field(default_factory=dict[str, Value], repr=False)
    cwd: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        self.check()
        if not isinstance(self.command, str) or not self.command or "\0" in self.command:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise self.wrong("command", "is the program to start", 'command="npx"')
        if isinstance(self.args, str) or not all(isinstance(one, str) and "\0" not in one for one in self.args):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise self.wrong("args", "is a list of texts", 'args=["-y", "package"]')
        self.check_values("env", self.env)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpHttp(Server):
    """A server that is spoken to over Streamable HTTP. It is where you say it is: no redirect leads elsewhere."""

    url: str
    headers: Mapping[str, Value] = field(default_factory=dict[str, Value], repr=False)

    def __post_init__(self) -> None:
        self.check()
        try:
            parts = urlsplit(self.url)
            fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except (ValueError, AttributeError, TypeError):
            raise self.wrong("url", "is not a URL", 'url="https://example.com/mcp"') from None
        if not fine:
            raise self.wrong("url", "is an http or https URL", 'url="https://example.com/mcp"')
        if parts.username is not None or parts.password is not None:
            raise self.wrong("url", "has a password in it", 'headers={"Authorization": ...}')
        self.check_values("headers", self.headers)
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name) or name.lower() in _OWN_HEADERS:
                raise self.wrong("headers", f"has {name!r}, which cannot be set", "leave it out")
            if isinstance(value, str) and not _is_header_value(value):
                raise self.wrong("headers", f"has a value for {name!r} that no header can have", "one line of ASCII")


McpServer: TypeAlias = McpStdio | McpHttp


def _is_header_value(text: str) -> bool:
    return text.isascii() and text.isprintable() and text == text.strip()
