"""The engines and the embedding API: runs, calls, sleep and wake, idle sessions, import."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from statistics import median
from typing import Any

import pydantic_monty as monty
import quickjs_rs

from bench.measure import Row, typical
from cloister import Cloister, Language, SessionLimits, Tool, tool
from cloister.tools.catalog import render_catalog
from cloister.tools.registry import ToolRegistry

_LIMITS = SessionLimits(wall_ms=60_000, cpu_ms=60_000, max_external_calls=100_000)
_MONTY_LIMITS: Any = {"max_suspensions": 10**9}
_TEN_CALLS = "for i in range(10):\n    await echo(i)\n"
_CONCURRENT = {
    Language.PYTHON: "import asyncio\nawait asyncio.gather(*[nap(i) for i in range(10)])",
    Language.TYPESCRIPT: "await Promise.all([0,1,2,3,4,5,6,7,8,9].map(i => tools.nap({n: i})))",
}
_ASLEEP = {
    Language.PYTHON: "total = 40\nrow = await hold(1)\ntotal + row",
    Language.TYPESCRIPT: "let total = 40;\nconst row = await tools.hold({n: 1});\ntotal + row",
}


@tool
async def echo(n: int) -> int:
    """Give it back."""
    return n


@tool
async def nap(n: int) -> int:
    """Take 50 ms."""
    await asyncio.sleep(0.05)
    return n


async def rows() -> AsyncIterator[Row]:
    yield await _plain_python()
    yield await _typed_python()
    yield await _ten_calls()
    for language in Language:
        yield await _concurrent(language)
    yield await _plain_typescript()
    for language, bound in ((Language.PYTHON, 8.0), (Language.TYPESCRIPT, 32.0)):
        yield await _asleep_size(language, bound)
    for language, bound in ((Language.PYTHON, 5.0), (Language.TYPESCRIPT, 15.0)):
        yield await _wake(language, bound)
    for language, bound in ((Language.PYTHON, 20.0), (Language.TYPESCRIPT, 60.0)):
        yield _idle(language, bound)
    for row in _import():
        yield row


async def _plain_python() -> Row:
    async with monty.AsyncMonty() as pool, pool.checkout(limits=_MONTY_LIMITS) as baseline:
        async with Cloister(limits=_LIMITS, type_check="off") as cloister:
            session = await cloister.open_session()

            async def ours() -> None:
                await session.run("1 + 1")

            async def theirs() -> None:
                await baseline.feed_run("1 + 1")

            mine, base = await typical(ours, theirs)
    return Row("run 1 + 1, Python, types off [x AsyncMonty feed_run]", mine / base, 1.5)


def _many_tools() -> list[Tool]:
    async def look_up(order_id: str, limit: int = 10) -> dict[str, Any]:
        """Look something up."""
        return {"id": order_id, "limit": limit}

    return [Tool(look_up, name=f"look_up_{n}") for n in range(200)]


async def _typed_python() -> Row:
    tools = _many_tools()
    stubs = render_catalog(ToolRegistry(tools), Language.PYTHON).stubs
    async with monty.AsyncMonty() as pool:
        async with pool.checkout(limits=_MONTY_LIMITS, type_check=True, type_check_stubs=stubs) as baseline:
            async with Cloister(tools=tools, limits=_LIMITS) as cloister:
                session = await cloister.open_session()

                async def ours() -> None:
                    await session.run("1 + 1")

                async def theirs() -> None:
                    await baseline.feed_run("1 + 1")

                mine, base = await typical(ours, theirs, rounds=8, samples=12)
    return Row("run 1 + 1, Python, types checked, 200 tools [x AsyncMonty with type_check]", mine / base, 1.3)


async def _ten_calls() -> Row:
    async def plain_echo(n: int) -> int:
        return n

    async with monty.AsyncMonty() as pool, pool.checkout(limits=_MONTY_LIMITS) as baseline:
        async with Cloister(tools=[echo], limits=_LIMITS, type_check="off") as cloister:
            session = await cloister.open_session()

            async def ours() -> None:
                await session.run(_TEN_CALLS)

            async def theirs() -> None:
                await baseline.feed_run(_TEN_CALLS, external_lookup={"echo": plain_echo})

            mine, base = await typical(ours, theirs, rounds=10, samples=8)
    return Row("a call, of 10 in sequence, Python [x AsyncMonty feed_run per call]", mine / base, 1.5)


async def _concurrent(language: Language) -> Row:
    async with Cloister(tools=[nap], limits=_LIMITS) as cloister:
        session = await cloister.open_session(language=language)

        async def ours() -> None:
            await session.run(_CONCURRENT[language])

        (mine,) = await typical(ours, rounds=3, samples=3, warm=2)
    return Row(f"10 concurrent calls of 50 ms, {language} [ms]", mine * 1000, 110.0)


async def _plain_typescript() -> Row:
    runtime = quickjs_rs.Runtime()
    context = runtime.new_context()
    async with Cloister(limits=_LIMITS) as cloister:
        session = await cloister.open_session(language="typescript")

        async def ours() -> None:
            await session.run("1 + 1")

        async def theirs() -> None:
            await context.eval_async("1 + 1")

        mine, base = await typical(ours, theirs)
    context.close()
    runtime.close()
    return Row("run 1 + 1, TypeScript [x quickjs-rs eval_async in process]", mine / base, 3.0)


async def _sleeping_snapshot(cloister: Cloister, language: Language, hold: "_Hold") -> bytes:
    """The bytes of a small program that waits in a call."""
    session = await cloister.open_session(f"asleep_{language}", language=language)
    hold.entered.clear()
    run = asyncio.create_task(session.run(_ASLEEP[language]))
    await hold.entered.wait()
    blob = await session.snapshot()
    hold.let_go.set()
    await run
    return blob


class _Hold:
    """A tool that does not return until it is told to; then it returns at once."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.let_go = asyncio.Event()

        async def hold(n: int) -> int:
            self.entered.set()
            await self.let_go.wait()
            return n

        self.tool = Tool(hold)


async def _asleep_size(language: Language, bound: float) -> Row:
    hold = _Hold()
    async with Cloister(tools=[hold.tool], limits=_LIMITS) as cloister:
        blob = await _sleeping_snapshot(cloister, language, hold)
    return Row(f"a small program asleep in a call, {language} [KB]", len(blob) / 1024, bound)


async def _wake(language: Language, bound: float) -> Row:
    hold = _Hold()
    async with Cloister(tools=[hold.tool], limits=_LIMITS, workers=2) as cloister:
        blob = await _sleeping_snapshot(cloister, language, hold)
        spent: list[float] = []
        for n in range(60):
            began = time.perf_counter()
            session = await cloister.restore_session(blob, session_id=f"woken_{n}")
            result = await session.resume()
            spent.append(time.perf_counter() - began)
            assert result.result == 41, result
            await session.close()
    return Row(f"wake on another worker and finish, {language}, p50 [ms]", median(spent[10:]) * 1000, bound)


def _idle(language: Language, bound: float) -> Row:
    printed = subprocess.check_output([sys.executable, "-m", "bench.idle", language], text=True)
    return Row(f"an idle session, {language}, 1,000 on 2 workers [KB of host memory]", float(printed), bound)


def _import() -> list[Row]:
    code = (
        "import time; began = time.perf_counter(); import cloister; spent = time.perf_counter() - began\n"
        "import os, threading; kids = open('/proc/self/task/%d/children' % os.getpid()).read().split()\n"
        "print(spent * 1000, len(kids) + threading.active_count() - 1)"
    )
    runs = [subprocess.check_output([sys.executable, "-c", code], text=True).split() for _ in range(7)]
    spent = median(float(run[0]) for run in runs)
    return [
        Row("import cloister [ms]", spent, 400.0),
        Row("processes and threads started by the import [count]", max(float(run[1]) for run in runs), 0.0),
    ]
