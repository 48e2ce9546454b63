"""A schema given by hand, and the function behind it: which argument goes to which parameter.

An object's properties are given by name, an array's items by position. What could never be called is refused when it
is declared: a property without a parameter, a parameter that no property fills.
"""

import inspect
from dataclasses import dataclass, field
from typing import Any, cast

from cloister.core.value import Json
from cloister.tools.parameters import Parameters
from cloister.tools.signature import BadArguments, Bound
from cloister.tools.unwrap import unwrap
from cloister.tools.wording import json_path, kind_of, shown, unknown

# Beside these, properties may stand elsewhere than under "properties".
_ELSEWHERE = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas")


@dataclass(frozen=True, slots=True)
class Shape:
    """How arguments are laid out: an array, or an object whose positions have these names."""

    is_array: bool
    positions: tuple[str, ...] = ()
    # What stands for an optional property that the function cannot do without.
    defaults: dict[str, Any] = field(default_factory=dict[str, Any])

    def named(self, arguments: Json) -> dict[str, Json]:
        """Arguments of this shape by the names of the function's parameters; raises `BadArguments`."""
        if self.is_array and isinstance(arguments, list):
            if len(arguments) > len(self.positions):
                raise BadArguments(f"takes {len(self.positions)} arguments, got {len(arguments)}")
            return dict(zip(self.positions, arguments, strict=False))
        if not self.is_array and isinstance(arguments, dict):
            return {**self.defaults, **arguments}
        raise BadArguments(f"expected {'array' if self.is_array else 'object'}, got {kind_of(arguments)}")


def shape_of(schema: dict[str, Any], read: Parameters) -> Shape:
    """Raises `InvalidInput` where the schema and the function's parameters cannot go together."""
    match schema.get("type"):
        case "object":
            return _object(schema, read)
        case "array":
            return _array(schema, read)
        case other:
            said = f"its input schema has the type {shown(other)}" if other else "its input schema has no type"
            raise read.refuse(said, 'say "type": "object" for arguments by name, or "array" for arguments by position')


def _object(schema: dict[str, Any], read: Parameters) -> Shape:
    properties = cast("dict[str, Any]", schema.get("properties", {}))
    if read.context in properties:
        raise read.refuse(
            f"{read.context!r} is a property of its input schema and the parameter for the context",
            "rename one of them",
        )
    for parameter in read.listed:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise read.refuse(
                f"parameter {parameter.name!r} of its handler is positional-only, and properties are given by name",
                "leave the / out",
            )
    strange = [name for name in properties if name not in read.by_name]
    if strange and not read.takes_any_name:
        raise read.refuse(
            f"its handler has no parameter for {', '.join(map(repr, strange))} of its input schema",
            "add the parameter, or take **kwargs",
        )
    if not any(word in schema for word in _ELSEWHERE):
        for name, parameter in read.by_name.items():
            if name not in properties and _is_required(parameter):
                raise read.refuse(
                    f"parameter {name!r} of its handler is not in its input schema",
                    f"add {name!r} to the schema's properties, give it a default, or annotate it CallContext",
                )
    needed = {name for name, parameter in read.by_name.items() if _is_required(parameter)}
    defaults: dict[str, Any] = {}
    for name, part in properties.items():
        if name in needed and isinstance(part, dict) and "default" in part:
            defaults[name] = part["default"]
    return Shape(is_array=False, positions=tuple(properties), defaults=defaults)


def _array(schema: dict[str, Any], read: Parameters) -> Shape:
    for parameter in read.listed:
        if parameter.kind is parameter.KEYWORD_ONLY and _is_required(parameter):
            raise read.refuse(
                f"parameter {parameter.name!r} of its handler is given by name only, and its input schema is an array",
                'give it a default, or say "type": "object"',
            )
    if read.takes_any_number and read.context is not None and not read.context_is_last:
        raise read.refuse(
            f"{read.context!r} stands before *args and would take the first argument", "move it behind *args"
        )
    least = sum(_is_required(p) for p in read.by_position)
    most = float("inf") if read.takes_any_number else len(read.by_position)
    listed = len(cast("list[Any]", schema.get("prefixItems", [])))
    fewest = max(schema.get("minItems", 0), 0)
    highest = min(schema.get("maxItems", float("inf")), listed if schema.get("items") is False else float("inf"))
    if max(fewest, listed) > most or highest < least:
        raise read.refuse(
            f"its handler takes {_count(least, most)} arguments by position, and its input schema does not allow that",
            "let the schema's items and the function's parameters be the same number, or take *args",
        )
    return Shape(is_array=True, positions=tuple(p.name for p in read.by_position))


def _count(least: int, most: float) -> str:
    return f"{least}" if least == most else f"{least} or more" if most == float("inf") else f"{least} to {most}"


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )


class Given:
    """Hands validated arguments on as they are."""

    def __init__(self, read: Parameters, shape: Shape) -> None:
        self._read = read
        self._shape = shape

    def bind(self, arguments: Json) -> Bound:
        """Raises `BadArguments` for what the schema allows and the function cannot take."""
        if self._read.takes_any_number and isinstance(arguments, list):
            least = sum(map(_is_required, self._read.by_position))
            if len(arguments) < least:
                raise BadArguments(f"takes at least {least} arguments, got {len(arguments)}")
            return Bound(tuple(arguments))
        given = self._shape.named(arguments)
        read = self._read
        args: list[Json] = []
        for parameter in read.listed:
            if parameter.name not in given:
                if _is_required(parameter):
                    raise BadArguments("is missing", self._place(parameter.name))
            elif parameter.kind is parameter.POSITIONAL_ONLY:
                args.append(given.pop(parameter.name))
        for name in given:
            if name not in read.by_name and (not read.takes_any_name or name == read.context):
                raise BadArguments(unknown(list(read.by_name)), json_path((name,)))
        # By name wherever it can be: the context may stand between them.
        return Bound(tuple(args), given)

    def _place(self, name: str) -> str:
        return json_path((self._shape.positions.index(name) if self._shape.is_array else name,))

    def unwrap(self, value: Any) -> Any:
        return unwrap(value)
