"""One HTTP request to a host that may be reached, and its bounded answer.

The standard library's client in a thread, with the connection made by `outbound`. It reads no proxy from the
environment, and a connection serves one request. A cancelled request has its socket shut, which ends the thread.
Redirects are followed for reading only, within the allowed hosts, never from https to http; what authenticates stays
behind when the origin changes.
"""

import asyncio
import http.client
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias
from urllib.parse import urljoin, urlsplit

from cloister.tools.outbound import Address, Reach, Refused, Resolver, addresses, connect, system_resolver

# Host, port -> the addresses that a connection may go to. What it raises, whoever asked gets.
Lookup: TypeAlias = Callable[[str, int], Sequence[Address]]

_MOST_REDIRECTS = 5
_CHUNK = 64 << 10
_MOST_HEADERS = 64
# What names a resource, and what follows a redirect without being asked.
_READS = ("GET", "HEAD")
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: str
    # Sent along wherever a redirect leads.
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    # Sent to the first origin only.
    secret_headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    reason: str
    # By lower-case name; of several, joined by commas.
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def text(self) -> str:
        charset = "utf-8"
        for part in self.headers.get("content-type", "").split(";")[1:]:
            name, _, value = part.partition("=")
            if name.strip().lower() == "charset":
                charset = value.strip().strip('"')
        try:
            return self.body.decode(charset, "replace")
        except LookupError:
            return self.body.decode("utf-8", "replace")


class TooLarge(Refused):
    """The answer has more bytes than it may."""

    def __init__(self, most: int) -> None:
        super().__init__(f"the answer has more than {most} bytes")


@cache
def system_trust() -> ssl.SSLContext:
    """Kept, since reading the certificates takes a while."""
    return ssl.create_default_context()


class Fetcher:
    """Makes requests, so many at a time. Close it when nobody will ask any more."""

    def __init__(
        self, reach: Reach, *, resolve: Resolver = system_resolver, tls: ssl.SSLContext | None = None, threads: int = 16
    ) -> None:
        self._reach = reach
        self._resolve = resolve
        self._tls = tls
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="cloister-fetch")

    def close(self) -> None:
        """Takes no more requests. Those under way are not waited for, and go on for whoever made them."""
        self._pool.shutdown(wait=False)

    async def fetch(self, request: Request, *, timeout_ms: float, max_bytes: int) -> Answer:
        """Raises `Refused`; cancelled, it shuts the connection."""
        work = Exchange(self._lookup, time.monotonic() + timeout_ms / 1000, max_bytes, tls=self._tls)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await loop.run_in_executor(self._pool, work.run, request)
        except TimeoutError:
            raise Refused(f"no answer within {timeout_ms:.0f} ms") from None
        finally:
            # Nothing to shut if it came to its end.
            work.stop()

    def _lookup(self, host: str, port: int) -> Sequence[Address]:
        return addresses(host, port, self._reach, self._resolve)


class Exchange:
    """A request, and the redirects that it is led through. `run` and `once` are for a thread; `stop` for anybody.

    `deadline` is on the scale of `time.monotonic()`. Without `unpack` a body stays as it came.
    """

    def __init__(
        self,
        lookup: Lookup,
        deadline: float,
        max_bytes: int,
        *,
        tls: ssl.SSLContext | None = None,
        unpack: bool = True,
    ) -> None:
        self._lookup = lookup
        self._deadline = deadline
        self._max_bytes = max_bytes
        self._tls = tls
        self._unpack = unpack
        self._stopped = False
        self._socket: socket.socket | None = None
        # A socket is either seen by `stop` or sees that it was called.
        self._lock = threading.Lock()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._socket is not None:
                _shut(self._socket)

    def run(self, request: Request) -> Answer:
        """Raises `Refused`."""
        for _ in range(_MOST_REDIRECTS + 1):
            answer = self.once(request)
            target = _redirected(request, answer)
            if target is None:
                return answer
            secret = request.secret_headers if _origin(target) == _origin(request.url) else dict[str, str]()
            request = Request(request.method, target, request.headers, secret, None)
        raise Refused(f"more than {_MOST_REDIRECTS} redirects")

    def once(self, request: Request) -> Answer:
        """No redirect is followed. Raises `Refused`."""
        scheme, host, port, path = split_url(request.url)
        tls = (self._tls or system_trust()) if scheme == "https" else None
        found = self._lookup(host, port)
        connection = http.client.HTTPConnection(host, port)
        connection.sock = connect(host, port, found, deadline=self._deadline, tls=tls, on_socket=self._hold)
        try:
            name = f"[{host}]" if ":" in host else host
            default = port == (443 if tls else 80)
            given = {**request.headers, **request.secret_headers}
            said = {name.lower() for name in given}
            ours = {
                "Host": name if default else f"{name}:{port}",
                "User-Agent": "cloister",
                "Accept-Encoding": "identity",
            }
            headers = {**{name: value for name, value in ours.items() if name.lower() not in said}, **given}
            connection.request(request.method, path, request.body, {**headers, "Connection": "close"})
            return self._read(connection.getresponse())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Refused(_kind(error, host)) from None
        finally:
            self._hold(None)
            connection.close()

    def _read(self, response: http.client.HTTPResponse) -> Answer:
        told = response.headers.get("content-length", "")
        # A HEAD says how much there would be, and nothing of it comes.
        if told.isdecimal() and len(told) < 20 and response.length and int(told) > self._max_bytes:
            raise TooLarge(self._max_bytes)
        taken = bytearray()
        while chunk := response.read1(_CHUNK):
            taken += chunk
            if len(taken) > self._max_bytes:
                raise TooLarge(self._max_bytes)
            if time.monotonic() > self._deadline:
                raise Refused("no answer in time")
        if response.length:
            raise http.client.IncompleteRead(bytes(taken), response.length)
        headers: dict[str, str] = {}
        for name, value in response.getheaders()[:_MOST_HEADERS]:
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        body = bytes(taken)
        if self._unpack:
            body = _unpacked(body, headers.get("content-encoding", ""), self._max_bytes)
        return Answer(response.status, response.reason, headers, body)

    def _hold(self, sock: socket.socket | None) -> None:
        with self._lock:
            self._socket = sock
            if self._stopped and sock is not None:
                _shut(sock)
                raise OSError("stopped")


def split_url(url: str) -> tuple[str, str, int, str]:
    """Scheme, host, port, and the path with its query. Raises `Refused` for what is no http or https URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Refused(f"{url[:200]!r} is not a URL") from None
    if parts.scheme not in ("http", "https") or not host:
        raise Refused(f"{url[:200]!r} is not an http or https URL")
    if parts.username is not None or parts.password is not None:
        raise Refused("a URL with a password in it is not taken")
    if any(character <= " " or character == "\x7f" or character > "~" for character in url):
        raise Refused("a URL has characters that must be percent-encoded")
    path = parts.path or "/"
    return (
        parts.scheme,
        host,
        port or (443 if parts.scheme == "https" else 80),
        path + (f"?{parts.query}" if parts.query else ""),
    )


def _redirected(request: Request, answer: Answer) -> str | None:
    location = answer.headers.get("location")
    if answer.status not in _REDIRECTS or location is None or request.method not in _READS:
        return None
    target = urljoin(request.url, location).partition("#")[0]
    if split_url(request.url)[0] == "https" and split_url(target)[0] != "https":
        raise Refused("a redirect from https to http is not followed")
    return target


def _origin(url: str) -> tuple[str, str, int]:
    return split_url(url)[:3]


def _unpacked(body: bytes, encoding: str, most: int) -> bytes:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity") or not body:
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise Refused(f"the answer is encoded as {encoding[:40]!r}, which it was not asked for")
    packed = zlib.decompressobj(47)
    try:
        made = packed.decompress(body, most + 1)
    except zlib.error:
        raise Refused("the answer says that it is compressed, and is not") from None
    if len(made) > most:
        raise TooLarge(most)
    return made


def _kind(error: Exception, host: str) -> str:
    """What went wrong, in words of ours: what the other side says stays there."""
    match error:
        case TimeoutError():
            return "no answer in time"
        case http.client.RemoteDisconnected() | ConnectionError():
            return f"{host!r} did not answer properly: the connection broke"
        case http.client.HTTPException() | ValueError():
            return f"{host!r} did not answer properly: it is not HTTP, or not all of it came"
        case _:
            return f"{host!r} did not answer properly: the connection failed"


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
