"""Stage 4: how many calls a cell may still make."""

from dataclasses import dataclass

from cloister.core.codes import Code
from cloister.gate.refusal import refuse


@dataclass(slots=True)
class Budget:
    left: int
    limit: int

    def charge(self) -> None:
        """Take one call of it; raises `Refusal` when there is none left."""
        if self.left <= 0:
            raise refuse(
                Code.EXTERNAL_CALLS_EXCEEDED,
                f"this cell has made its {self.limit} calls",
                "do the work with fewer calls, or ask for a larger max_external_calls",
            )
        self.left -= 1
