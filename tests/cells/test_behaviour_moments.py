"""Two things in one moment: a caller that leaves while its run ends, a decision while an approver thinks, a snapshot
while others stand in line. Nothing happens twice, and no turn and no worker is lost."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cloister import (
    Approval,
    ApprovalState,
    CellBusy,
    CellLimits,
    EngineUnavailable,
    Interrupted,
    RunStatus,
    Session,
    Terminated,
    WaitingForApproval,
)
from cloister.cells.seats import Seats
from cloister.cells.tape import MAX_STEPS
from cloister.sessions.setting import Setting
from tests.cells.lab import (
    LONG,
    House,
    Latch,
    a_few_rounds,
    error_code,
    in_both,
    observe,
    program,
    result,
    start,
    states,
)
from tests.sessions.till import Till


async def until_listed(session: Session, state: str) -> None:
    """The session's only cell is in this state."""
    while await states(session) != [state]:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House() as made:
        yield made


# -- a caller that leaves ---------------------------------------------------------------------------------------------


class Gate:
    """Holds back whoever comes through a method, once it is shut."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.came, self.open = asyncio.Event(), asyncio.Event()
        self.shut = False
        passed = getattr(owner, name)

        async def held(*args: Any, **named: Any) -> Any:
            if self.shut:
                self.shut = False
                self.came.set()
                await self.open.wait()
            return await passed(*args, **named)

        monkeypatch.setattr(owner, name, held)


@in_both
async def test_run_whose_caller_leaves_in_the_moment_of_its_end_leaves_the_turn_to_others(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with House() as house:
        session = await house.open(language)
        await session.run(program(language, "let", "x", 1))
        closing = Gate(monkeypatch, Seats, "_close")
        closing.shut = True
        running = asyncio.create_task(session.run(program(language, "loop"), limits={"cpu_ms": 100}))
        # The program has ended; its worker is on the way back.
        await closing.came.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        closing.open.set()
        assert await session.cells() == []
        assert (await session.run("x")).result == 1


@in_both
async def test_resume_whose_caller_leaves_in_the_moment_of_its_end_leaves_the_turn_to_others(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    till = Till()
    async with House() as house:
        session = await house.open(language, till.tool)
        code = "await refund('A7')\n" + program(language, "loop")
        asked = await session.run(code, limits={"cpu_ms": 100})
        await house.cloister.decide(asked.approvals[0].id, "allow")
        closing = Gate(monkeypatch, Seats, "_close")
        closing.shut = True
        resuming = asyncio.create_task(session.resume(asked.cell_id))
        await closing.came.wait()
        resuming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await resuming
        closing.open.set()
        assert await session.cells() == []
        assert (await session.run("1 + 1")).result == 2


@in_both
async def test_cell_that_is_terminated_while_its_worker_goes_back_ends_as_its_program_did(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with House() as house:
        session = await house.open(language)
        closing = Gate(monkeypatch, Seats, "_close")
        closing.shut = True
        cell_id = await start(session, program(language, "loop"), limits={"cpu_ms": 100})
        await closing.came.wait()
        ending = asyncio.create_task(session.terminate(cell_id))
        await a_few_rounds()
        closing.open.set()
        assert error_code(await ending) == "TIMEOUT_CPU"
        assert (await session.run("1 + 1")).result == 2


@in_both
async def test_run_whose_caller_leaves_while_its_variables_are_put_to_bytes_keeps_no_worker(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with House(workers=1) as house:
        session, other = await house.open(language), await house.open(language)
        await session.run(program(language, "let", "x", 1))
        saving = Gate(monkeypatch, Seats, "_save")
        # So many that the namespace is put to bytes when the next one ends.
        for _ in range(MAX_STEPS - 2):
            await session.run("1")
        saving.shut = True
        running = asyncio.create_task(session.run(program(language, "let", "x", 2)))
        await saving.came.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await other.run("1 + 1")).result == 2
        assert (await session.run("x")).result == 2


@in_both
async def test_run_whose_caller_leaves_while_its_end_is_written_down_ends_as_it_did(
    language: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    writing = Gate(monkeypatch, Setting, "write_end")
    async with House(store=f"sqlite:///{tmp_path}/cells.db") as house:
        session = await house.open(language)
        writing.shut = True
        running = asyncio.create_task(session.run(program(language, "let", "x", 1) + "\nstore('k', 2)"))
        await writing.came.wait()
        running.cancel()
        await a_few_rounds()
        writing.open.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await session.cells() == []
        assert (await session.run("[x, load('k')]")).result == [1, 2]
        assert [str(cell.state) for cell in await session.history()] == ["completed", "completed"]
    async with House(store=f"sqlite:///{tmp_path}/cells.db") as house:
        session = await house.open(language)
        assert (await session.run("[x, load('k')]")).result == [1, 2]


# -- an approver that thinks ------------------------------------------------------------------------------------------


class Thinker:
    """An approver that has not made up its mind until the test says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def __call__(self, approval: Approval) -> str:
        self.asked.set()
        await self.may_answer.wait()
        return "allow"


async def _thinking(house: House, session: Session, thinker: Thinker) -> "tuple[asyncio.Task[Any], str, str]":
    """A run whose question the approver thinks about."""
    running = asyncio.create_task(session.run("text('once')\nawait refund('A7')"))
    await thinker.asked.wait()
    (approval,) = await house.cloister.approvals(session_id=session.id)
    await until_listed(session, "asleep")
    return running, approval.id, approval.cell_id


@pytest.mark.parametrize("way", ["resume", "wait", "wait_any"])
@in_both
async def test_run_whose_question_is_answered_elsewhere_is_driven_by_its_caller_alone(language: str, way: str) -> None:
    thinker, till = Thinker(), Till()
    async with House(approver=thinker) as house:
        session = await house.open(language, till.tool)
        running, approval_id, cell_id = await _thinking(house, session, thinker)
        await house.cloister.decide(approval_id, "allow")
        # In the very moment in which the run is told so.
        with pytest.raises(CellBusy, match="belongs to a run that is under way"):
            await _ask(session, way, cell_id)
        ended = await running
        assert (ended.result, texts_of(ended)) == ("paid 10 for A7", ["once"])
        assert till.paid == [("A7", 10)]
        assert await session.cells() == []
        assert (await session.run("1 + 1")).result == 2


async def _ask(session: Session, way: str, cell_id: str) -> None:
    match way:
        case "resume":
            await session.resume(cell_id)
        case "wait":
            await session.wait(cell_id, yield_ms=0)
        case _:
            await session.wait_any([cell_id], timeout_ms=0)


def texts_of(ended: Any) -> list[str]:
    return [item["text"] for item in ended.content]


@in_both
async def test_resume_of_a_run_that_its_approver_thinks_about_says_whom_it_waits_for(language: str) -> None:
    thinker, till = Thinker(), Till()
    async with House(approver=thinker) as house:
        session = await house.open(language, till.tool)
        running, approval_id, cell_id = await _thinking(house, session, thinker)
        looked = await session.resume(cell_id)
        assert looked.status is RunStatus.WAITING_FOR_APPROVAL
        assert [approval.id for approval in looked.approvals] == [approval_id]
        thinker.may_answer.set()
        assert (await running).result == "paid 10 for A7"
        assert till.paid == [("A7", 10)]


@in_both
async def test_run_that_its_approver_thinks_about_can_be_terminated(language: str) -> None:
    thinker, till = Thinker(), Till()
    async with House(approver=thinker) as house:
        session = await house.open(language, till.tool)
        running, approval_id, cell_id = await _thinking(house, session, thinker)
        assert isinstance(await session.terminate(cell_id), Terminated)
        assert (await running).status is RunStatus.CANCELLED
        (approval,) = await house.cloister.approvals(session_id=session.id)
        assert (approval.id, approval.state) == (approval_id, ApprovalState.CANCELLED)
        assert till.paid == []
        assert (await session.run("1 + 1")).result == 2


# -- a run that waits for a worker ------------------------------------------------------------------------------------


@in_both
async def test_run_that_waits_for_its_first_worker_is_terminated_at_once(language: str) -> None:
    async with House(workers=1) as house:
        busy, other = await house.open(language), await house.open(language)
        looping = await busy.exec(program(language, "loop"), yield_ms=LONG)
        running = asyncio.create_task(other.run("text('never')"))
        await until_listed(other, "queued")
        (cell,) = await other.cells()
        assert isinstance(await other.terminate(cell.id), Terminated)
        assert (await running).status in (RunStatus.CANCELLED, RunStatus.INTERRUPTED)
        assert isinstance(await busy.terminate(looping.cell_id), Terminated)
        assert [(await session.run("1 + 1")).result for session in (busy, other)] == [2, 2]


@in_both
async def test_run_that_waits_for_a_worker_to_wake_on_is_terminated_at_once(language: str) -> None:
    latch = Latch()
    async with House(workers=1, cells=CellLimits(hibernate_after_ms=0)) as house:
        busy, other = await house.open(language), await house.open(language, latch.tool)
        await other.run(program(language, "let", "x", 1))
        running = asyncio.create_task(other.run(program(language, "let", "x", 2) + "\nawait hold(1)"))
        await latch.until_came()
        await until_listed(other, "asleep")
        looping = await busy.exec(program(language, "loop"), yield_ms=LONG)
        await latch.let_go()
        await a_few_rounds()
        (cell,) = await other.cells()
        assert isinstance(await other.terminate(cell.id), Terminated)
        assert (await running).status in (RunStatus.CANCELLED, RunStatus.INTERRUPTED)
        assert isinstance(await busy.terminate(looping.cell_id), Terminated)
        assert (await other.run("x")).result == 1
        assert (await busy.run("1 + 1")).result == 2


@in_both
async def test_session_whose_run_waits_for_a_worker_is_closed_at_once(language: str) -> None:
    async with House(workers=1) as house:
        busy, other = await house.open(language), await house.open(language)
        looping = await busy.exec(program(language, "loop"), yield_ms=LONG)
        running = asyncio.create_task(other.run("text('never')"))
        await until_listed(other, "queued")
        await other.close()
        assert (await running).status is RunStatus.INTERRUPTED
        assert isinstance(await busy.terminate(looping.cell_id), Terminated)
        assert (await busy.run("1 + 1")).result == 2


# -- a snapshot while others stand in line ----------------------------------------------------------------------------


@in_both
async def test_snapshot_of_a_run_is_what_it_left_and_not_what_came_after_it(
    house: House, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    latch = Latch()
    saving = Gate(monkeypatch, Seats, "_save")

    async def one(session: Session, n: int) -> bytes:
        code = program(language, "let", "x", n) + f"\nstore('x', {n})\nawait hold({n})"
        ended = await session.run(code, return_snapshot=True)
        assert ended.result == n, ended
        assert ended.snapshot is not None
        return ended.snapshot

    async with await house.open(language, latch.tool) as session:
        running = [asyncio.create_task(one(session, n)) for n in range(3)]
        await latch.until_came()
        saving.shut = True
        await latch.let_go(0)
        await saving.came.wait()
        # The next one would come now, if it could.
        await a_few_rounds()
        saving.open.set()
        await latch.let_go()
        for n, snapshot in enumerate(await asyncio.gather(*running)):
            name = f"{session.id}-{n}"
            async with await house.cloister.restore_session(snapshot, session_id=name, tools=[latch.tool]) as copy:
                assert (await copy.run("[x, load('x')]")).result == [n, n]
        assert (await session.run("x")).result == 2


# -- a worker that is not to be had -----------------------------------------------------------------------------------


@in_both
async def test_questions_of_a_cell_that_could_not_wake_are_closed(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    till = Till()
    async with House() as house:
        session = await house.open(language, till.tool)
        asked = await session.exec(program(language, "together", "refund('A7'), refund('B8')"))
        assert isinstance(asked, WaitingForApproval)

        async def no_worker(*_args: Any, **_named: Any) -> Any:
            raise EngineUnavailable("no worker starts")

        with monkeypatch.context() as broken:
            broken.setattr(Seats, "open", no_worker)
            await house.cloister.decide(asked.approvals[0].id, "deny")
            ended = await session.wait(asked.cell_id)
        assert isinstance(ended, Interrupted)
        assert "no worker starts" in ended.error.message
        other = await house.cloister.approvals(session_id=session.id, state="pending")
        assert other == []
        assert till.paid == []
        assert (await session.run("1 + 1")).result == 2


# -- several at once --------------------------------------------------------------------------------------------------


@in_both
async def test_wait_any_that_is_refused_changes_nothing(house: House, language: str) -> None:
    latch, till = Latch(), Till()
    async with await house.open(language, latch.tool, till.tool) as session:
        asked = await session.run("await refund('A7')")
        isolated = await start(session, "await hold(1)", isolated=True)
        observer = await observe(session, isolated)
        with pytest.raises(CellBusy, match="already has an active observer"):
            await session.wait_any([asked.cell_id, isolated])
        # It still waits for its resume, and does not go on by itself.
        await house.cloister.decide(asked.approvals[0].id, "allow")
        await a_few_rounds()
        assert till.paid == []
        assert (await session.resume(asked.cell_id)).result == "paid 10 for A7"
        await latch.let_go()
        assert result(await observer) == 1


@in_both
async def test_wait_any_with_a_run_under_way_changes_nothing(house: House, language: str) -> None:
    latch, till = Latch(), Till()
    async with await house.open(language, latch.tool, till.tool) as session:
        isolated = await start(session, "await refund('A7')", isolated=True)
        running = asyncio.create_task(session.run("await hold(1)"))
        await latch.until_came()
        (under_way,) = [cell.id for cell in await session.cells() if cell.id != isolated]
        with pytest.raises(CellBusy, match="belongs to a run that is under way"):
            await session.wait_any([isolated, under_way])
        assert [cell.observed for cell in await session.cells()] == [False, False]
        await latch.let_go()
        assert (await running).result == 1
