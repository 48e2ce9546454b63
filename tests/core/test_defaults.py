"""Every core type's defaults, as the contract's table of types gives them."""

from dataclasses import FrozenInstanceError, asdict, fields
from datetime import UTC, datetime
from typing import Any

import pytest

from cloister.core.call import CallStatus, ExternalCallRecord
from cloister.core.capability import Capability, SideEffect
from cloister.core.codes import RunStatus
from cloister.core.diagnostic import Diagnostic, ErrorObject, Severity, Span
from cloister.core.errors import InvalidInput, InvalidLimits
from cloister.core.language import Language
from cloister.core.limits import CapabilityLimits, SessionLimits
from cloister.core.run import Metrics, RunRequest, RunResult
from cloister.core.session import SessionMeta

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
RECORD = ExternalCallRecord("cal_1", "f", SideEffect.NONE, 0.0, CallStatus.OK, "d")


def test_session_limits_have_the_defaults_of_the_contract() -> None:
    assert asdict(SessionLimits()) == {
        "memory_mb": 64,
        "cpu_ms": 2000,
        "wall_ms": 5000,
        "max_stdout_bytes": 65536,
        "max_external_calls": 32,
        "max_stack_depth": 256,
    }


def test_capability_limits_have_the_defaults_of_the_contract() -> None:
    assert asdict(CapabilityLimits()) == {
        "timeout_ms": 5000,
        "max_request_bytes": 1048576,
        "max_response_bytes": 1048576,
        "concurrency": 16,
        "rate_per_min": None,
    }


def test_capability_has_the_defaults_of_the_contract() -> None:
    made = Capability("get_order")
    assert (made.namespace, made.description) == (None, "")
    assert (made.input_schema, made.output_schema) == ({"type": "array"}, {})
    assert made.side_effect is SideEffect.NONE
    assert made.limits == CapabilityLimits()
    assert made.approval_policy.to_json() == "none"
    assert (made.idempotent, made.defer_loading) == (True, False)


def test_run_request_has_the_defaults_of_the_contract() -> None:
    made = RunRequest("1")
    assert (made.session_id, made.language, made.inputs) == ("default", Language.PYTHON, {})
    assert (made.timeout_ms, made.limits) == (None, None)
    assert (made.return_snapshot, made.validate_only) == (False, False)


def test_run_result_is_empty_but_for_what_it_was_given() -> None:
    made = RunResult(RunStatus.OK, "cel_1")
    assert (made.result, made.stdout, made.stderr, made.error) == (None, "", "", None)
    assert (made.content, made.diagnostics, made.external_calls, made.approvals) == ((), (), (), ())
    assert (made.snapshot_id, made.snapshot, made.metrics) == (None, None, Metrics())


def test_metrics_start_at_zero() -> None:
    assert set(asdict(Metrics()).values()) == {0}


def test_session_meta_has_the_defaults_of_the_contract() -> None:
    made = SessionMeta("a", NOW, NOW)
    assert (made.language, made.limits, made.snapshot_version) == (Language.PYTHON, SessionLimits(), 1)
    assert (made.title, made.labels) == (None, {})


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (SessionMeta, "id title created_at last_used_at language limits snapshot_version labels tenant"),
        (
            Capability,
            "namespace name description input_schema output_schema side_effect limits approval_policy idempotent "
            "defer_loading",
        ),
        (RunRequest, "session_id language code inputs timeout_ms limits return_snapshot validate_only"),
        (
            RunResult,
            "status result stdout stderr content diagnostics external_calls snapshot_id snapshot metrics error "
            "cell_id approvals",
        ),
        (Diagnostic, "severity code message hint span"),
        (Span, "line column end_line end_column"),
        (ErrorObject, "code message hint span"),
        (
            ExternalCallRecord,
            "id name side_effect duration_ms status request_digest response_digest error usage",
        ),
        (Metrics, "duration_ms cpu_ms memory_peak_bytes instructions external_calls_count"),
    ],
)
def test_type_has_the_fields_of_the_contract_and_no_other(kind: Any, names: str) -> None:
    assert {field.name for field in fields(kind)} == set(names.split())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Language, "python typescript"),
        (SideEffect, "none read write network database external_system"),
        (Severity, "error warning info"),
        (CallStatus, "ok error timeout denied approval_pending unknown"),
        (
            RunStatus,
            "ok validation_error runtime_error timeout resource_exhausted permission_denied waiting_for_approval "
            "interrupted cancelled",
        ),
    ],
)
def test_enum_has_the_words_of_the_contract(kind: Any, words: str) -> None:
    assert [str(member) for member in kind] == words.split()


@pytest.mark.parametrize(
    "made",
    [
        SessionLimits(),
        CapabilityLimits(),
        Capability("a"),
        RunRequest("1"),
        RunResult(RunStatus.OK, "c"),
        Metrics(),
        SessionMeta("a", NOW, NOW),
        Span(1, 1),
        Diagnostic(Severity.INFO, "C", "m"),
        ErrorObject("C", "m"),
        RECORD,
    ],
    ids=lambda made: type(made).__name__,
)
def test_core_value_cannot_be_changed(made: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(made, fields(made)[0].name, None)


def test_two_capabilities_do_not_share_their_default_schema() -> None:
    assert Capability("a").input_schema is not Capability("b").input_schema


def test_result_is_ok_only_with_the_status_ok() -> None:
    assert [status for status in RunStatus if RunResult(status, "c").ok] == [RunStatus.OK]


def test_request_with_a_timeout_that_is_not_positive_is_refused() -> None:
    for bad in (0, -1):
        with pytest.raises(InvalidLimits, match="timeout_ms"):
            RunRequest("1", timeout_ms=bad)


def test_request_with_limits_that_are_none_is_refused_when_it_is_made() -> None:
    for bad in ({"memory": 1}, {"memory_mb": 0}):
        with pytest.raises(InvalidLimits, match="memory"):
            RunRequest("1", limits=bad)


def test_session_meta_has_times_of_a_known_zone() -> None:
    with pytest.raises(InvalidInput, match="zone"):
        SessionMeta("a", datetime(2026, 1, 1), NOW)


def test_request_and_meta_refuse_a_bad_session_id() -> None:
    with pytest.raises(ValueError, match="session id"):
        RunRequest("1", session_id="a b")
    with pytest.raises(ValueError, match="session id"):
        SessionMeta("a b", NOW, NOW)
