"""Where the server can be reached, and by which names: what it may bind, and whose requests it takes for its own.

A page in a browser may resolve any name to this machine, and may send requests to it; neither gets past the names that
are known here.
"""

import ipaddress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from cloister.core.errors import InvalidInput

_LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Exposure:
    """`hosts`: names under which it may be asked for, beside its own; `origins`: pages of other sites that may."""

    host: str = "127.0.0.1"
    port: int = 8787
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    _names: frozenset[str] = field(init=False, repr=False, default=frozenset())

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InvalidInput(f"a port is between 0 and 65535, not {self.port}")
        for origin in self.origins:
            parts = urlsplit(origin)
            if (
                parts.scheme not in ("http", "https")
                or not parts.netloc
                or f"{parts.scheme}://{parts.netloc}" != origin
            ):
                raise InvalidInput(f"{origin!r} is no origin", hint="write https://console.example.com, and no path")
        for name in self.hosts:
            if not name or any(character in name for character in "/ @") or name == "*":
                raise InvalidInput(f"{name!r} is no host", hint="write api.example.com, without scheme and path")
        own = (_in_url(self.host),) if not self._is_any else ()
        names = (*own, *self.hosts, *(_LOCAL_NAMES if self.is_loopback else ()))
        object.__setattr__(self, "_names", frozenset(name.lower() for name in names))

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def _is_any(self) -> bool:
        return self.host in ("0.0.0.0", "::", "")  # noqa: S104 - it is what is looked for

    def check(self, *, configured: bool) -> None:
        """Raises `InvalidInput` for what would open the server to whoever reaches it. `configured`: somebody has said
        which tokens there are."""
        if self.is_loopback:
            return
        if not configured:
            raise InvalidInput(
                f"{self.host} can be reached from other machines, and no tokens are configured",
                hint="name a file of tokens, --tokens FILE, or set CLOISTER_SERVER_TOKEN; or bind 127.0.0.1",
            )
        if self._is_any and not self.hosts:
            raise InvalidInput(
                f"{self.host} is every address of this machine, and it is not said by which names it is asked for",
                hint="name them: --allow-host api.example.com",
            )

    def url(self, port: int) -> str:
        return f"http://{_in_url(self.host or '127.0.0.1')}:{port}"

    def knows(self, host: str) -> bool:
        """Whether a request's `Host` is one of ours."""
        return host.lower() in self._names or _without_port(host).lower() in self._names

    def takes(self, origin: str, host: str) -> bool:
        """Whether a page of that origin may ask: one of our own, or one that was named."""
        if origin in self.origins:
            return True
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower() and self.knows(host)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and port.isascii() else host
