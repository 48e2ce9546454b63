"""Where an error is said to be: in this cell's own source, whatever came before it and wherever it woke."""

import pytest

from cloister.core.codes import Code
from cloister.core.diagnostic import Span
from cloister.engines.quickjs.engine import QuickJSEngine
from cloister.ports.engine import Failed, Returned

from .conftest import Driver, Opener

pytestmark = pytest.mark.anyio

PLACES: list[tuple[str, int, int]] = [
    ("null.x", 1, 1),
    ("  null.x", 1, 3),
    ("1\n\n  null.x", 3, 3),
    ("const é = '😀'; null.x", 1, 17),
    ("/* é */ const a: Array<number> = []; null.x", 1, 38),
    ("function f(a: string): void {\n  null.x\n}\nf('a')", 2, 3),
    ("const f = () => {\n  throw new Error('x')\n}\nf()", 2, 13),
    ("class A {\n  private b: number = 1\n  m(): number {\n    throw new Error('x')\n  }\n}\nnew A().m()", 4, 15),
    ("enum E { A, B }\nnull.x", 2, 1),
    ("enum E { A, B }; null.x", 1, 18),
    ("await 0\nnull.x", 2, 1),
    ("async function f() {\n  await 0\n  null.x\n}\nawait f()", 3, 3),
    ("[1].map((n: number) => {\n  null.x\n})", 2, 3),
]


@pytest.mark.parametrize(("code", "line", "column"), PLACES, ids=[code for code, _, _ in PLACES])
async def test_error_is_placed_in_the_source(session: Driver, code: str, line: int, column: int) -> None:
    step = await session.run(code)
    assert isinstance(step, Failed)
    assert step.error.code == Code.RUNTIME_ERROR
    assert step.error.span is not None
    assert step.error.span.line == line
    assert abs(step.error.span.column - column) <= 1


async def test_frame_of_an_earlier_cell_is_skipped(session: Driver) -> None:
    await session.run("\n\n\n\n\nfunction helper() {\n  null.x\n}")
    step = await session.run("const a = 1\nhelper()")
    assert isinstance(step, Failed)
    assert step.error.span == Span(2, 1)


async def test_error_made_in_an_earlier_cell_alone_has_no_place_here(session: Driver) -> None:
    await session.run("const kept = (() => new Error('old'))()")
    step = await session.run("1\n2\nthrow kept")
    assert isinstance(step, Failed)
    assert step.error.message == "Error: old"


async def test_place_is_known_after_a_wake_in_another_process(open_session: Opener) -> None:
    first = await open_session()
    await first.run("const é: string = 'x'\nfunction f(a: any) {\n  return a.b()\n}\nf(await get_order({}))")
    image = await first.interpreter.dump()
    async with QuickJSEngine(capacity=1) as other:
        second = await Opener(other)(state=image)
        step = await second.settle(Returned(1, {}))
    assert isinstance(step, Failed)
    assert step.error.span is not None
    assert step.error.span.line == 3


async def test_syntax_error_has_a_place_and_nothing_runs(session: Driver) -> None:
    step = await session.run("console.log('ran')\nconst a = (1 +")
    assert isinstance(step, Failed)
    assert step.error.code == Code.SYNTAX_ERROR
    assert step.error.span is not None
    assert step.error.span.line == 2
    assert session.printed == []


async def test_syntax_error_that_only_quickjs_sees_has_a_place(session: Driver) -> None:
    step = await session.run("console.log('ran')\nfunction f() {\n  'use strict'; with (a) {}\n}")
    assert isinstance(step, Failed)
    assert step.error.code == Code.SYNTAX_ERROR
    assert step.error.span is not None
    assert step.error.span.line == 3
    assert session.printed == []


async def test_endless_source_is_refused(session: Driver) -> None:
    step = await session.run("\n" * (1 << 20) + "1")
    assert isinstance(step, Failed)
    assert step.error.code == Code.SYNTAX_ERROR


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("throw 42", "Uncaught 42"),
        ("throw 'text'", "Uncaught 'text'"),
        ("throw {a: 1}", "Uncaught { a: 1 }"),
        ("throw null", "Uncaught null"),
        ("throw Symbol('s')", "Uncaught Symbol(s)"),
        ("class Mine extends Error { name = 'Mine' }; throw new Mine('m')", "Mine: m"),
        ("throw new Proxy({}, {getPrototypeOf() { throw 1 }})", "Uncaught a value"),
        ("await Promise.reject(new TypeError('t'))", "TypeError: t"),
        ("throw new Error('x'.repeat(1e6))", "Error: " + "x" * 3993 + "..."),
    ],
)
async def test_whatever_is_thrown_is_told(session: Driver, code: str, message: str) -> None:
    step = await session.run(code)
    assert isinstance(step, Failed)
    assert (step.error.code, step.error.message, step.fatal) == (Code.RUNTIME_ERROR, message, False)


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("fetch('https://example.org')", "tools"),
        ("const orders = 1; order", "`orders`"),
        ("const o: any = get_order({}); o.customer.name", "await"),
        ("await (0, eval)('import(\"fs\")')", "modules"),
    ],
)
async def test_error_comes_with_a_hint(session: Driver, code: str, hint: str) -> None:
    step = await session.run(code)
    assert isinstance(step, Failed)
    assert hint in (step.error.hint or ""), step.error


async def test_stack_that_a_program_sees_shows_its_own_lines_only(session: Driver) -> None:
    step = await session.run("function f() { try { null.x } catch (e: any) { return e.stack } }\nf()")
    assert not isinstance(step, Failed)
    text: str = getattr(step, "value", "")
    assert text.startswith("TypeError: cannot read property 'x' of null\n    at f (cell:1:")
    assert "input" not in text
    assert "eval_script" not in text
