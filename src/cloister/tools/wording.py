"""How a fault is told: what was expected, what kind of thing came instead, and never the value itself."""

import re
from collections.abc import Callable, Iterable
from typing import Any, cast

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_LONGEST_PATH = 200


def json_path(parts: Iterable[str | int]) -> str:
    """`$.items[0].sku`; a part that is no plain word is quoted, and a long path is cut."""
    path = "$"
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif _WORD.fullmatch(part):
            path += f".{part}"
        else:
            path += f"[{shown(part, 60)}]"
        if len(path) > _LONGEST_PATH:
            return f"{path[: _LONGEST_PATH - 3]}..."
    return path


def shown(value: object, longest: int = 80) -> str:
    """A value of a schema, or a name, in few characters."""
    text = repr(value[: longest + 1] if isinstance(value, str) else value)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def kind_of(value: object) -> str:
    """What JSON calls it."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def unknown(names: list[str]) -> str:
    if not names:
        return "is not known; there are no names to give"
    more = " and more" if len(names) > 8 else ""
    return f"is not known; there {'is' if len(names) == 1 else 'are'} {_listed(names)}{more}"


def among(options: list[Any], value: object) -> str:
    more = f" and {len(options) - 8} more" if len(options) > 8 else ""
    return f"expected one of {_listed(options)}{more}, got another {kind_of(value)}"


def _listed(values: list[Any]) -> str:
    return ", ".join(shown(one, 40) for one in values[:8])


def _types(types: Any, value: object) -> str:
    named = [types] if isinstance(types, str) else cast("list[str]", types)
    return f"expected {' or '.join(named)}, got {kind_of(value)}"


# By keyword, in the order in which they are told: what the schema says there, and the value.
SAYINGS: dict[str, Callable[[Any, Any], str]] = {
    "type": _types,
    "const": lambda said, value: f"expected {shown(said)}, got another {kind_of(value)}",
    "enum": among,
    "dependentRequired": lambda _said, _value: "has a property without those that go with it",
    "multipleOf": lambda said, _value: f"is not a multiple of {shown(said)}",
    "minimum": lambda said, _value: f"is less than {shown(said)}",
    "exclusiveMinimum": lambda said, _value: f"is not greater than {shown(said)}",
    "maximum": lambda said, _value: f"is greater than {shown(said)}",
    "exclusiveMaximum": lambda said, _value: f"is not less than {shown(said)}",
    "minLength": lambda said, value: f"has a length of {len(value)}, less than {shown(said)}",
    "maxLength": lambda said, value: f"has a length of {len(value)}, more than {shown(said)}",
    "pattern": lambda said, _value: f"does not match the pattern {shown(said, 120)}",
    "minItems": lambda said, value: f"has a length of {len(value)}, less than {shown(said)}",
    "maxItems": lambda said, value: f"has a length of {len(value)}, more than {shown(said)}",
    "uniqueItems": lambda _said, _value: "has an item twice",
    "minProperties": lambda said, value: f"has {len(value)} properties, less than {shown(said)}",
    "maxProperties": lambda said, value: f"has {len(value)} properties, more than {shown(said)}",
}
