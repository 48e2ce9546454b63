"""The gate: what a call costs with everything on, the catalog of a thousand tools, and an approval."""

import time
from collections.abc import AsyncIterator
from statistics import median
from typing import Annotated, Any, Literal

import pydantic_monty as monty
from typing_extensions import TypedDict

from bench.measure import Row, typical
from cloister import CapabilityLimits, Cloister, Hook, Language, SessionLimits, Tool
from cloister.tools.catalog import CatalogCache
from cloister.tools.registry import ToolRegistry

_LIMITS = SessionLimits(wall_ms=60_000, cpu_ms=60_000, max_external_calls=100_000)
_MONTY_LIMITS: Any = {"max_suspensions": 10**9}
_SMALL = "for i in range(10):\n    await echo('A7', i)\n"
_LARGE = "for i in range(10):\n    await echo(text, i)\n"
_ASKS = {
    Language.PYTHON: "total = 40\nrow = await hold(1)\ntotal + row",
    Language.TYPESCRIPT: "let total = 40;\nconst row = await tools.hold({n: 1});\ntotal + row",
}


class _Watch(Hook):
    """A before-hook that looks at each call and lets it pass."""

    def __init__(self) -> None:
        self.seen = 0

    async def before_call(self, call: Any) -> None:
        self.seen += 1


async def rows() -> AsyncIterator[Row]:
    yield await _whole_gate("a call through the whole gate [x AsyncMonty call]", _SMALL, {}, 1.5)
    text = {"text": "x" * 10_240}
    yield await _whole_gate("the same with a 10 KB argument [x AsyncMonty call with 10 KB]", _LARGE, text, 1.25)
    for row in _catalog():
        yield row
    for language in Language:
        yield await _approval(language)


async def _whole_gate(name: str, code: str, inputs: dict[str, Any], target: float) -> Row:
    async def plain_echo(order_id: str, n: int) -> int:
        return n

    async def echo(order_id: str, n: int) -> int:
        """Give it back."""
        return n

    everything = Tool(
        echo,
        side_effect="read",
        approval_policy={"auto": {"rule": 'args.n < 100 && side_effect == "read"'}},
        limits=CapabilityLimits(rate_per_min=10**9),
    )
    hook = _Watch()
    async with monty.AsyncMonty() as pool, pool.checkout(limits=_MONTY_LIMITS) as baseline:
        async with Cloister(tools=[everything], limits=_LIMITS, type_check="off", hooks=[hook]) as cloister:
            session = await cloister.open_session()

            async def ours() -> None:
                result = await session.run(code, inputs=inputs)
                assert result.ok, result

            async def theirs() -> None:
                await baseline.feed_run(code, inputs=inputs, external_lookup={"echo": plain_echo})

            mine, base = await typical(ours, theirs, rounds=10, samples=8)
    assert hook.seen > 0
    return Row(name, mine / base, target)


class _Item(TypedDict):
    sku: str
    quantity: int
    tags: list[str]


class _Order(TypedDict):
    id: str
    state: Literal["open", "paid", "sent"]
    items: list[_Item]


def _thousand() -> list[Tool]:
    async def look_up(
        order_id: Annotated[str, "the order's id"], limit: int = 10, state: Literal["open", "paid"] | None = None
    ) -> list[_Order]:
        """Look up orders, the newest first."""
        return []

    return [Tool(look_up, name=f"look_up_{n}", namespace=None if n % 3 else f"shop{n % 7}") for n in range(1000)]


def _catalog() -> list[Row]:
    registry = ToolRegistry(_thousand())
    for tool in registry:
        # Reading a function's hints is the tool's own business, done once when it is declared or first granted.
        _ = tool.capability
    cache = CatalogCache()
    began = time.perf_counter()
    first = cache.get(registry, Language.PYTHON)
    spent = time.perf_counter() - began
    began = time.perf_counter()
    again = cache.get(ToolRegistry(registry), Language.PYTHON)
    cached = time.perf_counter() - began
    assert again is first
    return [
        Row("the catalog of 1,000 tools, rendered once [s]", spent, 1.0),
        Row("the same again, from the cache [% of the first time]", cached / spent * 100, 5.0),
    ]


async def _approval(language: Language) -> Row:
    async def hold(n: int) -> int:
        return n

    spent: list[float] = []
    async with Cloister(tools=[Tool(hold, approval_policy="manual")], limits=_LIMITS, workers=2) as cloister:
        session = await cloister.open_session(language=language)
        for _ in range(60):
            waiting = await session.run(_ASKS[language])
            (approval,) = waiting.approvals
            began = time.perf_counter()
            await cloister.decide(approval.id, "allow")
            result = await session.resume(waiting.cell_id)
            spent.append(time.perf_counter() - began)
            assert result.result == 41, result
    return Row(
        f"from the approval to the end of the resumed program, {language}, p50 [ms]", median(spent[10:]) * 1000, 10.0
    )
