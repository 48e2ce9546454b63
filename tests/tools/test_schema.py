"""The tree: what a schema says, whatever it says it with; and that no schema asks for too much."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, cast

import pytest
from hypothesis import given, settings

from cloister.tools.schema import read_schema
from cloister.tools.tree import (
    NULL,
    UNKNOWN,
    AliasType,
    Arguments,
    Constant,
    ListOf,
    MapOf,
    Named,
    Node,
    ObjectType,
    OneOf,
    Plain,
    Tree,
    TupleOf,
    fits,
    mentions,
    one_of,
)
from tests.tools.schemas import MONSTROUS, fields, nested, schemas

TEXT, INTEGER, NUMBER = Plain("string"), Plain("integer"), Plain("number")
_TEXT = {"type": "string"}
_INTEGER = {"type": "integer"}
_DEFS = {"Id": _TEXT, "Point": fields(x=_INTEGER), "odd/name~": _INTEGER}


def _root(schema: Any) -> Node:
    return read_schema({**cast("dict[str, Any]", schema), "$defs": _DEFS} if isinstance(schema, dict) else schema).root


def _shape(tree: Tree, node: Node | None = None, most: int = 6) -> Any:
    """The tree written out, for comparing: objects as dicts, a `?` where a field may be missing."""
    node = tree.root if node is None else node
    match node:
        case Named(at):
            made = tree.types[at]
            if isinstance(made, AliasType):
                return _shape(tree, made.type, most - 1) if most else made.name
            rows = {
                f.name + ("" if f.required else "?"): _shape(tree, f.type, most - 1) if most else ...
                for f in made.fields
            }
            return rows | ({"*": _shape(tree, made.rest, most)} if made.rest is not None else {})
        case Plain(kind):
            return kind
        case Constant(_, value):
            return ("=", value)
        case ListOf(item):
            return [_shape(tree, item, most)]
        case MapOf(value):
            return {"*": _shape(tree, value, most)}
        case TupleOf(items, needed, rest):
            return (*(_shape(tree, i, most) for i in items), needed, rest and _shape(tree, rest, most))
        case OneOf(options):
            return {"one of": [_shape(tree, option, most) for option in options]}
        case _:
            return "?"


# -- what is said -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "node"),
    [
        ({"type": "string"}, TEXT),
        ({"type": "integer"}, INTEGER),
        ({"type": "number"}, NUMBER),
        ({"type": "boolean"}, Plain("boolean")),
        ({"type": "null"}, NULL),
        ({}, UNKNOWN),
        (True, UNKNOWN),
        (False, UNKNOWN),
        (None, UNKNOWN),
        ("string", UNKNOWN),
        ({"type": "money"}, UNKNOWN),
        ({"type": 5}, UNKNOWN),
        # arrays
        ({"type": "array"}, ListOf(UNKNOWN)),
        ({"type": "array", "items": _TEXT}, ListOf(TEXT)),
        ({"items": _TEXT}, ListOf(TEXT)),
        ({"type": "array", "prefixItems": [_TEXT, _INTEGER]}, TupleOf((TEXT, INTEGER), 0, UNKNOWN)),
        ({"type": "array", "prefixItems": [_TEXT], "items": _INTEGER}, TupleOf((TEXT,), 0, INTEGER)),
        ({"type": "array", "prefixItems": [_TEXT], "items": False, "minItems": 1}, TupleOf((TEXT,), 1)),
        ({"prefixItems": [_TEXT, _INTEGER], "minItems": 1, "maxItems": 2}, TupleOf((TEXT, INTEGER), 1)),
        ({"type": "array", "items": [_TEXT, _INTEGER], "additionalItems": False}, TupleOf((TEXT, INTEGER), 0)),
        # maps
        ({"type": "object"}, MapOf(UNKNOWN)),
        ({"type": "object", "properties": {}}, MapOf(UNKNOWN)),
        ({"type": "object", "additionalProperties": False}, MapOf(UNKNOWN)),
        ({"type": "object", "additionalProperties": _INTEGER}, MapOf(INTEGER)),
        ({"additionalProperties": _INTEGER}, MapOf(INTEGER)),
        ({"type": "object", "patternProperties": {"^x": _TEXT, "^y": _INTEGER}}, MapOf(OneOf((TEXT, INTEGER)))),
        ({"type": "object", "patternProperties": {f"^{n}": _TEXT for n in range(30)}}, MapOf(UNKNOWN)),
        # one of several
        ({"anyOf": [_TEXT, {"type": "null"}]}, OneOf((TEXT, NULL))),
        ({"oneOf": [_TEXT, _INTEGER]}, OneOf((TEXT, INTEGER))),
        ({"type": ["string", "null"]}, OneOf((TEXT, NULL))),
        ({"type": ["array", "null"], "items": _TEXT}, OneOf((ListOf(TEXT), NULL))),
        ({"type": "string", "nullable": True}, OneOf((TEXT, NULL))),
        ({"$ref": "#/$defs/Id", "nullable": True}, OneOf((TEXT, NULL))),
        ({"anyOf": [_TEXT, {}]}, UNKNOWN),
        ({"anyOf": [_TEXT, True]}, UNKNOWN),
        ({"anyOf": [_TEXT, {"anyOf": [_INTEGER, _TEXT]}]}, OneOf((TEXT, INTEGER))),
        ({"anyOf": [_INTEGER, {"type": "number"}]}, NUMBER),
        ({"anyOf": []}, UNKNOWN),
        # constants
        ({"const": "a"}, Constant("string", "a")),
        ({"const": None}, Constant("null", None)),
        ({"enum": ["a", 1, True, 1.0]}, OneOf((
            Constant("string", "a"), Constant("integer", 1), Constant("boolean", True), Constant("number", 1.0)
        ))),
        ({"enum": ["a", "a"]}, Constant("string", "a")),
        ({"enum": []}, UNKNOWN),
        ({"type": "string", "enum": ["a", None, 5]}, Constant("string", "a")),
        ({"enum": list(range(101))}, UNKNOWN),
        ({"type": ["integer", "null"], "enum": list(range(101))}, OneOf((INTEGER, NULL))),
        ({"type": "number", "enum": [1, 2.5]}, OneOf((Constant("integer", 1), Constant("number", 2.5)))),
        ({"enum": [[1], {"a": 1}]}, OneOf((ListOf(UNKNOWN), MapOf(UNKNOWN)))),
        ({"anyOf": [{"const": "a"}, {"const": "b"}]}, OneOf((Constant("string", "a"), Constant("string", "b")))),
        ({"anyOf": [{"const": "a"}, _TEXT]}, TEXT),
        ({"const": float("nan")}, NUMBER),
        ({"const": 10**30}, INTEGER),
        # references
        ({"$ref": "#/$defs/Id"}, TEXT),
        ({"$ref": "#/$defs/odd~1name~0"}, INTEGER),
        ({"$ref": "#/%24defs/Id"}, TEXT),
        ({"$ref": "#/$defs/Gone"}, UNKNOWN),
        ({"$ref": "#/$defs/Id/type"}, UNKNOWN),
        ({"$ref": "https://example.com/schema"}, UNKNOWN),
        ({"$ref": "other.json#/$defs/Id"}, UNKNOWN),
        ({"$ref": 5}, UNKNOWN),
        ({"$ref": "#/definitions/" + "k" * 1000, "definitions": {"k" * 1000: _TEXT}}, UNKNOWN),
        ({"anyOf": [_TEXT, {"$ref": "#/anyOf/0"}]}, TEXT),
        # all of several
        ({"allOf": [_TEXT]}, TEXT),
        ({"allOf": [{"$ref": "#/$defs/Id"}], "description": "which"}, TEXT),
        ({"allOf": [_TEXT, {"minLength": 1}]}, TEXT),
        ({"allOf": [{"type": ["string", "null"]}, {"type": ["string", "integer"]}]}, TEXT),
        ({"allOf": [{"type": "number"}, _INTEGER]}, INTEGER),
        ({"allOf": [_INTEGER, {"type": "number"}]}, INTEGER),
        ({"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]}, Constant("string", "b")),
        ({"allOf": [{"items": {"type": ["string", "null"]}}, {"items": _TEXT}]}, ListOf(TEXT)),
        # options that say nothing about the type
        ({"type": "string", "anyOf": [{"format": "date"}, {"pattern": "x"}]}, TEXT),
        ({"type": "string", "oneOf": [{"format": "date"}, {"enum": ["a"]}]}, TEXT),
    ],
)  # fmt: skip
def test_schema_is_read_as_a_type(schema: Any, node: Node) -> None:
    assert _root(schema) == node


_OBJECTS: list[tuple[Any, Any]] = [
    ({"properties": {"a": _TEXT, "b": _INTEGER}, "required": ["a"]}, {"a": "string", "b?": "integer"}),
    ({"properties": {"a": _TEXT}, "additionalProperties": False}, {"a?": "string"}),
    ({"properties": {"a": _TEXT}, "additionalProperties": True}, {"a?": "string", "*": "?"}),
    ({"properties": {"a": _TEXT}, "additionalProperties": _INTEGER}, {"a?": "string", "*": "integer"}),
    ({"properties": {"a": _TEXT}, "patternProperties": {"x": _TEXT}}, {"a?": "string", "*": "string"}),
    ({"type": ["object", "null"], "properties": {"a": _TEXT}}, {"one of": [{"a?": "string"}, "null"]}),
    # allOf puts members together
    ({"allOf": [fields(a=_TEXT), fields(b=_INTEGER)]}, {"a": "string", "b": "integer"}),
    (
        {"allOf": [{"$ref": "#/$defs/Point"}], "properties": {"b": _TEXT}, "required": ["b"]},
        {"b": "string", "x": "integer"},
    ),
    ({"$ref": "#/$defs/Point", "properties": {"b": _TEXT}}, {"b?": "string", "x": "integer"}),
    ({"allOf": [fields(a=_TEXT), {"required": ["b"], "properties": {"b": {}}}]}, {"a": "string", "b": "?"}),
    (
        {"allOf": [{"properties": {"a": {"type": ["string", "null"]}}}, {"properties": {"a": _TEXT}}]},
        {"a?": "string"},
    ),
    (
        {"allOf": [{**fields(a=_TEXT), "additionalProperties": False}, fields(b=_TEXT)]},
        {"a": "string", "b": "string"},
    ),
    (
        {"allOf": [{"properties": {"a": _TEXT}, "additionalProperties": _INTEGER}, {"additionalProperties": False}]},
        {"a?": "string", "*": "integer"},
    ),
    (
        {"allOf": [{"properties": {"a": _TEXT}, "additionalProperties": False}, {"additionalProperties": _INTEGER}]},
        {"a?": "string", "*": "integer"},
    ),
    ({"allOf": [fields(a=_TEXT), *[{}] * 99]}, {"a": "string"}),
    ({"allOf": [fields(a=_TEXT), *[{}] * 100]}, {"a": "string", "*": "?"}),
    ({"allOf": [fields(a=_TEXT), {"$ref": "https://x/y"}]}, {"a": "string", "*": "?"}),
    ({"allOf": [fields(a=_TEXT), {"if": {}, "else": fields(b=_TEXT)}]}, {"a": "string", "*": "?"}),
    # options beside members
    (
        {**fields(a=_TEXT), "oneOf": [fields(b=_TEXT), fields(c=_INTEGER)]},
        {"one of": [{"a": "string", "b": "string"}, {"a": "string", "c": "integer"}]},
    ),
    (
        {**fields(a=_TEXT), "anyOf": [{"$ref": "#/$defs/Point"}, fields(c=_INTEGER)]},
        {"one of": [{"a": "string", "x": "integer"}, {"a": "string", "c": "integer"}]},
    ),
    ({**fields(a=_TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": "string"}),
    (
        {"type": "object", "oneOf": [{"$ref": "#/$defs/Point"}, fields(c=_INTEGER)]},
        {"one of": [{"x": "integer"}, {"c": "integer"}]},
    ),
    (
        {"allOf": [{"anyOf": [fields(a=_TEXT), fields(b=_TEXT)]}, {"anyOf": [fields(c=_TEXT), fields(d=_TEXT)]}]},
        {"one of": [
            {"a": "string", "c": "string"}, {"a": "string", "d": "string"},
            {"b": "string", "c": "string"}, {"b": "string", "d": "string"},
        ]},
    ),
    # conditions may add what is not known here
    ({**fields(a=_TEXT), "if": {}, "then": fields(b=_TEXT)}, {"a": "string", "*": "?"}),
    ({**fields(a=_TEXT), "dependentSchemas": {"a": fields(b=_TEXT)}}, {"a": "string", "*": "?"}),
    # nested
    ({"items": fields(a=fields(b={"items": _TEXT}))}, [{"a": {"b": ["string"]}}]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "shape"), _OBJECTS)
def test_object_is_read_with_its_fields(schema: Any, shape: Any) -> None:
    assert _shape(read_schema({**schema, "$defs": _DEFS})) == shape


def test_object_that_mentions_itself_is_one_type() -> None:
    node = fields(value=_INTEGER, next={"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]})
    tree = read_schema({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert [made.name for made in tree.types] == ["Node"]
    assert tree.types[0].nodes() == [INTEGER, OneOf((Named(0), NULL))]


def test_two_objects_that_mention_each_other_are_two_types() -> None:
    defs = {"A": fields(b={"$ref": "#/$defs/B"}), "B": fields(a={"items": {"$ref": "#/$defs/A"}})}
    tree = read_schema({"items": {"$ref": "#/$defs/A"}, "$defs": defs})
    assert [(made.name, made.nodes()) for made in tree.types] == [("A", [Named(1)]), ("B", [ListOf(Named(0))])]


def test_root_that_mentions_itself_is_one_type() -> None:
    tree = read_schema({**fields(children={"items": {"$ref": "#"}}), "title": "Tree node"})
    assert [(made.name, made.nodes()) for made in tree.types] == [("TreeNode", [ListOf(Named(0))])]


def test_list_that_mentions_itself_gets_a_name() -> None:
    value = {
        "anyOf": [_TEXT, {"items": {"$ref": "#/$defs/Value"}}, {"additionalProperties": {"$ref": "#/$defs/Value"}}]
    }
    tree = read_schema({"$ref": "#/$defs/Value", "$defs": {"Value": value}})
    assert tree.root == Named(0)
    assert tree.types == (AliasType("Value", OneOf((TEXT, ListOf(Named(0)), MapOf(Named(0))))),)


def test_type_that_is_nothing_but_itself_is_anything() -> None:
    for defs in (
        {"A": {"$ref": "#/$defs/A"}},
        {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
        {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}},
        {"A": {"allOf": [{"$ref": "#/$defs/A"}]}},
    ):
        assert _shape(read_schema({"$ref": "#/$defs/A", "$defs": defs})) == "?"


def test_no_alias_is_itself_by_way_of_others() -> None:
    a = {"anyOf": [{"$ref": "#/$defs/B"}, {"items": {"$ref": "#/$defs/A"}}]}
    b = {"anyOf": [{"$ref": "#/$defs/A"}, {"items": {"$ref": "#/$defs/B"}}, _TEXT]}
    tree = read_schema({**fields(a={"$ref": "#/$defs/A"}, b={"$ref": "#/$defs/B"}), "$defs": {"A": a, "B": b}})
    for at in range(len(tree.types)):
        assert at not in _unguarded(tree, at)


def _unguarded(tree: Tree, at: int) -> set[int]:
    """The aliases that this one is, with nothing in between."""
    found: set[int] = set()
    waiting = [tree.types[at]]
    while waiting:
        made = waiting.pop()
        for node in made.nodes() if isinstance(made, AliasType) else []:
            for part in node.options if isinstance(node, OneOf) else (node,):
                if isinstance(part, Named) and part.at not in found:
                    found.add(part.at)
                    waiting.append(tree.types[part.at])
    return found


def test_types_are_named_after_what_they_are() -> None:
    schema = {
        **fields(
            customer=fields(a=_TEXT),
            lines={"items": fields(a=_TEXT)},
            by_day={"additionalProperties": fields(a=_TEXT)},
            either={"anyOf": [fields(a=_TEXT), fields(b=_TEXT)]},
            point={"$ref": "#/$defs/geo_point"},
            titled={**fields(a=_TEXT), "title": "Postal address"},
            **{"日本": fields(a=_TEXT), "2nd": fields(a=_TEXT)},
        ),
        "$defs": {"geo_point": {**fields(x=_INTEGER), "title": "Ignored"}},
    }
    assert [made.name for made in read_schema(schema, "Order").types] == [
        "Order", "Customer", "LinesItem", "ByDayValue", "Either1", "Either2", "GeoPoint", "PostalAddress", "Type",
        "T2nd",
    ]  # fmt: skip


def test_no_two_types_have_one_name() -> None:
    schema = fields(a=fields(x=fields(p=_TEXT)), b=fields(x=fields(q=_TEXT)), X2=fields(r=_TEXT))
    names = [made.name for made in read_schema(schema, taken={"A"}).types]
    assert len(names) == len(set(names)) == 6
    assert "A" not in names


def test_descriptions_and_defaults_are_kept() -> None:
    schema = {
        "properties": {
            "a": {"type": "string", "description": " which \n one ", "default": "x"},
            "b": {"type": ["string", "null"], "default": None},
            "c": {"type": "array", "default": list(range(50))},
            "d": {"$ref": "#/$defs/P", "description": "the field's"},
        },
        "description": "the whole",
        "$defs": {"P": {**fields(x=_INTEGER), "description": "the type's"}},
    }
    tree = read_schema(schema)
    made = tree.types[0]
    assert isinstance(made, ObjectType)
    assert [(field.description, field.default) for field in made.fields] == [
        ("which \n one", ("x",)), ("", (None,)), ("", None), ("the field's", None),
    ]  # fmt: skip
    assert (made.description, tree.types[1].description) == ("the whole", "the type's")


def test_option_beside_members_keeps_its_own_description() -> None:
    schema = {**fields(a=_TEXT), "description": "whole", "anyOf": [{**fields(b=_TEXT), "description": "one"}]}
    assert [made.description for made in read_schema(schema).types] == ["one"]


def test_member_of_an_enum_of_the_host_is_not_taken_for_text() -> None:
    class Color(StrEnum):
        RED = "red"

    tree = read_schema(
        {"properties": {Color.RED: {"enum": [Color.RED]}, "b": {"type": "string", "default": Color.RED}}}
    )
    made = tree.types[0]
    assert isinstance(made, ObjectType)
    assert [type(field.name) for field in made.fields] == [str, str]
    assert [(field.type, field.default) for field in made.fields] == [(TEXT, None), (TEXT, None)]


# -- arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "names", "rest"),
    [
        ({"type": "object", "properties": {}}, [], None),
        ({"type": "object", "properties": {}, "additionalProperties": _TEXT}, [], TEXT),
        ({"type": "object"}, [], UNKNOWN),
        (fields(a=_TEXT), ["a"], None),
        ({"$ref": "#/$defs/Point", "$defs": _DEFS}, ["x"], None),
        ({"allOf": [fields(a=_TEXT), fields(b=_TEXT)]}, ["a", "b"], None),
        ({**fields(a=_TEXT), "anyOf": [fields(b=_TEXT), fields(c=_TEXT)]}, ["a", "b?", "c?"], None),
    ],
)
def test_object_is_arguments_by_name(schema: Any, names: list[str], rest: Node | None) -> None:
    found = read_schema(schema, "Args", arguments=True).arguments()
    assert isinstance(found, Arguments)
    assert [field.name + ("" if field.required else "?") for field in found.fields] == names
    assert found.rest == rest


@pytest.mark.parametrize(
    ("schema", "positions"),
    [
        ({"type": "array"}, TupleOf((), 0, UNKNOWN)),
        ({"type": "array", "items": _TEXT}, TupleOf((), 0, TEXT)),
        ({"type": "array", "prefixItems": [_TEXT], "items": False}, TupleOf((TEXT,), 0)),
        ({"type": "array", "items": {"$ref": "#"}}, TupleOf((), 0, Named(0))),
        ({}, None),
        (_TEXT, None),
        ({"anyOf": [fields(a=_TEXT), _TEXT]}, None),
    ],
)
def test_array_is_arguments_by_position_and_nothing_is_anything(schema: Any, positions: TupleOf | None) -> None:
    assert read_schema(schema, "Args", arguments=True).arguments() == positions


# -- bounds -------------------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(schemas)
def test_any_schema_has_a_tree_in_which_every_name_is_defined(schema: Any) -> None:
    for arguments in (False, True):
        tree = read_schema(schema, arguments=arguments)
        every = [tree.root, *(node for made in tree.types for node in made.nodes())]
        assert {at for node in every for at in mentions(node)} <= set(range(len(tree.types)))
        assert len({made.name for made in tree.types}) == len(tree.types)
        tree.arguments()


@pytest.mark.parametrize("name", MONSTROUS)
def test_schema_that_asks_for_too_much_gets_a_small_tree(name: str) -> None:
    tree = read_schema(MONSTROUS[name]())
    every = [tree.root, *(node for made in tree.types for node in made.nodes())]
    assert len(repr(every)) < 200_000
    assert len(tree.types) <= 60
    assert max((len(made.name) for made in tree.types), default=0) < 50
    known = [field for made in tree.types if isinstance(made, ObjectType) for field in made.fields]
    assert len(known) <= 2_000
    assert sum(len(field.name) for field in known) <= 41_000
    assert sum(len(note) for note in [*(f.description for f in known), *(t.description for t in tree.types)]) <= 21_000


def test_descriptions_run_out_before_fields_do() -> None:
    made = read_schema(fields(**{f"k{n}": {**_TEXT, "description": "d" * 300} for n in range(300)})).types[0]
    assert isinstance(made, ObjectType)
    assert made.rest is None
    assert [len(field.description) for field in made.fields] == [300] * 67 + [0] * 233


def test_circle_costs_nothing_of_what_others_need() -> None:
    turn = {"allOf": [{"$ref": "#/$defs/A"}] * 9, "properties": {"x": _TEXT}}
    schema = {**fields(a={"$ref": "#/$defs/A", "minProperties": 1}, b=fields(c=_TEXT)), "$defs": {"A": turn}}
    assert _shape(read_schema(schema)) == {"a": {"x?": "string", "*": "?"}, "b": {"c": "string"}}


class _Counting(Mapping[str, Any]):
    """A schema that counts the looks into it, and ends the test when there are too many."""

    looks = 0

    def __init__(self, items: dict[str, Any]) -> None:
        self._items = items

    def __getitem__(self, key: str) -> Any:
        _Counting.looks += 1
        assert _Counting.looks < 200_000, "the work is not bounded"
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


_WRAPS: dict[str, Callable[[Any], Any]] = {
    "kinds": lambda inner: {"type": ["array"] * 20, "items": inner},
    "options": lambda inner: {"anyOf": [inner] * 20},
    "parts": lambda inner: {"allOf": [inner] * 20},
    "positions": lambda inner: {"prefixItems": [inner] * 20},
    "fields": lambda inner: {"properties": {f"k{n}": inner for n in range(20)}},
    "options beside fields": lambda inner: {"properties": {"a": {}}, "oneOf": [inner] * 20},
}


def test_options_of_options_are_not_all_tried() -> None:
    _Counting.looks = 0
    one, other = _Counting(fields(a=_TEXT)), _Counting(fields(b=_TEXT))
    read_schema({"allOf": [{"anyOf": [one, other]}] * 30})
    assert 0 < _Counting.looks < 200_000


def test_parts_with_many_fields_are_not_read_to_the_end() -> None:
    _Counting.looks = 0
    many = _Counting({f"k{n}": _TEXT for n in range(5_000)})
    read_schema({"allOf": [{"properties": many}] * 90})
    assert 0 < _Counting.looks < 200_000


@pytest.mark.parametrize("name", _WRAPS)
def test_small_schema_cannot_ask_for_endless_work(name: str) -> None:
    _Counting.looks = 0
    read_schema(nested(12, lambda inner: _Counting(_WRAPS[name](inner))))
    assert 0 < _Counting.looks < 200_000


def test_object_with_too_many_fields_says_that_there_are_more() -> None:
    tree = read_schema(fields(**{f"k{n}": _TEXT for n in range(10_000)}))
    made = tree.types[0]
    assert isinstance(made, ObjectType)
    assert 0 < len(made.fields) < 1000
    assert made.rest == UNKNOWN


def test_key_that_no_type_can_have_is_among_the_others() -> None:
    for key in ("", "k" * 300, 5):
        assert _shape(read_schema({"properties": {key: _TEXT, "a": _TEXT}})) == {"a?": "string", "*": "?"}


def test_schema_that_is_too_large_loses_its_depths_first() -> None:
    wide = fields(**{f"k{n}": fields(**{f"j{m}": fields(x=_TEXT) for m in range(20)}) for n in range(50)}, last=_TEXT)
    made = read_schema(wide).types[0]
    assert isinstance(made, ObjectType)
    assert (made.fields[-1].name, made.fields[-1].type) == ("last", TEXT)


# -- parts --------------------------------------------------------------------------------------------------------


def test_union_keeps_what_json_tells_apart() -> None:
    parts = [ListOf(Constant("integer", 1)), ListOf(Constant("boolean", True)), ListOf(Constant("number", 1.0))]
    assert one_of(parts) == OneOf(tuple(parts))
    assert one_of([]) == UNKNOWN


@pytest.mark.parametrize(
    ("value", "node", "does"),
    [
        ("a", TEXT, True), (5, TEXT, False), (None, TEXT, False), (5, NUMBER, True), (5.5, INTEGER, False),
        (True, INTEGER, False), (True, Plain("boolean"), True), (1, Constant("boolean", True), False),
        (True, Constant("boolean", True), True), (None, OneOf((TEXT, NULL)), True), ([], ListOf(TEXT), True),
        (["a", 1], ListOf(TEXT), False), ({"a": 1}, MapOf(INTEGER), True), ({"a": "b"}, MapOf(INTEGER), False),
        ({}, Named(0), False), ([], TupleOf((TEXT,), 0), False), ([1], UNKNOWN, True), ([], TEXT, False),
    ],
)  # fmt: skip
def test_default_fits_only_what_it_surely_is(value: Any, node: Node, does: bool) -> None:
    assert fits(value, node) is does
