"""What a worker reports of a step, read as if an enemy had written it, and the values that travel the other way.

A report that is not exactly of the agreed shape raises `FrameError`: the worker is then killed, never corrected.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

from cloister.core.codes import Code
from cloister.core.diagnostic import Diagnostic, ErrorObject, Severity, Span
from cloister.core.errors import InvalidInput
from cloister.core.value import MAX_DEPTH, MAX_NODES, Json
from cloister.engines.quickjs.frames import STEP_HEAD, FrameError
from cloister.engines.warden import verdict_error
from cloister.ports.engine import Call, Catalog, Failed, Finished, Raised, Settlement, Step, Suspended, Usage

_SAFE = 2**53 - 1
_LONG_DIGITS = re.compile(r"\d{16}")
_TEXT = 8192

LIMITS: dict[str, tuple[str, str]] = {
    Code.MEMORY_EXCEEDED: (
        "the program needed more memory than it may have",
        "keep less in variables, or ask for a larger memory_mb",
    ),
    Code.STACK_OVERFLOW: (
        "the program's calls were nested deeper than they may be",
        "use a loop, or ask for a larger max_stack_depth",
    ),
    Code.EXTERNAL_CALLS_EXCEEDED: (
        "the program made more tool calls than it may",
        "ask for more data in fewer calls, or for a larger max_external_calls",
    ),
    Code.ENGINE_CRASHED: ("the interpreter broke while it ran the program", "run the cell again"),
}
_STUCK = ErrorObject(
    Code.RUNTIME_ERROR,
    "the program waits for something that nothing can settle",
    "await a tool call or a timer; a promise that nobody resolves never ends",
)


# -- in ---------------------------------------------------------------------------------------------------------------


def read_json(data: bytes) -> Any:
    try:
        value = json.loads(data, parse_constant=_no_constant)
        if b"\\u" in data:
            # An escape can spell half of a surrogate pair, which no text of ours may hold.
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a report that is not JSON: {error}") from None


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def read_step(payload: bytes, catalog: Catalog) -> tuple[Step, int]:
    """The step that a worker reports, and how much output it dropped."""
    if len(payload) < STEP_HEAD.size:
        raise FrameError("a report that is too short")
    cpu_ms, peak, dropped = STEP_HEAD.unpack_from(payload)
    if not 0 <= cpu_ms < 1e12:
        raise FrameError("a report of impossible processor time")
    usage = Usage(cpu_ms=cpu_ms, memory_peak_bytes=peak)
    report = _record(read_json(payload[STEP_HEAD.size :]))
    calls = tuple(_call(_record(item)) for item in read_list(report.pop("calls", [])))
    match report:
        case {"wait": numbers, **rest} if not rest:
            return Suspended(calls, frozenset(_number(number) for number in read_list(numbers)), usage), dropped
        case {"done": value, **rest} if not rest:
            return Finished(read_value(value), calls, usage), dropped
        case {"refused": refusal, **rest} if not rest:
            return Failed(_error(_record(refusal)), calls=calls, usage=usage), dropped
        case {"error": error, **rest} if not rest:
            return Failed(_error(_record(error)), calls=calls, usage=usage), dropped
        case {"rejected": found, **rest} if found and not rest:
            diagnostics = read_diagnostics(found, catalog)
            first = diagnostics[0]
            error = ErrorObject(first.code, first.message, first.hint, first.span)
            return Failed(error, usage=usage, diagnostics=diagnostics), dropped
        case {"deadlock": True, **rest} if not rest:
            return Failed(_STUCK, fatal=True, usage=usage), dropped
        case {"stop": "TIMEOUT_CPU" | "TIMEOUT_WALL" as verdict, **rest} if not rest:
            return Failed(verdict_error(verdict), fatal=True, usage=usage), dropped
        case {"stop": str(code), **rest} if code in LIMITS and not rest:
            return Failed(ErrorObject(Code(code), *LIMITS[code]), fatal=True, usage=usage), dropped
        case _:
            raise FrameError("a report of no known shape")


def _record(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FrameError("something else than an object")
    return cast("dict[str, Any]", value)


def read_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise FrameError("something else than a list")
    return cast("list[Any]", value)


def _error(item: dict[str, Any]) -> ErrorObject:
    match item:
        case {"code": str(code), "message": str(message), "hint": str() | None as hint}:
            return ErrorObject(_text(code), _text(message), hint and _text(hint), _span(item.get("span")))
        case _:
            raise FrameError("an error of no known shape")


def _call(item: dict[str, Any]) -> Call:
    match item:
        case {"number": number, "name": str(name), "size": int(size), "kwargs": kwargs, **rest} if not rest:
            return Call(_number(number), _text(name), (), read_value(_record(kwargs)), size=size)
        case {"number": number, "name": str(name), "size": int(size), "args": args, **rest} if not rest:
            return Call(_number(number), _text(name), tuple(read_value(arg) for arg in read_list(args)), size=size)
        case {"number": number, "name": "sleep", "kind": "timer", "args": [int() | float() as seconds], **rest} if (
            not rest and seconds >= 0
        ):
            return Call(_number(number), "sleep", (seconds,), kind="timer")
        case {"number": number, "name": str(name), "refused": {"message": str(why), "hint": str(hint)}, **rest} if (
            not rest
        ):
            refused = ErrorObject(Code.INVALID_ARGUMENTS, _text(why), _text(hint))
            return Call(_number(number), _text(name), refused=refused)
        case _:
            raise FrameError("a call of no known shape")


def read_diagnostics(found: Any, catalog: Catalog) -> tuple[Diagnostic, ...]:
    return tuple(_diagnostic(_record(item), catalog) for item in read_list(found))


def read_check(payload: bytes, catalog: Catalog) -> tuple[tuple[Diagnostic, ...], list[Any]]:
    """What a check found, and what the session itself must still judge: passed on to its worker as it is."""
    told = _record(read_json(payload))
    return read_diagnostics(told.get("found"), catalog), read_list(told.get("suspects"))


def _diagnostic(item: dict[str, Any], catalog: Catalog) -> Diagnostic:
    hint = _nearest(item.get("near"), catalog) or item.get("hint")
    error = _error(item | {"hint": hint})
    return Diagnostic(Severity.ERROR, error.code, error.message, error.hint, error.span)


def _nearest(near: Any, catalog: Catalog) -> str | None:
    match near:
        case [str(name)] if name in catalog.names:
            signature = catalog.signatures.get(name)
            return f"did you mean `{name}`?" + (f" Its signature is {signature}" if signature else "")
        case []:
            some = ", ".join(f"`{name}`" for name in sorted(catalog.names - catalog.own)[:10])
            return f"the tools here are {some}" if some else "this session has no tools"
        case _:
            return None


def _span(numbers: Any) -> Span | None:
    match numbers:
        case None:
            return None
        case [int(line), int(column)] if line > 0 and column > 0:
            return Span(line, column)
        case [int(line), int(column), int(end_line), int(end_column)] if min(line, column, end_line, end_column) > 0:
            return Span(line, column, end_line, end_column)
        case _:
            raise FrameError("a span of no known shape")


def _number(value: Any) -> int:
    if type(value) is not int or not 0 < value < 1 << 31:
        raise FrameError("a call without a number")
    return value


def _text(value: str) -> str:
    if len(value) > _TEXT:
        raise FrameError("a text that is too long")
    return value


def read_value(value: Any) -> Any:
    """A value as JSON gave it, so plain already, and bounded in bytes by its frame: its depth and parts are left."""
    level: list[Any] = [value]
    nodes = 0
    for _ in range(MAX_DEPTH + 1):
        nodes += len(level)
        if nodes > MAX_NODES:
            raise FrameError("a value with too many parts")
        below: list[Any] = []
        for item in level:
            if type(item) is list:
                below += item
            elif type(item) is dict:
                below += item.values()
        if not below:
            return value
        level = below
    raise FrameError("a value that is nested too deeply")


# -- out --------------------------------------------------------------------------------------------------------------


def write_value(value: Any) -> tuple[bytes, list[Any] | None]:
    """JSON for the guest, and where in it the integers are that a JavaScript number cannot hold."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        bigs = _big_integers(value) if _LONG_DIGITS.search(text) else None
        try:
            return text.encode(), bigs
        except UnicodeEncodeError:
            return json.dumps(value, allow_nan=False, separators=(",", ":")).encode(), bigs
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(f"the value cannot be given to a program: {error}") from None


def _big_integers(value: Any) -> list[Any] | None:
    found: list[Any] = []
    stack: list[tuple[Any, list[Any]]] = [(value, [])]
    while stack:
        item, path = stack.pop()
        if isinstance(item, int) and not -_SAFE <= item <= _SAFE:
            found.append([path, str(int(item))])
        elif isinstance(item, Mapping):
            stack.extend((part, [*path, key]) for key, part in cast("Mapping[str, Any]", item).items())
        elif isinstance(item, (list, tuple)):
            stack.extend((part, [*path, index]) for index, part in enumerate(cast("Sequence[Any]", item)))
    return found or None


def settlement(item: Settlement) -> Json:
    if isinstance(item, Raised):
        error: Json = {"code": item.error.code, "message": item.error.message, "hint": item.error.hint}
        return {"number": item.number, "value": None, "error": error}
    return {"number": item.number, "value": item.value, "error": None}
