"""Cells that ask a person: told once, asleep without anybody waiting, and awake again by themselves."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cloister import (
    Answer,
    Approval,
    ApprovalState,
    CellLimits,
    Cloister,
    Completed,
    Event,
    RunStatus,
    Session,
    WaitingForApproval,
    Yielded,
)
from cloister.ports.clock import SystemClock
from tests.cells.lab import (
    LONG,
    House,
    Latch,
    a_few_rounds,
    error_code,
    in_both,
    info,
    observe,
    program,
    reading,
    result,
    start,
    states,
    texts,
    to_the_end,
)
from tests.sessions.till import Till

PAID = "paid 10 for A7"


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House() as made:
        yield made


async def asked(session: Session, code: str = "await refund('A7')") -> WaitingForApproval:
    seen = await session.exec(code, yield_ms=LONG)
    assert isinstance(seen, WaitingForApproval), seen
    return seen


@in_both
async def test_question_is_told_at_once_with_the_output_so_far(house: House, language: str) -> None:
    till = Till()
    async with await house.open(language, till.tool) as session:
        seen = await asked(session, "text('a')\nawait refund('A7')\ntext('b')")
        assert texts(seen) == ["a"]
        (approval,) = seen.approvals
        assert (approval.capability, approval.cell_id) == ("refund", seen.cell_id)
        assert (await info(session, seen.cell_id)).state == "asleep"
        await house.cloister.decide(approval.id, "allow")
        assert texts(await session.wait(seen.cell_id)) == ["b"]
        assert till.paid == [("A7", 10)]


@in_both
async def test_question_is_told_once_and_then_wait_lasts_until_it_is_decided(house: House, language: str) -> None:
    till = Till()
    async with await house.open(language, till.tool) as session:
        seen = await asked(session)
        observer = await observe(session, seen.cell_id)
        await a_few_rounds()
        assert not observer.done()
        await house.cloister.decide(seen.approvals[0].id, "allow")
        assert result(await observer) == PAID


@in_both
async def test_look_at_a_cell_that_was_told_of_still_says_whom_it_waits_for(house: House, language: str) -> None:
    till = Till()
    async with await house.open(language, till.tool) as session:
        seen = await asked(session, "text('a')\nawait refund('A7')")
        again = await session.wait(seen.cell_id, yield_ms=0)
        assert isinstance(again, WaitingForApproval)
        assert (again.approvals, again.content) == (seen.approvals, ())
        assert await session.wait_any([seen.cell_id], timeout_ms=0) is None


@in_both
async def test_decided_cell_completes_without_anybody_waiting(house: House, language: str) -> None:
    till = Till()
    async with await house.open(language, till.tool) as session, reading(session) as events:
        cell_id = await start(session, "await refund('A7')\ntext('done')")
        approval_id = (await events.until("approval.required")).data["id"]
        await events.until("cell.hibernated", cell_id)
        await house.cloister.decide(approval_id, "allow")
        await events.until("cell.completed", cell_id)
        assert till.paid == [("A7", 10)]
        seen = await session.wait(cell_id)
        assert isinstance(seen, Completed)
        assert texts(seen) == ["done"]


@in_both
async def test_decision_that_comes_before_the_cell_sleeps_is_not_lost(language: str) -> None:
    till = Till()
    async with House() as house:
        session = await house.open(language, till.tool)
        async with reading(session) as events:
            cell_id = await start(session, "await refund('A7')")
            # At once: the program is about to be put to bytes.
            approval_id = (await events.until("approval.required")).data["id"]
            await house.cloister.decide(approval_id, "allow")
            assert result(await to_the_end(session, cell_id)) == PAID


@in_both
async def test_denied_call_can_be_caught_with_what_the_person_said(house: House, language: str) -> None:
    till = Till()
    async with await house.open(language, till.tool) as session:
        seen = await asked(session, program(language, "caught", "await refund('A7')"))
        await house.cloister.decide(seen.approvals[0].id, "deny", message="not today")
        said = result(await session.wait(seen.cell_id))
        assert "APPROVAL_DENIED" in said
        assert "not today" in said
        assert till.paid == []


@in_both
async def test_denied_call_that_nobody_catches_fails_the_cell(house: House, language: str) -> None:
    till = Till()
    async with await house.open(language, till.tool) as session:
        seen = await asked(session)
        await house.cloister.decide(seen.approvals[0].id, "deny")
        assert error_code(await session.wait(seen.cell_id)) == "APPROVAL_DENIED"


@in_both
async def test_question_that_expires_wakes_the_cell(language: str) -> None:
    till = Till()
    async with House(approval_ttl_ms=30) as house:
        session = await house.open(language, till.tool)
        async with reading(session) as events:
            cell_id = await start(session, program(language, "caught", "await refund('A7')"))
            await events.until("approval.expired")
            await events.until("cell.completed", cell_id)
        assert "APPROVAL_EXPIRED" in result(await session.wait(cell_id))
        assert till.paid == []
        (approval,) = await house.cloister.approvals()
        assert approval.state is ApprovalState.EXPIRED


class _Behind(SystemClock):
    """A clock that a machine has slowed down a little, to bring it back to the right time."""

    def __init__(self) -> None:
        self._began_ms = super().now_ms()

    def now_ms(self) -> int:
        return self._began_ms + (super().now_ms() - self._began_ms) * 9 // 10


@in_both
async def test_question_expires_although_the_clock_is_slower_than_the_loop(language: str) -> None:
    till = Till()
    async with House(approval_ttl_ms=50, clock=_Behind()) as house:
        session = await house.open(language, till.tool)
        async with reading(session) as events:
            cell_id = await start(session, "await refund('A7')")
            await events.until("cell.completed", cell_id)
        assert error_code(await session.wait(cell_id)) == "APPROVAL_EXPIRED"


@in_both
async def test_approver_in_this_process_answers_and_nobody_is_told_of_waiting(language: str) -> None:
    till, thinking, may_answer = Till(), asyncio.Event(), asyncio.Event()

    async def approver(_: Approval) -> Answer:
        thinking.set()
        await may_answer.wait()
        return Answer("allow")

    async with House(approver=approver) as house:
        session = await house.open(language, till.tool)
        starting = asyncio.create_task(session.exec("await refund('A7')", yield_ms=LONG))
        await thinking.wait()
        async with reading(session) as events:
            ((cell,),) = [await session.cells()]
            if cell.state != "asleep":
                await events.until("cell.hibernated", cell.id)
        await a_few_rounds()
        assert not starting.done()
        may_answer.set()
        assert result(await starting) == PAID


@in_both
async def test_question_that_the_approver_leaves_to_others_is_told(language: str) -> None:
    till, may_answer = Till(), asyncio.Event()

    async def approver(_: Approval) -> None:
        await may_answer.wait()

    async with House(approver=approver) as house:
        session = await house.open(language, till.tool)
        cell_id = await start(session, "await refund('A7')")
        observer = await observe(session, cell_id)
        may_answer.set()
        seen = await observer
        assert isinstance(seen, WaitingForApproval)
        await house.cloister.decide(seen.approvals[0].id, "allow")
        assert result(await session.wait(cell_id)) == PAID


# -- beside others ----------------------------------------------------------------------------------------------------


@in_both
async def test_run_is_refused_while_a_cell_waits_for_approval_and_cells_queue(house: House, language: str) -> None:
    till = Till()
    async with await house.open(language, till.tool) as session:
        seen = await asked(session)
        refused = await session.run("1 + 1")
        assert refused.status is RunStatus.VALIDATION_ERROR
        assert refused.error is not None
        assert "sleeps in the middle of a cell" in refused.error.message
        queued = await start(session, "'after'")
        assert await states(session) == ["asleep", "queued"]
        await house.cloister.decide(seen.approvals[0].id, "allow")
        assert result(await session.wait(seen.cell_id)) == PAID
        assert result(await session.wait(queued)) == "after"
        assert (await session.run("1 + 1")).result == 2


@in_both
async def test_run_that_stands_in_line_is_refused_when_the_cell_before_it_falls_asleep(
    house: House, language: str
) -> None:
    latch, till = Latch(), Till()
    async with await house.open(language, latch.tool, till.tool) as session:
        cell_id = await start(session, "await hold(1)\nawait refund('A7')")
        running = asyncio.create_task(session.run("1 + 1"))
        await latch.until_came()
        await latch.let_go()
        assert (await running).status is RunStatus.VALIDATION_ERROR
        await session.terminate(cell_id)


@in_both
async def test_resume_does_not_take_a_cell_of_exec(house: House, language: str) -> None:
    till = Till()
    async with await house.open(language, till.tool) as session:
        seen = await asked(session)
        assert not session.is_asleep
        for cell_id in (None, seen.cell_id):
            refused = await session.resume(cell_id)
            assert refused.error is not None
            assert refused.error.code == "INVALID_INPUT"
        await house.cloister.decide(seen.approvals[0].id, "allow")
        assert result(await session.wait(seen.cell_id)) == PAID


@in_both
async def test_run_that_sleeps_goes_on_by_itself_once_it_is_waited_for(house: House, language: str) -> None:
    till = Till()
    async with await house.open(language, till.tool) as session:
        ran = await session.run("text('a')\nawait refund('A7')")
        assert ran.status is RunStatus.WAITING_FOR_APPROVAL
        seen = await session.wait(ran.cell_id)
        assert isinstance(seen, WaitingForApproval)
        refused = await session.resume(ran.cell_id)
        assert refused.error is not None
        await house.cloister.decide(seen.approvals[0].id, "allow")
        assert result(await session.wait(ran.cell_id)) == PAID


@in_both
async def test_of_several_questions_those_that_are_left_are_told_again(house: House, language: str) -> None:
    till = Till()
    code = program(language, "together", "refund('A'), refund('B')")
    async with await house.open(language, till.tool) as session:
        seen = await asked(session, code)
        assert len(seen.approvals) == 2
        await house.cloister.decide(seen.approvals[0].id, "allow")
        more = await session.wait(seen.cell_id)
        assert isinstance(more, WaitingForApproval)
        assert more.approvals == seen.approvals[1:]
        await house.cloister.decide(more.approvals[0].id, "allow")
        assert result(await session.wait(seen.cell_id)) == ["paid 10 for A", "paid 10 for B"]
        assert sorted(till.paid) == [("A", 10), ("B", 10)]


@in_both
async def test_cell_that_waits_for_a_person_and_a_call_goes_on_with_the_call(language: str) -> None:
    latch, till = Latch(), Till()
    code = {
        "python": (
            "import asyncio\nasync def one(work):\n    text(await work)\n"
            "await asyncio.gather(one(hold(1)), one(refund('A7')))\n'all'"
        ),
        "typescript": (
            "const one = async (work) => { text(await work) };\n"
            "await Promise.all([one(hold(1)), one(refund('A7'))]); 'all'"
        ),
    }[language]
    async with House(cells=CellLimits(hibernate_after_ms=0)) as house:
        session = await house.open(language, latch.tool, till.tool)
        cell_id = await start(session, code)
        await latch.until_came()
        assert isinstance(await session.wait(cell_id, yield_ms=0), Yielded)
        observer = await observe(session, cell_id)
        await latch.let_go()
        seen = await observer
        assert isinstance(seen, WaitingForApproval)
        assert texts(seen) == ["1"]
        await house.cloister.decide(seen.approvals[0].id, "allow")
        last = await session.wait(cell_id)
        assert (result(last), texts(last)) == ("all", [PAID])


@in_both
async def test_time_that_a_person_takes_is_not_the_cells(language: str) -> None:
    till = Till()
    async with House(cells=CellLimits(cell_wall_ms=1_000)) as house:
        session = await house.open(language, till.tool)
        seen = await asked(session)
        # Longer than all the time that the cell has: it has used none of it meanwhile.
        assert isinstance(await session.wait(seen.cell_id, yield_ms=1_050), WaitingForApproval)
        observer = await observe(session, seen.cell_id)
        await house.cloister.decide(seen.approvals[0].id, "allow")
        assert result(await observer) == PAID


@pytest.mark.anyio
@pytest.mark.parametrize("by", ["exec", "wait_any"])
async def test_question_that_is_answered_before_its_observer_looks_is_no_reason_to_yield(by: str) -> None:
    till, answering = Till(), list[asyncio.Task[None]]()

    async def answer() -> None:
        for approval in await cloister.approvals(state="pending"):
            await cloister.decide(approval.id, "allow")

    def heard(event: Event) -> None:
        # Done after the observer is woken, and before it has come to look.
        if event.kind == "cell.hibernated":
            answering.append(asyncio.get_running_loop().create_task(answer()))

    async with Cloister(tools=[till.tool], on_event=heard) as cloister:
        session = await cloister.open_session()
        if by == "exec":
            seen = await session.exec("await refund('A7')", yield_ms=LONG)
        else:
            cell_id = (await session.exec("await refund('A7')", yield_ms=0)).cell_id
            seen = await session.wait_any([cell_id], timeout_ms=LONG)
        await answering[0]
    assert isinstance(seen, Completed), seen
    assert seen.result == PAID
