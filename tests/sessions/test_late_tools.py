"""A tool that is registered after the function that calls it."""

import pytest

from cloister import Cloister

pytestmark = pytest.mark.anyio


async def later(n: int) -> int:
    return n + 1


@pytest.mark.parametrize("moved", [False, True], ids=["here", "restored"])
async def test_function_finds_a_tool_that_came_after_it(moved: bool) -> None:
    async with Cloister(snapshot_key=b"k" * 32) as cloister:
        session = await cloister.open_session(type_check="off")
        assert (await session.run("def ask(n):\n    return later(n)\n1")).ok
        if moved:
            session = await cloister.restore_session(await session.snapshot(), session_id="copy", tools=[later])
        else:
            session.tools.register(later)
        result = await session.run("await ask(1)")
        assert result.result == 2, result.error
