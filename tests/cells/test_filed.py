"""Cells that use files, and workers that die after them: nothing is written twice. Real engines, SIGKILL."""

import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pytest

from cloister.cells import filed
from cloister.cells.cell import Cell
from cloister.cells.driver import Driver, Ended, Sleeper
from cloister.cells.filed import Filed
from cloister.cells.output import Output
from cloister.cells.seats import Namespace, Seats
from cloister.cells.tape import Recording, Tape, TapeBroken
from cloister.core.codes import Code
from cloister.core.ids import IdSource
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.engines.monty import MontyEngine
from cloister.engines.quickjs import QuickJSEngine
from cloister.gate import ApprovalDesk, Budget, Gate, Handles, Hooks, Policy, Scope, Wiring
from cloister.gate.secrets import MemorySecrets
from cloister.ports.clock import SystemClock
from cloister.ports.engine import Engine, Program, TypeCheck
from cloister.ports.helping import HelperRefused
from cloister.stores.memory import MemoryJournal
from cloister.testing.conformance.disk import Disk
from cloister.tools import Tool, ToolRegistry
from cloister.tools.catalog import render_catalog

pytestmark = pytest.mark.anyio

LIMITS = SessionLimits(cpu_ms=20_000, wall_ms=60_000)
NARROW = replace(LIMITS, memory_mb=32)
NOW = 1_700_000_000_000
PYTHON = {
    "append": "open('log', 'a').write('{0};')\n{0} = len(open('log').read())\n{0}",
    "let": "{0} = {1}",
    "get": "{0}",
    "wait": "open('log', 'a').write('a;')\nx = await echo(n=7)\nopen('log', 'a').write('b;')",
    "fail": "x = open('log', 'a').write('a;')\nraise ValueError('no')",
    "look": """
try:
    open('log').read()
    x = 'there'
except FileNotFoundError:
    x = 'absent'
open('log', 'a').write('a;')
x
""",
    "read": """
try:
    for _ in range(5):
        x = len(open('log').read())
except OSError as e:
    x = str(e)
x
""",
}
TYPESCRIPT = {
    "append": "files.append('log', '{0};'); var {0} = files.read('log').length; {0}",
    "let": "var {0} = {1}",
    "get": "{0}",
    "wait": "files.append('log', 'a;'); var x = await echo({{n: 7}}); files.append('log', 'b;')",
    "fail": "var x = files.append('log', 'a;'); throw new Error('no')",
    "look": "var x = files.exists('log') ? 'there' : 'absent'; files.append('log', 'a;'); x",
    "read": """
var x: any;
try {{ for (let i = 0; i < 5; i++) x = files.read('log').length }} catch (e: any) {{ x = e.code + ' ' + e.message }}
x
""",
}


def _unheard(*_: object) -> None:
    """Nobody listens."""


@dataclass
class House:
    """One namespace, its cells and their files, with as much around it as a session would put there."""

    engine: Engine
    disk: Disk = field(default_factory=Disk)
    lasting: bool = True

    def __post_init__(self) -> None:
        async def echo(n: int) -> int:
            return n

        language = self.engine.language
        registry = ToolRegistry([Tool(echo)])
        clock = SystemClock()
        ids = IdSource(clock.now_ms)
        self.catalog = render_catalog(registry, language)
        wiring = Wiring(clock, ids, ApprovalDesk(clock, ids), MemoryJournal(), _unheard)
        policy, handles = Policy(overrides={}, deny=[]), Handles("0123456789abcdefghij", MemorySecrets.parse({}))
        gate = Gate(registry, wiring, Scope("house", language, {}), policy, Hooks.parse([]), handles)
        self.seats = Seats(self.engine)
        self.namespace = Namespace(LIMITS, 1, lasting=self.lasting)
        self.driver = Driver(self.seats, self.namespace, gate, clock, TypeCheck.OFF)
        self._numbers = count(1)

    def program(self, name: str, *parts: object) -> Program:
        programs = PYTHON if self.engine.language is Language.PYTHON else TYPESCRIPT
        return Program(programs[name].format(*parts))

    async def run(self, name: str, *parts: object, bounds: SessionLimits = LIMITS) -> Any:
        ended = await self.end(name, *parts, bounds=bounds)
        assert ended.ending.error is None, ended
        return ended.ending.value

    async def end(self, name: str, *parts: object, bounds: SessionLimits = LIMITS) -> Ended:
        program = self.program(name, *parts)
        cell = Cell(
            id=f"cel_{next(self._numbers)}",
            program=program,
            recording=Recording(program, self.catalog, NOW),
            output=Output(1 << 16),
            budget=Budget(99, 99),
            bounds=bounds,
            wall_left_ms=bounds.wall_ms,
            cpu_left_ms=bounds.cpu_ms,
            helper=self.disk,
        )
        drove = await self.driver.run(cell)
        assert not isinstance(drove, Sleeper)
        return drove

    @property
    def log(self) -> str:
        return self.disk.files["/log"].decode()

    async def kill(self) -> None:
        """The worker dies; the cell that finds out is lost."""
        interpreter = self.namespace.interpreter
        assert interpreter is not None
        assert interpreter.pid is not None
        os.kill(interpreter.pid, signal.SIGKILL)
        ended = await self.end("append", "lost")
        assert ended.ending.error is not None
        assert ended.ending.error.code == Code.ENGINE_CRASHED


@pytest.fixture(params=["python", "typescript"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    async with MontyEngine(capacity=1) if request.param == "python" else QuickJSEngine(capacity=1) as engine:
        yield engine


@pytest.fixture
async def house(engine: Engine) -> AsyncIterator[House]:
    house = House(engine)
    yield house
    await house.seats.lose(house.namespace)


async def test_worker_that_dies_writes_no_file_twice_and_takes_no_variable_along(house: House) -> None:
    await house.run("let", "before", 1)
    assert await house.run("append", "a") == 2
    await house.run("let", "after", 2)
    assert await house.run("append", "b") == 4
    await house.run("let", "last", 3)
    await house.kill()
    assert [await house.run("get", name) for name in ("before", "a", "after", "b", "last")] == [1, 2, 2, 4, 3]
    assert house.log == "a;b;"


async def test_only_cells_that_used_files_stay_off_the_tape(house: House) -> None:
    await house.run("let", "one", 1)
    assert len(house.namespace.tape) == 1
    await house.run("append", "a")
    assert len(house.namespace.tape) == 0
    await house.run("let", "two", 1)
    assert len(house.namespace.tape) == 1


async def test_cell_that_waited_between_two_writes_is_not_played_either(house: House) -> None:
    await house.run("wait")
    await house.kill()
    assert await house.run("get", "x") == 7
    assert house.log == "a;b;"


async def test_cell_that_failed_keeps_what_it_assigned_and_wrote_once(house: House) -> None:
    ended = await house.end("fail")
    assert ended.ending.error is not None
    await house.kill()
    assert await house.run("get", "x") == 2
    assert house.log == "a;"


async def test_namespace_of_no_further_use_is_not_put_to_bytes(engine: Engine) -> None:
    house = House(engine, lasting=False)
    assert await house.run("append", "a") == 2
    assert house.namespace.state is None


# -- narrower limits --------------------------------------------------------------------------------------------------


async def test_cell_with_narrower_limits_is_played_with_the_answers_that_it_had(house: House) -> None:
    assert await house.run("append", "a", bounds=NARROW) == 2
    assert await house.run("look", bounds=NARROW) == "there"
    house.disk.files.clear()
    assert await house.run("look", bounds=NARROW) == "absent"
    house.disk.files["/log"] += b"c;"
    # All three are played now, in the namespace's own interpreter.
    assert await house.run("append", "b") == 6
    assert [await house.run("get", name) for name in ("a", "x", "b")] == [2, "absent", 6]
    assert house.log == "a;c;b;"


async def test_cell_with_narrower_limits_may_not_be_told_more_than_is_kept(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filed, "MOST_KEPT_BYTES", 4096)
    house.disk.files["/log"] = b"x" * 1000
    assert await house.run("read") == 1000
    told = await house.run("read", bounds=NARROW)
    assert "read less, or run it without those limits" in told
    # Played, it is refused at the same place.
    assert await house.run("get", "x") == told


def test_refusals_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filed, "MOST_KEPT_BYTES", 4096)
    kept, disk = Filed(), Disk()
    kept.keep()
    helper = kept.through(disk)
    for _ in range(1000):
        with pytest.raises(HelperRefused):
            helper("files.stat", ("nowhere",))
    assert len(disk.asked) < 30
    again = kept.again(disk)
    for _ in range(1000):
        with pytest.raises(HelperRefused):
            again("files.stat", ("nowhere",))
    assert not again.strayed


async def test_tape_that_is_asked_for_other_files_is_broken(house: House) -> None:
    first = Recording(house.program("append", "a"), house.catalog, NOW)
    tape = Tape()
    tape.add(first)
    interpreter = await house.seats.take(house.namespace)
    with pytest.raises(TapeBroken):
        await tape.play(interpreter, LIMITS)


def test_kept_refusal_is_played_as_a_refusal() -> None:
    kept = Filed()
    kept.keep()
    disk = Disk()
    first = kept.through(disk)
    outcomes: list[object] = []
    for helper in (first, kept.again(disk)):
        for name in ("files.read", "files.write"):
            try:
                outcomes.append(helper(name, ("a", "text") if name == "files.read" else ("a", "b", "text", "w")))
            except HelperRefused as refused:
                outcomes.append(refused.code)
    assert outcomes == ["not_found", 1, "not_found", 1]
    assert len(disk.asked) == 2
