"""The pragma: what a program asks for in its first line, which stays in the code because it is a comment.

    # @exec: {"yield_time_ms": 10000, "max_output_tokens": 2000}        (`//` in TypeScript)

A first line that is meant as a pragma is read in full or refused, with a message of its own for each way to get it
wrong: a setting that was silently dropped would be looked for everywhere else. Whether the numbers are allowed is
the host's business, not decided here.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject, Span
from cloister.core.language import Language

MAX_LINE = 4096
# The largest whole number that every JSON reader keeps exact.
MAX_NUMBER = 2**53 - 1

_SETTINGS = ("yield_time_ms", "max_output_tokens")
_SIGNS = {Language.PYTHON: "#", Language.TYPESCRIPT: "//"}
_FIRST_LINES = {
    Language.PYTHON: re.compile(r"[^\r\n]*"),
    Language.TYPESCRIPT: re.compile("[^\r\n\u2028\u2029]*"),
}
_MEANT = {language: re.compile(rf"\ufeff?\s*{sign}\s*(@exec)\b") for language, sign in _SIGNS.items()}
_COLON = re.compile(r"\s*:\s*")


@dataclass(frozen=True, slots=True)
class Pragma:
    """What was asked for; None where nothing was."""

    yield_ms: int | None = None
    max_output_tokens: int | None = None


def read_pragma(code: str, language: Language) -> Pragma | ErrorObject | None:
    """The pragma of a program, what is wrong with it, or None if the first line is not meant as one."""
    line = _line(code, language)
    meant = _MEANT[language].match(line)
    if meant is None:
        return None
    start, end = meant.start(1), len(line)
    try:
        if end > MAX_LINE:
            raise _Wrong(f"the line with '@exec' has {end} characters: at most {MAX_LINE} are read")
        colon = _COLON.match(line, meant.end(1))
        if colon is None:
            end = meant.end(1)
            raise _Wrong("there is no colon after '@exec'")
        if colon.end() == end:
            raise _Wrong("there is nothing after '@exec:'")
        start = colon.end()
        asked = _settings(_parse(line[start:]))
    except _Wrong as wrong:
        hint = f'write it like this: {_SIGNS[language]} @exec: {{"yield_time_ms": 10000, "max_output_tokens": 2000}}'
        place = Span(1, start + wrong.offset + 1, 1, end + 1)
        return ErrorObject(Code.INVALID_INPUT, f"the pragma in the first line: {wrong.message}", hint, place)
    return Pragma(asked.get("yield_time_ms"), asked.get("max_output_tokens"))


# -- inside ----------------------------------------------------------------------------------------------------


class _Wrong(Exception):
    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class _Object(tuple[tuple[str, Any], ...]):
    """A JSON object as it was written: a dict would forget that a key came twice."""

    __slots__ = ()


def _line(code: str, language: Language) -> str:
    found = _FIRST_LINES[language].match(code)
    assert found is not None
    return found[0]


def _parse(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_Object, parse_int=_integer, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise _Wrong(f"what follows '@exec:' is not JSON: {error.msg}", error.pos) from None
    except RecursionError:
        raise _Wrong("what follows '@exec:' is not JSON that can be read: it is nested too deep") from None


def _integer(digits: str) -> int:
    # Twenty characters are past every bound already, and Python refuses to read very long numbers.
    return int(digits[:20])


def _constant(name: str) -> Any:
    raise _Wrong(f"what follows '@exec:' is not JSON: it has no {name}")


def _settings(value: Any) -> dict[str, int]:
    if not isinstance(value, _Object):
        raise _Wrong(f"what follows '@exec:' must be an object, not {_kind(value)}")
    asked: dict[str, int] = {}
    for name, setting in value:
        if name not in _SETTINGS:
            raise _Wrong(f"unknown key {name[:64]!r}: there are 'yield_time_ms' and 'max_output_tokens'")
        if name in asked:
            raise _Wrong(f"the key {name!r} is there twice")
        asked[name] = _number(name, setting)
    return asked


def _number(name: str, value: Any) -> int:
    if type(value) is not int:
        raise _Wrong(f"{name!r} must be a whole number, not {_kind(value)}")
    if value < 0:
        raise _Wrong(f"{name!r} must not be negative")
    if value > MAX_NUMBER:
        raise _Wrong(f"{name!r} is larger than {MAX_NUMBER}")
    return value


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case float():
            return "a number with a fraction or an exponent"
        case int():
            return "a number"
        case str():
            return "a text"
        case _Object():
            return "an object"
        case _:
            assert isinstance(cast("object", value), Sequence)
            return "an array"
