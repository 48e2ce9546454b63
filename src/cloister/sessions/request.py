"""A request as it comes: checked, and turned into a program and the limits it runs under."""

import keyword
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import InvalidLimits
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.core.value import Json, ValueRefused, plain
from cloister.ports.engine import Program

MAX_CODE_BYTES = 1 << 20
# Identifiers that cannot be variables.
_WORDS = {
    Language.PYTHON: frozenset(keyword.kwlist),
    Language.TYPESCRIPT: frozenset(
        "await break case catch class const continue debugger default delete do else enum export extends false finally "
        "for function if import in instanceof let new null return static super switch this throw true try typeof "
        "undefined var void while with yield".split()
    ),
}


def prepare(
    code: Any,
    inputs: Any,
    language: Language,
    own: SessionLimits,
    limits: SessionLimits | Mapping[str, int] | None = None,
    timeout_ms: int | None = None,
) -> tuple[Program, SessionLimits] | ErrorObject:
    """The program and what it may use, or what is wrong with the request. `own` are the session's limits."""
    if not isinstance(code, str):
        return ErrorObject(Code.INVALID_INPUT, f"code is text, not {type(code).__name__}")
    if len(code) > MAX_CODE_BYTES // 4 and len(code.encode("utf-8", "replace")) > MAX_CODE_BYTES:
        return ErrorObject(Code.INVALID_INPUT, f"the code is larger than {MAX_CODE_BYTES} bytes", "split it up")
    if not code.isascii():
        try:
            code.encode()
        except UnicodeEncodeError as error:
            message = f"the code has half a character (a lone surrogate) at position {error.start}"
            return ErrorObject(Code.SYNTAX_ERROR, message, "send it as UTF-8")
    values: Mapping[str, Json] = {}
    if inputs is not None:
        try:
            made = plain(inputs)
        except ValueRefused as refusal:
            return ErrorObject(Code.INVALID_INPUT, f"inputs: {refusal.message}", refusal.hint)
        if not isinstance(made, dict):
            return ErrorObject(Code.INVALID_INPUT, "inputs is an object: names and their values")
        bad = next((name for name in made if not name.isidentifier() or name in _WORDS[language]), None)
        if bad is not None:
            return ErrorObject(Code.INVALID_INPUT, f"inputs: {bad!r} cannot be a variable's name")
        values = made
    try:
        bounds = own.narrowed_by(limits)
    except InvalidLimits as refusal:
        return ErrorObject(Code.INVALID_LIMITS, refusal.message)
    if timeout_ms is not None:
        if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int) or timeout_ms <= 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            return ErrorObject(Code.INVALID_LIMITS, f"timeout_ms must be a positive number, not {timeout_ms!r}")
        if timeout_ms > own.wall_ms:
            message = f"timeout_ms={timeout_ms} is longer than the session's wall_ms={own.wall_ms}"
            return ErrorObject(Code.INVALID_LIMITS, message, "a request may only narrow its session's limits")
        bounds = replace(bounds, wall_ms=min(bounds.wall_ms, timeout_ms))
    return Program(code, values), bounds
