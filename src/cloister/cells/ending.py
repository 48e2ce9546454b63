"""How the drive of a cell ends: the program is over (`Ending`), or only a person can move it (`Waiting`)."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from cloister.core.diagnostic import Diagnostic, ErrorObject
from cloister.core.light import light


@light
@dataclass(frozen=True, slots=True)
class Ending:
    """How a cell ended. `lost` says that the namespace must go back to what it was before."""

    value: Any = None
    error: ErrorObject | None = None
    lost: bool = False
    never_awaited: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def fine(self) -> bool:
        """Whether it left nothing to remark."""
        return self.error is None and not self.lost and not self.never_awaited


@dataclass(frozen=True, slots=True)
class Waiting:
    """The program can only go on when a person has answered: see the cell's `asked`."""


Drive: TypeAlias = Ending | Waiting
