"""What keeps the native validator from working for ever: keywords of our own that pay for its work as it goes.

The validator holds the interpreter while it works and cannot be stopped from outside. It is exponential in types that
mention each other, quadratic in unique integers beyond 64 bits and in patterns that look around. So a schema is
given these keywords in front of such places, and when the tank is empty they fail, and everything fails quickly.
"""

import threading
from typing import Any

CHARGE = "cloister:charge"
SHORT = "cloister:short"
COUNTABLE = "cloister:countable"

# Half a microsecond a unit, roughly.
FULL = 300_000
# Longer texts are not held against a pattern that looks around.
LONGEST = 1000
_BIG = 1 << 63


class _Tank(threading.local):
    left = 0


_tank = _Tank()


class OutOfFuel(ValueError):
    """Fails the part that is looked at; the caller asks `spent()`."""


def fill(units: int = FULL) -> None:
    """Before every validation: what it may cost, in this thread."""
    _tank.left = units


def spent() -> bool:
    return _tank.left < 0


def pay(units: int) -> bool:
    _tank.left -= units
    return _tank.left >= 0


def _burn(units: int) -> None:
    if not pay(units):
        raise OutOfFuel


class _Charge:
    """In front of what may be looked at many times; its value is how much there is to look at."""

    def __init__(self, _parent: object, value: int, _path: object) -> None:
        self._cost = value

    def validate(self, _instance: object) -> None:
        _burn(self._cost)


class _Short:
    """In front of a pattern that looks around: the work grows with the square of the text."""

    def __init__(self, _parent: object, _value: object, _path: object) -> None:
        pass

    def validate(self, instance: object) -> None:
        if isinstance(instance, str):
            if len(instance) > LONGEST:
                raise ValueError("too long for its pattern")
            _burn(len(instance) * len(instance) // 100 + 1)


class _Countable:
    """In front of `uniqueItems`: integers beyond 64 bits are compared each with each."""

    def __init__(self, _parent: object, _value: object, _path: object) -> None:
        pass

    def validate(self, instance: object) -> None:
        if isinstance(instance, list):
            big = _count_big(instance)  # pyright: ignore[reportUnknownArgumentType]
            _burn(big * big + 1)


def _count_big(value: list[Any]) -> int:
    found = 0
    todo: list[Any] = [value]
    while todo:
        part = todo.pop()
        for one in part.values() if isinstance(part, dict) else part:  # pyright: ignore[reportUnknownVariableType]
            if isinstance(one, int):
                found += not -_BIG <= one < _BIG
            elif isinstance(one, (list, dict)):
                todo.append(one)
    return found


KEYWORDS: dict[str, Any] = {CHARGE: _Charge, SHORT: _Short, COUNTABLE: _Countable}
