"""What a program asks of its session's files, as far as its namespace must know of it.

A tape plays programs again, and the world is not touched: least of all may a file be written twice. So a cell that
used files is put to bytes when it ends and never comes onto a tape. Only one that ran with narrower limits than its
namespace must, since its bytes would carry those limits for good: its answers are kept here, and played.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from cloister.cells.values import measure
from cloister.core.value import Json
from cloister.ports.helping import FILES, Helper, HelperRefused

# What a narrow cell may be told of files. Nobody has to keep more than this for a tape.
MOST_KEPT_BYTES = 32 << 20
# What an answer takes however short it is.
_ENTRY_BYTES = 200
_SHORT_BYTES = 2048


@dataclass(frozen=True, slots=True)
class _Answer:
    name: str
    # Of the path, or whatever else came first: enough to notice another course.
    asked: int
    answer: "Json | HelperRefused"


class Filed:
    """Of one cell, from its start to its end, however often it sleeps in between."""

    __slots__ = ("_answers", "_is_full", "_keeps", "_kept_bytes", "used")

    def __init__(self) -> None:
        self.used = False
        self._keeps = False
        self._is_full = False
        self._kept_bytes = 0
        self._answers: list[_Answer] = []

    def keep(self) -> None:
        """The cell will be on a tape, whatever it does."""
        self._keeps = True

    def through(self, helper: Helper) -> Helper:
        """The same helper; what goes to files is noted."""

        def hear(name: str, given: tuple[Json, ...]) -> Json:
            if name not in FILES:
                return helper(name, given)
            self.used = True
            return self._kept(name, given, helper) if self._keeps else helper(name, given)

        return hear

    def again(self, helper: Helper) -> "Played":
        """A helper for the same program, played once more."""
        return Played(helper, iter(self._answers), was_full=self._is_full)

    def _kept(self, name: str, given: tuple[Json, ...], helper: Helper) -> Json:
        # What changes a file answers in less than this: it is refused before it is done, or not at all.
        self._is_full = self._is_full or self._kept_bytes + _SHORT_BYTES > MOST_KEPT_BYTES
        if self._is_full:
            raise _too_much()
        answer: Json | HelperRefused
        try:
            answer = helper(name, given)
        except HelperRefused as refused:
            answer = refused
        self._kept_bytes += _ENTRY_BYTES + measure(answer.message if isinstance(answer, HelperRefused) else answer)
        if self._kept_bytes > MOST_KEPT_BYTES:
            # From here on it is told nothing more, and nothing more is kept.
            self._is_full = True
            raise _too_much()
        self._answers.append(_Answer(name, _trace(given), answer))
        if isinstance(answer, HelperRefused):
            raise answer
        return answer


class Played:
    """Answers what is asked of files as it was answered the first time. `strayed` once something else is asked."""

    def __init__(self, helper: Helper, answers: Iterator[_Answer], *, was_full: bool) -> None:
        self._helper = helper
        self._answers = answers
        self._was_full = was_full
        self.strayed = False

    def __call__(self, name: str, given: tuple[Json, ...]) -> Json:
        if name not in FILES:
            return self._helper(name, given)
        known = next(self._answers, None)
        if known is None and self._was_full:
            raise _too_much()
        if known is None or (known.name, known.asked) != (name, _trace(given)):
            self.strayed = True
            raise HelperRefused("this was not asked the first time", code="invalid")
        if isinstance(known.answer, HelperRefused):
            raise known.answer
        return known.answer


def _trace(given: tuple[Json, ...]) -> int:
    return hash(given[0]) if given and isinstance(given[0], str) else 0


def _too_much() -> HelperRefused:
    return HelperRefused(
        f"a run with less memory or stack than its session may be told at most {MOST_KEPT_BYTES >> 20} MiB of files: "
        "read less, or run it without those limits",
        code="quota",
    )
