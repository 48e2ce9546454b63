"""What a driver journals of each answer: the answer as it was, the items that it led to, and how it was told to act.

The items are what people see, the answer is what its provider is handed back: opaque data and all. Which belongs to
which is written here and nowhere else. An answer of another driver is not taken for one of these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from cloister.core.answer import Answer, answer_from_doc, answer_to_doc
from cloister.threads.open_turn import SettledAnswer

_MARK = "said"


class Transport(StrEnum):
    """How a model says what is to be done."""

    FUNCTIONS = "functions"
    # One text goes to `exec` as it is.
    FREEFORM = "freeform"
    # Programs in its words.
    FENCED = "fenced"
    # Nothing is to be done: it has summarised what was said before.
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Said:
    number: int
    answer: Answer
    transport: Transport
    # In their order: of its texts, its reasoning, and what is to be done.
    items: tuple[str, ...]


def to_doc(answer: Answer, transport: Transport, items: Sequence[str]) -> dict[str, Any]:
    return {_MARK: answer_to_doc(answer), "transport": str(transport), "items": list(items)}


def said_of(settled: SettledAnswer) -> Said | None:
    """None for what another driver has written."""
    doc = settled.answer
    if not isinstance(doc.get(_MARK), Mapping):
        return None
    answer = answer_from_doc(doc[_MARK])
    items = cast("list[str]", doc.get("items", []))
    return Said(settled.number, answer, Transport(doc.get("transport", Transport.FUNCTIONS)), tuple(items))
