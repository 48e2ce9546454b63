"""Many decisions in one request: each on its own, and a request that is none as a whole."""

from typing import Any

import pytest

from cloister.core.approval import ApprovalState
from cloister.core.errors import InvalidInput
from tests.gate.asking import a_desk, ask


def test_each_decision_of_a_batch_is_made_and_reported_in_order() -> None:
    desk = a_desk()
    first, second, third = (ask(desk) for _ in range(3))
    decided = desk.decide_many(
        [
            {"id": third.id, "decision": "allow"},
            {"id": first.id, "decision": "deny", "message": "not today"},
            {"id": second.id, "decision": "allow_always", "message": None, "rule": None},
        ]
    )
    assert all(entry.ok for entry in decided)
    assert [entry.id for entry in decided] == [third.id, first.id, second.id]
    assert [entry.approval and entry.approval.state for entry in decided] == ["allowed", "denied", "allowed"]
    assert desk.get(first.id).message == "not today"


def test_stale_unknown_and_doubled_ids_say_so_and_the_others_count() -> None:
    desk = a_desk()
    stale, doubled, good = (ask(desk) for _ in range(3))
    desk.cancel([stale.id])
    decided = desk.decide_many(
        [
            {"id": stale.id, "decision": "allow"},
            {"id": "apr_0", "decision": "allow"},
            {"id": doubled.id, "decision": "deny"},
            {"id": doubled.id, "decision": "allow"},
            {"id": good.id, "decision": "allow"},
        ]
    )
    assert [entry.ok for entry in decided] == [False, False, True, False, True]
    errors = [entry.error["code"] for entry in decided if entry.error]
    assert errors == ["APPROVAL_CLOSED", "APPROVAL_NOT_FOUND", "APPROVAL_CLOSED"]
    assert decided[0].error is not None
    assert "was cancelled" in decided[0].error["message"]
    assert decided[0].error["hint"] == "nothing was changed by this decision"
    assert decided[0].approval is None
    assert [desk.get(approval.id).state for approval in (stale, doubled, good)] == ["cancelled", "denied", "allowed"]


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"decision": "allow", "colour": "red"}, "no field 'colour'"),
        ({"decision": "allow", 5: "red"}, "no field 5"),
        ({}, "needs the field 'decision'"),
        ({"decision": "perhaps"}, "'allow', 'allow_always', 'deny'"),
        ({"decision": "deny", "message": 5}, "message"),
        ({"decision": "deny", "rule": "true"}, "'allow_always'"),
        ({"decision": "allow_always", "rule": "args.("}, "rule"),
        ({"decision": "allow_always", "rule": 5}, "rule"),
    ],
)
def test_bad_item_of_a_batch_is_refused_alone(item: dict[Any, Any], said: str) -> None:
    desk = a_desk()
    bad, good = ask(desk), ask(desk)
    refused, decided = desk.decide_many([{"id": bad.id, **item}, {"id": good.id, "decision": "allow"}])
    assert refused.id == bad.id
    assert refused.error is not None
    assert refused.error["code"] == "INVALID_INPUT"
    assert said in refused.error["message"]
    assert desk.get(bad.id).state is ApprovalState.PENDING
    assert decided.ok


@pytest.mark.parametrize(
    "item", [{"decision": "allow"}, {"id": None, "decision": "allow"}, {"id": 5, "decision": "allow"}]
)
def test_item_without_an_id_is_refused_alone(item: dict[str, Any]) -> None:
    desk = a_desk()
    good = ask(desk)
    refused, decided = desk.decide_many([item, {"id": good.id, "decision": "allow"}])
    assert refused.error is not None
    assert (refused.id, refused.error["code"]) == ("", "INVALID_INPUT")
    assert decided.ok


@pytest.mark.parametrize("rest", [None, 5, "allow", b"allow", {}, {"id": "apr_0", "decision": "allow"}])
def test_what_is_no_list_is_refused_as_a_whole(rest: Any) -> None:
    with pytest.raises(InvalidInput, match="list"):
        a_desk().decide_many(rest)


@pytest.mark.parametrize("rest", [None, "allow", ["apr_0", "allow"], 5])
def test_list_with_something_else_in_it_is_refused_before_anything_is_decided(rest: Any) -> None:
    desk = a_desk()
    approval = ask(desk)
    with pytest.raises(InvalidInput, match="decision 2 is"):
        desk.decide_many([{"id": approval.id, "decision": "allow"}, rest])
    assert desk.get(approval.id) == approval


def test_empty_batch_decides_nothing() -> None:
    assert a_desk().decide_many([]) == []


def test_batch_may_come_from_anything_that_can_be_gone_through() -> None:
    desk = a_desk()
    asked = [ask(desk), ask(desk)]
    assert all(entry.ok for entry in desk.decide_many({"id": one.id, "decision": "deny"} for one in asked))
