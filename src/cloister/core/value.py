"""JSON values crossing the boundary between a program and its host, and the bounds on them.

A guest's value may share one list a million times over, so its *expanded* size is what counts: it is computed
bottom-up, each object once, before anything is serialised, hashed, logged or copied. What JSON cannot say is
mapped in one place, here, or refused: never dropped, never guessed.

    tuple, set, frozenset, deque  -> array            date, time, datetime -> ISO 8601 text
    int, float, bool, None keys   -> their JSON text  path                 -> text
    NaN, Infinity, bytes, complex, functions, classes, circular values     -> refused, with a hint
"""

import datetime
import json
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, TypeAlias, cast

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

MAX_DEPTH = 128
MAX_NODES = 200_000
MAX_BYTES = 4 << 20
# CPython refuses to print or read longer integers, for the same reason: the work is quadratic.
MAX_INT_BITS = 14_000


@dataclass(frozen=True, slots=True)
class Bounds:
    depth: int = MAX_DEPTH
    nodes: int = MAX_NODES
    size: int = MAX_BYTES


class ValueRefused(ValueError):
    """A value that may not cross. `code` is RESULT_NOT_SERIALIZABLE or RESULT_TOO_LARGE."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


def _unserializable(message: str, hint: str | None = None) -> ValueRefused:
    return ValueRefused("RESULT_NOT_SERIALIZABLE", message, hint)


def _too_large(message: str) -> ValueRefused:
    return ValueRefused("RESULT_TOO_LARGE", message, "return a summary, or write the data to a file")


_DEFAULT = Bounds()


def plain(value: Any, bounds: Bounds = _DEFAULT, *, text: Callable[[str], None] | None = None) -> Json:
    """`value` as plain JSON types, within `bounds`. Shared parts stay shared, so this is linear in what exists.

    `text` sees every text that is a value and may raise `ValueRefused`: an interpreter that hands over what it
    cannot convert as text is found out there.
    """
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is int:
        return _integer(value)
    if kind is str and text is None:
        return _text(value, bounds)
    if value is None or kind is bool:
        return value
    if kind is float:
        return _finite(value)
    return _Walk(bounds, text).convert(value)


def _integer(value: int) -> int:
    if value.bit_length() > MAX_INT_BITS:
        raise _too_large(f"an integer of {value.bit_length()} bits is over the bound of {MAX_INT_BITS}")
    return value


def _finite(value: float) -> float:
    if math.isfinite(value):
        return value
    raise _unserializable(f"{value!r} is not a JSON number", "replace it by None or by text before it leaves the cell")


def _text(value: str, bounds: Bounds) -> str:
    if len(value) > bounds.size:
        raise _too_large(f"a text of {len(value)} characters is over the bound of {bounds.size} bytes")
    return value


class _Walk:
    """One conversion. Iterative, because a guest chooses how deep its values are."""

    def __init__(self, bounds: Bounds, text: Callable[[str], None] | None) -> None:
        self._bounds = bounds
        self._text = text
        # id -> (converted, expanded nodes, expanded bytes, height); the source object is kept so its id stays its own.
        self._done: dict[int, tuple[Any, int, int, int]] = {}
        self._open: set[int] = set()
        self._keep: list[Any] = []

    def convert(self, root: Any) -> Json:
        holder = [root]
        self._run(holder)
        return self._done[id(holder)][0][0]

    def _run(self, root: list[Any]) -> None:
        bounds = self._bounds
        stack: list[tuple[Any, bool]] = [(root, False)]
        done = self._done
        while stack:
            value, ready = stack.pop()
            key = id(value)
            if ready:
                self._open.discard(key)
                done[key] = self._close(value)
                _, nodes, size, height = done[key]
                # The holder around the root is one level of its own.
                if height > bounds.depth + 1:
                    raise _too_large(f"the value is nested deeper than {bounds.depth} levels")
                if nodes > bounds.nodes:
                    raise _too_large(f"the value has more than {bounds.nodes} parts once written out")
                if size > bounds.size:
                    raise _too_large(f"the value takes more than {bounds.size} bytes once written out")
                continue
            if key in done:
                continue
            if key in self._open:
                raise _unserializable("the value contains itself", "JSON has no way to write a circular value")
            if len(stack) > 4 * bounds.nodes:
                raise _too_large(f"the value has more than {bounds.nodes} parts")
            self._open.add(key)
            self._keep.append(value)
            stack.append((value, True))
            for child in _children(value):
                if _is_container(child):
                    child_key = id(child)
                    if child_key in self._open:
                        raise _unserializable("the value contains itself", "JSON has no way to write a circular value")
                    if child_key not in done:
                        stack.append((child, False))

    def _close(self, value: Any) -> tuple[Any, int, int, int]:
        nodes, size, height = 1, 2, 0
        if isinstance(value, Mapping):
            out: dict[str, Any] = {}
            for key, item in cast("Mapping[Any, Any]", value).items():
                name = _key(key)
                if name in out:
                    raise _unserializable(f"two keys of an object are both written {name!r}")
                made, n, s, h = self._part(item)
                out[name] = made
                nodes, size, height = nodes + n, size + s + len(name) + 4, max(height, h)
            return out, nodes, size, height + 1
        items: list[Any] = []
        for item in cast("Sequence[Any]", value):
            made, n, s, h = self._part(item)
            items.append(made)
            nodes, size, height = nodes + n, size + s + 1, max(height, h)
        return items, nodes, size, height + 1

    def _part(self, item: Any) -> tuple[Any, int, int, int]:
        if _is_container(item):
            return self._done[id(item)]
        made = _leaf(item, self._bounds)
        if self._text is not None and isinstance(made, str):
            self._text(made)
        return made, 1, len(made) + 2 if isinstance(made, str) else 8, 0


def _is_container(value: Any) -> bool:
    return isinstance(value, (list, dict, tuple, set, frozenset, deque, Mapping))


def _children(value: Any) -> Any:
    return cast("Any", value).values() if isinstance(value, Mapping) else value


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(_leaf(key, Bounds()))
    raise _unserializable(f"a key of type {type(key).__name__} cannot be written in JSON", "use text as keys")


_HINTS = {
    "bytes": "encode it, for example with base64",
    "bytearray": "encode it, for example with base64",
    "Decimal": "convert it with str() or float()",
    "complex": "return its parts as a list",
    "timedelta": "convert it with .total_seconds()",
    "ellipsis": None,
}


def _leaf(value: Any, bounds: Bounds) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _text(str(value), bounds)
    if isinstance(value, int):
        return _integer(int(value))
    if isinstance(value, float):
        return _finite(float(value))
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    name = type(value).__name__
    raise _unserializable(f"a value of type {name} cannot be written in JSON", _HINTS.get(name, "return plain data"))
