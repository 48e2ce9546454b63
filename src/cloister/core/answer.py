"""An answer of a model, whole: what it said, why it stopped, and what that took.

It is what a journal keeps and what a replay hands out again, so it comes back from JSON as it was, with the fields
that this version does not know. While it is being made there are pieces of it, which nobody keeps: text and reasoning
as they come, calls as they are written, and a word when a request is sent again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias, cast

from cloister.core.doc import Doc
from cloister.core.errors import InvalidInput
from cloister.core.message import AssistantMessage, message_from_doc, message_to_doc
from cloister.core.usage import Cost, Usage, cost_from_doc, cost_to_doc, usage_from_doc, usage_to_doc
from cloister.core.value import Json


def _empty() -> dict[str, Json]:
    return {}


class FinishReason(StrEnum):
    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    # It was cut off: the answer is not all there is.
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    ERROR = "error"
    # The provider did not say, or said something new.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    message: AssistantMessage
    finish: FinishReason
    usage: Usage = field(default_factory=Usage)
    # None: the prices are not known.
    cost: Cost | None = None
    # As the provider names it, which may be more exact than what was asked for.
    model: str | None = None
    # The provider's id of this answer, for its support and for logs.
    response_id: str | None = None
    extra: Mapping[str, Json] = field(default_factory=_empty)


@dataclass(frozen=True, slots=True)
class TextDelta:
    # Which part of the answer it belongs to; parts are numbered from 0 in their order.
    index: int
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a call: the first has its id and name, each some of its arguments or input, which may be nothing."""

    index: int
    text: str
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Retrying:
    """The request failed before anything of an answer was seen, and is sent again after a wait."""

    # The number of the request that failed, from 1.
    attempt: int
    code: str
    message: str
    wait_ms: int


Delta: TypeAlias = TextDelta | ReasoningDelta | CallDelta | Retrying
Piece: TypeAlias = Delta | Answer


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """What of an answer is taken; more fails it (`answer_too_large`). Kept while it comes, not afterwards."""

    # As the provider sends it, all frames and escapes included.
    max_wire_bytes: int = 32 << 20
    # Of all texts, reasoning, arguments and inputs together, as UTF-8.
    max_bytes: int = 4 << 20
    max_parts: int = 1024
    max_calls: int = 128
    # Of all opaque data together, written as JSON.
    max_opaque_bytes: int = 2 << 20
    max_depth: int = 32

    def __post_init__(self) -> None:
        for name in ("max_wire_bytes", "max_bytes", "max_parts", "max_calls", "max_opaque_bytes", "max_depth"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= 1 << 40:
                raise InvalidInput(f"{name} must be a whole number of at least 1, not {value!r}")


def answer_to_doc(answer: Answer) -> dict[str, Any]:
    doc: dict[str, Any] = {**answer.extra, "message": message_to_doc(answer.message), "finish": answer.finish.value}
    doc["usage"] = usage_to_doc(answer.usage)
    if answer.cost is not None:
        doc["cost"] = cost_to_doc(answer.cost)
    if answer.model is not None:
        doc["model"] = answer.model
    if answer.response_id is not None:
        doc["response_id"] = answer.response_id
    return doc


def answer_from_doc(data: object, where: str = "answer") -> Answer:
    """Raises `InvalidInput` with the path of what is wrong."""
    doc = Doc(data, where)
    message = doc.part("message", message_from_doc)
    if not isinstance(message, AssistantMessage):
        raise InvalidInput(f"{where}.message.role is 'assistant', not {message.role!r}")
    finish = doc.text("finish")
    if finish not in list(FinishReason):
        raise doc.unknown("finish", finish, tuple(reason.value for reason in FinishReason))
    return Answer(
        message,
        FinishReason(finish),
        doc.part_or_none("usage", usage_from_doc) or Usage(),
        doc.part_or_none("cost", cost_from_doc),
        doc.text_or_none("model"),
        doc.text_or_none("response_id"),
        cast("Mapping[str, Json]", doc.rest()),
    )
