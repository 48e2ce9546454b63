"""The host's loop goes on beating, whatever cells do: nothing of theirs is done on it for long."""

import asyncio
import statistics
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cloister import (
    CapabilityLimits,
    CellLimits,
    Cloister,
    Completed,
    Event,
    Observation,
    Session,
    SessionLimits,
    Terminated,
    Tool,
    WaitingForApproval,
    Yielded,
)
from tests.pulse import lived_s

pytestmark = pytest.mark.anyio

WORKERS = 2
TICK = 0.005
# Far above what a beat takes on a machine that others use too, far below what a program or a flood of them takes.
LONGEST_GAP = 1.5
USUAL_GAP = 0.15
both_languages = pytest.mark.parametrize("language", ["python", "typescript"])
PROGRAMS = {
    "python": {
        "burn": "print('on')\nwhile True:\n    pass",
        "hold": "await hold(key={})",
        "flood": "print('x' * 30000)\nprint('y' * 29000)\n{}",
        "lines": "for i in range(3000):\n    print('line', i, 'y' * 8)\n{}",
        "big": "['z' * 1000] * 900",
    },
    "typescript": {
        "burn": "console.log('on'); while (true) {}",
        "hold": "await tools.hold({{key: {}}})",
        "flood": "console.log('x'.repeat(30000)); console.log('y'.repeat(29000)); {}",
        "lines": "for (let i = 0; i < 3000; i++) console.log('line', i, 'y'.repeat(8)); {}",
        "big": "Array(900).fill('z'.repeat(1000))",
    },
}


class Heart:
    """Ticks on the loop, and knows how long each tick was overdue."""

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self._beaten = asyncio.Event()

    async def beat(self) -> None:
        last = lived_s()
        while True:
            await asyncio.sleep(TICK)
            now = lived_s()
            self.gaps.append(now - last)
            last = now
            self._beaten.set()

    async def beats(self, more: int) -> None:
        """So many more, however long each takes."""
        wanted = len(self.gaps) + more
        async with asyncio.timeout(60):
            while len(self.gaps) < wanted:
                self._beaten.clear()
                await self._beaten.wait()

    def check(self) -> None:
        assert self.gaps, "the loop had no time for a single beat"
        print(f"{len(self.gaps)} beats, median {statistics.median(self.gaps):.4f} s, longest {max(self.gaps):.3f} s")
        assert max(self.gaps) < LONGEST_GAP, f"the loop stood still for {max(self.gaps):.2f} s"
        # So many stumbles that nothing else gets anywhere are no better than one long stop.
        assert statistics.median(self.gaps) < USUAL_GAP, f"a beat took {statistics.median(self.gaps):.3f} s"


class House:
    def __init__(self, language: str) -> None:
        self.language = language
        self.programs = PROGRAMS[language]
        self.events: list[Event] = []
        self._changed = asyncio.Event()
        self.go = asyncio.Event()
        self.cloister = Cloister(
            tools=[Tool(self.hold, limits=CapabilityLimits(timeout_ms=120_000, concurrency=2000))],
            workers=WORKERS,
            type_check="off",
            limits=SessionLimits(cpu_ms=100_000, wall_ms=100_000),
            cells=CellLimits(hibernate_after_ms=0, max_isolated=1000),
            on_event=self._hear,
        )

    async def hold(self, key: int) -> int:
        """Wait until all are let go."""
        await self.go.wait()
        return key

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def count(self, kind: str) -> int:
        return sum(event.kind == kind for event in self.events)

    async def burning(self, session: Session) -> Observation:
        loop, burns = asyncio.get_running_loop(), asyncio.Event()

        def hear(_stream: str, _text: str) -> None:
            loop.call_soon_threadsafe(burns.set)

        observed = await session.exec(self.programs["burn"], yield_ms=0, isolated=True, on_output=hear)
        await asyncio.wait_for(burns.wait(), 30)
        return observed


@asynccontextmanager
async def beating(language: str) -> AsyncGenerator[tuple[House, Session, Heart]]:
    """A house at work; the heart beats from the time when its engine has started until the block is over."""
    house, heart = House(language), Heart()
    async with house.cloister as cloister:
        session = await cloister.open_session("s", language=language)
        assert (await session.run("1")).ok
        beats = asyncio.create_task(heart.beat())
        try:
            yield house, session, heart
        finally:
            beats.cancel()
            await asyncio.wait([beats])


async def end_of(session: Session, observed: Observation) -> tuple[Observation, str]:
    said = "".join(item["text"] for item in observed.content)
    async with asyncio.timeout(60):
        while isinstance(observed, Yielded | WaitingForApproval):
            observed = await session.wait(observed.cell_id, yield_ms=30_000)
            said += "".join(item["text"] for item in observed.content)
    return observed, said


def _value(ended: Observation) -> Any:
    assert isinstance(ended, Completed), ended
    return ended.result


@both_languages
async def test_the_loop_beats_while_programs_burn_all_that_the_workers_have(language: str) -> None:
    async with beating(language) as (house, session, heart):
        cells = [await house.burning(session) for _ in range(WORKERS)]
        await heart.beats(100)
        for cell in cells:
            assert isinstance(await asyncio.wait_for(session.terminate(cell.cell_id), 30), Terminated)
    heart.check()


async def test_the_loop_beats_while_three_hundred_cells_fall_asleep_and_wake() -> None:
    async with beating("python") as (house, session, heart):
        cells = [await session.exec(house.programs["hold"].format(n), yield_ms=0, isolated=True) for n in range(300)]
        await house.until(lambda: house.count("cell.hibernated") >= 300)
        house.go.set()
        assert [_value((await end_of(session, cell))[0]) for cell in cells] == list(range(300))
        assert house.count("cell.woken") >= 300
    heart.check()


async def test_the_loop_beats_while_two_hundred_cells_are_terminated() -> None:
    async with beating("python") as (house, session, heart):
        cells = [await session.exec(house.programs["hold"].format(n), yield_ms=0, isolated=True) for n in range(200)]
        # Some sleep, some wait, some stand in line.
        await house.until(lambda: house.count("cell.hibernated") >= 100)
        async with asyncio.timeout(60):
            ended = await asyncio.gather(*(session.terminate(cell.cell_id) for cell in cells))
        assert {type(one) for one in ended} == {Terminated}
        assert house.count("cell.terminated") == 200
        assert _value((await end_of(session, await session.exec("1 + 1")))[0]) == 2
    heart.check()


@both_languages
async def test_the_loop_beats_while_floods_of_output_are_printed_and_observed(language: str) -> None:
    async with beating(language) as (house, session, heart):
        for n in range(10):
            ended, said = await end_of(session, await session.exec(house.programs["flood"].format(n)))
            assert _value(ended) == n
            # More than an observation may carry was cut, and the whole is in the files.
            assert isinstance(ended, Completed)
            assert ended.saved_output is not None
            assert len(await session.files.read_text(ended.saved_output)) >= 59_000
            assert len(said) < 59_000
        for n in range(3):
            ended, said = await end_of(session, await session.exec(house.programs["lines"].format(n)))
            assert _value(ended) == n
        ended, _ = await end_of(session, await session.exec(house.programs["big"]))
        assert isinstance(ended, Completed)
    heart.check()


@both_languages
async def test_the_loop_beats_while_cells_of_all_kinds_come_and_go_beside_one_that_burns(language: str) -> None:
    async with beating(language) as (house, session, heart):
        burning = await house.burning(session)
        held = [await session.exec(house.programs["hold"].format(n), yield_ms=0, isolated=True) for n in range(40)]
        floods = [await session.exec(house.programs["flood"].format(n), yield_ms=0, isolated=True) for n in range(10)]
        await house.until(lambda: house.count("cell.hibernated") >= 40)
        house.go.set()
        assert [_value((await end_of(session, cell))[0]) for cell in held] == list(range(40))
        assert [_value((await end_of(session, cell))[0]) for cell in floods] == list(range(10))
        assert isinstance(await asyncio.wait_for(session.terminate(burning.cell_id), 30), Terminated)
    heart.check()
