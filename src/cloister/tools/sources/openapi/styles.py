"""How a value becomes part of a request: OpenAPI's styles for parameters, and form bodies.

Supported are `simple` (paths, headers), `form` (queries, cookies) and `deepObject` (queries), with and without
`explode`. What a style does not define, such as a list in a list, is refused; nothing is ever written as Python would
print it.
"""

from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import quote

from cloister.core.value import Json


class Unwritable(ValueError):
    """A value that a parameter cannot carry. The message says why, without the value."""


def scalar(value: Json) -> str:
    """Raises `Unwritable` for what is no single value."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case None:
            return ""
        case _:
            raise Unwritable("a list or an object within a list or an object cannot be written there")


def in_path(value: Json, *, explode: bool) -> str:
    """`simple`, percent-encoded. Raises `Unwritable`."""
    text = _simple(value, explode=explode, encode=_encode)
    if text in ("", ".", ".."):
        raise Unwritable("an empty text, `.` and `..` would lead to another path")
    return text


def in_header(value: Json, *, explode: bool) -> str:
    """`simple`, as it is. Raises `Unwritable`."""
    text = _simple(value, explode=explode, encode=str)
    if not text.isascii() or not text.isprintable() or text != text.strip():
        raise Unwritable("a header is one line of ASCII without spaces around it")
    return text


def in_query(name: str, value: Json, *, style: str, explode: bool) -> list[str]:
    """Pieces `name=value`, percent-encoded. Raises `Unwritable`."""
    key = _encode(name)
    if isinstance(value, list):
        if style == "deepObject":
            raise Unwritable("deepObject is for objects")
        parts = [_encode(scalar(part)) for part in value]
        if not parts:
            return []
        return [f"{key}={part}" for part in parts] if explode else [f"{key}={','.join(parts)}"]
    if isinstance(value, dict):
        pairs = [(_encode(inner), _encode(scalar(part))) for inner, part in value.items() if part is not None]
        if style == "deepObject":
            return [f"{key}%5B{inner}%5D={part}" for inner, part in pairs]
        if explode:
            return [f"{inner}={part}" for inner, part in pairs]
        return [f"{key}={','.join(word for pair in pairs for word in pair)}"] if pairs else []
    return [f"{key}={_encode(scalar(value))}"]


def in_cookie(name: str, value: Json) -> str:
    if isinstance(value, (list, dict)):
        raise Unwritable("a cookie has a single value")
    return f"{_encode(name)}={_encode(scalar(value))}"


def form_body(fields: Iterable[tuple[str, Json]]) -> bytes:
    """`application/x-www-form-urlencoded`: each field in the style `form`, exploded. Raises `Unwritable`."""
    pieces: list[str] = []
    for name, value in fields:
        if isinstance(value, dict):
            raise Unwritable(f"the field {name!r} is an object, which a form cannot carry")
        pieces += in_query(name, value, style="form", explode=True)
    return "&".join(pieces).encode()


def _simple(value: Json, *, explode: bool, encode: Any) -> str:
    if isinstance(value, list):
        return ",".join(encode(scalar(part)) for part in value)
    if isinstance(value, dict):
        between = "=" if explode else ","
        return ",".join(f"{encode(inner)}{between}{encode(scalar(part))}" for inner, part in value.items())
    return cast("str", encode(scalar(value)))


def _encode(text: str) -> str:
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise Unwritable("a text has half a surrogate pair in it") from None
