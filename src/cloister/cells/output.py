"""What a program says: printed, shown as text or as an image; scrubbed of secrets, in order, up to a bound.

Written from worker threads, read from the event loop. Text is cut at a character's boundary; the program is never
told, the host is. What could be the beginning of a secret is held back until it is known whether it is: it is neither
kept nor heard before. `take` gives what is new since the last one, so that every byte is observed once.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from cloister.gate.redaction import Redactor
from cloister.gate.redaction import Stream as Scrub

Stream = Literal["stdout", "stderr"]
Kind = Literal["stdout", "stderr", "text"]
log = logging.getLogger("cloister.cells")
_STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
# Images of one cell together; each is bounded by itself.
_MOST_IMAGES = 64
_IMAGE_BYTES = 16 << 20
# Of what is told at once. Where there are more, texts that follow each other are told as one.
_MOST_ITEMS = 1000


class _Entry:
    """Something said at once: pieces of text of one kind, or an image."""

    __slots__ = ("image", "kind", "pieces")

    def __init__(self, kind: str, pieces: list[str], image: Mapping[str, Any] | None = None) -> None:
        self.kind = kind
        self.pieces = pieces
        self.image = image

    @property
    def text(self) -> str:
        if len(self.pieces) > 1:
            self.pieces[:] = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


class Output:
    def __init__(
        self,
        max_bytes: int,
        listener: Callable[[Kind, str], None] | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self._left = max_bytes
        self._entries: list[_Entry] = []
        # Entries before this one were taken.
        self._taken = 0
        self._images = 0
        self._image_bytes = 0
        self._listener = listener
        self._redactor = redactor
        # Made when something is printed that there are secrets to look for in.
        self._filters: dict[Stream, Scrub] | None = None
        self.dropped = 0
        # Two workers never write at once, but a reader may come in the middle of a write.
        self._lock = threading.Lock()

    def listen(self, listener: Callable[[Kind, str], None] | None) -> None:
        """From now on `listener` hears what is kept; what was written before was heard before."""
        self._listener = listener

    # -- written ---------------------------------------------------------------------------------------------

    def write(self, stream: Stream, text: str) -> None:
        """Keep `text`, or as much of it as still fits; all text shares one bound."""
        with self._lock:
            # Past the bound nobody sees it, secret or not.
            if (self._filters is not None or self._redactor) and self._left > 0:
                text = self._filter(stream).feed(text)
            kept = self._keep(stream, text)
        self._tell(stream, kept)

    def say(self, text: str) -> None:
        """Keep `text` as an item of its own, after what was printed before it."""
        self.finish()
        with self._lock:
            kept = self._keep("text", self._redactor.text(text) if self._redactor else text, alone=True)
        self._tell("text", kept)

    def show(self, image: Mapping[str, Any]) -> bool:
        """Keep an image; False if there is no room for it."""
        self.finish()
        size = len(image["image_url"])
        with self._lock:
            if self._images >= _MOST_IMAGES or self._image_bytes + size > _IMAGE_BYTES:
                return False
            self._images += 1
            self._image_bytes += size
            self._entries.append(_Entry("image", [], image))
        return True

    def finish(self) -> None:
        """Nothing follows what was printed: what was held back of it is no secret."""
        if self._filters is None:
            return
        for stream in _STREAMS:
            with self._lock:
                kept = self._keep(stream, self._filters[stream].flush())
            self._tell(stream, kept)

    # -- read ------------------------------------------------------------------------------------------------

    @property
    def silent(self) -> bool:
        """Whether nothing was said so far: neither kept, nor held back, nor dropped."""
        return not self._entries and self._filters is None and not self.dropped

    def take(self) -> tuple[Mapping[str, Any], ...]:
        """The content that nobody has taken yet; from now on somebody has."""
        if self._taken == len(self._entries):
            return ()
        with self._lock:
            since, self._taken = self._taken, len(self._entries)
            return _items(self._entries[since:])

    def untaken(self) -> tuple[Mapping[str, Any], ...]:
        """What `take` would give; it stays."""
        with self._lock:
            return _items(self._entries[self._taken :])

    def content(self) -> tuple[Mapping[str, Any], ...]:
        """All of it, taken or not."""
        if not self._entries:
            return ()
        with self._lock:
            return _items(self._entries)

    def text(self, stream: Kind) -> str:
        if not self._entries:
            return ""
        with self._lock:
            return self._text(stream)

    def whole(self) -> str:
        """All text as one, in order, with a line where an image was."""
        with self._lock:
            return "".join(_line(entry) for entry in self._entries)

    def so_far(self, stream: Stream) -> str:
        """`text`, and what is held back besides, for whoever looks while the program sleeps: with a long beginning of a
        secret taken for the secret. What is held back stays so."""
        with self._lock:
            return self._text(stream) + self._peek(stream)

    # -- carried elsewhere -----------------------------------------------------------------------------------

    def to_json(self) -> list[list[Any]]:
        """All that was said, as `so_far` shows it, in order."""
        if not self._entries and self._filters is None:
            return []
        with self._lock:
            said = [[entry.kind, entry.image or entry.text] for entry in self._entries]
            held = [[stream, self._peek(stream)] for stream in _STREAMS]
        return said + [entry for entry in held if entry[1]]

    def take_up(self, said: Iterable[Sequence[Any]]) -> None:
        """What `to_json` wrote down elsewhere."""
        for kind, what in said:
            if kind == "image":
                self.show(what)
            elif kind == "text":
                self.say(what)
            else:
                self.write(kind, what)

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

    def _text(self, stream: Kind) -> str:
        return "".join(entry.text for entry in self._entries if entry.kind == stream)

    def _peek(self, stream: Stream) -> str:
        held = self._filters[stream].peek() if self._filters is not None else ""
        return held.encode("utf-8", "replace")[: max(self._left, 0)].decode("utf-8", "ignore")

    def _keep(self, kind: Kind, text: str, *, alone: bool = False) -> str:
        """What of `text` is kept; under the lock."""
        data = text.encode("utf-8", "replace")
        if self._left <= 0:
            self.dropped += len(data) or alone
            return ""
        if alone and not data:
            # Says nothing and is something all the same: without a price there could be any number of them.
            self._left -= 1
            kept = ""
        elif len(data) > self._left:
            self.dropped += len(data) - self._left
            data = data[: self._left]
            # Cut where a character ends; what is lost with it counts as dropped too.
            kept = data.decode("utf-8", "ignore")
            self.dropped += len(data) - len(kept.encode())
            self._left = 0
        else:
            self._left -= len(data)
            kept = data.decode("utf-8")
        if kept or alone:
            self._append(kind, kept, alone=alone)
        return kept

    def _append(self, kind: Kind, text: str, *, alone: bool) -> None:
        last = self._entries[-1] if len(self._entries) > self._taken else None
        if last is not None and last.kind == kind and not alone:
            last.pieces.append(text)
        else:
            self._entries.append(_Entry(kind, [text]))

    def _tell(self, kind: Kind, kept: str) -> None:
        if self._listener is not None and kept:
            try:
                self._listener(kind, kept)
            # Containment: a listener is the host's; the program must not fail, nor learn, because it does.
            except Exception:
                log.exception("an output listener failed and hears no more")
                self._listener = None


def _items(entries: Sequence[_Entry]) -> tuple[Mapping[str, Any], ...]:
    """What was printed in one go is one item, on whichever stream."""
    many = len(entries) > _MOST_ITEMS
    items: list[Mapping[str, Any]] = []
    printed: list[str] = []

    def flush() -> None:
        if printed:
            items.append({"type": "input_text", "text": "".join(printed)})
            printed.clear()

    for entry in entries:
        if entry.kind in _STREAMS or (many and entry.image is None):
            printed.append(_line(entry))
            continue
        flush()
        items.append(entry.image if entry.image is not None else {"type": "input_text", "text": entry.text})
    flush()
    return tuple(items)


def _line(entry: _Entry) -> str:
    if entry.image is not None:
        url = cast("str", entry.image["image_url"])
        return f"[image {url if len(url) <= 200 else url[:40] + '…'}]\n"
    return entry.text if entry.kind in _STREAMS or entry.text.endswith("\n") else entry.text + "\n"
