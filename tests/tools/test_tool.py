"""@tool: a function with its capability."""

from typing import Any

import pytest

from cloister.core.capability import ApprovalPolicy, SideEffect
from cloister.core.errors import InvalidInput, InvalidToolName
from cloister.core.limits import CapabilityLimits
from cloister.tools.tool import Tool, as_tool, tool


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


def test_function_without_a_name_needs_one() -> None:
    with pytest.raises(InvalidToolName):
        tool(lambda: None)
    assert tool(name="fine")(lambda: None).name == "fine"


def test_bad_side_effect_and_policy_are_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match="side effect"):
        tool(name="fine", side_effect="explode")(lambda: None)
    with pytest.raises(InvalidInput, match="approval policy"):
        tool(name="fine", approval_policy="sometimes")(lambda: None)


@pytest.mark.parametrize("policy", ["manual", {"auto": {"rule": "true"}}])
def test_policy_that_nobody_enforces_yet_is_refused_by_name(policy: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be enforced yet"):
        tool(name="fine", approval_policy=policy)(lambda: None)


def test_plain_function_becomes_a_tool_and_a_tool_stays_itself() -> None:
    def ping() -> str:
        return "pong"

    assert as_tool(ping).name == "ping"
    assert as_tool(get_order) is get_order


def test_what_cannot_be_called_is_no_tool() -> None:
    with pytest.raises(TypeError, match="not a tool"):
        as_tool("get_order")
