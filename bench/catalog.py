"""The catalog: opening a session on a thousand tools that are known already, searching among five thousand."""

from collections.abc import AsyncIterator, Callable, Sequence
from statistics import median
from time import perf_counter
from typing import Any

from bench.measure import Row, typical
from cloister import Capability, Cloister, Manifest, SourceCall, Tool
from cloister.core.value import Json
from cloister.tools.registry import ToolRegistry
from cloister.tools.search import IndexCache
from tests.tools.many_tools import ASKED, many_tools


class _Source:
    """A thousand tools from elsewhere."""

    name = "many"
    revision = "1"

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.full_name: tool.capability for tool in tools}

    async def __aenter__(self) -> "_Source":
        return self

    async def __aexit__(self, *exc: object) -> None: ...

    async def manifests(self) -> Sequence[Manifest]:
        return [Manifest(made.name, made.namespace, made.description) for made in self._tools.values()]

    async def contract(self, full_name: str) -> Capability:
        return self._tools[full_name]

    async def call(self, full_name: str, arguments: Json, about: SourceCall) -> Json:
        return arguments

    async def refresh(self) -> None: ...

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


async def rows() -> AsyncIterator[Row]:
    tools = many_tools()
    thousand = tools[:1000]
    async with Cloister() as none, Cloister(tools=thousand) as base, Cloister(sources=[_Source(thousand)]) as sourced:
        empty, own, offered = [_opening(cloister) for cloister in (none, base, sourced)]
        # Warm: somebody has had a session, and a model has been told of its tools.
        for cloister in (none, base, sourced):
            async with await cloister.open_session("warm") as session:
                _ = session.preamble().text
                await session.validate("1 + 1")
        plain, with_tools, with_source = await typical(empty, own, offered)
        yield Row("opening a session on a warm catalog of 1,000 tools [x one with none]", with_tools / plain, 2.0)
        yield Row("the same with 1,000 tools of a source [x one with none]", with_source / plain, 2.0)
    for row in _searches(tools):
        yield row


def _opening(cloister: Cloister) -> Callable[[], Any]:
    async def work() -> None:
        await (await cloister.open_session("s")).close()

    return work


def _searches(tools: list[Tool]) -> list[Row]:
    index = IndexCache().get(ToolRegistry(tools))
    times: list[float] = []
    found = 0
    for round_ in range(20):
        for query, right in ASKED:
            began = perf_counter()
            best = index.search(query, 10)
            times.append(perf_counter() - began)
            found += round_ == 0 and right in [tool.full_name for tool in best[:3]]
    return [
        Row("search among 5,000 tools [p50, ms]", median(times) * 1000, 5.0),
        Row("questions of 50 whose tool is not among the first three", 50.0 - found, 5.0),
    ]
