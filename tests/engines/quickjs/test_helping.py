"""Helpers in TypeScript programs: where they stand, that no program breaks them, and every way to exit."""

import asyncio
import time
from dataclasses import replace

import pytest

from cloister.core.limits import SessionLimits
from cloister.ports.engine import Failed, Finished, Program, Returned, Suspended
from cloister.ports.helping import HELPERS

from .conftest import Driver, Opener

pytestmark = pytest.mark.anyio

ALL = frozenset(HELPERS)


@pytest.fixture
def session(session: Driver) -> Driver:
    session.helpers = ALL
    return session


async def _value(session: Driver, code: str) -> object:
    step = await session.run(code)
    assert isinstance(step, Finished), step
    return step.value


def _is_good_end(step: object) -> bool:
    return isinstance(step, Finished) and step.value is None


# -- where they stand -------------------------------------------------------------------------------------------------


async def test_helpers_are_those_of_the_port_by_name_and_number_of_arguments(session: Driver) -> None:
    for name, parameters in HELPERS.items():
        given = ", ".join(["1"] * (len(parameters) + 1))
        takes = " and ".join(parameters) or "nothing"
        code = f"let got = ''; try {{ {name}({given}) }} catch (e) {{ got = e.message }} [got, {name}.name]"
        assert await _value(session, code) == [f"{name}() takes {takes}", name]


async def test_helpers_are_no_tools(session: Driver) -> None:
    assert await _value(session, "['text' in tools, Object.keys(tools).includes('text')]") == [False, False]
    step = await session.run("await tools.text('a')")
    assert isinstance(step, Failed)
    assert step.error.code == "UNKNOWN_TOOL"
    assert session.helped == []


async def test_helpers_can_be_reached_by_their_names_as_values(session: Driver) -> None:
    await _value(session, "globalThis['te' + 'xt']('a'); (0, eval)('text(1)')")
    assert session.helped == [("text", ("a",)), ("text", ("1",))]


async def test_helper_that_is_awaited_without_there_being_one_is_an_unknown_tool(open_session: Opener) -> None:
    session = await open_session()
    for _ in range(2):
        step = await session.run("await text('a')")
        assert isinstance(step, Failed)
        assert step.error.code == "UNKNOWN_TOOL"
    assert (await session.check("await text('a')")).diagnostics[0].code == "UNKNOWN_TOOL"
    session.helpers = ALL
    assert (await session.check("await text('a')")).diagnostics == ()
    assert await _value(session, "await text('a'); 'on'") == "on"


async def test_replaced_helper_stays_replaced_when_the_catalog_changes(session: Driver) -> None:
    await session.run("globalThis.text = () => 'mine'; delete globalThis.load")
    for helpers in (ALL, frozenset({"exit"}), frozenset[str](), ALL):
        session.helpers = helpers
        session.names |= {f"tool_{len(helpers)}"}
        assert await _value(session, "text(1)") == "mine"
    assert session.helped == []


async def test_helpers_come_and_go_with_the_catalog(session: Driver) -> None:
    code = "['text', 'load', 'exit'].map(name => typeof globalThis[name])"
    assert await _value(session, code) == ["function"] * 3
    session.helpers = frozenset({"load"})
    assert await _value(session, code) == ["undefined", "function", "undefined"]
    session.helpers = ALL
    assert await _value(session, code) == ["function"] * 3


async def test_helper_that_was_kept_works_after_it_is_gone_only_as_far_as_the_host_allows(session: Driver) -> None:
    await session.run("const say = text")
    session.helpers = frozenset()
    step = await session.run("say('a')")
    assert isinstance(step, Failed)
    assert session.helped == []


# -- hostile programs -------------------------------------------------------------------------------------------------

HOSTILE = """
    const trap = { get: () => 'mine', set() { throw new Error('mine') }, configurable: true }
    Object.defineProperty(Array.prototype, 0, trap)
    Object.prototype.refused = 'mine'
    Object.prototype.answer = Object.prototype.bigs = Object.prototype.value = Object.prototype.count = 'mine'
    String.prototype.concat = String.prototype.slice = String.prototype.indexOf = () => 'mine'
    Array.prototype.join = Array.prototype.push = Array.prototype[Symbol.iterator] = () => 'mine'
    JSON.stringify = JSON.parse = () => 'mine'
    globalThis.Error = globalThis.TypeError = globalThis.Object = globalThis.Reflect = undefined
    Map.prototype.get = Map.prototype.set = WeakMap.prototype.get = WeakMap.prototype.has = () => { throw 'mine' }
    null
"""


async def test_no_program_changes_what_helpers_say_and_give(session: Driver) -> None:
    assert isinstance(await session.run(HOSTILE), Finished)
    session.loaded = {"list": [1, 2**70]}
    await session.run("text({a: [1, 'x']}); store('k', [1, {b: null}]); image({data: 'd'}); yield_control()")
    assert session.helped == [
        ("text", ('{"a":[1,"x"]}',)),
        ("store", ("k", [1, {"b": None}])),
        ("image", ({"data": "d"},)),
        ("yield_control", ()),
    ]
    assert await _value(session, "load('k').list[1]") == 2**70
    assert _is_good_end(await session.run("exit(); text('no')"))
    assert session.helped[-1][0] == "load"


async def test_values_that_cannot_be_looked_at_end_in_an_error_that_can_be_caught(session: Driver) -> None:
    await session.run("const trap = new Proxy({}, new Proxy({}, { get() { throw new Error('trapped') } }))")
    for value in ("trap", "[trap]", "{ toJSON() { throw new Error('trapped') } }"):
        code = f"let got = 'none'; try {{ text({value}) }} catch (e) {{ got = e.message }} got"
        assert await _value(session, code) == "trapped"
    assert session.helped == []


async def test_name_of_an_error_that_lies_does_no_harm(session: Driver) -> None:
    await session.run("const e = new Error('m'); Object.defineProperty(e, 'name', { get() { throw 1 } }); text(e)")
    await session.run("const f = new TypeError('m'); f.name = 5; text(f)")
    assert session.helped == [("text", ("Error: m",)), ("text", ("Error: m",))]


async def test_half_a_surrogate_pair_is_replaced(session: Driver) -> None:
    await session.run("text('a\\ud800'); text(['\\udc00']); store('\\ud800', '\\ud800')")
    assert session.helped == [("text", ("a\ufffd",)), ("text", ('["\ufffd"]',)), ("store", ("\ufffd", "\ufffd"))]


async def test_dates_are_said_without_quotes(session: Driver) -> None:
    await session.run("text(new Date(0)); text([new Date(0)]); text(new Date(NaN)); text(new String('s')); text(5n)")
    said = [given[0] for _, given in session.helped]
    assert said == ["1970-01-01T00:00:00.000Z", '["1970-01-01T00:00:00.000Z"]', "Invalid Date", "s", "5"]


async def test_what_is_too_much_for_a_frame_is_refused_and_the_worker_lives(open_session: Opener) -> None:
    session = await open_session(SessionLimits(memory_mb=256))
    session.helpers = ALL
    code = "let got = ''; try { store('k', '€'.repeat(4_000_000)) } catch (e) { got = e.name + ': ' + e.message } got"
    assert await _value(session, code) == "TypeError: this is more than can be handed over at once"
    assert await _value(session, "text('\\u0001'.repeat(1 << 20)); 'on'") == "on"
    assert session.helped == [("text", ("\x01" * (1 << 20),))]


async def test_large_answer_within_the_memory_arrives_and_beyond_it_ends_the_program(open_session: Opener) -> None:
    session = await open_session(SessionLimits(memory_mb=32))
    session.helpers = ALL
    session.loaded = "x" * 3_000_000
    assert await _value(session, "load('k').length") == 3_000_000
    session.loaded = "x" * 30_000_000
    step = await session.run("load('k').length")
    assert isinstance(step, Failed)
    assert step.error.code == "MEMORY_EXCEEDED"


# -- time -------------------------------------------------------------------------------------------------------------


async def test_endless_helpers_end_at_the_limits(session: Driver) -> None:
    session.cpu_ms = 200
    step = await session.run("for (;;) text(1)")
    assert isinstance(step, Failed)
    assert step.error.code == "TIMEOUT_CPU"
    assert session.helped


async def test_waiting_for_an_answer_takes_no_processor_time(session: Driver) -> None:
    turn = session.turn()

    def slow(_name: str, _given: tuple[object, ...]) -> None:
        time.sleep(0.3)

    step = await session.interpreter.start(Program("text(1)"), replace(turn, helper=slow, cpu_ms=200.0))
    assert isinstance(step, Finished)
    assert step.usage.cpu_ms < 200


async def test_interrupt_in_the_middle_of_a_question_ends_the_step(open_session: Opener) -> None:
    session = await open_session()
    session.helpers = ALL
    running = asyncio.ensure_future(session.run("console.log('up'); for (;;) text('x'.repeat(100000))"))
    await session.heard.wait()
    session.interpreter.interrupt()
    step = await running
    assert isinstance(step, Failed)
    assert step.error.code == "INTERRUPTED"


# -- exit -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "try { exit() } catch {} 5",
        "try { exit() } catch { throw new Error('no') }",
        "try { exit() } finally { throw new Error('no') }",
        "try { exit() } catch {} try { text('no') } catch {} text('no')",
        "try { exit() } catch {} await tools.get_order('A'); text('no')",
        "try { exit() } catch {} await sleep(1000); text('no')",
        "try { exit() } catch {} await new Promise(() => {})",
        "(async () => { exit() })().catch(() => 5)",
        "await (async () => { try { exit() } catch (e) { return 5 } })(); text('no')",
        "await Promise.all([tools.get_order('A'), (async () => exit())()]); text('no')",
        "({ toJSON() { exit() } })",
        "({ toJSON() { try { exit() } catch {} return 5 } })",
        "text({ toJSON() { try { exit() } catch {} return 5 } })",
        "store('k', { get a() { exit() } })",
        "[3, 1, 2].sort(() => exit())",
        "new Proxy({}, { get() { exit() } }).x",
        "class A { constructor() { exit() } } new A()",
        "function* g() { yield 1; exit() } for (const x of g()) {} text('no')",
        "eval('exit()')",
        "Promise.resolve().then(() => exit()); await sleep(5); text('no')",
        "setTimeout(() => 1, 5); exit()",
    ],
)
async def test_exit_ends_well_whatever_the_program_makes_of_it(session: Driver, code: str) -> None:
    assert _is_good_end(await session.run(code))
    assert session.helped == []
    assert await _value(session, "text('next'); await Promise.resolve(4)") == 4
    assert session.helped == [("text", ("next",))]


async def test_exit_in_a_timer_ends_the_program_that_waits_for_others(session: Driver) -> None:
    step = await session.run(
        "let ran = 0; setTimeout(() => { ran = 1; exit() }, 5); setTimeout(() => { ran = 2 }, 9);"
        "await tools.get_order('A'); ran = 3"
    )
    assert isinstance(step, Suspended)
    timers = [call.number for call in step.calls if call.kind == "timer"]
    tool = next(call.number for call in step.calls if call.kind == "tool")
    step = await session.settle(*(Returned(number, None) for number in (*timers, tool)))
    assert _is_good_end(step)
    assert await _value(session, "ran") == 1
    assert await _value(session, "await sleep; 'fresh'") == "fresh"


async def test_calls_made_before_exit_are_left_over(session: Driver) -> None:
    step = await session.run("void tools.get_order('A'); void shop.buy('x'); exit()")
    assert isinstance(step, Finished)
    assert [(call.name, call.args) for call in step.calls] == [("get_order", ("A",)), ("shop.buy", ("x",))]


async def test_program_that_left_cannot_be_resumed(session: Driver) -> None:
    step = await session.run("setTimeout(exit, 5); await tools.get_order('A')")
    assert isinstance(step, Suspended)
    assert _is_good_end(await session.settle(Returned(1, None)))
    step = await session.settle(Returned(2, None))
    assert isinstance(step, Failed)


async def test_exit_does_not_leak_into_a_dump(open_session: Opener) -> None:
    session = await open_session()
    session.helpers = ALL
    await session.run("let kept = 1; try { exit() } catch {} kept = 2")
    other = await open_session(state=await session.interpreter.dump())
    other.helpers = ALL
    assert await _value(other, "text('a'); kept") == 2
    assert other.helped == [("text", ("a",))]


async def test_program_that_slept_in_a_call_can_use_every_helper(open_session: Opener) -> None:
    session = await open_session()
    session.helpers = ALL
    await session.run("const say = text; const n = await tools.get_order('A'); say(n); load('k'); exit(); say('no')")
    other = await open_session(state=await session.interpreter.dump())
    other.helpers = ALL
    assert _is_good_end(await other.settle(Returned(1, [1])))
    assert other.helped == [("text", ("[1]",)), ("load", ("k",))]


async def test_helpers_take_no_room_in_a_dump(open_session: Opener) -> None:
    sizes: list[int] = []
    for helpers in (ALL, frozenset[str]()):
        session = await open_session()
        session.helpers = helpers
        await session.run("let x = 1")
        sizes.append(len(await session.interpreter.dump()))
    assert sizes[0] <= sizes[1]
