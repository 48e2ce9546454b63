"""What a program prints, kept up to a bound and cut at a character's boundary.

Written from worker threads, read from the event loop. The program is never told that it was cut; the host is.
"""

import logging
import threading
from collections.abc import Callable
from typing import Literal

Stream = Literal["stdout", "stderr"]
log = logging.getLogger("cloister.cells")


class Output:
    def __init__(self, max_bytes: int, listener: Callable[[Stream, str], None] | None = None) -> None:
        self._left = max_bytes
        self._parts: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._listener = listener
        self.dropped = 0
        # Two workers never write at once, but a reader may come in the middle of a write.
        self._lock = threading.Lock()

    def listen(self, listener: Callable[[Stream, str], None] | None) -> None:
        """From now on `listener` hears what is kept; what was written before was heard before."""
        self._listener = listener

    def write(self, stream: Stream, text: str) -> None:
        """Keep `text`, or as much of it as still fits; both streams share one bound."""
        with self._lock:
            if self._left <= 0:
                self.dropped += len(text.encode("utf-8", "replace"))
                return
            data = text.encode("utf-8", "replace")
            if len(data) > self._left:
                self.dropped += len(data) - self._left
                data = data[: self._left]
                # Cut where a character ends; what is lost with it counts as dropped too.
                kept = data.decode("utf-8", "ignore")
                self.dropped += len(data) - len(kept.encode())
                self._left = 0
            else:
                self._left -= len(data)
                kept = data.decode("utf-8")
            self._parts[stream].append(kept)
        if self._listener is not None and kept:
            try:
                self._listener(stream, kept)
            # Containment: a listener is the host's; the program must not fail, nor learn, because it does.
            except Exception:
                log.exception("an output listener failed and hears no more")
                self._listener = None

    def text(self, stream: Stream) -> str:
        with self._lock:
            parts = self._parts[stream]
            if len(parts) > 1:
                parts[:] = ["".join(parts)]
            return parts[0] if parts else ""
