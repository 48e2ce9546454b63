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


def plain(value: Any, bounds: Bounds = _DEFAULT) -> Json:
    """`value` as plain JSON types, within `bounds`. Shared parts stay shared, so this is linear in what exists."""
    return sized(value, bounds)[0]


def sized(value: Any, bounds: Bounds = _DEFAULT, *, text: Callable[[str], None] | None = None) -> tuple[Json, int]:
    """`value` as plain JSON types, and about how many bytes it takes written out.

    `text` sees every text that is a value and may raise `ValueRefused`: an interpreter that hands over what it
    cannot convert as text is found out there.
    """
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is int:
        return _integer(value), _number_size(value)
    if kind is str and text is None:
        return _text(value, bounds), _text_size(value)
    if value is None or kind is bool:
        return value, 8
    if kind is float:
        return _finite(value), 8
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
    if len(value) > bounds.size or (len(value) > bounds.size // 4 and _text_size(value) > bounds.size):
        raise _too_large(f"a text of {len(value)} characters is over the bound of {bounds.size} bytes")
    return value


class _Walk:
    """One conversion. Iterative, because a guest chooses how deep its values are."""

    def __init__(self, bounds: Bounds, text: Callable[[str], None] | None) -> None:
        self._bounds = bounds
        self._text = text
        # id -> (converted, expanded nodes, expanded bytes, height)
        self._done: dict[int, tuple[Any, int, int, int]] = {}
        # id -> the container and its parts, read once: keeps every id its own, and an odd Mapping cannot change.
        self._open: dict[int, tuple[Any, list[Any], list[Any] | None]] = {}
        self._seen = 0

    def convert(self, root: Any) -> tuple[Json, int]:
        holder = [root]
        self._run(holder)
        made, _, size, _ = self._done[id(holder)]
        return made[0], size

    def _run(self, root: list[Any]) -> None:
        stack: list[tuple[Any, bool]] = [(root, False)]
        under_way: set[int] = set()
        while stack:
            value, ready = stack.pop()
            key = id(value)
            if ready:
                under_way.discard(key)
                self._done[key] = self._checked(self._close(key))
                continue
            if key in self._done:
                continue
            if key in under_way:
                raise _circular()
            under_way.add(key)
            stack.append((value, True))
            for part in self._parts(value):
                if _is_container(part):
                    if id(part) in under_way:
                        raise _circular()
                    if id(part) not in self._done:
                        stack.append((part, False))

    def _parts(self, value: Any) -> list[Any]:
        # What one container holds is bounded before it is copied.
        self._seen += len(value)
        if self._seen > self._bounds.nodes:
            raise _too_large(f"the value has more than {self._bounds.nodes} parts")
        if type(value) is dict or isinstance(value, Mapping):
            items = list(cast("Mapping[Any, Any]", value).items())
            keys, parts = [key for key, _ in items], [part for _, part in items]
            self._open[id(cast("Any", value))] = (value, parts, keys)
        else:
            parts = list(cast("Sequence[Any]", value))
            self._open[id(value)] = (value, parts, None)
        return parts

    def _close(self, key: int) -> tuple[Any, int, int, int]:
        _, parts, keys = self._open[key]
        nodes, size, height = 1, 2, 0
        out: list[Any] = []
        for part in parts:
            made, n, s, h = self._part(part)
            out.append(made)
            nodes += n
            size += s + 1
            if h > height:
                height = h
        if keys is None:
            return out, nodes, size, height + 1
        names = [_key(name) for name in keys]
        made_object = dict(zip(names, out, strict=True))
        if len(made_object) != len(names):
            raise _unserializable("two keys of an object are written alike in JSON")
        return made_object, nodes, size + sum(_text_size(name) + 3 for name in names), height + 1

    def _checked(self, done: tuple[Any, int, int, int]) -> tuple[Any, int, int, int]:
        bounds = self._bounds
        _, nodes, size, height = done
        # The holder around the root is one level of its own.
        if height > bounds.depth + 1:
            raise _too_large(f"the value is nested deeper than {bounds.depth} levels")
        if nodes > bounds.nodes:
            raise _too_large(f"the value has more than {bounds.nodes} parts once written out")
        if size > bounds.size:
            raise _too_large(f"the value takes more than {bounds.size} bytes once written out")
        return done

    def _part(self, part: Any) -> tuple[Any, int, int, int]:
        if _is_container(part):
            return self._done[id(part)]
        made = _leaf(part, self._bounds)
        if isinstance(made, str):
            if self._text is not None:
                self._text(made)
            return made, 1, _text_size(made), 0
        return made, 1, _number_size(made), 0


def _circular() -> ValueRefused:
    return _unserializable("the value contains itself", "JSON has no way to write a circular value")


def _text_size(text: str) -> int:
    return len(text) + 2 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) + 2


def _number_size(value: Any) -> int:
    return value.bit_length() // 3 + 2 if type(value) is int else 8


_CONTAINERS = frozenset({list, dict, tuple, set, frozenset, deque})
_LEAVES = frozenset({str, int, float, bool, type(None)})


def _is_container(value: Any) -> bool:
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    # By exact type first: asking the Mapping ABC about every number is what would cost.
    return kind in _CONTAINERS or (
        kind not in _LEAVES and isinstance(value, (list, dict, tuple, set, frozenset, deque, Mapping))
    )


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str.__str__(key)
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
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is str:
        return _text(value, bounds)
    if kind is int:
        return _integer(value)
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        # An enum of texts is its value, whatever its class makes of str().
        return _text(str.__str__(value), bounds)
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
