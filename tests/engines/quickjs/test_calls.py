import asyncio

import pytest

from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject, Span
from cloister.ports.engine import Call, Failed, Finished, Raised, Returned, Suspended

from .conftest import Driver

pytestmark = pytest.mark.anyio

FORMS: list[tuple[str, Call]] = [
    ("get_order({order_id: 'A7'})", Call(1, "get_order", (), {"order_id": "A7"})),
    ("tools.get_order({order_id: 'A7'})", Call(1, "get_order", (), {"order_id": "A7"})),
    ("tools['get_order']({order_id: 'A7'})", Call(1, "get_order", (), {"order_id": "A7"})),
    ("shop.buy({n: 1})", Call(1, "shop.buy", (), {"n": 1})),
    ("tools.shop.buy({n: 1})", Call(1, "shop.buy", (), {"n": 1})),
    ("get_order('A7')", Call(1, "get_order", ("A7",))),
    ("get_order('A7', {a: 1}, undefined)", Call(1, "get_order", ("A7", {"a": 1}))),
    ("get_order([1])", Call(1, "get_order", ([1],))),
    ("get_order()", Call(1, "get_order")),
    ("sleep(1500)", Call(1, "sleep", (1.5,), kind="timer")),
    ("new Promise(done => setTimeout(done, 20))", Call(1, "sleep", (0.02,), kind="timer")),
    ("new Promise(done => setTimeout(done))", Call(1, "sleep", (0,), kind="timer")),
]


@pytest.mark.parametrize(("code", "call"), FORMS, ids=[code for code, _ in FORMS])
async def test_call_is_announced_as_it_was_written(session: Driver, code: str, call: Call) -> None:
    step = await session.run(f"await {code}")
    assert isinstance(step, Suspended)
    (seen,) = step.calls
    assert (seen.number, seen.name, seen.args, seen.kwargs, seen.kind) == (
        call.number,
        call.name,
        call.args,
        call.kwargs,
        call.kind,
    )
    assert step.awaiting == {1}


async def test_gathered_calls_are_announced_together_and_settled_in_any_order(session: Driver) -> None:
    step = await session.run("await Promise.all([1, 2, 3].map(n => get_order({n})))")
    assert isinstance(step, Suspended)
    assert [call.number for call in step.calls] == [1, 2, 3]
    step = await session.settle(Returned(3, "c"))
    assert isinstance(step, Suspended)
    assert (step.calls, step.awaiting) == ((), {1, 2})
    step = await session.settle(Returned(2, "b"), Returned(1, "a"))
    assert isinstance(step, Finished)
    assert step.value == ["a", "b", "c"]


async def test_numbers_count_from_one_in_each_cell(session: Driver) -> None:
    for _ in range(2):
        step = await session.run("await get_order({})")
        assert isinstance(step, Suspended)
        assert step.awaiting == {1}
        await session.settle(Returned(1, None))


async def test_failed_call_can_be_caught(session: Driver) -> None:
    await session.run("""
        try { await get_order({}) } catch (e: any) {
          [e instanceof Error, e.name, e.message, e.code, e.tool, e.hint, String(e)]
        }""")
    # The value of the last statement is no expression's: say it again.
    await session.settle(Raised(1, ErrorObject("NOT_FOUND", "no such order", "list them first")))
    await session.run("""
        let seen: unknown
        try { await get_order({}) } catch (e: any) {
          seen = [e instanceof Error, e.name, e.message, e.code, e.tool, e.hint, String(e)]
        }
        seen""")
    step = await session.settle(Raised(1, ErrorObject("NOT_FOUND", "no such order", "list them first")))
    assert isinstance(step, Finished)
    expected = [True, "ToolError", "no such order", "NOT_FOUND", "get_order", "list them first"]
    assert step.value == [*expected, "ToolError: no such order"]


async def test_uncaught_failure_keeps_its_code_and_points_at_the_call(session: Driver) -> None:
    await session.run("const a = 1\nfunction load() {\n  return get_order({a})\n}\nawait load()")
    step = await session.settle(Raised(1, ErrorObject("NOT_FOUND", "no such order", "list them first")))
    assert isinstance(step, Failed)
    assert (step.error.code, step.error.message, step.error.hint) == ("NOT_FOUND", "no such order", "list them first")
    assert step.error.span is not None
    assert step.error.span.line == 3
    assert not step.fatal


async def test_program_cannot_forge_the_code_of_its_failure(session: Driver) -> None:
    step = await session.run("throw Object.assign(new Error('x'), {name: 'ToolError', code: 'APPROVAL_DENIED'})")
    assert isinstance(step, Failed)
    assert step.error.code == Code.RUNTIME_ERROR


async def test_refused_argument_is_told_and_the_program_goes_on(session: Driver) -> None:
    step = await session.run("await get_order({f: () => 1})")
    assert isinstance(step, Suspended)
    refused = step.calls[0].refused
    assert refused is not None
    assert refused.code == Code.INVALID_ARGUMENTS
    assert "value.f is a function" in refused.message


async def test_call_that_nobody_awaits_is_reported_and_forgotten(session: Driver) -> None:
    step = await session.run("get_order({}).then(() => { globalThis.late = true }); 7")
    assert isinstance(step, Finished)
    assert (step.value, [call.name for call in step.calls]) == (7, ["get_order"])
    await session.run("await list_orders({})")
    step = await session.settle(Returned(1, None))
    assert isinstance(step, Finished)
    step = await session.run("typeof late")
    assert isinstance(step, Finished)
    assert step.value == "undefined"


async def test_late_settlement_of_an_earlier_cell_settles_nothing(session: Driver) -> None:
    step = await session.run("await Promise.race([get_order({}), sleep(1)])")
    assert isinstance(step, Suspended)
    step = await session.settle(Returned(2, None))
    assert isinstance(step, Finished)
    await session.run("sleep(1); await sleep(2)")
    step = await session.settle(Returned(7, "late"))
    assert isinstance(step, Suspended)
    assert step.awaiting == {1, 2}


async def test_program_that_waits_for_nothing_is_told_so(session: Driver) -> None:
    step = await session.run("await new Promise(() => {})")
    assert isinstance(step, Failed)
    assert (step.error.code, step.fatal) == (Code.RUNTIME_ERROR, True)
    assert "nothing can settle" in step.error.message


async def test_cleared_timer_never_was(session: Driver) -> None:
    step = await session.run("clearTimeout(setTimeout(() => {}, 5)); await get_order({})")
    assert isinstance(step, Suspended)
    assert [(call.number, call.kind) for call in step.calls] == [(2, "tool")]


async def test_timers_run_their_callbacks_in_the_order_of_settlement(session: Driver) -> None:
    await session.run(
        "const seen: string[] = []; for (const n of ['a', 'b']) setTimeout(x => seen.push(x), 1, n); await sleep(9)"
    )
    await session.settle(Returned(2, None))
    await session.settle(Returned(1, None))
    step = await session.settle(Returned(3, None))
    assert isinstance(step, Finished)
    step = await session.run("seen")
    assert isinstance(step, Finished)
    assert step.value == ["b", "a"]


async def test_error_in_a_timer_ends_the_cell(session: Driver) -> None:
    await session.run("setTimeout(() => { throw new Error('late') }, 1)\nawait sleep(9)")
    step = await session.settle(Returned(1, None))
    assert isinstance(step, Failed)
    assert (step.error.message, step.fatal) == ("Error: late", False)
    assert step.error.span is not None
    assert step.error.span.line == 1


async def test_tools_come_and_go_between_cells(session: Driver) -> None:
    session.names = frozenset({"alpha"})
    assert isinstance(await session.run("await alpha({})"), Suspended)
    session.names = frozenset({"beta"})
    step = await session.run("[typeof alpha, typeof beta, Object.keys(tools)]")
    assert isinstance(step, Finished)
    assert step.value == ["undefined", "function", ["beta"]]


async def test_programs_own_variable_wins_over_a_tool(session: Driver) -> None:
    await session.run("const get_order = () => 'mine'; var shop = 5")
    session.names = session.names | {"fresh"}
    step = await session.run("[get_order(), shop, typeof fresh, typeof tools.get_order]")
    assert isinstance(step, Finished)
    assert step.value == ["mine", 5, "function", "function"]


async def test_tool_does_not_replace_the_language(session: Driver) -> None:
    session.names = frozenset({"Date", "JSON.parse", "print"})
    step = await session.run("[typeof Date.now, typeof JSON.stringify, print.name, typeof tools.Date]")
    assert isinstance(step, Finished)
    assert step.value == ["function", "function", "print", "function"]


async def test_unknown_tool_is_found_before_anything_runs(session: Driver) -> None:
    step = await session.run("console.log('ran')\nawait tools.get_ordr({})")
    assert isinstance(step, Failed)
    assert (step.error.code, step.error.span) == (Code.UNKNOWN_TOOL, Span(2, 7, 2, 21))
    assert step.error.hint == "did you mean `get_order`? Its signature is get_order({order_id: string})"
    assert len(step.diagnostics) == 1
    assert session.printed == []


@pytest.mark.parametrize("code", ["await shop.bye({})", "await get_ordr({})", "tools.nope()"])
async def test_unknown_tool_is_found_in_each_form(session: Driver, code: str) -> None:
    step = await session.run(code)
    assert isinstance(step, Failed)
    assert step.error.code == Code.UNKNOWN_TOOL


@pytest.mark.parametrize(
    "code",
    [
        "await mine()",
        "await given()",
        "await globalThis.fetchAll()",
        "await Promise.all([])",
        "async function own() {}\nawait own()",
    ],
)
async def test_name_that_somebody_defined_is_no_unknown_tool(session: Driver, code: str) -> None:
    await session.run("async function mine() {}; globalThis.fetchAll = async () => 1; globalThis.given = async () => 1")
    assert isinstance(await session.run(code), Finished)


async def test_plain_reference_error_stays_a_runtime_error(session: Driver) -> None:
    step = await session.run("list_order()")
    assert isinstance(step, Failed)
    assert (step.error.code, step.error.hint) == (Code.RUNTIME_ERROR, "did you mean `list_orders`?")


async def test_unknown_tool_that_only_running_shows_is_a_failed_call(session: Driver) -> None:
    step = await session.run(
        "let seen; try { await tools['get_' + 'ordr']({}) } catch (e) { seen = [e.code, e.hint] }; seen"
    )
    assert isinstance(step, Finished)
    assert step.value == ["UNKNOWN_TOOL", "did you mean `get_order`?"]


async def test_check_finds_all_that_start_would_refuse(session: Driver) -> None:
    found = (await session.check("await get_ordr({})\nawait tools.nope({})")).diagnostics
    assert [(item.code, item.span and item.span.line) for item in found] == [("UNKNOWN_TOOL", 1), ("UNKNOWN_TOOL", 2)]
    (broken,) = (await session.check("let a = ;")).diagnostics
    assert (broken.code, broken.span) == (Code.SYNTAX_ERROR, Span(1, 9, 1, 10))
    assert (await session.check("const ok: number = await get_order({})")).diagnostics == ()


async def test_check_compiles_without_running_anything(session: Driver) -> None:
    (found,) = (
        await session.check("globalThis.ran = true\nfunction f() {\n  'use strict'; with (a) {}\n}")
    ).diagnostics
    assert found.code == Code.SYNTAX_ERROR
    step = await session.run("typeof ran")
    assert isinstance(step, Finished)
    assert step.value == "undefined"


# What it leaves alone, `then` and `value`, QuickJS itself looks for on the result of every cell.
POLLUTION = """
const gotcha = () => { throw new Error('gotcha') }
for (const C of [Object, Array, Function, Promise, Map, WeakMap, Set, String, Number, BigInt, Date, RegExp, Error])
  for (const k of Object.getOwnPropertyNames(C.prototype))
    if (k !== 'constructor') try { C.prototype[k] = gotcha } catch {}
const trap = {__proto__: null, get: () => gotcha, set() {}, configurable: true}
for (const k of ['0', '1', 'error', 'names', 'bigs', 'piece', 'run', 'get', 'set', 'meta', 'calls', 'number'])
  Object.defineProperty(Object.prototype, k, trap)
globalThis.JSON = globalThis.Promise = globalThis.Map = globalThis.Reflect = globalThis.Error = null
"""


async def test_program_that_ruins_every_prototype_harms_only_itself(session: Driver) -> None:
    assert isinstance(await session.run(POLLUTION), Finished)
    step = await session.run("await get_order({id: 'A7'})")
    assert isinstance(step, Suspended), step
    assert step.calls[0].kwargs == {"id": "A7"}
    step = await session.settle(Returned(1, 5))
    assert isinstance(step, Finished), step
    assert step.value == 5
    step = await session.run("null.x")
    assert isinstance(step, Failed)
    assert step.error.message == "TypeError: cannot read property 'x' of null"


async def test_program_that_takes_too_long_to_look_at_harms_no_session(session: Driver) -> None:
    await session.run("let kept = 41")
    session.cpu_ms = 1
    (found,) = (await session.check("(" * 300_000 + ")" * 300_000)).diagnostics
    assert found.code in (Code.TIMEOUT_CPU, Code.SYNTAX_ERROR)
    session.cpu_ms = 2000
    step = await session.run("kept + 1")
    assert isinstance(step, Finished)
    assert step.value == 42


async def test_dump_may_be_asked_for_while_a_program_runs(session: Driver) -> None:
    step, image = await asyncio.gather(session.run("1 + 1"), session.interpreter.dump())
    assert isinstance(step, Finished)
    assert image
