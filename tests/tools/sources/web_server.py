"""A real HTTP server on loopback that answers as a test says and remembers what it was asked."""

import json
import ssl
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Asked:
    method: str
    # With its query, as it came.
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Reply:
    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


def as_json(value: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value).encode())


Answering = Callable[[Asked], Reply]


@dataclass
class Web:
    port: int
    asked: list[Asked]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def last(self) -> Asked:
        return self.asked[-1]


@contextmanager
def web(answer: Answering = lambda _asked: Reply(), *, tls: ssl.SSLContext | None = None) -> Generator[Web]:
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            heard = Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            asked.append(heard)
            reply = answer(heard)
            try:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(reply.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(reply.body)
            except OSError:
                pass  # whoever asked has had enough

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):
                return self.answer
            raise AttributeError(name)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # clients that leave in the middle are what some tests are about

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        # The handshake is made by whichever thread answers, so that a client that leaves stops nobody.
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Web(server.server_address[1], asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
