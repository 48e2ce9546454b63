"""Ways to reach for a tool that models bring along from elsewhere: each is answered with the way that works here,
before anything has happened."""

import pytest

from cloister import Cloister

pytestmark = pytest.mark.anyio


async def get_order(order_id: str) -> str:
    """An order."""
    raise AssertionError("nothing of a program that is refused may happen")


SIGNATURE = "get_order(order_id: str) -> str"
IN_PYTHON = {
    "in a fence": ("```python\n1 + 1\n```", "SYNTAX_ERROR", "without the ``` lines"),
    "through tools": ("await tools.get_order(order_id='A7')", "UNKNOWN_TOOL", f"without an import: await {SIGNATURE}"),
    "through tools, misspelt": ("await tools.get_ordr('A7')", "UNKNOWN_TOOL", f"did you mean `get_order`? {SIGNATURE}"),
    "imported": ("import get_order", "UNSUPPORTED_FEATURE", f"without an import: await {SIGNATURE}"),
    "imported from tools": ("from tools import get_order", "UNSUPPORTED_FEATURE", "called by its own name"),
    "misspelt": ("await get_ordr(order_id='A7')", "UNKNOWN_TOOL", "did you mean `get_order`?"),
}
IN_TYPESCRIPT = {
    "in a fence": ("```ts\n1 + 1\n```", "SYNTAX_ERROR", "without the ``` lines"),
    "required": ("const o = require('get_order');", "UNSUPPORTED_FEATURE", "call `await tools.name({...})`"),
    "imported": ("import {get_order} from 'tools';", "UNSUPPORTED_FEATURE", "there are no modules"),
    "misspelt": ("await tools.get_ordr({order_id: 'A7'})", "UNKNOWN_TOOL", "did you mean `get_order`?"),
}
WAYS = [
    (f"{language}: {name}", language, *way)
    for language, ways in (("python", IN_PYTHON), ("typescript", IN_TYPESCRIPT))
    for name, way in ways.items()
]


@pytest.mark.parametrize("type_check", ["off", "warn"])
async def test_habit_is_refused_with_the_way_that_works(type_check: str) -> None:
    async with Cloister(tools=[get_order], workers=1, type_check=type_check) as cloister:
        for number, (name, language, code, error, hint) in enumerate(WAYS):
            session = await cloister.open_session(f"s{number}", language=language)
            result = await session.run(code)
            assert result.error is not None, name
            assert (result.error.code, hint in str(result.error.hint)) == (error, True), (name, result.error)


async def test_something_of_ones_own_may_be_called_tools() -> None:
    async with Cloister(tools=[get_order], workers=1) as cloister:
        session = await cloister.open_session()
        assert (await session.run("tools = {'a': 1}")).ok
        assert (await session.run("tools.get('a')")).result == 1
