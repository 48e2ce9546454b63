"""One engine for each file of tests, and a session that is driven a cell at a time."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal

import pytest

from cloister.core.limits import SessionLimits
from cloister.core.value import Json
from cloister.engines.quickjs.engine import QuickJSEngine
from cloister.engines.quickjs.interpreter import QuickJSInterpreter
from cloister.ports.engine import Catalog, Checked, Program, Settlement, Step, Turn, TypeCheck

NAMES = frozenset({"get_order", "list_orders", "shop.buy", "shop.sell"})


class Driver:
    """A session under test: `run` starts a cell, `settle` goes on with it, `printed` is what came out so far."""

    def __init__(self, interpreter: QuickJSInterpreter) -> None:
        self.interpreter = interpreter
        self.printed: list[tuple[Literal["stdout", "stderr"], str]] = []
        self.names = NAMES
        self.now_ms = 1_700_000_000_000
        self.cpu_ms = 2000.0
        self.wall_ms = 20_000.0
        self.max_calls = 1000
        self.own: frozenset[str] = frozenset()
        self.mark = ""
        self.helpers: frozenset[str] = frozenset()
        self.helped: list[tuple[str, tuple[Json, ...]]] = []
        self.loaded: Json = None
        self.heard = asyncio.Event()

    def turn(self) -> Turn:
        def sink(stream: Literal["stdout", "stderr"], text: str) -> None:
            self.printed.append((stream, text))
            self.heard.set()

        def helper(name: str, given: tuple[Json, ...]) -> Json:
            self.helped.append((name, given))
            return self.loaded if name == "load" else None

        signatures = {"get_order": "get_order({order_id: string})"}
        catalog = Catalog(self.names, signatures=signatures, own=self.own, mark=self.mark, helpers=self.helpers)
        return Turn(self.now_ms, self.wall_ms, self.cpu_ms, sink, catalog, self.max_calls, helper)

    async def run(self, code: str, inputs: Mapping[str, Any] | None = None) -> Step:
        return await self.interpreter.start(Program(code, inputs or {}), self.turn())

    async def settle(self, *settlements: Settlement) -> Step:
        return await self.interpreter.resume(settlements, self.turn())

    async def check(self, code: str) -> Checked:
        return await self.interpreter.check(Program(code), TypeCheck.WARN, self.turn(), starting=False)

    @property
    def stdout(self) -> str:
        return "".join(text for stream, text in self.printed if stream == "stdout")

    @property
    def stderr(self) -> str:
        return "".join(text for stream, text in self.printed if stream == "stderr")


class Opener:
    """Opens sessions on an engine and closes them when the test is over."""

    def __init__(self, engine: QuickJSEngine) -> None:
        self.engine = engine
        self.opened: list[QuickJSInterpreter] = []

    async def __call__(
        self, limits: SessionLimits | None = None, state: bytes | None = None, *, seed: int = 0
    ) -> Driver:
        interpreter = await self.engine.open(limits or SessionLimits(), state, seed=seed)
        self.opened.append(interpreter)
        return Driver(interpreter)

    async def close(self, interpreters: Sequence[QuickJSInterpreter]) -> None:
        for interpreter in interpreters:
            await interpreter.close()


@pytest.fixture(scope="module")
async def engine() -> AsyncIterator[QuickJSEngine]:
    async with QuickJSEngine(capacity=4) as engine:
        yield engine


@pytest.fixture
async def open_session(engine: QuickJSEngine) -> AsyncIterator[Opener]:
    opener = Opener(engine)
    yield opener
    await opener.close(opener.opened)


@pytest.fixture
async def session(open_session: Opener) -> Driver:
    return await open_session()
