"""A function's hints as JSON Schema, and a program's arguments bound to them."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Optional

import pytest
from pydantic import BaseModel, Field

# Python 3.11: its own TypedDict does not tell pydantic which keys may be missing.
from typing_extensions import TypedDict

from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.tools.signature import BadArguments, Signature


def _signature(handler: Callable[..., Any]) -> Signature:
    return Signature(handler, "it")


def _property(handler: Callable[..., Any], name: str = "x") -> dict[str, Any]:
    found = dict(_signature(handler).input_schema["properties"][name])
    found.pop("title", None)
    return found


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
def default(x: int = 5) -> None: ...
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
    (default, {"type": "integer", "default": 5}),
]


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


@pytest.mark.parametrize(
    ("handler", "schema"),
    [
        (lambda: 1, {}),
        (nothing, {"type": "null"}),
    ],
    ids=["no hint", "None"],
)
def test_result_s_hint_becomes_the_output_schema(handler: Callable[..., Any], schema: dict[str, Any]) -> None:
    assert _signature(handler).output_schema == schema


def test_result_of_a_model_has_its_schema() -> None:
    def handler() -> list[Order]: ...

    made = _signature(handler).output_schema
    assert made["type"] == "array"
    assert set(made["$defs"]["Order"]["properties"]) == {"id", "total"}


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
def missing(x: "Nowhere") -> None: ...  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType] # noqa: F821


WITHOUT_SCHEMA: list[Callable[..., Any]] = [opaque, callback, missing]


@pytest.mark.parametrize("handler", WITHOUT_SCHEMA)
def test_hint_that_has_no_schema_is_refused(handler: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput, match="'it'"):
        _ = _signature(handler).input_schema


def gives_opaque() -> Opaque: ...
def gives_callback() -> Callable[[int], int]: ...


@pytest.mark.parametrize("handler", [gives_opaque, gives_callback])
def test_result_that_has_no_schema_is_refused(handler: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput, match="'it'"):
        _ = _signature(handler).output_schema


# -- names that a library could stumble over ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", "schema json copy dict model_config model_fields model_dump self cls class_ validate p0 p1 args".split()
)
def test_parameter_may_have_any_name(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def handler(other: int, {name}: str) -> None: ...", scope)
    signature = _signature(scope["handler"])
    assert set(signature.input_schema["properties"]) == {"other", name}
    assert signature.bind([1], {name: "a"}) == {"other": 1, name: "a"}


def test_field_s_inner_name_is_no_way_to_give_an_argument() -> None:
    with pytest.raises(BadArguments):
        _signature(text).bind([], {"p0": "a"})


# -- binding ------------------------------------------------------------------------------------------------------


def three(a: int, b: str = "x", *, c: float = 1.5) -> None: ...


@pytest.mark.parametrize(
    ("args", "kwargs", "bound"),
    [
        ([1], {}, {"a": 1, "b": "x", "c": 1.5}),
        ([1, "y"], {"c": 2.5}, {"a": 1, "b": "y", "c": 2.5}),
        ([], {"b": "y", "a": 1}, {"a": 1, "b": "y", "c": 1.5}),
        ([1], {"c": 2}, {"a": 1, "b": "x", "c": 2.0}),
        ([2**70], {}, {"a": 2**70, "b": "x", "c": 1.5}),
    ],
)
def test_arguments_are_bound_by_place_and_by_name(args: list[Json], kwargs: dict[str, Json], bound: Any) -> None:
    assert _signature(three).bind(args, kwargs) == bound


@pytest.mark.parametrize(
    ("args", "kwargs", "path"),
    [
        ([], {}, "$.a"),
        ([1, "x", 2.5], {}, "$"),
        ([1], {"a": 2}, "$.a"),
        ([1], {"z": 2}, "$.z"),
        (["1"], {}, "$.a"),
        ([True], {}, "$.a"),
        ([1.5], {}, "$.a"),
        ([None], {}, "$.a"),
        ([1, 5], {}, "$.b"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_place(
    args: list[Json], kwargs: dict[str, Json], path: str
) -> None:
    with pytest.raises(BadArguments) as refusal:
        _signature(three).bind(args, kwargs)
    assert refusal.value.path == path


def test_place_of_a_bad_argument_is_given_to_the_depth() -> None:
    def handler(orders: list[Order]) -> None: ...

    with pytest.raises(BadArguments) as refusal:
        _signature(handler).bind([[{"id": "a"}, {"id": "b", "total": "much"}]], {})
    assert refusal.value.path == "$.orders[1].total"


def test_arguments_have_the_types_of_the_hints() -> None:
    def handler(a: Point, b: Order, c: Address) -> None: ...

    bound = _signature(handler).bind([{"x": 1}, {"id": "A"}, {"city": "Ulm"}], {})
    assert bound == {"a": Point(1), "b": Order(id="A"), "c": {"city": "Ulm"}}


def test_default_that_json_cannot_say_reaches_the_handler() -> None:
    def handler(a: tuple[int, ...] = (1, 2)) -> None: ...

    assert _signature(handler).bind([], {}) == {"a": (1, 2)}


def test_text_that_is_no_unicode_is_refused_not_crashed() -> None:
    with pytest.raises(BadArguments):
        _signature(text).bind(["\ud800"], {})


def test_method_of_an_object_binds_without_self() -> None:
    class Shop:
        def find(self, order_id: str) -> str:
            return order_id

    assert _signature(Shop().find).bind(["A"], {}) == {"order_id": "A"}


def test_partial_function_takes_what_is_left() -> None:
    signature = _signature(functools.partial(three, 1))
    assert signature.bind([], {"b": "y"})["b"] == "y"
