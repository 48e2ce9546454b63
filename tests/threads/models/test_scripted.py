"""Scripted models: what a file says is what they say, and a script that has gone astray fails by name."""

import asyncio
import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.answer import Answer, CallDelta, FinishReason, ReasoningDelta, TextDelta
from cloister.core.errors import InvalidConfig, InvalidInput, ModelFailed, ModelRateLimited, ScriptAstray
from cloister.core.message import (
    FreeformCall,
    InputText,
    OutputText,
    Reasoning,
    ToolCall,
    ToolResult,
    user_text,
)
from cloister.core.offer import FreeformTool, FunctionTool
from cloister.ports.model import Asked, answered
from cloister.threads.models import ScriptedModel, parse_script
from tests.threads.models.asking import EXEC, HandClock, answer_in, pieces_of

_SCRIPT = """
answers:
  - expect: refund
    reasoning: They want their money back.
    text: I will look at the order.
    exec: |
      o = await get_order(order_id="A7")
      f"${o['total']}"
    pieces: 3
    usage: {input_tokens: 12, output_tokens: 34}
  - expect: {matches: '"total": \\d+'}
    wait: {yield_ms: 50}
    calls:
      - tool: note
        arguments: {text: "für später", tags: [a, 1, null, true]}
      - tool: note
        arguments: not even JSON
  - - when: {matches: "(?i)\\\\bno\\\\b"}
      text: As you like.
    - when: break
      error: {code: model_rate_limited, message: slow down, retry_after_ms: 250, status: 429}
    - text: Done.
      finish: length
  - text: Almost there
    pieces: 4
    error: {code: model_failed, after_pieces: 2}
"""
_CELL = "cel_01M7R1G5Y5EAR2RF91RSZBHS1Y"


@pytest.mark.anyio
async def test_script_is_followed_by_the_conversation_alone() -> None:
    tools = (EXEC, FunctionTool("note"), FunctionTool("wait"))
    asked = Asked((user_text("A refund, please."),), tools=tools)
    # Each answer from a model of its own: nothing is remembered.
    pieces = await pieces_of(ScriptedModel(parse_script(_SCRIPT)), asked)
    first = answer_in(pieces)
    assert first.message.parts[:2] == (
        Reasoning("They want their money back."),
        OutputText("I will look at the order."),
    )
    call = first.message.calls[0]
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments) == {"code": 'o = await get_order(order_id="A7")\nf"${o[\'total\']}"\n'}
    assert first.finish is FinishReason.TOOL_CALLS
    assert (first.usage.input_tokens, first.usage.output_tokens, first.usage.requests) == (12, 34, 1)
    for kind, index in ((ReasoningDelta, 0), (TextDelta, 1), (CallDelta, 2)):
        assert len([one for one in pieces if isinstance(one, kind) and one.index == index]) == 3
    assert answer_in(await pieces_of(ScriptedModel(parse_script(_SCRIPT)), asked)) == first

    result = ToolResult(call.id, "exec", (InputText(f'{{"cell_id": "{_CELL}", "total": 12}}'),))
    asked = replace(asked, messages=(*asked.messages, first.message, result))
    second = await answered(ScriptedModel(parse_script(_SCRIPT)), asked)
    waiting, *notes = (one for one in second.message.calls if isinstance(one, ToolCall))
    assert (waiting.name, json.loads(waiting.arguments)) == ("wait", {"cell_id": _CELL, "yield_ms": 50})
    assert json.loads(notes[0].arguments) == {"text": "für später", "tags": ["a", 1, None, True]}
    assert notes[1].arguments == "not even JSON"
    assert len({one.id for one in (*first.message.calls, *second.message.calls)}) == 4

    model = ScriptedModel(parse_script(_SCRIPT))
    asked = replace(asked, messages=(*asked.messages, second.message))
    for said, text in (("No, thanks", "As you like."), ("yes", "Done.")):
        answer = await answered(model, replace(asked, messages=(*asked.messages, user_text(said))))
        assert answer.message.text == text
    with pytest.raises(ModelRateLimited, match="slow down") as limited:
        await answered(model, replace(asked, messages=(*asked.messages, user_text("break it"))))
    assert (limited.value.retry_after_ms, limited.value.status) == (250, 429)

    # A compacted conversation: the answers are counted, not there.
    seen: list[object] = []
    with pytest.raises(ModelFailed):
        async with model.request(Asked((user_text("hi"),), answers_before=3)) as coming:
            seen += [piece async for piece in coming]
    with pytest.raises(ScriptAstray, match="script: has 4 answers, and is asked for number 5"):
        await answered(model, Asked((user_text("hi"),), answers_before=4))
    with pytest.raises(ScriptAstray, match="line 3, answer 1: 'refund' is not in what was said last") as astray:
        await answered(model, Asked((user_text("Hello?"),)))
    assert astray.value.hint == "which is 'Hello?'"
    with pytest.raises(ScriptAstray, match="it waits for a cell, and none was named"):
        await answered(model, Asked((user_text('"total": 5'),), answers_before=1))


@pytest.mark.anyio
async def test_program_comes_in_whichever_way_programs_are_asked_for() -> None:
    model = ScriptedModel(parse_script('answers: [{exec: "x = ```1```", language: typescript}]'))
    asked = Asked((user_text("go"),))
    fenced = (await answered(model, asked)).message
    assert fenced.parts == (OutputText("````typescript\nx = ```1```\n````\n"),)
    freeform = (await answered(model, replace(asked, tools=(FreeformTool("exec"),)))).message
    assert freeform.parts == (FreeformCall("call_1_1", "exec", "x = ```1```"),)
    function = (await answered(model, replace(asked, tools=(EXEC,)))).message.calls[0]
    assert isinstance(function, ToolCall)
    assert json.loads(function.arguments) == {"code": "x = ```1```", "language": "typescript"}
    narrow = parse_script("capabilities: {freeform_tools: false, streaming: false}\nanswers: [{text: Hi, pieces: 2}]")
    with pytest.raises(InvalidInput, match="takes no freeform tools"):
        await answered(ScriptedModel(narrow), replace(asked, tools=(FreeformTool("exec"),)))
    assert [type(piece) for piece in await pieces_of(ScriptedModel(narrow), asked)] == [Answer]


@pytest.mark.anyio
async def test_script_takes_its_time_by_the_clock_it_is_given() -> None:
    clock = HandClock()
    script = parse_script("answers: [{text: ab, delay_ms: 1000, pieces: 2, piece_delay_ms: 500}]")
    model = ScriptedModel(script, clock=clock)
    task = asyncio.create_task(pieces_of(model, Asked((user_text("hi"),))))
    await asyncio.sleep(0)
    await clock.move(1.4)
    assert not task.done()
    await clock.move(0.1)
    assert answer_in(await task).message.text == "ab"


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("", "s", "is empty"),
        ("answers: []", "s:1: answers", "has 0 answers"),
        ("answers:\n  - text: [", "s:", "is not YAML"),
        ("answers:\n  - text: Hi\n    exek: x", "s:3: answers[0].exek", "is not known (did you mean `exec`?)"),
        ("answers:\n  - text: Hi\n    text: Ho", "s:3: answers[0]", "says 'text' twice"),
        ("answers:\n  - text: 5", "s:2: answers[0].text", "is a text, not a number (put it in quotes)"),
        ("answers:\n  - delay_ms: 5", "s:2: answers[0]", "says nothing"),
        ("answers:\n  - text: a\n    delay_ms: -1", "s:3: answers[0].delay_ms", "is a whole number between 0"),
        ("answers:\n  - error: {code: boom}", "s:2: answers[0].error.code", "has a code, one of model_refused"),
        ("answers:\n  - text: a\n    error: {code: model_failed}", "s:3: answers[0].error", "after_pieces"),
        ("answers:\n  - expect: {matches: '(a'}\n    text: a", "s:2: answers[0].expect.matches", "is no pattern"),
        ("answers:\n  - expect: {matches: '(?=a)'}\n    text: a", "s:2: answers[0].expect.matches", "is no pattern"),
        ("answers:\n  - when: x\n    text: a", "s:2: answers[0]", "nothing else to fall back on"),
        ("answers:\n  - - text: a\n    - text: b", "s:2: answers[0][0]", "always fits"),
        ("answers:\n  - calls: [{arguments: {}}]", "s:2: answers[0].calls[0]", "says no `tool`"),
        ("answers:\n  - text: a\n    language: python", "s:3: answers[0].language", "goes with `exec`"),
        ("a: &x [1]\nanswers: [*x]", "s:1", "has an alias"),
        ("answers: !!python/object:os.system [a]", "s:1", "has the tag"),
        ("answers: " + "[" * 60 + "]" * 60, "s:1", "is nested too deeply"),
        ("answers: [" + "a," * 100_001 + "]", "s:1", "is too much"),
        ("[1]", "s:1: the file", "has names with values, and is not a list"),
    ],
)
def test_what_is_wrong_in_a_script_is_named_by_its_line_and_key(text: str, where: str, words: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_script(text, "s")
    assert caught.value.path.startswith(where)
    assert words in caught.value.message + (f" ({caught.value.hint})" if caught.value.hint else "")


_WORDS = "answers:,\n,  ,- ,text:, a,exec:,|,{,},[,],when:,error:,code:,1e999,&,*,\t,0x1,2020-01-01,=,<<:".split(",")


@settings(max_examples=150)
@given(st.text(max_size=60) | st.lists(st.sampled_from(_WORDS), max_size=14).map("".join))
def test_any_text_is_a_script_or_is_refused(text: str) -> None:
    with contextlib.suppress(InvalidConfig):
        parse_script(text)
