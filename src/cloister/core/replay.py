"""What a replay says: that a cell does again what it did, or where it first does something else."""

from dataclasses import dataclass
from enum import StrEnum

from cloister.core.language import Language


class DivergenceKind(StrEnum):
    # The journal, before anything is run.
    ENTRY_ALTERED = "entry_altered"
    ENTRY_MISSING = "entry_missing"
    ENTRY_EXTRA = "entry_extra"
    # What the program asks for.
    OTHER_CALL = "other_call"
    OTHER_ARGUMENTS = "other_arguments"
    MISSING_CALL = "missing_call"
    EXTRA_CALL = "extra_call"
    OTHER_FILES = "other_files"
    # How it ends, and what it leaves.
    OTHER_END = "other_end"
    OTHER_RESULT = "other_result"
    OTHER_ERROR = "other_error"
    OTHER_OUTPUT = "other_output"
    OTHER_VALUES = "other_values"


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first thing that is not as it is on record. `expected` is the record; both are cut where they are long."""

    kind: DivergenceKind
    # The n-th time that the program went on, 1 being its start; None for an entry that it was never told of.
    step: int | None
    # The number of the call, counted from 1 within the cell; None where it is not about a call.
    call: int | None
    expected: str
    actual: str

    def __str__(self) -> str:
        where = [f"step {self.step}"] if self.step is not None else []
        where += [f"call {self.call}"] if self.call is not None else []
        what = str(self.kind).replace("_", " ")
        return f"{', '.join(where) or 'the journal'}: {what}: expected {self.expected}, found {self.actual}"


@dataclass(frozen=True, slots=True)
class ReplayReport:
    cell_id: str
    session_id: str
    language: Language
    # How often the program went on, and how many of its calls were held against the record.
    steps: int
    calls: int
    diverged: Divergence | None = None
    # Why the cell ended, if nothing in its program says so: it was stopped, its time was over, its host went. Up to
    # there it was replayed.
    ended_from_outside: str | None = None

    @property
    def same(self) -> bool:
        return self.diverged is None
