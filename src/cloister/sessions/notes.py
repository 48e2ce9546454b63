"""What a result says besides its error: what was cut, rolled back or never awaited."""

from cloister.core.codes import Code
from cloister.core.diagnostic import Diagnostic, ErrorObject, Severity


def first_error(diagnostics: tuple[Diagnostic, ...]) -> ErrorObject | None:
    for found in diagnostics:
        if found.severity is Severity.ERROR:
            return ErrorObject(found.code, found.message, found.hint, found.span)
    return None


def cut(dropped: int) -> Diagnostic:
    return Diagnostic(
        Severity.WARNING,
        Code.STDOUT_EXCEEDED,
        f"the program printed more than it may: {dropped} bytes are missing at the end",
        "print less, or ask for a larger max_stdout_bytes",
    )


def rolled_back() -> Diagnostic:
    return Diagnostic(Severity.INFO, Code.ROLLED_BACK, "the session's variables are as they were before this cell")


def forgotten(cells: int) -> Diagnostic:
    return Diagnostic(
        Severity.WARNING,
        Code.ROLLED_BACK,
        f"a worker died and what the last {cells} cells before this one had assigned could not be rebuilt",
        "run them again",
    )


def not_awaited(name: str) -> Diagnostic:
    return Diagnostic(
        Severity.WARNING,
        Code.CALL_NOT_AWAITED,
        f"`{name}` was called but never awaited, so it was cancelled",
        "add `await` in front of the call",
    )
