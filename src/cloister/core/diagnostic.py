"""What can be said about a program: where, how bad, what happened, what to do."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Span:
    """A place in one cell's source. Lines and columns count from 1, columns in code points; the end is exclusive."""

    line: int
    column: int
    end_line: int | None = None
    end_column: int | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    severity: Severity
    code: str
    message: str
    hint: str | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class ErrorObject:
    code: str
    message: str
    hint: str | None = None
    span: Span | None = None
