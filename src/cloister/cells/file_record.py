"""What a cell asked of its session's files and was told, as it is written down: a replay tells it the same again.

In the order of asking, and no more than so much of one cell: whoever was told more cannot be gone over again. What has
been written down for good is dropped from the tail, and only counted.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import zstandard

from cloister.core.digest import canonical_json, digest_bytes
from cloister.core.value import Json
from cloister.gate.redaction import Redactor
from cloister.ports.helping import Helper, HelperRefused

# Of one cell, before it is packed.
MOST_RECORDED_BYTES = 1 << 20
# With more than this the next wait is written down for good: the tail is written anew with each.
DUE_BYTES = 4 << 10
# Less is not worth packing.
_PACKED_FROM = 512
# A short question is kept as it is, for people to read; of a longer one there is a digest.
_BRIEF = 160

# The name, what was asked in brief, and the answer; or, in the answer's place, the code and the message of a refusal.
Asked: TypeAlias = "list[Any]"


def _nothing_asked() -> list[Asked]:
    return []


@dataclass(slots=True)
class FileRecord:
    """Of one cell, from its start to its end, wherever it goes on in between."""

    # Why it is not all here, if it is not.
    lost: str | None = None
    # Since the last that was written down for good.
    tail: list[Asked] = field(default_factory=_nothing_asked)
    # How many came before the tail.
    before: int = 0
    _bytes: int = 0
    _tail_bytes: int = 0
    # How long the tail was when it was packed last, and what that gave.
    _packed: tuple[int, str] | None = None

    def ask(self, files: Helper, name: str, given: tuple[Json, ...], redactor: Redactor) -> Json:
        """What `files` answers, which is noted."""
        try:
            answer = files(name, given)
        except HelperRefused as refused:
            self._note([name, brief(given), refused.code, refused.message], redactor)
            raise
        self._note([name, brief(given), answer], redactor)
        return answer

    def _note(self, asked: Asked, redactor: Redactor) -> None:
        if self.lost is not None:
            return
        size = len(canonical_json(asked))
        self._bytes += size
        self._tail_bytes += size
        if self._bytes > MOST_RECORDED_BYTES:
            self._lose(f"what it was told of files is more than the {MOST_RECORDED_BYTES >> 20} MiB that are kept")
        elif redactor and redactor.value(asked) is not asked:
            # With the value in it, it must not be written down; without, it is not what the program was told.
            self._lose("a file that it used has the value of a secret in it")
        else:
            self.tail.append(asked)

    def _lose(self, why: str) -> None:
        self.lost, self.tail, self._tail_bytes = why, [], 0

    @property
    def due(self) -> bool:
        """Whether the next wait is to be written down for good."""
        return self._tail_bytes > DUE_BYTES

    def put_away(self) -> dict[str, Any]:
        """The tail, with its place, as a part of a snapshot: it is written down for good."""
        if not self.tail:
            return {}
        away = {"filed": [self.before, self._pack()]}
        self.before, self.tail, self._tail_bytes = self.before + len(self.tail), [], 0
        self._packed = None
        return away

    def to_json(self) -> dict[str, Any]:
        """As a part of a cell's row."""
        if self.lost is not None:
            return {"filed": {"lost": self.lost}}
        if not self.before and not self.tail:
            return {}
        return {"filed": {"before": self.before, "bytes": self._bytes, "tail": self._pack()}}

    def _pack(self) -> str:
        # A row may be written several times while nothing is asked in between.
        if self._packed is None or self._packed[0] != len(self.tail):
            self._packed = (len(self.tail), pack(self.tail))
        return self._packed[1]

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> "FileRecord":
        """What `to_json` wrote, wherever it is in `doc`."""
        filed = doc.get("filed")
        if filed is None:
            return cls()
        if filed is True:
            return cls("a version ran it that kept nothing of what it was told of files")
        if "lost" in filed:
            return cls(filed["lost"])
        tail = unpack(filed["tail"])
        return cls(None, tail, filed["before"], filed["bytes"], len(canonical_json(tail)))


def brief(given: tuple[Json, ...]) -> Json:
    """What was asked, in a list; where that is long, its digest."""
    data = canonical_json(given)
    return list(given) if len(data) <= _BRIEF else digest_bytes(data)


def pack(some: Sequence[Asked]) -> str:
    """As a text of ASCII: a program may ask for what no store keeps as JSON, such as half a pair of surrogates."""
    text = json.dumps(some, separators=(",", ":"))
    if len(text) < _PACKED_FROM:
        return text
    return base64.b64encode(zstandard.ZstdCompressor(level=3).compress(text.encode("ascii"))).decode("ascii")


def unpack(packed: str) -> list[Asked]:
    """Raises `ValueError` for what was not packed here."""
    # What is compressed never begins so.
    if packed.startswith("["):
        return json.loads(packed)
    try:
        data = zstandard.ZstdDecompressor().decompress(
            base64.b64decode(packed, validate=True), max_output_size=8 * MOST_RECORDED_BYTES
        )
    except zstandard.ZstdError as error:
        raise ValueError(f"what was told of files cannot be unpacked: {error}") from None
    return json.loads(data)
