"""The act in which nobody looks: a cell says what it has so far and goes on to its end; another is stopped."""

import asyncio

from cloister.app import Cloister
from cloister.cli.demo.programs import COUNTING, ENDLESS
from cloister.cli.demo.stage import Stage
from cloister.cli.source import Source
from cloister.core.cell import CellLimits, Completed, Observation, Terminated, Yielded
from cloister.sessions import Session
from cloister.tools import tool

_CROWD = 20


@tool(side_effect="read")
async def count_stock(shelf: str) -> int:
    """Count what lies on a shelf. Somebody has to walk there."""
    await asyncio.sleep(0.1)
    return len(shelf)


async def look_away(stage: Stage) -> bool:
    """Play the act in both languages; whether it went as it should."""
    went_well = True
    limits = CellLimits(hibernate_after_ms=20)
    async with Cloister(tools=[count_stock], workers=2, cells=limits) as cloister:
        for language, code in COUNTING.items():
            session = await cloister.open_session(language.value, language=language)
            stage.program(Source("cell", code, language))
            first = await session.exec(code)
            stage.line(f"so far: {_said(first)}")
            last = await session.wait(first.cell_id)
            stage.line(f"the rest: {_said(last)}")
            crowd = [await session.exec(code, isolated=True, yield_ms=0) for _ in range(_CROWD)]
            endless = await session.exec(ENDLESS[language], isolated=True, yield_ms=0)
            ends = [await _end(session, cell.cell_id) for cell in crowd]
            done = sum(isinstance(end, Completed) for end in ends)
            stopped = await session.terminate(endless.cell_id)
            stage.line(f"   {done} more beside each other on 2 workers; one that never ends: {stopped.status}")
            went_well = went_well and isinstance(first, Yielded) and isinstance(last, Completed) and done == _CROWD
            went_well = went_well and isinstance(stopped, Terminated)
    return went_well


async def _end(session: Session, cell_id: str) -> Observation:
    while isinstance(seen := await session.wait(cell_id), Yielded):
        pass
    return seen


def _said(seen: Observation) -> str:
    return " | ".join(str(item.get("text", "")).strip() for item in seen.content)
