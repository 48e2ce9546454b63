"""The approval desk: one decision, one use, and nothing after the end."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from cloister.core.approval import Approval, ApprovalState, Decision
from cloister.core.errors import ApprovalClosed, ApprovalNotFound, InvalidInput
from cloister.core.wire import from_json, to_json
from cloister.gate.approvals import ApprovalDesk
from cloister.ports.clock import moment
from tests.gate.asking import START_MS, HandClock, Heard, a_desk, ask, settle

pytestmark = pytest.mark.anyio

# -- asking ------------------------------------------------------------------------------------------------------------


def test_question_is_pending_and_says_what_it_is_about() -> None:
    approval = ask(a_desk())
    assert approval.id.startswith("apr_")
    assert len(approval.id) == len("apr_") + 26
    assert (approval.state, approval.capability, approval.arguments) == ("pending", "refund", {"amount": 250})
    assert (approval.session_id, approval.cell_id, approval.call_id) == ("shop", "cel_1", "cal_1")
    assert approval.created_at == moment(START_MS)
    assert approval.expires_at is None


def test_question_with_a_ttl_says_when_it_expires() -> None:
    approval = ask(a_desk(ttl_ms=1500))
    assert approval.expires_at == approval.created_at + timedelta(milliseconds=1500)


@pytest.mark.parametrize("ttl_ms", [0, -1, 1.5, "10", True, 2**41])
def test_ttl_that_is_none_is_refused(ttl_ms: Any) -> None:
    with pytest.raises(InvalidInput, match="ttl_ms"):
        a_desk(ttl_ms=ttl_ms)


def test_question_is_told_with_the_approval_as_json() -> None:
    heard = Heard()
    approval = ask(a_desk(emit=heard))
    assert heard.events == [("approval.required", "shop", to_json(approval))]
    assert from_json(Approval, json.loads(json.dumps(heard.events[0][2]))) == approval


def test_question_keeps_the_arguments_as_they_were_asked_about() -> None:
    desk = a_desk()
    arguments = {"items": [1, 2]}
    approval = ask(desk, arguments=arguments)
    arguments["items"].append(3)
    assert desk.get(approval.id).arguments == {"items": [1, 2]}


def test_who_is_asked_cannot_change_the_arguments_of_the_call() -> None:
    arguments = {"items": [1, 2]}
    approval = ask(a_desk(), arguments=arguments)
    approval.arguments["items"].append(3)
    assert arguments == {"items": [1, 2]}


def test_listener_may_answer_at_once_and_the_approver_is_not_asked() -> None:
    def answer(kind: str, session_id: str, data: Mapping[str, Any]) -> None:
        if kind == "approval.required":
            desk.decide(data["id"], "deny")

    def approver(approval: Approval) -> str:
        raise AssertionError("asked about what is decided")

    # There is no loop here: a task for the approver could not be made.
    desk = a_desk(emit=answer, approver=approver)
    assert ask(desk).state is ApprovalState.DENIED


# -- deciding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "state"),
    [("allow", "allowed"), ("allow_always", "allowed"), ("deny", "denied"), (Decision.DENY, "denied")],
)
def test_decision_is_on_record(word: str, state: str) -> None:
    clock, heard = HandClock(), Heard()
    desk = a_desk(clock, emit=heard)
    approval = ask(desk)
    clock.advance(70)
    decided = desk.decide(approval.id, word, message="because")
    assert (decided.state, decided.decision, decided.message) == (state, word, "because")
    assert decided.decided_at == moment(START_MS + 70)
    assert desk.get(approval.id) == decided
    assert heard.events[1:] == [("approval.decided", "shop", to_json(decided))]


@pytest.mark.parametrize("word", ["yes", "", "ALLOW", None, True, 1, ["allow"], {"decision": "allow"}])
def test_unknown_decision_is_refused_with_the_choices_and_changes_nothing(word: object) -> None:
    heard = Heard()
    desk = a_desk(emit=heard)
    approval = ask(desk)
    with pytest.raises(InvalidInput, match="'allow', 'allow_always', 'deny'"):
        desk.decide(approval.id, word)
    assert desk.get(approval.id) == approval
    assert heard.kinds == ["approval.required"]


@pytest.mark.parametrize("approval_id", ["apr_0", "", None, 5, ["apr_0"]])
def test_unknown_approval_is_not_found(approval_id: Any) -> None:
    desk = a_desk()
    ask(desk)
    with pytest.raises(ApprovalNotFound, match="there is no approval"):
        desk.get(approval_id)
    with pytest.raises(ApprovalNotFound, match="there is no approval"):
        desk.decide(approval_id, "allow")


@pytest.mark.parametrize("second", ["allow", "deny"])
@pytest.mark.parametrize("first", ["allow", "allow_always", "deny"])
def test_second_decision_is_refused_and_told_of_the_first(first: str, second: str) -> None:
    desk = a_desk()
    approval = ask(desk)
    decided = desk.decide(approval.id, first, message="first")
    with pytest.raises(ApprovalClosed, match=f"decided before: '{first}' at 2025-11-16T12:00:00.000Z"):
        desk.decide(approval.id, second, message="second")
    assert desk.get(approval.id) == decided


def test_decision_on_what_was_used_is_refused() -> None:
    desk = a_desk()
    approval = ask(desk)
    desk.decide(approval.id, "allow")
    assert desk.use(approval.id, "request")
    with pytest.raises(ApprovalClosed, match="decided before: 'allow'"):
        desk.decide(approval.id, "deny")


def test_decision_on_what_was_cancelled_is_refused_and_nothing_may_be_done() -> None:
    desk = a_desk()
    approval = ask(desk)
    desk.cancel([approval.id])
    with pytest.raises(ApprovalClosed, match="was cancelled"):
        desk.decide(approval.id, "allow")
    assert not desk.use(approval.id, "request")


def test_decision_on_what_expired_is_refused_and_nothing_may_be_done() -> None:
    clock = HandClock()
    desk = a_desk(clock, ttl_ms=1000)
    approval = ask(desk)
    clock.advance(1000)
    with pytest.raises(ApprovalClosed, match=r"expired at 2025-11-16T12:00:01.000Z"):
        desk.decide(approval.id, "allow")
    assert desk.get(approval.id).state is ApprovalState.EXPIRED
    assert not desk.use(approval.id, "request")


@pytest.mark.parametrize("message", [5, b"no", ["no"], "x" * 2001, "\ud800"])
def test_message_that_is_no_short_text_is_refused_and_changes_nothing(message: Any) -> None:
    desk = a_desk()
    approval = ask(desk)
    with pytest.raises(InvalidInput, match="message"):
        desk.decide(approval.id, "deny", message=message)
    assert desk.get(approval.id) == approval


def test_message_of_two_thousand_characters_is_taken() -> None:
    desk = a_desk()
    approval = ask(desk)
    assert desk.decide(approval.id, "deny", message="é" * 2000).message == "é" * 2000


def test_listener_that_fails_does_not_undo_a_decision(caplog: pytest.LogCaptureFixture) -> None:
    def broken(kind: str, session_id: str, data: Mapping[str, Any]) -> None:
        raise RuntimeError("no room left")

    desk = a_desk(emit=broken)
    approval = ask(desk)
    assert desk.decide(approval.id, "allow").state is ApprovalState.ALLOWED
    assert [record.name for record in caplog.records if record.levelno == logging.ERROR] == ["cloister.gate"] * 2


# -- races -------------------------------------------------------------------------------------------------------------


async def test_of_a_hundred_decisions_at_once_one_wins() -> None:
    heard = Heard()
    desk = a_desk(emit=heard)
    approval = ask(desk)
    gun = asyncio.Event()

    async def decide(n: int) -> Decision | str | None:
        await gun.wait()
        try:
            return desk.decide(approval.id, ("allow", "deny", "allow_always")[n % 3], message=str(n)).message
        except ApprovalClosed as refusal:
            return refusal.code

    tasks = [asyncio.create_task(decide(n)) for n in range(100)]
    await settle()
    gun.set()
    outcomes = await asyncio.gather(*tasks)
    assert outcomes.count("APPROVAL_CLOSED") == 99
    winner = next(outcome for outcome in outcomes if outcome != "APPROVAL_CLOSED")
    assert desk.get(approval.id).message == winner
    assert heard.kinds == ["approval.required", "approval.decided"]


async def test_of_a_hundred_uses_at_once_one_may() -> None:
    desk = a_desk()
    approval = ask(desk)
    desk.decide(approval.id, "allow")
    gun = asyncio.Event()

    async def use() -> bool:
        await gun.wait()
        return desk.use(approval.id, "request")

    tasks = [asyncio.create_task(use()) for _ in range(100)]
    await settle()
    gun.set()
    assert Counter(await asyncio.gather(*tasks)) == {True: 1, False: 99}


# -- using -------------------------------------------------------------------------------------------------------------


def test_what_was_allowed_may_be_done_once() -> None:
    desk = a_desk()
    approval = ask(desk)
    desk.decide(approval.id, "allow")
    assert [desk.use(approval.id, "request") for _ in range(3)] == [True, False, False]
    assert desk.get(approval.id).state is ApprovalState.ALLOWED


def test_what_is_pending_may_not_be_done_and_stays_pending() -> None:
    desk = a_desk()
    approval = ask(desk)
    assert not desk.use(approval.id, "request")
    assert not desk.use(approval.id, "another")
    assert desk.get(approval.id) == approval


def test_what_was_denied_may_not_be_done() -> None:
    desk = a_desk()
    approval = ask(desk)
    desk.decide(approval.id, "deny")
    assert not desk.use(approval.id, "request")
    assert desk.get(approval.id).state is ApprovalState.DENIED


def test_what_nobody_asked_about_may_not_be_done() -> None:
    assert not a_desk().use("apr_0", "request")


def test_another_request_than_the_one_allowed_may_not_be_done_and_ends_the_approval() -> None:
    desk = a_desk()
    approval = ask(desk)
    desk.decide(approval.id, "allow")
    assert not desk.use(approval.id, "another")
    assert desk.get(approval.id).state is ApprovalState.CANCELLED
    assert not desk.use(approval.id, "request")


def test_another_request_after_the_use_changes_nothing() -> None:
    desk = a_desk()
    approval = ask(desk)
    desk.decide(approval.id, "allow")
    assert desk.use(approval.id, "request")
    assert not desk.use(approval.id, "another")
    assert desk.get(approval.id).state is ApprovalState.ALLOWED


def test_what_was_allowed_but_not_used_in_time_may_not_be_done() -> None:
    clock = HandClock()
    desk = a_desk(clock, ttl_ms=1000)
    late, early = ask(desk), ask(desk)
    desk.decide(late.id, "allow")
    desk.decide(early.id, "allow")
    clock.advance(999)
    assert desk.use(early.id, "request")
    clock.advance(1)
    assert not desk.use(late.id, "request")
    assert desk.get(late.id).state is ApprovalState.EXPIRED
    # What was done in time stays as it was.
    assert desk.get(early.id).state is ApprovalState.ALLOWED


# -- cancelling --------------------------------------------------------------------------------------------------------


def test_cancelling_ends_what_is_pending_and_what_was_allowed_but_not_used() -> None:
    heard = Heard()
    desk = a_desk(emit=heard)
    pending, allowed, used, denied = (ask(desk) for _ in range(4))
    for approval in (allowed, used):
        desk.decide(approval.id, "allow")
    desk.use(used.id, "request")
    desk.decide(denied.id, "deny")
    desk.cancel([pending.id, "apr_0", allowed.id, used.id, denied.id, pending.id])
    states = [desk.get(approval.id).state for approval in (pending, allowed, used, denied)]
    assert states == ["cancelled", "cancelled", "allowed", "denied"]
    assert not desk.use(allowed.id, "request")
    assert heard.kinds[-2:] == ["approval.cancelled"] * 2
    assert heard.kinds.count("approval.cancelled") == 2


def test_cancelling_comes_too_late_for_what_expired() -> None:
    clock = HandClock()
    desk = a_desk(clock, ttl_ms=10)
    approval = ask(desk)
    clock.advance(10)
    desk.cancel([approval.id])
    assert desk.get(approval.id).state is ApprovalState.EXPIRED


def test_forgetting_a_session_cancels_its_own_questions_only() -> None:
    desk = a_desk()
    own, other = ask(desk, session_id="a"), ask(desk, session_id="b")
    desk.forget_session("a")
    assert [desk.get(approval.id).state for approval in (own, other)] == ["cancelled", "pending"]


# -- expiry ------------------------------------------------------------------------------------------------------------


def test_expiry_is_seen_by_whoever_looks_and_told_once() -> None:
    clock, heard = HandClock(), Heard()
    desk = a_desk(clock, ttl_ms=1000, emit=heard)
    first = ask(desk)
    clock.advance(500)
    second = ask(desk)
    clock.advance(499)
    assert desk.list(state="pending") == [first, second]
    clock.advance(1)
    assert [approval.id for approval in desk.list(state="expired")] == [first.id]
    assert desk.get(first.id).state is ApprovalState.EXPIRED
    assert desk.get(second.id).state is ApprovalState.PENDING
    assert heard.kinds == ["approval.required", "approval.required", "approval.expired"]


def test_what_expired_stays_so_when_the_clock_is_set_back() -> None:
    clock = HandClock()
    desk = a_desk(clock, ttl_ms=1000)
    approval = ask(desk)
    clock.advance(1000)
    assert desk.get(approval.id).state is ApprovalState.EXPIRED
    clock.advance(-5000)
    assert desk.get(approval.id).state is ApprovalState.EXPIRED


def test_without_a_ttl_nothing_expires() -> None:
    clock = HandClock()
    desk = a_desk(clock)
    approval = ask(desk)
    clock.advance(10**12)
    assert desk.get(approval.id).state is ApprovalState.PENDING


# -- listing -----------------------------------------------------------------------------------------------------------


def test_list_has_the_newest_last_whatever_became_of_them() -> None:
    desk = a_desk()
    asked = [ask(desk, session_id="ab"[n % 2]) for n in range(6)]
    desk.decide(asked[4].id, "deny")
    desk.decide(asked[1].id, "allow")
    desk.cancel([asked[0].id])
    assert [approval.id for approval in desk.list()] == [approval.id for approval in asked]
    assert [approval.id for approval in desk.list(session_id="b")] == [asked[n].id for n in (1, 3, 5)]
    assert [approval.id for approval in desk.list(state="pending")] == [asked[n].id for n in (2, 3, 5)]
    assert [approval.id for approval in desk.list(state=ApprovalState.DENIED, session_id="a")] == [asked[4].id]
    assert desk.list(session_id="nobody") == []


@pytest.mark.parametrize("state", ["open", "", 5, ["pending"], "PENDING"])
def test_unknown_state_is_refused_with_the_choices(state: object) -> None:
    with pytest.raises(InvalidInput, match="'pending', 'allowed', 'denied', 'expired', 'cancelled'"):
        a_desk().list(state=state)


def test_what_is_pending_or_not_used_yet_is_never_dropped() -> None:
    desk = a_desk(most_kept=3)
    pending, allowed = ask(desk), ask(desk)
    desk.decide(allowed.id, "allow")
    closed = [ask(desk) for _ in range(5)]
    for approval in closed:
        desk.decide(approval.id, "deny")
    kept = [approval.id for approval in desk.list()]
    assert kept == [approval.id for approval in (pending, allowed, *closed[2:])]
    with pytest.raises(ApprovalNotFound):
        desk.get(closed[0].id)
    assert desk.use(allowed.id, "request")


# -- everything together -----------------------------------------------------------------------------------------------

_ENDS = {ApprovalState.DENIED, ApprovalState.EXPIRED, ApprovalState.CANCELLED}


class DeskMachine(RuleBasedStateMachine):
    """Whatever is done to a desk, in whatever order."""

    approvals = Bundle("approvals")

    def __init__(self) -> None:
        super().__init__()
        self.clock = HandClock()
        self.states: dict[str, list[str]] = {}
        self.allowed: set[str] = set()
        self.uses: Counter[str] = Counter()
        self.desk: ApprovalDesk = a_desk(self.clock, ttl_ms=100, emit=self.hear)

    def hear(self, kind: str, session_id: str, data: Mapping[str, Any]) -> None:
        self.states.setdefault(data["id"], []).append(data["state"])

    def due(self, approval: Approval) -> bool:
        assert approval.expires_at is not None
        return moment(self.clock.now_ms()) >= approval.expires_at

    @rule(target=approvals, session=st.sampled_from("ab"))
    def ask(self, session: str) -> Approval:
        return ask(self.desk, session_id=session, request_digest=f"request {len(self.states)}")

    @rule(approval=approvals, word=st.sampled_from(Decision))
    def decide(self, approval: Approval, word: Decision) -> None:
        before = self.states[approval.id][-1]
        if before == "pending" and not self.due(approval):
            self.desk.decide(approval.id, word)
            if word is not Decision.DENY:
                self.allowed.add(approval.id)
        else:
            with pytest.raises(ApprovalClosed):
                self.desk.decide(approval.id, word)

    @rule(approval=approvals, same=st.booleans())
    def use(self, approval: Approval, same: bool) -> None:
        may = (
            same
            and approval.id in self.allowed
            and not self.uses[approval.id]
            and self.states[approval.id][-1] == "allowed"
            and not self.due(approval)
        )
        used = self.desk.use(approval.id, approval.request_digest if same else "another")
        assert used == may
        self.uses[approval.id] += used

    @rule(approval=approvals)
    def cancel(self, approval: Approval) -> None:
        self.desk.cancel([approval.id])

    @rule(session=st.sampled_from("ab"))
    def forget(self, session: str) -> None:
        self.desk.forget_session(session)

    @rule(ms=st.integers(1, 60))
    def wait(self, ms: int) -> None:
        self.clock.advance(ms)

    @invariant()
    def each_leaves_a_state_once(self) -> None:
        for states in self.states.values():
            assert states[0] == "pending"
            assert len(states) == len(set(states))
            assert len(states) <= 2 or (len(states) == 3 and states[1] == "allowed" and states[2] in _ENDS)

    @invariant()
    def what_is_told_is_what_is_listed(self) -> None:
        listed = {approval.id: approval.state for approval in self.desk.list()}
        assert listed == {approval_id: states[-1] for approval_id, states in self.states.items()}

    @invariant()
    def none_is_used_twice_and_only_what_was_allowed(self) -> None:
        for approval_id, uses in self.uses.items():
            assert uses <= 1
            assert not uses or approval_id in self.allowed


test_desk_keeps_its_promises_whatever_happens = DeskMachine.TestCase
