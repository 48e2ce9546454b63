"""The worker's end of the wire: frames, one after the other, also in the middle of a step that must ask the host."""

import socket
from collections import deque

from cloister.engines.quickjs import frames

_PIECE = 1 << 18


class Line:
    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self._reader = frames.Reader({kind: frames.TO_WORKER for kind in range(frames.SETUP, frames.HELPED + 1)})
        self._arrived: deque[tuple[int, bytes]] = deque()

    def send(self, frame: bytes) -> None:
        self._wire.sendall(frame)

    def receive(self) -> tuple[int, bytes] | None:
        """The next frame; None when the host has hung up."""
        while not self._arrived:
            data = self._wire.recv(_PIECE)
            if not data:
                return None
            self._arrived.extend(self._reader.feed(data))
        return self._arrived.popleft()
