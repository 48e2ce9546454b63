"""A behaviour: a sentence and the check that it is true."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cloister.testing.conformance.lab import Lab

Check = Callable[[Lab], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Behaviour:
    sentence: str
    check: Check

    @property
    def slug(self) -> str:
        return "_".join(self.sentence.replace("'", "").split())


class Chapter:
    """Collects behaviours: `@chapter("a sentence")` above a check."""

    def __init__(self) -> None:
        self.behaviours: list[Behaviour] = []

    def __call__(self, sentence: str) -> Callable[[Check], Check]:
        def add(check: Check) -> Check:
            self.behaviours.append(Behaviour(sentence, check))
            return check

        return add
