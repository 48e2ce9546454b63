"""What is said to a model and by it: messages, and the parts that they are made of.

    UserMessage       content: InputText | InputImage
    SystemMessage     a note of the host in the middle of a conversation (what holds for all of it are `instructions`)
    AssistantMessage  parts, in the order in which the model made them: OutputText | Reasoning | ToolCall | FreeformCall
    ToolResult        the answer to one call: content, and whether it went wrong

`opaque` is what a provider wants back as it was: ids, signatures, encrypted reasoning. Nobody else reads it, it goes to
that provider alone, and it survives being written down. So do fields that this version does not know (`extra`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeAlias, assert_never, cast

from cloister.core.doc import Doc
from cloister.core.errors import InvalidInput
from cloister.core.value import Bounds, Json, ValueRefused, plain


def _empty() -> dict[str, Json]:
    return {}


@dataclass(frozen=True, slots=True)
class InputText:
    text: str
    extra: Mapping[str, Json] = field(default_factory=_empty)


@dataclass(frozen=True, slots=True)
class InputImage:
    """`image_url` is an `https:` or a `data:image/…;base64,` URL."""

    image_url: str
    detail: str | None = None
    extra: Mapping[str, Json] = field(default_factory=_empty)


ContentPart: TypeAlias = InputText | InputImage


@dataclass(frozen=True, slots=True)
class OutputText:
    text: str
    opaque: Mapping[str, Json] = field(default_factory=_empty)
    extra: Mapping[str, Json] = field(default_factory=_empty)


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What the model thought, as far as it is told: the text may be empty where only `opaque` was handed over."""

    text: str
    # By which the provider knows its own reasoning again.
    signature: str | None = None
    opaque: Mapping[str, Json] = field(default_factory=_empty)
    extra: Mapping[str, Json] = field(default_factory=_empty)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a function tool. `arguments` is the model's text, which may be no JSON at all: see `read_arguments`."""

    id: str
    name: str
    arguments: str
    opaque: Mapping[str, Json] = field(default_factory=_empty)
    extra: Mapping[str, Json] = field(default_factory=_empty)


@dataclass(frozen=True, slots=True)
class FreeformCall:
    """A call of a freeform tool: its input is plain text."""

    id: str
    name: str
    input: str
    opaque: Mapping[str, Json] = field(default_factory=_empty)
    extra: Mapping[str, Json] = field(default_factory=_empty)


Part: TypeAlias = OutputText | Reasoning | ToolCall | FreeformCall


@dataclass(frozen=True, slots=True)
class UserMessage:
    content: tuple[ContentPart, ...]
    extra: Mapping[str, Json] = field(default_factory=_empty)
    role: Literal["user"] = field(default="user", init=False)


@dataclass(frozen=True, slots=True)
class SystemMessage:
    text: str
    extra: Mapping[str, Json] = field(default_factory=_empty)
    role: Literal["system"] = field(default="system", init=False)


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    parts: tuple[Part, ...]
    # Which provider the opaque data is of; another one is not shown it.
    provider: str | None = None
    opaque: Mapping[str, Json] = field(default_factory=_empty)
    extra: Mapping[str, Json] = field(default_factory=_empty)
    role: Literal["assistant"] = field(default="assistant", init=False)

    @property
    def text(self) -> str:
        """All that it said, without what it thought."""
        return "".join(part.text for part in self.parts if isinstance(part, OutputText))

    @property
    def calls(self) -> tuple[ToolCall | FreeformCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, (ToolCall, FreeformCall)))


@dataclass(frozen=True, slots=True)
class ToolResult:
    call_id: str
    # The tool's, for providers that ask for it again.
    name: str
    content: tuple[ContentPart, ...]
    is_error: bool = False
    extra: Mapping[str, Json] = field(default_factory=_empty)
    role: Literal["tool"] = field(default="tool", init=False)


Message: TypeAlias = UserMessage | SystemMessage | AssistantMessage | ToolResult


def user_text(text: str) -> UserMessage:
    return UserMessage((InputText(text),))


def read_arguments(call: ToolCall, bounds: Bounds | None = None) -> dict[str, Json]:
    """The arguments as an object within bounds. Raises `InvalidInput` with what the model can mend."""
    if not call.arguments.strip():
        return {}
    try:
        made = json.loads(call.arguments, parse_constant=_no_number)
        found = plain(made, bounds or Bounds())
    except ValueRefused as refusal:
        raise InvalidInput(f"the arguments of {call.name!r}: {refusal.message}", hint=refusal.hint) from None
    except json.JSONDecodeError as error:
        reason = f"{error.msg}, line {error.lineno}, column {error.colno}"
        raise InvalidInput(f"the arguments of {call.name!r} are not JSON: {reason}") from None
    except (ValueError, RecursionError) as error:
        reason = "they are nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise InvalidInput(f"the arguments of {call.name!r} are not JSON: {reason}") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"the arguments of {call.name!r} are an object with names, not {type(found).__name__}")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


# -- written down and read again -------------------------------------------------------------------------------------


def message_to_doc(message: Message) -> dict[str, Any]:
    doc: dict[str, Any] = {**message.extra, "role": message.role}
    match message:
        case UserMessage():
            doc["content"] = [content_to_doc(part) for part in message.content]
        case SystemMessage():
            doc["text"] = message.text
        case AssistantMessage():
            doc["parts"] = [part_to_doc(part) for part in message.parts]
            if message.provider is not None:
                doc["provider"] = message.provider
            if message.opaque:
                doc["opaque"] = dict(message.opaque)
        case ToolResult():
            doc |= {"call_id": message.call_id, "name": message.name}
            doc["content"] = [content_to_doc(part) for part in message.content]
            if message.is_error:
                doc["is_error"] = True
        case _:
            assert_never(message)
    return doc


def message_from_doc(data: object, where: str = "message") -> Message:
    """Raises `InvalidInput` with the path of what is wrong."""
    doc = Doc(data, where)
    match doc.text("role"):
        case "user":
            return UserMessage(doc.each("content", content_from_doc), doc.rest())
        case "system":
            return SystemMessage(doc.text("text"), doc.rest())
        case "assistant":
            parts = doc.each("parts", part_from_doc)
            return AssistantMessage(parts, doc.text_or_none("provider"), doc.mapping("opaque"), doc.rest())
        case "tool":
            call_id, name = doc.text("call_id"), doc.text("name")
            content, is_error = doc.each("content", content_from_doc), doc.flag("is_error")
            return ToolResult(call_id, name, content, is_error, doc.rest())
        case role:
            raise doc.unknown("role", role, ("user", "system", "assistant", "tool"))


def content_to_doc(part: ContentPart) -> dict[str, Any]:
    match part:
        case InputText():
            return {**part.extra, "type": "input_text", "text": part.text}
        case InputImage():
            doc = {**part.extra, "type": "input_image", "image_url": part.image_url}
            return doc if part.detail is None else doc | {"detail": part.detail}
        case _:
            assert_never(part)


def content_from_doc(data: object, where: str = "content") -> ContentPart:
    doc = Doc(data, where)
    match doc.text("type"):
        case "input_text":
            return InputText(doc.text("text"), doc.rest())
        case "input_image":
            return InputImage(doc.text("image_url"), doc.text_or_none("detail"), doc.rest())
        case tag:
            raise doc.unknown("type", tag, ("input_text", "input_image"))


def part_to_doc(part: Part) -> dict[str, Any]:
    doc: dict[str, Any] = dict(part.extra)
    match part:
        case OutputText():
            doc |= {"type": "output_text", "text": part.text}
        case Reasoning():
            doc |= {"type": "reasoning", "text": part.text}
            if part.signature is not None:
                doc["signature"] = part.signature
        case ToolCall():
            doc |= {"type": "tool_call", "id": part.id, "name": part.name, "arguments": part.arguments}
        case FreeformCall():
            doc |= {"type": "freeform_call", "id": part.id, "name": part.name, "input": part.input}
        case _:
            assert_never(part)
    if part.opaque:
        doc["opaque"] = dict(part.opaque)
    return doc


def part_from_doc(data: object, where: str = "part") -> Part:
    doc = Doc(data, where)
    tag, opaque = doc.text("type"), doc.mapping("opaque")
    match tag:
        case "output_text":
            return OutputText(doc.text("text"), opaque, doc.rest())
        case "reasoning":
            text, signature = doc.text("text"), doc.text_or_none("signature")
            return Reasoning(text, signature, opaque, doc.rest())
        case "tool_call":
            call_id, name, arguments = doc.text("id"), doc.text("name"), doc.text("arguments")
            return ToolCall(call_id, name, arguments, opaque, doc.rest())
        case "freeform_call":
            call_id, name, text = doc.text("id"), doc.text("name"), doc.text("input")
            return FreeformCall(call_id, name, text, opaque, doc.rest())
        case _:
            raise doc.unknown("type", tag, ("output_text", "reasoning", "tool_call", "freeform_call"))


def contents_of(items: tuple[Mapping[str, Any], ...]) -> tuple[ContentPart, ...]:
    """The content items of a cell, as what a model may be told."""
    return tuple(content_from_doc(cast("object", item), f"content[{at}]") for at, item in enumerate(items))
