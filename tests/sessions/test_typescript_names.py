"""Tools whose names TypeScript has something for already: each is reached the way in which its signature says."""

from typing import Any

import pytest

from cloister import SessionLimits, Tool
from tests.sessions.door import value
from tests.sessions.ways import House

pytestmark = pytest.mark.anyio

# Those that are no property of the global object, or that are hidden from a look at it.
WORDS = ("let", "new", "typeof", "arguments", "eval", "globalThis", "tools")


async def _named(n: int) -> str:
    return f"went {n}"


@pytest.mark.parametrize("spaced", [False, True])
async def test_tool_that_is_called_like_a_global_is_called_as_it_is_told(spaced: bool) -> None:
    async with House() as house:
        plain = await house.open("typescript")
        found: Any = value(await plain.run("Object.getOwnPropertyNames(globalThis)"))
        names = sorted({*found, *WORDS})
        tools = [Tool(_named, namespace=name, name="go") if spaced else Tool(_named, name=name) for name in names]
        session = await house.open("typescript", *tools, limits=SessionLimits(max_external_calls=1000))
        signatures = [str((await session.describe_tool(tool.full_name))["signature"]) for tool in tools]
        calls = [f"await {signature.partition('(')[0]}({{n: 7}})" for signature in signatures]
        assert value(await session.run(f"[{', '.join(calls)}]")) == ["went 7"] * len(names)
