"""Docs as JSON text, exactly: what is read is equal to what was written, of the same types, its keys in the same order.

Integers of any size, `-0.0`, every finite float and NUL inside a text come back as they were. What JSON cannot say, and
what no text may hold (half a surrogate pair), is refused with `InvalidInput` before anything is written. The text has
no NUL in it and can be written as UTF-8. A database must keep it as text: its own type of JSON would round numbers.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from cloister.core.call import CallStatus
from cloister.core.capability import SideEffect
from cloister.core.diagnostic import ErrorObject, Span
from cloister.core.errors import InvalidInput
from cloister.core.json_text import json_writer
from cloister.ports.journal import Intent, Settled

MAX_DOC_BYTES = 16 << 20


def _plain_mapping(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    raise TypeError(f"a value of type {type(value).__name__} is not JSON")


_written = json_writer(default=_plain_mapping)
_DECODER = json.JSONDecoder()


def dumps(value: object) -> str:
    """`value` as JSON text. Raises `InvalidInput` for what is not JSON, and for more than `MAX_DOC_BYTES` of it."""
    try:
        text = _written(value)
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput("a text has half a surrogate pair in it", hint="JSON is Unicode: replace it") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"a doc cannot be written as JSON: {error}") from None
    if size > MAX_DOC_BYTES:
        raise InvalidInput(f"a doc of {size} bytes is over the bound of {MAX_DOC_BYTES}", hint="put it in a blob")
    return text


def loads(text: str) -> Any:
    """What `dumps` was given, made anew."""
    return _DECODER.decode(text)


# -- calls: the parts of an entry that are not a database's business ------------------------------------------------


def dumps_intent(intent: Intent) -> str:
    return dumps(
        [
            intent.key,
            intent.call_id,
            intent.session_id,
            intent.cell_id,
            intent.number,
            intent.name,
            intent.side_effect.value,
            intent.idempotent,
            intent.arguments,
            intent.request_digest,
            intent.at_ms,
        ]
    )


def loads_intent(text: str) -> Intent:
    parts = loads(text)
    parts[6] = SideEffect(parts[6])
    return Intent(*parts)


def dumps_settled(settled: Settled) -> str:
    return dumps(
        [
            settled.key,
            settled.status.value,
            settled.at_ms,
            settled.value,
            _error_parts(settled.error),
            settled.response_digest,
            *([dict(settled.usage)] if settled.usage is not None else []),
        ]
    )


def loads_settled(text: str) -> Settled:
    key, status, at_ms, value, error, digest, *usage = loads(text)
    return Settled(key, CallStatus(status), at_ms, value, _error(error), digest, *usage)


def _error_parts(error: ErrorObject | None) -> list[Any] | None:
    if error is None:
        return None
    span = error.span
    place = None if span is None else [span.line, span.column, span.end_line, span.end_column]
    return [error.code, error.message, error.hint, place]


def _error(parts: list[Any] | None) -> ErrorObject | None:
    if parts is None:
        return None
    code, message, hint, place = parts
    return ErrorObject(code, message, hint, None if place is None else Span(*place))
