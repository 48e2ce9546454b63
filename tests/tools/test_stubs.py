"""Python stubs: whatever the schema, valid Python comes out; what can be said is said."""

import ast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.capability import Capability
from cloister.tools.stubs import HEADER, WORDS, header, python_stub, signature_text
from tests.tools.schemas import HOSTILE, KINDS, MONSTROUS, capability_schemas, fields, texts

_TEXT = {"type": "string"}
_INTEGER = {"type": "integer"}


def _capability(input_schema: Any, output_schema: Any = None, **more: Any) -> Capability:
    return Capability("get_it", input_schema=input_schema, output_schema=output_schema or {}, **more)


def _read(stub: str) -> ast.Module:
    compile(HEADER + stub, "stub", "exec", dont_inherit=True)
    return ast.parse(stub)


def _function(stub: str) -> ast.AsyncFunctionDef:
    return next(node for node in _read(stub).body if isinstance(node, ast.AsyncFunctionDef))


def _types(stub: str) -> dict[str, dict[str, str]]:
    """The TypedDicts of a stub, however they are written, and what their keys hold."""
    out: dict[str, dict[str, str]] = {}
    for node in _read(stub).body:
        match node:
            case ast.ClassDef(name, body=body):
                rows = [row for row in body if isinstance(row, ast.AnnAssign)]
                out[name] = {ast.unparse(row.target): ast.unparse(row.annotation) for row in rows}
            case ast.Assign([ast.Name(name)], ast.Call(args=[_, ast.Dict(keys, values)])):
                out[name] = {
                    str(ast.literal_eval(key)): ast.unparse(value)
                    for key, value in zip(keys, values, strict=True)
                    if key is not None
                }
            case _:
                pass
    return out


# -- any schema ---------------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(capability_schemas, capability_schemas, texts)
def test_stub_of_any_schema_is_valid_python(input_schema: Any, output_schema: Any, description: str) -> None:
    stub = python_stub(_capability(input_schema, output_schema, description=description))
    functions = [node.name for node in _read(stub).body if isinstance(node, ast.AsyncFunctionDef)]
    assert functions == ["get_it"]
    allowed = (ast.AsyncFunctionDef, ast.ClassDef, ast.Assign)
    assert all(isinstance(node, allowed) for node in _read(stub).body), "a text broke out"
    stub.encode()


@settings(max_examples=40)
@given(capability_schemas, capability_schemas)
def test_every_name_in_a_stub_is_defined(input_schema: Any, output_schema: Any) -> None:
    tree = _read(python_stub(_capability(input_schema, output_schema)))
    known = {node.name for node in ast.walk(tree) if isinstance(node, (ast.AsyncFunctionDef, ast.ClassDef))}
    known |= {ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert used <= known | WORDS.keys()


@settings(max_examples=40)
@given(capability_schemas, capability_schemas)
def test_signature_of_any_schema_is_one_valid_line(input_schema: Any, output_schema: Any) -> None:
    line = signature_text(_capability(input_schema, output_schema))
    assert "\n" not in line
    compile(f"{line}: ...", "line", "exec")


@pytest.mark.parametrize("name", MONSTROUS)
def test_schema_that_asks_for_too_much_gets_a_small_stub(name: str) -> None:
    schema = MONSTROUS[name]()
    stub = python_stub(_capability({**schema, "type": "object"}, schema))
    _read(stub)
    assert len(stub) < 300_000
    assert len(signature_text(_capability(schema, schema))) < 5_000


# -- types --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "given", "returned"),
    [
        (_TEXT, "str", "str"),
        (_INTEGER, "int", "int"),
        ({"type": "number"}, "float", "float"),
        ({"type": "boolean"}, "bool", "bool"),
        ({"type": "null"}, "None", "None"),
        ({}, "Any", "Any"),
        ({"type": "array", "items": _TEXT}, "list[str]", "list[str]"),
        ({"type": "array", "items": {"type": "number"}}, "Sequence[float]", "list[float]"),
        ({"type": "array"}, "list[Any]", "list[Any]"),
        ({"type": "object"}, "Mapping[str, Any]", "dict[str, Any]"),
        ({"type": "object", "additionalProperties": _INTEGER}, "Mapping[str, int]", "dict[str, int]"),
        (
            {"prefixItems": [_TEXT, _INTEGER], "minItems": 2, "maxItems": 2},
            "tuple[str, int] | list[str | int]",
            "tuple[str, int]",
        ),
        ({"prefixItems": [_INTEGER] * 2, "minItems": 2, "maxItems": 2}, "Sequence[int]", "tuple[int, int]"),
        ({"prefixItems": [_TEXT, _INTEGER]}, "list[Any]", "list[Any]"),
        ({"prefixItems": [_TEXT, _INTEGER], "maxItems": 2}, "list[str | int]", "list[Any]"),
        ({"prefixItems": [_INTEGER, _INTEGER], "items": _INTEGER}, "Sequence[int]", "list[int]"),
        ({"anyOf": [_TEXT, {"type": "null"}]}, "str | None", "str | None"),
        ({"enum": ["a", "b", None, 1, True]}, *["Literal['a', 'b', 1, True] | None"] * 2),
        ({"enum": [1.5, "a"]}, "float | Literal['a']", "float | Literal['a']"),
        ({"const": "a"}, "Literal['a']", "Literal['a']"),
    ],
)
def test_schema_is_said_as_a_type(schema: Any, given: str, returned: str) -> None:
    found = _function(python_stub(_capability(fields(x=schema), schema)))
    assert (found.args.args[0].annotation, found.returns) != (None, None)
    assert (ast.unparse(found.args.args[0].annotation or found), ast.unparse(found.returns or found)) == (
        given,
        returned,
    )
    # A hint shows how a value looks, not what else is taken.
    assert signature_text(_capability(fields(x=schema))) == f"def get_it(x: {returned}) -> Any"


def test_object_becomes_a_typed_dict_with_its_keys() -> None:
    schema = {
        **fields(id={**_TEXT, "description": "Which\none."}),
        "properties": {"id": {**_TEXT, "description": "Which\none."}, "total": _INTEGER},
        "description": 'An "order".',
        "title": "Order",
    }
    stub = python_stub(_capability(fields(), schema))
    assert stub == (
        'class _get_it_Order(TypedDict, closed=True):\n    """An \\"order\\"."""\n'.replace('\\"', '"')
        + "    id: str  # Which one.\n"
        "    total: NotRequired[int]\n"
        "async def get_it() -> _get_it_Order: ...\n"
    )


@pytest.mark.parametrize("key", ["é", "a-b", "class", "__x", "str", "list", "Any", "__debug__", *HOSTILE])
def test_key_of_any_text_is_kept_as_it_is(key: str) -> None:
    schema = fields(**{key: {**_TEXT, "description": '# */ """\n'}, "other": {"type": "array", "items": _TEXT}})
    stub = python_stub(_capability(fields(), schema))
    assert _types(stub) == {"_get_it_Result": {key: "str", "other": "list[str]"}}
    # As an attribute of a class it would be an error, or mean something else.
    assert not [node for node in _read(stub).body if isinstance(node, ast.ClassDef)]


def test_other_keys_are_said_where_they_are_allowed() -> None:
    open_, odd = {**fields(a=_TEXT), "additionalProperties": _INTEGER}, {**fields(**{"a-b": _TEXT}), "title": "Odd"}
    stub = python_stub(_capability(fields(), fields(open=open_, odd={**odd, "additionalProperties": True})))
    assert "class _get_it_Open(TypedDict, extra_items=int):" in stub
    assert "}, extra_items=Any)\n" in stub


def test_results_are_closed_and_arguments_are_only_read() -> None:
    schema = {
        **fields(a=_TEXT),
        "properties": {"a": _TEXT, "b": {"type": "array", "items": _INTEGER}},
        "title": "Order",
    }
    assert python_stub(_capability(fields(x=schema), schema)) == (
        "class _get_it_Order2(TypedDict):\n"
        "    a: ReadOnly[str]\n"
        "    b: NotRequired[ReadOnly[Sequence[int]]]\n"
        "class _get_it_Order(TypedDict, closed=True):\n"
        "    a: str\n"
        "    b: NotRequired[list[int]]\n"
        "async def get_it(x: _get_it_Order2) -> _get_it_Order: ...\n"
    )


def test_recursive_types_are_said() -> None:
    node = fields(value=_INTEGER, next={"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]})
    value = {"anyOf": [_TEXT, {"type": "array", "items": {"$ref": "#/$defs/Value"}}]}
    defs = {"Node": node, "Value": value}
    stub = python_stub(
        _capability(fields(), {**fields(n={"$ref": "#/$defs/Node"}, v={"$ref": "#/$defs/Value"}), "$defs": defs})
    )
    assert _types(stub)["_get_it_Node"] == {"value": "int", "next": "_get_it_Node | None"}
    assert "_get_it_Value = TypeAliasType('_get_it_Value', str | list[_get_it_Value])\n" in stub


def test_types_of_arguments_and_of_the_result_do_not_meet() -> None:
    order = {"$ref": "#/$defs/Order"}
    taken = {**fields(order=order), "$defs": {"Order": fields(a=_TEXT)}}
    returned = {**order, "$defs": {"Order": fields(b=_TEXT)}}
    assert _types(python_stub(_capability(taken, returned))) == {
        "_get_it_Order": {"b": "str"},
        "_get_it_Order2": {"a": "ReadOnly[str]"},
    }


def test_types_of_two_tools_do_not_meet() -> None:
    schema = {**fields(x=fields(y=_TEXT)), "title": "C"}
    names = [
        name
        for tool in ("a", "a_b", "a_C", "A", "a_b_C")
        for name in _types(python_stub(Capability(tool, output_schema={**schema, "title": "b_C"})))
    ]
    assert len(names) == len(set(names)) == 10


# -- parameters ---------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}_x", fullmatch=True), st.sampled_from(KINDS), max_size=5))
def test_stub_has_the_parameters_of_the_schema_in_order(kinds: dict[str, str]) -> None:
    found = _function(python_stub(_capability(fields(**{name: {"type": kind} for name, kind in kinds.items()}))))
    assert [arg.arg for arg in found.args.args] == list(kinds)


def _optional(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "parameters"),
    [
        ({"type": "array"}, "*args: Any"),
        ({"type": "array", "items": _TEXT}, "*args: str"),
        ({"prefixItems": [_TEXT, _INTEGER], "minItems": 1, "items": False}, "arg1: str, arg2: int = ..., /"),
        ({"prefixItems": [_TEXT], "minItems": 1}, "arg1: str, /, *args: Any"),
        ({}, "*args: Any, **kwargs: Any"),
        ({"type": "object"}, "**kwargs: Any"),
        (fields(), ""),
        ({**fields(a=_TEXT), "additionalProperties": _INTEGER}, "a: str, **kwargs: int"),
        ({**fields(kwargs=_TEXT), "additionalProperties": True}, "kwargs: str, **kwargs_: Any"),
        # names that cannot be written
        (fields(**{"a-b": _TEXT}), "**kwargs: Any"),
        (fields(**{"class": _TEXT, "b": _TEXT}), "b: str, **kwargs: Any"),
        (fields(**dict.fromkeys(["ﬁ", "fi", "__debug__"], _TEXT)), "fi: str, **kwargs: Any"),
        # what may be left out
        (_optional(a={**_INTEGER, "default": 5}), "a: int = 5"),
        (_optional(a=_INTEGER), "a: int = ..."),
        (_optional(a={"type": ["string", "null"], "default": None}), "a: str | None = None"),
        (_optional(a={"type": "array", "items": _INTEGER, "default": [1, 2]}), "a: list[int] = [1, 2]"),
        (_optional(a={"enum": ["x", "y"], "default": "x"}), "a: Literal['x', 'y'] = 'x'"),
        (_optional(a={"type": "object", "default": {}}), "a: dict[str, Any] = {}"),
        # a default of another type is not one that a checker would take
        (_optional(a={**_TEXT, "default": None}), "a: str = ..."),
        (_optional(a={**_INTEGER, "default": True}), "a: int = ..."),
        (_optional(a={"type": "number", "default": float("nan")}), "a: float = ..."),
        (_optional(a={"default": 10**5000}), "a: Any = ..."),
        (_optional(a={"default": "x" * 5000}), "a: Any = ..."),
        # the order stays: what is required after what is not is given by name
        ({**_optional(x=_TEXT, a={**_INTEGER, "default": 5}, b=_TEXT), "required": ["x", "b"]},
         "x: str, *, a: int = 5, b: str"),
    ],
)  # fmt: skip
def test_schema_is_said_as_parameters(schema: Any, parameters: str) -> None:
    assert signature_text(_capability(schema)) == f"def get_it({parameters}) -> Any"


def test_tool_named_like_a_type_leaves_the_types_alone() -> None:
    for name in WORDS:
        stub = python_stub(Capability(name, input_schema=fields(x={"enum": [1, "a", 1.5]}), output_schema=fields(
            a={"type": "array", "items": _TEXT}, b={"type": "object"}, c={}, d={"type": ["boolean", "integer"]},
        )))  # fmt: skip
        tree = ast.parse(stub)
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
        compile(header([name]) + stub, "stub", "exec")
        imported = {
            alias.asname for node in ast.walk(ast.parse(header([name]))) for alias in getattr(node, "names", ())
        }
        used = {
            node.value.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        assert used <= imported
    assert header(["get_it"]) == HEADER


def test_type_does_not_take_the_name_of_a_tool_of_the_same_file() -> None:
    names = frozenset({"get_it", "_get_it_Result"})
    types = _types(python_stub(_capability(fields(), fields(a=_TEXT)), names))
    assert list(types) == ["_get_it_Result_"]


# -- documentation ------------------------------------------------------------------------------------------------


def test_description_is_kept_as_the_docstring() -> None:
    stub = python_stub(_capability(fields(), description='Says "hello".\nTwice.'))
    assert ast.get_docstring(_function(stub)) == 'Says "hello".\nTwice.'


def test_parameters_are_described_unless_the_description_does() -> None:
    schema = fields(a={**_TEXT, "description": "Which\none."}, b={**_TEXT, "description": "How many."}, c=_TEXT)
    stub = python_stub(_capability(schema, description="Finds it.\n\nArgs:\n    b: How many."))
    assert ast.get_docstring(_function(stub)) == "Finds it.\n\nArgs:\n    b: How many.\n\nArgs:\n    a: Which one."


def test_very_long_description_is_cut() -> None:
    assert len(python_stub(_capability(fields(), description="d" * 1_000_000))) < 5_000
