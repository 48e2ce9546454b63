"""What is asked, in the terms of the library that speaks to providers.

Opaque data and signatures go back to the provider that gave them and to no other; reasoning that another provider made
is left out, because none can check it. A freeform call of another model is told as a call with one argument, `input`.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, assert_never, cast

from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings as RequestSettings
from pydantic_ai.tools import ToolDefinition

from cloister.core.errors import InvalidInput
from cloister.core.message import (
    AssistantMessage,
    ContentPart,
    FreeformCall,
    InputImage,
    InputText,
    OutputText,
    Part,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)
from cloister.core.offer import FunctionTool, OfferedTool
from cloister.ports.model import Asked
from cloister.threads.models.provided.freeform import INPUT, SCHEMA
from cloister.threads.models.settings import ModelSettings

# Anthropic wants to be told; enough for a long program, and within what its models of these years allow.
_ANTHROPIC_TOKENS = 16_384


def wire_name(name: str) -> str:
    """Providers take no colons: `shop::refund` is `shop__refund` to them."""
    return name.replace("::", "__")


def wire_names(asked: Asked, settings: ModelSettings) -> dict[str, str]:
    """What was offered, by its name on the wire. Raises `InvalidInput`."""
    made: dict[str, str] = {}
    for tool in asked.tools:
        other = made.setdefault(wire_name(tool.name), tool.name)
        if other != tool.name:
            raise InvalidInput(
                f"{settings.name} cannot tell {other!r} from {tool.name!r}: both are {wire_name(tool.name)!r} to it",
                hint="rename one of them",
            )
    return made


def messages_of(asked: Asked, settings: ModelSettings, model: Model) -> list[ModelMessage]:
    made: list[ModelMessage] = []
    waiting: list[ModelRequestPart] = []

    def flush() -> None:
        if waiting:
            made.append(ModelRequest(parts=list(waiting)))
            waiting.clear()

    for place, message in enumerate(asked.messages):
        if isinstance(message, AssistantMessage):
            flush()
            made.append(_response(message, settings, model))
        else:
            waiting.append(_request_part(message, settings, f"messages[{place}]"))
    flush()
    last = made[-1]
    if asked.instructions and isinstance(last, ModelRequest):
        last.instructions = asked.instructions
    elif asked.instructions:
        made.append(ModelRequest(parts=[], instructions=asked.instructions))
    if any(isinstance(message, SystemMessage) for message in asked.messages):
        # In the middle of a conversation not every provider has a place for them.
        return model.prepare_messages(made, parameters_of(asked))
    return made


def parameters_of(asked: Asked) -> ModelRequestParameters:
    tools = [_definition(tool) for tool in asked.tools]
    return ModelRequestParameters(function_tools=tools, allow_text_output=asked.tool_choice != "required")


def _definition(tool: OfferedTool) -> ToolDefinition:
    schema = tool.input_schema if isinstance(tool, FunctionTool) else SCHEMA
    return ToolDefinition(
        name=wire_name(tool.name),
        description=tool.description or None,
        parameters_json_schema=cast("dict[str, Any]", json.loads(json.dumps(schema))),
        strict=isinstance(tool, FunctionTool) and tool.strict,
    )


def settings_of(asked: Asked, settings: ModelSettings) -> RequestSettings:
    made: dict[str, Any] = {}
    tokens = asked.max_output_tokens or settings.max_output_tokens
    if tokens is None and settings.provider == "anthropic":
        tokens = _ANTHROPIC_TOKENS
    if tokens is not None:
        made["max_tokens"] = tokens
    if asked.temperature is not None:
        made["temperature"] = asked.temperature
    if asked.effort is not None:
        made["thinking"] = asked.effort
    if asked.tools and asked.tool_choice != "auto":
        made["tool_choice"] = asked.tool_choice
    if settings.cache:
        made["cache"] = True
    if settings.provider == "openai" and settings.wire == "responses":
        # A thread is kept by us: the provider need not.
        made["openai_store"] = False
        if settings.reasoning_summary is not None:
            made["openai_reasoning_summary"] = settings.reasoning_summary
    return cast("RequestSettings", made)


def _request_part(
    message: UserMessage | SystemMessage | ToolResult, settings: ModelSettings, where: str
) -> ModelRequestPart:
    match message:
        case UserMessage():
            return UserPromptPart(content=[_content(part, where) for part in message.content])
        case SystemMessage():
            return SystemPromptPart(content=message.text)
        case ToolResult():
            content: Any = [_content(part, where) for part in message.content]
            if all(isinstance(part, InputText) for part in message.content):
                content = "\n".join(part.text for part in message.content if isinstance(part, InputText))
            # OpenAI has no word for it: there the text is all that says so, and it goes out as it is.
            has_failed = message.is_error and settings.provider == "anthropic"
            outcome = "failed" if has_failed else "success"
            return ToolReturnPart(wire_name(message.name), content, message.call_id, outcome=outcome)
        case _:
            assert_never(message)


def _content(part: ContentPart, where: str) -> UserContent:
    match part:
        case InputText():
            return part.text
        case InputImage():
            detail = {"detail": part.detail} if part.detail is not None else None
            if not part.image_url.startswith("data:"):
                return ImageUrl(url=part.image_url, vendor_metadata=detail)
            head, comma, data = part.image_url.partition(",")
            media, semicolon, coding = head.removeprefix("data:").partition(";")
            if not comma or not semicolon or coding != "base64":
                raise InvalidInput(f"{where}: an image is written data:image/…;base64,…")
            try:
                return BinaryContent(
                    data=base64.b64decode(data, validate=True), media_type=media, vendor_metadata=detail
                )
            except binascii.Error:
                raise InvalidInput(f"{where}: the data of an image is not base64") from None
        case _:
            assert_never(part)


def _response(message: AssistantMessage, settings: ModelSettings, model: Model) -> ModelResponse:
    own = message.provider == settings.identity
    found = message.parts
    if not own or not _takes_reasoning(settings, model):
        found = tuple(part for part in found if not isinstance(part, Reasoning))
    parts = [made for part in found if (made := _response_part(part, own, settings)) is not None]
    opaque: Mapping[str, Any] = message.opaque if own else {}
    return ModelResponse(
        parts=parts,
        provider_name=_text(opaque, "provider_name"),
        provider_url=_text(opaque, "provider_url"),
        canonical_system=_text(opaque, "canonical_system"),
        provider_response_id=_text(opaque, "response_id"),
        provider_details=_details(opaque),
    )


def _takes_reasoning(settings: ModelSettings, model: Model) -> bool:
    """By Responses it goes back sealed, to models that seal it. Others would be told it as if they had said it."""
    if settings.provider == "openai" and settings.wire == "responses":
        profile = cast("Mapping[str, Any]", model.profile)
        return bool(profile.get("openai_supports_encrypted_reasoning_content"))
    return True


def _response_part(part: Part, own: bool, settings: ModelSettings) -> ModelResponsePart | None:
    opaque: Mapping[str, Any] = part.opaque if own else {}
    told: dict[str, Any] = {
        "id": _text(opaque, "id"),
        "provider_name": _text(opaque, "provider_name"),
        "provider_details": _details(opaque),
    }
    match part:
        case OutputText():
            return TextPart(content=part.text, **told) if part.text else None
        case Reasoning():
            return ThinkingPart(content=part.text, signature=part.signature, **told)
        case ToolCall():
            arguments = _arguments(part, settings)
            return ToolCallPart(tool_name=wire_name(part.name), args=arguments, tool_call_id=part.id, **told)
        case FreeformCall():
            told["args"] = {INPUT: part.input}
            if not settings.freeform_tools:
                # The provider has the id for another kind of call.
                told["id"] = None
            return ToolCallPart(tool_name=wire_name(part.name), tool_call_id=part.id, **told)
        case _:
            assert_never(part)


def _arguments(call: ToolCall, settings: ModelSettings) -> str | dict[str, Any]:
    """As they were written. Where the provider wants an object, and there is none, what was written goes in one."""
    if settings.provider != "anthropic":
        return call.arguments
    try:
        made: Any = json.loads(call.arguments) if call.arguments.strip() else {}
    except (ValueError, RecursionError):
        made = None
    return cast("dict[str, Any]", made) if isinstance(made, dict) else {"unreadable_arguments": call.arguments}


def _text(opaque: Mapping[str, Any], name: str) -> str | None:
    value = opaque.get(name)
    return value if isinstance(value, str) else None


def _details(opaque: Mapping[str, Any]) -> dict[str, Any] | None:
    value = opaque.get("details")
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
