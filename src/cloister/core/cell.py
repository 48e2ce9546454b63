"""A cell as its host sees it: the state it is in, and what there is to tell since somebody last looked.

An observation carries the content that is new since the one before: nothing is told twice. Content items are texts,
`{"type": "input_text", "text"}`, and images, `{"type": "input_image", "image_url", "detail"?}`, in the order in which
the program made them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from cloister.core.approval import Approval
from cloister.core.call import ExternalCallRecord
from cloister.core.diagnostic import Diagnostic, ErrorObject
from cloister.core.errors import InvalidLimits
from cloister.core.light import light
from cloister.core.run import Metrics

Content: TypeAlias = tuple[Mapping[str, Any], ...]
_DAY_MS = 86_400_000


class CellState(StrEnum):
    """Where a cell is in its life; `cells.state` has the ways from one to the next."""

    QUEUED = "queued"
    RUNNING = "running"
    # For a call, still on its worker.
    WAITING = "waiting"
    # For a call or a person, as bytes.
    ASLEEP = "asleep"
    # Somebody has ended it, and its calls are being cancelled.
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    TERMINATED = "terminated"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Yielded:
    """The cell goes on: this is what it had to say so far."""

    cell_id: str
    content: Content = ()
    # The file that has the whole output, when some of it is missing above.
    saved_output: str | None = None
    status: Literal["yielded"] = field(default="yielded", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingForApproval:
    """The cell sleeps until one of `approvals` is decided; then it goes on by itself."""

    cell_id: str
    content: Content = ()
    saved_output: str | None = None
    approvals: tuple[Approval, ...] = ()
    status: Literal["waiting_for_approval"] = field(default="waiting_for_approval", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    cell_id: str
    content: Content = ()
    saved_output: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    external_calls: tuple[ExternalCallRecord, ...] = ()
    metrics: Metrics = field(default_factory=Metrics)


@light
@dataclass(frozen=True, slots=True, kw_only=True)
class Completed(_Ended):
    result: Any = None
    status: Literal["completed"] = field(default="completed", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(_Ended):
    """The program ended badly, or was not accepted; `error` says why."""

    error: ErrorObject
    status: Literal["failed"] = field(default="failed", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated(_Ended):
    """Somebody ended the cell. Its calls are over and what it stored is not kept."""

    status: Literal["terminated"] = field(default="terminated", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted(_Ended):
    """The host stopped, or closed the session, before the cell ended."""

    error: ErrorObject
    status: Literal["interrupted"] = field(default="interrupted", init=False)


Observation: TypeAlias = Yielded | WaitingForApproval | Completed | Failed | Terminated | Interrupted


@dataclass(frozen=True, slots=True)
class CellInfo:
    """One of a session's cells, in a list of them. A finished one is there until somebody has read its end."""

    id: str
    state: CellState
    isolated: bool
    created_at: datetime
    # The tools whose answers it waits for.
    waiting_for: tuple[str, ...] = ()
    # The questions that only a person can answer.
    approvals: tuple[str, ...] = ()
    observed: bool = False


@dataclass(frozen=True, slots=True)
class CellLimits:
    """What a host allows the cells of its sessions, beside what each session's own limits say.

    yields: how long an observer waits before it is told what there is. tokens: about four bytes of output each.
    """

    # A longer wait than this is cut to it.
    max_yield_ms: int = 60_000
    # What one observation may carry; more is cut from its middle and saved to the session's files.
    max_output_tokens: int = 10_000
    # How long a cell of `exec` may take, without the time it waits for people.
    cell_wall_ms: int = 30 * 60_000
    # A cell that has waited for a call as long as this gives its worker to others.
    hibernate_after_ms: int = 250
    # Cells of one session that wait for their turn.
    max_queued: int = 64
    # Isolated cells of one session that have not ended.
    max_isolated: int = 256
    # Cells of all sessions that have not ended.
    max_cells: int = 20_000
    # Those that have ended and that nobody has read. No other begins while there are as many.
    max_unread: int = 20_000
    # A finished cell that nobody has asked for is forgotten after this.
    reap_after_ms: int = 60 * 60_000
    # How long closing waits for programs that compute; those that wait are put to sleep at once.
    shutdown_ms: int = 2_000

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if type(value) is not int:
                raise InvalidLimits(f"{name} must be a whole number, not {type(value).__name__}")
            most = _DAY_MS * 366 if name.endswith("_ms") else 10**9
            if not least <= value <= most:
                raise InvalidLimits(f"{name} must be between {least} and {most}, not {value}")


_LEAST = {
    "max_yield_ms": 0,
    "max_output_tokens": 0,
    "cell_wall_ms": 1,
    "hibernate_after_ms": 0,
    "max_queued": 0,
    "max_isolated": 0,
    "max_cells": 1,
    "max_unread": 1,
    "reap_after_ms": 1,
    "shutdown_ms": 0,
}
