"""Connections to the outside that somebody else chose the target of: allowed hosts, and addresses nobody may reach.

A name is resolved once. Every address that it has must be a public one, unless the host is one of those that may be
private; then a connection is made to an address that was looked at, so that a second answer of the name server counts
for nothing. The name stays what it was for `Host` and for the certificate.

Knows no HTTP. Blocks: meant for threads.
"""

import ipaddress
import re
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cloister.core.errors import InvalidInput

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
# The addresses of a host, as texts. Raises `OSError`.
Resolver: TypeAlias = Callable[[str, int], Sequence[str]]

_HOST = re.compile(r"(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?\.?|\*")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Public by their number, and only reachable from within a cloud.
_METADATA = frozenset(map(ipaddress.ip_address, ("168.63.129.16", "100.100.100.200", "192.0.0.192")))


class Refused(Exception):
    """A target that may not be reached, or cannot be. The message may be shown to a program."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Reach:
    """Which hosts may be reached: `api.example.com`, `*.example.com`, `10.0.0.5:8080`, `*` for every public one.

    A host with a port is allowed at that port only. `private` ones are allowed too, and may have private addresses.
    """

    hosts: tuple[str, ...] = ()
    private: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for kind, hosts in (("hosts", self.hosts), ("private", self.private)):
            if isinstance(hosts, str) or not isinstance(hosts, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidInput(f"`{kind}` is a list of hosts", hint='["api.example.com"]')
            for host in hosts:
                _check_pattern(host, kind)

    def check(self, host: str, port: int) -> bool:
        """Whether private addresses are fine for this host. Raises `Refused` for one that is not allowed at all."""
        if any(_fits(pattern, host, port) for pattern in self.private):
            return True
        if any(_fits(pattern, host, port) for pattern in self.hosts):
            return False
        listed = ", ".join((*self.hosts, *self.private)[:8]) or "none"
        raise Refused(f"the host {_shown(host)} is not allowed", hint=f"allowed are: {listed}")


def _check_pattern(pattern: object, kind: str) -> None:
    if isinstance(pattern, str):
        host, port = split_host(pattern)
        if (port is None or 0 < port < 65536) and (_HOST.fullmatch(host) or _address(host)):
            return
    raise InvalidInput(
        f"`{kind}`: {pattern!r} is no host", hint='write "api.example.com", "*.example.com" or "localhost:8080"'
    )


def split_host(text: str) -> tuple[str, int | None]:
    """`host:port` or `[v6]:port`; the port is None if there is none, and -1 if it is no number."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        return text, None
    if not port:
        return host, None
    return host, int(port) if re.fullmatch("[0-9]{1,5}", port) else -1


def _fits(pattern: str, host: str, port: int) -> bool:
    wanted, at = split_host(pattern)
    if at is not None and at != port:
        return False
    wanted, host = wanted.lower().rstrip("."), host.lower().rstrip(".")
    if wanted.startswith("*."):
        return host.endswith(wanted[1:]) and _address(host) is None
    if _address(wanted) is not None:
        return _address(wanted) == _address(host)
    return wanted in ("*", host)


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Whether anybody on the internet means the same machine by it. One that carries another inside is that one."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if address.teredo is not None:
            inner = address.teredo[1]
        if inner is not None:
            return is_public(inner)
        if address.is_site_local:
            return False
    if address in _METADATA:
        return False
    other = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    return address.is_global and not (other or address.is_private or address.is_link_local)


def system_resolver(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def addresses(host: str, port: int, reach: Reach, resolve: Resolver = system_resolver) -> list[Address]:
    """The addresses that a connection to `host` may go to. Raises `Refused`."""
    private_is_fine = reach.check(host, port)
    literal = _address(host)
    try:
        texts = [str(literal)] if literal is not None else resolve(host, port)
    except (OSError, UnicodeError):
        raise Refused(f"the host {_shown(host)} is not known") from None
    found = [made for text in texts if (made := _address(text)) is not None]
    if not found:
        raise Refused(f"the host {_shown(host)} is not known")
    if not private_is_fine and not all(is_public(one) for one in found):
        raise Refused(
            f"the host {_shown(host)} is at a private, local or reserved address",
            hint="if it is meant, name it among the hosts that may be private",
        )
    return found


def dial(
    host: str,
    port: int,
    reach: Reach,
    *,
    deadline: float,
    resolve: Resolver = system_resolver,
    tls: ssl.SSLContext | None = None,
    on_socket: Callable[[socket.socket], None] = lambda _made: None,
) -> socket.socket:
    """A connection to one of the addresses that `reach` allows; see `connect`."""
    found = addresses(host, port, reach, resolve)
    return connect(host, port, found, deadline=deadline, tls=tls, on_socket=on_socket)


def connect(
    host: str,
    port: int,
    found: Sequence[Address],
    *,
    deadline: float,
    tls: ssl.SSLContext | None = None,
    on_socket: Callable[[socket.socket], None] = lambda _made: None,
) -> socket.socket:
    """A connection to one of these addresses, which were looked at. `deadline` is on the scale of `time.monotonic()`;
    `on_socket` is given each socket before it is used, so that somebody else can close it. Raises `Refused`."""
    last: Exception | None = None
    for address in found:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        made = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_STREAM)
        try:
            on_socket(made)
            made.settimeout(left)
            made.connect((str(address), port))
            if tls is None:
                return made
            wrapped = tls.wrap_socket(made, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            made.close()
            raise Refused(f"the certificate of {_shown(host)} is not valid: {error.verify_message}") from None
        except (OSError, ValueError) as error:
            made.close()
            last = error
        else:
            on_socket(wrapped)
            return wrapped
    reason = "it did not answer in time" if last is None or isinstance(last, TimeoutError) else _said(last)
    raise Refused(f"{_shown(host)} cannot be reached: {reason}")


def _said(error: Exception) -> str:
    return (getattr(error, "strerror", None) or type(error).__name__).lower()


def _shown(host: str) -> str:
    return repr(host if len(host) <= 100 else f"{host[:100]}…")
