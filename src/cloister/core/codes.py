"""The statuses a run can end in and the codes that explain them: one table, read by every door."""

from enum import StrEnum


class RunStatus(StrEnum):
    OK = "ok"
    VALIDATION_ERROR = "validation_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    PERMISSION_DENIED = "permission_denied"
    WAITING_FOR_APPROVAL = "waiting_for_approval"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


class Code(StrEnum):
    SYNTAX_ERROR = "SYNTAX_ERROR"
    TYPE_ERROR = "TYPE_ERROR"
    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    UNSUPPORTED_FEATURE = "UNSUPPORTED_FEATURE"
    INVALID_ARGUMENTS = "INVALID_ARGUMENTS"
    INVALID_INPUT = "INVALID_INPUT"
    INVALID_LIMITS = "INVALID_LIMITS"
    RESULT_NOT_SERIALIZABLE = "RESULT_NOT_SERIALIZABLE"
    SNAPSHOT_CORRUPT = "SNAPSHOT_CORRUPT"
    SNAPSHOT_FOREIGN = "SNAPSHOT_FOREIGN"
    SNAPSHOT_VERSION_MISMATCH = "SNAPSHOT_VERSION_MISMATCH"
    SNAPSHOT_CAPABILITY_MISMATCH = "SNAPSHOT_CAPABILITY_MISMATCH"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    TOOL_ERROR = "TOOL_ERROR"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    ENGINE_CRASHED = "ENGINE_CRASHED"
    TIMEOUT_WALL = "TIMEOUT_WALL"
    TIMEOUT_CPU = "TIMEOUT_CPU"
    TIMEOUT_TOOL = "TIMEOUT_TOOL"
    MEMORY_EXCEEDED = "MEMORY_EXCEEDED"
    STACK_OVERFLOW = "STACK_OVERFLOW"
    STDOUT_EXCEEDED = "STDOUT_EXCEEDED"
    EXTERNAL_CALLS_EXCEEDED = "EXTERNAL_CALLS_EXCEEDED"
    RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    APPROVAL_DENIED = "APPROVAL_DENIED"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
    INTERRUPTED = "INTERRUPTED"
    CANCELLED = "CANCELLED"
    # Never an error: a note that the session's namespace is as it was before the cell.
    ROLLED_BACK = "ROLLED_BACK"
    # Never an error: a call that the program made and did not wait for.
    CALL_NOT_AWAITED = "CALL_NOT_AWAITED"


_V, _R, _T = RunStatus.VALIDATION_ERROR, RunStatus.RUNTIME_ERROR, RunStatus.TIMEOUT
_X, _P = RunStatus.RESOURCE_EXHAUSTED, RunStatus.PERMISSION_DENIED

STATUS_OF: dict[Code, RunStatus] = {
    Code.SYNTAX_ERROR: _V,
    Code.TYPE_ERROR: _V,
    Code.UNKNOWN_TOOL: _V,
    Code.UNSUPPORTED_FEATURE: _V,
    Code.INVALID_ARGUMENTS: _V,
    Code.INVALID_INPUT: _V,
    Code.INVALID_LIMITS: _V,
    Code.RESULT_NOT_SERIALIZABLE: _V,
    Code.SNAPSHOT_CORRUPT: _V,
    Code.SNAPSHOT_FOREIGN: _V,
    Code.SNAPSHOT_VERSION_MISMATCH: _V,
    Code.SNAPSHOT_CAPABILITY_MISMATCH: _V,
    Code.RUNTIME_ERROR: _R,
    Code.TOOL_ERROR: _R,
    Code.OUTCOME_UNKNOWN: _R,
    Code.ENGINE_CRASHED: _R,
    Code.TIMEOUT_WALL: _T,
    Code.TIMEOUT_CPU: _T,
    Code.TIMEOUT_TOOL: _T,
    Code.MEMORY_EXCEEDED: _X,
    Code.STACK_OVERFLOW: _X,
    Code.STDOUT_EXCEEDED: _X,
    Code.EXTERNAL_CALLS_EXCEEDED: _X,
    Code.RESULT_TOO_LARGE: _X,
    Code.PERMISSION_DENIED: _P,
    Code.APPROVAL_DENIED: _P,
    Code.APPROVAL_EXPIRED: _P,
    Code.INTERRUPTED: RunStatus.INTERRUPTED,
    Code.CANCELLED: RunStatus.CANCELLED,
}


def status_of(code: str) -> RunStatus:
    """The status a run has when `code` ended it. A code that only a tool knows counts as a failed tool."""
    try:
        return STATUS_OF[Code(code)]
    except (ValueError, KeyError):
        return RunStatus.RUNTIME_ERROR
