"""A relay between a client and a server, over TCP, which breaks connections when it is told to."""

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

# How many bytes of a connection's answers are let through before it is broken; None for all. Asked for each connection,
# which are counted from 1.
Cut = Callable[[int], int | None]


class Relay:
    def __init__(self, url: str, cut: Cut) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._cut = cut
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.connections = 0
        # What is sent to the server waits as long as this is not set.
        self.flows = threading.Event()
        self.flows.set()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def aim(self, url: str) -> None:
        """Connections from now on go there."""
        parts = urlsplit(url)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 80)

    def close(self) -> None:
        self.flows.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for one in list(self._open):
            self._break(one)
        for thread in self._threads:
            thread.join(30)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            try:
                server = socket.create_connection(self._target, 5)
            except OSError:
                client.close()
                continue
            self._open |= {client, server}
            self._start(self._copy, client, server, None, True)
            self._start(self._copy, server, client, self._cut(self.connections), False)

    def _copy(self, source: socket.socket, target: socket.socket, most: int | None, to_server: bool) -> None:
        left = most
        with suppress(OSError):
            while data := source.recv(65536):
                if to_server:
                    self.flows.wait(60)
                data = data if left is None else data[:left]
                target.sendall(data)
                if left is not None:
                    left -= len(data)
                    if left == 0:
                        break
        self._break(source)
        self._break(target)

    def _break(self, one: socket.socket) -> None:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
        self._open.discard(one)

    def _start(self, work: Callable[..., None], *given: object) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)
        thread.start()
        self._threads.append(thread)


@contextmanager
def relay(url: str, cut: Cut = lambda _: None) -> Generator[Relay, None, None]:
    made = Relay(url, cut)
    try:
        yield made
    finally:
        made.close()
