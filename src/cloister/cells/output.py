"""What a program prints, scrubbed of secrets, kept up to a bound and cut at a character's boundary.

Written from worker threads, read from the event loop. The program is never told that it was cut; the host is. What
could be the beginning of a secret is held back until it is known whether it is: it is neither kept nor heard before.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from cloister.gate.redaction import Redactor
from cloister.gate.redaction import Stream as Scrub

Stream = Literal["stdout", "stderr"]
log = logging.getLogger("cloister.cells")
_STREAMS: tuple[Stream, ...] = ("stdout", "stderr")


class Output:
    def __init__(
        self,
        max_bytes: int,
        listener: Callable[[Stream, str], None] | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self._left = max_bytes
        self._parts: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._listener = listener
        self._redactor = redactor
        # Made when something is printed that there are secrets to look for in.
        self._filters: dict[Stream, Scrub] | None = None
        self.dropped = 0
        # Two workers never write at once, but a reader may come in the middle of a write.
        self._lock = threading.Lock()

    def listen(self, listener: Callable[[Stream, str], None] | None) -> None:
        """From now on `listener` hears what is kept; what was written before was heard before."""
        self._listener = listener

    def write(self, stream: Stream, text: str) -> None:
        """Keep `text`, or as much of it as still fits; both streams share one bound."""
        with self._lock:
            # Past the bound nobody sees it, secret or not.
            if (self._filters is not None or self._redactor) and self._left > 0:
                text = self._filter(stream).feed(text)
            kept = self._keep(stream, text)
        self._tell(stream, kept)

    def finish(self) -> None:
        """The program has ended: what was held back is no secret, because nothing follows it."""
        if self._filters is None:
            return
        for stream in _STREAMS:
            with self._lock:
                kept = self._keep(stream, self._filters[stream].flush())
            self._tell(stream, kept)

    def text(self, stream: Stream) -> str:
        with self._lock:
            return self._text(stream)

    def so_far(self, stream: Stream) -> str:
        """`text`, and what is held back besides, for whoever looks while the program sleeps: with a long beginning of a
        secret taken for the secret. What is held back stays so."""
        with self._lock:
            held = self._filters[stream].peek() if self._filters is not None else ""
            fits = held.encode("utf-8", "replace")[: max(self._left, 0)].decode("utf-8", "ignore")
            return self._text(stream) + fits

    def begun(self) -> dict[str, tuple[str, str, int, str]]:
        """Of each stream the secret that `so_far` shows although only its beginning was printed, without its value."""
        with self._lock:
            found = {stream: scrub.begun() for stream, scrub in self._filters.items()} if self._filters else {}
            return {stream: begun for stream, begun in found.items() if begun is not None}

    def expect(self, begun: Mapping[str, Sequence[Any]]) -> None:
        """What was `begun` elsewhere, once `so_far` was written here: the rest of it is not shown either."""
        for stream in _STREAMS:
            if stream in begun:
                with self._lock:
                    scrub = self._filter(stream)
                    self._keep(stream, scrub.flush())
                    scrub.expect(*begun[stream])

    # -- inside ----------------------------------------------------------------------------------------------

    def _filter(self, stream: Stream) -> Scrub:
        if self._filters is None:
            assert self._redactor is not None
            self._filters = {one: self._redactor.stream() for one in _STREAMS}
        return self._filters[stream]

    def _text(self, stream: Stream) -> str:
        parts = self._parts[stream]
        if len(parts) > 1:
            parts[:] = ["".join(parts)]
        return parts[0] if parts else ""

    def _keep(self, stream: Stream, text: str) -> str:
        """What of `text` is kept; under the lock."""
        data = text.encode("utf-8", "replace")
        if self._left <= 0:
            self.dropped += len(data)
            return ""
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
        return kept

    def _tell(self, stream: Stream, kept: str) -> None:
        if self._listener is not None and kept:
            try:
                self._listener(stream, kept)
            # Containment: a listener is the host's; the program must not fail, nor learn, because it does.
            except Exception:
                log.exception("an output listener failed and hears no more")
                self._listener = None
