"""A result without a hint as plain data."""

import dataclasses
from collections.abc import Iterable
from typing import Any, cast


def unwrap(value: Any, known: dict[int, tuple[Any, Any]] | None = None) -> Any:
    """Without a hint only what says how it is written is taken apart; nothing is guessed."""
    known = {} if known is None else known
    key = id(value)
    if isinstance(value, type):
        return cast("Any", value)
    if key in known:
        return known[key][1]
    parts: Any = value
    if hasattr(value, "model_dump"):
        parts = value.model_dump(mode="json", by_alias=True)
    elif dataclasses.is_dataclass(value):
        parts = {one.name: unwrap(getattr(value, one.name), known) for one in dataclasses.fields(value)}
    elif isinstance(value, dict):
        parts = {name: unwrap(part, known) for name, part in cast("dict[Any, Any]", value).items()}
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = [unwrap(part, known) for part in cast("Iterable[Any]", value)]
    if parts is not value:
        # A part that is shared is taken apart once, however often it is met. Held, so that its id stays its own.
        known[key] = (value, parts)
    return parts
