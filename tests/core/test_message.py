"""What is said to models and by them, written down and read again."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.answer import Answer, FinishReason, answer_from_doc, answer_to_doc
from cloister.core.errors import InvalidInput, InvalidToolName
from cloister.core.message import (
    AssistantMessage,
    FreeformCall,
    InputImage,
    InputText,
    Message,
    OutputText,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
    message_from_doc,
    message_to_doc,
    read_arguments,
)
from cloister.core.offer import FreeformTool, FunctionTool, Grammar, offer_from_doc, offer_to_doc
from cloister.core.usage import Cost, Prices, Usage

_TEXT = st.text(max_size=12)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXT, inner, max_size=2),
    max_leaves=4,
)
_OPAQUE = st.dictionaries(_TEXT, _JSON, max_size=2)
# No name of a field of ours starts with this.
_EXTRA = st.dictionaries(st.text(max_size=5).map(lambda text: "x-" + text), _JSON, max_size=2)
_CONTENT = st.lists(
    st.builds(InputText, _TEXT, _EXTRA) | st.builds(InputImage, _TEXT, st.none() | _TEXT, _EXTRA), max_size=2
).map(tuple)
_PARTS = st.lists(
    st.builds(OutputText, _TEXT, _OPAQUE, _EXTRA)
    | st.builds(Reasoning, _TEXT, st.none() | _TEXT, _OPAQUE, _EXTRA)
    | st.builds(ToolCall, _TEXT, _TEXT, _TEXT, _OPAQUE, _EXTRA)
    | st.builds(FreeformCall, _TEXT, _TEXT, _TEXT, _OPAQUE, _EXTRA),
    max_size=3,
).map(tuple)
_ASSISTANT = st.builds(AssistantMessage, _PARTS, st.none() | _TEXT, _OPAQUE, _EXTRA)
_MESSAGES = (
    st.builds(UserMessage, _CONTENT, _EXTRA)
    | st.builds(SystemMessage, _TEXT, _EXTRA)
    | _ASSISTANT
    | st.builds(ToolResult, _TEXT, _TEXT, _CONTENT, st.booleans(), _EXTRA)
)
_COUNT = st.integers(0, 2**40)
_ANSWERS = st.builds(
    Answer,
    _ASSISTANT,
    st.sampled_from(FinishReason),
    st.builds(Usage, _COUNT, _COUNT, _COUNT, _COUNT, _COUNT, _COUNT, _EXTRA),
    st.none() | st.builds(Cost, st.decimals(0, 10**9, places=9), st.just("EUR")),
    st.none() | _TEXT,
    st.none() | _TEXT,
    _EXTRA,
)


@settings(max_examples=30, deadline=None)
@given(_MESSAGES, _ANSWERS)
def test_message_and_answer_come_back_from_json_as_they_were(message: Message, answer: Answer) -> None:
    assert message_from_doc(json.loads(json.dumps(message_to_doc(message)))) == message
    assert answer_from_doc(json.loads(json.dumps(answer_to_doc(answer)))) == answer


@settings(max_examples=100, deadline=None)
@given(_JSON | st.dictionaries(st.sampled_from(["role", "type", "content", "parts", "message", "usage"]), _JSON))
def test_what_is_no_message_or_answer_is_refused_and_nothing_else(data: Any) -> None:
    for read in (message_from_doc, answer_from_doc, offer_from_doc):
        with pytest.raises(InvalidInput):
            read(data)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"role": "robot"}, "answer.message.role: 'robot' is not known; there are user, system"),
        ({"parts": [{"type": "song"}]}, "answer.message.parts[0].type: 'song' is not known"),
        ({"parts": [{"type": "output_text", "text": 5}]}, "answer.message.parts[0].text is a text, not 5"),
        ({"parts": [{"type": "tool_call", "id": "1", "name": "f"}]}, "parts[0].arguments is a text, not missing"),
        ({"parts": "hi"}, "answer.message.parts is a list, not str"),
        ({"role": "user", "content": []}, "answer.message.role is 'assistant', not 'user'"),
    ],
)
def test_a_wrong_field_is_named_with_its_path(change: dict[str, Any], said: str) -> None:
    message: dict[str, Any] = {"role": "assistant", "parts": ()}
    doc: dict[str, Any] = {"message": message | change, "finish": "stop"}
    with pytest.raises(InvalidInput) as caught:
        answer_from_doc(doc)
    assert said in caught.value.message


def test_arguments_are_an_object_within_bounds_or_say_what_is_wrong_with_them() -> None:
    assert read_arguments(ToolCall("1", "f", '{"a": [1]}')) == {"a": [1]}
    assert read_arguments(ToolCall("1", "f", "  ")) == {}
    for text, said in {
        "[1]": "an object with names, not list",
        "{": "not JSON: Expecting property name",
        '{"a": NaN}': "NaN is no JSON number",
        '{"a":' * 100_000: "nested too deeply",
        '{"a":' + "[" * 200 + "]" * 200 + "}": "nested deeper than",
        '{"a": %s}' % ("9" * 6000): "the arguments of 'f'",
    }.items():
        with pytest.raises(InvalidInput) as caught:
            read_arguments(ToolCall("1", "f", text))
        assert said in caught.value.message


def test_offers_come_back_and_refuse_names_that_no_provider_takes() -> None:
    for tool in (
        FunctionTool("f", "Does it.", {"type": "object", "properties": {"a": {}}}, strict=True),
        FreeformTool("exec", "Runs it.", Grammar("lark", "start: /.*/"), {"x": 1}),
        FreeformTool("exec"),
    ):
        assert offer_from_doc(json.loads(json.dumps(offer_to_doc(tool)))) == tool
    assert FunctionTool("shop::refund").name == "shop::refund"
    for name in ("", "a b", "x" * 65, "ä", "a:b", "a::b::c", "::a", "a::"):
        with pytest.raises(InvalidToolName):
            FreeformTool(name)
    with pytest.raises(InvalidInput, match="'f' is that of an object"):
        FunctionTool("f", input_schema={"type": "array"})


def test_usage_adds_up_and_cached_tokens_are_paid_once_at_their_own_price() -> None:
    usage = Usage(input_tokens=1000, cached_tokens=600, output_tokens=10) + Usage(output_tokens=90, requests=2)
    assert (usage.output_tokens, usage.requests) == (100, 2)
    prices = Prices(Decimal(3), Decimal(15), cached=Decimal("0.3"))
    assert prices.of(usage) == Cost(Decimal("0.00288"), "USD")
    with pytest.raises(InvalidInput, match="USD and EUR"):
        assert prices.of(usage) + Cost(Decimal(1), "EUR")
