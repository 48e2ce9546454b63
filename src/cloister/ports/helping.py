"""The helpers port: what a program says to its host within a step, without waiting: output, notes, stored values.

Helpers are functions inside every cell. They are no calls: nothing passes the gate, nothing is counted or recorded,
and the answer is there at once. An engine makes plain values of the arguments (`text` and `notify` get text, as the
engine's language writes values) and hands them to the `Helper` of the turn; what that refuses, the program can catch.
`exit` never comes here: an engine ends the program by itself.

A tool of the same name stands in front of a helper: the catalog says which of them a program has.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from cloister.core.value import Json

# Their names and parameters, the same in every language.
HELPERS: Mapping[str, tuple[str, ...]] = {
    "text": ("value",),
    "image": ("source",),
    "notify": ("message",),
    "store": ("key", "value"),
    "load": ("key",),
    "yield_control": (),
    "exit": (),
}

# Name and arguments, in order; called on any thread, must be quick, raises nothing but `HelperRefused`.
Helper: TypeAlias = Callable[[str, tuple[Json, ...]], Json]


class HelperRefused(Exception):
    """The arguments do not fit. The program sees `message` as an error of its language, and may catch it."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def no_helper(_name: str, _arguments: tuple[Json, ...]) -> Json:
    """For steps that nobody listens to."""
    return None
