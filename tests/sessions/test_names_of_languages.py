"""Tools whose names a language has something for already: refused, or reached in the way in which they are told of."""

import builtins
from typing import Any

import pytest

from cloister import InvalidToolName, SessionLimits, Tool
from cloister.core.language import PYTHON_BUILTINS
from tests.sessions.door import value
from tests.sessions.ways import House

pytestmark = pytest.mark.anyio

# Those that are no property of the global object, or that are hidden from a look at it.
WORDS = ("let", "new", "typeof", "arguments", "eval", "globalThis", "tools")


async def _named(n: int) -> str:
    return f"went {n}"


@pytest.mark.parametrize("spaced", [False, True])
async def test_tool_that_is_called_like_a_global_of_typescript_is_called_as_it_is_told(spaced: bool) -> None:
    async with House() as house:
        plain = await house.open("typescript")
        found: Any = value(await plain.run("Object.getOwnPropertyNames(globalThis)"))
        names = sorted({*found, *WORDS} - (frozenset() if spaced else PYTHON_BUILTINS))
        tools = [Tool(_named, namespace=name, name="go") if spaced else Tool(_named, name=name) for name in names]
        session = await house.open("typescript", *tools, limits=SessionLimits(max_external_calls=1000))
        signatures = [str((await session.describe_tool(tool.full_name))["signature"]) for tool in tools]
        calls = [f"await {signature.partition('(')[0]}({{n: 7}})" for signature in signatures]
        assert value(await session.run(f"[{', '.join(calls)}]")) == ["went 7"] * len(names)


@pytest.mark.parametrize("spaced", [False, True])
async def test_tool_that_is_called_like_a_builtin_of_python_is_refused_or_is_what_programs_call(spaced: bool) -> None:
    tools: list[Tool] = []
    for name in [name for name in dir(builtins) if name not in ("False", "None", "True") and not name.startswith("_")]:
        try:
            tools.append(Tool(_named, namespace="shop", name=name) if spaced else Tool(_named, name=name))
        except InvalidToolName:
            assert not spaced
            assert name in PYTHON_BUILTINS
    async with House() as house:
        session = await house.open("python", *tools, limits=SessionLimits(max_external_calls=1000))
        for tool in tools:
            code = f"from shop import {tool.name}\n" if spaced else ""
            assert value(await session.run(f"{code}await {tool.name}(n=7)")) == "went 7"
