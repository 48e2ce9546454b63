"""What was said to a model and by it, in the shape of the conventions; cut, for an attribute is no archive."""

import json
from collections.abc import Iterable
from typing import Any, assert_never

from cloister.core.message import (
    AssistantMessage,
    ContentPart,
    FreeformCall,
    InputText,
    Message,
    OutputText,
    Part,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)

# Of one text, in characters, and of one attribute, in messages: the newest.
_LONGEST = 4_000
_MOST = 50


def messages_text(messages: Iterable[Message]) -> str:
    return json.dumps([_message(one) for one in list(messages)[-_MOST:]], ensure_ascii=False)


def instructions_text(instructions: str) -> str:
    return json.dumps([_text(instructions)], ensure_ascii=False)


def _message(message: Message) -> dict[str, Any]:
    match message:
        case UserMessage(content=content):
            parts = [_content(one) for one in content]
        case SystemMessage(text=text):
            parts = [_text(text)]
        case AssistantMessage(parts=said):
            parts = [_said(one) for one in said]
        case ToolResult(call_id=call_id, content=content):
            answered = [_content(one) for one in content]
            parts = [{"type": "tool_call_response", "id": call_id, "response": answered}]
        case _:
            assert_never(message)
    return {"role": message.role, "parts": parts}


def _content(part: ContentPart) -> dict[str, Any]:
    # An image is megabytes of text to anybody who does not look at it.
    return _text(part.text) if isinstance(part, InputText) else {"type": "image"}


def _said(part: Part) -> dict[str, Any]:
    match part:
        case OutputText(text=text):
            return _text(text)
        case Reasoning(text=text):
            return {"type": "reasoning", "content": _cut(text)}
        case ToolCall(id=call_id, name=name, arguments=given) | FreeformCall(id=call_id, name=name, input=given):
            return {"type": "tool_call", "id": call_id, "name": name, "arguments": _cut(given)}
        case _:
            assert_never(part)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": _cut(text)}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
