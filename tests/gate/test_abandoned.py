"""A caller that goes away takes its tool along, and a tool that does not stop is left behind."""

import asyncio
import gc
import inspect
import logging
import threading
import time
import weakref
from contextlib import suppress

import anyio
import pytest

from cloister.core.limits import CapabilityLimits
from cloister.gate import errand
from cloister.gate.refusal import Refusal
from tests.gate.workbench import Bell, Stubborn, Stuck, Workbench, no_time

pytestmark = pytest.mark.anyio


@pytest.fixture
def ample_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """For those who stop when they are told to, on however busy a machine."""
    monkeypatch.setattr(errand, "GRACE", 60.0)


# -- its caller goes away ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("ample_grace")
async def test_caller_that_is_cancelled_takes_the_tool_along() -> None:
    began = asyncio.Event()
    seen: list[str] = []

    async def tool() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            seen.append("cleaned up")

    bench = Workbench(tool)
    call = bench.begin()
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert seen == ["cleaned up"]
    assert bench.contexts[0].cancelled
    await bench.idle()


@pytest.mark.usefixtures("ample_grace")
async def test_scope_of_anyio_that_is_cancelled_leaves_the_tool_its_grace() -> None:
    began = asyncio.Event()
    seen: list[str] = []

    async def tool() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            seen.append("cleaned up")

    bench = Workbench(tool)
    async with anyio.create_task_group() as group:
        group.start_soon(bench.call)
        await began.wait()
        group.cancel_scope.cancel()
    assert seen == ["cleaned up"]


async def test_call_that_is_cancelled_before_its_first_step_never_touches_the_tool() -> None:
    for function in (no_time, lambda: no_time()):
        bench = Workbench(function)
        call = bench.begin()
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await bench.idle()
    gc.collect()


async def test_caller_that_is_cancelled_in_line_leaves_no_trace() -> None:
    tool = Stubborn()
    bench = Workbench(tool.__call__, CapabilityLimits(concurrency=1))
    first = bench.begin()
    await tool.began.wait()
    second, third = bench.begin(), bench.begin()
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    tool.let_go.set()
    assert [await first, await third] == ["late", "late"]
    assert (bench.quota.running, bench.quota.waiting) == (0, 0)


async def test_caller_that_is_cancelled_while_it_is_written_down_gives_its_slot_back() -> None:
    writing = asyncio.Event()

    async def started() -> None:
        writing.set()
        await asyncio.Event().wait()

    bench = Workbench(no_time, started=started)
    call = bench.begin()
    await writing.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert bench.quota.running == 0


@pytest.mark.usefixtures("ample_grace")
async def test_plain_function_hears_that_its_caller_was_cancelled() -> None:
    bench: Workbench
    began = Bell()

    def slow() -> None:
        began.ring()
        while not bench.contexts[0].cancelled:
            time.sleep(0.001)

    bench = Workbench(slow)
    call = bench.begin()
    await began.heard()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await bench.idle()


# -- tools that do not stop --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["timeout", "cancelled"])
async def test_async_tool_that_does_not_stop_holds_nobody_but_its_slot(how: str) -> None:
    tool = Stubborn()
    bench = Workbench(tool.__call__, CapabilityLimits(concurrency=1))
    call = bench.begin(timeout_ms=20 if how == "timeout" else None)
    await tool.began.wait()
    if how == "cancelled":
        call.cancel()
    with pytest.raises(Refusal if how == "timeout" else asyncio.CancelledError):
        await call
    assert bench.abandoned.is_set()
    assert tool.told.is_set()
    assert bench.quota.running == 1
    with pytest.raises(Refusal, match="for its turn"):
        await bench.call(timeout_ms=20)
    tool.let_go.set()
    await bench.idle()
    # The slot serves again.
    assert await bench.call() == "late"


@pytest.mark.parametrize("how", ["timeout", "cancelled"])
async def test_plain_function_that_never_returns_holds_nobody_but_its_slot(how: str) -> None:
    function = Stuck()
    bench = Workbench(function.__call__, CapabilityLimits(concurrency=1))
    call = bench.begin(timeout_ms=20 if how == "timeout" else None)
    await function.began.heard()
    if how == "cancelled":
        call.cancel()
    with pytest.raises(Refusal if how == "timeout" else asyncio.CancelledError):
        await call
    assert bench.abandoned.is_set()
    assert bench.contexts[0].cancelled
    with pytest.raises(Refusal, match="for its turn"):
        await bench.call(timeout_ms=20)
    assert bench.quota.running == 1
    function.let_go.set()
    await bench.idle()
    assert await bench.call() == "late"


async def test_forty_stuck_functions_stop_nobody_else() -> None:
    function = Stuck()
    stuck = Workbench(function.__call__, CapabilityLimits(concurrency=40))
    calls = [stuck.begin() for _ in range(40)]
    for _ in range(40):
        await function.began.heard()
    assert await Workbench(lambda: "through").call() == "through"
    function.let_go.set()
    await asyncio.gather(*calls)


@pytest.mark.usefixtures("ample_grace")
async def test_second_cancellation_does_not_wait_for_the_grace() -> None:
    tool = Stubborn()
    bench = Workbench(tool.__call__)
    call = bench.begin()
    await tool.began.wait()
    call.cancel()
    await tool.told.wait()
    assert not bench.abandoned.is_set()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert bench.abandoned.is_set()
    tool.let_go.set()
    await bench.idle()


async def test_abandoned_tool_is_not_swept_away_by_the_garbage_collector() -> None:
    future: weakref.ref[asyncio.Future[None]] | None = None

    async def alone() -> None:
        nonlocal future
        waits: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Only this frame holds the future, and only the future holds this frame.
        future = weakref.ref(waits)
        while not waits.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(waits)

    bench = Workbench(alone)
    with pytest.raises(Refusal):
        await bench.call(timeout_ms=20)
    gc.collect()
    assert future is not None
    waits = future()
    assert waits is not None
    waits.set_result(None)
    await bench.idle()


@pytest.mark.parametrize("says", ["s3cret", ValueError("s3cret"), KeyboardInterrupt("s3cret")], ids=repr)
async def test_what_an_abandoned_tool_says_is_dropped_and_only_its_kind_is_logged(
    says: object, caplog: pytest.LogCaptureFixture
) -> None:
    tool = Stubborn()
    tool.says = says
    bench = Workbench(tool.__call__)
    with caplog.at_level(logging.DEBUG, "cloister.gate"):
        with pytest.raises(Refusal):
            await bench.call(timeout_ms=20)
        tool.let_go.set()
        await bench.idle()
        await asyncio.sleep(0)
    [given_up, ended] = [record for record in caplog.records if record.name == "cloister.gate"]
    assert (given_up.levelname, ended.levelname) == ("WARNING", "DEBUG")
    kind = type(says).__name__ if isinstance(says, BaseException) else "a result"
    assert ended.getMessage() == f"tool try_it, abandoned before, ended with {kind}"
    assert "s3cret" not in caplog.text


async def test_coroutine_that_comes_too_late_is_closed_and_not_begun() -> None:
    begun: list[str] = []

    async def inner() -> None:
        begun.append("begun")

    made = inner()
    function = Stuck(lambda: made)
    bench = Workbench(function.__call__)
    with pytest.raises(Refusal):
        await bench.call(timeout_ms=20)
    assert bench.abandoned.is_set()
    function.let_go.set()
    await bench.idle()
    assert inspect.getcoroutinestate(made) == inspect.CORO_CLOSED
    assert not begun


async def test_loop_that_ends_does_not_wait_for_an_abandoned_function() -> None:
    """And what the function makes later is closed in its own thread; else Python would warn, which fails the test."""
    function: Stuck
    dropped, over = Bell(), Bell()

    def give() -> object:
        made = no_time()
        weakref.finalize(made, dropped.ring)
        return made

    def another_loop() -> None:
        async def main() -> None:
            with pytest.raises(Refusal):
                await Workbench(function.__call__).call(timeout_ms=20)

        asyncio.run(main())
        over.ring()

    function = Stuck(give)
    threading.Thread(target=another_loop).start()
    await over.heard()
    function.let_go.set()
    await dropped.heard()
    gc.collect()
