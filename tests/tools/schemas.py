"""Strategies: schemas that mean something, with nonsense mixed in, and names and texts that try to break out."""

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cloister.core.capability import Capability
from tests.core.json_values import json_objects, json_values

KINDS = "string integer number boolean null array object any".split()
HOSTILE = [
    '"""',
    '\\"""',
    '"',
    "'",
    "\\",
    "*/",
    "/*",
    "//",
    "*/ declare const pwned: 1; /*",
    '"""\nimport os\n"""',
    "\n",
    "\r",
    "\x00",
    "\x0b\x0c\x1c\x85",
    "\u2028\u2029",
    "\u202e",
    "\ud800",
    "`${x}`",
    "# ",
    "}",
    "];",
    "é",
    "😀",
]

# Any text at all, lone surrogates included.
texts = st.text(max_size=12) | st.lists(st.sampled_from(HOSTILE), max_size=4).map("".join)
keys = texts | st.sampled_from(
    ["a", "b_c", "class", "str", "list", "Any", "__x", "__debug__", "ﬁ", "1a", "a-b", "self"]
)
references = st.sampled_from(
    "# #/ #/$defs/A #/$defs/B #/properties/a #/items #/anyOf/0 http://x/y #/~1/~0 #/%24defs/A #a".split()
)
constants = json_values | texts | st.floats() | st.integers()


def _keywords(children: "st.SearchStrategy[Any]") -> "st.SearchStrategy[Any]":
    many = st.lists(children, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(KINDS) | st.lists(st.sampled_from(KINDS), max_size=3) | json_values,
            "properties": st.dictionaries(keys, children, max_size=3) | json_values,
            "required": st.lists(keys, max_size=2) | json_values,
            "items": children | many | json_values | st.booleans(),
            "prefixItems": many | json_values,
            "minItems": st.integers(-1, 3) | json_values,
            "maxItems": st.integers(-1, 3) | json_values,
            "additionalProperties": children | st.booleans() | json_values,
            "patternProperties": st.dictionaries(texts, children, max_size=2) | json_values,
            "anyOf": many | json_values,
            "oneOf": many,
            "allOf": many | json_values,
            "enum": st.lists(constants, max_size=3) | json_values,
            "const": constants,
            "default": constants,
            "nullable": st.booleans() | json_values,
            "title": texts | json_values,
            "description": texts | json_values,
            "if": children,
            "then": children,
            "$ref": references | json_values,
            "$defs": st.dictionaries(st.sampled_from(["A", "B"]), children, max_size=2) | json_values,
        },
    )


schemas: "st.SearchStrategy[Any]" = st.recursive(json_objects | st.booleans(), _keywords, max_leaves=8)
# What a Capability holds is an object, whatever is in it.
capability_schemas: "st.SearchStrategy[Any]" = schemas.filter(lambda schema: isinstance(schema, dict))


def fields(**properties: Any) -> dict[str, Any]:
    """An object that has all of these."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def nested(levels: int, wrap: Callable[[Any], Any]) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = wrap(schema)
    return schema


_TEXT = {"type": "string"}


def _doubling() -> Any:
    schema: Any = {"$ref": "#/$defs/T0", "$defs": {"T40": _TEXT}}
    for n in range(40):
        step = {"$ref": f"#/$defs/T{n + 1}"}
        schema["$defs"][f"T{n}"] = {"type": "array", "prefixItems": [step, step], "maxItems": 2, "minItems": 2}
    return schema


def _named(target: Any, others: Mapping[str, Any] | None = None) -> Any:
    return {"$ref": "#/$defs/A", "$defs": {"A": target, "B": {"$ref": "#/$defs/A"}, **(others or {})}}


def _aliases(count: int) -> Any:
    lists = {f"L{n}": {"type": "array", "items": {"$ref": f"#/$defs/L{n}"}} for n in range(count)}
    return {**fields(**{f"k{n}": {"$ref": f"#/$defs/L{n}"} for n in range(count)}), "$defs": lists}


def _words(count: int, length: int) -> list[str]:
    return [f"{n:0{length}}" for n in range(count)]


def _wide(length: int) -> Any:
    return fields(**dict.fromkeys(_words(400, length), True))


_TWICE = {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}]}
_PICK = {"anyOf": [fields(a=_TEXT), fields(b=_TEXT)]}
_KINDS = ["array", "object"] * 10

# Schemas that ask for too much.
MONSTROUS: dict[str, Callable[[], Any]] = {
    "deep lists": lambda: nested(10_000, lambda inner: {"type": "array", "items": inner}),
    "deep objects": lambda: nested(10_000, lambda inner: fields(a=inner)),
    "deep unions": lambda: nested(10_000, lambda inner: {"anyOf": [inner, {"type": "null"}]}),
    "deep allOf": lambda: nested(10_000, lambda inner: {"allOf": [inner]}),
    "deep maps": lambda: nested(10_000, lambda inner: {"type": "object", "additionalProperties": inner}),
    "deep defaults": lambda: fields(a={"default": nested(10_000, lambda inner: [inner])}),
    "deep constants": lambda: {"allOf": [fields(a={"enum": [nested(10_000, lambda inner: [inner])]})] * 2},
    "itself": lambda: {"$ref": "#"},
    "circle": lambda: _named({"$ref": "#/$defs/B"}),
    "chain": lambda: _named({"$ref": "#/$defs/C0"}, {f"C{n}": {"$ref": f"#/$defs/C{n + 1}"} for n in range(5_000)}),
    "folded circle": lambda: _named(_TWICE),
    "grows": lambda: fields(x={"$ref": "#", "properties": {"y": _TEXT}}),
    "doubles": _doubling,
    "choices of choices": lambda: {"allOf": [_PICK] * 30},
    "kinds of kinds": lambda: nested(30, lambda inner: {"type": _KINDS, "items": inner, "properties": {"a": inner}}),
    "many fields": lambda: fields(**{f"k{n}": _TEXT for n in range(100_000)}),
    "many objects": lambda: fields(**{f"k{n}": fields(a=_TEXT) for n in range(5_000)}),
    "many wide objects": lambda: fields(**{f"k{n}": _wide(3) for n in range(60)}),
    "many long keys": lambda: fields(**{f"k{n}": _wide(190) for n in range(60)}),
    "many long constants": lambda: {"anyOf": [{"items": {"enum": _words(n, 90)}} for n in range(1, 100)]},
    "many aliases": lambda: _aliases(200),
    "many options": lambda: {"anyOf": [{"type": "array", "items": {"const": n}} for n in range(5_000)]},
    "many constants": lambda: {"enum": [f"k{n}" for n in range(100_000)]},
    "many parts": lambda: {"allOf": [fields(**{f"k{n}": _TEXT}) for n in range(5_000)]},
    "many patterns": lambda: {"type": "object", "patternProperties": {f"k{n}": _TEXT for n in range(50_000)}},
    "many positions": lambda: {"type": "array", "prefixItems": [_TEXT] * 50_000},
    "long key": lambda: fields(**{"k" * 10_000_000: _TEXT}),
    "long constant": lambda: {"const": "c" * 10_000_000},
    "long description": lambda: fields(a={"type": "string", "description": "d" * 10_000_000}),
    "long title": lambda: {**fields(a=_TEXT), "title": "t" * 10_000_000},
    "long reference": lambda: {"$ref": "#/" + "a/" * 5_000_000},
    "long descriptions": lambda: fields(**{f"k{n}": {"description": "d" * 1_000} for n in range(5_000)}),
    "huge number": lambda: {"enum": [10**5000, -(10**5000), 1e400]},
}


def some_capabilities(count: int) -> list[Capability]:
    """Tools whose schemas were thrown with dice, the same ones every time."""
    made: list[Capability] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(capability_schemas, capability_schemas, texts)
    def collect(taken: Any, returned: Any, description: str) -> None:
        made.append(Capability(f"t{len(made)}", None, description, taken, returned))

    collect()
    return made
