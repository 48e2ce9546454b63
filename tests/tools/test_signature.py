"""A function's hints as JSON Schema, and a program's arguments bound to them."""

import dataclasses
import datetime
import enum
import functools
import sys
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Optional, cast

import pytest
from hypothesis import given
from pydantic import BaseModel, Field

# Python 3.11: its own TypedDict does not tell pydantic which keys may be missing.
from typing_extensions import Doc, TypedDict

from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.tools.parameters import Parameters
from cloister.tools.signature import BadArguments, Signature
from tests.core.json_values import json_objects, json_values
from tests.tools import postponed


def _signature(handler: Callable[..., Any], **notes: str) -> Signature:
    return Signature(Parameters(handler, "it"), notes)


def _bound(handler: Callable[..., Any], **arguments: Json) -> dict[str, Any]:
    bound = _signature(handler).bind(arguments)
    assert bound.args == ()
    return bound.kwargs


def _property(handler: Callable[..., Any], name: str = "x") -> dict[str, Any]:
    return _signature(handler).input_schema["properties"][name]


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Address(TypedDict):
    city: str
    street: NotRequired[str]


class Order(BaseModel):
    id: str
    total: float = 0.0


class Colour(enum.Enum):
    RED = "red"


def text(x: str) -> None: ...
def whole(x: int) -> None: ...
def number(x: float) -> None: ...
def truth(x: bool) -> None: ...
def many(x: list[int]) -> None: ...
def table(x: dict[str, int]) -> None: ...
def maybe(x: Optional[str]) -> None: ...  # noqa: UP045
def maybe_too(x: str | None) -> None: ...
def choice(x: Literal["a", "b"]) -> None: ...
def anything(x: Any) -> None: ...
def no_hint(x) -> None: ...  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
def point(x: Point) -> None: ...
def address(x: Address) -> None: ...
def order(x: Order) -> None: ...
def described(x: Annotated[str, Field(description="which one")]) -> None: ...
def described_shortly(x: Annotated[str, "which one"]) -> None: ...
def documented(x: Annotated[str, Doc("which one")]) -> None: ...
def described_and_bounded(x: Annotated[int, Field(ge=0), "which one"]) -> None: ...
def described_twice(x: Annotated[str, "not this", Field(description="which one")]) -> None: ...
def default(x: int = 5) -> None: ...
def field_default(x: int = Field(5, ge=0, description="how many")) -> None: ...
def field_required(x: int = Field(ge=0)) -> None: ...
def dated(x: datetime.date) -> None: ...
def coloured(x: Colour) -> None: ...
def forward(x: "list[Later]") -> None: ...
def half_forward(x: list["Later"]) -> None: ...
def nothing() -> None: ...


HINTS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (text, {"type": "string"}),
    (whole, {"type": "integer"}),
    (number, {"type": "number"}),
    (truth, {"type": "boolean"}),
    (many, {"type": "array", "items": {"type": "integer"}}),
    (table, {"type": "object", "additionalProperties": {"type": "integer"}}),
    (maybe, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    (maybe_too, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    (choice, {"type": "string", "enum": ["a", "b"]}),
    (anything, {}),
    (no_hint, {}),
    (point, {"$ref": "#/$defs/Point"}),
    (address, {"$ref": "#/$defs/Address"}),
    (order, {"$ref": "#/$defs/Order"}),
    (described, {"type": "string", "description": "which one"}),
    (described_shortly, {"type": "string", "description": "which one"}),
    (documented, {"type": "string", "description": "which one"}),
    (described_and_bounded, {"type": "integer", "minimum": 0, "description": "which one"}),
    (described_twice, {"type": "string", "description": "which one"}),
    (default, {"type": "integer", "default": 5}),
    (field_default, {"type": "integer", "default": 5, "minimum": 0, "description": "how many"}),
    (field_required, {"type": "integer", "minimum": 0}),
    (dated, {"type": "string", "format": "date"}),
    (coloured, {"$ref": "#/$defs/Colour"}),
    (forward, {"type": "array", "items": {"$ref": "#/$defs/Later"}}),
    (half_forward, {"type": "array", "items": {"$ref": "#/$defs/Later"}}),
]


class Later(BaseModel):
    n: int


@pytest.mark.parametrize(("handler", "schema"), HINTS)
def test_hint_becomes_its_json_schema(handler: Callable[..., Any], schema: dict[str, Any]) -> None:
    assert _property(handler) == schema


@pytest.mark.parametrize(
    ("handler", "name", "fields", "required"),
    [
        (point, "Point", {"x", "y"}, ["x"]),
        (address, "Address", {"city", "street"}, ["city"]),
        (order, "Order", {"id", "total"}, ["id"]),
    ],
)
def test_structured_hint_is_defined_in_the_schema(
    handler: Callable[..., Any], name: str, fields: set[str], required: list[str]
) -> None:
    made = _signature(handler).input_schema["$defs"][name]
    assert set(made["properties"]) == fields
    assert made["required"] == required


def test_parameter_without_a_default_is_required() -> None:
    def handler(a: int, b: int = 1, *, c: int, d: int = 2) -> None: ...

    assert _signature(handler).input_schema["required"] == ["a", "c"]


def test_schema_allows_no_other_parameter() -> None:
    assert _signature(text).input_schema["additionalProperties"] is False


def test_function_without_parameters_takes_an_empty_object() -> None:
    made = _signature(nothing).input_schema
    assert (made["type"], made["properties"]) == ("object", {})


def test_docstring_s_notes_describe_what_the_hints_do_not() -> None:
    def handler(
        a: str, b: Annotated[str, "from the hint"], c: Annotated[str, Field(description="from the field")]
    ) -> None: ...

    made = _signature(handler, a="from the docstring", b="not this", c="nor this").input_schema["properties"]
    assert {name: part["description"] for name, part in made.items()} == {
        "a": "from the docstring",
        "b": "from the hint",
        "c": "from the field",
    }


def test_default_that_json_cannot_say_is_left_out_of_the_schema_without_a_warning() -> None:
    def handler(a: Any = object) -> None: ...

    assert _signature(handler).input_schema["properties"]["a"] == {}


def loud(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def around(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return around


@pytest.mark.parametrize(
    "handler",
    [loud(postponed.send), functools.partial(postponed.send, fast=True), functools.partial(loud(postponed.send))],
    ids=["decorated", "partial", "both"],
)
def test_hints_are_read_where_the_function_at_the_bottom_was_defined(handler: Callable[..., Any]) -> None:
    signature = _signature(handler)
    assert signature.input_schema["properties"]["parcel"] == {"$ref": "#/$defs/Parcel"}
    assert set(signature.output_schema["properties"]) == {"weight"}


# -- refused ------------------------------------------------------------------------------------------------------


def positional(a: int, /) -> None: ...
def star(*args: int) -> None: ...
def double(**kwargs: int) -> None: ...
def hidden(_a: int) -> None: ...


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (positional, "positional-only"),
        (star, "variadic positional"),
        (double, "variadic keyword"),
        (hidden, "underscore"),
    ],
)
def test_parameter_that_cannot_be_given_by_name_is_refused_with_the_reason(
    handler: Callable[..., Any], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason) as refusal:
        _signature(handler)
    assert "'it'" in refusal.value.message


class Opaque: ...


def opaque(x: Opaque) -> None: ...
def callback(x: Callable[[int], int]) -> None: ...
def number_for_a_hint(x: 5) -> None: ...  # pyright: ignore[reportGeneralTypeIssues, reportUnknownParameterType]
def missing(x: "Nowhere") -> None: ...  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType] # noqa: F821


WITHOUT_SCHEMA: list[Callable[..., Any]] = [opaque, callback, missing, number_for_a_hint]


@pytest.mark.parametrize("handler", WITHOUT_SCHEMA)
def test_hint_that_has_no_schema_is_refused(handler: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput, match="'it'") as refusal:
        _ = _signature(handler).input_schema
    assert refusal.value.hint


def test_hint_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"parameter 'x'.*Nowhere"):
        _ = _signature(cast(Any, missing)).input_schema


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes it from 3.12 on")
def test_typed_dict_that_pydantic_cannot_read_is_refused_with_the_one_that_it_can() -> None:
    old = typing.TypedDict("old", {"a": int})  # noqa: UP013

    def takes(x: old) -> None: ...
    def gives() -> old: ...

    with pytest.raises(InvalidInput, match="typing_extensions"):
        _ = _signature(takes).input_schema
    with pytest.raises(InvalidInput, match="typing_extensions"):
        _ = _signature(gives).output_schema


def test_handler_whose_parameters_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'it'") as refusal:
        _signature(cast(Any, max))
    assert "wrap it" in str(refusal.value.hint)


# -- names that a library could stumble over ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", "schema json copy dict model_config model_fields model_dump self cls class_ validate p0 p1 args".split()
)
def test_parameter_may_have_any_name(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def handler(other: int, {name}: str) -> None: ...", scope)
    signature = _signature(scope["handler"])
    assert set(signature.input_schema["properties"]) == {"other", name}
    assert signature.bind({"other": 1, name: "a"}).kwargs == {"other": 1, name: "a"}


def test_field_s_inner_name_is_no_way_to_give_an_argument() -> None:
    with pytest.raises(BadArguments):
        _bound(text, p0="a")


# -- binding ------------------------------------------------------------------------------------------------------


def three(a: int, b: str = "x", *, c: float = 1.5) -> None: ...


def test_only_what_can_be_given_by_position_has_one() -> None:
    assert _signature(three).positions == ("a", "b")


@pytest.mark.parametrize(
    ("arguments", "bound"),
    [
        ({"a": 1}, {"a": 1, "b": "x", "c": 1.5}),
        ({"b": "y", "a": 1}, {"a": 1, "b": "y", "c": 1.5}),
        ({"a": 1, "c": 2}, {"a": 1, "b": "x", "c": 2.0}),
        ({"a": 2**70}, {"a": 2**70, "b": "x", "c": 1.5}),
    ],
)
def test_arguments_are_bound_with_their_defaults(arguments: dict[str, Json], bound: Any) -> None:
    assert _bound(three, **arguments) == bound


@pytest.mark.parametrize(
    ("arguments", "message", "path"),
    [
        ({}, "is missing", "$.a"),
        ({"a": 1, "z": 2}, "is not known; there are 'a', 'b', 'c'", "$.z"),
        ({"a": "1"}, "Input should be a valid integer, got string", "$.a"),
        ({"a": True}, "Input should be a valid integer, got boolean", "$.a"),
        ({"a": 1.5}, "Input should be a valid integer, got number", "$.a"),
        ({"a": None}, "Input should be a valid integer, got null", "$.a"),
        ({"a": 1, "b": 5}, "Input should be a valid string, got integer", "$.b"),
        ([1], "expected object, got array", "$"),
        (None, "expected object, got null", "$"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_reason_and_place(arguments: Json, message: str, path: str) -> None:
    with pytest.raises(BadArguments) as refusal:
        _signature(three).bind(arguments)
    assert (str(refusal.value), refusal.value.path) == (message, path)


def test_place_of_a_bad_argument_is_given_to_the_depth() -> None:
    def handler(orders: list[Order]) -> None: ...

    with pytest.raises(BadArguments) as refusal:
        _bound(handler, orders=[{"id": "a"}, {"id": "b", "total": "much"}])
    assert refusal.value.path == "$.orders[1].total"


def test_alternatives_are_one_fault_at_one_place_in_the_arguments() -> None:
    def handler(x: list[int | str | Order]) -> None: ...

    with pytest.raises(BadArguments, match=r"integer.*string") as refusal:
        _bound(handler, x=[[1]])
    assert refusal.value.path == "$.x[0]"
    with pytest.raises(BadArguments) as refusal:
        _bound(handler, x=[1, {"id": 5}])
    assert refusal.value.path == "$.x[1]"


def test_refusal_does_not_repeat_the_value() -> None:
    hints = {"x": Literal[tuple(f"choice{n}" for n in range(500))], "return": None}

    def handler(x: Any) -> None: ...

    handler.__annotations__ = hints
    with pytest.raises(BadArguments) as refusal:
        _bound(handler, x="hunter2" * 1000)
    assert "hunter2" not in str(refusal.value)
    with pytest.raises(BadArguments) as refusal:
        _bound(text, **{"x" * 10_000: 1})
    assert len(refusal.value.path) <= 300


def test_arguments_have_the_types_of_the_hints() -> None:
    def handler(a: Point, b: Order, c: Address, d: datetime.date, e: Colour) -> None: ...

    bound = _bound(handler, a={"x": 1}, b={"id": "A"}, c={"city": "Ulm"}, d="2026-01-02", e="red")
    assert bound == {
        "a": Point(1),
        "b": Order(id="A"),
        "c": {"city": "Ulm"},
        "d": datetime.date(2026, 1, 2),
        "e": Colour.RED,
    }


def test_default_that_json_cannot_say_reaches_the_handler() -> None:
    def handler(a: tuple[int, ...] = (1, 2), b: Any = object) -> None: ...

    assert _bound(handler) == {"a": (1, 2), "b": object}


def test_default_that_is_a_list_is_not_shared_between_calls() -> None:
    def handler(a: list[int] = []) -> None: ...  # noqa: B006

    _bound(handler)["a"].append(1)
    assert _bound(handler) == {"a": []}


def test_defaults_of_a_field_are_used() -> None:
    def handler(a: int = Field(5, ge=0), b: list[int] = Field(default_factory=list)) -> None: ...  # noqa: B008

    assert _bound(handler) == {"a": 5, "b": []}
    with pytest.raises(BadArguments):
        _bound(handler, a=-1)


def test_text_that_is_no_unicode_is_refused_not_crashed() -> None:
    with pytest.raises(BadArguments, match="Unicode"):
        _bound(text, x="\ud800")


def test_method_of_an_object_binds_without_self() -> None:
    class Shop:
        def find(self, order_id: str) -> str:
            return order_id

    assert _bound(Shop().find, order_id="A") == {"order_id": "A"}


def test_partial_function_takes_what_is_left() -> None:
    assert _bound(functools.partial(three, 1), b="y") == {"b": "y", "c": 1.5}


# -- alternatives that nothing tells apart ------------------------------------------------------------------------


class Add(BaseModel):
    left: "Expression"
    op: Literal["+"]


class Times(BaseModel):
    left: "Expression"
    op: Literal["*"]


class Tree(BaseModel):
    kids: "list[Tree]" = []
    one: "Tree | None" = None


class TaggedAdd(BaseModel):
    left: "Tagged"
    op: Literal["+"]


class TaggedTimes(BaseModel):
    left: "Tagged"
    op: Literal["*"]


Expression = Add | Times | int
Tagged = Annotated[TaggedAdd | TaggedTimes, Field(discriminator="op")] | int


def expression(x: Expression) -> None: ...
def tagged(x: Tagged) -> None: ...
def tree(x: Tree) -> None: ...


def _nested(depth: int, leaf: Json = 1) -> Json:
    value: Any = leaf
    for _ in range(depth):
        value = {"left": value, "op": "*"}
    return value


def test_nested_alternatives_are_taken_as_deep_as_is_quick() -> None:
    assert isinstance(_bound(expression, x=_nested(8))["x"], Times)


@pytest.mark.parametrize("leaf", [1, "bad"])
def test_alternatives_nested_so_deep_that_pydantic_would_not_come_back_are_refused(leaf: Json) -> None:
    with pytest.raises(BadArguments, match="nest it less"):
        _bound(expression, x=_nested(60, leaf))


def test_alternatives_with_a_discriminator_may_be_nested_deep() -> None:
    assert isinstance(_bound(tagged, x=_nested(60))["x"], TaggedTimes)


def test_recursive_type_without_alternatives_may_be_nested_deep() -> None:
    value: Json = {}
    for _ in range(60):
        value = {"kids": [value], "one": None}
    assert isinstance(_bound(tree, x=value)["x"], Tree)


def test_alternatives_that_are_not_recursive_put_no_bound_on_the_rest() -> None:
    def handler(x: Order | Later, data: Any) -> None: ...

    assert _bound(handler, x={"id": "A"}, data=_nested(60))["data"] == _nested(60)


# -- properties ---------------------------------------------------------------------------------------------------

SIGNATURES = [
    _signature(one) for one in (three, point, order, address, choice, anything, expression, tree, coloured, nothing)
]


@given(json_values | json_objects | json_values.map(lambda value: {"x": value}))
def test_binding_any_json_gives_arguments_or_bad_arguments(arguments: Json) -> None:
    for signature in SIGNATURES:
        try:
            assert signature.bind(arguments).args == ()
        except BadArguments as bad:
            assert bad.path.startswith("$")  # noqa: PT017
