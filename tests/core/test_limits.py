"""Limits: what is a limit, and that a request only narrows."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given

from cloister.core.errors import InvalidLimits
from cloister.core.limits import CapabilityLimits, SessionLimits
from tests.core.json_values import session_limits

FIELDS = [field.name for field in fields(SessionLimits)]


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("bad", [-1, 2**40 + 1, True, 1.5, "64", None, float("nan")])
def test_session_limit_that_is_no_positive_whole_number_is_refused(name: str, bad: Any) -> None:
    with pytest.raises(InvalidLimits, match=name):
        SessionLimits(**{name: bad})


@pytest.mark.parametrize("name", [n for n in FIELDS if n != "max_external_calls"])
def test_session_limit_of_zero_is_refused(name: str) -> None:
    with pytest.raises(InvalidLimits, match=name):
        SessionLimits(**{name: 0})


def test_session_may_be_allowed_no_calls_at_all() -> None:
    assert SessionLimits(max_external_calls=0).max_external_calls == 0


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, "1"])
def test_capability_limit_that_is_no_positive_whole_number_is_refused(bad: Any) -> None:
    for field in fields(CapabilityLimits):
        with pytest.raises(InvalidLimits, match=field.name):
            CapabilityLimits(**{field.name: bad})


def test_rate_may_be_left_out_but_no_other_limit_of_a_capability() -> None:
    assert CapabilityLimits(rate_per_min=None).rate_per_min is None
    with pytest.raises(InvalidLimits):
        CapabilityLimits(timeout_ms=None)  # pyright: ignore[reportArgumentType]


@given(session_limits)
def test_no_request_leaves_the_session_s_limits(own: SessionLimits) -> None:
    assert own.narrowed_by(None) == own


@given(session_limits)
def test_asking_for_what_a_session_has_changes_nothing(own: SessionLimits) -> None:
    assert own.narrowed_by(own) == own


@given(session_limits, session_limits)
def test_narrowed_limits_are_never_wider_than_the_session_s(own: SessionLimits, asked: SessionLimits) -> None:
    try:
        made = own.narrowed_by(asked)
    except InvalidLimits:
        return
    assert all(getattr(made, name) <= getattr(own, name) for name in FIELDS)


@given(session_limits)
def test_narrower_request_is_granted_as_asked(own: SessionLimits) -> None:
    asked = SessionLimits(**{name: max(getattr(own, name) // 2, 1) for name in FIELDS if name != "max_external_calls"})
    asked = replace(asked, max_external_calls=own.max_external_calls // 2)
    assert own.narrowed_by(asked) == asked


@pytest.mark.parametrize("name", FIELDS)
def test_wider_request_is_refused_and_names_the_limit(name: str) -> None:
    with pytest.raises(InvalidLimits, match=name) as refusal:
        SessionLimits().narrowed_by(SessionLimits(**{name: getattr(SessionLimits(), name) + 1}))
    assert refusal.value.code == "INVALID_LIMITS"


def test_default_above_the_session_s_own_limit_was_not_asked_for() -> None:
    own = SessionLimits(memory_mb=32, wall_ms=1000)
    assert own.narrowed_by(SessionLimits(cpu_ms=100)) == SessionLimits(memory_mb=32, wall_ms=1000, cpu_ms=100)


@given(session_limits)
def test_mapping_asks_only_for_the_limits_it_names(own: SessionLimits) -> None:
    assert own.narrowed_by({"wall_ms": 1}) == replace(own, wall_ms=1)


@pytest.mark.parametrize("name", FIELDS)
def test_mapping_that_asks_for_more_is_refused_and_names_the_limit(name: str) -> None:
    own = SessionLimits(memory_mb=1, cpu_ms=1, wall_ms=1, max_stdout_bytes=1, max_external_calls=1, max_stack_depth=1)
    with pytest.raises(InvalidLimits, match=name):
        own.narrowed_by({name: getattr(SessionLimits(), name)})


@pytest.mark.parametrize(
    "request_", [{"memory": 1}, {"wall_ms": 0}, {"wall_ms": True}, {"wall_ms": "5"}, {"wall_ms": None}]
)
def test_mapping_that_names_no_limit_or_gives_no_number_is_refused(request_: Any) -> None:
    with pytest.raises(InvalidLimits, match=r"memory|wall_ms"):
        SessionLimits().narrowed_by(request_)


def test_empty_mapping_asks_for_nothing() -> None:
    assert SessionLimits(wall_ms=7).narrowed_by({}) == SessionLimits(wall_ms=7)


@given(session_limits, session_limits)
def test_intersection_is_the_narrower_of_the_two_field_by_field(one: SessionLimits, other: SessionLimits) -> None:
    both = one.intersection(other)
    assert both == other.intersection(one)
    assert all(getattr(both, name) == min(getattr(one, name), getattr(other, name)) for name in FIELDS)
