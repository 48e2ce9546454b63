"""Facts: what a rule may know about a call, how much of it the evaluator can be shown, and how it is told to people."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from cloister.core.value import MAX_DEPTH, Json

# A text counts as one part for every so many characters, because copying it is that much cheaper.
_TEXT_PER_PART = 256
_LARGEST_INTEGER = (1 << 63) - 1
_LONGEST_TEXT = 80


@dataclass(frozen=True, slots=True)
class Facts:
    """What a rule may know about a call. `calls_by_name` has full names; a tool that was not called need not be in."""

    name: str
    namespace: str | None = None
    args: Json = field(default_factory=dict[str, Json])
    side_effect: str = "none"
    idempotent: bool = True
    session_id: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    language: str = "python"
    calls_count: int = 0
    calls_by_name: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def full_name(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


class _Summary(str):
    """Stands for a value that is too large to be shown."""

    __slots__ = ()


def unfit(shown: dict[str, Json], most: int) -> str | None:
    """Why the evaluator cannot be shown this, if so: it would take long, crash, or silently round."""
    parts, depth = 0, 0
    level: list[Any] = list(shown.values())
    while level:
        depth += 1
        parts += len(level)
        if depth > MAX_DEPTH + 2:
            return f"the arguments are nested deeper than {MAX_DEPTH} levels"
        inner: list[Any] = []
        for value in level:
            kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
            if kind is dict:
                inner += value.values()
                parts += sum(map(len, value)) // _TEXT_PER_PART
            elif kind is list:
                inner += value
            elif kind is str:
                parts += len(value) // _TEXT_PER_PART
            elif kind is int and not -_LARGEST_INTEGER <= value <= _LARGEST_INTEGER:
                return "the arguments have an integer that does not fit into 64 bits"
            elif kind is float and not math.isfinite(value):
                return "the arguments have a number that is not finite"
            if parts + len(inner) > most:
                return f"the arguments have more than {most} parts, too many for this rule to look at"
        level = inner
    return None


def brief(value: Any) -> Json:
    match value:
        case dict():
            return _Summary(f"(an object of {len(cast('dict[str, Any]', value))})")
        case list():
            return _Summary(f"(a list of {len(cast('list[Any]', value))})")
        case str():
            cut = value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT] + "…"
            # Half of a surrogate pair could not be written into any log.
            return cut.encode("utf-8", "backslashreplace").decode()
        case bool() | None:
            return value
        case int() if value.bit_length() > 64:
            return _Summary(f"(an integer of {value.bit_length()} bits)")
        case float() if not math.isfinite(value):
            return _Summary(f"({value})")
        case int() | float():
            return value
        case _:
            return _Summary(f"(of type {type(value).__name__})")


def written(value: Json) -> str:
    return str(value) if isinstance(value, _Summary) else json.dumps(value, ensure_ascii=False)
