"""Programs that wait for a person: how they ask, sleep, are answered and go on, in both languages."""

import asyncio
from typing import Any

import pytest

from cloister import (
    Answer,
    Approval,
    ApprovalClosed,
    ApprovalNotFound,
    ApprovalState,
    CallStatus,
    CellNotFound,
    Cloister,
    Event,
    InvalidInput,
    RunResult,
    RunStatus,
    Session,
    SessionLimits,
    Terminated,
    Tool,
    ToolError,
    tool,
)
from tests.sessions.door import Door, value
from tests.sessions.till import Till

pytestmark = pytest.mark.anyio

KEY = b"a key for the tests of approvals"
LANGUAGES = ("python", "typescript")
ONE = {"python": "await refund(order_id='A7')", "typescript": "await tools.refund({order_id: 'A7'})"}
THREE = {
    "python": """
import asyncio
async def one(order_id):
    try:
        return await refund(order_id=order_id)
    except RuntimeError as error:
        return str(error)
await asyncio.gather(one('A'), one('B'), one('C'))
""",
    "typescript": """
const one = async (order_id: string) => {
  try { return await tools.refund({order_id}) } catch (error) { return error.code + ": " + error.message }
};
await Promise.all(['A', 'B', 'C'].map(one))
""",
}


def _cloister(*tools: Tool, workers: int = 2, **more: Any) -> Cloister:
    return Cloister(tools=tools, snapshot_key=KEY, workers=workers, **more)


def _only(result: RunResult) -> Approval:
    assert result.status is RunStatus.WAITING_FOR_APPROVAL, result
    (approval,) = result.approvals
    return approval


class _Clock:
    """The machine's clock, with hours that a test adds."""

    def __init__(self) -> None:
        from cloister.ports.clock import SystemClock

        self._real = SystemClock()
        self.added = 0.0

    def now_ms(self) -> int:
        return self._real.now_ms() + int(self.added * 1000)

    def monotonic(self) -> float:
        return self._real.monotonic() + self.added

    async def sleep(self, seconds: float) -> None:
        await self._real.sleep(seconds)


# -- asking -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
async def test_call_that_must_be_asked_about_is_not_made_and_the_run_comes_back_waiting(language: str) -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session("shop", language=language)
        result = await session.run(ONE[language])
        approval = _only(result)
        assert till.paid == []
        assert (approval.session_id, approval.cell_id, approval.capability) == ("shop", result.cell_id, "refund")
        assert approval.arguments == {"order_id": "A7"}
        assert approval.side_effect == "write"
        assert approval.state is ApprovalState.PENDING
        assert approval.expires_at is None
        assert "every call of refund" in approval.reason
        (record,) = result.external_calls
        assert (record.status, record.id) == (CallStatus.APPROVAL_PENDING, approval.call_id)
        assert await cloister.approvals(state="pending") == [approval]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_allowed_call_is_made_once_and_the_program_goes_on(language: str) -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session(language=language)
        approval = _only(await session.run(ONE[language]))
        decided = await cloister.decide(approval.id, "allow")
        assert decided.state is ApprovalState.ALLOWED
        assert till.paid == []
        result = await session.resume(approval.cell_id)
        assert value(result) == "paid 10 for A7"
        assert till.paid == [("A7", 10)]
        assert [record.status for record in result.external_calls] == [CallStatus.OK]
        assert not session.is_asleep


@pytest.mark.parametrize("language", LANGUAGES)
async def test_denied_call_is_an_error_that_the_program_catches_with_the_message(language: str) -> None:
    code = {
        "python": "try:\n    await refund('A7')\nexcept RuntimeError as e:\n    said = str(e)\nsaid",
        "typescript": """
let said;
try { await tools.refund({order_id: 'A7'}) } catch (e) { said = `${e.code}: ${e.message}` }
said
""",
    }
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session(language=language)
        approval = _only(await session.run(code[language]))
        await cloister.decide(approval.id, "deny", message="not without a receipt")
        result = await session.resume(approval.cell_id)
        assert str(value(result)).startswith("APPROVAL_DENIED: `refund` was not allowed: not without a receipt")
        assert till.paid == []
        assert [record.status for record in result.external_calls] == [CallStatus.DENIED]


async def test_denied_call_that_nobody_catches_ends_the_run_as_permission_denied() -> None:
    async with _cloister(Till().tool) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.run("await refund('A7')"))
        await cloister.decide(approval.id, "deny")
        result = await session.resume()
        assert result.status is RunStatus.PERMISSION_DENIED
        assert result.error is not None
        assert result.error.code == "APPROVAL_DENIED"


@pytest.mark.parametrize("language", LANGUAGES)
async def test_three_gathered_calls_are_decided_in_one_go(language: str) -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session(language=language)
        waiting = await session.run(THREE[language])
        a, b, c = sorted(waiting.approvals, key=lambda one: one.arguments["order_id"])
        decided = await cloister.decide_many(
            [
                {"id": a.id, "decision": "allow"},
                {"id": b.id, "decision": "deny", "message": "too late"},
                {"id": c.id, "decision": "allow"},
            ]
        )
        assert [one.ok for one in decided] == [True, True, True]
        result = await session.resume(waiting.cell_id)
        first, second, third = result.result
        assert (first, third) == ("paid 10 for A", "paid 10 for C")
        assert second.startswith("APPROVAL_DENIED")
        assert "too late" in second
        assert sorted(till.paid) == [("A", 10), ("C", 10)]


async def test_batch_decision_says_of_each_id_what_became_of_it() -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session()
        waiting = await session.run(THREE["python"])
        stale, good, _ = waiting.approvals
        await cloister.decide(stale.id, "deny")
        decisions = [{"id": one, "decision": "allow"} for one in (stale.id, "apr_nobody", good.id)]
        first, second, third = await cloister.decide_many(decisions)
        assert first.error is not None
        assert first.error["code"] == "APPROVAL_CLOSED"
        assert second.error is not None
        assert second.error["code"] == "APPROVAL_NOT_FOUND"
        assert third.approval is not None
        assert third.approval.state is ApprovalState.ALLOWED


@pytest.mark.parametrize("language", LANGUAGES)
async def test_only_what_was_answered_goes_on_and_the_rest_still_waits(language: str) -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session(language=language)
        waiting = await session.run(THREE[language])
        await cloister.decide(waiting.approvals[0].id, "allow")
        still = await session.resume(waiting.cell_id)
        assert still.status is RunStatus.WAITING_FOR_APPROVAL
        assert {one.id for one in still.approvals} == {one.id for one in waiting.approvals[1:]}
        assert len(till.paid) == 1
        for one in still.approvals:
            await cloister.decide(one.id, "allow")
        assert value(await session.resume(waiting.cell_id)) == [f"paid 10 for {name}" for name in "ABC"]
        assert len(till.paid) == 3


async def test_calls_that_need_nobody_go_on_while_another_is_asked_about() -> None:
    door, till = Door(), Till()
    code = "import asyncio\nawait asyncio.gather(knock(5), refund('A7'))"
    async with _cloister(door.tool, till.tool) as cloister:
        session = await cloister.open_session()
        run = asyncio.create_task(session.run(code))
        await door.until_knocked()
        (approval,) = await cloister.approvals(state="pending")
        await cloister.decide(approval.id, "allow")
        # Answered while the other call is still under way: nobody has to resume anything.
        await asyncio.wait_for(till.used.wait(), 30)
        door.open()
        assert value(await run) == [5, "paid 10 for A7"]


async def test_resuming_with_nothing_answered_changes_nothing() -> None:
    async with _cloister(Till().tool) as cloister:
        session = await cloister.open_session()
        waiting = await session.run("print('asking')\nawait refund('A7')")
        again = await session.resume(waiting.cell_id)
        assert again.approvals == waiting.approvals
        assert again.stdout == "asking\n"
        assert session.worker_pid is None


# -- asleep -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
async def test_waiting_program_holds_no_worker(language: str) -> None:
    async with _cloister(Till().tool, workers=1) as cloister:
        sessions = [await cloister.open_session(f"s{n}", language=language) for n in range(5)]
        waiting = [await session.run(ONE[language]) for session in sessions]
        assert [session.worker_pid for session in sessions] == [None] * 5
        other = await cloister.open_session("other", language=language)
        assert value(await other.run("6 * 7")) == 42
        for session, result in zip(sessions, waiting, strict=True):
            await cloister.decide(_only(result).id, "allow")
            assert value(await session.resume()) == "paid 10 for A7"


async def test_wall_clock_stands_still_while_a_person_thinks() -> None:
    clock = _Clock()
    async with _cloister(Till().tool, clock=clock, limits=SessionLimits(wall_ms=5000)) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.run("await refund('A7')"))
        clock.added = 24 * 3600.0
        await cloister.decide(approval.id, "allow")
        assert value(await session.resume()) == "paid 10 for A7"


@pytest.mark.parametrize("language", LANGUAGES)
async def test_program_goes_on_with_its_variables_and_leaves_them_behind(language: str) -> None:
    code = {
        "python": "total = 1\nprint('before')\nr = await refund('A7')\ntotal += 1\nprint('after')",
        "typescript": """
let total = 1; console.log('before');
const r = await tools.refund({order_id: 'A7'}); total += 1; console.log('after')
""",
    }
    async with _cloister(Till().tool) as cloister:
        session = await cloister.open_session(language=language)
        await session.run("kept = 40" if language == "python" else "let kept = 40")
        waiting = await session.run(code[language])
        assert waiting.stdout == "before\n"
        await cloister.decide(_only(waiting).id, "allow")
        heard: list[str] = []
        result = await session.resume(on_output=lambda _stream, text: heard.append(text))
        assert result.stdout == "before\nafter\n"
        assert "".join(heard) == "after\n"
        assert value(await session.run("kept + total")) == 42


async def test_cell_that_waited_is_played_again_when_its_worker_dies_later() -> None:
    till = Till()
    async with _cloister(till.tool, workers=1) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.run("said = await refund('A7')"))
        await cloister.decide(approval.id, "allow")
        await session.resume()
        # A limit that fires takes the worker away; what the earlier cell assigned comes from bytes and tape.
        broken = await session.run("while True: pass", limits={"cpu_ms": 50})
        assert broken.status is RunStatus.TIMEOUT
        assert value(await session.run("said")) == "paid 10 for A7"
        assert till.paid == [("A7", 10)]


async def test_nothing_else_runs_while_a_cell_waits() -> None:
    async with _cloister(Till().tool) as cloister:
        session = await cloister.open_session()
        await session.run("await refund('A7')")
        refused = await session.run("1 + 1")
        assert refused.status is RunStatus.VALIDATION_ERROR
        assert refused.error is not None
        assert "resume" in str(refused.error.hint)


async def test_run_under_narrower_limits_waits_and_goes_on_under_them() -> None:
    code = "x = await refund('A7')\ntry:\n    big = 'a' * 40_000_000\nexcept MemoryError:\n    pass\nx"
    async with _cloister(Till().tool) as cloister:
        session = await cloister.open_session()
        waiting = await session.run(code, limits={"memory_mb": 16})
        await cloister.decide(_only(waiting).id, "allow")
        result = await session.resume()
        assert result.status is RunStatus.RESOURCE_EXHAUSTED
        assert value(await session.run("len('a' * 40_000_000)")) == 40_000_000


# -- ending it otherwise ------------------------------------------------------------------------------------------


async def test_decision_after_the_cell_was_terminated_executes_nothing() -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session()
        await session.run("x = 1")
        approval = _only(await session.run("x = 2\nawait refund('A7')"))
        ended = await session.terminate(approval.cell_id)
        assert isinstance(ended, Terminated)
        assert "ROLLED_BACK" in [note.code for note in ended.diagnostics]
        with pytest.raises(ApprovalClosed, match="cancelled"):
            await cloister.decide(approval.id, "allow")
        refused = await session.resume(approval.cell_id)
        assert refused.status is RunStatus.VALIDATION_ERROR
        assert value(await session.run("x")) == 1
        assert till.paid == []


async def test_decision_after_the_session_was_closed_executes_nothing() -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.run("await refund('A7')"))
        await session.close()
        with pytest.raises(ApprovalClosed):
            await cloister.decide(approval.id, "allow")
        assert till.paid == []


async def test_decision_that_comes_too_late_executes_nothing_and_the_program_is_told() -> None:
    clock, till = _Clock(), Till()
    async with _cloister(till.tool, clock=clock, approval_ttl_ms=60_000) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.run("await refund('A7')"))
        assert approval.expires_at is not None
        clock.added = 61.0
        with pytest.raises(ApprovalClosed, match="expired"):
            await cloister.decide(approval.id, "allow")
        result = await session.resume()
        assert result.status is RunStatus.PERMISSION_DENIED
        assert result.error is not None
        assert result.error.code == "APPROVAL_EXPIRED"
        assert till.paid == []


async def test_answer_counts_for_nothing_when_the_tool_was_replaced_meanwhile() -> None:
    till = Till()
    other: list[str] = []

    async def refund(order_id: str, amount: int = 10, reason: str = "") -> str:
        other.append(order_id)
        return "other"

    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.run("await refund('A7')"))
        session.tools.replace(Tool(refund, side_effect="external_system", approval_policy="manual"))
        await cloister.decide(approval.id, "allow")
        again = _only(await session.resume())
        assert again.id != approval.id
        assert again.side_effect == "external_system"
        assert (till.paid, other) == ([], [])
        await cloister.decide(again.id, "allow")
        assert value(await session.resume()) == "other"


async def test_tool_that_is_gone_when_the_answer_comes_is_unknown() -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.run("await refund('A7')"))
        session.tools.remove("refund")
        await cloister.decide(approval.id, "allow")
        result = await session.resume()
        assert result.error is not None
        assert result.error.code == "UNKNOWN_TOOL"
        assert till.paid == []


async def test_question_that_the_program_no_longer_waits_for_is_withdrawn() -> None:
    @tool
    async def fail() -> None:
        raise ToolError("NOPE", "no")

    till = Till()
    async with _cloister(till.tool, fail) as cloister:
        session = await cloister.open_session()
        result = await session.run("import asyncio\nawait asyncio.gather(refund('A7'), fail())")
        assert result.error is not None
        assert result.error.code == "NOPE"
        (approval,) = await cloister.approvals()
        assert approval.state is ApprovalState.CANCELLED
        assert till.paid == []
        assert {record.name: record.status for record in result.external_calls}["refund"] is CallStatus.ERROR


# -- races --------------------------------------------------------------------------------------------------------


async def test_hundred_concurrent_decisions_and_resumes_execute_once() -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.run("await refund('A7')"))

        async def decide_and_resume() -> RunResult | None:
            try:
                await cloister.decide(approval.id, "allow")
            except ApprovalClosed:
                pass
            return await session.resume(approval.cell_id)

        results = await asyncio.gather(*[decide_and_resume() for _ in range(100)])
        assert till.paid == [("A7", 10)]
        assert sum(1 for result in results if result is not None and result.ok) == 1


async def test_of_hundred_decisions_one_counts() -> None:
    async with _cloister(Till().tool) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.run("await refund('A7')"))
        words = ["allow", "deny"] * 50
        answers = await asyncio.gather(*[cloister.decide(approval.id, w) for w in words], return_exceptions=True)
        assert sum(1 for answer in answers if isinstance(answer, Approval)) == 1
        assert sum(1 for answer in answers if isinstance(answer, ApprovalClosed)) == 99


async def test_decision_word_that_does_not_exist_is_refused_and_nothing_is_decided() -> None:
    async with _cloister(Till().tool) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.run("await refund('A7')"))
        with pytest.raises(InvalidInput, match="'allow_always'"):
            await cloister.decide(approval.id, "perhaps")
        with pytest.raises(ApprovalNotFound):
            await cloister.decide("apr_nobody", "allow")
        assert await cloister.approvals(state="pending") == [approval]


# -- allow always -------------------------------------------------------------------------------------------------


async def test_allow_always_covers_the_same_arguments_in_this_session_only() -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.run("await refund('A7')"))
        await cloister.decide(approval.id, "allow_always")
        await session.resume()
        assert value(await session.run("await refund('A7')")) == "paid 10 for A7"
        _only(await session.run("await refund('B8')"))
        other = await cloister.open_session("other")
        _only(await other.run("await refund('A7')"))
        assert till.paid == [("A7", 10), ("A7", 10)]


async def test_allow_always_with_a_rule_covers_the_calls_that_fit_it() -> None:
    async with _cloister(Till().tool) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.run("await refund('A7', 5)"))
        await cloister.decide(approval.id, "allow_always", rule="args.amount <= 20")
        await session.resume()
        assert value(await session.run("await refund('B8', 20)")) == "paid 20 for B8"
        _only(await session.run("await refund('B8', 21)"))


# -- rules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
async def test_auto_rule_allows_when_it_holds_and_asks_when_it_does_not(language: str) -> None:
    till = Till({"auto": {"rule": "args.amount < 100"}})
    small = {"python": "await refund('A', 99)", "typescript": "await tools.refund({order_id: 'A', amount: 99})"}
    large = {"python": "await refund('A', 100)", "typescript": "await tools.refund({order_id: 'A', amount: 100})"}
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session(language=language)
        assert value(await session.run(small[language])) == "paid 99 for A"
        approval = _only(await session.run(large[language]))
        assert "args.amount < 100" in approval.reason
        assert "args.amount = 100" in approval.reason
        assert till.paid == [("A", 99)]


async def test_rule_that_fails_at_run_time_asks() -> None:
    till = Till({"auto": {"rule": "args.amount < 100"}})
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session()
        # The default is the function's, so the argument is not there to look at.
        approval = _only(await session.run("await refund('A')"))
        assert "amount" in approval.reason
        assert till.paid == []


async def test_rule_can_count_the_calls_that_were_made() -> None:
    till = Till({"auto": {"rule": 'calls.by_name["refund"] < 2'}})
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session()
        result = await session.run("import asyncio\nawait asyncio.gather(*[refund(str(n)) for n in range(4)])")
        assert len(result.approvals) == 2
        assert len(till.paid) == 2


async def test_session_can_tighten_a_policy_but_not_loosen_it() -> None:
    free, strict = Till("none", name="free"), Till("manual", name="strict")
    async with _cloister(free.tool, strict.tool) as cloister:
        tight = await cloister.open_session("tight", approvals={"free": "manual"})
        _only(await tight.run("await free('A')"))
        with pytest.raises(InvalidInput, match="strict"):
            await cloister.open_session("loose", approvals={"strict": "none"})
        with pytest.raises(InvalidInput, match="fre"):
            await cloister.open_session("typo", approvals={"fre": "manual"})


async def test_deny_rule_denies_whatever_a_person_would_say() -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session(deny=[{"rule": "args.amount > 50", "message": "never that much"}])
        result = await session.run("await refund('A', 51)")
        assert result.status is RunStatus.PERMISSION_DENIED
        assert result.error is not None
        assert result.error.code == "PERMISSION_DENIED"
        assert "never that much" in result.error.message
        assert await cloister.approvals() == []
        _only(await session.run("await refund('A', 50)"))


# -- an approver inside the process -------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
async def test_approver_answers_inline_and_the_run_goes_on_to_its_end(language: str) -> None:
    asked: list[Approval] = []

    async def approver(approval: Approval) -> Answer | str:
        asked.append(approval)
        return "allow" if approval.arguments["order_id"] != "B" else Answer("deny", message="not B")

    till = Till()
    async with _cloister(till.tool, approver=approver) as cloister:
        session = await cloister.open_session(language=language)
        first, second, third = (await session.run(THREE[language])).result
        assert (first, third) == ("paid 10 for A", "paid 10 for C")
        assert "not B" in second
        assert sorted(one.arguments["order_id"] for one in asked) == ["A", "B", "C"]


async def test_program_holds_no_worker_while_the_approver_thinks() -> None:
    thinking, answer = asyncio.Event(), asyncio.Event()

    async def approver(_: Approval) -> str:
        thinking.set()
        await answer.wait()
        return "allow"

    async with _cloister(Till().tool, approver=approver, workers=1) as cloister:
        session = await cloister.open_session()
        run = asyncio.create_task(session.run("await refund('A7')"))
        await thinking.wait()
        other = await cloister.open_session("other")
        assert value(await other.run("1 + 1")) == 2
        answer.set()
        assert value(await run) == "paid 10 for A7"


async def test_approver_that_cannot_say_leaves_the_question_to_others() -> None:
    async def approver(_: Approval) -> None:
        return None

    async with _cloister(Till().tool, approver=approver) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.run("await refund('A7')"))
        await cloister.decide(approval.id, "allow")
        assert value(await session.resume()) == "paid 10 for A7"


async def test_closing_a_session_ends_the_run_that_waits_for_an_approver() -> None:
    thinking = asyncio.Event()

    async def approver(_: Approval) -> str:
        thinking.set()
        await asyncio.Event().wait()
        return "allow"

    till = Till()
    async with _cloister(till.tool, approver=approver) as cloister:
        session = await cloister.open_session()
        run = asyncio.create_task(session.run("await refund('A7')"))
        await thinking.wait()
        await session.close()
        assert (await run).status is RunStatus.INTERRUPTED
        assert till.paid == []


async def _until_asleep(session: Session) -> None:
    async with asyncio.timeout(30):
        while not session.is_asleep:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)


async def _thinking(till: Till) -> tuple[Cloister, asyncio.Event]:
    """A Cloister whose approver never answers, and when it was asked."""
    asked = asyncio.Event()

    async def approver(_: Approval) -> str:
        asked.set()
        await asyncio.Event().wait()
        return "allow"

    return _cloister(till.tool, approver=approver), asked


async def test_run_that_is_cancelled_while_an_approver_thinks_leaves_the_session_free() -> None:
    till = Till()
    made, asked = await _thinking(till)
    async with made as cloister:
        session = await cloister.open_session()
        await session.run("x = 1")
        run = asyncio.create_task(session.run("x = 2\nawait refund('A7')"))
        await asked.wait()
        (approval,) = await cloister.approvals()
        await _until_asleep(session)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        with pytest.raises(ApprovalClosed):
            await cloister.decide(approval.id, "allow")
        assert value(await session.run("x")) == 1
        assert till.paid == []


async def test_cell_that_is_terminated_while_an_approver_thinks_says_so_under_its_own_id() -> None:
    till = Till()
    made, asked = await _thinking(till)
    async with made as cloister:
        session = await cloister.open_session()
        run = asyncio.create_task(session.run("await refund('A7')"))
        await asked.wait()
        (approval,) = await cloister.approvals()
        await _until_asleep(session)
        await session.terminate(approval.cell_id)
        result = await run
        assert (result.status, result.cell_id) == (RunStatus.CANCELLED, approval.cell_id)
        assert till.paid == []


# -- elsewhere ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
async def test_snapshot_of_a_waiting_program_asks_again_where_it_wakes(language: str) -> None:
    till, there_till = Till(), Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session("here", language=language)
        waiting = await session.run(ONE[language])
        blob = await session.snapshot()
        await cloister.decide(_only(waiting).id, "allow")
    async with _cloister(there_till.tool) as there:
        restored = await there.restore_session(blob)
        assert restored.is_asleep
        approval = _only(await restored.resume())
        assert there_till.paid == []
        await there.decide(approval.id, "allow")
        assert value(await restored.resume()) == "paid 10 for A7"
        assert there_till.paid == [("A7", 10)]


async def test_copy_of_a_waiting_session_needs_an_answer_of_its_own() -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session("here")
        approval = _only(await session.run("await refund('A7')"))
        copy = await cloister.restore_session(await session.snapshot(), session_id="copy")
        await cloister.decide(approval.id, "allow")
        own = _only(await copy.resume())
        assert own.id != approval.id
        assert own.session_id == "copy"
        assert value(await session.resume()) == "paid 10 for A7"
        assert till.paid == [("A7", 10)]


async def test_returned_snapshot_of_a_waiting_run_holds_the_program() -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session("here")
        waiting = await session.run("await refund('A7')", return_snapshot=True)
        assert waiting.snapshot is not None
        await session.close()
        restored = await cloister.restore_session(waiting.snapshot)
        _only(await restored.resume())


async def test_events_tell_of_questions_and_answers_in_order() -> None:
    heard: list[Event] = []
    till = Till()
    async with _cloister(till.tool, on_event=heard.append) as cloister:
        session = await cloister.open_session("shop")
        approval = _only(await session.run("await refund('A7')"))
        await cloister.decide(approval.id, "allow")
        await session.resume()
    kinds = [event.kind for event in heard]
    assert kinds == [
        "session.opened",
        "cell.started",
        "call.requested",
        "approval.required",
        "cell.hibernated",
        "approval.decided",
        "cell.woken",
        "call.settled",
        "cell.completed",
        "session.closed",
    ]
    assert [event.seq for event in heard] == list(range(1, 11))
    assert {event.session_id for event in heard} == {"shop"}


# -- the host's own calls -----------------------------------------------------------------------------------------


async def test_direct_call_is_asked_about_like_a_program_s() -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.call("refund", {"order_id": "A7"}))
        assert till.paid == []
        # It is no cell of the namespace: programs go on.
        assert value(await session.run("1 + 1")) == 2
        await cloister.decide(approval.id, "allow")
        assert value(await session.resume(approval.cell_id)) == "paid 10 for A7"
        assert till.paid == [("A7", 10)]


async def test_direct_call_that_waits_can_be_terminated() -> None:
    till = Till()
    async with _cloister(till.tool) as cloister:
        session = await cloister.open_session()
        approval = _only(await session.call("refund", ["A7"]))
        ended = await session.terminate(approval.cell_id)
        assert isinstance(ended, Terminated)
        assert [record.error.code for record in ended.external_calls if record.error] == ["CANCELLED"]
        with pytest.raises(ApprovalClosed):
            await cloister.decide(approval.id, "allow")
        assert till.paid == []


async def _resumed(session: Session, cell_id: str) -> RunStatus:
    return (await session.resume(cell_id)).status


async def test_cell_that_never_slept_cannot_be_resumed_or_terminated() -> None:
    async with _cloister() as cloister:
        session = await cloister.open_session()
        done = await session.run("1")
        assert await _resumed(session, done.cell_id) is RunStatus.VALIDATION_ERROR
        with pytest.raises(CellNotFound, match=f"exec cell {done.cell_id} not found"):
            await session.terminate(done.cell_id)
