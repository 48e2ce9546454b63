"""Where a stream is: lines in, envelopes out, and the proof that none is missing.

Each event says which was before it in its stream. The first one says so of what was read before, if anything was. An
event that was there already is passed over; one whose predecessor never came is refused. Nothing is sent or awaited
here, so both clients read streams in the same way.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from cloister.client.errors import AnswerUnreadable, EventsMissed
from cloister.client.reading import envelope
from cloister.core.envelope import Envelope

_LONGEST = 64 << 20


@dataclass(frozen=True, slots=True)
class Closed:
    """The server has ended the stream."""

    reason: str

    @property
    def for_good(self) -> bool:
        return self.reason in ("session_closed", "thread_gone")


class Track:
    def __init__(self, since: int) -> None:
        # The last event that was read.
        self.last = since
        # Whether `last` is one of this stream: what the caller said may be any number.
        self._is_ours = since == 0
        self._rest = b""
        self._name = ""
        self._data: list[bytes] = []

    def begin(self) -> None:
        """A new connection: what was read of an event on the one before is nothing."""
        self._rest, self._name, self._data = b"", "", []

    def feed(self, piece: bytes) -> Iterator[Envelope | Closed]:
        """What a piece of the stream completes."""
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _LONGEST:
            raise AnswerUnreadable(f"a line of the stream has more than {_LONGEST} bytes")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line:
                self._field(line)
                continue
            name, data = self._name, b"\n".join(self._data)
            self._name, self._data = "", []
            if data and (told := self._event(name, data)) is not None:
                yield told

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode(errors="replace")
        # `id` is in the data as well; comments and what is not known say nothing to us.

    def _event(self, name: str, data: bytes) -> Envelope | Closed | None:
        try:
            said: Any = json.loads(data)
        except (ValueError, RecursionError):
            raise AnswerUnreadable("an event in the stream is not JSON") from None
        if name == "stream.closed":
            reason = cast("Mapping[str, Any]", said).get("reason") if isinstance(said, Mapping) else None
            return Closed(str(reason))
        return self._told(envelope(said))

    def _told(self, event: Envelope) -> Envelope | None:
        if event.seq is None or event.previous_seq is None:
            return event
        if event.seq <= self.last:
            return None
        before = event.previous_seq
        if before > self.last or (self._is_ours and before != self.last):
            raise EventsMissed(expected=self.last, found=before, seq=event.seq)
        self.last, self._is_ours = event.seq, True
        return event
