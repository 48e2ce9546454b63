"""@tool: a function with its capability."""

import functools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.capability import ApprovalPolicy, SideEffect, capability_digest
from cloister.core.errors import InvalidInput, InvalidToolName
from cloister.core.language import Language
from cloister.core.limits import CapabilityLimits
from cloister.core.value import Json
from cloister.tools.tool import BadArguments, Bound, Tool, as_tool, tool
from tests.core.json_values import json_objects, json_values


@tool
async def get_order(order_id: str) -> dict[str, Any]:
    """Look up an order.

    By its id.
    """
    return {"id": order_id}


@tool(
    name="cancel",
    namespace="shop",
    description="Cancel it.",
    side_effect="write",
    limits=CapabilityLimits(timeout_ms=100),
    idempotent=False,
)
def cancel_order(order_id: str) -> bool:
    """Other words."""
    return bool(order_id)


def test_plain_decorator_takes_name_and_description_from_the_function() -> None:
    made = get_order.capability
    assert (made.name, made.namespace, made.full_name) == ("get_order", None, "get_order")
    assert made.description == "Look up an order.\n\nBy its id."
    assert (made.side_effect, made.idempotent) == (SideEffect.NONE, True)


def test_decorator_s_options_are_in_the_capability() -> None:
    made = cancel_order.capability
    assert (made.full_name, made.description) == ("shop.cancel", "Cancel it.")
    assert (made.side_effect, made.idempotent) == (SideEffect.WRITE, False)
    assert (made.limits.timeout_ms, made.approval_policy) == (100, ApprovalPolicy("none"))


def test_capability_s_schemas_come_from_the_hints() -> None:
    assert list(cancel_order.capability.input_schema["properties"]) == ["order_id"]
    assert cancel_order.capability.output_schema == {"type": "boolean"}


def test_tool_can_still_be_called_in_plain_python() -> None:
    assert cancel_order("A7") is True


@pytest.mark.anyio
async def test_async_tool_can_still_be_awaited_in_plain_python() -> None:
    assert await get_order("A7") == {"id": "A7"}


def test_tool_knows_whether_it_is_async() -> None:
    assert (get_order.is_async, cancel_order.is_async) == (True, False)


def test_object_with_an_async_call_is_an_async_tool() -> None:
    class Finder:
        async def __call__(self, order_id: str) -> str:
            return order_id

    made = Tool(Finder(), name="find")
    assert made.is_async
    assert list(made.capability.input_schema["properties"]) == ["order_id"]


@pytest.mark.parametrize("name", ["a b", "1a", "class", "a.b", "größe"])
def test_bad_name_is_refused_at_once(name: str) -> None:
    with pytest.raises(InvalidToolName):
        tool(name=name)(lambda: None)
    with pytest.raises(InvalidToolName):
        tool(name="fine", namespace=name)(lambda: None)


@pytest.mark.parametrize("name", ["print", "open", "list", "ValueError", "__name__"])
def test_name_that_python_has_built_in_needs_a_namespace(name: str) -> None:
    with pytest.raises(InvalidToolName, match=f"'{name}' cannot be the name of a tool: Python has it built in"):
        tool(name=name)(lambda: None)
    assert tool(name=name, namespace="shop")(lambda: None).full_name == f"shop.{name}"


def test_namespace_that_is_a_module_of_python_is_refused_by_name() -> None:
    with pytest.raises(InvalidToolName, match="'time' cannot be a namespace: Python has a module of that name"):
        tool(name="now", namespace="time")(lambda: None)
    assert tool(name="time")(lambda: None).name == "time"


def test_function_without_a_name_needs_one() -> None:
    with pytest.raises(InvalidToolName):
        tool(lambda: None)
    assert tool(name="fine")(lambda: None).name == "fine"


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ("none", ApprovalPolicy()),
        ("manual", ApprovalPolicy("manual")),
        ({"auto": {"rule": "args.amount < 100"}}, ApprovalPolicy("auto", "args.amount < 100")),
        (ApprovalPolicy("manual"), ApprovalPolicy("manual")),
    ],
)
def test_approval_policy_is_in_the_capability(policy: Any, kept: ApprovalPolicy) -> None:
    assert tool(name="fine", approval_policy=policy)(lambda: None).capability.approval_policy == kept


@pytest.mark.parametrize("policy", ["sometimes", {"auto": {}}, {"auto": "true"}, {"manual": {}}, 5, None])
def test_what_is_no_approval_policy_is_refused_with_those_there_are(policy: Any) -> None:
    with pytest.raises(InvalidInput, match="tool 'fine'") as refusal:
        tool(name="fine", approval_policy=policy)(lambda: None)
    assert '"manual"' in str(refusal.value.hint)


@pytest.mark.parametrize("rule", ["args.amount <", "amount < 5", "1 + 1"])
def test_approval_rule_that_does_not_compile_is_refused_when_declared(rule: str) -> None:
    with pytest.raises(InvalidInput, match="the approval rule of tool 'fine'"):
        tool(name="fine", approval_policy={"auto": {"rule": rule}})(lambda: None)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"side_effect": "explode"}, "side effect"),
        ({"limits": {"timeout_ms": 5}}, "limits"),
        ({"idempotent": "yes"}, "idempotent"),
        ({"description": 5}, "description"),
    ],
)
def test_option_that_does_not_fit_is_refused_with_the_tool_and_the_option(options: Any, named: str) -> None:
    with pytest.raises(InvalidInput, match=f"tool 'fine'.*{named}"):
        tool(name="fine", **options)(lambda: None)


def test_what_is_no_function_is_refused_as_a_handler() -> None:
    with pytest.raises(InvalidInput, match="cannot be called"):
        Tool("get_order", name="fine")  # pyright: ignore[reportArgumentType]


def test_hint_may_name_what_is_defined_further_down() -> None:
    scope: dict[str, Any] = {"tool": tool, "__name__": "somewhere"}
    exec("@tool\ndef find(x: list['Later']) -> 'Later': ...", scope)
    exec("import dataclasses\n@dataclasses.dataclass\nclass Later:\n    n: int", scope)
    assert scope["find"].capability.input_schema["properties"]["x"]["items"] == {"$ref": "#/$defs/Later"}
    assert scope["find"].bind({"x": [{"n": 1}]}).kwargs == {"x": [scope["Later"](1)]}


# -- the docstring ------------------------------------------------------------------------------------------------


def test_docstring_s_section_describes_the_parameters_and_leaves_the_description() -> None:
    def find(order_id: str, limit: int = 5) -> None:
        """Look up an order.

        Args:
            order_id: Which one.
            limit: How many.
        """

    made = Tool(find).capability
    assert made.description == "Look up an order."
    assert made.input_schema["properties"]["order_id"]["description"] == "Which one."
    assert made.input_schema["properties"]["limit"]["description"] == "How many."


def test_description_of_a_partial_function_is_that_of_the_function() -> None:
    made = Tool(functools.partial(cancel_order.handler, "A7"), name="it")
    assert made.description == "Other words."


def test_partial_of_an_async_function_is_an_async_tool() -> None:
    assert Tool(functools.partial(get_order.handler, "A7"), name="it").is_async


# -- schemas by hand ----------------------------------------------------------------------------------------------


def pay(amount: int, note: str = "") -> None: ...


STRICTER = {
    "type": "object",
    "properties": {"amount": {"type": "integer", "maximum": 100}},
    "additionalProperties": False,
}


def test_given_input_schema_is_enforced_before_the_hints() -> None:
    made = Tool(pay, input_schema=STRICTER)
    assert made.capability.input_schema == STRICTER
    assert _call(made, 100) == Bound((), {"amount": 100, "note": ""})
    for args, kwargs, path in (([101], {}, "$.amount"), ([1], {"note": "a"}, "$.note"), (["a"], {}, "$.amount")):
        with pytest.raises(BadArguments) as refusal:
            made.validate(made.arrange(args, kwargs))
        assert refusal.value.path == path


def test_hints_are_enforced_behind_a_given_schema_that_says_less() -> None:
    made = Tool(pay, input_schema={"type": "object", "properties": {"amount": {}}})
    made.validate({"amount": "a"})
    with pytest.raises(BadArguments) as refusal:
        made.bind({"amount": "a"})
    assert refusal.value.path == "$.amount"


def test_default_of_a_given_schema_fills_a_parameter_that_has_none() -> None:
    made = Tool(pay, input_schema={"type": "object", "properties": {"amount": {"default": 7}}})
    assert _call(made) == Bound((), {"amount": 7, "note": ""})


def test_given_array_schema_takes_arguments_by_position() -> None:
    made = Tool(pay, input_schema={"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]})
    assert made.arrange([5, "a"], {}) == [5, "a"]
    assert _call(made, 5, "a") == Bound((), {"amount": 5, "note": "a"})
    with pytest.raises(BadArguments):
        _call(made, 5, "a", 6)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "object", "properties": {"other": {}}},
        {"type": "object"},
        {"type": "array", "minItems": 3},
    ],
)
def test_given_schema_that_the_function_cannot_take_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidInput, match="tool 'pay'") as refusal:
        Tool(pay, input_schema=schema)
    assert refusal.value.hint


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize("schema", [[], "object", {"type": "strnig"}, {"$ref": "http://example.com/x"}, True])
def test_what_is_no_schema_is_refused_when_declared_by_tool_and_side(side: str, schema: Any) -> None:
    with pytest.raises(InvalidInput, match=f"the {side} schema of tool 'pay'"):
        tool(**{f"{side}_schema": schema})(pay)


# -- arranging ----------------------------------------------------------------------------------------------------


def _call(made: Tool, *args: Json, **kwargs: Json) -> Bound:
    arguments = made.arrange(args, kwargs, Language.PYTHON)
    made.validate(arguments)
    return made.bind(arguments)


def order(order_id: str, limit: int = 5, *, deep: bool = False) -> None: ...


@pytest.mark.parametrize(
    ("args", "kwargs", "arranged"),
    [
        ((), {}, {}),
        (("A7",), {}, {"order_id": "A7"}),
        (("A7", 1), {"deep": True}, {"order_id": "A7", "limit": 1, "deep": True}),
        ((), {"limit": 1, "order_id": "A7"}, {"limit": 1, "order_id": "A7"}),
        ((), {"strange": 1}, {"strange": 1}),
    ],
)
def test_arguments_are_arranged_by_name(args: Any, kwargs: Any, arranged: Any) -> None:
    made = Tool(order)
    assert made.arrange(args, kwargs, Language.PYTHON) == arranged
    assert made.arrange(args, kwargs, Language.TYPESCRIPT) == arranged


@pytest.mark.parametrize(
    ("args", "kwargs", "reason", "path"),
    [
        (("A7", 1, True), {}, "takes 2 positional arguments, got 3", "$"),
        (("A7",), {"order_id": "A8"}, "got 'order_id' twice", "$.order_id"),
    ],
)
def test_arguments_that_cannot_be_arranged_are_refused(args: Any, kwargs: Any, reason: str, path: str) -> None:
    with pytest.raises(BadArguments) as refusal:
        Tool(order).arrange(args, kwargs)
    assert (str(refusal.value), refusal.value.path) == (reason, path)


def test_arranged_arguments_are_not_the_program_s_own_dictionary() -> None:
    given_names: dict[str, Json] = {"order_id": "A7"}
    assert Tool(order).arrange((), given_names) is not given_names


@given(st.lists(json_values, max_size=3), json_objects | st.fixed_dictionaries({}, optional={"order_id": json_values}))
def test_any_call_is_bound_or_refused_with_bad_arguments(args: list[Json], kwargs: dict[str, Json]) -> None:
    for made in (Tool(order), Tool(pay), Tool(pay, input_schema=STRICTER), get_order, cancel_order):
        try:
            assert _call(made, *args, **kwargs).args == ()
        except BadArguments as bad:
            assert bad.path.startswith("$")  # noqa: PT017


# -- digests ------------------------------------------------------------------------------------------------------


def test_digest_is_the_same_for_the_same_declaration_and_another_for_any_other() -> None:
    made = [
        Tool(pay),
        Tool(pay, name="other"),
        Tool(pay, namespace="shop"),
        Tool(pay, description="more"),
        Tool(pay, side_effect="write"),
        Tool(pay, input_schema=STRICTER),
        Tool(pay, output_schema={"type": "integer"}),
    ]
    assert len({one.digest for one in made}) == len(made)
    assert Tool(pay).digest == made[0].digest


@given(st.permutations(["type", "properties", "required", "title"]), st.permutations(["a", "b", "c"]))
def test_digest_of_a_capability_is_stable_under_the_order_of_keys(words: list[str], names: list[str]) -> None:
    def handler(**names: Any) -> None: ...

    said: dict[str, Any] = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": ["a"],
        "title": "it",
    }
    schema = {word: said[word] for word in words}
    made = Tool.from_schema(name="it", description="", input_schema=schema, output_schema=schema, handler=handler)
    assert capability_digest(made.capability) == _DIGEST.setdefault("it", capability_digest(made.capability))
    assert made.digest == _DIGEST.setdefault("tool", made.digest)


_DIGEST: dict[str, str] = {}


# -- as a tool ----------------------------------------------------------------------------------------------------


def test_plain_function_becomes_a_tool_and_a_tool_stays_itself() -> None:
    def ping() -> str:
        return "pong"

    assert as_tool(ping).name == "ping"
    assert as_tool(get_order) is get_order


def test_what_cannot_be_called_is_no_tool() -> None:
    with pytest.raises(TypeError, match="not a tool"):
        as_tool("get_order")
