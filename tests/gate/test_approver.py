"""The approver: the host's own function that answers inside its process, and may do everything wrong."""

import asyncio
import contextvars
import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from cloister.core.approval import Answer, Approval, ApprovalState, Decision
from cloister.core.errors import InvalidInput
from cloister.gate.approvals import ApprovalDesk
from cloister.gate.approver import Inquiries
from cloister.gate.threads import THREADS
from tests.gate.asking import HandClock, a_desk, ask, facts, settle

pytestmark = pytest.mark.anyio


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.ERROR]


async def asked(desk: ApprovalDesk) -> Approval:
    """Ask, and wait until the approver has nothing more to say."""
    approval = ask(desk)
    await asyncio.wait_for(desk.answered([approval.id]), 10)
    return desk.get(approval.id)


class Hand:
    """An async approver that answers when a test says so."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.cancelled = False

    async def __call__(self, approval: Approval) -> Any:
        self.started.set()
        try:
            return await self.answer
        except asyncio.CancelledError:
            self.cancelled = True
            raise


@pytest.mark.parametrize(
    ("reply", "state"),
    [
        ("allow", "allowed"),
        ("deny", "denied"),
        (Decision.ALLOW_ALWAYS, "allowed"),
        (Answer("deny", message="no"), "denied"),
        (Answer(Decision.ALLOW), "allowed"),
    ],
)
@pytest.mark.parametrize("kind", ["async", "sync", "sync around async", "partial", "object"])
async def test_answer_of_an_approver_decides(kind: str, reply: Any, state: str) -> None:
    seen: list[Approval] = []

    async def answer(approval: Approval) -> Any:
        seen.append(approval)
        return reply

    def plainly(approval: Approval) -> Any:
        seen.append(approval)
        return reply

    async def after(_: int, approval: Approval) -> Any:
        return await answer(approval)

    class Approver:
        async def __call__(self, approval: Approval) -> Any:
            return await answer(approval)

    approvers: dict[str, Callable[[Approval], Any]] = {
        "async": answer,
        "sync": plainly,
        "sync around async": lambda approval: answer(approval),
        "partial": functools.partial(after, 1),
        "object": Approver(),
    }
    decided = await asked(a_desk(approver=approvers[kind]))
    assert decided.state == state
    assert decided.message == (reply.message if isinstance(reply, Answer) else None)
    assert [approval.id for approval in seen] == [decided.id]


async def test_answer_may_bring_a_rule() -> None:
    desk = a_desk(approver=lambda approval: Answer("allow_always", rule="args.amount < 500"))
    decided = await asked(desk)
    assert (decided.decision, decided.rule) == ("allow_always", "args.amount < 500")
    found = desk.grant_for(
        "shop", capability="refund", terms="terms", arguments_digest="others", facts=facts({"amount": 499})
    )
    assert found is not None
    assert found.approval_id == decided.id


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_approver_that_cannot_say_leaves_the_question_to_others(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def unsure(approval: Approval) -> None:
        return None

    desk = a_desk(approver=unsure if kind == "async" else lambda approval: None)
    approval = await asked(desk)
    assert approval.state is ApprovalState.PENDING
    assert not desk.being_answered([approval.id])
    assert errors(caplog) == []
    assert desk.decide(approval.id, "allow").state is ApprovalState.ALLOWED


@pytest.mark.parametrize(
    "reply",
    [
        "yes",
        "",
        True,
        1,
        ["allow"],
        Answer("perhaps"),
        Answer("deny", message="x" * 2001),
        Answer("deny", rule="true"),
        Answer("allow_always", rule="args.("),
    ],
)
async def test_answer_that_is_none_is_logged_and_nothing_is_decided(
    reply: Any, caplog: pytest.LogCaptureFixture
) -> None:
    desk = a_desk(approver=lambda approval: reply)
    approval = await asked(desk)
    assert approval.state is ApprovalState.PENDING
    assert not desk.use(approval.id, "request")
    assert errors(caplog) == [f"the approver failed on {approval.id}, which stays as it is"]


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("error", [RuntimeError("lost"), StopIteration(), asyncio.CancelledError(), TimeoutError()])
async def test_approver_that_raises_is_logged_and_nothing_is_decided(
    kind: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(approval: Approval) -> str:
        raise error

    def plainly(approval: Approval) -> str:
        raise error

    desk = a_desk(approver=broken if kind == "async" else plainly)
    approval = await asked(desk)
    assert approval.state is ApprovalState.PENDING
    assert len(errors(caplog)) == 1
    assert {record.name for record in caplog.records if record.levelno >= logging.ERROR} == {"cloister.gate"}


async def test_plain_approver_that_wants_to_exit_ends_only_its_question(caplog: pytest.LogCaptureFixture) -> None:
    def leave(approval: Approval) -> str:
        raise SystemExit(3)

    assert (await asked(a_desk(approver=leave))).state is ApprovalState.PENDING
    assert len(errors(caplog)) == 1


async def test_plain_approvers_block_neither_the_loop_nor_each_other() -> None:
    go, inside = threading.Event(), asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()

    def slow(approval: Approval) -> str:
        loop.call_soon_threadsafe(inside.release)
        go.wait(60)
        return "allow"

    desk = a_desk(approver=slow)
    # More than the loop's own pool of threads has room for.
    approvals = [ask(desk) for _ in range(50)]
    for _ in approvals:
        await asyncio.wait_for(inside.acquire(), 10)
    # The pool is free for others meanwhile.
    await asyncio.wait_for(asyncio.to_thread(go.set), 10)
    for approval in approvals:
        await asyncio.wait_for(desk.decided([approval.id]), 10)
    assert {approval.state for approval in desk.list()} == {ApprovalState.ALLOWED}


async def test_async_approver_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(approval: Approval) -> str:
        return "allow"

    class Approver:
        async def __call__(self, approval: Approval) -> str:
            return "allow"

    def refuse(work: object) -> None:
        raise AssertionError("a thread was asked for")

    monkeypatch.setattr(THREADS, "run", refuse)
    for approver in (answer, Approver()):
        assert (await asked(a_desk(approver=approver))).state is ApprovalState.ALLOWED


async def test_plain_approver_sees_the_context_of_who_asked() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")
    seen: list[str] = []

    def look(approval: Approval) -> str:
        seen.append(name.get())
        return "deny"

    name.set("alice")
    await asked(a_desk(approver=look))
    assert seen == ["alice"]


async def test_question_is_being_answered_while_the_approver_is_at_work() -> None:
    hand = Hand()
    desk = a_desk(approver=hand)
    approval = ask(desk)
    other = a_desk()
    assert desk.being_answered([approval.id])
    assert desk.being_answered(["apr_0", approval.id])
    assert not desk.being_answered(["apr_0"])
    assert not other.being_answered([ask(other).id])
    await hand.started.wait()
    assert desk.being_answered([approval.id])
    hand.answer.set_result("deny")
    await desk.decided([approval.id])
    assert not desk.being_answered([approval.id])


async def test_who_waits_for_the_approver_learns_whether_it_decided() -> None:
    hand = Hand()
    desk = a_desk(approver=hand)
    approval = ask(desk)
    waiting = asyncio.create_task(desk.answered([approval.id]))
    await settle()
    assert not waiting.done()
    hand.answer.set_result(None)
    assert await asyncio.wait_for(waiting, 10) is False
    desk.decide(approval.id, "deny")
    assert await desk.answered([approval.id]) is True


@pytest.mark.parametrize("end", ["decide", "cancel", "forget", "expire"])
async def test_approver_is_cancelled_when_its_question_ends_another_way(end: str) -> None:
    clock, hand = HandClock(), Hand()
    desk = a_desk(clock, approver=hand, ttl_ms=1000)
    approval = ask(desk)
    await hand.started.wait()
    waiting = asyncio.create_task(desk.answered([approval.id]))
    await settle()
    match end:
        case "decide":
            desk.decide(approval.id, "deny")
        case "cancel":
            desk.cancel([approval.id])
        case "forget":
            desk.forget_session("shop")
        case _:
            clock.advance(1000)
    assert await asyncio.wait_for(waiting, 10)
    await settle()
    assert hand.cancelled
    assert not desk.being_answered([approval.id])


async def test_late_answer_of_a_thread_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    inside, go, left = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(approval: Approval) -> str:
        loop.call_soon_threadsafe(inside.set)
        go.wait(60)
        left.set()
        return "allow"

    desk = a_desk(approver=slow)
    approval = ask(desk)
    await inside.wait()
    desk.decide(approval.id, "deny")
    go.set()
    await asyncio.to_thread(left.wait, 60)
    await settle()
    assert desk.get(approval.id).state is ApprovalState.DENIED
    assert errors(caplog) == []


async def test_approver_may_decide_by_itself_and_goes_on() -> None:
    after = asyncio.Event()

    async def decide(approval: Approval) -> str:
        desk.decide(approval.id, "allow", message="by itself")
        await asyncio.sleep(0)
        after.set()
        return "deny"

    desk = a_desk(approver=decide)
    approval = ask(desk)
    await asyncio.wait_for(after.wait(), 10)
    await settle()
    assert (desk.get(approval.id).state, desk.get(approval.id).message) == ("allowed", "by itself")


async def test_answer_after_the_expiry_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    clock, hand = HandClock(), Hand()
    desk = a_desk(clock, approver=hand, ttl_ms=1000)
    approval = ask(desk)
    await hand.started.wait()
    clock.advance(1000)
    hand.answer.set_result("allow")
    await settle()
    assert desk.get(approval.id).state is ApprovalState.EXPIRED
    assert errors(caplog) == []


async def test_closing_cancels_the_approver_and_leaves_the_question_pending() -> None:
    hand = Hand()
    desk = a_desk(approver=hand)
    started = ask(desk)
    await hand.started.wait()
    # This one's task has not begun yet.
    fresh = ask(desk)
    await desk.close()
    assert hand.cancelled
    assert not desk.being_answered([started.id, fresh.id])
    assert [approval.state for approval in desk.list()] == [ApprovalState.PENDING] * 2


async def test_closed_desk_asks_the_approver_nothing_more() -> None:
    hand = Hand()
    desk = a_desk(approver=hand)
    await desk.close()
    approval = ask(desk)
    assert not desk.being_answered([approval.id])
    await settle()
    assert not hand.started.is_set()


async def test_closing_does_not_wait_for_an_approver_that_ignores_it(caplog: pytest.LogCaptureFixture) -> None:
    go = asyncio.Event()

    async def stubborn(approval: Approval) -> str:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        return "deny"

    inquiries = Inquiries(stubborn, patience_s=0.01)
    task = inquiries.start(ask(a_desk()), lambda answer: None)
    assert task is not None
    await settle()
    await asyncio.wait_for(inquiries.close(), 10)
    assert not task.done()
    assert len(errors(caplog)) == 1
    go.set()
    await asyncio.wait([task])


async def test_approver_may_close_the_desk_it_works_for() -> None:
    closed = asyncio.Event()

    async def close(approval: Approval) -> str:
        await desk.close()
        closed.set()
        return "deny"

    desk = a_desk(approver=close)
    approval = ask(desk)
    await asyncio.wait_for(closed.wait(), 10)
    await asyncio.wait_for(desk.decided([approval.id]), 10)


@pytest.mark.parametrize("approver", ["allow", 5, {"refund": "allow"}])
def test_approver_that_cannot_be_called_is_refused(approver: Any) -> None:
    with pytest.raises(InvalidInput, match="approver is a function"):
        a_desk(approver=approver)
