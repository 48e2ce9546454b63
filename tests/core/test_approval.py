"""Approvals: their words, and their way to JSON and back."""

import json
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.approval import (
    Answer,
    Approval,
    ApprovalState,
    Decided,
    Decision,
    parse_decision,
    parse_state,
)
from cloister.core.capability import SideEffect
from cloister.core.errors import InvalidInput
from cloister.core.wire import from_json, to_json
from tests.core.json_values import approvals, text

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
PENDING = Approval(
    id="apr_1",
    session_id="shop",
    cell_id="cel_1",
    call_id="cal_1",
    capability="refund",
    arguments={"amount": 250, "note": None},
    side_effect=SideEffect.WRITE,
    reason="manual",
    request_digest="ab",
    created_at=NOW,
)
DECIDED = replace(
    PENDING,
    expires_at=NOW,
    state=ApprovalState.ALLOWED,
    decision=Decision.ALLOW_ALWAYS,
    decided_at=NOW,
    message="fine",
    rule="args.amount < 300",
)

refusals = st.none() | st.fixed_dictionaries({"code": text, "message": text}, optional={"hint": text})


@given(approvals | st.builds(Decided, id=text, approval=st.none() | approvals, error=refusals))
def test_approval_comes_back_from_json_as_it_was(value: Any) -> None:
    kind = cast("type[Any]", type(value))
    assert from_json(kind, json.loads(json.dumps(to_json(value)))) == value


def test_pending_approval_is_written_with_just_what_there_is() -> None:
    assert to_json(PENDING) == {
        "id": "apr_1",
        "session_id": "shop",
        "cell_id": "cel_1",
        "call_id": "cal_1",
        "capability": "refund",
        "arguments": {"amount": 250, "note": None},
        "side_effect": "write",
        "reason": "manual",
        "request_digest": "ab",
        "created_at": "2026-11-16T12:00:00.000Z",
        "state": "pending",
    }


def test_decided_approval_says_what_when_and_for_which_others() -> None:
    written = to_json(DECIDED)
    assert {name: written[name] for name in set(written) - set(to_json(PENDING))} == {
        "expires_at": "2026-11-16T12:00:00.000Z",
        "decision": "allow_always",
        "decided_at": "2026-11-16T12:00:00.000Z",
        "message": "fine",
        "rule": "args.amount < 300",
    }
    assert written["state"] == "allowed"


@pytest.mark.parametrize("change", [{"colour": "red"}, {"state": "open"}, {"decision": "yes"}, {"message": 5}])
def test_approval_with_something_wrong_in_it_is_not_read(change: dict[str, Any]) -> None:
    (name,) = change
    with pytest.raises(InvalidInput, match=name):
        from_json(Approval, {**to_json(DECIDED), **change})


def test_approval_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        PENDING.state = ApprovalState.ALLOWED  # type: ignore[misc]


@pytest.mark.parametrize("word", ["allow", "allow_always", "deny"])
def test_decision_is_read_from_its_word(word: str) -> None:
    assert parse_decision(word) is Decision(word)
    assert parse_decision(Decision(word)) is Decision(word)


@pytest.mark.parametrize("word", ["pending", "allowed", "denied", "expired", "cancelled"])
def test_state_is_read_from_its_word(word: str) -> None:
    assert parse_state(word) is ApprovalState(word)
    assert parse_state(ApprovalState(word)) is ApprovalState(word)


@pytest.mark.parametrize("word", ["", "Allow", " allow", "allowed", None, 0, True, ["allow"], {}, b"allow"])
def test_other_decision_is_refused_with_the_choices(word: object) -> None:
    with pytest.raises(InvalidInput, match=r"unknown decision .*: use one of 'allow', 'allow_always', 'deny'"):
        parse_decision(word)


@pytest.mark.parametrize("word", ["", "Pending", "open", "allow", None, 0, True, ["pending"], {}, b"pending"])
def test_other_state_is_refused_with_the_choices(word: object) -> None:
    choices = "use one of 'pending', 'allowed', 'denied', 'expired', 'cancelled'"
    with pytest.raises(InvalidInput, match=f"unknown state of an approval .*: {choices}"):
        parse_state(word)


@pytest.mark.parametrize("parse", [parse_decision, parse_state])
def test_long_word_is_not_repeated_in_full(parse: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse("x" * 10_000)
    assert len(refusal.value.message) < 300
    assert "xxx..." in refusal.value.message


def test_decided_is_ok_unless_there_is_an_error() -> None:
    assert Decided("apr_1", PENDING).ok
    assert not Decided("apr_1", error={"code": "APPROVAL_CLOSED", "message": "expired"}).ok


def test_answer_is_a_decision_and_may_say_more() -> None:
    assert Answer("allow") == Answer("allow", message=None, rule=None)
    assert Answer(Decision.DENY, "no").message == "no"
