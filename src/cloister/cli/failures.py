"""What went wrong on our side of the command line, told in a line or two.

A traceback is for whoever set CLOISTER_DEBUG=1. What a *program* did wrong is not here: see `diagnostics`.
"""

import logging
import os
import sys
import traceback

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
        text = f"cloister: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            raised = record.exc_info[1]
            text += f": {type(raised).__name__}: {raised} ({DEBUG_VARIABLE}=1 shows where)"
        return safe(text)


def set_up_logging() -> None:
    """Warnings of the runtime go to stderr, one line each."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s") if debugging() else _OneLine())
    logger = logging.getLogger("cloister")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if debugging() else logging.WARNING)
    logger.propagate = False
