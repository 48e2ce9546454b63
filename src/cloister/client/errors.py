"""What a server refuses, as the exceptions of the core, found by their codes; and what goes wrong on the way to it.

    CloisterError
    ├── …                   whatever the server raised: see `core.errors`, whose codes are the table here
    ├── RequestRefused      REQUEST_REFUSED: the request itself was; `problem.code` says why
    ├── ServerUnreachable   SERVER_UNREACHABLE: no connection, or it broke and could not be made again
    ├── AnswerUnreadable    ANSWER_UNREADABLE: not what a Cloister server answers
    └── EventsMissed        EVENTS_MISSED: a stream went on behind an event that never came

An error of the core that came over the wire is raised `from` the `RequestRefused` that has its problem: the status, the
place in the body, the id of the request in the server's log.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from cloister.core.errors import CloisterError, InvalidConfig, ModelError, ProviderMismatch


@dataclass(frozen=True, slots=True)
class Problem:
    """RFC 9457, as the server writes it."""

    status: int
    code: str
    detail: str
    hint: str | None = None
    pointer: str | None = None
    request_id: str | None = None


class RequestRefused(CloisterError):
    code = "REQUEST_REFUSED"

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.detail} ({problem.code})", hint=problem.hint)
        self.problem = problem


class ServerUnreachable(CloisterError):
    code = "SERVER_UNREACHABLE"


class AnswerUnreadable(CloisterError):
    code = "ANSWER_UNREADABLE"


class EventsMissed(CloisterError):
    """`expected` is the last event that was read, `found` the one that the next says it comes after."""

    code = "EVENTS_MISSED"

    def __init__(self, *, expected: int, found: int, seq: int) -> None:
        super().__init__(
            f"event {seq} comes after event {found}, and the last that was read is {expected}",
            hint=f"read the stream again since {expected}",
        )
        self.expected = expected
        self.found = found
        self.seq = seq


def problem_of(status: int, data: Any) -> Problem | None:
    """The problem that a body is, if it is one."""
    if not isinstance(data, Mapping):
        return None
    said = cast("Mapping[str, Any]", data)
    code, detail = said.get("code"), said.get("detail")
    if not isinstance(code, str) or not isinstance(detail, str):
        return None
    return Problem(status, code, detail, _text(said, "hint"), _text(said, "pointer"), _text(said, "request_id"))


def error_of(problem: Problem) -> CloisterError:
    """What to raise for it: `raise error_of(problem) from RequestRefused(problem)` where they are two."""
    make = ERROR_OF.get(problem.code)
    if make is None:
        return RequestRefused(problem)
    error = make(problem)
    error.__cause__ = RequestRefused(problem)
    return error


def _text(said: Mapping[str, Any], name: str) -> str | None:
    value = said.get(name)
    return value if isinstance(value, str) else None


# -- the table --------------------------------------------------------------------------------------------------------

Make = Callable[[Problem], CloisterError]


def _plain(kind: type[CloisterError]) -> Make:
    def make(problem: Problem) -> CloisterError:
        if not issubclass(kind, (InvalidConfig, ProviderMismatch, ModelError)):
            return kind(problem.detail, hint=problem.hint)
        # Their parts do not travel; what is said of them does.
        error = kind.__new__(kind)
        CloisterError.__init__(error, problem.detail, hint=problem.hint)
        for name, value in _PARTS[_part_of(kind)].items():
            setattr(error, name, value)
        return error

    return make


def _part_of(kind: type[CloisterError]) -> type[CloisterError]:
    return next(one for one in _PARTS if issubclass(kind, one))


_PARTS: Mapping[type[CloisterError], Mapping[str, Any]] = {
    InvalidConfig: {"path": ""},
    ProviderMismatch: {"expected": "", "actual": "", "thread": ""},
    ModelError: {"provider": "", "model": "", "status": None, "retry_after_ms": None},
}


def _kinds(kind: type[CloisterError]) -> Iterator[type[CloisterError]]:
    for one in kind.__subclasses__():
        if one.__module__ == "cloister.core.errors":
            yield one
            yield from _kinds(one)


ERROR_OF: Mapping[str, Make] = {
    kind.code: _plain(kind) for kind in (CloisterError, *_kinds(CloisterError)) if "code" in vars(kind)
}
