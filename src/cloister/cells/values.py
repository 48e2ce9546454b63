"""Stored values as one cell sees them: those of its session as they were at its start, and its own writes.

Nothing a cell stores reaches the session from here: whoever drives the cell merges `written` when it is over, or
does not. The bounds are the session's, and a cell is held to them while it runs, because the merge refuses nothing.
A `CellValues` can be written down as JSON with its program, and taken up elsewhere.
"""

import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from cloister.core.errors import InvalidInput
from cloister.core.value import Bounds, Json, ValueRefused, sized
from cloister.ports.helping import HelperRefused

MAX_KEY = 256
_NO_BOUNDS = Bounds(nodes=sys.maxsize, size=sys.maxsize)


@dataclass(frozen=True, slots=True)
class ValueBounds:
    """How much a session may store. A key counts with its value."""

    max_keys: int = 10_000
    max_value_bytes: int = 1 << 20
    max_total_bytes: int = 16 << 20

    def refusal(self, keys: int, total_bytes: int, *, more_keys: int, more_bytes: int) -> str | None:
        """Why there is no room for more than what is there; None if there is. What does not grow always fits:
        merges may have gone past the bounds, and the way back must be open."""
        if more_keys > 0 and keys + more_keys > self.max_keys:
            return f"there is no room for another key: a session stores at most {self.max_keys} of them"
        if more_bytes > 0 and total_bytes + more_bytes > self.max_total_bytes:
            left = max(self.max_total_bytes - total_bytes, 0)
            return (
                f"{more_bytes} bytes more do not fit: a session stores at most {self.max_total_bytes} bytes, "
                f"of which {left} are left"
            )
        return None


BOUNDS = ValueBounds()


def check_key(key: object) -> str:
    """`key`, if values can be stored under it; raises `InvalidInput` otherwise."""
    if not isinstance(key, str):
        raise InvalidInput(f"a key of stored values is text, not {type(key).__name__}")
    if not key:
        raise InvalidInput("a key of stored values needs at least one character")
    if len(key) > MAX_KEY:
        raise InvalidInput(f"the key {key[:32] + '…'!r} has {len(key)} characters: at most {MAX_KEY} are taken")
    # Printable text, which nearly every key is, has neither.
    if not key.isprintable() and any(unicodedata.category(character) in ("Cc", "Cs") for character in key):
        raise InvalidInput(f"the key {key!r} has control characters or half a surrogate pair in it")
    return str.__str__(key)


def check_value(value: object, bounds: ValueBounds = BOUNDS) -> tuple[Json, int]:
    """A plain copy of `value`, and about how many bytes it takes; raises `ValueRefused` otherwise."""
    return sized(value, Bounds(size=bounds.max_value_bytes))


def measure(value: Json) -> int:
    """The size that `check_value` gives, of a value that it has passed, whatever the bounds were then."""
    return sized(value, _NO_BOUNDS, keep=True)[1]


def entry_size(key: str, size: int) -> int:
    """What a key and its value of `size` bytes take of a session's bytes."""
    return len(key.encode()) + size


class CellValues:
    """Used by one program, one step at a time. What `load` hands out is not to be changed by anybody."""

    __slots__ = ("_bounds", "_keys", "_total_bytes", "_view", "written")

    def __init__(self, view: Mapping[str, Json], total_bytes: int | None = None, bounds: ValueBounds = BOUNDS) -> None:
        """`view` never changes again. `total_bytes` is what its entries take; measured when it is needed if not given,
        because most cells store nothing."""
        self.written: dict[str, Json] = {}
        self._view = view
        self._bounds = bounds
        self._keys = len(view)
        self._total_bytes = total_bytes

    @property
    def view(self) -> Mapping[str, Json]:
        """The session's values as they were at the start."""
        return self._view

    def load(self, key: Json) -> Json:
        """The value under `key`, None if there is none; raises `HelperRefused` for what is no key."""
        name = _checked(key)
        return self.written[name] if name in self.written else self._view.get(name)

    def store(self, key: Json, value: Json) -> None:
        """Write `value` under `key`; raises `HelperRefused`, and writes nothing, if it does not fit."""
        name = _checked(key)
        try:
            made, size = check_value(value, self._bounds)
        except ValueRefused as refused:
            hint = f" ({refused.hint})" if refused.hint else ""
            raise HelperRefused(f"the value for {name!r} cannot be stored: {refused.message}{hint}") from None
        self._write(name, made, entry_size(name, size))

    def to_json(self) -> dict[str, Json]:
        return {"view": dict(self._view), "written": dict(self.written)}

    @classmethod
    def from_json(cls, data: Json, bounds: ValueBounds = BOUNDS) -> "CellValues":
        """What `to_json` wrote; raises `InvalidInput` for anything else."""
        match data:
            case {"view": dict() as view, "written": dict() as written}:
                values = cls(cast("dict[str, Json]", view), bounds=bounds)
                values._take_up(cast("dict[str, Json]", written))
                return values
            case _:
                raise InvalidInput("these are not the stored values of a cell")

    # -- inside ----------------------------------------------------------------------------------------------

    def _write(self, name: str, value: Json, size: int) -> None:
        is_new = name not in self.written and name not in self._view
        total = self._total()
        grown = size - (0 if is_new else self._size(name))
        refusal = self._bounds.refusal(self._keys, total, more_keys=int(is_new), more_bytes=grown)
        if refusal is not None:
            raise HelperRefused(f"the value for {name!r} cannot be stored: {refusal}")
        self.written[name] = value
        self._keys += is_new
        self._total_bytes = total + grown

    def _take_up(self, written: dict[str, Json]) -> None:
        """Writes of before: they fitted then, and are not asked again."""
        self.written = dict(written)
        self._keys += sum(name not in self._view for name in written)

    def _total(self) -> int:
        if self._total_bytes is None:
            self._total_bytes = sum(self._size(name) for name in {**self._view, **self.written})
        return self._total_bytes

    def _size(self, name: str) -> int:
        """What the entry takes that is there now."""
        value = self.written[name] if name in self.written else self._view[name]
        return entry_size(name, measure(value))


def _checked(key: Json) -> str:
    try:
        return check_key(key)
    except InvalidInput as refused:
        raise HelperRefused(refused.message) from None
