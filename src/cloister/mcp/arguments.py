"""What a client asks a tool for, checked: every key known, every value of its kind, and named when it is not."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from cloister.core.approval import Decision, parse_decision
from cloister.core.errors import InvalidInput
from cloister.core.language import Language, parse_language

DEFAULT_YIELD_MS = 10_000


@dataclass(frozen=True, slots=True)
class Exec:
    code: str
    language: Language | None
    yield_ms: int
    max_output_tokens: int | None


@dataclass(frozen=True, slots=True)
class Wait:
    cell_id: str
    yield_ms: int
    terminate: bool


@dataclass(frozen=True, slots=True)
class Search:
    query: str
    limit: int


@dataclass(frozen=True, slots=True)
class Cells:
    pass


@dataclass(frozen=True, slots=True)
class Approve:
    approval_id: str
    decision: Decision
    message: str | None


Request: TypeAlias = Exec | Wait | Search | Cells | Approve

KEYS: dict[type[Request], tuple[str, ...]] = {
    Exec: ("code", "language", "yield_ms", "max_output_tokens"),
    Wait: ("cell_id", "yield_ms", "terminate"),
    Search: ("query", "limit"),
    Cells: (),
    Approve: ("approval_id", "decision", "message"),
}


def parse(kind: type[Request], arguments: Mapping[str, Any]) -> Request:
    """Raises `InvalidInput`."""
    for name in arguments:
        if name not in KEYS[kind]:
            near = difflib.get_close_matches(name, KEYS[kind], n=1)
            has = f"it takes {', '.join(KEYS[kind])}" if KEYS[kind] else "it takes nothing"
            raise InvalidInput(
                f"there is no argument {name[:80]!r}", hint=f"did you mean `{near[0]}`?" if near else has
            )
    given = _Given(arguments)
    if kind is Exec:
        language = given.text("language", optional=True)
        return Exec(
            given.text("code") or "",
            parse_language(language) if language is not None else None,
            given.number("yield_ms", DEFAULT_YIELD_MS),
            given.number("max_output_tokens", 0) if arguments.get("max_output_tokens") is not None else None,
        )
    if kind is Wait:
        return Wait(given.text("cell_id") or "", given.number("yield_ms", DEFAULT_YIELD_MS), given.switch("terminate"))
    if kind is Search:
        return Search(given.text("query") or "", given.number("limit", 10))
    if kind is Cells:
        return Cells()
    decision = parse_decision(given.text("decision"))
    return Approve(given.text("approval_id") or "", decision, given.text("message", optional=True))


class _Given:
    """Null is taken for absent, as clients write what they leave out in either way."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments

    def text(self, name: str, *, optional: bool = False) -> str | None:
        value = self._arguments.get(name)
        if value is None and optional:
            return None
        if value is None:
            raise InvalidInput(f"`{name}` is missing", hint=f"give `{name}`, a string")
        if not isinstance(value, str):
            raise InvalidInput(f"`{name}` is a string, not {_kind(value)}")
        return value

    def number(self, name: str, default: int) -> int:
        value = self._arguments.get(name)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():
            # JSON has one kind of number.
            value = int(value)
        if type(value) is not int or value < 0:
            raise InvalidInput(f"`{name}` is a whole number of at least 0, not {_kind(value)}")
        return value

    def switch(self, name: str) -> bool:
        value = self._arguments.get(name)
        if value is not None and type(value) is not bool:
            raise InvalidInput(f"`{name}` is true or false, not {_kind(value)}")
        return bool(value)


def _kind(value: object) -> str:
    if isinstance(value, (bool, int, float)):
        return str(value)[:40]
    return {"str": "a string", "list": "an array", "dict": "an object"}.get(type(value).__name__, "null")
