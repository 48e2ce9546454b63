"""The tree of what a host can catch."""

import pytest

from cloister.core import errors
from cloister.core.errors import CloisterError, InvalidInput, SessionNotFound, SnapshotError

# Name -> (code, parent), as the module's docstring draws it.
TREE: dict[str, tuple[str | None, str]] = {
    "InvalidInput": ("INVALID_INPUT", "CloisterError"),
    "InvalidSessionId": ("INVALID_SESSION_ID", "InvalidInput"),
    "InvalidLanguage": ("INVALID_LANGUAGE", "InvalidInput"),
    "InvalidLimits": ("INVALID_LIMITS", "InvalidInput"),
    "InvalidToolName": ("INVALID_TOOL_NAME", "InvalidInput"),
    "InvalidConfig": ("INVALID_CONFIG", "InvalidInput"),
    "NotKept": ("NOT_KEPT", "InvalidInput"),
    "ApprovalNotFound": ("APPROVAL_NOT_FOUND", "CloisterError"),
    "ApprovalClosed": ("APPROVAL_CLOSED", "CloisterError"),
    "SessionNotFound": ("SESSION_NOT_FOUND", "CloisterError"),
    "SessionExists": ("SESSION_EXISTS", "CloisterError"),
    "SessionClosed": ("SESSION_CLOSED", "CloisterError"),
    "SnapshotError": (None, "CloisterError"),
    "SnapshotCorrupt": ("SNAPSHOT_CORRUPT", "SnapshotError"),
    "SnapshotForeign": ("SNAPSHOT_FOREIGN", "SnapshotError"),
    "SnapshotVersionMismatch": ("SNAPSHOT_VERSION_MISMATCH", "SnapshotError"),
    "SnapshotCapabilityMismatch": ("SNAPSHOT_CAPABILITY_MISMATCH", "SnapshotError"),
    "ThreadNotFound": ("THREAD_NOT_FOUND", "CloisterError"),
    "TurnNotFound": ("TURN_NOT_FOUND", "CloisterError"),
    "ToolCallNotFound": ("TOOL_CALL_NOT_FOUND", "CloisterError"),
    "OperationConflict": ("OPERATION_CONFLICT", "CloisterError"),
    "CellNotFound": ("CELL_NOT_FOUND", "CloisterError"),
    "CellBusy": ("CELL_BUSY", "CloisterError"),
    "QueueFull": ("QUEUE_FULL", "CloisterError"),
    "CannotReplay": ("CANNOT_REPLAY", "CloisterError"),
    "AttachmentNotFound": ("ATTACHMENT_NOT_FOUND", "CloisterError"),
    "SecretsLocked": ("SECRETS_LOCKED", "CloisterError"),
    "FileNotFound": ("FILE_NOT_FOUND", "CloisterError"),
    "FileConflict": ("FILE_CONFLICT", "CloisterError"),
    "QuotaExceeded": ("QUOTA_EXCEEDED", "CloisterError"),
    "StoreError": (None, "CloisterError"),
    "StoreUnavailable": ("STORE_UNAVAILABLE", "StoreError"),
    "StoreUnusable": ("STORE_UNUSABLE", "StoreError"),
    "StoreConflict": ("STORE_CONFLICT", "StoreError"),
    "LeaseLost": ("LEASE_LOST", "StoreError"),
    "ProviderUnconfigured": ("provider_unconfigured", "CloisterError"),
    "ProviderUnavailable": ("provider_unavailable", "CloisterError"),
    "ProviderMismatch": ("provider_mismatch", "CloisterError"),
    "ModelError": (None, "CloisterError"),
    "ModelRefused": ("model_refused", "ModelError"),
    "ContextExceeded": ("context_exceeded", "ModelRefused"),
    "ModelRateLimited": ("model_rate_limited", "ModelError"),
    "ModelFailed": ("model_failed", "ModelError"),
    "ModelTimeout": ("model_timeout", "ModelError"),
    "AnswerTooLarge": ("answer_too_large", "ModelError"),
    "AnswerInvalid": ("answer_invalid", "ModelError"),
    "ScriptAstray": ("script_astray", "ModelError"),
    "CodeExecutionUnavailable": ("code_execution_unavailable", "CloisterError"),
    "SourceUnavailable": ("SOURCE_UNAVAILABLE", "CloisterError"),
    "ConfinementUnavailable": ("CONFINEMENT_UNAVAILABLE", "CloisterError"),
    "EngineUnavailable": ("ENGINE_UNAVAILABLE", "CloisterError"),
}


def _subclasses(kind: type[CloisterError]) -> set[type[CloisterError]]:
    return {kind}.union(*(_subclasses(child) for child in kind.__subclasses__()))


@pytest.mark.parametrize("name", TREE)
def test_error_has_its_code_and_its_parent(name: str) -> None:
    code, parent = TREE[name]
    kind = getattr(errors, name)
    assert kind.__bases__[0].__name__ == parent
    assert code is None or kind.code == code


def test_tree_has_no_error_that_is_not_drawn() -> None:
    defined = {k.__name__ for k in _subclasses(CloisterError) if k.__module__ == errors.__name__}
    assert defined - {"CloisterError"} == set(TREE)


@pytest.mark.parametrize("name", TREE)
def test_docstring_draws_the_error_with_its_code(name: str) -> None:
    code, _ = TREE[name]
    line = next(line for line in (errors.__doc__ or "").splitlines() if f"── {name} " in line)
    assert code is None or code in line


def test_no_two_errors_share_a_code() -> None:
    codes = [getattr(errors, name).code for name, (code, _) in TREE.items() if code is not None]
    assert len(set(codes)) == len(codes)


def test_error_keeps_its_message_and_hint() -> None:
    error = InvalidInput("that is wrong", hint="do this")
    assert (str(error), error.message, error.hint) == ("that is wrong", "that is wrong", "do this")


def test_error_without_a_hint_has_none() -> None:
    assert CloisterError("broken").hint is None


@pytest.mark.parametrize(
    "name", [n for n, (_, parent) in TREE.items() if n.startswith("Invalid") or parent == "SnapshotError"]
)
def test_bad_value_is_a_value_error_too(name: str) -> None:
    assert issubclass(getattr(errors, name), ValueError)


def test_missing_session_is_a_lookup_error_too() -> None:
    assert issubclass(SessionNotFound, LookupError)


def test_snapshot_errors_are_caught_together() -> None:
    assert {k.__name__ for k in SnapshotError.__subclasses__()} == {
        n for n, row in TREE.items() if row[1] == "SnapshotError"
    }
