"""Models of providers: a conversation through each of their formats, with their own libraries, to a real server."""

import asyncio
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import anyio
import pytest

from cloister.core.answer import CallDelta, FinishReason, ReasoningDelta, TextDelta, answer_from_doc, answer_to_doc
from cloister.core.errors import InvalidInput
from cloister.core.message import (
    AssistantMessage,
    FreeformCall,
    InputImage,
    InputText,
    OutputText,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
    user_text,
)
from cloister.core.offer import FunctionTool
from cloister.core.usage import Cost, Prices, Usage
from tests.threads.models.asking import ASKED, KEY, answer_in, model_at, pieces_of
from tests.threads.models.wire.server import WIRES, ModelServer, Reply

_PROGRAM = '{"code": "print(\\"zwei: \\u00e4 \\ud83d\\ude00\\")"}'
_FIRST = Reply(text="I will count. 😀", reasoning="One and one…", calls=[("exec", _PROGRAM), ("exec", '{"code":"2"}')])
_PNG = "data:image/png;base64,aGVsbG8="


@pytest.mark.anyio
@pytest.mark.parametrize("wire", WIRES)
async def test_conversation_streams_and_goes_back_as_it_came(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing of this may be looked at.
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "from-the-environment")
    for name in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "x-surprise: from-the-environment")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    prices = Prices(Decimal(2), Decimal(10), cached=Decimal("0.2"))
    async with ModelServer([_FIRST, _FIRST, Reply(text="Two.")]) as server:
        async with model_at(server, wire, model="gpt-5", prices=prices, headers={"x-team": lambda: "blue"}) as model:
            pieces = await pieces_of(model)
            answer = answer_in(pieces)
        async with model_at(server, wire, model="gpt-5", stream=False, prices=prices) as model:
            only = await pieces_of(model)
            whole = answer_in(only)
            assert len(only) == 1
        # Written down, and read again after a restart.
        kept = answer_from_doc(json.loads(json.dumps(answer_to_doc(answer))))
        results = [
            ToolResult(kept.message.calls[0].id, "exec", (InputText("2"), InputImage(_PNG, "low"))),
            ToolResult(kept.message.calls[1].id, "exec", (InputText("it broke"),), is_error=True),
        ]
        async with model_at(server, wire, model="gpt-5") as model:
            messages = (*ASKED.messages, kept.message, *results, user_text("And?"))
            last = answer_in(await pieces_of(model, replace(ASKED, messages=messages)))
    assert kept == answer
    assert last.message.text == "Two."
    assert last.finish is FinishReason.STOP

    reasoning, text, *calls = answer.message.parts
    assert isinstance(reasoning, Reasoning)
    assert isinstance(text, OutputText)
    assert (reasoning.text, text.text) == (_FIRST.reasoning, _FIRST.text)
    assert [json.loads(call.arguments) for call in calls if isinstance(call, ToolCall)] == [
        {"code": 'print("zwei: ä 😀")'},
        {"code": "2"},
    ]
    assert answer.finish is FinishReason.TOOL_CALLS
    assert answer.usage == Usage(20, 7, 5, 0, 0 if wire == "anthropic" else 3, 1)
    assert answer.cost == Cost(Decimal("0.000101"), "USD")
    assert answer.model == "gpt-5"
    # The pieces say the same as the whole, part by part.
    for index, part in enumerate(answer.message.parts):
        said = [
            one.text for one in pieces if isinstance(one, (TextDelta, ReasoningDelta, CallDelta)) and one.index == index
        ]
        assert "".join(said) == (part.arguments if isinstance(part, ToolCall) else getattr(part, "text", None))
        assert len(said) >= 2
    named = {(one.index, one.id, one.name) for one in pieces if isinstance(one, CallDelta)}
    ids = [call.id for call in answer.message.calls]
    assert named == {(2, ids[0], "exec"), (3, ids[1], "exec")}
    assert [type(part) for part in whole.message.parts] == [type(part) for part in answer.message.parts]
    assert whole.message.text == answer.message.text

    first, _, third = server.heard
    assert KEY in (first.headers.get("x-api-key", ""), first.headers.get("authorization", "").removeprefix("Bearer "))
    assert first.headers["x-team"] == "blue"
    assert "from-the-environment" not in str(first.headers)
    assert not [name for name in first.headers if name.startswith("x-stainless")]
    _check_sent(wire, first.body, third.body, answer.message)


def _check_sent(wire: str, first: Any, third: Any, said: AssistantMessage) -> None:
    calls = [call for call in said.parts if isinstance(call, ToolCall)]
    match wire:
        case "anthropic":
            assert first["system"][0]["text"] == "Be brief."
            assert first["max_tokens"] >= 4096
            _, assistant, user = third["messages"]
            assert assistant["content"][0] == {
                "type": "thinking",
                "thinking": "One and one…",
                "signature": "signed-1",
            }
            assert [block["input"] for block in assistant["content"][2:]] == [json.loads(c.arguments) for c in calls]
            results = user["content"][:2]
            assert [one.get("is_error", False) for one in results] == [False, True]
            assert results[0]["content"][1]["source"]["data"] == "aGVsbG8="
        case "responses":
            assert first["instructions"] == "Be brief."
            assert first["store"] is False
            assert "reasoning.encrypted_content" in first["include"]
            items = third["input"]
            sealed = next(item for item in items if item.get("type") == "reasoning")
            assert (sealed["id"], sealed["encrypted_content"]) == ("rs_1", "sealed-1")
            assert [item["call_id"] for item in items if item.get("type") == "function_call"] == [c.id for c in calls]
            outputs = [item["output"] for item in items if item.get("type") == "function_call_output"]
            assert outputs[0][1]["image_url"] == _PNG
            assert outputs[1] == "it broke"
        case _:
            assert first["messages"][0]["content"] == "Be brief."
            assert first["stream_options"] == {"include_usage": True}
            assistant = third["messages"][2]
            assert assistant["reasoning_content"] == "One and one…"
            assert [call["id"] for call in assistant["tool_calls"]] == [call.id for call in calls]
            assert _PNG in json.dumps(third["messages"])
            assert [one["content"] for one in third["messages"] if one["role"] == "tool"][1] == "it broke"


@pytest.mark.anyio
@pytest.mark.parametrize("wire", WIRES)
async def test_another_provider_s_reasoning_and_ids_stay_with_us(wire: str) -> None:
    theirs = AssistantMessage(
        (
            Reasoning("SECRET THOUGHT", "SEALED", {"id": "OPAQUE"}),
            OutputText("Let me see.", {"id": "OPAQUE"}),
            ToolCall("c3", "shop::refund", '{"amount": 5}'),
            ToolCall("c1", "exec", "this is no JSON", {"id": "OPAQUE"}),
            FreeformCall("c2", "shell", "ls"),
        ),
        provider="another",
        opaque={"response_id": "OPAQUE"},
    )
    picture = InputImage("https://example.com/picture")
    results = [
        ToolResult("c1", "exec", (InputText("what?"), picture)),
        ToolResult("c2", "shell", (InputText("a.txt"),)),
        ToolResult("c3", "shop::refund", (InputText("paid"),)),
    ]
    hello = UserMessage((InputText("hi"), picture))
    messages = (hello, theirs, *results, SystemMessage("The time is up."))
    tools = (*ASKED.tools, FunctionTool("shop::refund"))
    again = Reply(calls=[("shop__refund", "{}"), ("made_up", "{}")])
    async with ModelServer([again]) as server, model_at(server, wire, model="gpt-5") as model:
        answer = answer_in(await pieces_of(model, replace(ASKED, messages=messages, tools=tools)))
        both = (*tools, FunctionTool("shop__refund"))
        with pytest.raises(InvalidInput, match="there cannot tell 'shop::refund' from 'shop__refund'"):
            await pieces_of(model, replace(ASKED, tools=both))
    assert [call.name for call in answer.message.calls] == ["shop::refund", "made_up"]
    assert "::" not in json.dumps(server.heard[0].body)
    sent = json.dumps(server.heard[0].body)
    for hidden in ("SECRET THOUGHT", "SEALED", "OPAQUE"):
        assert hidden not in sent
    for told in ("Let me see.", "this is no JSON", "a.txt", "The time is up.", "https://example.com/picture"):
        assert told in sent


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("wire", "said", "finish"),
    [
        ("anthropic", "max_tokens", FinishReason.LENGTH),
        ("anthropic", "refusal", FinishReason.CONTENT_FILTER),
        ("anthropic", "something_new", FinishReason.UNKNOWN),
        ("responses", "max_output_tokens", FinishReason.LENGTH),
        ("chat", "length", FinishReason.LENGTH),
        ("chat", "content_filter", FinishReason.CONTENT_FILTER),
        ("chat", "something_new", FinishReason.UNKNOWN),
    ],
)
async def test_why_an_answer_ended_is_told(wire: str, said: str, finish: FinishReason) -> None:
    async with ModelServer([Reply(text="So far", finish=said)]) as server, model_at(server, wire) as model:
        answer = answer_in(await pieces_of(model))
    assert (answer.message.text, answer.finish) == ("So far", finish)


@pytest.mark.anyio
@pytest.mark.parametrize("wire", WIRES)
async def test_leaving_in_the_middle_of_an_answer_closes_its_connection(wire: str) -> None:
    after = {"anthropic": 4, "responses": 4, "chat": 2}[wire]
    stalling = [Reply(text="One Two", stall_after=after), Reply(stall_after=0), Reply(stall_after=0)]
    async with ModelServer(stalling) as server:
        async with model_at(server, wire) as model, asyncio.timeout(30):
            async with model.request(ASKED) as pieces:
                assert await anext(pieces) == TextDelta(0, "One ")
                await server.stalled.wait()
            await server.left.wait()
            server.stalled.clear()
            server.left.clear()
            # Cancelled from outside, before anything was said.
            task = asyncio.create_task(pieces_of(model))
            await server.stalled.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.left.wait()
            server.stalled.clear()
            server.left.clear()
            async with anyio.create_task_group() as group:
                group.start_soon(pieces_of, model)
                await server.stalled.wait()
                group.cancel_scope.cancel()
            await server.left.wait()
    assert len(server.heard) == 3
