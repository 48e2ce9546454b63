"""One HTTP request over a socket that is opened to an address that was checked, with everything about it bounded.

Plain `http.client`, in a thread: it follows no redirect, reads no proxy from the environment and keeps no connection.
Whoever waits closes the socket when its time is over, which ends the thread's read wherever it is.
"""

import base64
import http.client
import ipaddress
import re
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cloister.sessions.plugins.address import NotAllowed, Target

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_OURS = frozenset(
    "accept-encoding connection content-length expect host http2-settings keep-alive te trailer transfer-encoding "
    "upgrade".split()
)
_MOST_HEADERS, _LONGEST_HEADERS = 50, 16 << 10
_CHUNK = 64 << 10


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    headers: Mapping[str, str]
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


def check_headers(given: Mapping[str, str]) -> dict[str, str]:
    """Headers by their names in lower case. Raises `NotAllowed`."""
    found: dict[str, str] = {}
    for name, value in given.items():
        low = name.lower()
        if not _NAME.fullmatch(name) or low in _OURS or low.startswith("proxy-"):
            raise NotAllowed("BAD_HEADER", f"the header {name[:100]!r} cannot be set")
        if low in found:
            raise NotAllowed("BAD_HEADER", f"the header {name!r} is there twice")
        if any((c != "\t" and not " " <= c <= "\xff") or c == "\x7f" for c in value):
            raise NotAllowed("BAD_HEADER", f"the header {name!r} has characters that a header cannot have")
        found[low] = value
    if len(found) > _MOST_HEADERS or sum(len(name) + len(value) for name, value in found.items()) > _LONGEST_HEADERS:
        raise NotAllowed("BAD_HEADER", f"at most {_MOST_HEADERS} headers with {_LONGEST_HEADERS} characters in all")
    return found


class _Connection(http.client.HTTPConnection):
    """To one of these addresses, whatever the host's name leads to by now."""

    def __init__(
        self, target: Target, addresses: Sequence[str], seconds: float, opened: Callable[[socket.socket], None]
    ) -> None:
        super().__init__(target.host, target.port, timeout=seconds)
        self._target = target
        self._addresses = addresses
        self._opened = opened

    def connect(self) -> None:
        last: OSError | None = None
        for address in self._addresses:
            try:
                plain = socket.create_connection((address, self.port), self.timeout)
            except OSError as error:
                last = error
                continue
            self._opened(plain)
            # What is connected is what was checked, or nothing is sent.
            if ipaddress.ip_address(str(plain.getpeername()[0]).partition("%")[0]) != ipaddress.ip_address(address):
                plain.close()
                raise NotAllowed("ADDRESS_NOT_ALLOWED", "the connection went elsewhere")
            self.sock = plain
            if self._target.scheme == "https":
                self.sock = _context().wrap_socket(plain, server_hostname=self._target.host)
                self._opened(self.sock)
            return
        raise last or OSError("no address")


_contexts: list[ssl.SSLContext] = []


def _context() -> ssl.SSLContext:
    # Reading the certificates takes a while.
    if not _contexts:
        _contexts.append(ssl.create_default_context())
    return _contexts[0]


class Fetch:
    """One request. `go` is for a thread; `stop` for anybody."""

    def __init__(self, target: Target, addresses: Sequence[str], request: Request, seconds: float, most: int) -> None:
        self._target = target
        self._addresses = addresses
        self._request = request
        self._seconds = max(seconds, 0.001)
        self._most = most
        self._sockets: list[socket.socket] = []
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        for opened in list(self._sockets):
            try:
                opened.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _opened(self, opened: socket.socket) -> None:
        self._sockets.append(opened)
        if self._stopped:
            raise OSError("stopped")

    def go(self) -> Answer:
        """Raises `NotAllowed`."""
        target, request = self._target, self._request
        connection = _Connection(target, self._addresses, self._seconds, self._opened)
        try:
            headers = {"host": target.host_header, "accept-encoding": "identity", "connection": "close"}
            connection.request(request.method, target.path, request.body, {**headers, **request.headers})
            return self._read(connection.getresponse())
        except ssl.SSLCertVerificationError:
            raise NotAllowed("CONNECT_FAILED", f"{target.host} has no certificate that can be trusted") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotAllowed("CONNECT_FAILED", f"{target.host_header}: {_kind(error)}") from None
        finally:
            connection.close()

    def _read(self, response: http.client.HTTPResponse) -> Answer:
        said = response.headers.get("content-length", "")
        if said.isdecimal() and int(said) > self._most:
            raise self._too_large()
        parts: list[bytes] = []
        size = 0
        while part := response.read1(_CHUNK):
            size += len(part)
            if size > self._most:
                raise self._too_large()
            parts.append(part)
        if response.length:
            raise http.client.IncompleteRead(b"".join(parts), response.length)
        headers: dict[str, str] = {}
        for name, value in response.getheaders():
            low = name.lower()
            headers[low] = f"{headers[low]}, {value}" if low in headers else value
        return Answer(response.status, headers, b"".join(parts))

    def _too_large(self) -> NotAllowed:
        return NotAllowed("RESPONSE_TOO_LARGE", f"the answer has more than {self._most} bytes")


def _kind(error: BaseException) -> str:
    """What went wrong, in words of ours: what the other side says stays there."""
    match error:
        case TimeoutError():
            return "no answer in time"
        case ConnectionRefusedError():
            return "the connection was refused"
        case ConnectionError():
            return "the connection broke"
        case ssl.SSLError():
            return "no secure connection could be made"
        case http.client.HTTPException():
            return "the answer is not HTTP, or not all of it came"
        case _:
            return "the connection failed"


def shown(answer: Answer) -> dict[str, Any]:
    """An answer as a program gets it: text where it is text, otherwise base64."""
    made: dict[str, Any] = {"status": answer.status, "headers": dict(answer.headers), "text": None, "base64": None}
    try:
        if answer.headers.get("content-encoding", "identity") == "identity":
            made["text"] = answer.body.decode(_charset(answer.headers.get("content-type", "")))
            return made
    except (UnicodeDecodeError, LookupError):
        pass
    made["base64"] = base64.b64encode(answer.body).decode()
    return made


def _charset(content_type: str) -> str:
    found = re.search(r"charset=\"?([\w-]{1,40})", content_type, re.IGNORECASE)
    name = found.group(1).lower() if found else "utf-8"
    # Others of Python's codecs are no character sets, and some of them unpack.
    return name if name in ("utf-8", "utf8", "us-ascii", "iso-8859-1", "latin1", "windows-1252") else "utf-8"
