"""A request as it comes: checked, and turned into a program and the limits it runs under."""

import keyword
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from cloister.cells.cut import bytes_for
from cloister.cells.pragma import read_pragma
from cloister.core.cell import CellLimits
from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import InvalidInput, InvalidLimits
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.core.value import Json, ValueRefused, plain
from cloister.ports.engine import Program
from cloister.sessions.files import normal_path
from cloister.sessions.files.refusal import Refused

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
    if code.lstrip().startswith("```"):
        return ErrorObject(Code.SYNTAX_ERROR, "the program stands in a markdown fence", "send it without the ``` lines")
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
        bounds = own if limits is None else own.narrowed_by(limits)
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


# A day: whoever asks for more has mistaken the unit.
_LONGEST_YIELD_MS = 86_400_000
_MOST_TOKENS = 2**53 - 1
_MOST_IDS = 10_000
# Characters in which a pragma must begin.
_FIRST_LINE = 8192


def check_yield(value: object, name: str = "yield_ms") -> int:
    """How long somebody wants to observe; raises `InvalidInput`. What a host allows is another matter."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{name} is a whole number of milliseconds, not {type(value).__name__}")
    if value < 0:
        raise InvalidInput(f"{name} cannot be negative: {value}", hint="0 looks without waiting")
    if value > _LONGEST_YIELD_MS:
        raise InvalidInput(f"{name} is longer than a day: {value}", hint="it is in milliseconds")
    return value


def check_cwd(path: object) -> str:
    """A directory's name; whether there is one is found out by the program."""
    try:
        return normal_path(path)
    except Refused as refused:
        raise refused.for_host() from None


def check_switch(value: object, name: str) -> bool:
    """Nothing but a boolean: "no" is true in Python."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} is True or False, not {type(value).__name__}")
    return value


def check_listener(listener: object) -> None:
    if listener is not None and not callable(listener):
        raise InvalidInput(f"on_output is a function that takes a kind and a text, not {type(listener).__name__}")


def lasting(limits: SessionLimits | Mapping[str, int] | None, wall_ms: int) -> SessionLimits | Mapping[str, int] | None:
    """What a cell of `exec` is to be held to: the `wall_ms` that every `SessionLimits` has by itself is that of a run,
    and was not asked for."""
    if isinstance(limits, SessionLimits) and limits.wall_ms == SessionLimits().wall_ms:
        return replace(limits, wall_ms=wall_ms)
    return limits


def check_tokens(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"max_output_tokens is a whole number, not {type(value).__name__}")
    if not 0 <= value <= _MOST_TOKENS:
        raise InvalidInput(f"max_output_tokens is between 0 and {_MOST_TOKENS}, not {value}")
    return value


def observing_terms(
    code: object, language: Language, yield_ms: object, max_output_tokens: object, most: CellLimits
) -> tuple[int, int] | ErrorObject:
    """How long to observe a cell that starts, in ms, and how many bytes to tell; or what is wrong with its pragma. The
    pragma wins over the arguments, and the host's limits over both."""
    observe_ms, tokens = check_yield(yield_ms), check_tokens(max_output_tokens)
    # Most programs have none, and need not be looked at any closer.
    pragma = read_pragma(code, language) if isinstance(code, str) and "@exec" in code[:_FIRST_LINE] else None
    if isinstance(pragma, ErrorObject):
        return pragma
    if pragma is not None:
        observe_ms = pragma.yield_ms if pragma.yield_ms is not None else observe_ms
        tokens = pragma.max_output_tokens if pragma.max_output_tokens is not None else tokens
    allowed = most.max_output_tokens if tokens is None else min(tokens, most.max_output_tokens)
    return min(observe_ms, most.max_yield_ms), bytes_for(allowed)


def check_ids(values: object) -> list[str]:
    """The ids of cells, each once."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidInput(f"cell_ids is a list of ids, not {type(values).__name__}")
    ids: list[str] = []
    seen: set[str] = set()
    for value in cast("Iterable[str]", values):
        # What is no text cannot be looked up, nor be put into a set perhaps: whoever looks for the cell says so.
        if not isinstance(value, str) or value not in seen:  # pyright: ignore[reportUnnecessaryIsInstance]
            ids.append(value)
        if isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            seen.add(value)
        if len(ids) > _MOST_IDS:
            break
    if not ids:
        raise InvalidInput("there is no cell to wait for", hint="give at least one id")
    if len(ids) > _MOST_IDS:
        raise InvalidInput(f"no more than {_MOST_IDS} cells can be waited for at once")
    return ids
