"""What a result says besides its error: what was cut, rolled back or never awaited."""

from cloister.core.codes import Code
from cloister.core.diagnostic import Diagnostic, ErrorObject, Severity

# What to do when nobody closer to the trouble knows better.
_HINTS: dict[str, str] = {
    Code.SYNTAX_ERROR: "mend the program at this place",
    Code.UNKNOWN_TOOL: "look for what there is with `search_tools`",
    Code.TYPE_ERROR: "mend the types at this place, or ask for type_check='warn'",
    Code.RUNTIME_ERROR: "mend the program at this place, or catch the error there",
    Code.TOOL_ERROR: "catch the error, try other arguments, or do without the tool",
    Code.INVALID_INPUT: "mend the request",
    Code.INVALID_LIMITS: "ask for no more than the session has",
    Code.PERMISSION_DENIED: "this is the host's decision: do without the call, or do it another way",
    Code.APPROVAL_DENIED: "a person has said no: do without the call, or do it another way",
    Code.APPROVAL_EXPIRED: "ask again by running the program again",
    Code.CANCELLED: "run the program again if it should go on",
    Code.INTERRUPTED: "run the program again if it should go on",
}


def with_hint(error: ErrorObject) -> ErrorObject:
    """The error with something to do about it."""
    if error.hint is not None:
        return error
    return ErrorObject(
        error.code, error.message, _HINTS.get(error.code, "mend the program, or ask its host"), error.span
    )


def first_error(diagnostics: tuple[Diagnostic, ...]) -> ErrorObject | None:
    for found in diagnostics:
        if found.severity is Severity.ERROR:
            return with_hint(ErrorObject(found.code, found.message, found.hint, found.span))
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
