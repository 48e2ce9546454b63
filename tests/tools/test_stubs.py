"""Stubs: whatever the schema, valid Python comes out; what can be said is said."""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.capability import Capability
from cloister.tools.stubs import HEADER, python_stub, signature_text
from tests.core.json_values import json_objects, json_values, text

_WORDS = "string integer number boolean null array object any".split()


def _keywords(children: "st.SearchStrategy[Any]") -> "st.SearchStrategy[Any]":
    """Schemas that mean something, with nonsense mixed in."""
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(_WORDS) | st.lists(st.sampled_from(_WORDS), max_size=3) | json_values,
            "properties": st.dictionaries(text | st.sampled_from(["a", "b_c", "class"]), children, max_size=3)
            | json_values,
            "required": st.lists(text | st.sampled_from(["a", "b_c"]), max_size=2) | json_values,
            "items": children | json_values,
            "prefixItems": st.lists(children, max_size=2) | json_values,
            "additionalProperties": children | st.booleans(),
            "anyOf": st.lists(children, max_size=3) | json_values,
            "oneOf": st.lists(children, max_size=3),
            "allOf": st.lists(children, max_size=2) | json_values,
            "enum": st.lists(json_values, max_size=3) | json_values,
            "const": json_values,
            "default": json_values,
            "description": text,
            "$ref": st.sampled_from(["#", "#/", "#/$defs/A", "#/properties/a", "http://x/y", "#/~1/~0"]) | json_values,
            "$defs": st.dictionaries(st.sampled_from(["A", "B"]), children, max_size=2),
        },
    )


schemas: "st.SearchStrategy[Any]" = st.recursive(json_objects, _keywords, max_leaves=5)


def _capability(input_schema: Any, output_schema: Any = None, **more: Any) -> Capability:
    return Capability("get_it", input_schema=input_schema, output_schema=output_schema or {}, **more)


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


@settings(max_examples=150, deadline=None)
@given(schemas, schemas, st.text(max_size=20))
def test_stub_of_any_schema_is_valid_python(input_schema: Any, output_schema: Any, description: str) -> None:
    stub = python_stub(_capability(input_schema, output_schema, description=description))
    tree = ast.parse(HEADER + stub)
    assert [node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef)] == ["get_it"]


@settings(max_examples=60, deadline=None)
@given(schemas, schemas)
def test_signature_of_any_schema_is_one_valid_line(input_schema: Any, output_schema: Any) -> None:
    line = signature_text(_capability(input_schema, output_schema))
    assert "\n" not in line
    ast.parse(f"{line}: ...")


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}_x", fullmatch=True), st.sampled_from(_WORDS), max_size=5))
def test_stub_has_the_parameters_of_the_schema_in_order(kinds: dict[str, str]) -> None:
    stub = python_stub(_capability(_object(**{name: {"type": kind} for name, kind in kinds.items()})))
    found = next(node for node in ast.walk(ast.parse(stub)) if isinstance(node, ast.AsyncFunctionDef))
    assert [arg.arg for arg in found.args.args] == list(kinds)


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        ({"type": "string"}, "str"),
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "float"),
        ({"type": "boolean"}, "bool"),
        ({"type": "null"}, "None"),
        ({}, "Any"),
        (True, "Any"),
        ({"type": "array", "items": {"type": "string"}}, "list[str]"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, "list[str | int]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str | None"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"anyOf": [{"type": "string"}, {}]}, "Any"),
        ({"enum": ["a", "b"]}, "Literal['a', 'b']"),
        ({"enum": [1.5]}, "Any"),
        ({"const": "a"}, "Literal['a']"),
        ({"allOf": [{"type": "string"}]}, "str"),
        ({"$ref": "#/$defs/Id"}, "str"),
        ({"$ref": "#/$defs/Gone"}, "Any"),
        ({"$ref": "https://example.com/schema"}, "Any"),
    ],
)
def test_schema_is_said_as_a_type(schema: Any, made: str) -> None:
    whole = {**_object(x=schema), "$defs": {"Id": {"type": "string"}}}
    assert signature_text(_capability(whole)) == f"def get_it(x: {made}) -> Any"


def test_parameter_that_may_be_left_out_comes_last_with_its_default() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "default": 5},
            "b": {"type": "string"},
            "c": {"type": "array", "default": []},
        },
        "required": ["b"],
    }
    assert signature_text(_capability(schema)) == "def get_it(b: str, a: int = 5, c: list[Any] = ...) -> Any"


def test_positional_schema_takes_anything() -> None:
    assert signature_text(Capability("get_it")) == "def get_it(*args: Any) -> Any"


def test_parameter_that_cannot_be_written_makes_the_whole_open() -> None:
    for name in ("a-b", "class", ""):
        assert signature_text(_capability(_object(**{name: {}}))) == "def get_it(**kwargs: Any) -> Any"


def test_result_that_is_an_object_becomes_a_typed_dict_with_its_keys() -> None:
    schema = {
        "type": "object",
        "properties": {"id": {"type": "string"}, "a-b": {"type": "integer"}},
        "required": ["id"],
    }
    stub = python_stub(_capability(_object(), schema))
    made = next(node for node in ast.walk(ast.parse(stub)) if isinstance(node, ast.Dict))
    rows = {ast.literal_eval(key): ast.unparse(value) for key, value in zip(made.keys, made.values, strict=True) if key}
    assert rows == {"id": "str", "a-b": "NotRequired[int]"}


@pytest.mark.parametrize("key", ["é", "\U0001f600", 'a"b', "a\nb", "\\u0041"])
def test_key_of_any_text_is_kept_as_it_is(key: str) -> None:
    stub = python_stub(_capability(_object(), _object(**{key: {"type": "string"}})))
    made = next(node for node in ast.walk(ast.parse(stub)) if isinstance(node, ast.Dict))
    assert [ast.literal_eval(name) for name in made.keys if name] == [key]


def test_description_is_kept_as_the_docstring() -> None:
    stub = python_stub(_capability(_object(), description='Says "hello".\nTwice.'))
    found = next(node for node in ast.walk(ast.parse(stub)) if isinstance(node, ast.AsyncFunctionDef))
    assert ast.get_docstring(found) == 'Says "hello".\nTwice.'


def test_recursive_schema_ends() -> None:
    node = _object(value={"type": "integer"}, next={"$ref": "#/$defs/Node"})
    stub = python_stub(_capability({**_object(x={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}))
    ast.parse(stub)


def test_schema_that_refers_to_itself_alone_is_anything() -> None:
    schema = {**_object(x={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/A"}}}
    assert signature_text(_capability(schema)) == "def get_it(x: Any) -> Any"


def test_very_deep_schema_is_cut() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(3000):
        schema = {"type": "array", "items": schema}
    assert len(signature_text(_capability(_object(x=schema)))) < 500


def test_very_wide_schema_stays_small() -> None:
    wide = _object(**{f"k{n}": _object(**{f"j{m}": {"type": "string"} for m in range(10)}) for n in range(500)})
    assert python_stub(_capability(_object(), wide)).count("TypedDict(") <= 50


class _Counting(Mapping[str, Any]):
    """A schema that counts the looks into it, and ends the test when there are too many."""

    looks = 0

    def __init__(self, items: dict[str, Any]) -> None:
        self._items = items

    def __getitem__(self, key: str) -> Any:
        _Counting.looks += 1
        assert _Counting.looks < 100_000, "the work is not bounded"
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


def test_small_schema_cannot_ask_for_endless_work() -> None:
    _Counting.looks = 0
    schema: Any = _Counting({"type": "string"})
    for _ in range(10):
        # Each level names twenty kinds, and each kind looks into the next level.
        schema = _Counting({"type": ["array"] * 20, "items": schema})
    ast.parse(python_stub(_capability(_object(x=schema))))
    assert 0 < _Counting.looks < 100_000


def test_two_objects_of_one_tool_are_two_types() -> None:
    schema = _object(a_b=_object(x={"type": "string"}), a=_object(b=_object(y={"type": "integer"})))
    tree = ast.parse(python_stub(_capability(_object(), schema)))
    names = [ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign)]
    assert len(names) == len(set(names)) == 4
