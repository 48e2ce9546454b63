"""The course of a cell: when its program went on, and with what, so that somebody can go over it again.

What a call came to is in the journal; here is only what the journal does not say: the order and the grouping in which
the program was told, the time it saw, and whatever it was told that is in no journal (a refusal, an answer of
Cloister's own functions). Of what is in the journal a seal is kept, which does not fit if the entry is changed.

A course grows with each step. What has been written down for good is dropped from `tail`, and only counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cloister.cells.file_record import FileRecord
from cloister.core.diagnostic import ErrorObject
from cloister.core.digest import canonical_json, digest_bytes
from cloister.core.value import Json
from cloister.core.wire import to_json
from cloister.gate import Outcome
from cloister.ports.engine import Returned, Settlement

# A longer tail is written down for good: it is written anew with each wait.
MAX_TAIL = 64
_SEAL = 16

# A timer's number; a number and the seal of its entry; or a number and what the program was told.
Item: TypeAlias = "int | list[Any]"


def seal(request_digest: str, status: str, response_digest: str | None, error: ErrorObject | None) -> str:
    """Fits to one request and one response."""
    text = f"{request_digest}/{status}/{response_digest}".encode()
    return digest_bytes(text if error is None else text + canonical_json(to_json(error)))[:_SEAL]


# For every cell: `list[...]()` takes ten times as long.
def _no_steps() -> list[list[Any]]:
    return []


def _nothing_told() -> dict[int, Any]:
    return {}


@dataclass(slots=True)
class Course:
    # How the cell began, as it is written down; None as long as it is not.
    start: Mapping[str, Any] | None = None
    # The version of the stored values that it began with; None for one that has not begun, or not here.
    values_version: int | None = None
    engine: str = ""
    # Whether its program has run at all.
    ran: bool = False
    # Since the last that was written down for good: the time, and what the program was told.
    tail: list[list[Any]] = field(default_factory=_no_steps)
    # How many came before the tail, and in how many parts they were written down.
    before: int = 0
    parts: int = 0
    # The highest number among its calls, and among those that a snapshot was written for.
    made: int = 0
    kept: int = 0
    # What it stored, once it has ended.
    written: Mapping[str, Json] | None = None
    # What it asked of files and was told.
    files: FileRecord = field(default_factory=FileRecord)
    _told: dict[int, Any] = field(default_factory=_nothing_told)
    _taken: int = 0

    def note(self, number: int, outcome: Outcome) -> None:
        """What this call came to, which the program will be told."""
        record, settlement = outcome.record, outcome.settlement
        if outcome.on_record and record is not None:
            self._told[number] = seal(record.request_digest, record.status, record.response_digest, record.error)
        elif isinstance(settlement, Returned):
            self._told[number] = {"value": settlement.value}
        else:
            self._told[number] = {"error": to_json(settlement.error)}

    def advance(self, resumes: Sequence[tuple[int, Sequence[Settlement]]], pending: Iterable[int]) -> None:
        """Take in what has happened since the last time."""
        for now_ms, settlements in resumes[self._taken :]:
            self.tail.append([now_ms, [self._item(one.number) for one in settlements]])
        self._taken = len(resumes)
        self.made = max(self.made, max(pending, default=0))

    def _item(self, number: int) -> Item:
        told = self._told.pop(number, None)
        return number if told is None else [number, told]

    @property
    def due(self) -> bool:
        """Whether the next wait is to be written down for good."""
        return self.made > self.kept or len(self.tail) >= MAX_TAIL or self.files.due

    def put_away(self) -> dict[str, Any]:
        """The tail, with its place, as a part of a snapshot: it is written down for good."""
        away = {"course": [self.before, self.tail], **self.files.put_away()}
        self.before, self.tail, self.kept = self.before + len(self.tail), [], self.made
        self.parts += 1
        return away

    def to_json(self) -> dict[str, Any]:
        doc: dict[str, Any] = {
            "start": self.start,
            "parts": self.parts,
            "before": self.before,
            "tail": self.tail,
            "made": self.made,
        }
        if self.written is not None:
            doc["written"] = self.written
        return doc | self.files.to_json()

    @classmethod
    def from_json(cls, doc: Mapping[str, Any]) -> "Course":
        """What `to_json` wrote: of a cell that another process goes on with."""
        made = doc["made"]
        return cls(
            doc["start"],
            ran=True,
            tail=list(doc["tail"]),
            before=doc["before"],
            parts=doc["parts"],
            made=made,
            kept=made,
            written=doc.get("written"),
            files=FileRecord.from_json(doc),
        )
