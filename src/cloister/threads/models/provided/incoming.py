"""What a provider's library hands over, as pieces and an answer of ours, bounded while it comes.

The library is lenient about what it reads, so nothing of it is believed: kinds, ids, names, sizes, counts and depths
are looked at here. Text that is no Unicode, because a surrogate pair was cut in two, is mended or marked (U+FFFD).
"""

from collections.abc import Container, Mapping
from typing import Any, cast

from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.usage import RequestUsage

from cloister.core.answer import Answer, CallDelta, Delta, FinishReason, ReasoningDelta, TextDelta
from cloister.core.errors import AnswerInvalid, AnswerTooLarge, ModelFailed
from cloister.core.message import AssistantMessage, FreeformCall, OutputText, Part, Reasoning, ToolCall
from cloister.core.usage import Usage
from cloister.core.value import Bounds, Json, ValueRefused, sized
from cloister.threads.models.provided.freeform import input_of
from cloister.threads.models.settings import ModelSettings

_FINISHES = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "tool_call": FinishReason.TOOL_CALLS,
    "error": FinishReason.ERROR,
}
_MOST_ID = 512
_MOST_NAME = 256


class Gathering:
    """One answer on its way."""

    def __init__(self, settings: ModelSettings, names: Mapping[str, str], freeform: Container[str] = ()) -> None:
        """`names`: what was offered, by its name on the wire; `freeform` those of it whose input is text."""
        self._settings = settings
        self._freeform = freeform
        self._names = names
        self._limits = settings.limits
        self._bytes = 0
        # By part: id and name of a call.
        self._calls: dict[int, tuple[str, str]] = {}
        # Those among them whose input is text.
        self._texts: set[int] = set()
        self._parts = 0

    def take(self, event: object) -> Delta | None:
        """Raises `AnswerTooLarge` and `AnswerInvalid`."""
        match event:
            case PartStartEvent(index=index, part=part):
                self._parts += 1
                if self._parts > self._limits.max_parts:
                    raise self._too_large(f"more than {self._limits.max_parts} parts")
                return self._started(index, part)
            case PartDeltaEvent(index=index, delta=TextPartDelta(content_delta=text)):
                return TextDelta(index, self._text(text))
            case PartDeltaEvent(index=index, delta=ThinkingPartDelta(content_delta=text)):
                return ReasoningDelta(index, self._text(text)) if text else None
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=text)):
                call_id, name = self._calls.get(index, ("", ""))
                if index in self._texts:
                    said = input_of(text)
                    return CallDelta(index, self._text(said), call_id, name) if said is not None else None
                # An object, where a library hands one over, is in the answer.
                return CallDelta(index, self._text(text), call_id, name) if isinstance(text, str) else None
            case _:
                return None

    def finish(self, response: ModelResponse, requests: int) -> Answer:
        """Raises `ModelFailed` for one that was cut off, `AnswerTooLarge` and `AnswerInvalid`."""
        details = response.provider_details or {}
        raw = details.get("finish_reason")
        # The library takes a stream of chat completions that just ends for one that was stopped.
        said = response.finish_reason if response.finish_reason != "stop" or not self._settings.stream else None
        if said is None and raw is None:
            raise ModelFailed(
                f"{self._settings.name}: the answer was cut off: it ended without saying why",
                provider=self._settings.identity,
                model=self._settings.name,
                hint="a server that never says why needs stream = false" if self._settings.base_url else None,
            )
        self._bytes = 0
        opaque_left = [self._limits.max_opaque_bytes]
        if len(response.parts) > self._limits.max_parts:
            raise self._too_large(f"more than {self._limits.max_parts} parts")
        was_cut = response.finish_reason == "length"
        parts = tuple(self._part(part, opaque_left, was_cut=was_cut) for part in response.parts)
        message = AssistantMessage(
            parts,
            provider=self._settings.identity,
            opaque=self._opaque(
                {
                    "provider_name": response.provider_name,
                    "provider_url": response.provider_url,
                    "canonical_system": response.canonical_system,
                    "response_id": response.provider_response_id,
                    "details": response.provider_details,
                },
                opaque_left,
            ),
        )
        self._check_calls(message)
        finish = _FINISHES.get(response.finish_reason or "", FinishReason.UNKNOWN)
        if finish is FinishReason.STOP and message.calls:
            # Some servers say that they have stopped when they wait for a call.
            finish = FinishReason.TOOL_CALLS
        usage = _usage(response.usage, requests)
        prices = self._settings.prices
        return Answer(
            message,
            finish,
            usage,
            prices.of(usage) if prices is not None else None,
            _short(response.model_name),
            _short(response.provider_response_id),
        )

    # -- inside ----------------------------------------------------------------------------------------------

    def _started(self, index: int, part: object) -> Delta | None:
        match part:
            case TextPart():
                return TextDelta(index, self._text(part.content)) if part.content else None
            case ThinkingPart():
                return ReasoningDelta(index, self._text(part.content)) if part.content else None
            case ToolCallPart():
                if len(self._calls) >= self._limits.max_calls:
                    raise self._too_large(f"more than {self._limits.max_calls} calls")
                self._calls[index] = (self._name(part.tool_call_id, "id"), self._name(part.tool_name, "name"))
                if part.tool_name in self._freeform:
                    # Its text comes as a whole.
                    self._texts.add(index)
                    return None
                arguments = part.args if isinstance(part.args, str) else ""
                return CallDelta(index, self._text(arguments), *self._calls[index])
            case _:
                return None

    def _part(self, part: object, opaque_left: list[int], *, was_cut: bool) -> Part:
        match part:
            case TextPart():
                return OutputText(self._text(part.content), self._own(part, opaque_left))
            case ThinkingPart():
                # Counted with what is opaque: it is as long as the provider likes.
                signature = part.signature
                if signature is not None:
                    opaque_left[0] -= len(signature)
                return Reasoning(self._text(part.content), signature, self._own(part, opaque_left))
            case ToolCallPart():
                call = cast("ToolCallPart[Any]", part)
                arguments = call.args if isinstance(call.args, str) else self._written(call)
                call_id, name = self._name(call.tool_call_id, "id"), self._name(call.tool_name, "name")
                if call.tool_name in self._freeform:
                    text = input_of(arguments)
                    if text is None and not arguments and not was_cut:
                        raise self._invalid("a call whose text is missing")
                    if text is not None or not arguments:
                        return FreeformCall(call_id, name, self._text(text or ""), self._own(call, opaque_left))
                    # Called as a function all the same: what it then means is for whoever offered it.
                return ToolCall(call_id, name, self._text(arguments), self._own(call, opaque_left))
            case _:
                raise self._invalid(f"a part that nobody asked for ({type(part).__name__})")

    def _written(self, part: "ToolCallPart[Any]") -> str:
        if part.args is None:
            return "{}"
        try:
            sized(part.args, Bounds(size=self._limits.max_bytes))
        except ValueRefused as refused:
            raise self._too_large(f"arguments that cannot be taken: {refused.message}") from None
        return part.args_as_json_str()

    def _own(self, part: "TextPart | ThinkingPart | ToolCallPart[Any]", left: list[int]) -> dict[str, Json]:
        told = {"id": part.id, "provider_name": part.provider_name, "details": part.provider_details}
        return self._opaque(told, left)

    def _opaque(self, told: Mapping[str, Any], left: list[int]) -> dict[str, Json]:
        given = {name: value for name, value in told.items() if value}
        if not given:
            return {}
        try:
            made, size = sized(given, Bounds(depth=self._limits.max_depth, size=max(left[0], 1)))
        except ValueRefused as refused:
            raise self._too_large(f"data of the provider that cannot be kept: {refused.message}") from None
        left[0] -= size
        assert isinstance(made, dict)
        return made

    def _check_calls(self, message: AssistantMessage) -> None:
        if len(message.calls) > self._limits.max_calls:
            raise self._too_large(f"more than {self._limits.max_calls} calls")
        ids = [call.id for call in message.calls]
        if len(set(ids)) != len(ids):
            raise self._invalid("two calls with one id")

    def _name(self, text: object, what: str) -> str:
        most = _MOST_ID if what == "id" else _MOST_NAME
        if not isinstance(text, str) or not text or len(text) > most or not text.isprintable():
            raise self._invalid(f"a call whose {what} is no {what}")
        return self._names.get(text, text) if what == "name" else text

    def _text(self, text: object) -> str:
        if not isinstance(text, str):
            raise self._invalid("a text that is none")
        mended = unbroken(text)
        self._bytes += len(mended.encode())
        if self._bytes > self._limits.max_bytes:
            raise self._too_large(f"more than {self._limits.max_bytes} bytes")
        return mended

    def _too_large(self, what: str) -> AnswerTooLarge:
        return AnswerTooLarge(
            f"{self._settings.name}: the answer has {what}",
            provider=self._settings.identity,
            model=self._settings.name,
        )

    def _invalid(self, what: str) -> AnswerInvalid:
        return AnswerInvalid(
            f"{self._settings.name}: the answer has {what}",
            provider=self._settings.identity,
            model=self._settings.name,
        )


def unbroken(text: str) -> str:
    """Surrogates that make a pair become what they stand for, others U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _usage(usage: RequestUsage, requests: int) -> Usage:
    return Usage(
        input_tokens=_count(usage.input_tokens),
        output_tokens=_count(usage.output_tokens),
        cached_tokens=_count(usage.cache_read_tokens),
        cache_write_tokens=_count(usage.cache_write_tokens),
        reasoning_tokens=_count(usage.details.get("reasoning_tokens", 0)),
        requests=requests,
    )


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 1 << 53 else 0


def _short(text: object) -> str | None:
    return unbroken(text)[:_MOST_ID] if isinstance(text, str) and text else None
