"""What went wrong on our side of the command line, told in a line or two.

A traceback is for whoever set CLOISTER_DEBUG=1. What a *program* did wrong is not here: see `diagnostics`.
"""

import logging
import os
import sys
import traceback
from collections.abc import Callable

from cloister.cli.exits import FAILED, USAGE
from cloister.cli.terminal import safe
from cloister.core.errors import CloisterError, InvalidInput

DEBUG_VARIABLE = "CLOISTER_DEBUG"


class UsageError(Exception):
    """The command line asks for what cannot be done. The hint shows what would work."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def debugging() -> bool:
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def complain(message: str, hint: str | None = None) -> None:
    """Write one complaint to stderr."""
    print(f"cloister: {safe(message)}", file=sys.stderr)
    if hint:
        print(f"  hint: {safe(hint)}", file=sys.stderr)


def explain(error: Exception) -> int:
    """Tell the user about `error` and return the exit code for it."""
    if debugging():
        traceback.print_exception(error)
    match error:
        case UsageError():
            complain(error.message, error.hint)
            return USAGE
        case CloisterError():
            complain(error.message, error.hint)
            return USAGE if isinstance(error, InvalidInput) else FAILED
        case _:
            where = None if debugging() else f"this is a defect of Cloister; {DEBUG_VARIABLE}=1 shows where it happened"
            complain(f"{type(error).__name__}: {error}", where)
            return FAILED


class _OneLine(logging.Formatter):
    """A log record without its traceback: a tool's exception is named, not unrolled."""

    def format(self, record: logging.LogRecord) -> str:
        message, *unrolled = record.getMessage().splitlines() or [""]
        raised = _raised(unrolled)
        if record.exc_info and record.exc_info[1] is not None:
            raised = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        text = f"cloister: {message}"
        return safe(f"{text}: {raised} ({DEBUG_VARIABLE}=1 shows where)" if raised else text)


def _raised(unrolled: list[str]) -> str:
    """The line of a traceback that says what was raised: the one after the last that shows code."""
    places = [number for number, line in enumerate(unrolled) if line.startswith("  ")]
    return "".join(unrolled[places[-1] + 1 : places[-1] + 2]) if places else ""


class _Lines(logging.Handler):
    """Writes a line for each record: to stderr, until somebody says where else."""

    write: Callable[[str], object] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            (self.write or sys.stderr.write)(self.format(record) + "\n")
        # Containment: as every handler does; a log that cannot be written is nobody's failure.
        except Exception:  # noqa: BLE001
            self.handleError(record)


_LINES = _Lines()


def set_up_logging() -> None:
    """Warnings of the runtime go to stderr, one line each."""
    _LINES.setFormatter(logging.Formatter("%(name)s: %(message)s") if debugging() else _OneLine())
    logger = logging.getLogger("cloister")
    logger.addHandler(_LINES)
    logger.setLevel(logging.DEBUG if debugging() else logging.WARNING)
    logger.propagate = False


def log_to(write: Callable[[str], object]) -> None:
    """From now on warnings are written there."""
    _LINES.write = write
