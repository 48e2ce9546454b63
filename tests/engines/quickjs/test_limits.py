import asyncio

import pytest

from cloister.core.codes import Code
from cloister.core.errors import InvalidLimits
from cloister.core.limits import SessionLimits
from cloister.ports.engine import Failed, Finished, Returned, Suspended

from .conftest import Driver, Opener

pytestmark = pytest.mark.anyio

RECURSE = "function down(n: number): number { return n === 0 ? 0 : down(n - 1) + 1 }\n"


@pytest.mark.parametrize("depth", [50, 256, 1000])
async def test_calls_may_nest_as_deep_as_the_limit_says(open_session: Opener, depth: int) -> None:
    session = await open_session(SessionLimits(max_stack_depth=depth))
    step = await session.run(RECURSE + f"down({int(depth * 0.8)})")
    assert isinstance(step, Finished), step
    step = await session.run(f"try {{ down({int(depth * 1.2)}) }} catch {{ 'caught' }}")
    assert isinstance(step, Failed)
    assert (step.error.code, step.fatal) == (Code.STACK_OVERFLOW, True)


async def test_more_than_a_worker_can_give_is_refused(open_session: Opener) -> None:
    for limits in (SessionLimits(max_stack_depth=2401), SessionLimits(memory_mb=1025)):
        with pytest.raises(InvalidLimits, match="at most"):
            await open_session(limits)


async def test_greatest_depth_can_be_used(open_session: Opener) -> None:
    session = await open_session(SessionLimits(max_stack_depth=2400))
    assert isinstance(await session.run(RECURSE + "down(1900)"), Finished)
    step = await session.run("down(1e6)")
    assert isinstance(step, Failed)
    assert step.error.code == Code.STACK_OVERFLOW


async def test_native_recursion_is_bounded_too(session: Driver) -> None:
    step = await session.run("try { JSON.parse('['.repeat(1e5)) } catch { 1 }")
    assert isinstance(step, Failed)
    assert step.error.code == Code.STACK_OVERFLOW


FOREVER = [
    "while (true) {}",
    "try { while (true) {} } catch {} finally { while (true) {} }",
    "const again = (): any => Promise.resolve().then(again); again(); await new Promise(() => {})",
    "async function f() { while (true) await 0 }; f(); 1",
    "({ get a() { while (true) {} } })",
    "/(a+)+$/.test('a'.repeat(50) + 'b')",
    # These never poll: only killing the process ends them.
    "Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)",
    "Array.prototype.includes.call({length: 2 ** 53 - 1}, 1)",
]


@pytest.mark.parametrize("code", FOREVER)
async def test_processor_time_ends_what_would_not_end(session: Driver, code: str) -> None:
    session.cpu_ms = 100
    step = await session.run(code)
    assert isinstance(step, Failed)
    assert (step.error.code, step.fatal) == (Code.TIMEOUT_CPU, True)


async def test_wall_time_ends_a_step(session: Driver) -> None:
    session.cpu_ms, session.wall_ms = 60_000, 100
    step = await session.run("while (true) {}")
    assert isinstance(step, Failed)
    assert (step.error.code, step.fatal) == (Code.TIMEOUT_WALL, True)


async def test_processor_time_is_counted_for_each_step(session: Driver) -> None:
    await session.run("await sleep(1); while (true) {}")
    session.cpu_ms = 100
    step = await session.settle(Returned(1, None))
    assert isinstance(step, Failed)
    assert step.error.code == Code.TIMEOUT_CPU


GREEDY = [
    "const a: any[] = []; while (true) a.push(new Array(1000).fill(7))",
    "const a: any[] = []; try { while (true) a.push({a: 1}) } catch { a.length = 0 }; 'survived'",
    "const m = new Map(); let i = 0; try { while (true) m.set(i, 'key ' + i++) } catch { m.clear() }; 'survived'",
    "try { new Uint8Array(1 << 28) } catch {}; 'survived'",
    "try { 'x'.repeat(1 << 29) } catch {}; 'survived'",
    "let s = 'é'; const keep: any[] = []; try { while (true) keep.push(JSON.stringify(s += s + 'x')) } catch {}; 1",
    "async function f() { try { const a: any[] = []; while (true) a.push([a]) } catch { return 1 } }; await f()",
]


@pytest.mark.parametrize("code", GREEDY)
async def test_memory_is_bounded_and_a_program_cannot_catch_it(open_session: Opener, code: str) -> None:
    session = await open_session(SessionLimits(memory_mb=16))
    session.cpu_ms = 20_000
    step = await session.run(code)
    assert isinstance(step, Failed)
    assert (step.error.code, step.fatal) == (Code.MEMORY_EXCEEDED, True)
    assert step.usage.memory_peak_bytes < 24 << 20


async def test_memory_within_the_limit_is_there(open_session: Opener) -> None:
    session = await open_session(SessionLimits(memory_mb=16))
    step = await session.run("const keep = new Uint8Array(12 << 20).fill(1); keep.length")
    assert isinstance(step, Finished)
    assert step.usage.memory_peak_bytes > 12 << 20


async def test_one_call_too_many_ends_the_cell(session: Driver) -> None:
    session.max_calls = 3
    step = await session.run(
        "const all: any[] = []; try { for (let i = 0; i < 4; i++) all.push(get_order({i})) } catch {}; 1"
    )
    assert isinstance(step, Failed)
    assert (step.error.code, step.fatal) == (Code.EXTERNAL_CALLS_EXCEEDED, True)


async def test_calls_count_for_the_whole_cell_and_timers_do_not(session: Driver) -> None:
    session.max_calls = 2
    await session.run("await sleep(1); await sleep(1); await get_order({}); await get_order({}); await get_order({})")
    for number in (1, 2, 3):
        assert isinstance(await session.settle(Returned(number, None)), Suspended)
    step = await session.settle(Returned(4, None))
    assert isinstance(step, Failed)
    assert step.error.code == Code.EXTERNAL_CALLS_EXCEEDED


async def test_interrupt_ends_the_step_under_way(session: Driver) -> None:
    task = asyncio.ensure_future(session.run("console.log('on'); while (true) {}"))
    await session.heard.wait()
    await asyncio.to_thread(session.interpreter.interrupt)
    step = await task
    assert isinstance(step, Failed)
    assert (step.error.code, step.fatal) == (Code.INTERRUPTED, True)


async def test_interrupt_at_rest_is_not_forgotten(session: Driver) -> None:
    session.interpreter.interrupt()
    step = await session.run("1")
    assert isinstance(step, Failed)
    assert (step.error.code, step.fatal) == (Code.INTERRUPTED, True)
