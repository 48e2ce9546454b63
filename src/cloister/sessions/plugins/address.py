"""Which hosts and addresses `web` may reach: by name where a program asks, and by address where a socket is opened.

A name that is allowed may still lead anywhere, and somewhere else the next time it is asked (rebinding). So a name is
resolved once, every address that it has must be one of the public internet, and the connection goes to one of those
very addresses.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from cloister.core.errors import InvalidInput
from cloister.tools.outbound import Address, Resolver, is_public

_HOST = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*", re.ASCII)
_PORTS = {"https": 443, "http": 80}
LONGEST_URL = 8192


class NotAllowed(Exception):
    """`code` and the text are for the program."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that may be asked for, taken apart."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def url(self) -> str:
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{_bracketed(self.host)}{port}{self.path}"

    @property
    def place(self) -> str:
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{_bracketed(self.host)}{port}"


@dataclass(frozen=True, slots=True)
class _Rule:
    scheme: str
    host: str
    port: int
    below: bool

    def allows(self, target: Target) -> bool:
        if (self.scheme, self.port) != (target.scheme, target.port):
            return False
        return target.host.endswith(f".{self.host}") if self.below else target.host == self.host


class AllowList:
    """`allow`: `api.example.com`, `*.example.com` for all below it, `api.example.com:8443`; https unless it says
    `http://`. `private`: addresses, or addresses with ports, that may be reached though they are not public."""

    def __init__(self, allow: Iterable[str], private: Iterable[str] = ()) -> None:
        self.said = tuple(_texts(allow, "allow"))
        if not self.said:
            raise InvalidInput("allow names no host", hint='write allow=["api.example.com"]')
        self._rules = tuple(_rule(entry) for entry in self.said)
        self._private = tuple(_private(entry) for entry in _texts(private, "allow_private"))

    def target(self, url: object) -> Target:
        """Raises `NotAllowed`."""
        target = read_url(url)
        if not any(rule.allows(target) for rule in self._rules):
            raise NotAllowed("HOST_NOT_ALLOWED", f"{target.scheme}://{target.place} is not among the hosts allowed")
        return target

    def addresses(self, target: Target, resolve: Resolver) -> list[Address]:
        """Where the target is. Raises `NotAllowed` if any of it is not of the public internet."""
        try:
            found = [ipaddress.ip_address(text.partition("%")[0]) for text in resolve(target.host, target.port)]
        except (OSError, UnicodeError, ValueError):
            raise NotAllowed("CONNECT_FAILED", f"the host {target.host} was not found") from None
        if not found:
            raise NotAllowed("CONNECT_FAILED", f"the host {target.host} was not found")
        for address in found:
            if not is_public(address) and not self._is_named(address, target.port):
                raise NotAllowed("ADDRESS_NOT_ALLOWED", f"{target.host} leads to an address that is not public")
        return list(dict.fromkeys(found))

    def _is_named(self, address: Address, port: int) -> bool:
        return any(address == named and wanted in (None, port) for named, wanted in self._private)


def read_url(url: object) -> Target:
    """Raises `NotAllowed` for what is no plain address of the web."""
    if not isinstance(url, str) or not 0 < len(url) <= LONGEST_URL:
        raise NotAllowed("BAD_URL", f"a URL is a text of at most {LONGEST_URL} characters")
    if any(not "!" <= c <= "~" for c in url) or "\\" in url:
        raise NotAllowed("BAD_URL", "a URL has no spaces, controls, backslashes or letters beyond ASCII: encode them")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise NotAllowed("BAD_URL", "the URL cannot be read") from None
    if parts.scheme not in _PORTS:
        raise NotAllowed("BAD_URL", "a URL begins with https:// or http://")
    if "@" in parts.netloc:
        raise NotAllowed("BAD_URL", "a URL has no user or password in it: send a header instead")
    if port == 0:
        raise NotAllowed("BAD_URL", "there is no port 0")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, _host(parts), port or _PORTS[parts.scheme], path)


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").rstrip(".")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _HOST.fullmatch(host) or len(host) > 253:
        raise NotAllowed("BAD_URL", "the URL has no valid host")
    return host


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _texts(given: object, what: str) -> list[str]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidInput(f"{what} is a list of hosts, not {type(given).__name__}")
    return [str(entry) for entry in given]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _rule(entry: str) -> _Rule:
    below = "://*." in entry or entry.startswith("*.")
    plain = entry.replace("*.", "", 1) if below else entry
    try:
        target = read_url(plain if "://" in plain else f"https://{plain}")
    except NotAllowed as bad:
        raise InvalidInput(f"{entry!r} in allow is no host: {bad.message}") from None
    if target.path != "/":
        raise InvalidInput(f"{entry!r} in allow has a path; hosts are allowed as a whole")
    return _Rule(target.scheme, target.host, target.port, below)


def _private(entry: str) -> tuple[Address, int | None]:
    try:
        return ipaddress.ip_address(entry.strip("[]")), None
    except ValueError:
        pass
    host, _, port = entry.rpartition(":")
    try:
        return ipaddress.ip_address(host.strip("[]")), int(port)
    except ValueError:
        raise InvalidInput(
            f"{entry!r} in allow_private is no address", hint='write an address, or one with a port: "127.0.0.1:8080"'
        ) from None
