"""A freeform tool as a function of one argument: how the library that speaks to providers is told of it."""

import json
from collections.abc import Mapping
from typing import Any

INPUT = "input"
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {INPUT: {"type": "string"}},
    "required": [INPUT],
    "additionalProperties": False,
}


def arguments_of(text: str) -> str:
    return json.dumps({INPUT: text}, ensure_ascii=False)


def input_of(arguments: object) -> str | None:
    """The text of a call, from its arguments as a function; None if they are those of another one."""
    try:
        given: Any = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return None
    match given:
        case {"input": str(text), **rest} if not rest:
            return text
        case _:
            return None
