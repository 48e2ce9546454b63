"""Cancellation, through sessions: it reaches the tools, and a tool that ignores it holds up nobody."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cloister import (
    ApprovalState,
    CallContext,
    CapabilityLimits,
    Event,
    RunResult,
    RunStatus,
    SessionClosed,
    SessionLimits,
    Tool,
    ToolError,
)
from tests.sessions.door import codes, value
from tests.sessions.ways import LANGUAGES, WAYS, House, call, written

pytestmark = pytest.mark.anyio

both_languages = pytest.mark.parametrize("language", LANGUAGES)
KINDS = ("in_a_task", "in_a_thread")
LONG = SessionLimits(wall_ms=60_000)


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House(limits=LONG) as made:
        yield made


class Bell:
    """Rung in any thread, heard on the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._loop.call_soon_threadsafe(self._rung.set)

    async def heard(self) -> None:
        # The bound only turns a hang into a failure.
        await asyncio.wait_for(self._rung.wait(), 20)


class Worker:
    """Two tools that work until they are told to stop: one in a task, one in a thread."""

    def __init__(self, timeout_ms: int = 60_000) -> None:
        self.began, self.stopped = Bell(), Bell()
        self.contexts: list[CallContext] = []
        limits = CapabilityLimits(timeout_ms=timeout_ms)
        self.tools = [Tool(self.in_a_task, limits=limits), Tool(self.in_a_thread, limits=limits)]

    async def in_a_task(self, ctx: CallContext) -> None:
        self.contexts.append(ctx)
        self.began.ring()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.stopped.ring()
            raise

    def in_a_thread(self, ctx: CallContext) -> None:
        self.contexts.append(ctx)
        self.began.ring()
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        self.stopped.ring()


class Deaf:
    """Two tools that do not stop, until they are let go."""

    def __init__(self, limits: CapabilityLimits | None = None) -> None:
        self.began, self.ended = Bell(), Bell()
        self._let_go, self._thread_let_go = asyncio.Event(), threading.Event()
        self.running = self.peak = 0
        limits = limits or CapabilityLimits(timeout_ms=60_000)
        self.tools = [Tool(self.in_a_task, limits=limits), Tool(self.in_a_thread, limits=limits)]

    def _count(self, by: int) -> None:
        self.running += by
        self.peak = max(self.peak, self.running)

    async def in_a_task(self) -> None:
        self._count(1)
        self.began.ring()
        while not self._let_go.is_set():
            try:
                await self._let_go.wait()
            except asyncio.CancelledError:
                pass
        self._count(-1)
        self.ended.ring()

    def in_a_thread(self) -> None:
        self._count(1)
        self.began.ring()
        self._thread_let_go.wait(60)
        self._count(-1)
        self.ended.ring()

    async def let_go(self) -> None:
        self._let_go.set()
        self._thread_let_go.set()
        await self.ended.heard()


async def _soon(work: Any) -> Any:
    """The bound only turns a hang into a failure."""
    return await asyncio.wait_for(work, 20)


def _errors(result: RunResult) -> list[tuple[str, str | None]]:
    return [(record.name, record.error and record.error.code) for record in result.external_calls]


# -- calls that nobody waits for --------------------------------------------------------------------------------------


@both_languages
async def test_call_that_is_never_awaited_is_not_made_and_is_on_record(house: House, language: str) -> None:
    made: list[int] = []

    async def knock(n: int) -> None:
        made.append(n)

    async with await house.open(language, Tool(knock, side_effect="write")) as session:
        code = written(language, "knock", "1").removeprefix("await ")
        result = await session.run(f"{code};\n7")
        assert value(result) == 7
        assert made == []
        assert _errors(result) == [("knock", "CANCELLED")]
        assert result.external_calls[0].side_effect == "write"
        assert codes(result) == ["CALL_NOT_AWAITED"]


UNAWAITED = {
    "python": "import asyncio\nasync def both():\n    await asyncio.gather({tool}(), fail())\nawait both()",
    "typescript": "await Promise.all([tools.{tool}(), tools.fail()])",
}


@both_languages
@pytest.mark.parametrize("kind", KINDS)
async def test_call_under_way_is_cancelled_when_its_cell_ends_and_the_cell_ends_after_it(
    house: House, language: str, kind: str
) -> None:
    worker = Worker()

    async def fail() -> None:
        await worker.began.heard()
        raise ToolError("NOPE", "no")

    async with await house.open(language, *worker.tools, Tool(fail)) as session:
        result = await session.run(UNAWAITED[language].format(tool=kind))
        assert result.error is not None
        assert result.error.code == "NOPE"
        assert _errors(result) == [(kind, "CANCELLED"), ("fail", "NOPE")]
        assert [context.cancelled for context in worker.contexts] == [True]
        await worker.stopped.heard()


async def test_record_and_events_of_a_cancelled_call_have_its_own_id() -> None:
    heard: list[Event] = []
    worker = Worker()

    async def fail() -> None:
        await worker.began.heard()
        raise ToolError("NOPE", "no")

    async with House(on_event=heard.append) as house:
        session = await house.open("python", *worker.tools, Tool(fail))
        result = await session.run(UNAWAITED["python"].format(tool="in_a_task"))
    (context,) = worker.contexts
    assert result.external_calls[0].id == context.call_id
    told = [(event.kind, event.data["call_id"]) for event in heard if event.data.get("number") == 1]
    assert told == [("call.requested", context.call_id), ("call.settled", context.call_id)]
    settled = [event for event in heard if event.kind == "call.settled"]
    assert settled[-1].data["record"]["error"]["code"] == "CANCELLED"


async def test_call_that_ended_while_the_program_made_its_last_step_is_on_record_as_it_ended(house: House) -> None:
    loop = asyncio.get_running_loop()
    printed = asyncio.Event()

    def heard(_stream: str, _text: str) -> None:
        loop.call_soon_threadsafe(printed.set)

    async def late() -> int:
        await printed.wait()
        return 2

    async def fail() -> None:
        raise ToolError("NOPE", "no")

    # It computes for a while after the first call has ended, and does not wait for the second any more.
    code = """
import asyncio
async def both():
    await asyncio.gather(late(), fail())
try:
    await both()
except RuntimeError:
    print('failed', flush=True)
for i in range(2_000_000):
    pass
"""
    async with await house.open("python", Tool(late), Tool(fail)) as session:
        result = await session.run(code, on_output=heard)
        assert result.ok, result.error
        assert _errors(result) == [("late", None), ("fail", "NOPE")]


async def test_question_of_a_cancelled_run_is_withdrawn(house: House) -> None:
    worker = Worker()

    async def refund() -> None:
        raise AssertionError("must not be reached")

    async with await house.open("python", *worker.tools, Tool(refund, approval_policy="manual")) as session:
        run = asyncio.create_task(session.run("import asyncio\nawait asyncio.gather(refund(), in_a_task())"))
        await worker.began.heard()
        (approval,) = await house.cloister.approvals(session_id=session.id)
        assert approval.state is ApprovalState.PENDING
        run.cancel()
        await asyncio.wait([run])
        (approval,) = await house.cloister.approvals(session_id=session.id)
        assert approval.state is ApprovalState.CANCELLED


# -- what cancels -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_timeout_reaches_the_tool(house: House, way: str, kind: str) -> None:
    worker = Worker(timeout_ms=300)
    async with await house.open(way, *worker.tools) as session:
        result = await call(session, way, kind)
        assert _errors(result) == [(kind, "TIMEOUT_TOOL")]
        await worker.stopped.heard()
        assert worker.contexts[0].cancelled


@both_languages
@pytest.mark.parametrize("kind", KINDS)
async def test_end_of_the_cell_s_time_reaches_the_tool(house: House, language: str, kind: str) -> None:
    worker = Worker()
    async with await house.open(language, *worker.tools) as session:
        result = await session.run(written(language, kind), timeout_ms=800)
        assert result.error is not None
        assert result.error.code == "TIMEOUT_WALL"
        assert _errors(result) == [(kind, "CANCELLED")]
        await worker.stopped.heard()
        assert worker.contexts[0].cancelled


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_cancelled_run_reaches_the_tool(house: House, way: str, kind: str) -> None:
    worker = Worker()
    async with await house.open(way, *worker.tools) as session:
        run = asyncio.create_task(call(session, way, kind))
        await worker.began.heard()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await worker.stopped.heard()
        assert worker.contexts[0].cancelled
        assert value(await session.run("1 + 1")) == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_closing_the_session_reaches_the_tool(house: House, way: str, kind: str) -> None:
    worker = Worker()
    session = await house.open(way, *worker.tools)
    run = asyncio.create_task(call(session, way, kind))
    await worker.began.heard()
    await _soon(session.close())
    result = await _soon(run)
    assert result.status is RunStatus.INTERRUPTED
    assert worker.contexts[0].cancelled
    await worker.stopped.heard()
    assert _errors(result) == [(kind, "CANCELLED")]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_leaving_the_cloister_reaches_the_tool(way: str, kind: str) -> None:
    worker = Worker()
    async with House(limits=LONG) as house:
        session = await house.open(way, *worker.tools)
        run = asyncio.create_task(call(session, way, kind))
        await worker.began.heard()
    assert (await _soon(run)).status is RunStatus.INTERRUPTED
    await worker.stopped.heard()
    assert worker.contexts[0].cancelled


async def test_cancelled_resume_reaches_the_tool(house: House) -> None:
    worker = Worker()
    asked = Tool(worker.in_a_task, approval_policy="manual", limits=CapabilityLimits(timeout_ms=60_000))
    async with await house.open("python", asked) as session:
        waiting = await session.run("await in_a_task()")
        await house.cloister.decide(waiting.approvals[0].id, "allow")
        resume = asyncio.create_task(session.resume())
        await worker.began.heard()
        resume.cancel()
        with pytest.raises(asyncio.CancelledError):
            await resume
        await worker.stopped.heard()
        assert value(await session.run("1 + 1")) == 2


async def test_call_in_line_for_its_turn_is_cancelled_without_being_made(house: House) -> None:
    worker = Worker()
    one_at_a_time = Tool(worker.in_a_task, limits=CapabilityLimits(timeout_ms=60_000, concurrency=1))
    async with await house.open("python", one_at_a_time) as session:
        run = asyncio.create_task(session.run("import asyncio\nawait asyncio.gather(in_a_task(), in_a_task())"))
        await worker.began.heard()
        run.cancel()
        await asyncio.wait([run])
        await worker.stopped.heard()
        assert len(worker.contexts) == 1


# -- tools that do not listen ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_tool_that_ignores_its_timeout_does_not_hold_the_call(house: House, way: str, kind: str) -> None:
    deaf = Deaf(CapabilityLimits(timeout_ms=250))
    async with await house.open(way, *deaf.tools) as session:
        assert _errors(await _soon(call(session, way, kind))) == [(kind, "TIMEOUT_TOOL")]
        assert deaf.running == 1
        await deaf.let_go()


@both_languages
@pytest.mark.parametrize("kind", KINDS)
async def test_tool_that_ignores_cancellation_does_not_hold_the_cell(house: House, language: str, kind: str) -> None:
    deaf = Deaf()

    async def fail() -> None:
        await deaf.began.heard()
        raise ToolError("NOPE", "no")

    async with await house.open(language, *deaf.tools, Tool(fail)) as session:
        result = await _soon(session.run(UNAWAITED[language].format(tool=kind)))
        assert _errors(result) == [(kind, "CANCELLED"), ("fail", "NOPE")]
        assert deaf.running == 1
        assert value(await session.run("1 + 1")) == 2
        await deaf.let_go()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_tool_that_ignores_cancellation_does_not_hold_the_close(house: House, way: str, kind: str) -> None:
    deaf = Deaf()
    session = await house.open(way, *deaf.tools)
    run = asyncio.create_task(call(session, way, kind))
    await deaf.began.heard()
    await _soon(session.close())
    assert (await _soon(run)).status is RunStatus.INTERRUPTED
    assert deaf.running == 1
    with pytest.raises(SessionClosed):
        await session.call(kind)
    await deaf.let_go()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_tool_that_ignores_cancellation_does_not_hold_the_exit(way: str, kind: str) -> None:
    deaf = Deaf()
    house = House(limits=LONG)
    await house.__aenter__()
    session = await house.open(way, *deaf.tools)
    run = asyncio.create_task(call(session, way, kind))
    await deaf.began.heard()
    await _soon(house.__aexit__(None, None, None))
    assert (await _soon(run)).status is RunStatus.INTERRUPTED
    assert deaf.running == 1
    await deaf.let_go()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_slot_of_a_tool_that_does_not_end_stays_taken_until_it_has(house: House, way: str, kind: str) -> None:
    deaf = Deaf(CapabilityLimits(timeout_ms=250, concurrency=1))
    async with await house.open(way, *deaf.tools) as session:
        await call(session, way, kind)
        waiting = await call(session, way, kind)
        assert "for its turn" in str(waiting.error)
        assert deaf.peak == 1
        await deaf.let_go()
        assert (await call(session, way, kind)).ok


async def test_answer_of_a_tool_that_was_given_up_is_heard_by_nobody(house: House) -> None:
    let_go, ended = asyncio.Event(), asyncio.Event()

    async def late() -> str:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                pass
        ended.set()
        return "too late"

    async with await house.open("python", Tool(late, limits=CapabilityLimits(timeout_ms=250))) as session:
        await session.run("said = 'nothing'\ntry:\n    said = await late()\nexcept RuntimeError:\n    pass")
        let_go.set()
        await ended.wait()
        assert value(await session.run("said")) == "nothing"
