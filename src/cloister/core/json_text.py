"""JSON text of many small values: the standard library's encoder, made once and not anew for every value.

Knows nothing of what is encoded. Its bounds are those of `json`: NaN and infinities are refused with `ValueError`
unless they are allowed, what is not JSON with `TypeError`, and what contains itself, or is nested too deep, with
`RecursionError`.
"""

import json
import json.encoder
from collections.abc import Callable, Iterable
from typing import Any


def json_writer(
    *,
    sort_keys: bool = False,
    ascii_only: bool = False,
    allow_nan: bool = False,
    default: Callable[[object], Any] | None = None,
) -> Callable[[object], str]:
    """Writes a value without spaces, and text as it is or, with `ascii_only`, escaped; `default` says what else there
    is to write of it."""
    slow = json.JSONEncoder(
        sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=ascii_only, allow_nan=allow_nan, default=default
    )
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return slow.encode
    text: Callable[[str], str] = json.encoder.encode_basestring_ascii if ascii_only else json.encoder.encode_basestring
    parts: Callable[[object, int], Iterable[str]] = make(
        None, slow.default, text, None, ":", ",", sort_keys, False, allow_nan
    )
    return lambda value: "".join(parts(value, 0))
