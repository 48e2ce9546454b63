"""A behaviour: a sentence about what is tried, and the check that it is true. Suites are lists of them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Behaviour(Generic[S]):
    sentence: str
    check: Callable[[S], Awaitable[None]]

    @property
    def slug(self) -> str:
        return "_".join(self.sentence.replace("'", "").split())


class Chapter(Generic[S]):
    """Collects behaviours: `@chapter("a sentence")` above a check."""

    def __init__(self) -> None:
        self.behaviours: list[Behaviour[S]] = []

    def __call__(self, sentence: str) -> Callable[[Callable[[S], Awaitable[None]]], Callable[[S], Awaitable[None]]]:
        def add(check: Callable[[S], Awaitable[None]]) -> Callable[[S], Awaitable[None]]:
            self.behaviours.append(Behaviour(sentence, check))
            return check

        return add
