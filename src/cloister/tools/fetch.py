"""One HTTP request to a host that may be reached, and its bounded answer.

The standard library's client in a thread, with the connection made by `outbound`. A connection serves one request. A
cancelled request has its socket shut, which ends the thread. Redirects are followed for reading only, within the
allowed hosts, never from https to http; what authenticates stays behind when the origin changes.
"""

import asyncio
import http.client
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

from cloister.tools.outbound import Reach, Refused, Resolver, dial, system_resolver

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


class Fetcher:
    """Makes requests, so many at a time. Close it when nobody will ask any more."""

    def __init__(
        self, reach: Reach, *, resolve: Resolver = system_resolver, tls: ssl.SSLContext | None = None, threads: int = 16
    ) -> None:
        self._reach = reach
        self._resolve = resolve
        self._tls = tls
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="cloister-fetch")

    def close(self) -> None:
        """Takes no more requests. Those under way are not waited for, and go on for whoever made them."""
        self._pool.shutdown(wait=False)

    async def fetch(self, request: Request, *, timeout_ms: float, max_bytes: int) -> Answer:
        """Raises `Refused`; cancelled, it shuts the connection."""
        work = _Exchange(self._reach, self._resolve, self._context, time.monotonic() + timeout_ms / 1000, max_bytes)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await loop.run_in_executor(self._pool, work.run, request)
        except TimeoutError:
            raise Refused(f"no answer within {timeout_ms:.0f} ms") from None
        finally:
            # Nothing to shut if it came to its end.
            work.stop()

    def _context(self) -> ssl.SSLContext:
        with self._lock:
            if self._tls is None:
                self._tls = ssl.create_default_context()
            return self._tls


class _Exchange:
    """A request and the redirects that it is led through, in one thread."""

    def __init__(
        self,
        reach: Reach,
        resolve: Resolver,
        context: Callable[[], ssl.SSLContext],
        deadline: float,
        max_bytes: int,
    ) -> None:
        self._reach = reach
        self._resolve = resolve
        self._context = context
        self._deadline = deadline
        self._max_bytes = max_bytes
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
        for _ in range(_MOST_REDIRECTS + 1):
            answer = self._once(request)
            target = _redirected(request, answer)
            if target is None:
                return answer
            secret = request.secret_headers if _origin(target) == _origin(request.url) else dict[str, str]()
            request = Request(request.method, target, request.headers, secret, None)
        raise Refused(f"more than {_MOST_REDIRECTS} redirects")

    def _once(self, request: Request) -> Answer:
        scheme, host, port, path = split_url(request.url)
        tls = self._context() if scheme == "https" else None
        sock = dial(
            host, port, self._reach, deadline=self._deadline, resolve=self._resolve, tls=tls, on_socket=self._hold
        )
        connection = http.client.HTTPConnection(host, port)
        connection.sock = sock
        try:
            name = f"[{host}]" if ":" in host else host
            default = port == (443 if tls else 80)
            headers = {
                "Host": name if default else f"{name}:{port}",
                "User-Agent": "cloister",
                "Accept-Encoding": "identity",
                **request.headers,
                **request.secret_headers,
                "Connection": "close",
            }
            connection.request(request.method, path, request.body, headers)
            return self._read(connection.getresponse())
        except TimeoutError:
            raise Refused("no answer in time") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Refused(f"{host!r} did not answer properly: {type(error).__name__}") from None
        finally:
            self._hold(None)
            connection.close()

    def _read(self, response: http.client.HTTPResponse) -> Answer:
        taken = bytearray()
        while chunk := response.read(_CHUNK):
            taken += chunk
            if len(taken) > self._max_bytes:
                raise Refused(f"the answer has more than {self._max_bytes} bytes")
            if time.monotonic() > self._deadline:
                raise Refused("no answer in time")
        headers: dict[str, str] = {}
        for name, value in response.getheaders()[:_MOST_HEADERS]:
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        body = _unpacked(bytes(taken), headers.get("content-encoding", ""), self._max_bytes)
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
        raise Refused(f"the answer has more than {most} bytes")
    return made


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
