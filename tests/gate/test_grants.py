"""Grants: what `allow_always` covers, and everything it does not."""

from typing import Any

import pytest

from cloister.core.errors import InvalidInput
from cloister.gate.approvals import ApprovalDesk
from cloister.gate.grants import Grant, Grants
from cloister.tools.rule import Rule
from tests.gate.asking import HandClock, a_desk, ask, facts


def granted(
    desk: ApprovalDesk,
    *,
    session_id: str = "shop",
    capability: str = "refund",
    terms: str = "terms",
    arguments_digest: str = "arguments",
    arguments: Any = None,
) -> bool:
    found = desk.grant_for(
        session_id,
        capability=capability,
        terms=terms,
        arguments_digest=arguments_digest,
        facts=facts({"amount": 250} if arguments is None else arguments, name=capability, session_id=session_id),
    )
    return found is not None


def allowed_always(rule: str | None = None, *, desk: ApprovalDesk | None = None) -> ApprovalDesk:
    desk = desk or a_desk()
    desk.decide(ask(desk).id, "allow_always", rule=rule)
    return desk


def test_grant_is_about_what_was_asked_and_names_the_approval() -> None:
    desk = a_desk()
    approval = ask(desk, session_id="bakery", capability="bake", terms="v2", arguments_digest="bread")
    desk.decide(approval.id, "allow_always")
    found = desk.grant_for(
        "bakery", capability="bake", terms="v2", arguments_digest="bread", facts=facts({"loaves": 2}, name="bake")
    )
    assert found == Grant(approval.id, "bakery", "bake", "v2", "bread")


def test_without_a_rule_the_same_arguments_are_allowed_from_now_on() -> None:
    desk = allowed_always()
    assert granted(desk)
    assert granted(desk)


@pytest.mark.parametrize(
    "other",
    [
        {"session_id": "bakery"},
        {"capability": "refund_all"},
        {"terms": "another tool, or another policy"},
        {"arguments_digest": "others"},
    ],
)
def test_without_a_rule_nothing_else_is_allowed(other: dict[str, str]) -> None:
    assert not granted(allowed_always(), **other)


@pytest.mark.parametrize("word", ["allow", "deny"])
def test_other_decisions_grant_nothing(word: str) -> None:
    desk = a_desk()
    desk.decide(ask(desk).id, word)
    assert not granted(desk)


def test_with_a_rule_every_call_is_allowed_for_which_it_is_true() -> None:
    desk = allowed_always("args.amount < 300")
    assert granted(desk, arguments={"amount": 299}, arguments_digest="others")
    assert not granted(desk, arguments={"amount": 300}, arguments_digest="others")


def test_grant_with_a_rule_is_not_about_any_arguments() -> None:
    desk = allowed_always("args.amount < 300")
    found = desk.grant_for(
        "shop", capability="refund", terms="terms", arguments_digest="others", facts=facts({"amount": 1})
    )
    assert found is not None
    assert found.rule == Rule.compile("args.amount < 300")
    assert found.arguments_digest is None


def test_with_a_rule_the_same_arguments_are_allowed_only_if_it_is_true_for_them() -> None:
    desk = a_desk()
    approval = ask(desk)
    desk.decide(approval.id, "allow_always", rule="args.amount < 100")
    # The call that was asked about was allowed by the person, once.
    assert desk.use(approval.id, "request")
    assert not granted(desk, arguments={"amount": 250})


@pytest.mark.parametrize("rule", ["args.missing < 300", "args.amount"])
def test_rule_that_fails_or_does_not_say_true_allows_nothing(rule: str) -> None:
    assert not granted(allowed_always(rule), arguments={"amount": 250})


@pytest.mark.parametrize(
    "other", [{"session_id": "bakery"}, {"capability": "refund_all"}, {"terms": "another tool, or another policy"}]
)
def test_rule_serves_no_other_session_capability_or_terms(other: dict[str, str]) -> None:
    desk = allowed_always("true")
    assert granted(desk, arguments_digest="others")
    assert not granted(desk, arguments_digest="others", **other)


def test_rules_add_up() -> None:
    desk = allowed_always("args.amount < 10")
    allowed_always("args.amount > 1000", desk=desk)
    amounts = [5, 250, 2000]
    assert [granted(desk, arguments={"amount": n}, arguments_digest="x") for n in amounts] == [True, False, True]


@pytest.mark.parametrize("word", ["allow", "deny"])
def test_rule_goes_with_allow_always_only(word: str) -> None:
    desk = a_desk()
    approval = ask(desk)
    with pytest.raises(InvalidInput, match=f"'allow_always', not with '{word}'"):
        desk.decide(approval.id, word, rule="true")
    assert desk.get(approval.id) == approval


@pytest.mark.parametrize("rule", ["", "args.(", "nobody_knows > 5", 5, b"true", ["true"]])
def test_rule_that_does_not_compile_is_refused_and_nothing_is_granted(rule: Any) -> None:
    desk = a_desk()
    approval = ask(desk)
    with pytest.raises(InvalidInput, match="rule of the decision"):
        desk.decide(approval.id, "allow_always", rule=rule)
    assert desk.get(approval.id) == approval
    assert not granted(desk)


def test_decision_that_comes_second_grants_nothing() -> None:
    desk = a_desk()
    approval = ask(desk)
    desk.decide(approval.id, "deny")
    (refused,) = desk.decide_many([{"id": approval.id, "decision": "allow_always", "rule": "true"}])
    assert not refused.ok
    assert not granted(desk)


def test_decision_that_comes_after_the_expiry_grants_nothing() -> None:
    clock = HandClock()
    desk = a_desk(clock, ttl_ms=10)
    approval = ask(desk)
    clock.advance(10)
    assert not desk.decide_many([{"id": approval.id, "decision": "allow_always"}])[0].ok
    assert not granted(desk)


def test_grant_outlives_the_approval_it_comes_from() -> None:
    clock = HandClock()
    desk = allowed_always(desk=a_desk(clock, ttl_ms=10))
    clock.advance(10)
    assert desk.list()[0].state == "expired"
    assert granted(desk)


def test_forgetting_a_session_takes_back_its_own_grants_only() -> None:
    desk = allowed_always()
    desk.decide(ask(desk, session_id="bakery").id, "allow_always")
    desk.forget_session("shop")
    assert not granted(desk)
    assert granted(desk, session_id="bakery")


# -- how many ----------------------------------------------------------------------------------------------------------


def find(grants: Grants, digest: str, session_id: str = "shop") -> Grant | None:
    return grants.find(
        session_id, capability="refund", terms="terms", arguments_digest=digest, facts=facts({"amount": 1})
    )


def test_oldest_grant_of_a_session_goes_when_there_are_too_many() -> None:
    grants = Grants(most=2)
    grants.add(Grant("apr_0", "bakery", "refund", "terms", "0"))
    for digest in "123":
        grants.add(Grant(f"apr_{digest}", "shop", "refund", "terms", digest))
    assert [find(grants, digest) is not None for digest in "123"] == [False, True, True]
    assert find(grants, "0", "bakery") is not None


def test_grant_that_is_given_again_takes_no_room_and_is_young_again() -> None:
    grants = Grants(most=2)
    for digest in "1213":
        grants.add(Grant("apr_0", "shop", "refund", "terms", digest))
    assert [find(grants, digest) is not None for digest in "123"] == [True, False, True]


def test_rules_count_among_the_grants() -> None:
    grants = Grants(most=2)
    for source in ("args.amount == 1", "args.amount == 2", "args.amount == 3"):
        grants.add(Grant("apr_0", "shop", "refund", "terms", rule=Rule.compile(source)))
    assert find(grants, "x") is None


def test_a_thousand_grants_are_kept() -> None:
    grants = Grants()
    for n in range(1001):
        grants.add(Grant("apr_0", "shop", "refund", "terms", str(n)))
    assert [find(grants, str(n)) is not None for n in (0, 1, 1000)] == [False, True, True]
