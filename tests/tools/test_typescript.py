"""TypeScript declarations: whatever the schema, TypeScript comes out; and signatures for hints."""

import re
from typing import Any, Literal

import pytest
from hypothesis import given, settings

from cloister.core.capability import Capability
from cloister.tools import Tool
from cloister.tools.typescript import typescript_signature, typescript_stub, typescript_stubs
from tests.tools.schemas import HOSTILE, MONSTROUS, capability_schemas, fields, texts
from tests.tools.typescript_parser import declared, parse

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}


def _capability(input_schema: Any, output_schema: Any = None, **more: Any) -> Capability:
    return Capability("get_it", input_schema=input_schema, output_schema=output_schema or {}, **more)


def _declaration(input_schema: Any, output_schema: Any = None) -> str:
    return typescript_stub(_capability(input_schema, output_schema)).split("declare function ")[-1].strip()


# -- any schema ---------------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(capability_schemas, capability_schemas, texts)
def test_stub_of_any_schema_is_typescript(input_schema: Any, output_schema: Any, description: str) -> None:
    names = declared(typescript_stub(_capability(input_schema, output_schema, description=description)))
    assert names[-1] == "function get_it"
    assert all(name.startswith(("interface get_it_", "type get_it_")) for name in names[:-1]), "a text broke out"
    assert len(names) == len(set(names))


@settings(max_examples=40)
@given(capability_schemas, capability_schemas)
def test_every_type_in_a_stub_is_defined(input_schema: Any, output_schema: Any) -> None:
    stub = typescript_stub(_capability(input_schema, output_schema))
    made = {name.split()[1] for name in declared(stub)[:-1]}
    used: set[str] = set()
    waiting = [parse(stub)]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        if node.type == "type_identifier" and node.text:
            used.add(node.text.decode())
    assert used - {"Promise"} == made


@settings(max_examples=40)
@given(capability_schemas, capability_schemas)
def test_signature_of_any_schema_is_one_line(input_schema: Any, output_schema: Any) -> None:
    line = typescript_signature(_capability(input_schema, output_schema))
    assert line.startswith("get_it(")
    assert line.isprintable()


@pytest.mark.parametrize("name", MONSTROUS)
def test_schema_that_asks_for_too_much_gets_a_small_stub(name: str) -> None:
    schema = MONSTROUS[name]()
    stub = typescript_stub(_capability({**schema, "type": "object"}, schema))
    parse(stub)
    assert len(stub) < 300_000
    assert len(typescript_signature(_capability(schema, schema))) < 5_000


# -- types --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        (_TEXT, "string"),
        ({"type": "integer"}, "number"),
        (_NUMBER, "number"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "null"}, "null"),
        ({}, "unknown"),
        ({"type": "array"}, "unknown[]"),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "(string | null)[]"),
        ({"prefixItems": [_TEXT, _NUMBER], "minItems": 1, "maxItems": 2}, "[string, number?]"),
        ({"prefixItems": [_TEXT], "minItems": 1, "items": {"enum": [1, 2]}}, "[string, ...(1 | 2)[]]"),
        ({"prefixItems": [{"type": ["string", "null"]}], "items": False}, "[(string | null)?]"),
        ({"type": "object"}, "{[key: string]: unknown}"),
        ({"type": "object", "additionalProperties": _NUMBER}, "{[key: string]: number}"),
        ({"anyOf": [_TEXT, {"type": "null"}]}, "string | null"),
        ({"anyOf": [{"type": "integer"}, _TEXT, _NUMBER]}, "string | number"),
        ({"enum": ["a", 1, 1.5, -2, True, None]}, '"a" | 1 | 1.5 | -2 | true | null'),
        ({"const": 'a"b\n'}, '"a\\"b\\n"'),
        ({"const": 1e300}, "1e+300"),
        ({"const": float("inf")}, "number"),
    ],
)
def test_schema_is_said_as_a_type(schema: Any, made: str) -> None:
    assert _declaration(fields(x=schema), schema) == f"get_it(args: {{x: {made}}}): Promise<{made}>;"
    assert typescript_signature(_capability(fields(x=schema), schema)) == f"get_it({{x: {made}}}): Promise<{made}>"


def test_object_becomes_an_interface() -> None:
    schema: dict[str, Any] = {
        "title": "Order",
        "description": "An order.",
        "properties": {
            "id": {"type": "string", "description": "Which\none."},
            "a-b": _NUMBER,
            "class": _TEXT,
            "lines": {"type": "array", "items": {**fields(sku=_TEXT), "title": "Line"}},
        },
        "required": ["id", "lines"],
        "additionalProperties": _NUMBER,
    }
    assert typescript_stub(_capability(fields(), schema, description="Look it up.\nQuickly.")) == (
        "/** An order. */\n"
        "interface get_it_Order {\n"
        "  /** Which one. */\n"
        "  id: string;\n"
        '  "a-b"?: number;\n'
        "  class?: string;\n"
        "  lines: get_it_Line[];\n"
        "  [key: string]: unknown;\n"
        "}\n"
        "interface get_it_Line {\n"
        "  sku: string;\n"
        "}\n"
        "/**\n * Look it up.\n * Quickly.\n */\n"
        "declare function get_it(): Promise<get_it_Order>;\n"
    )


def test_recursive_types_are_said() -> None:
    node = fields(value=_NUMBER, next={"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]})
    value = {"anyOf": [_TEXT, {"type": "array", "items": {"$ref": "#/$defs/Value"}}]}
    schema = {
        **fields(n={"$ref": "#/$defs/Node"}, v={"$ref": "#/$defs/Value"}),
        "$defs": {"Node": node, "Value": value},
    }
    stub = typescript_stub(_capability(fields(), schema))
    assert "  next: get_it_Node | null;\n" in stub
    assert "type get_it_Value = string | get_it_Value[];\n" in stub
    hint = "{value: number, next: object | null}, v: string | unknown[]}"
    assert typescript_signature(_capability(fields(), schema)) == f"get_it(): Promise<{{n: {hint}>"


@pytest.mark.parametrize("key", ["é", "a-b", "1a", *HOSTILE])
def test_key_that_is_no_identifier_is_quoted(key: str) -> None:
    assert re.search(
        r'^  "[^\n]*": string;$', typescript_stub(_capability(fields(), fields(**{key: _TEXT}))), re.MULTILINE
    )


# -- parameters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "parameters"),
    [
        ({"type": "array"}, "...args: unknown[]"),
        ({"type": "array", "items": _TEXT}, "...args: string[]"),
        ({"prefixItems": [_TEXT, _NUMBER], "minItems": 1, "items": False}, "...args: [string, number?]"),
        ({}, "...args: unknown[]"),
        (fields(), ""),
        ({"type": "object"}, "args?: {[key: string]: unknown}"),
        ({"type": "object", "additionalProperties": _TEXT}, "args?: {[key: string]: string}"),
        (fields(a=_TEXT, b=_NUMBER), "args: {a: string; b: number}"),
        ({**fields(a=_TEXT), "properties": {"a": _TEXT, "b": _NUMBER}}, "args: {a: string; b?: number}"),
        ({"properties": {"a": _TEXT}}, "args?: {a?: string}"),
        ({**fields(a=_TEXT), "additionalProperties": True}, "args: {a: string; [key: string]: unknown}"),
        ({**fields(a=_TEXT), "anyOf": [fields(b=_TEXT), fields(c=_TEXT)]}, "args: {a: string; b?: string; c?: string}"),
    ],
)
def test_schema_is_said_as_parameters(schema: Any, parameters: str) -> None:
    assert _declaration(schema) == f"get_it({parameters}): Promise<unknown>;"


def test_parameters_are_described_with_their_defaults() -> None:
    schema = fields(a={**_TEXT, "description": "Which\none."})
    schema["properties"] |= {
        "b": {**_NUMBER, "default": 5},
        "c": {"description": "Some.", "default": ["x", {}]},
        "d": {},
    }
    schema["properties"]["c"]["default"] = ["x", None]
    assert typescript_stub(_capability(schema)).startswith(
        "/**\n * @param args.a Which one.\n * @param args.b Default: 5.\n"
        ' * @param args.c Some. Default: ["x", null].\n */\ndeclare function get_it('
    )


def test_very_long_description_is_cut() -> None:
    assert len(typescript_stub(_capability(fields(), description="d" * 1_000_000))) < 5_000


# -- many tools ---------------------------------------------------------------------------------------------------


def _tool(name: str) -> Capability:
    space, _, last = name.rpartition(".")
    return Capability(
        last, space or None, input_schema=fields(a=_TEXT), output_schema={**fields(b=_TEXT), "title": "Order"}
    )


def test_tools_are_reached_alone_in_their_namespace_and_through_tools() -> None:
    made = typescript_stubs([_tool("get_order"), _tool("shop.buy"), _tool("shop.sell")])
    assert declared(made) == ["interface get_order_Order", "function get_order", "namespace shop", "const tools"]
    assert "\n  function buy(args: {a: string}): Promise<buy_Order>;\n" in made
    assert made.endswith("declare const tools: {\n  get_order: typeof get_order;\n  shop: typeof shop;\n};\n")


def test_name_that_means_something_else_is_reached_through_tools_only() -> None:
    made = typescript_stubs([_tool(name) for name in ("delete", "Map", "tools", "shop.new", "shop.Map", "default.buy")])
    assert declared(made) == [
        "namespace shop", "interface delete_Order", "interface Map_Order", "interface tools_Order",
        "interface shop$new_Order", "interface default$buy_Order", "const tools",
    ]  # fmt: skip
    assert made.endswith(
        "declare const tools: {\n"
        "  delete(args: {a: string}): Promise<delete_Order>;\n"
        "  Map(args: {a: string}): Promise<Map_Order>;\n"
        "  tools(args: {a: string}): Promise<tools_Order>;\n"
        "  shop: typeof shop & {\n"
        '    "new"(args: {a: string}): Promise<shop$new_Order>;\n'
        "  };\n"
        "  default: {\n"
        "    buy(args: {a: string}): Promise<default$buy_Order>;\n"
        "  };\n"
        "};\n"
    )
    alone = typescript_stub(_tool("delete"))
    assert declared(alone) == ["interface delete_Order", "const tools"]
    assert typescript_signature(_tool("delete")).startswith("tools.delete({a: string})")
    assert typescript_signature(_tool("default.buy")).startswith("tools.default.buy({a: string})")


def test_types_of_two_tools_do_not_meet() -> None:
    tools = [_tool(name) for name in ("a", "a_b", "A", "shop.a", "shop_a", "new.a", "new_a", "shop.delete")]
    made = typescript_stubs(tools)
    names = declared(made)
    assert len(names) == len(set(names))
    assert made.count("interface ") == len(tools)


# -- hints --------------------------------------------------------------------------------------------------------


def test_parameters_are_written_as_one_object() -> None:
    def find(
        order_id: str, kinds: list[Literal["a", "b"]], limit: int = 10, note: str | None = None
    ) -> dict[str, float]:
        return {}

    assert typescript_signature(Tool(find, namespace="shop").capability) == (
        'shop.find({order_id: string, kinds: ("a" | "b")[], limit?: number, note?: string | null}): '
        "Promise<{[key: string]: number}>"
    )


def test_tool_without_parameters_takes_none() -> None:
    def ping() -> str:
        return "pong"

    assert typescript_signature(Tool(ping).capability) == "ping(): Promise<string>"


def test_object_in_a_hint_is_written_out() -> None:
    deep = fields(a=fields(b=fields(c=fields(d=fields(e=_TEXT)))))
    assert typescript_signature(_capability(fields(x=deep))) == "get_it({x: {a: {b: {c: object}}}}): Promise<unknown>"


def test_hint_of_a_small_schema_cannot_ask_for_endless_work(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def counted(name: str) -> str:
        written.append(name)
        return name

    monkeypatch.setattr("cloister.tools.typescript._key", counted)
    defs = {f"T{n}": fields(**{f"k{m}": {"$ref": f"#/$defs/T{n + 1}"} for m in range(60)}) for n in range(4)}
    typescript_signature(_capability(fields(), {"$ref": "#/$defs/T0", "$defs": {**defs, "T4": fields(a=_TEXT)}}))
    assert 0 < len(written) < 10_000
