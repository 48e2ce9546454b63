"""What the behaviours of cells are shown with: a host with real engines, tools that a test holds back, a few programs.

Most programs are the same text in both languages; those that are not are in the table below.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from itertools import count
from typing import Any, ParamSpec, TypeAlias

import pytest

from cloister import (
    CapabilityLimits,
    CellInfo,
    CellLimits,
    Cloister,
    Completed,
    Event,
    Failed,
    Observation,
    Session,
    SessionLimits,
    Tool,
    Yielded,
)

LANGUAGES = ("python", "typescript")
P = ParamSpec("P")
Test: TypeAlias = Callable[P, Coroutine[Any, Any, None]]
KEY = b"a key for the behaviour of cells"
LONG = 60_000

PROGRAMS: Mapping[str, Mapping[str, str]] = {
    # Says when it has begun, to whoever observes, and never ends.
    "loop": {
        "python": "yield_control()\nwhile True:\n    pass",
        "typescript": "yield_control(); while (true) {}",
    },
    "fail": {"python": "raise ValueError('no way')", "typescript": "throw new Error('no way')"},
    "sleep": {
        "python": "import asyncio\nawait asyncio.sleep({0})\n'slept'",
        "typescript": "await new Promise(done => setTimeout(done, {0} * 1000)); 'slept'",
    },
    "let": {"python": "{0} = {1}", "typescript": "var {0} = {1}"},
    "print": {"python": "print({0})", "typescript": "console.log({0})"},
    "nothing": {"python": "None", "typescript": "undefined"},
    # What became of one call: its value, or what the error says.
    "caught": {
        "python": "try:\n    got = {0}\nexcept Exception as e:\n    got = 'caught ' + str(e)\ngot",
        "typescript": "var got; try {{ got = {0} }} catch (e) {{ got = 'caught ' + (e.code ?? '') + e.message }} got",
    },
    "together": {
        "python": "import asyncio\nawait asyncio.gather({0})",
        "typescript": "await Promise.all([{0}])",
    },
    # One after the other, as they settle.
    "as_they_come": {
        "python": (
            "import asyncio\n"
            "async def one(n):\n    text(await hold(n))\n"
            "await asyncio.gather(*[one(n) for n in range({0})])\n'all'"
        ),
        "typescript": (
            "const one = async (n) => {{ text(await hold(n)) }};\n"
            "await Promise.all([...Array({0}).keys()].map(one)); 'all'"
        ),
    },
    "many_notes": {"python": "for i in range({0}):\n    notify(i)\n'told'"},
    "is_defined": {
        "python": "try:\n    {0}\n    got = True\nexcept NameError:\n    got = False\ngot",
        "typescript": "typeof {0} !== 'undefined'",
    },
}


def behaviour(test: Test[P]) -> Test[P]:
    """A test that is bounded, and takes nothing along when it does not end: its host is not its own."""

    @wraps(test)
    async def within(*args: P.args, **named: P.kwargs) -> None:
        async with asyncio.timeout(20):
            await test(*args, **named)

    return pytest.mark.anyio(within)


def in_both(test: Test[P]) -> Test[P]:
    """A behaviour of cells in every language."""
    return pytest.mark.parametrize("language", LANGUAGES)(behaviour(test))


def program(language: str, name: str, *parts: object) -> str:
    written = PROGRAMS[name][language]
    return written.format(*parts) if parts else written


class Latch:
    """`hold(n)` tells the test that it has come, and gives `n` back when the test lets it go."""

    def __init__(self, name: str = "hold") -> None:
        self.came: list[int] = []
        self.cancelled: list[int] = []
        self._free: set[int] = set()
        self._all_free = False
        self._moved = asyncio.Condition()
        self.tool = Tool(self._hold, name=name, limits=CapabilityLimits(timeout_ms=LONG, concurrency=100))

    async def _hold(self, n: int = 0) -> int:
        async with self._moved:
            self.came.append(n)
            self._moved.notify_all()
            try:
                await self._moved.wait_for(lambda: self._all_free or n in self._free)
            except asyncio.CancelledError:
                self.cancelled.append(n)
                raise
        return n

    async def until_came(self, times: int = 1) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: len(self.came) >= times)

    async def let_go(self, *numbers: int) -> None:
        """These, now and later; all of them if none is named."""
        async with self._moved:
            self._free.update(numbers)
            self._all_free = self._all_free or not numbers
            self._moved.notify_all()


class Leaving:
    """`linger()` waits for ever; when it is cancelled, it takes until the test says so to be gone."""

    def __init__(self) -> None:
        self.entered, self.leaving, self.may_leave = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.gone = False
        self.tool = Tool(self._linger, name="linger", limits=CapabilityLimits(timeout_ms=LONG))

    async def _linger(self) -> None:
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.leaving.set()
            await self.may_leave.wait()
            self.gone = True


class House:
    """A Cloister, and as many sessions as a test wants."""

    def __init__(self, *, cells: CellLimits | None = None, limits: SessionLimits | None = None, **options: Any) -> None:
        # Long enough that no test ever comes to a limit that it is not about.
        usual = limits or SessionLimits(wall_ms=LONG, cpu_ms=LONG)
        more: dict[str, Any] = {"workers": 2, "type_check": "off", "snapshot_key": KEY} | options
        self.cloister = Cloister(cells=cells, limits=usual, **more)
        self._numbers = count(1)

    async def __aenter__(self) -> "House":
        await self.cloister.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.cloister.__aexit__(*exc)

    async def open(self, language: str, *tools: Tool, **options: Any) -> Session:
        """A session of its own for every test; leave it by `async with`."""
        return await self.cloister.open_session(f"s{next(self._numbers)}", language=language, tools=tools, **options)


class Reader:
    """The events of one session, kept as they are read."""

    def __init__(self, session: Session) -> None:
        self.stream = session.events()
        self.seen: list[Event] = []

    async def until(self, kind: str, cell_id: str | None = None) -> Event:
        """The next event of that kind, of that cell if one is named."""
        async for event in self.stream:
            self.seen.append(event)
            if event.kind == kind and cell_id in (None, event.data.get("cell_id")):
                return event
        raise AssertionError(f"the session closed without {kind}: {self.kinds}")

    async def rest(self) -> list[Event]:
        async for event in self.stream:
            self.seen.append(event)
        return self.seen

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.seen]


@asynccontextmanager
async def reading(session: Session) -> AsyncGenerator[Reader]:
    reader = Reader(session)
    async with reader.stream:
        yield reader


async def observe(session: Session, cell_id: str, yield_ms: int = LONG) -> "asyncio.Task[Observation]":
    """An observer that is there already."""
    task = asyncio.create_task(session.wait(cell_id, yield_ms=yield_ms))
    while not (await info(session, cell_id)).observed:
        assert not task.done(), task
        await asyncio.sleep(0)
    return task


async def start(session: Session, code: str, **options: Any) -> str:
    """A cell that nobody observes."""
    return (await session.exec(code, yield_ms=0, **options)).cell_id


async def to_the_end(session: Session, cell_id: str) -> Observation:
    """How a cell ended, whatever it told before."""
    while isinstance(seen := await session.wait(cell_id, yield_ms=LONG), Yielded):
        pass
    return seen


async def info(session: Session, cell_id: str) -> CellInfo:
    (found,) = [cell for cell in await session.cells() if cell.id == cell_id]
    return found


async def states(session: Session) -> list[str]:
    return [str(cell.state) for cell in await session.cells()]


async def a_few_rounds() -> None:
    """Whatever could happen by itself, without anything from outside, has happened."""
    for _ in range(20):
        await asyncio.sleep(0)


def texts(seen: Observation) -> list[str]:
    return [item["text"] for item in seen.content if item["type"] == "input_text"]


def result(seen: Observation) -> Any:
    """The result of a cell that ended well; otherwise the test fails and shows how it ended."""
    assert isinstance(seen, Completed), seen
    return seen.result


def error_code(seen: Observation) -> str:
    assert isinstance(seen, Failed), seen
    return str(seen.error.code)


def codes(seen: Observation) -> list[str]:
    """What its diagnostics are about."""
    return [str(note.code) for note in getattr(seen, "diagnostics", ())]
