"""Tools whose schema is given: the handler gets what the schema let pass, by name or by position."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.capability import ApprovalPolicy, SideEffect
from cloister.core.errors import InvalidInput, InvalidToolName
from cloister.core.language import Language
from cloister.core.limits import CapabilityLimits
from cloister.core.value import Json
from cloister.tools.context import CallContext
from cloister.tools.contract import Violation
from cloister.tools.tool import BadArguments, Bound, Tool
from tests.core.json_values import json_objects, json_values

ORDER = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
    "required": ["order_id"],
    "additionalProperties": False,
}


def find(order_id: str, limit: int = 5) -> Any:
    return [order_id, limit]


def names(**names: Any) -> Any:
    return names


def items(*items: Any) -> Any:
    return list(items)


def _tool(handler: Callable[..., Any], schema: Any = None, **options: Any) -> Tool:
    given_options: dict[str, Any] = {"name": "it", "description": "", "handler": handler, "input_schema": schema}
    return Tool.from_schema(**{**given_options, **options})


def _call(made: Tool, *args: Json, **kwargs: Json) -> Bound:
    arguments = made.arrange(args, kwargs, Language.PYTHON)
    made.validate(arguments)
    return made.bind(arguments)


def _result(made: Tool, *args: Json, **kwargs: Json) -> Any:
    bound = _call(made, *args, **kwargs)
    return made(*bound.args, **bound.kwargs)


# -- what is declared ---------------------------------------------------------------------------------------------


def test_everything_that_was_said_is_in_the_capability() -> None:
    made = Tool.from_schema(
        name="find",
        namespace="shop",
        description="  Find it.\n    Well.",
        input_schema=ORDER,
        output_schema={"type": "object"},
        handler=find,
        side_effect="read",
        limits=CapabilityLimits(timeout_ms=7),
        approval_policy="manual",
        idempotent=False,
    )
    found = made.capability
    assert (found.full_name, found.description) == ("shop.find", "Find it.\nWell.")
    assert (found.input_schema, found.output_schema) == (ORDER, {"type": "object"})
    assert (found.side_effect, found.limits.timeout_ms) == (SideEffect.READ, 7)
    assert (found.approval_policy, found.idempotent) == (ApprovalPolicy("manual"), False)
    assert made.full_name == "shop.find"


def test_left_out_is_the_default() -> None:
    found = Tool.from_schema(name="it", description="", handler=lambda: None).capability
    assert (found.input_schema, found.output_schema) == ({"type": "array"}, {})
    assert (found.side_effect, found.idempotent, found.approval_policy.kind) == (SideEffect.NONE, True, "none")


def test_schema_may_change_afterwards_without_changing_the_tool() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    made = _tool(names, schema)
    schema["properties"]["a"]["type"] = "integer"
    assert made.capability.input_schema["properties"] == {"a": {"type": "string"}}
    made.validate({"a": "text"})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"input_schema": []}, "the input schema of tool 'it'"),
        ({"input_schema": {"type": "strnig"}}, "the input schema of tool 'it'"),
        ({"output_schema": {"type": "strnig"}}, "the output schema of tool 'it'"),
        ({"output_schema": {"$ref": "http://example.com/x"}}, "the output schema of tool 'it'"),
        ({"side_effect": "explode"}, "side effect"),
        ({"approval_policy": "sometimes"}, "approval policy"),
        ({"approval_policy": {"auto": {"rule": "amount <"}}}, "the approval rule of tool 'it'"),
        ({"limits": 5}, "limits"),
        ({"idempotent": 1}, "idempotent"),
        ({"description": None}, "description"),
        ({"handler": "find"}, "cannot be called"),
        ({"handler": None}, "cannot be called"),
    ],
)
def test_what_does_not_fit_is_refused_when_declared(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        _tool(**{"handler": items, **options})


@pytest.mark.parametrize("name", ["a b", "", None, "class"])
def test_bad_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidToolName):
        _tool(lambda: None, name=name)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({}, "no type"),
        ({"properties": {"a": {}}}, "no type"),
        ({"type": "string"}, "'string'"),
        ({"type": ["object", "null"]}, "object"),
        ({"type": "null"}, "'null'"),
    ],
)
def test_arguments_are_an_object_or_an_array_and_nothing_else(schema: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refusal:
        _tool(names, schema)
    assert '"object"' in str(refusal.value.hint)


def a_only(a: int) -> None: ...
def a_and_b(a: int, b: int) -> None: ...
def by_position_only(a: int, /) -> None: ...
def by_name_only(*, a: int) -> None: ...
def with_context(a: int, ctx: CallContext) -> None: ...
def context_first(ctx: CallContext, *args: int) -> None: ...
def bare_ctx(a: int, ctx) -> None: ...  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]


def _object(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {} for name in names}}


REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (a_only, _object("a", "b"), "no parameter for 'b'"),
    (a_and_b, _object("a"), "'b' of its handler is not in its input schema"),
    (bare_ctx, _object("a"), "'ctx' of its handler is not in its input schema"),
    (by_position_only, _object("a"), "'a' of its handler is positional-only"),
    (with_context, _object("a", "ctx"), "'ctx' is a property"),
    (a_only, {"type": "object"}, "'a' of its handler is not in its input schema"),
    (by_name_only, {"type": "array"}, "'a' of its handler is given by name only"),
    (context_first, {"type": "array"}, "'ctx' stands before"),
    (a_only, {"type": "array", "minItems": 2}, "takes 1 arguments"),
    (a_and_b, {"type": "array", "maxItems": 1}, "takes 2 arguments"),
    (a_and_b, {"type": "array", "prefixItems": [{}], "items": False}, "takes 2 arguments"),
    (a_only, {"type": "array", "prefixItems": [{}, {}]}, "takes 1 arguments"),
]


@pytest.mark.parametrize(("handler", "schema", "reason"), REFUSED)
def test_handler_that_cannot_take_the_arguments_is_refused_with_the_fix(
    handler: Callable[..., Any], schema: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason) as refusal:
        _tool(handler, schema)
    assert "tool 'it'" in refusal.value.message
    assert refusal.value.hint


def test_bare_parameter_is_told_to_be_annotated() -> None:
    with pytest.raises(InvalidInput) as refusal:
        _tool(cast(Any, bare_ctx), _object("a"))
    assert "CallContext" in str(refusal.value.hint)


@pytest.mark.parametrize("word", ["allOf", "anyOf"])
def test_properties_that_stand_elsewhere_are_not_missed(word: str) -> None:
    made = _tool(a_only, {"type": "object", word: [{"properties": {"a": {}}, "required": ["a"]}]})
    assert _call(made, a=1) == Bound((), {"a": 1})


# -- by name ------------------------------------------------------------------------------------------------------


def test_object_s_properties_are_given_by_name_as_they_came() -> None:
    made = _tool(find, ORDER)
    assert _result(made, order_id="A7") == ["A7", 5]
    assert _result(made, limit=1, order_id="A7") == ["A7", 1]


def test_positions_of_a_program_are_the_properties_in_their_order() -> None:
    def find_other_way_round(limit: int, order_id: str) -> Any:
        return [order_id, limit]

    made = _tool(find_other_way_round, ORDER)
    assert _result(made, "A7", 1) == ["A7", 1]
    with pytest.raises(BadArguments, match="takes 2 positional"):
        made.arrange(["A7", 1, 2], {})
    with pytest.raises(BadArguments, match="twice"):
        made.arrange(["A7"], {"order_id": "A8"})


@pytest.mark.parametrize(
    ("arguments", "violation"),
    [
        ({}, ("is missing", "$.order_id")),
        ({"order_id": 5}, ("expected string, got integer", "$.order_id")),
        ({"order_id": "a", "limit": 0}, ("is less than 1", "$.limit")),
        ({"order_id": "a", "x": 0}, ("is not known; there are 'order_id', 'limit'", "$.x")),
        ([], ("expected object, got array", "$")),
        ("a", ("expected object, got string", "$")),
    ],
)
def test_arguments_that_do_not_fit_the_schema_are_refused(arguments: Any, violation: tuple[str, str]) -> None:
    with pytest.raises(BadArguments) as refusal:
        _tool(find, ORDER).validate(arguments)
    assert (str(refusal.value), refusal.value.path) == violation


def test_name_that_the_schema_allows_and_the_handler_does_not_know_is_refused() -> None:
    made = _tool(a_only, _object("a"))
    with pytest.raises(BadArguments) as refusal:
        _call(made, a=1, b=2)
    assert refusal.value.path == "$.b"


def test_optional_property_that_the_handler_needs_is_missed_or_has_the_schema_s_default() -> None:
    with pytest.raises(BadArguments, match="missing") as refusal:
        _call(_tool(a_only, _object("a")))
    assert refusal.value.path == "$.a"
    schema = {"type": "object", "properties": {"a": {"default": 7}}}
    assert _call(_tool(a_only, schema)) == Bound((), {"a": 7})
    assert _call(_tool(a_only, schema), a=8) == Bound((), {"a": 8})


def test_schema_s_default_does_not_override_the_handler_s() -> None:
    def handler(a: int = 1) -> None: ...

    assert _call(_tool(handler, {"type": "object", "properties": {"a": {"default": 7}}})) == Bound()


def test_handler_that_takes_any_name_gets_them_all() -> None:
    made = _tool(names, {"type": "object", "properties": {"order-id": {"type": "string"}}})
    assert _result(made, **{"order-id": "A7", "more": 1}) == {"order-id": "A7", "more": 1}
    assert _result(made, "A7") == {"order-id": "A7"}


def test_object_of_a_typescript_program_is_its_names() -> None:
    made = _tool(find, ORDER)
    assert made.arrange((), {"order_id": "A7"}, Language.TYPESCRIPT) == {"order_id": "A7"}
    assert made.arrange(("A7",), {}, Language.TYPESCRIPT) == {"order_id": "A7"}


# -- by position --------------------------------------------------------------------------------------------------


def test_array_s_items_are_given_by_position() -> None:
    assert _result(_tool(items), 1, "a", None) == [1, "a", None]
    assert _result(_tool(find, {"type": "array"}), "A7") == ["A7", 5]


def by_both(a: int, /, b: int, ctx: CallContext, c: int = 3) -> Any:
    return [a, b, c, ctx]


def test_items_go_around_the_context() -> None:
    made = _tool(by_both, {"type": "array"})
    bound = _call(made, 1, 2, 4)
    assert made.takes_context == "ctx"
    assert by_both(*bound.args, **bound.kwargs, ctx="here") == [1, 2, 4, "here"]  # pyright: ignore[reportArgumentType]


def test_context_may_stand_first_where_the_number_is_fixed() -> None:
    def handler(ctx: CallContext, a: int) -> Any:
        return [a, ctx]

    bound = _call(_tool(handler, {"type": "array"}), 1)
    assert handler(*bound.args, **bound.kwargs, ctx="here") == [1, "here"]  # pyright: ignore[reportArgumentType]


def test_too_few_or_too_many_items_are_refused() -> None:
    made = _tool(a_and_b, {"type": "array"})
    for args in ((), (1,), (1, 2, 3)):
        with pytest.raises(BadArguments):
            _call(made, *args)

    def at_least_one(a: int, *more: int) -> None: ...

    with pytest.raises(BadArguments, match="at least 1"):
        _call(_tool(at_least_one))


def test_names_are_refused_where_items_are_given_by_position() -> None:
    with pytest.raises(BadArguments, match="by position") as refusal:
        _tool(items).arrange([1], {"b": 2}, Language.PYTHON)
    assert refusal.value.path == "$.b"
    with pytest.raises(BadArguments, match="by position"):
        _tool(items).arrange([], {"b": 2}, Language.PYTHON)
    with pytest.raises(BadArguments, match="by position"):
        _tool(items).arrange([1], {"b": 2}, Language.TYPESCRIPT)


def test_one_object_of_a_typescript_program_is_one_item() -> None:
    made = _tool(items)
    assert made.arrange((), {"a": 1}, Language.TYPESCRIPT) == [{"a": 1}]
    assert made.arrange((), {}, Language.TYPESCRIPT) == []


@pytest.mark.parametrize(
    ("schema", "arguments", "path"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1, "a"], "$[1]"),
        ({"type": "array", "maxItems": 1}, [1, 2], "$"),
        ({"type": "array"}, {"a": 1}, "$"),
    ],
)
def test_items_that_do_not_fit_the_schema_are_refused(schema: Any, arguments: Any, path: str) -> None:
    with pytest.raises(BadArguments) as refusal:
        _tool(items, schema).validate(arguments)
    assert refusal.value.path == path


# -- results ------------------------------------------------------------------------------------------------------


def test_result_is_held_against_the_output_schema() -> None:
    made = _tool(lambda: None, output_schema={"type": "object", "required": ["id"]})
    assert made.check_output({"id": 1}) is None
    assert made.check_output({}) == Violation("is missing", "$.id")
    assert _tool(lambda: None).check_output({"anything": 1}) is None


@pytest.mark.anyio
async def test_async_handler_makes_an_async_tool() -> None:
    async def fetch(order_id: str) -> str:
        return order_id

    made = _tool(fetch, _object("order_id"))
    assert made.is_async
    assert await made(order_id="A7") == "A7"


# -- properties ---------------------------------------------------------------------------------------------------

TOOLS = [
    _tool(find, ORDER),
    _tool(names, {"type": "object", "properties": {"a": {}}}),
    _tool(a_only, _object("a")),
    _tool(items),
    _tool(by_both, {"type": "array"}),
    _tool(find, {"type": "array", "items": {"type": ["integer", "array"]}}),
]


@given(
    st.lists(json_values, max_size=4),
    json_objects | st.fixed_dictionaries({}, optional={"a": json_values, "order_id": json_values, "ctx": json_values}),
    st.sampled_from(Language),
)
def test_any_call_is_bound_so_that_the_handler_can_take_it_or_refused(
    args: list[Json], kwargs: dict[str, Json], language: Language
) -> None:
    for made in TOOLS:
        try:
            arguments = made.arrange(args, kwargs, language)
            made.validate(arguments)
            bound = made.bind(arguments)
        except BadArguments:
            continue
        given_context = {made.takes_context: None} if made.takes_context else {}
        made(*bound.args, **bound.kwargs, **given_context)


@given(json_values)
def test_any_json_in_place_of_arguments_is_bound_or_refused(arguments: Json) -> None:
    for made in TOOLS:
        try:
            made.validate(arguments)
            made.bind(arguments)
        except BadArguments as bad:
            assert bad.path.startswith("$")  # noqa: PT017
