"""Values on their way out of Monty.

Monty hands over what it cannot convert (functions, circular parts) as text that looks like its repr. Such text
is refused, because a result that silently became `"[...]"` would be a lie.
"""

import re
from math import isfinite
from typing import Any, cast

from cloister.core.value import Bounds, Json, ValueRefused, sized

_EXACT = 1 << 53

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


_SCALARS = frozenset({int, float, bool, type(None)})


def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], int]:
    """A call's arguments as plain JSON and about how many bytes they take; raises `ValueRefused`."""
    size = 8
    for value in (*args, *kwargs.values()):
        kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is str and len(value) < 200 and value[:1] not in "<[{(":
            size += 4 * len(value) + 2
        elif (
            kind in _SCALARS
            and (kind is not float or isfinite(value))
            and (kind is not int or -_EXACT < value < _EXACT)
        ):
            size += 20
        else:
            break
    else:
        # Most calls: a few small values that are what they are.
        return args, kwargs, size + sum(map(len, kwargs))
    given, size = outward([list(args), kwargs])
    plain_args, plain_kwargs = cast("Any", given)
    return tuple(plain_args), plain_kwargs, size


WHOLE = Bounds()
# What can be looked at within a moment.
SMALL = Bounds(nodes=500, size=16 << 10)


def outward(value: Any, bounds: Bounds = WHOLE) -> tuple[Json, int]:
    """A Monty value as plain JSON and about how many bytes it takes; raises `ValueRefused`."""
    if type(value).__name__ == "MontyClassProxy":
        raise ValueRefused(
            "RESULT_NOT_SERIALIZABLE",
            f"an instance of {value.name} cannot be written in JSON",
            "return a dict of its attributes",
        )
    return sized(value, bounds, text=_refuse_placeholder, keep=True)
