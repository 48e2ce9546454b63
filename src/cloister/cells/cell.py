"""A cell under way: its program, what it has asked for, what it may still use. Not how it is driven; that is `runner`.

All that is needed to go on with it elsewhere is here, but for the interpreter's bytes.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cloister.cells.course import Course
from cloister.cells.output import Output
from cloister.cells.state import Machine
from cloister.cells.tape import Recording
from cloister.cells.values import CellValues
from cloister.core.call import ExternalCallRecord
from cloister.core.limits import SessionLimits
from cloister.gate import Asked, Budget, Caller
from cloister.ports.engine import Call, Program
from cloister.ports.helping import Helper, no_helper
from cloister.tools.offered import Offered

Tell: TypeAlias = Callable[[str, Mapping[str, Any]], None]


def _unheard(_kind: str, _data: Mapping[str, Any]) -> None:
    """Nobody listens."""


# For every cell: `dict[...]()` takes ten times as long.
def _no_calls() -> dict[int, Call]:
    return {}


def _none_asked() -> dict[int, Asked]:
    return {}


def _none_unmade() -> set[int]:
    return set()


def _no_records() -> dict[int, ExternalCallRecord]:
    return {}


@dataclass(slots=True)
class Cell:
    """One program under way: all that is needed to go on with it elsewhere but the interpreter's bytes."""

    id: str
    program: Program
    recording: Recording
    output: Output
    budget: Budget
    bounds: SessionLimits
    wall_left_ms: float
    cpu_left_ms: float
    pending: dict[int, Call] = field(default_factory=_no_calls)
    # Those of the pending that wait for a person, by number. They have not been made.
    asked: dict[int, Asked] = field(default_factory=_none_asked)
    # Those of the pending that were never made, though nobody here is asked about them: they woke from a snapshot.
    unmade: set[int] = field(default_factory=_none_unmade)
    records: dict[int, ExternalCallRecord] = field(default_factory=_no_records)
    cpu_ms: float = 0.0
    memory_peak_bytes: int = 0
    instructions: int = 0
    # It came from a snapshot, and may have come further than that before.
    woke: bool = False
    # Meant to outlive its caller: the host bounds its time, and not its session.
    enduring: bool = False
    values: CellValues = field(default_factory=lambda: CellValues({}))
    # What sources and plugins offered when it began.
    offered: Offered | None = None
    helper: Helper = no_helper
    machine: Machine = field(default_factory=Machine)
    course: Course = field(default_factory=Course)
    # Has the suspended program's bytes written down, before any of its calls is made.
    keep: Callable[[bytes], Awaitable[object]] | None = None
    # Hears of what happens to the cell: the kind of the event and what there is to say.
    tell: Tell = _unheard

    def release(self) -> None:
        """The program is over: nobody speaks to it, or for it, any more."""
        self.tell, self.helper, self.keep = _unheard, no_helper, None

    @property
    def voice(self) -> Helper:
        """The helper as its program reaches it: what it asks of files is noted."""
        return self.recording.filed.through(self.helper)

    @property
    def caller(self) -> Caller:
        return Caller(self.id, self.budget, self.woke, self.offered, keeps=self.keep is not None)

    @property
    def approval_ids(self) -> list[str]:
        return [asked.approval.id for asked in self.asked.values()]
