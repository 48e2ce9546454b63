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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePath
from typing import Any, TypeAlias, cast

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

MAX_DEPTH = 128
MAX_NODES = 200_000
MAX_BYTES = 4 << 20
# CPython refuses to print or read longer integers, for the same reason: the work is quadratic.
MAX_INT_BITS = 14_000
_EXACT = 1 << 53


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
    return ValueRefused("RESULT_TOO_LARGE", message, "make it smaller: a summary, or a part at a time")


_DEFAULT = Bounds()


def plain(value: Any, bounds: Bounds = _DEFAULT) -> Json:
    """`value` as plain JSON types, within `bounds`. The work is bounded by them, however much is shared."""
    return sized(value, bounds)[0]


def sized(
    value: Any, bounds: Bounds = _DEFAULT, *, text: Callable[[str], None] | None = None, keep: bool = False
) -> tuple[Json, int]:
    """`value` as plain JSON types, and about how many bytes it takes written out.

    With `keep`, parts that are plain already are handed on as they are; give it where nobody else holds the value.

    `text` sees every text that is a value and may raise `ValueRefused`: an interpreter that hands over what it
    cannot convert as text is found out there.
    """
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is int:
        if -_EXACT < value < _EXACT:
            return value, value.bit_length() // 3 + 2
        return _integer(value), _number_size(value)
    if kind is str and text is None:
        return _text(value, bounds), _text_size(value)
    if value is None or kind is bool:
        return value, 8
    if kind is float:
        return _finite(value), 8
    return _Walk(bounds, text, keep=keep).convert(value)


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


# converted, expanded nodes, expanded bytes, height
_Done: TypeAlias = tuple[Any, int, int, int]


class _Walk:
    """One conversion. Recursive, but never deeper than the bound on depth."""

    def __init__(self, bounds: Bounds, text: Callable[[str], None] | None, *, keep: bool) -> None:
        self._bounds = bounds
        self._text = text
        self._keep = keep
        self._path: set[int] = set()
        # Containers that hold containers, each with the object itself, so that its id stays its own. Those that hold
        # only leaves are cheaper to walk again than to remember.
        self._done: dict[int, tuple[_Done, Any]] = {}
        self._seen = 0
        # Bytes of text that were looked at.
        self._read = 0

    def convert(self, root: Any) -> tuple[Json, int]:
        if _is_container(root):
            made, _, size, _ = self._container(root, 1)
            return made, size
        made, size = self._leaf(root)
        return made, size

    def _container(self, value: Any, depth: int) -> _Done:
        key = id(value)
        known = self._done.get(key)
        if known is not None:
            if depth + known[0][3] - 1 > self._bounds.depth:
                raise _too_deep(self._bounds)
            return known[0]
        if depth > self._bounds.depth:
            raise _too_deep(self._bounds)
        if key in self._path:
            raise _unserializable("the value contains itself", "JSON has no way to write a circular value")
        kind = cast("type[Any]", type(value))
        parts: Any = value
        is_object = kind is dict or isinstance(value, Mapping)
        if is_object:
            parts = cast("Any", value).items()
        if kind not in _CONTAINERS:
            # Of a class of its own: neither its length nor that it ends need be true.
            parts = list[Any](islice(parts, self._bounds.nodes + 1))
        self._seen += len(parts)
        if self._seen > self._bounds.nodes:
            raise _too_large(f"the value has more than {self._bounds.nodes} parts")
        if is_object:
            return self._object(value, parts, key, depth)
        return self._array(value, parts, key, depth)

    def _array(self, value: Any, parts: Any, key: int, depth: int) -> _Done:
        made: Any
        nodes, size, height = 1, 2, 0
        out: list[Any] = []
        same = self._keep and type(value) is list
        for part in parts:
            if type(part) is int and -_EXACT < part < _EXACT:
                made, n, s = part, 1, part.bit_length() // 3 + 2
            elif _is_container(part):
                self._path.add(key)
                made, n, s, h = self._container(part, depth + 1)
                height = max(height, h)
            else:
                made, s = self._leaf(part)
                n = 1
            same = same and made is part
            out.append(made)
            nodes += n
            size += s + 1
        return self._finish(value, key, (cast("Any", value if same else out), nodes, size, height + 1))

    def _object(self, value: Any, parts: Any, key: int, depth: int) -> _Done:
        made: Any
        nodes, size, height = 1, 2, 0
        out: dict[str, Any] = {}
        same, count = self._keep and type(value) is dict, 0
        for name, part in parts:
            if _is_container(part):
                self._path.add(key)
                made, n, s, h = self._container(part, depth + 1)
                height = max(height, h)
            else:
                made, s = self._leaf(part)
                n = 1
            text = name if type(name) is str else _key(name)
            same = same and made is part and text is name
            out[text] = made
            count += 1
            nodes += n
            size += s + _text_size(text) + 3
        if len(out) != count:
            raise _unserializable("two keys of an object are written alike in JSON")
        return self._finish(value, key, (cast("Any", value if same else out), nodes, size, height + 1))

    def _finish(self, value: Any, key: int, done: _Done) -> _Done:
        bounds = self._bounds
        if done[1] > bounds.nodes:
            raise _too_large(f"the value has more than {bounds.nodes} parts once written out")
        if done[2] > bounds.size:
            raise _too_large(f"the value takes more than {bounds.size} bytes once written out")
        if done[3] > 1:
            self._path.discard(key)
            self._done[key] = (done, value)
        return done

    def _leaf(self, value: Any) -> tuple[Any, int]:
        made = _leaf(value, self._bounds)
        if type(made) is str:
            if self._text is not None:
                self._text(made)
            size = _text_size(made)
            # One long text in a list a thousand times is no more memory, but each look at it takes its time.
            self._read += size
            if self._read > self._bounds.size:
                raise _too_large(f"the value takes more than {self._bounds.size} bytes once written out")
            return made, size
        return made, _number_size(made)


def _too_deep(bounds: Bounds) -> ValueRefused:
    return _too_large(f"the value is nested deeper than {bounds.depth} levels")


def _text_size(text: str) -> int:
    if text.isascii():
        return len(text) + 2
    try:
        return len(text.encode()) + 2
    except UnicodeEncodeError:
        raise _unserializable("a text has half a surrogate pair in it", "JSON is Unicode: replace it") from None


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
