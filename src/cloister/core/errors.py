"""What the host did wrong, or what broke, as one small tree. What a *program* did wrong is data (`RunResult`).

    CloisterError                       code
    ├── InvalidInput                    INVALID_INPUT: a value that does not fit
    │   ├── InvalidSessionId            INVALID_SESSION_ID
    │   ├── InvalidLanguage             INVALID_LANGUAGE
    │   ├── InvalidLimits               INVALID_LIMITS
    │   ├── InvalidToolName             INVALID_TOOL_NAME
    │   ├── InvalidConfig               INVALID_CONFIG: a key of a configuration, named by its path
    │   └── NotKept                     NOT_KEPT: it needs a store, and this host has none
    ├── SessionNotFound                 SESSION_NOT_FOUND
    ├── SessionExists                   SESSION_EXISTS
    ├── SessionClosed                   SESSION_CLOSED
    ├── ThreadNotFound                  THREAD_NOT_FOUND: never was, or is another tenant's
    ├── TurnNotFound                    TURN_NOT_FOUND: never was, or is another thread's
    ├── ToolCallNotFound                TOOL_CALL_NOT_FOUND: never was, was answered, or is over
    ├── OperationConflict               OPERATION_CONFLICT: this operation_key came with something else before
    ├── CellNotFound                    CELL_NOT_FOUND: never was, was read to its end, or is another session's
    ├── CellBusy                        CELL_BUSY: somebody observes it already, or it is being terminated
    ├── QueueFull                       QUEUE_FULL: more cells than may wait or live
    ├── CannotReplay                    CANNOT_REPLAY: it has not ended, or not all that is needed is on record
    ├── FileNotFound                    FILE_NOT_FOUND
    ├── FileConflict                    FILE_CONFLICT: a file is not as the writer thought
    ├── AttachmentNotFound              ATTACHMENT_NOT_FOUND: never was, was deleted, or is another session's
    ├── SecretsLocked                   SECRETS_LOCKED: stored secrets that no key here opens
    ├── QuotaExceeded                   QUOTA_EXCEEDED: files, values, … beyond what a session may hold
    ├── SnapshotError                   (abstract)
    │   ├── SnapshotCorrupt             SNAPSHOT_CORRUPT: truncated, flipped, not a snapshot
    │   ├── SnapshotForeign             SNAPSHOT_FOREIGN: another installation's or another session's
    │   ├── SnapshotVersionMismatch     SNAPSHOT_VERSION_MISMATCH
    │   └── SnapshotCapabilityMismatch  SNAPSHOT_CAPABILITY_MISMATCH
    ├── ApprovalNotFound                APPROVAL_NOT_FOUND
    ├── ApprovalClosed                  APPROVAL_CLOSED: decided, expired or cancelled already
    ├── StoreError                      (abstract)
    │   ├── StoreUnavailable            STORE_UNAVAILABLE: disk full, read-only, server gone
    │   ├── StoreUnusable               STORE_UNUSABLE: another program's, a newer version's, damaged
    │   ├── StoreConflict               STORE_CONFLICT: something is not as the writer thought
    │   └── LeaseLost                   LEASE_LOST: the session belongs to another owner by now
    ├── ProviderUnconfigured            provider_unconfigured: a model whose key nobody has given
    ├── ProviderUnavailable             provider_unavailable: not known, its package is missing, or cannot be reached
    ├── ProviderMismatch                provider_mismatch: a thread that remembers another provider
    ├── ModelError                      (abstract) a model was asked and did not answer as it must
    │   ├── ModelRefused                model_refused: the provider says that the request is wrong (4xx)
    │   │   └── ContextExceeded         context_exceeded: the conversation is longer than the model takes
    │   ├── ModelRateLimited            model_rate_limited: too many requests, also after those sent again
    │   ├── ModelFailed                 model_failed: the provider broke (5xx), or cut its answer off
    │   ├── ModelTimeout                model_timeout: it took too long, as a whole or between two pieces
    │   ├── AnswerTooLarge              answer_too_large: more than may be taken
    │   ├── AnswerInvalid               answer_invalid: not what the provider's format allows
    │   └── ScriptAstray                script_astray: a scripted model was asked something else than it expects
    ├── CodeExecutionUnavailable        code_execution_unavailable: a thread whose programs find no worker
    ├── SourceUnavailable               SOURCE_UNAVAILABLE: a source of tools that cannot be reached
    ├── ConfinementUnavailable          CONFINEMENT_UNAVAILABLE
    └── EngineUnavailable               ENGINE_UNAVAILABLE: no worker can be started

The invalid ones are `ValueError`s too, so that a caller who only knows Python catches them.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import ClassVar


class CloisterError(Exception):
    """Base of everything that Cloister raises on purpose."""

    code: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InvalidInput(CloisterError, ValueError):
    code = "INVALID_INPUT"
    # Where in what was asked, from the outside in, as far as whoever refused it has said so: see `within`.
    at: tuple[str | int, ...] = ()


class InvalidSessionId(InvalidInput):
    code = "INVALID_SESSION_ID"


class InvalidLanguage(InvalidInput):
    code = "INVALID_LANGUAGE"


class InvalidLimits(InvalidInput):
    code = "INVALID_LIMITS"


class InvalidToolName(InvalidInput):
    code = "INVALID_TOOL_NAME"


class InvalidConfig(InvalidInput):
    """`path` is the key, such as `mcpServers.git.args`, so that whoever read the file can say on which line it is."""

    code = "INVALID_CONFIG"

    def __init__(self, path: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"{path}: {reason}", hint=hint)
        self.path = path


class NotKept(InvalidInput):
    code = "NOT_KEPT"


class SessionNotFound(CloisterError, LookupError):
    code = "SESSION_NOT_FOUND"


class SessionExists(CloisterError):
    code = "SESSION_EXISTS"


class SessionClosed(CloisterError):
    code = "SESSION_CLOSED"


class ThreadNotFound(CloisterError, LookupError):
    code = "THREAD_NOT_FOUND"


class TurnNotFound(CloisterError, LookupError):
    code = "TURN_NOT_FOUND"


class ToolCallNotFound(CloisterError, LookupError):
    code = "TOOL_CALL_NOT_FOUND"


class OperationConflict(CloisterError):
    code = "OPERATION_CONFLICT"


class CellNotFound(CloisterError, LookupError):
    code = "CELL_NOT_FOUND"


class CellBusy(CloisterError):
    code = "CELL_BUSY"


class QueueFull(CloisterError):
    code = "QUEUE_FULL"


class CannotReplay(CloisterError):
    code = "CANNOT_REPLAY"


class FileNotFound(CloisterError, LookupError):
    code = "FILE_NOT_FOUND"


class FileConflict(CloisterError):
    code = "FILE_CONFLICT"


class AttachmentNotFound(CloisterError, LookupError):
    code = "ATTACHMENT_NOT_FOUND"


class SecretsLocked(CloisterError):
    code = "SECRETS_LOCKED"


class QuotaExceeded(CloisterError):
    code = "QUOTA_EXCEEDED"


class SnapshotError(CloisterError, ValueError):
    """A snapshot that is refused; the subclasses say why."""


class SnapshotCorrupt(SnapshotError):
    code = "SNAPSHOT_CORRUPT"


class SnapshotForeign(SnapshotError):
    code = "SNAPSHOT_FOREIGN"


class SnapshotVersionMismatch(SnapshotError):
    code = "SNAPSHOT_VERSION_MISMATCH"


class SnapshotCapabilityMismatch(SnapshotError):
    code = "SNAPSHOT_CAPABILITY_MISMATCH"


class ApprovalNotFound(CloisterError, LookupError):
    code = "APPROVAL_NOT_FOUND"


class ApprovalClosed(CloisterError):
    code = "APPROVAL_CLOSED"


class StoreError(CloisterError):
    """A store that cannot do what was asked; the subclasses say why."""


class StoreUnavailable(StoreError):
    code = "STORE_UNAVAILABLE"


class StoreUnusable(StoreError):
    code = "STORE_UNUSABLE"


class StoreConflict(StoreError):
    code = "STORE_CONFLICT"


class LeaseLost(StoreError):
    code = "LEASE_LOST"


class ProviderUnconfigured(CloisterError):
    code = "provider_unconfigured"


class ProviderUnavailable(CloisterError):
    code = "provider_unavailable"


class ProviderMismatch(CloisterError):
    """`expected` is what the thread remembers, `actual` what it was opened with."""

    code = "provider_mismatch"

    def __init__(self, *, expected: str, actual: str, thread: str, hint: str | None = None) -> None:
        super().__init__(f"thread {thread} talks to {expected!r}, not to {actual!r}", hint=hint)
        self.expected = expected
        self.actual = actual
        self.thread = thread


class ModelError(CloisterError):
    """A model was asked and did not answer as it must; the subclasses say why.

    `status` is that of HTTP where there was one, `retry_after_ms` how long the provider asks to be left alone.
    """

    def __init__(
        self,
        message: str,
        *,
        provider: str,
        model: str,
        status: int | None = None,
        retry_after_ms: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.provider = provider
        self.model = model
        self.status = status
        self.retry_after_ms = retry_after_ms


class ModelRefused(ModelError):
    code = "model_refused"


class ContextExceeded(ModelRefused):
    code = "context_exceeded"


class ModelRateLimited(ModelError):
    code = "model_rate_limited"


class ModelFailed(ModelError):
    code = "model_failed"


class ModelTimeout(ModelError):
    code = "model_timeout"


class AnswerTooLarge(ModelError):
    code = "answer_too_large"


class AnswerInvalid(ModelError):
    code = "answer_invalid"


class ScriptAstray(ModelError):
    code = "script_astray"


class CodeExecutionUnavailable(CloisterError):
    code = "code_execution_unavailable"


class SourceUnavailable(CloisterError):
    code = "SOURCE_UNAVAILABLE"


class ConfinementUnavailable(CloisterError):
    code = "CONFINEMENT_UNAVAILABLE"


class EngineUnavailable(CloisterError):
    code = "ENGINE_UNAVAILABLE"


@contextmanager
def within(*place: str | int) -> Generator[None, None, None]:
    """What is refused in here is refused for that part of what was asked."""
    try:
        yield
    except InvalidInput as error:
        error.at = (*place, *error.at)
        raise
