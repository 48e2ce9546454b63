"""Core types to JSON and back."""

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import pytest
from hypothesis import given, settings

from cloister.core.capability import ApprovalPolicy, Capability
from cloister.core.codes import RunStatus
from cloister.core.errors import CloisterError, InvalidInput, InvalidLanguage, InvalidLimits, InvalidSessionId
from cloister.core.language import Language
from cloister.core.limits import CapabilityLimits, SessionLimits
from cloister.core.run import Metrics, RunRequest, RunResult
from cloister.core.session import SessionMeta
from cloister.core.wire import format_time, from_json, to_json
from tests.core.json_values import core_values, moments

NOW = datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=UTC)


@settings(max_examples=300)
@given(core_values)
def test_core_value_comes_back_from_json_as_it_was(value: Any) -> None:
    kind = cast("type[Any]", type(value))
    assert from_json(kind, json.loads(json.dumps(to_json(value)))) == value


@given(moments)
def test_time_is_rfc_3339_in_utc_with_milliseconds(moment: datetime) -> None:
    text = format_time(moment)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    assert datetime.fromisoformat(text) == moment


def test_time_of_another_zone_is_written_in_utc() -> None:
    assert format_time(datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))) == "2026-01-01T00:00:00.000Z"


def test_time_finer_than_a_millisecond_is_cut() -> None:
    assert format_time(NOW) == "2026-11-16T12:00:00.123Z"


def test_what_is_not_there_is_left_out() -> None:
    assert to_json(RunRequest("1")) == {
        "code": "1",
        "session_id": "default",
        "language": "python",
        "inputs": {},
        "return_snapshot": False,
        "validate_only": False,
    }


def test_program_s_own_null_is_written() -> None:
    made = to_json(RunResult(RunStatus.OK, "cel_1", result={"a": None}, stdout="x"))
    assert made["result"] == {"a": None}
    assert "result" in to_json(RunResult(RunStatus.OK, "cel_1"))
    assert "error" not in made


def test_bytes_do_not_travel_in_json() -> None:
    assert "snapshot" not in to_json(RunResult(RunStatus.OK, "cel_1", snapshot=b"x"))


def test_approval_policy_is_written_in_its_short_form() -> None:
    assert to_json(Capability("a"))["approval_policy"] == "none"
    rule = {"auto": {"rule": "true"}}
    assert to_json(Capability("a", approval_policy=ApprovalPolicy.parse(rule)))["approval_policy"] == rule


def test_type_script_is_read_as_typescript_and_written_so() -> None:
    made = from_json(RunRequest, {"code": "1", "language": "type_script"})
    assert made.language is Language.TYPESCRIPT
    assert to_json(made)["language"] == "typescript"


TIMES = {"created_at": "2026-01-01T00:00:00.000Z", "last_used_at": "2026-01-01T00:00:00.000Z"}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (SessionLimits, {"memory": 1}),
        (CapabilityLimits, {"timeout": 1}),
        (RunRequest, {"code": "1", "colour": "red"}),
        (RunRequest, {"code": "1", "limits": {"memory": 1}}),
        (Capability, {"name": "a", "limits": {"timeout": 1}}),
        (Capability, {"name": "a", "sideeffect": "read"}),
        (SessionMeta, {"id": "a", **TIMES, "colour": 1}),
        (RunResult, {"status": "ok", "cell_id": "c", "metrics": {"colour": 1}}),
        (RunResult, {"status": "ok", "cell_id": "c", "error": {"code": "A", "message": "b", "colour": 1}}),
        (
            RunResult,
            {
                "status": "ok",
                "cell_id": "c",
                "diagnostics": [
                    {"severity": "info", "code": "A", "message": "b", "span": {"line": 1, "column": 1, "colour": 1}}
                ],
            },
        ),
    ],
)
def test_unknown_field_is_refused_and_named(kind: Any, data: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"memory|timeout|colour|sideeffect"):
        from_json(kind, data)


@pytest.mark.parametrize(
    ("kind", "data", "field"),
    [
        (RunRequest, {}, "code"),
        (RunRequest, {"code": 5}, "code"),
        (RunRequest, {"code": None}, "code"),
        (RunRequest, {"code": "1", "inputs": [1]}, "inputs"),
        (RunRequest, {"code": "1", "return_snapshot": "perhaps"}, "return_snapshot"),
        (RunRequest, {"code": "1", "return_snapshot": "yes"}, "return_snapshot"),
        (RunRequest, {"code": "1", "timeout_ms": "5"}, "timeout_ms"),
        (RunRequest, {"code": "1", "timeout_ms": True}, "timeout_ms"),
        (RunRequest, {"code": "1", "timeout_ms": 0}, "timeout_ms"),
        (RunRequest, {"code": "1", "limits": 5}, "limits"),
        (SessionLimits, {"memory_mb": "64"}, "memory_mb"),
        (SessionLimits, {"memory_mb": True}, "memory_mb"),
        (SessionLimits, {"memory_mb": 1.5}, "memory_mb"),
        (SessionLimits, {"memory_mb": None}, "memory_mb"),
        (Capability, {"name": "a", "side_effect": "delete"}, "side_effect"),
        (Capability, {"name": "a", "idempotent": "no"}, "idempotent"),
        (SessionMeta, {"id": "a", **TIMES, "created_at": "yesterday"}, "created_at"),
        (SessionMeta, {"id": "a", **TIMES, "created_at": "2026-01-01T00:00:00"}, "zone"),
        (SessionMeta, {"id": "a", **TIMES, "created_at": 5}, "created_at"),
        (SessionMeta, {"id": "a", **TIMES, "labels": {"a": 1}}, "labels"),
    ],
)
def test_value_of_the_wrong_kind_is_refused_and_its_field_named(kind: Any, data: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        from_json(kind, data)


@pytest.mark.parametrize(
    ("kind", "data", "error"),
    [
        (RunRequest, {"code": "1", "session_id": "a b"}, InvalidSessionId),
        (RunRequest, {"code": "1", "language": "cobol"}, InvalidLanguage),
        (RunRequest, {"code": "1", "language": 5}, InvalidLanguage),
        (RunRequest, {"code": "1", "limits": {"memory_mb": 0}}, InvalidLimits),
        (SessionLimits, {"memory_mb": 0}, InvalidLimits),
        (SessionLimits, {"wall_ms": 2**41}, InvalidLimits),
        (SessionMeta, {"id": "", **TIMES}, InvalidSessionId),
    ],
)
def test_type_s_own_refusal_is_the_one_that_is_raised(
    kind: Any, data: dict[str, Any], error: type[CloisterError]
) -> None:
    with pytest.raises(error):
        from_json(kind, data)


@pytest.mark.parametrize("data", [None, 5, "text", [], [["code", "1"]]])
def test_what_is_no_object_is_refused(data: Any) -> None:
    with pytest.raises(InvalidInput, match="JSON object"):
        from_json(RunRequest, data)


def test_reading_does_not_change_what_is_read() -> None:
    data = {"code": "1", "language": "type_script", "limits": {"memory_mb": 32}}
    before = json.dumps(data)
    from_json(RunRequest, data)
    assert json.dumps(data) == before


def test_limits_in_a_request_are_just_those_that_were_asked_for() -> None:
    assert from_json(RunRequest, {"code": "1", "limits": {"memory_mb": 32}}).limits == {"memory_mb": 32}


def test_metrics_are_written_under_their_own_names() -> None:
    assert set(to_json(Metrics())) == {
        "duration_ms",
        "cpu_ms",
        "memory_peak_bytes",
        "instructions",
        "external_calls_count",
    }
