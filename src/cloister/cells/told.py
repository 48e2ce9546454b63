"""What a program was told of its session's files, so that it can be told the same once more.

A cell that is played again must find what it found, and must not write a second time. Of a cell that was told more than
is worth keeping nothing is kept: then only bytes can say what it did.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from cloister.core.value import Json
from cloister.ports.helping import Helper, HelperRefused

Said: TypeAlias = "Json | HelperRefused"

MAX_BYTES = 8 << 20
_PART_BYTES = 64


class Told:
    __slots__ = ("_answers", "is_too_much", "size")

    def __init__(self) -> None:
        self._answers: list[tuple[str, Said]] = []
        self.size = 0
        self.is_too_much = False

    def noting(self, files: Helper) -> Helper:
        """`files`, with a note of every answer."""

        def answer(name: str, arguments: tuple[Json, ...]) -> Json:
            try:
                said = files(name, arguments)
            except HelperRefused as refused:
                self._note(name, refused)
                raise
            self._note(name, said)
            return said

        return answer

    def again(self) -> "Again":
        return Again(self._answers)

    def _note(self, name: str, said: Said) -> None:
        self.size += _PART_BYTES + _size(said)
        if self.size > MAX_BYTES:
            self.is_too_much = True
            self._answers.clear()
        elif not self.is_too_much:
            self._answers.append((name, said))


class Again:
    """The same answers in the same order; `is_other` once something else was asked."""

    __slots__ = ("_answers", "_at", "is_other")

    def __init__(self, answers: Sequence[tuple[str, Said]]) -> None:
        self._answers = answers
        self._at = 0
        self.is_other = False

    def __call__(self, name: str, _arguments: tuple[Json, ...]) -> Json:
        at, self._at = self._at, self._at + 1
        if self.is_other or at >= len(self._answers) or self._answers[at][0] != name:
            self.is_other = True
            raise HelperRefused("this was not asked before")
        said = self._answers[at][1]
        if isinstance(said, HelperRefused):
            raise HelperRefused(said.message, code=said.code)
        return said


def _size(said: Said) -> int:
    match said:
        case str():
            return len(said)
        case Mapping():
            return sum(map(_size, said.values()), _PART_BYTES * len(said))
        case list():
            return sum(map(_size, said), _PART_BYTES * len(said))
        case _:
            return 0
