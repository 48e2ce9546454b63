"""One tool at work: what it returns and raises, its time and its turn."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from cloister.core.call import CallStatus
from cloister.core.limits import CapabilityLimits
from cloister.gate import errand
from cloister.gate.dispatch import ToolBroke
from cloister.gate.refusal import Refusal
from cloister.tools.context import CallContext
from cloister.tools.tool import ToolError
from tests.gate.workbench import Stubborn, Workbench, no_time

pytestmark = pytest.mark.anyio


@pytest.fixture
def ample_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """For those who stop when they are told to, on however busy a machine."""
    monkeypatch.setattr(errand, "GRACE", 60.0)


COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("COLOUR", default="none")


def in_loop_or_thread(raised: BaseException) -> list[Callable[[], Any]]:
    def plain() -> None:
        raise raised

    async def asynchronous() -> None:
        await asyncio.sleep(0)
        raise raised

    async def at_once() -> None:
        raise raised

    def wrapped() -> Coroutine[Any, Any, None]:
        return at_once()

    return [plain, asynchronous, at_once, wrapped]


# -- what a tool returns -----------------------------------------------------------------------------------------------


async def test_async_tool_gets_its_arguments_and_its_result_comes_back() -> None:
    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    assert await Workbench(add).call(1, b=2) == 3


async def test_plain_function_runs_beside_the_loop_and_its_result_comes_back() -> None:
    def where(a: int, b: int) -> tuple[int, bool]:
        return a + b, threading.current_thread() is threading.main_thread()

    assert await Workbench(where).call(1, b=2) == (3, False)


async def test_result_is_handed_over_as_it_is() -> None:
    thing = object()

    async def give() -> object:
        return thing

    assert await Workbench(give).call() is thing
    assert await Workbench(lambda: thing).call() is thing


async def test_awaitable_that_a_plain_function_returns_is_awaited_on_the_loop() -> None:
    async def inner(n: int) -> tuple[int, bool]:
        await asyncio.sleep(0)
        return n, threading.current_thread() is threading.main_thread()

    def outer(n: int) -> Coroutine[Any, Any, tuple[int, bool]]:
        return inner(n)

    assert await Workbench(outer).call(7) == (7, True)


async def test_contextvars_of_the_caller_reach_the_tool_and_its_own_stay_with_it() -> None:
    def plain() -> str:
        seen = COLOUR.get()
        COLOUR.set("plain")
        return seen

    async def asynchronous() -> str:
        return plain()

    COLOUR.set("blue")
    assert await Workbench(plain).call() == "blue"
    assert await Workbench(asynchronous).call() == "blue"
    assert COLOUR.get() == "blue"


async def test_tool_that_asks_for_the_context_gets_that_of_its_call() -> None:
    async def asynchronous(n: int, ctx: CallContext) -> tuple[int, CallContext]:
        return n, ctx

    def plain(n: int, ctx: CallContext) -> tuple[int, CallContext]:
        return n, ctx

    for function in (asynchronous, plain):
        bench = Workbench(function)
        assert await bench.call(n=1) == (1, bench.contexts[0])
        assert await bench.call(2) == (2, bench.contexts[1])


# -- what a tool raises ------------------------------------------------------------------------------------------------


async def test_what_a_tool_chose_to_say_comes_as_it_chose() -> None:
    said = ToolError("NO_STOCK", "none left", "order less")
    for function in in_loop_or_thread(said):
        with pytest.raises(ToolError) as caught:
            await Workbench(function).call()
        assert caught.value is said


class Odd(BaseException):
    pass


@pytest.mark.parametrize(
    "raised", [ValueError, TimeoutError, Odd, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError]
)
async def test_anything_else_that_it_raises_is_contained(raised: type[BaseException]) -> None:
    for function in in_loop_or_thread(raised("/etc/passwd")):
        bench = Workbench(function)
        with pytest.raises(ToolBroke) as caught:
            await bench.call()
        assert type(caught.value.error) is raised
        assert "/etc/passwd" not in str(caught.value)
        await bench.idle()


async def test_stop_iteration_is_contained_too() -> None:
    def plain() -> None:
        raise StopIteration

    with pytest.raises(ToolBroke):
        await Workbench(plain).call()


async def test_tool_that_cancels_its_own_task_has_failed_and_nobody_else_is_cancelled() -> None:
    async def and_waits() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async def and_returns() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    for function in (and_waits, and_returns):
        bench = Workbench(function)
        with pytest.raises(ToolBroke) as caught:
            await bench.call()
        assert isinstance(caught.value.error, asyncio.CancelledError)
        await bench.idle()


async def test_timeout_inside_a_tool_is_its_own_failure() -> None:
    async def impatient() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    with pytest.raises(ToolBroke) as caught:
        await Workbench(impatient).call()
    assert isinstance(caught.value.error, TimeoutError)


# -- its time ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("ample_grace")
async def test_async_tool_is_cancelled_when_its_time_is_over() -> None:
    seen: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    bench = Workbench(slow, CapabilityLimits(timeout_ms=20))
    with pytest.raises(Refusal) as caught:
        await bench.call()
    assert (caught.value.status, caught.value.error.code) == (CallStatus.TIMEOUT, "TIMEOUT_TOOL")
    assert caught.value.error.message == "`try_it` took longer than 20 ms"
    assert seen == ["cancelled"]
    assert bench.contexts[0].cancelled
    assert not bench.abandoned.is_set()
    await bench.idle()


@pytest.mark.usefixtures("ample_grace")
async def test_plain_function_that_looks_at_its_context_stops_when_its_time_is_over() -> None:
    bench: Workbench

    def slow() -> None:
        while not bench.contexts[0].cancelled:
            time.sleep(0.001)

    bench = Workbench(slow, CapabilityLimits(timeout_ms=20))
    with pytest.raises(Refusal, match="took longer than 20 ms"):
        await bench.call()
    await bench.idle()
    assert not bench.abandoned.is_set()


@pytest.mark.usefixtures("ample_grace")
async def test_awaitable_of_a_plain_function_has_the_same_deadline() -> None:
    seen: list[str] = []

    async def inner() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    bench = Workbench(lambda: inner(), CapabilityLimits(timeout_ms=20))
    with pytest.raises(Refusal, match="took longer than 20 ms"):
        await bench.call()
    assert seen == ["cancelled"]
    await bench.idle()


async def test_answer_that_comes_after_the_time_is_no_answer() -> None:
    async def late() -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "late"

    async def sorry() -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise ToolError("SORRY", "late")

    for function in (late, sorry):
        with pytest.raises(Refusal, match="took longer"):
            await Workbench(function).call(timeout_ms=20)


async def test_tool_that_is_done_in_time_leaves_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    real = loop.call_later

    def watched(*args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        timers.append(real(*args, **kwargs))
        return timers[-1]

    monkeypatch.setattr(loop, "call_later", watched)
    await Workbench(lambda: None).call()
    assert [timer.cancelled() for timer in timers] == [True]


# -- its turn ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [False, True])
async def test_no_more_run_at_once_than_the_concurrency_allows(plain: bool) -> None:
    inside: list[int] = []
    most = 0
    door, full = asyncio.Event(), asyncio.Event()

    async def enter(n: int) -> int:
        nonlocal most
        inside.append(n)
        most = max(most, len(inside))
        if most == 3:
            full.set()
        await door.wait()
        inside.remove(n)
        return n

    def outer(n: int) -> Coroutine[Any, Any, int]:
        return enter(n)

    bench = Workbench(outer if plain else enter, CapabilityLimits(concurrency=3))
    calls = [bench.begin(n) for n in range(10)]
    await full.wait()
    door.set()
    assert await asyncio.gather(*calls) == list(range(10))
    assert most == 3
    await bench.idle()


async def test_wait_for_a_slot_counts_against_the_call_s_own_time() -> None:
    tool = Stubborn()
    bench = Workbench(tool.__call__, CapabilityLimits(concurrency=1))
    first = bench.begin()
    await tool.began.wait()
    tool.began.clear()
    with pytest.raises(Refusal) as caught:
        await bench.call(timeout_ms=20)
    assert (caught.value.status, caught.value.error.code) == (CallStatus.TIMEOUT, "TIMEOUT_TOOL")
    assert caught.value.error.message == "`try_it` waited longer than 20 ms for its turn"
    assert caught.value.error.hint == "make fewer calls at once: 1 run at a time"
    assert not tool.began.is_set()
    assert (bench.quota.running, bench.quota.waiting) == (1, 0)
    tool.let_go.set()
    assert await first == "late"


async def test_wait_for_a_token_counts_against_the_call_s_own_time() -> None:
    calls = 0

    async def count() -> None:
        nonlocal calls
        calls += 1

    bench = Workbench(count, CapabilityLimits(rate_per_min=1))
    await bench.call()
    with pytest.raises(Refusal, match="waited longer than 20 ms for its turn") as caught:
        await bench.call(timeout_ms=20)
    assert caught.value.error.hint == "make fewer calls at once: 16 run at a time, at most 1 a minute"
    assert calls == 1
    assert (bench.quota.running, bench.quota.waiting) == (0, 0)


async def test_call_that_waited_and_then_ran_too_long_says_so() -> None:
    first, second = Stubborn(), Stubborn()
    tools = [first, second]

    async def each() -> object:
        return await tools.pop(0)()

    bench = Workbench(each, CapabilityLimits(concurrency=1))
    ahead = bench.begin()
    await first.began.wait()
    behind = bench.begin(timeout_ms=300)
    await asyncio.sleep(0)
    first.let_go.set()
    await ahead
    with pytest.raises(Refusal, match="took longer than 300 ms, the wait for its turn included"):
        await behind
    assert second.began.is_set()
    second.let_go.set()
    await bench.idle()


async def test_slot_is_back_when_the_caller_hears_the_answer() -> None:
    async def quick() -> None:
        pass

    for function in (quick, lambda: None):
        bench = Workbench(function, CapabilityLimits(concurrency=1))
        await bench.call()
        assert bench.quota.running == 0


# -- before it starts --------------------------------------------------------------------------------------------------


async def test_started_is_awaited_after_the_turn_and_before_the_tool() -> None:
    order: list[str] = []

    async def tool() -> None:
        order.append("tool")

    async def started() -> None:
        await asyncio.sleep(0)
        order.append(f"started, {bench.quota.running} running")

    bench = Workbench(tool, started=started)
    await bench.call()
    assert order == ["started, 1 running", "tool"]


async def test_call_that_never_had_its_turn_was_never_started() -> None:
    tool = Stubborn()
    bench = Workbench(tool.__call__, CapabilityLimits(concurrency=1))
    first = bench.begin()
    await tool.began.wait()
    bench.started = no_time
    with pytest.raises(Refusal, match="for its turn"):
        await bench.call(timeout_ms=20)
    tool.let_go.set()
    await first


async def test_what_started_raises_is_raised_and_the_tool_is_not_touched() -> None:
    async def started() -> None:
        await asyncio.sleep(0)
        raise LookupError("no journal")

    bench = Workbench(no_time, started=started)
    with pytest.raises(LookupError, match="no journal"):
        await bench.call()
    assert bench.quota.running == 0


async def test_time_that_started_takes_counts_but_it_is_not_cut_short() -> None:
    written: list[str] = []

    async def started() -> None:
        await asyncio.sleep(0.03)
        written.append("whole")

    bench = Workbench(no_time, started=started)
    with pytest.raises(Refusal, match="took longer than 20 ms"):
        await bench.call(timeout_ms=20)
    assert written == ["whole"]
    assert bench.quota.running == 0
