"""OpenAI's custom tools: offered, called, told again, to a real server through OpenAI's own client."""

import json
from dataclasses import replace
from typing import Any

import pytest

from cloister.core.answer import CallDelta, FinishReason
from cloister.core.errors import AnswerInvalid, InvalidInput
from cloister.core.message import FreeformCall, InputImage, InputText, ToolCall, ToolResult, user_text
from cloister.core.offer import FreeformTool, FunctionTool, Grammar
from cloister.ports.model import Asked, answered
from tests.threads.models.asking import answer_in, model_at, pieces_of
from tests.threads.models.wire.server import ModelServer, Raw, Reply

pytestmark = pytest.mark.anyio
CODE = 'print("zwei: ä 😀")\n\\ "'
ASKED = Asked(
    (user_text("Count."),),
    "Be brief.",
    (FreeformTool("exec", "Runs it.", Grammar("lark", "start: /.+/")), FunctionTool("wait"), FreeformTool("a::b")),
)
PNG = "data:image/png;base64,aGVsbG8="


@pytest.mark.parametrize("stream", [True, False])
async def test_call_of_a_custom_tool_comes_whole_and_goes_back_as_it_came(stream: bool) -> None:
    first = Reply(text="So.", customs=[("exec", CODE), ("a__b", "")], calls=[("wait", '{"input": "x"}')], pieces=4)
    async with (
        ModelServer([first, Reply(text="Two.")]) as server,
        model_at(server, "responses", model="gpt-5", freeform_tools=True, stream=stream) as model,
    ):
        assert model.capabilities.freeform_tools
        pieces = await pieces_of(model, ASKED)
        answer = answer_in(pieces)
        _, waited, ran, other = answer.message.parts
        assert isinstance(waited, ToolCall)
        assert isinstance(ran, FreeformCall)
        assert isinstance(other, FreeformCall)
        assert (ran.name, ran.input, other.name, other.input) == ("exec", CODE, "a::b", "")
        assert json.loads(waited.arguments) == {"input": "x"}
        assert answer.finish is FinishReason.TOOL_CALLS
        # The pieces say no more and no less than the whole.
        texts = ["".join(one.text for one in pieces if isinstance(one, CallDelta) and one.index == at) for at in (1, 2)]
        assert texts == ([waited.arguments, CODE] if stream else ["", ""])
        results = [
            ToolResult(ran.id, "exec", (InputText("2"), InputImage(PNG))),
            ToolResult(waited.id, "wait", (InputText("done"),)),
            ToolResult(other.id, "a::b", (InputText("none"),), is_error=True),
        ]
        await answered(model, replace(ASKED, messages=(*ASKED.messages, answer.message, *results)))
    offered = server.heard[0].body["tools"]
    assert offered[0] == {
        "type": "custom",
        "name": "exec",
        "description": "Runs it.",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
    }
    assert [(one["type"], one["name"]) for one in offered[1:]] == [("function", "wait"), ("custom", "a__b")]
    told = [one for one in server.heard[1].body["input"] if "call" in one.get("type", "")]
    assert [one["type"] for one in told] == [
        "function_call",
        "custom_tool_call",
        "custom_tool_call",
        "custom_tool_call_output",
        "function_call_output",
        "custom_tool_call_output",
    ]
    assert (told[1]["input"], told[1]["id"], told[2]["name"]) == (CODE, "ctc_1_0", "a__b")
    assert told[3]["output"][0]["text"] == "2"
    assert told[3]["output"][1]["image_url"] == PNG


@pytest.mark.parametrize("stream", [True, False])
async def test_custom_tool_that_is_called_as_a_function_is_told_as_that(stream: bool) -> None:
    reply = Reply(calls=[("exec", '{"code": "1"}')])
    async with (
        ModelServer([reply]) as server,
        model_at(server, "responses", model="gpt-5", freeform_tools=True, stream=stream) as model,
    ):
        answer = await answered(model, ASKED)
    [call] = answer.message.calls
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments) == ("exec", '{"code": "1"}')


async def test_call_whose_text_never_came_is_no_answer() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "exec", "input": ""}
    response: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    events: list[dict[str, Any]] = [
        {"type": "response.created", "sequence_number": 0, "response": {**response, "status": "in_progress"}},
        {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item},
        {
            "type": "response.custom_tool_call_input.delta",
            "sequence_number": 2,
            "output_index": 0,
            "item_id": "ctc_1",
            "delta": "import os",
        },
        {"type": "response.completed", "sequence_number": 3, "response": response},
    ]
    said = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events]
    raw = Raw(200, said, {"content-type": "text/event-stream"})
    async with ModelServer([raw]) as server, model_at(server, "responses", freeform_tools=True) as model:
        with pytest.raises(AnswerInvalid, match="a call whose text is missing"):
            await answered(model, ASKED)


async def test_freeform_tools_are_refused_where_nobody_has_said_that_there_are_any() -> None:
    async with ModelServer() as server:
        for wire in ("anthropic", "responses", "chat"):
            async with model_at(server, wire) as model:
                assert not model.capabilities.freeform_tools
                with pytest.raises(InvalidInput, match="takes no freeform tools, and 'exec' is one"):
                    await answered(model, ASKED)
    assert not server.heard
