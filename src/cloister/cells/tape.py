"""What happened to a namespace since its last bytes: the programs it ran and how their calls were settled.

A namespace is its last dump plus its tape. Dumping after every cell would cost as much as a small cell; a tape
costs nothing until a worker dies, and then the steps are played again: an engine is deterministic, calls are
answered from the tape and the world is not touched. A cell that used files is on no tape: see `filed.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cloister.cells.answers import played
from cloister.cells.filed import Filed
from cloister.cells.values import CellValues
from cloister.core.limits import SessionLimits
from cloister.core.value import Json
from cloister.ports.engine import Catalog, Failed, Interpreter, Program, Settlement, Step, Suspended, Turn
from cloister.ports.helping import Helper

# Long enough that a dump's cost vanishes, short enough that playing it again takes no time.
MAX_STEPS = 64
# Playing a tape is charged to nobody, so it must not be long.
MAX_CPU_MS = 50.0


# For every cell: `list[...]()` takes ten times as long.
def _no_resumes() -> list[tuple[int, Sequence[Settlement]]]:
    return []


def _no_values() -> Mapping[str, Json]:
    return {}


@dataclass(slots=True)
class Recording:
    """One cell on the tape: how it started and each settlement that moved it on."""

    program: Program
    catalog: Catalog
    now_ms: int
    cpu_ms: float = 0.0
    resumes: list[tuple[int, Sequence[Settlement]]] = field(default_factory=_no_resumes)
    # The stored values that the cell started with.
    values: Mapping[str, Json] = field(default_factory=_no_values)
    filed: Filed = field(default_factory=Filed)


class TapeBroken(Exception):
    """The steps did not go as they went the first time."""


class Tape:
    def __init__(self) -> None:
        self._recordings: list[Recording] = []
        self._steps = 0
        self._cpu_ms = 0.0

    def add(self, recording: Recording) -> None:
        self._recordings.append(recording)
        self._steps += 1 + len(recording.resumes)
        self._cpu_ms += recording.cpu_ms

    def clear(self) -> None:
        self._recordings.clear()
        self._steps = 0
        self._cpu_ms = 0.0

    def drop_last(self) -> bool:
        """Forget the last cell; False if there is none."""
        if not self._recordings:
            return False
        last = self._recordings.pop()
        self._steps -= 1 + len(last.resumes)
        self._cpu_ms -= last.cpu_ms
        return True

    def __len__(self) -> int:
        return self._steps

    @property
    def full(self) -> bool:
        return self._steps >= MAX_STEPS or self._cpu_ms >= MAX_CPU_MS

    async def play(self, interpreter: Interpreter, limits: SessionLimits) -> None:
        """Bring an interpreter that was opened from the last bytes to where the tape ends."""
        for recording in self._recordings:
            helper = recording.filed.again(played(CellValues(recording.values)))
            turn = _turn(recording.now_ms, recording.catalog, limits, helper)
            step: Step = await interpreter.start(recording.program, turn)
            for now_ms, settlements in recording.resumes:
                if not isinstance(step, Suspended):
                    raise TapeBroken("a cell took another course")
                step = await interpreter.resume(settlements, _turn(now_ms, recording.catalog, limits, helper))
            if helper.strayed or isinstance(step, Suspended) or (isinstance(step, Failed) and step.fatal):
                raise TapeBroken("a cell did not end as it had")


def _turn(now_ms: int, catalog: Catalog, limits: SessionLimits, helper: Helper) -> Turn:
    return Turn(now_ms, limits.wall_ms, limits.cpu_ms, _nowhere, catalog, limits.max_external_calls, helper)


def _nowhere(_stream: str, _text: str) -> None:
    """Output was delivered when it happened."""
