"""Files in a replay: every question of the program is held against the record, and answered as it was.

No file is read and none is written. The first question that is another one, or one too many, is what the replay tells
of; from there on everything is refused.
"""

from collections.abc import Sequence
from typing import Any

from cloister.cells.file_record import Asked, brief
from cloister.core.digest import canonical_json
from cloister.core.value import Json
from cloister.ports.helping import HelperRefused
from cloister.sessions.replay.paper import shown

_NOTHING = "nothing more of files"


class Filing:
    """A helper for one program, once."""

    def __init__(self, record: Sequence[Asked]) -> None:
        self._record = record
        self._place = 0
        # What was expected and what was found, once they were not the same.
        self.strayed: tuple[str, str] | None = None

    def __call__(self, name: str, given: tuple[Json, ...]) -> Json:
        if self.strayed is None:
            if not self.is_over:
                known = self._record[self._place]
                if known[0] == name and canonical_json(known[1]) == canonical_json(brief(given)):
                    self._place += 1
                    return _answer(known)
            self.strayed = (self.next, _question(name, brief(given)))
        raise HelperRefused("this is not what was asked the first time", code="invalid")

    @property
    def is_over(self) -> bool:
        """Whether all that is on record was asked."""
        return self._place == len(self._record)

    @property
    def next(self) -> str:
        return _NOTHING if self.is_over else _question(*self._record[self._place][:2])

    @property
    def missing(self) -> tuple[str, str] | None:
        """What is on record and was not asked."""
        return None if self.is_over else (self.next, _NOTHING)


def _answer(known: Asked) -> Json:
    if len(known) == 3:
        return known[2]
    _, _, code, message = known
    raise HelperRefused(message, code=code)


def _question(name: str, given: Any) -> str:
    if isinstance(given, list):
        return f"{name} with {shown(given)}"
    return f"{name} with what has the digest {given}"
