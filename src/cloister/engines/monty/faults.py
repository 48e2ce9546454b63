"""Monty's exceptions as our errors: code, message, hint, and a span into this cell's source."""

import difflib
import re
from collections.abc import Collection
from typing import Any

from pydantic_monty import MontyRuntimeError, MontySyntaxError

from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject, Span
from cloister.core.language import PYTHON_MODULES
from cloister.core.limits import SessionLimits
from cloister.engines.monty.features import module_hint, run_hint, syntax_hint
from cloister.engines.warden import Verdict, verdict_error

_UNSUPPORTED = "NotImplementedError: The monty syntax parser does not yet support "
_NAME_ERROR = re.compile(r"NameError: name '(\w+)' is not defined")
_MODULE_ERROR = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_LONGEST = 4000
_IMPORT_ERROR = re.compile(r"ImportError: cannot import name '(\w+)' from '(\w+)'")
_UNAWAITED = re.compile(r"TypeError: .*(coroutine|[Ff]uture)|AttributeError: '(coroutine|Future)' object")


def clip(text: str) -> str:
    """A guest chooses how long its messages are; nobody reads past a page."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def did_you_mean(name: str, known: Collection[str]) -> str | None:
    # Comparing texts is quadratic, and no tool has a name this long.
    if len(name) > 100:
        return None
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`?" if close else None


def span_of(error: Any, line_offset: int = 0) -> Span | None:
    """The innermost frame that lies in this cell. The outermost frame is always this cell's own top level."""
    frames = error.traceback()
    if not frames:
        return None
    cell = frames[0].filename
    frame = next(f for f in reversed(frames) if f.filename == cell)
    return Span(frame.line - line_offset, frame.column, frame.end_line - line_offset, frame.end_column)


def is_compile_error(error: Any) -> bool:
    """Whether nothing of the program ran: parse errors have no function around them."""
    frames = error.traceback()
    if not frames:
        return isinstance(error, MontySyntaxError)
    return frames[0].function_name is None


def compile_error(error: Any, line_offset: int = 0) -> ErrorObject:
    text = clip(str(error))
    span = span_of(error, line_offset)
    if text.startswith(_UNSUPPORTED):
        what = text.removeprefix(_UNSUPPORTED)
        return ErrorObject(Code.UNSUPPORTED_FEATURE, f"this Python does not support {what}", syntax_hint(what), span)
    return ErrorObject(Code.SYNTAX_ERROR, text.removeprefix("SyntaxError: "), None, span)


def crash_error(verdict: Verdict | None, crash: str) -> ErrorObject:
    """Why a worker is gone: what it was killed for, or what Monty says of its end."""
    if verdict is not None:
        return verdict_error(verdict)
    if "memory limit" in crash and "terminated" in crash:
        return ErrorObject(
            Code.MEMORY_EXCEEDED,
            "the program needed more memory than its worker may have",
            "keep less in variables, or ask for a larger memory_mb",
        )
    return ErrorObject(Code.ENGINE_CRASHED, "the worker that ran the program died", "run the cell again")


def too_many_calls(made: int) -> ErrorObject:
    return ErrorObject(
        Code.EXTERNAL_CALLS_EXCEEDED,
        f"the program made more than its {made} calls",
        "do the work with fewer calls, or ask for a larger max_external_calls",
    )


def limit_error(error: MontyRuntimeError, limits: SessionLimits) -> ErrorObject | None:
    """The limit that this error stands for, if it is one. Such an error ends the interpreter.

    A program can raise an error with the same text; it has a traceback where a limit has none or, for memory, does
    not know the bound. What still passes only ends the program that says it.
    """
    text = str(error)
    frames = error.traceback()
    if text.startswith("TimeoutError: feed time limit exceeded") and not frames:
        return ErrorObject(
            Code.TIMEOUT_CPU,
            "the program used more than its processor time",
            "do less in one cell, or ask for a larger cpu_ms",
            span_of(error),
        )
    bound = f" bytes > {limits.memory_mb << 20} bytes"
    if text.startswith("MemoryError: memory limit exceeded") and text.endswith(bound):
        return ErrorObject(
            Code.MEMORY_EXCEEDED,
            "the program needed more memory than it may have",
            "keep less in variables, or ask for a larger memory_mb",
            span_of(error),
        )
    if text.startswith("RecursionError: maximum recursion depth exceeded") and len(frames) > 2:
        return ErrorObject(
            Code.STACK_OVERFLOW,
            "the program's calls were nested deeper than they may be",
            "use a loop, or ask for a larger max_stack_depth",
            span_of(error),
        )
    return None


def runtime_error(error: MontyRuntimeError, known: Collection[str]) -> ErrorObject:
    """An exception that the program did not catch."""
    text = clip(str(error))
    hint: str | None = None
    if match := _NAME_ERROR.match(text):
        hint = did_you_mean(match[1], known)
        if match[1] in PYTHON_MODULES:
            hint = f"write `import {match[1]}` first"
        elif hint is None and match[1] == "files":
            hint = "Python programs reach the session's files with open(), pathlib and os"
    elif match := _MODULE_ERROR.match(text):
        hint = module_hint(match[1])
    elif match := _IMPORT_ERROR.match(text):
        hint = _import_hint(match[1], match[2], known)
    elif _UNAWAITED.match(text):
        hint = "add `await` in front of the tool call"
    elif (hint := run_hint(text)) is not None and "exceptions can only" in text:
        text = "TypeError: an exception takes one text here"
    return ErrorObject(Code.RUNTIME_ERROR, text, hint, span_of(error))


def _import_hint(name: str, namespace: str, known: Collection[str]) -> str | None:
    """What may have been meant among the tools of a namespace; None for a module that is none."""
    of_it = sorted(full.partition(".")[2] for full in known if full.startswith(f"{namespace}."))
    if not of_it:
        return None
    near = difflib.get_close_matches(name[:100], of_it, n=1, cutoff=0.6)
    if near:
        return f"did you mean `from {namespace} import {near[0]}`?"
    return f"`{namespace}` has {', '.join(f'`{one}`' for one in of_it[:10])}"
