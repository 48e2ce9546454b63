"""Values on their way out of Monty.

Monty hands over what it cannot convert (functions, circular parts) as text that looks like its repr. Such text
is refused, because a result that silently became `"[...]"` would be a lie.
"""

import re
from typing import Any

from cloister.core.value import Json, ValueRefused, sized

_FUNCTION = re.compile(
    r"<(?:bound method|function|built-in function|class|module|coroutine)\b.* ?'.*>\Z|<.* at 0x[0-9a-f]+>\Z"
)
_CIRCULAR = {"[...]", "{...}", "(...)"}


def _refuse_placeholder(text: str) -> None:
    if len(text) > 200:
        return
    if text in _CIRCULAR:
        raise ValueRefused(
            "RESULT_NOT_SERIALIZABLE", "the value contains itself", "JSON has no way to write a circular value"
        )
    if text[:1] == "<" and text[-1:] == ">" and _FUNCTION.match(text):
        raise ValueRefused(
            "RESULT_NOT_SERIALIZABLE", f"{text} cannot be written in JSON", "return data, not a function"
        )


def outward(value: Any) -> tuple[Json, int]:
    """A Monty value as plain JSON and about how many bytes it takes; raises `ValueRefused`."""
    if type(value).__name__ == "MontyClassProxy":
        raise ValueRefused(
            "RESULT_NOT_SERIALIZABLE",
            f"an instance of {value.name} cannot be written in JSON",
            "return a dict of its attributes",
        )
    return sized(value, text=_refuse_placeholder)
