"""Values as `text` and `notify` say them: text as it is, JSON where JSON can, and otherwise something to read.

Never an error and never long: what is written is counted, so a value that shares its parts a million times over, or
holds itself, costs no more than what is said of it.
"""

import datetime
import json
from pathlib import PurePath
from typing import Any, cast

import pydantic_monty as monty

from cloister.core.value import MAX_INT_BITS, Bounds, ValueRefused, sized

LONGEST = 1 << 20
_BOUNDS = Bounds(size=LONGEST)
_DEEPEST = 50


def readable(value: Any) -> str:
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, BaseException):
        return _cut(_exception(value))
    if isinstance(value, (datetime.date, datetime.time, PurePath)):
        return str(value) if isinstance(value, PurePath) else value.isoformat()
    try:
        plain, _ = sized(value, _BOUNDS, keep=True)
    except ValueRefused:
        return _Scribe().written(value)
    return _cut(json.dumps(plain, ensure_ascii=False))


def _cut(text: str) -> str:
    over = len(text) - LONGEST
    return text if over <= 0 else f"{text[:LONGEST]}... {over} more characters"


def _exception(error: BaseException) -> str:
    # Not str(): that of a KeyError is in quotes.
    said = str(error.args[0]) if error.args else ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


class _Scribe:
    """Writes one value that JSON cannot say, and stops when it has written enough."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._left = LONGEST

    def written(self, value: Any) -> str:
        self._write(value, 0)
        return "".join(self._pieces) + ("..." if self._left < 0 else "")

    def _put(self, text: str) -> None:
        self._pieces.append(text[: max(self._left, 0)])
        self._left -= len(text)

    def _write(self, value: Any, depth: int) -> None:
        if isinstance(value, monty.MontyClassProxy):
            self._put(f"{value.name}(")
            self._items([(name, part) for name, part in value.attributes.items()], "=", depth)
            self._put(")")
        elif isinstance(value, dict):
            self._put("{")
            self._items(list(cast("dict[Any, Any]", value).items()), ": ", depth)
            self._put("}")
        elif isinstance(value, (list, tuple, set, frozenset)):
            self._put("[")
            self._items([(None, part) for part in cast("list[Any]", value)], "", depth)
            self._put("]")
        else:
            self._put(_leaf(value))

    def _items(self, parts: list[tuple[Any, Any]], joint: str, depth: int) -> None:
        if depth >= _DEEPEST:
            self._put("..." if parts else "")
            return
        for at, (key, part) in enumerate(parts):
            if self._left <= 0:
                return
            self._put(", " if at else "")
            if joint == "=":
                self._put(f"{key}=")
            elif joint:
                self._write(key, depth + 1)
                self._put(joint)
            self._write(part, depth + 1)


def _leaf(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        bits = value.bit_length()
        return str(value) if bits <= MAX_INT_BITS else f"<an integer of {bits} bits>"
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, monty.MontyStdTypeProxy):
        return f"<{value.kind} {value.name}>"
    if isinstance(value, (bytes, float)):
        return repr(value)
    # The rest are values of the host's own types that Monty made: exceptions, types, decimals, paths.
    return repr(value) if isinstance(value, (BaseException, type)) else str(value)
