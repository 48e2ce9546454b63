"""Workers that are killed under cells whose every wait is written down: those go on from there, on another worker."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cloister import (
    CapabilityLimits,
    CellLimits,
    CellState,
    Cloister,
    Code,
    Completed,
    Event,
    Failed,
    Session,
    SessionLimits,
    Tool,
)

pytestmark = pytest.mark.anyio
NEVER = 3_600_000
in_both = pytest.mark.parametrize("language", ["python", "typescript"])
PROGRAMS = {
    "python": {
        "bind": "kept = 1",
        "pay": "kept = kept + 1\nprint('before')\nstore('k', kept)\nsaid = await pay(n=1)\nprint('after')\n"
        "[kept, said]",
        "twice": "[await pay(n=1), await pay(n=2), await pay(n=3)]",
        "loop": "print('computing')\nwhile True:\n    pass",
        "kept": "kept",
    },
    "typescript": {
        "bind": "var kept = 1",
        "pay": "kept = kept + 1; console.log('before'); store('k', kept); var said = await tools.pay({n: 1});"
        " console.log('after'); [kept, said]",
        "twice": "[await tools.pay({n: 1}), await tools.pay({n: 2}), await tools.pay({n: 3})]",
        "loop": "console.log('computing'); while (true) {}",
        "kept": "kept",
    },
}


class House:
    """A Cloister with a store, and a tool that may do something to the worker of the program that calls it."""

    def __init__(self, path: Path, language: str, *, durability: str = "call") -> None:
        self.programs = PROGRAMS[language]
        self.language = language
        self.paid: list[int] = []
        self.meanwhile: Callable[[Session], Awaitable[None]] = bury
        self.woken = asyncio.Event()
        self.cloister = Cloister(
            tools=[Tool(self.pay, side_effect="write", idempotent=False, limits=CapabilityLimits(timeout_ms=100_000))],
            store=f"sqlite://{path}",
            durability=durability,
            workers=2,
            type_check="off",
            limits=SessionLimits(cpu_ms=60_000, wall_ms=100_000),
            cells=CellLimits(hibernate_after_ms=NEVER),
            on_event=self._hear,
        )
        self.session: Session | None = None

    async def pay(self, n: int) -> str:
        """Once."""
        self.paid.append(n)
        assert self.session is not None
        await self.meanwhile(self.session)
        return f"paid {n}"

    def _hear(self, event: Event) -> None:
        if event.kind == "cell.woken":
            self.woken.set()

    async def open(self) -> Session:
        self.session = await self.cloister.open_session("s", language=self.language)
        assert (await self.session.run(self.programs["bind"])).ok
        return self.session


async def bury(session: Session) -> None:
    """Kill the worker of the session's program; returns when it is dead."""
    pid = session.worker_pid
    assert pid is not None
    watched = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        dead, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(watched, dead.set)
        await dead.wait()
        loop.remove_reader(watched)
    finally:
        os.close(watched)


def said(seen: Any) -> str:
    return "".join(item["text"] for item in seen.content)


@in_both
async def test_cell_whose_worker_dies_while_it_waits_goes_on_from_there(tmp_path: Path, language: str) -> None:
    house = House(tmp_path / "s.db", language)
    async with house.cloister:
        session = await house.open()
        seen = await session.exec(house.programs["pay"], yield_ms=60_000)
        assert isinstance(seen, Completed), seen
        assert (seen.result, said(seen)) == ([2, "paid 1"], "before\nafter\n")
        assert house.paid == [1]
        assert await session.values.get("k") == 2
        assert (await session.run(house.programs["kept"])).result == 2
        # What it did is on record as one life: it can be gone over again.
        assert (await house.cloister.replay(seen.cell_id)).same


@in_both
async def test_cell_whose_worker_dies_in_each_of_its_waits_comes_to_its_end(tmp_path: Path, language: str) -> None:
    house = House(tmp_path / "s.db", language)
    async with house.cloister:
        session = await house.open()
        assert (await session.run(house.programs["twice"])).result == ["paid 1", "paid 2", "paid 3"]
        assert house.paid == [1, 2, 3]


@in_both
async def test_cell_whose_worker_died_before_it_fell_asleep_sleeps_all_the_same(tmp_path: Path, language: str) -> None:
    house = House(tmp_path / "s.db", language)

    async def bury_and_hibernate(session: Session) -> None:
        await bury(session)
        await session._cells.driver.hibernate()  # pyright: ignore[reportPrivateUsage]
        assert session.worker_pid is None
        assert [cell.state for cell in await session.cells()] == [CellState.ASLEEP]

    house.meanwhile = bury_and_hibernate
    async with house.cloister:
        session = await house.open()
        seen = await session.exec(house.programs["pay"], yield_ms=60_000)
        assert isinstance(seen, Completed), seen
        assert (seen.result, said(seen)) == ([2, "paid 1"], "before\nafter\n")
        await house.woken.wait()


@in_both
async def test_cell_whose_waits_are_not_written_down_fails_with_its_worker(tmp_path: Path, language: str) -> None:
    house = House(tmp_path / "s.db", language, durability="cell")
    async with house.cloister:
        session = await house.open()
        seen = await session.exec(house.programs["pay"], yield_ms=60_000)
        assert isinstance(seen, Failed), seen
        assert seen.error.code == Code.ENGINE_CRASHED
        assert (await session.run(house.programs["kept"])).result == 1


@in_both
async def test_cell_whose_worker_dies_while_it_computes_fails_and_is_not_run_again(
    tmp_path: Path, language: str
) -> None:
    house, computing = House(tmp_path / "s.db", language), asyncio.Event()
    async with house.cloister:
        session, loop = await house.open(), asyncio.get_running_loop()

        def hear(_stream: str, _text: str) -> None:
            loop.call_soon_threadsafe(computing.set)

        began = await session.exec(house.programs["loop"], yield_ms=0, on_output=hear)
        await computing.wait()
        await bury(session)
        seen = await session.wait(began.cell_id, yield_ms=60_000)
        assert isinstance(seen, Failed), seen
        assert seen.error.code == Code.ENGINE_CRASHED
