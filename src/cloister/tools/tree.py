"""The tree of types that a schema is read into, and that every renderer says in its own language.

A node is small and says only what a type checker can use: lengths, patterns and ranges are the gate's business.
Objects are not in the tree itself but in `Tree.types`, so that a type may mention itself.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from cloister.core.value import Json

Kind: TypeAlias = Literal["string", "integer", "number", "boolean", "null"]
Scalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything, or something that cannot be said."""


@dataclass(frozen=True, slots=True)
class Plain:
    kind: Kind


@dataclass(frozen=True, slots=True)
class Constant:
    # 1, 1.0 and True are equal in Python and three things in JSON.
    kind: Kind
    value: Scalar


@dataclass(frozen=True, slots=True)
class ListOf:
    item: "Node"


@dataclass(frozen=True, slots=True)
class TupleOf:
    """Items by position. The first `needed` are always there; `rest` says what may follow, None that nothing may."""

    items: "tuple[Node, ...]"
    needed: int
    rest: "Node | None" = None

    def nodes(self) -> "list[Node]":
        return [*self.items, *([self.rest] if self.rest is not None else [])]


@dataclass(frozen=True, slots=True)
class MapOf:
    value: "Node"


@dataclass(frozen=True, slots=True)
class Named:
    """The type at this place of `Tree.types`."""

    at: int


@dataclass(frozen=True, slots=True)
class OneOf:
    options: "tuple[Node, ...]"


Node: TypeAlias = Unknown | Plain | Constant | ListOf | TupleOf | MapOf | Named | OneOf

UNKNOWN = Unknown()
NULL = Plain("null")


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: Node
    required: bool
    description: str = ""
    # A list of one, because None is a default too.
    default: tuple[Json] | None = None


@dataclass(frozen=True, slots=True)
class ObjectType:
    """An object's fields. `rest` says what other keys hold; None that there are none that anybody spoke of."""

    name: str
    fields: tuple[Field, ...]
    rest: Node | None = None
    description: str = ""

    def nodes(self) -> list[Node]:
        return [*(field.type for field in self.fields), *([self.rest] if self.rest is not None else [])]


@dataclass(frozen=True, slots=True)
class AliasType:
    """A type that mentions itself and is no object: a list of itself, say."""

    name: str
    type: Node
    description: str = ""

    def nodes(self) -> list[Node]:
        return [self.type]


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments by name; `rest` says what other names may be given."""

    fields: tuple[Field, ...]
    rest: Node | None = None

    def nodes(self) -> list[Node]:
        return [*(field.type for field in self.fields), *([self.rest] if self.rest is not None else [])]


@dataclass(frozen=True, slots=True)
class Tree:
    root: Node
    types: tuple[ObjectType | AliasType, ...] = ()

    def plain(self, named: Named) -> Node | None:
        """What is said instead of a name that would say nothing."""
        match self.types[named.at]:
            case AliasType(type=Unknown()):
                return UNKNOWN
            case ObjectType(fields=(), rest=rest):
                return MapOf(rest or UNKNOWN)
            case _:
                return None

    def reach(self, start: Iterable[Node]) -> list[int]:
        """Places of the types that these nodes mention, directly or not, in order."""
        found: set[int] = set()
        waiting = list(start)
        while waiting:
            for at in mentions(waiting.pop()):
                if at not in found:
                    found.add(at)
                    waiting += self.types[at].nodes()
        return sorted(at for at in found if self.plain(Named(at)) is None)

    def may_be_text(self, node: Node) -> bool:
        match node:
            case Unknown() | Plain("string") | Constant("string"):
                return True
            case OneOf(options):
                return any(self.may_be_text(option) for option in options)
            case Named(at):
                # An alias may be a union with text in it; looking into it might never end.
                return isinstance(self.types[at], AliasType)
            case _:
                return False

    def arguments(self) -> Arguments | TupleOf | None:
        """The root as the arguments of a call, by name or by position; None when anything may be given."""
        root = self.types[self.root.at] if isinstance(self.root, Named) else self.root
        match root.type if isinstance(root, AliasType) else root:
            case ObjectType(fields=fields, rest=rest):
                return Arguments(fields, rest)
            case MapOf(value):
                return Arguments((), value)
            case ListOf(item):
                return TupleOf((), 0, item)
            case TupleOf() as positions:
                return positions
            case OneOf(options):
                found = [self.types[option.at] for option in options if isinstance(option, Named)]
                objects = [made for made in found if isinstance(made, ObjectType)]
                return _together(objects) if len(objects) == len(options) else None
            case _:
                return None


def _together(objects: Sequence[ObjectType]) -> Arguments:
    """Whatever one of these takes: a call has one list of parameters."""
    fields: dict[str, list[Field]] = {}
    for made in objects:
        for field in made.fields:
            fields.setdefault(field.name, []).append(field)
    merged = [
        Field(
            name,
            one_of([field.type for field in same]),
            len(same) == len(objects) and all(field.required for field in same),
            next((field.description for field in same if field.description), ""),
            same[0].default if all(field.default == same[0].default for field in same) else None,
        )
        for name, same in fields.items()
    ]
    rests = [made.rest for made in objects if made.rest is not None]
    return Arguments(tuple(merged), one_of(rests) if rests else None)


def mentions(node: Node) -> Iterator[int]:
    match node:
        case Named(at):
            yield at
        case ListOf(inner) | MapOf(inner):
            yield from mentions(inner)
        case OneOf(options):
            for option in options:
                yield from mentions(option)
        case TupleOf():
            for item in node.nodes():
                yield from mentions(item)
        case Unknown() | Plain() | Constant():
            pass


def options_of(node: Node) -> tuple[Node, ...]:
    return node.options if isinstance(node, OneOf) else (node,)


def one_of(nodes: Sequence[Node]) -> Node:
    """The union, with nothing in it twice. One part that may be anything makes the whole anything."""
    if len(nodes) == 1:
        return nodes[0]
    flat: dict[Node, None] = {}
    for node in nodes:
        for part in options_of(node):
            if isinstance(part, Unknown):
                return UNKNOWN
            flat.setdefault(part)
    plain = {part.kind for part in flat if isinstance(part, Plain)}
    if "number" in plain:
        flat.pop(Plain("integer"), None)
        plain.add("integer")
    kept = [part for part in flat if not (isinstance(part, Constant) and part.kind in plain)]
    if not kept:
        return UNKNOWN
    return kept[0] if len(kept) == 1 else OneOf(tuple(kept))


def kind_of(value: Scalar) -> Kind:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"


def fits(value: Json, node: Node) -> bool:
    """Whether a default is surely of the type. What takes more than a look is not."""
    match node:
        case Unknown():
            return True
        case Plain(kind):
            if isinstance(value, (list, dict)):
                return False
            mine = kind_of(value)
            return mine == kind or (kind == "number" and mine == "integer")
        case Constant(kind, one):
            return not isinstance(value, (list, dict)) and kind_of(value) == kind and value == one
        case OneOf(options):
            return any(fits(value, option) for option in options)
        case ListOf(item):
            return isinstance(value, list) and all(fits(one, item) for one in value)
        case MapOf(inner):
            return isinstance(value, dict) and all(fits(one, inner) for one in value.values())
        case TupleOf() | Named():
            return False


def scalar(value: Any) -> bool:
    """Whether a constant can be written down: no text without end, no number that a language cannot say. Exact types
    only: a member of an enum is written otherwise."""
    match value:
        case None | True | False:
            return True
        case str() if type(value) is str:
            return len(value) <= 100
        case int() if type(value) is int:
            return abs(value) < 1 << 64
        case float() if type(value) is float:
            return math.isfinite(value)
        case _:
            return False


def short_default(value: Any) -> tuple[Json] | None:
    """A default that is worth showing: a scalar, or a handful of them."""
    if type(value) is dict:
        keyed = cast("dict[Any, Any]", value)
        parts = [*keyed.values()][:6]
        shown = all(type(key) is str and scalar(key) for key in [*keyed][:6]) and len(keyed) < 6
    elif type(value) is list:
        parts, shown = cast("list[Any]", value)[:6], len(cast("list[Any]", value)) < 6
    else:
        parts, shown = [value], True
    return (cast(Json, value),) if shown and all(scalar(part) for part in parts) else None
