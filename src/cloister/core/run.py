"""What is asked of a session and what comes back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cloister.core.approval import Approval
from cloister.core.call import ExternalCallRecord
from cloister.core.codes import RunStatus
from cloister.core.diagnostic import Diagnostic, ErrorObject
from cloister.core.errors import InvalidLimits
from cloister.core.ids import check_session_id
from cloister.core.language import Language
from cloister.core.light import light
from cloister.core.limits import SessionLimits


@dataclass(frozen=True, slots=True)
class RunRequest:
    code: str
    session_id: str = "default"
    language: Language = Language.PYTHON
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    timeout_ms: int | None = None
    # Only the fields that are asked for; each may only narrow what the session has.
    limits: Mapping[str, int] | None = None
    return_snapshot: bool = False
    validate_only: bool = False

    def __post_init__(self) -> None:
        check_session_id(self.session_id)
        if self.timeout_ms is not None and self.timeout_ms <= 0:
            raise InvalidLimits(f"timeout_ms must be a positive number, not {self.timeout_ms}")
        if self.limits is not None:
            SessionLimits().narrowed_by({name: 1 for name in self.limits})
            SessionLimits(**self.limits)


@light
@dataclass(frozen=True, slots=True)
class Metrics:
    """What a run used. `instructions` is 0 where the interpreter cannot count them."""

    duration_ms: float = 0.0
    cpu_ms: float = 0.0
    memory_peak_bytes: int = 0
    instructions: int = 0
    external_calls_count: int = 0


@light
@dataclass(frozen=True, slots=True)
class RunResult:
    status: RunStatus
    cell_id: str
    result: Any = None
    stdout: str = ""
    stderr: str = ""
    content: tuple[Mapping[str, Any], ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    external_calls: tuple[ExternalCallRecord, ...] = ()
    snapshot_id: str | None = None
    # The snapshot itself, when `return_snapshot` asked for it: bytes do not travel in JSON.
    snapshot: bytes | None = None
    metrics: Metrics = field(default_factory=Metrics)
    error: ErrorObject | None = None
    # The questions a waiting program has raised, when the status is `waiting_for_approval`.
    approvals: tuple[Approval, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status is RunStatus.OK
