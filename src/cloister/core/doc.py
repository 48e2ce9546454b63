"""A JSON object that is read field by field: each by its name and kind, and whatever is left over is kept.

For what was written down once and comes back, perhaps from another version: a field that nobody here knows is handed
on as it is, a field of the wrong kind is refused with its path. Knows nothing of what it reads.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from cloister.core.errors import InvalidInput
from cloister.core.value import Json

T = TypeVar("T")


class Doc:
    """One object, at `where` in what is being read. What was asked for once is gone from `rest`."""

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, Mapping):
            raise InvalidInput(f"{where} is an object, not {said(data)}")
        self.where = where
        self._left = dict(cast("Mapping[str, object]", data))

    def text(self, name: str, default: str | None = None) -> str:
        value = self._left.pop(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, "a text", value)
        return value

    def text_or_none(self, name: str) -> str | None:
        value = self._left.pop(name, None)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "a text", value)
        return value

    def count(self, name: str) -> int:
        """A whole number of at least 0; 0 if it is not said."""
        value = self._left.pop(name, 0)
        if type(value) is not int or not 0 <= value < 1 << 53:
            raise self._wrong(name, "a whole number of at least 0", value)
        return value

    def flag(self, name: str) -> bool:
        """False if it is not said."""
        value = self._left.pop(name, False)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return value

    def mapping(self, name: str) -> dict[str, Json]:
        """Empty if it is not said."""
        value = self._left.pop(name, None)
        if value is not None and not isinstance(value, Mapping):
            raise self._wrong(name, "an object", value)
        return dict(cast("Mapping[str, Json]", value or {}))

    def each(self, name: str, read: Callable[[object, str], T]) -> tuple[T, ...]:
        """The parts of a list, each read with its own path."""
        value = self._left.pop(name, None)
        if not isinstance(value, (list, tuple)):
            raise self._wrong(name, "a list", value)
        parts = cast("list[object]", value)
        return tuple(read(part, f"{self.where}.{name}[{at}]") for at, part in enumerate(parts))

    def part(self, name: str, read: Callable[[object, str], T]) -> T:
        return read(self._left.pop(name, None), f"{self.where}.{name}")

    def part_or_none(self, name: str, read: Callable[[object, str], T]) -> T | None:
        value = self._left.pop(name, None)
        return None if value is None else read(value, f"{self.where}.{name}")

    def unknown(self, name: str, tag: str, tags: tuple[str, ...]) -> InvalidInput:
        """What to raise for a tag that nobody here knows."""
        return InvalidInput(f"{self.where}.{name}: {tag[:80]!r} is not known; there are {', '.join(tags)}")

    def rest(self) -> dict[str, Json]:
        return cast("dict[str, Json]", self._left)

    def _wrong(self, name: str, wanted: str, value: object) -> InvalidInput:
        return InvalidInput(f"{self.where}.{name} is {wanted}, not {said(value)}")


def said(value: object) -> str:
    """A value of the wrong kind, for an error: short, and never a text whose contents are nobody's business."""
    if value is None:
        return "missing"
    return repr(value) if isinstance(value, (bool, int, float)) and len(repr(value)) < 40 else type(value).__name__
