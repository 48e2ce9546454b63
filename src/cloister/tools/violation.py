"""Where and how a value does not fit its schema, in words that name what was expected and never repeat the value.

The native validator could say it too, but it works out every way in which every alternative fails, which has no end
for types that mention each other. Here only yes and no are asked of it, part by part, on the way down to the fault.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from cloister.core.value import Json
from cloister.tools import fuel
from cloister.tools.dialect import Lowered, weigh
from cloister.tools.native import Validator, compile_schema
from cloister.tools.wording import SAYINGS, among, json_path, kind_of, unknown

_LONGEST = 300
# For finding one fault: a tenth of a second.
_FUEL = fuel.FULL // 5
_COMPILED = 100
# Steps down, of a few calls each: Python has only so many.
_DEEPEST = 100
_VAGUE = "does not fit its schema"


@dataclass(frozen=True, slots=True)
class Violation:
    message: str
    # A JSON path such as `$.items[0].sku`.
    path: str = "$"


_Way: TypeAlias = tuple[str | int, ...]
_Fault: TypeAlias = tuple[str, _Way]


class Finder:
    """Finds the faults of values that one schema refuses. May be used from any thread."""

    def __init__(self, lowered: Lowered) -> None:
        self._draft = lowered.draft
        self._root = lowered.schema
        self._store = lowered.store
        self._parts: dict[str, Any] = lowered.schema.get(lowered.store, {})
        self._weight = weigh(self._parts)
        # By the identity of the parts, which live as long as the schema.
        self._made: dict[int, Validator] = {}

    def find(self, value: Json) -> Violation:
        fuel.fill(_FUEL)
        search = _Search(self._draft, self._parts, self._fits)
        try:
            message, way = search.fault(self._root, value, ()) or (_VAGUE, ())
        except ValueError:
            # A text that is not Unicode, in a place where nobody had looked before.
            return Violation(_VAGUE)
        return Violation(message if len(message) <= _LONGEST else f"{message[: _LONGEST - 3]}...", json_path(way))

    def _fits(self, schema: Any, value: Json) -> bool:
        """True also where it cannot be told at a fair price: then the fault is told one level higher."""
        if schema is True or fuel.spent():
            return True
        made = self._made.get(id(schema))
        if made is None:
            document, price = self._document(schema)
            if not fuel.pay(_COMPILED + 4 * price):
                return True
            made = self._made[id(schema)] = compile_schema(self._draft, document)
        return made.is_valid(value) or fuel.spent()

    def _document(self, schema: Any) -> tuple[dict[str, Any], int]:
        if not isinstance(schema, dict):
            return {"not": {}}, 1
        given = cast("dict[str, Any]", schema)
        if not _refers(given):
            return given, weigh(given)
        return {**given, self._store: self._parts}, weigh(given) + self._weight


class _Search:
    """The way down to the fault of one value."""

    def __init__(self, draft: str, parts: dict[str, Any], fits: Callable[[Any, Json], bool]) -> None:
        self._draft = draft
        self._parts = parts
        self._fits = fits
        self._seen: set[tuple[int, _Way]] = set()
        self._depth = 0

    def fault(self, schema: Any, value: Json, way: _Way) -> _Fault | None:
        """What is wrong with a value that this part of the schema refuses. None where that was asked before: a schema
        may mention itself in place."""
        if not isinstance(schema, dict):
            return "is not allowed here", way
        given = cast("dict[str, Any]", schema)
        if (id(given), way) in self._seen:
            return None
        self._seen.add((id(given), way))
        if self._depth == _DEEPEST:
            return _VAGUE, way
        self._depth += 1
        try:
            return self._own(given, value, way) or self._inside(given, value, way) or self._together(given, value, way)
        finally:
            self._depth -= 1

    # -- what this part says itself ------------------------------------------------------------------------------

    def _own(self, schema: dict[str, Any], value: Json, way: _Way) -> _Fault | None:
        if "$ref" in schema:
            target = self._target(schema)
            fault = None if self._fits(target, value) else self.fault(target, value, way)
            if fault is not None:
                return fault
        for word, say in SAYINGS.items():
            if word in schema and not _holds(self._draft, {word: schema[word]}, value):
                return say(schema[word], value), way
        if fuel.SHORT in schema and isinstance(value, str) and len(value) > fuel.LONGEST:
            return f"is longer than {fuel.LONGEST} characters, too long to be held against its pattern", way
        if isinstance(value, dict):
            missing = [name for name in cast("list[str]", schema.get("required", [])) if name not in value]
            if missing:
                return "is missing", (*way, missing[0])
        return None

    def _target(self, schema: dict[str, Any]) -> Any:
        return self._parts[schema["$ref"].rsplit("/", 1)[1]]

    # -- the value's parts -----------------------------------------------------------------------------------------

    def _inside(self, schema: dict[str, Any], value: Json, way: _Way) -> _Fault | None:
        if isinstance(value, dict):
            return self._inside_object(schema, value, way)
        if isinstance(value, list):
            return self._inside_array(schema, value, way)
        return None

    def _inside_object(self, schema: dict[str, Any], value: dict[str, Json], way: _Way) -> _Fault | None:
        properties: dict[str, Any] = schema.get("properties", {})
        patterns: dict[str, Any] = schema.get("patternProperties", {})
        for name, part in value.items():
            asked = [properties[name]] if name in properties else []
            asked += [sub for pattern, sub in patterns.items() if _holds(self._draft, {"pattern": pattern}, name)]
            if not asked and "additionalProperties" in schema:
                if schema["additionalProperties"] is False:
                    return unknown(list(properties)), (*way, name)
                asked.append(schema["additionalProperties"])
            for sub in asked:
                if not self._fits(sub, part):
                    return self.fault(sub, part, (*way, name))
            if "propertyNames" in schema and not self._fits(schema["propertyNames"], name):
                fault = self.fault(schema["propertyNames"], name, ("",)) or (_VAGUE, ())
                return f"has a name that {fault[0]}", (*way, name)
        return None

    def _inside_array(self, schema: dict[str, Any], value: list[Json], way: _Way) -> _Fault | None:
        firsts: Any = schema.get("prefixItems", schema.get("items"))
        rest: Any = schema.get("additionalItems" if isinstance(schema.get("items"), list) else "items", True)
        listed = cast("list[Any]", firsts) if isinstance(firsts, list) else []
        for n, part in enumerate(value):
            sub = listed[n] if n < len(listed) else rest
            if sub is False:
                return f"is one too many: there are at most {n}", (*way, n)
            if not self._fits(sub, part):
                return self.fault(sub, part, (*way, n))
        return None

    # -- several at once -------------------------------------------------------------------------------------------

    def _together(self, schema: dict[str, Any], value: Json, way: _Way) -> _Fault:
        for part in schema.get("allOf", ()):
            fault = None if self._fits(part, value) else self.fault(part, value, way)
            if fault is not None and fault != (_VAGUE, way):
                return fault
        for word in ("anyOf", "oneOf"):
            options: list[Any] = schema.get(word, [])
            fitting = sum(self._fits(option, value) for option in options)
            if options and not fitting:
                return self._none_of(options, value, way)
            if word == "oneOf" and fitting > 1 and not fuel.spent():
                return f"fits {fitting} of the {len(options)} forms of which it must fit one", way
        if "not" in schema and self._fits(schema["not"], value):
            return "has a form that is not allowed", way
        if "if" in schema:
            branch = schema.get("then" if self._fits(schema["if"], value) else "else", True)
            if not self._fits(branch, value):
                return self.fault(branch, value, way) or (_VAGUE, way)
        return _VAGUE, way

    def _none_of(self, options: list[Any], value: Json, way: _Way) -> _Fault:
        kind = kind_of(value)
        typed = [(option, self._through(option)) for option in options]
        same = [(option, seen) for option, seen in typed if _is_kind(kind, _types(seen))]
        if not same:
            kinds = dict.fromkeys(one for _, seen in typed for one in _types(seen))
            return f"expected {' or '.join(kinds)}, got {kind}", way
        if len(same) > 1 and isinstance(value, dict):
            tagged = _tags([seen for _, seen in same])
            for name, tags in tagged.items():
                if name not in value:
                    return "is missing", (*way, name)
                same = [pair for pair, tag in zip(same, tags, strict=True) if _same(tag, value[name])]
                if not same:
                    return among(tags, value[name]), (*way, name)
                break
        if len(same) == 1:
            return self.fault(same[0][0], value, way) or (_VAGUE, way)
        return f"fits none of the {len(options)} forms that are allowed", way

    def _through(self, schema: Any) -> dict[str, Any]:
        """What an alternative says about types and constants, behind its reference and its price."""
        for _ in range(8):
            if not isinstance(schema, dict):
                return {}
            given = cast("dict[str, Any]", schema)
            if "$ref" in given:
                schema = self._target(given)
            elif "type" not in given and given.get("allOf"):
                schema = given["allOf"][-1]
            else:
                return given
        return {}


def _refers(schema: Any) -> bool:
    if isinstance(schema, dict):
        given = cast("dict[str, Any]", schema)
        return isinstance(given.get("$ref"), str) or any(_refers(one) for one in given.values())
    return isinstance(schema, list) and any(_refers(one) for one in cast("list[Any]", schema))


def _holds(draft: str, schema: dict[str, Any], value: Json) -> bool:
    try:
        return compile_schema(draft, schema).is_valid(value)
    except ValueError:
        # A word that means nothing without its neighbour, such as draft 4's `exclusiveMinimum`.
        return True


def _types(schema: dict[str, Any]) -> list[str]:
    said = schema.get("type", [])
    return [said] if isinstance(said, str) else cast("list[str]", said)


def _is_kind(kind: str, types: list[str]) -> bool:
    """What says no type may be of any."""
    return not types or kind in types or (kind == "integer" and "number" in types)


def _tags(schemas: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Properties that tell these alternatives apart: each has a constant of its own there."""
    properties = [cast("dict[str, Any]", schema.get("properties", {})) for schema in schemas]
    found: dict[str, list[Any]] = {}
    for name in properties[0]:
        parts = [own.get(name) for own in properties]
        if all(isinstance(part, dict) and "const" in part for part in parts):
            found[name] = [cast("dict[str, Any]", part)["const"] for part in parts]
    return found


def _same(tag: Any, value: Json) -> bool:
    return type(tag) is type(value) and tag == value
