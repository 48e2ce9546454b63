"""What the checker is told of earlier cells, and what it makes of a program's mistakes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.limits import SessionLimits
from cloister.engines.monty import MontyEngine
from cloister.engines.monty.checker import MAX_CONTEXT, context_after
from cloister.engines.monty.interpreter import MontyInterpreter
from cloister.ports.engine import Catalog, Program, Turn, TypeCheck

CATALOG = Catalog(
    names=frozenset({"get_order", "shop.buy"}),
    stubs="async def get_order(order_id: str) -> dict[str, int]: ...\n",
    modules={"shop": "async def buy(n: int) -> int: ...\n"},
    signatures={"get_order": "get_order(order_id: str) -> dict[str, int]"},
    revision="1",
)


def _turn(wall_ms: int = 20_000) -> Turn:
    return Turn(1_700_000_000_000, wall_ms, wall_ms, lambda _stream, _text: None, CATALOG, 32)


# -- context ------------------------------------------------------------------------------------------------------


def test_cell_that_binds_names_is_read_before_the_next() -> None:
    assert context_after("", "x = 1") == "x = 1\n"
    assert context_after("x = 1\n", "def f():\n    return x") == "x = 1\ndef f():\n    return x\n"


@pytest.mark.parametrize("code", ["1 + 1", "print('a')", "x == 1", "", "# x = 1"])
def test_cell_that_binds_nothing_adds_nothing(code: str) -> None:
    assert context_after("x = 1\n", code) == "x = 1\n"


def test_same_cell_run_twice_is_read_once() -> None:
    once = context_after("", "x = 1")
    assert context_after(once, "x = 1") == once


cells = st.lists(st.from_regex(r"[a-z]{1,3} = \d{1,200}", fullmatch=True), max_size=60)


@given(cells)
def test_context_never_outgrows_its_bound_and_ends_with_the_last_cell(codes: list[str]) -> None:
    context = ""
    for code in codes:
        context = context_after(context, code)
        assert len(context) <= MAX_CONTEXT + len(code) + 1
        assert code in context


def test_cell_larger_than_the_bound_is_left_out() -> None:
    assert context_after("x = 1\n", "y = '" + "a" * MAX_CONTEXT + "'") == "x = 1\n"


# -- findings -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def interpreter() -> AsyncIterator[MontyInterpreter]:
    async with MontyEngine(capacity=1) as engine:
        made = await engine.open(SessionLimits())
        await made.start(Program("known = 5\ndef helper(n: int) -> int:\n    return n"), _turn())
        yield made
        await made.close()


async def _codes(interpreter: MontyInterpreter, code: str, **inputs: Any) -> list[str]:
    checked = await interpreter.check(Program(code, inputs), TypeCheck.WARN, _turn(), starting=False)
    return [f"{found.code}:{found.span.line}" if found.span else str(found.code) for found in checked.diagnostics]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("1 + 1", []),
        ("known + helper(1)", []),
        ("(await get_order('A'))['total'] + 1", []),
        ("from shop import buy\nawait buy(1)", []),
        ("import json, math, re, asyncio, datetime, random", []),
        ("1 +", ["SYNTAX_ERROR:1"]),
        ("x = 1\ny = (", ["SYNTAX_ERROR"]),
        ("\n\nawait get_ordr('A')", ["UNKNOWN_TOOL:3"]),
        ("import asyncio\nawait asyncio.gather(get_ordr('A'))", ["UNKNOWN_TOOL:2"]),
        ("def f():\n    yield 1", ["UNSUPPORTED_FEATURE"]),
        ("import requests", ["UNSUPPORTED_FEATURE:1"]),
        ("await get_order(5)", ["TYPE_ERROR:1"]),
        ("await get_order()", ["TYPE_ERROR:1"]),
        ("helper('a')", ["TYPE_ERROR:1"]),
    ],
)
async def test_program_is_judged(interpreter: MontyInterpreter, code: str, found: list[str]) -> None:
    made = await _codes(interpreter, code)
    assert len(made) >= len(found)
    assert bool(made) is bool(found), made
    for one in found:
        assert any(other.startswith(one) for other in made), made


@pytest.mark.anyio
async def test_inputs_are_known_names(interpreter: MontyInterpreter) -> None:
    assert await _codes(interpreter, "given + 1", given=1) == []


@pytest.mark.anyio
async def test_checking_leaves_the_namespace_as_it_was(interpreter: MontyInterpreter) -> None:
    await _codes(interpreter, "known = 7\nbrand_new = 1")
    step: Any = await interpreter.start(Program("known"), _turn())
    assert step.value == 5
    assert await _codes(interpreter, "await brand_new()") != []


@pytest.mark.anyio
async def test_unknown_tool_comes_with_the_signature_of_the_nearest(interpreter: MontyInterpreter) -> None:
    checked = await interpreter.check(Program("await get_ordr('A')"), TypeCheck.WARN, _turn(), starting=False)
    hint = checked.diagnostics[0].hint or ""
    assert "did you mean `get_order`?" in hint
    assert "get_order(order_id: str)" in hint


@pytest.mark.anyio
@pytest.mark.parametrize("code", ["(" * 5000 + ")" * 5000, "x = " + "+".join(["1"] * 20_000), "[" * 200 + "]" * 200])
async def test_program_that_overwhelms_the_checker_is_refused_or_passed_but_never_breaks_it(
    interpreter: MontyInterpreter, code: str
) -> None:
    await interpreter.check(Program(code), TypeCheck.WARN, _turn(wall_ms=500), starting=False)
    assert await _codes(interpreter, "await get_order(5)") != []
    assert await _codes(interpreter, "1 + 1") == []
