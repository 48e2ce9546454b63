"""Strategies: JSON values and core types, for the property tests."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from cloister.core.approval import Approval, ApprovalState, Decision
from cloister.core.call import CallStatus, ExternalCallRecord
from cloister.core.capability import ApprovalPolicy, Capability, SideEffect
from cloister.core.codes import RunStatus
from cloister.core.diagnostic import Diagnostic, ErrorObject, Severity, Span
from cloister.core.language import Language
from cloister.core.limits import CapabilityLimits, SessionLimits
from cloister.core.run import Metrics, RunRequest, RunResult
from cloister.core.session import SessionMeta

# Text as UTF-8 can say it: no lone surrogates.
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | numbers | text


def _grow(children: "st.SearchStrategy[Any]") -> "st.SearchStrategy[Any]":
    return st.lists(children, max_size=4) | st.dictionaries(text, children, max_size=4)


json_values: "st.SearchStrategy[Any]" = st.recursive(leaves, _grow, max_leaves=12)
json_objects: "st.SearchStrategy[dict[str, Any]]" = st.dictionaries(text, json_values, max_size=4)

session_ids = st.from_regex(r"[a-zA-Z0-9_\-]{1,64}", fullmatch=True)
tool_names = st.from_regex(r"[a-z_][a-z0-9_]{0,8}x", fullmatch=True)
_bound = st.integers(1, 2**40)
_duration = st.floats(0, 1e9)
_maybe_text = st.none() | text

session_limits = st.builds(SessionLimits, _bound, _bound, _bound, _bound, st.integers(0, 2**40), _bound)
asked_limits = st.fixed_dictionaries({}, optional={"memory_mb": _bound, "wall_ms": _bound, "max_stack_depth": _bound})
capability_limits = st.builds(CapabilityLimits, _bound, _bound, _bound, _bound, st.none() | _bound)


def _to_milliseconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


moments = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC)).map(_to_milliseconds)
spans = st.builds(Span, st.integers(1, 99), st.integers(1, 99), st.none() | st.integers(1, 99))
diagnostics = st.builds(Diagnostic, st.sampled_from(Severity), text, text, hint=_maybe_text, span=st.none() | spans)
errors = st.builds(ErrorObject, text, text, hint=_maybe_text, span=st.none() | spans)
records = st.builds(
    ExternalCallRecord,
    id=text,
    name=text,
    side_effect=st.sampled_from(SideEffect),
    duration_ms=_duration,
    status=st.sampled_from(CallStatus),
    request_digest=text,
    response_digest=_maybe_text,
    error=st.none() | errors,
)
metrics = st.builds(Metrics, _duration, _duration, st.integers(0, 2**50), st.integers(0, 2**50), st.integers(0, 99))
policies = st.sampled_from([ApprovalPolicy(), ApprovalPolicy("manual")]) | st.builds(
    ApprovalPolicy, st.just("auto"), st.text(min_size=1, max_size=8, alphabet="abc<> 1")
)
capabilities = st.builds(
    Capability,
    name=tool_names,
    namespace=st.none() | tool_names,
    description=text,
    input_schema=json_objects,
    output_schema=json_objects,
    side_effect=st.sampled_from(SideEffect),
    limits=capability_limits,
    approval_policy=policies,
    idempotent=st.booleans(),
    defer_loading=st.booleans(),
)
requests = st.builds(
    RunRequest,
    code=text,
    session_id=session_ids,
    language=st.sampled_from(Language),
    inputs=json_objects,
    timeout_ms=st.none() | _bound,
    limits=st.none() | asked_limits,
    return_snapshot=st.booleans(),
    validate_only=st.booleans(),
)
approvals = st.builds(
    Approval,
    id=text,
    session_id=text,
    cell_id=text,
    call_id=text,
    capability=text,
    arguments=json_objects | st.lists(json_values, max_size=3),
    side_effect=st.sampled_from(SideEffect),
    reason=text,
    request_digest=text,
    created_at=moments,
    expires_at=st.none() | moments,
    state=st.sampled_from(ApprovalState),
    decision=st.none() | st.sampled_from(Decision),
    decided_at=st.none() | moments,
    message=st.none() | text,
    rule=st.none() | text,
)
results = st.builds(
    RunResult,
    status=st.sampled_from(RunStatus),
    cell_id=text,
    result=json_values,
    stdout=text,
    stderr=text,
    content=st.lists(json_objects, max_size=2).map(tuple),
    diagnostics=st.lists(diagnostics, max_size=2).map(tuple),
    external_calls=st.lists(records, max_size=2).map(tuple),
    snapshot_id=_maybe_text,
    metrics=metrics,
    error=st.none() | errors,
    approvals=st.lists(approvals, max_size=2).map(tuple),
)
metas = st.builds(
    SessionMeta,
    id=session_ids,
    created_at=moments,
    last_used_at=moments,
    language=st.sampled_from(Language),
    limits=session_limits,
    snapshot_version=st.integers(1, 9),
    title=_maybe_text,
    labels=st.dictionaries(text, text, max_size=2),
)

core_values = st.one_of(
    session_limits,
    capability_limits,
    spans,
    diagnostics,
    errors,
    records,
    metrics,
    capabilities,
    requests,
    results,
    metas,
)


def nested(depth: int, wrap: Callable[[Any], Any] = lambda inner: [inner]) -> Any:
    """`depth` containers, one in another."""
    value: Any = 0
    for _ in range(depth):
        value = wrap(value)
    return value
