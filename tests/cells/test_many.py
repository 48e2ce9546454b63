"""Thousands of cells that wait for people, in one process, on two workers: nothing but bytes while they do."""

import asyncio
import gc
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cloister import (
    CellLimits,
    CellState,
    Cloister,
    Code,
    Completed,
    Event,
    Failed,
    Observation,
    Session,
    Tool,
    WaitingForApproval,
    Yielded,
)
from tests.processes import children

pytestmark = pytest.mark.anyio

WORKERS = 2
# Monty has two pools, each with a checker and its successor beside the workers; QuickJS has one, and a checker.
MOST_PROCESSES = 2 * (WORKERS + 2) + (WORKERS + 2)
MOST_KB_A_CELL = 40
PROGRAMS = {
    "python": "print('asking {0}')\nsaid = await refund(n={0})\nprint('told {0}')\nsaid + {0}",
    "typescript": "console.log('asking {0}'); var said = await tools.refund({{n: {0}}});"
    " console.log('told {0}'); said + {0}",
}
LIMITS = CellLimits(max_cells=20_000, max_isolated=20_000, max_queued=20_000)


async def refund(n: int) -> int:
    """Somebody is asked first."""
    return n * 1000


class Count:
    """Hears of everything, counts it, and now and then looks how many processes there are."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._changed = asyncio.Event()
        self.strangers = children()
        self.most_processes = 0
        self._heard = 0

    def hear(self, event: Event) -> None:
        self._counts[event.kind] = self._counts.get(event.kind, 0) + 1
        self._heard += 1
        if self._heard % 200 == 0:
            self.most_processes = max(self.most_processes, len(children(beside=self.strangers)))
        self._changed.set()

    async def reaches(self, kind: str, count: int, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while self._counts.get(kind, 0) < count:
                self._changed.clear()
                await self._changed.wait()


@dataclass
class Waiting:
    """A cell that sleeps, and what it will have said and come to."""

    session: Session
    cell_id: str
    number: int
    content: list[str] = field(default_factory=list[str])

    async def end(self) -> Observation:
        while True:
            observed = await self.session.wait(self.cell_id, yield_ms=60_000)
            self.content += [item["text"] for item in observed.content]
            if not isinstance(observed, Yielded | WaitingForApproval):
                return observed


def resident_kb() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


async def _sleep_and_wake(
    plan: Mapping[str, int], say: Callable[[str, float], None], *, a_session: int, seconds: float
) -> None:
    count = Count()
    async with Cloister(
        tools=[Tool(refund, approval_policy="manual")],
        workers=WORKERS,
        type_check="off",
        cells=LIMITS,
        on_event=count.hear,
    ) as cloister:
        for language in plan:
            # What is loaded once for all is no cell's.
            warm = await cloister.open_session(f"warm-{language}", language=language)
            asked = await warm.exec(PROGRAMS[language].format(0))
            assert isinstance(asked, WaitingForApproval)
            await warm.terminate(asked.cell_id)
        sessions = [
            await cloister.open_session(f"{language}-{number}", language=language)
            for language, cells in plan.items()
            for number in range(max(cells // a_session, 1))
        ]
        by_language = {name: [s for s in sessions if s.language == name] for name in plan}
        tasks, memory, began = len(asyncio.all_tasks()), resident_kb(), time.monotonic()

        cells: list[Waiting] = []
        for language, wanted in plan.items():
            homes = by_language[language]
            for number in range(wanted):
                session = homes[number % len(homes)]
                # The first of each session is in its own namespace, and sleeps there.
                first = number < len(homes)
                started = await session.exec(PROGRAMS[language].format(number), yield_ms=0, isolated=not first)
                cells.append(Waiting(session, started.cell_id, number, [item["text"] for item in started.content]))
        await count.reaches("cell.hibernated", len(cells) + len(plan), seconds)
        say("seconds until all sleep", time.monotonic() - began)

        # Nothing of them is left but bytes.
        kilobytes = (resident_kb() - memory) / len(cells)
        say("KB per waiting cell", kilobytes)
        assert kilobytes < MOST_KB_A_CELL
        assert len(asyncio.all_tasks()) <= tasks + 5
        infos = [info for session in sessions for info in await session.cells()]
        assert len(infos) == len(cells)
        assert {(info.state, len(info.approvals), info.waiting_for) for info in infos} == {
            (CellState.ASLEEP, 1, ("refund",))
        }
        assert all(session.worker_pid is None for session in sessions)
        for homes in by_language.values():
            seats = homes[0]._seats  # pyright: ignore[reportPrivateUsage]
            assert seats._free + len(seats._idle) == WORKERS  # pyright: ignore[reportPrivateUsage]
        # And there is room for others.
        for homes in by_language.values():
            passing = await homes[0].exec("1 + 1", isolated=True)
            assert isinstance(passing, Completed)
        count.most_processes = max(count.most_processes, len(children(beside=count.strangers)))

        began = time.monotonic()
        pending = await cloister.approvals(state="pending")
        numbers = {cell.cell_id: cell.number for cell in cells}
        denied = {approval.id for approval in pending if numbers[approval.cell_id] % 10 == 9}
        decided = await cloister.decide_many(
            [{"id": approval.id, "decision": "deny" if approval.id in denied else "allow"} for approval in pending]
        )
        assert len(decided) == len(cells)
        assert all(one.error is None for one in decided)
        async with asyncio.timeout(seconds):
            for cell in cells:
                _check(cell, await cell.end())
        say("seconds until all have ended", time.monotonic() - began)
        assert [info for session in sessions for info in await session.cells()] == []
        assert await cloister.approvals(state="pending") == []
    assert count.most_processes <= MOST_PROCESSES


def _check(cell: Waiting, ended: Observation) -> None:
    number, said = cell.number, "".join(cell.content)
    if number % 10 == 9:
        assert isinstance(ended, Failed), ended
        assert ended.error.code == Code.APPROVAL_DENIED
        assert said == f"asking {number}\n"
    else:
        assert isinstance(ended, Completed), ended
        assert ended.result == number * 1001
        assert said == f"asking {number}\ntold {number}\n"


@pytest.fixture
def say(record_property: Callable[[str, object], None], request: pytest.FixtureRequest) -> Callable[[str, float], None]:
    """Figures go into the report, and with `-s` to the terminal."""

    def tell(what: str, figure: float) -> None:
        record_property(what, round(figure, 2))
        print(f"\n{request.node.name}: {figure:.2f} {what}", end="")

    return tell


@pytest.mark.parametrize(("language", "cells"), [("python", 1500), ("typescript", 150)])
async def test_a_thousand_cells_wait_for_people_as_bytes_and_all_go_on(
    language: str, cells: int, say: Callable[[str, float], Any]
) -> None:
    await _sleep_and_wake({language: cells}, say, a_session=50, seconds=100)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_ten_thousand_cells_wait_for_people_as_bytes_and_all_go_on(say: Callable[[str, float], Any]) -> None:
    await _sleep_and_wake({"python": 10_000, "typescript": 500}, say, a_session=100, seconds=400)
