"""The native driver, with scripted models: each tool is a plain call, through the gate."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cloister import Tool, ToolRegistry, tool
from cloister.core.dynamic import DynamicToolCallResult, DynamicToolSpec
from cloister.core.item import ToolCall
from cloister.core.thread import DriverKind
from cloister.core.turn import Status
from cloister.threads.drivers.offering import MOST_TOOLS, names_of, offer
from tests.threads.drivers.lab import begin, ended, first, host, results, said_of, scripted, talk, work
from tests.threads.lab import follow

pytestmark = pytest.mark.anyio


@tool
async def get_order(order_id: str) -> dict[str, object]:
    """An order."""
    return {"id": order_id, "total": 12}


@tool(namespace="shop", approval_policy="manual")
async def refund(order_id: str) -> str:
    """Pays back."""
    return f"paid {order_id}"


@tool(defer_loading=True)
async def weather(town: str) -> str:
    """How the weather is."""
    return f"rain in {town}"


async def test_calls_of_the_model_pass_the_gate_and_go_on_by_themselves_after_a_person_has_answered(
    tmp_path: Path,
) -> None:
    model = scripted(
        """
answers:
  - calls:
    - {tool: get_order, arguments: {order_id: A7}}
    - {tool: get_order, arguments: {order_id: 7}}
    - {tool: "shop::refund", arguments: {order_id: A7}}
    - {tool: get_ordre, arguments: {order_id: A7}}
    - {tool: get_order, arguments: "{oh no"}
  - text: Done.
"""
    )
    async with host(tmp_path / "a.db", model, tools=[get_order, refund]) as cloister:
        turn = await begin(cloister.threads, driver=DriverKind.NATIVE)
        asked = await first(cloister.threads, turn.thread_id, "approval.required")
        assert (await cloister.threads.get_turn(turn.thread_id, turn.id)).status is Status.IN_PROGRESS
        await cloister.decide(asked.payload["id"], "allow")
        turn, items = await ended(cloister.threads, turn)
        assert turn.status is Status.COMPLETED, turn.error
        assert {one.name for one in model.asked[0].tools} == {"get_order", "shop::refund"}
        order, wrong, paid, unknown, broken = work(items)
        assert said_of(order) == '{"id": "A7", "total": 12}'
        assert "INVALID_ARGUMENTS" in said_of(wrong)
        assert (said_of(paid), paid.detail.namespace, paid.detail.tool) == ("paid A7", "shop", "refund")
        assert "get_order" in said_of(unknown)
        assert "JSON" in said_of(broken)
        told = results(model.asked[-1])
        assert [one.is_error for one in told] == [False, True, False, True, True]
        assert [one.name for one in told][2] == "shop::refund"


async def test_deferred_tools_are_offered_once_a_search_has_found_them(tmp_path: Path) -> None:
    model = scripted(
        """
answers:
  - calls: [{tool: search_tools, arguments: {query: weather}}]
  - expect: "weather: How"
    calls: [{tool: weather, arguments: {town: Ulm}}]
  - expect: rain in Ulm
    text: Rain.
"""
    )
    async with host(tmp_path / "a.db", model, tools=[get_order, weather]) as cloister:
        turn, _ = await talk(cloister.threads, driver=DriverKind.NATIVE)
        assert turn.status is Status.COMPLETED, turn.error
        offered = [[one.name for one in asked.tools] for asked in model.asked]
        assert offered[0] == ["get_order", "search_tools"]
        assert set(offered[1]) == {"get_order", "weather"}


async def test_calls_of_one_answer_are_made_together(tmp_path: Path) -> None:
    both = asyncio.Barrier(2)

    @tool
    async def meet(who: str) -> str:
        await both.wait()
        return who

    model = scripted(
        "answers: [{calls: [{tool: meet, arguments: {who: a}}, {tool: meet, arguments: {who: b}}]}, {text: Met.}]"
    )
    async with host(tmp_path / "a.db", model, tools=[meet]) as cloister:
        turn, items = await talk(cloister.threads, driver=DriverKind.NATIVE)
        assert turn.status is Status.COMPLETED
        assert [said_of(item) for item in work(items)] == ["a", "b"]


async def test_tools_of_a_client_are_shown_under_their_namespace(tmp_path: Path) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    specs = (DynamicToolSpec("pay", "till", "Pays.", schema),)
    model = scripted('answers: [{calls: [{tool: "till::pay", arguments: {n: 3}}]}, {expect: paid, text: Paid.}]')
    async with host(tmp_path / "a.db", model) as cloister:
        turn = await begin(cloister.threads, driver=DriverKind.NATIVE, dynamic_tools=specs)
        asked = await first(cloister.threads, turn.thread_id, "tool_call.requested")
        assert (asked.payload["namespace"], asked.payload["tool"], asked.payload["arguments"]) == (
            "till",
            "pay",
            {"n": 3},
        )
        result = DynamicToolCallResult(True, ({"type": "input_text", "text": "paid"},))
        await cloister.threads.answer(turn.thread_id, turn.id, asked.payload["call_id"], result)
        turn, _ = await ended(cloister.threads, turn)
        assert turn.status is Status.COMPLETED, turn.error


async def test_waiting_call_survives_the_host_and_is_made_once(tmp_path: Path) -> None:
    paid: list[str] = []

    @tool(approval_policy="manual")
    async def pay(order_id: str) -> str:
        paid.append(order_id)
        return "paid"

    script = "answers: [{calls: [{tool: pay, arguments: {order_id: A7}}]}, {expect: paid, text: Done.}]"
    path = tmp_path / "a.db"
    before, after = scripted(script), scripted(script)
    async with host(path, before, tools=[pay]) as cloister:
        turn = await begin(cloister.threads, driver=DriverKind.NATIVE)
        asked = await first(cloister.threads, turn.thread_id, "approval.required")
    async with host(path, after, tools=[pay]) as cloister:
        await cloister.decide(asked.payload["id"], "allow")
        turn, items = await ended(cloister.threads, turn)
        assert turn.status is Status.COMPLETED, turn.error
        assert (paid, len(before.asked), len(after.asked)) == (["A7"], 1, 1)
        [call] = work(items)
        assert isinstance(call.detail, ToolCall)
        assert call.detail.success is True
        events = [one.event async for one in cloister.threads.replay(thread_id=turn.thread_id)]
        assert (events.count("approval.required"), events.count("turn.completed")) == (1, 1)


async def test_interrupted_calls_are_told_to_have_been_so(tmp_path: Path) -> None:
    model = scripted("answers: [{calls: [{tool: 'shop::refund', arguments: {order_id: A7}}]}, {text: Right.}]")
    async with host(tmp_path / "a.db", model, tools=[refund]) as cloister:
        turn = await begin(cloister.threads, driver=DriverKind.NATIVE)
        await follow(cloister.threads, turn.thread_id, lambda one: one.event == "approval.required")
        turn = await cloister.threads.interrupt(turn.thread_id, turn.id)
        assert turn.status is Status.INTERRUPTED
        assert await cloister.approvals(state="pending") == []
        thread = (await cloister.threads.get(turn.thread_id)).thread
        turn, _ = await talk(cloister.threads, "why?", thread=thread)
        assert turn.status is Status.COMPLETED
        assert "[interrupted]" in model.told()


def test_names_are_what_every_provider_takes_and_lead_back() -> None:
    names = ["a.b", "a__b", "größe", "x" * 80, "search_tools", "shop.pay"]
    made = names_of(names)
    assert (made["a.b"], made["shop.pay"]) == ("a::b", "shop::pay")
    on_the_wire = [name.replace("::", "__") for name in made.values()]
    assert len(set(on_the_wire)) == len(names)
    assert all(name.replace("_", "").isascii() and len(name) <= 64 for name in on_the_wire)
    assert names_of(reversed(names)) == made


def test_so_many_tools_are_offered_and_no_more() -> None:
    def made(place: int) -> Tool:
        async def work(n: int) -> int:
            return n

        work.__name__ = f"tool_{place:03}"
        return tool(work)

    registry = ToolRegistry([made(place) for place in range(MOST_TOOLS + 20)])
    offered = offer(registry, ())
    assert len(offered.tools) == MOST_TOOLS + 1
    assert offered.tools[-1].name == "search_tools"
    last = f"tool_{MOST_TOOLS + 19:03}"
    found = offer(registry, (last,))
    assert (len(found.tools), last in [one.name for one in found.tools]) == (MOST_TOOLS + 1, True)
