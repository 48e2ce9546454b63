"""One session and its cells that have not ended, as whoever types sees them.

Cells run one at a time, in order. One that waits for a person keeps its place, and those behind it wait with it.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never

from cloister.cli.approve import described
from cloister.cli.diagnostics import CellEnd, findings, render
from cloister.cli.images import image_lines
from cloister.cli.source import Source
from cloister.cli.terminal import ProgramOutput, styled
from cloister.core.cell import (
    CellState,
    Completed,
    Failed,
    Interrupted,
    Observation,
    Terminated,
    WaitingForApproval,
    Yielded,
)
from cloister.core.errors import CloisterError
from cloister.sessions import Session

# How long one look at the cells lasts; then another begins.
_LOOK_MS = 60_000
_ENDED = (CellState.COMPLETED, CellState.FAILED, CellState.TERMINATED, CellState.INTERRUPTED)
# As many characters of an id as tell one from another: they begin with the time, so it is the last ones.
_TAIL = 4


@dataclass(slots=True)
class _Open:
    """A cell that has not ended. `source` is None for one that came with a snapshot: nobody typed it here, and
    nobody hears what it says before it tells all at once."""

    source: Source | None
    # Whether it waits for a person.
    asks: bool = False
    # Whether the prompt came back before it ended.
    apart: bool = False


class Conversation:
    def __init__(self, session: Session, output: ProgramOutput) -> None:
        self.session = session
        self._output = output
        # The oldest first: only the first of them can run.
        self._open: dict[str, _Open] = {}
        # The questions that are on the screen already.
        self._asked: set[str] = set()

    @property
    def open(self) -> list[str]:
        return list(self._open)

    async def run(self, code: str) -> None:
        """Start a cell, and come back when nothing runs any more."""
        source = Source("<repl>", code, self.session.language)
        seen = await self.session.exec(code, yield_ms=0, on_output=self._output)
        if isinstance(seen, (Yielded, WaitingForApproval)):
            self._open[seen.cell_id] = _Open(source)
        self._tell(seen, source)
        await self.settle()
        mine = self._open.get(seen.cell_id)
        if mine is not None and not mine.asks:
            self._output.report(f"cloister: cell {seen.cell_id} stands in line behind one that waits for approval")

    async def adopt(self) -> None:
        """Take up the cells that came with the session's snapshot."""
        for info in await self.session.cells():
            self._open[info.id] = _Open(None, apart=True)
        for cell_id in self.open:
            seen = await self.session.wait(cell_id, yield_ms=0)
            # What it had said by then was heard where it was said.
            self._tell(_without_content(seen), None)
        await self.settle()

    async def settle(self) -> None:
        """Until each cell has ended, waits for a person, or stands behind one that does."""
        while self._open and not next(iter(self._open.values())).asks:
            seen = await self.session.wait_any(self.open, timeout_ms=_LOOK_MS)
            if seen is not None:
                mine = self._open[seen.cell_id]
                self._tell(seen, mine.source)
        for left in self._open.values():
            left.apart = True

    def answered(self, cell_id: str) -> None:
        """Somebody decided one of its questions: it goes on."""
        if cell_id in self._open:
            self._open[cell_id].asks = False

    async def stop_running(self) -> None:
        """End the cell whose turn it is; whoever waits for it sees its end."""
        running = [info for info in await self.session.cells() if info.state not in _ENDED]
        if running:
            try:
                await self.session.terminate(running[0].id)
            except CloisterError as error:
                self._output.report(f"cloister: {error.message}")

    async def stop(self, cell_id: str) -> None:
        self._tell(await self.session.terminate(cell_id), self._open[cell_id].source)
        await self.settle()

    async def ask_again(self, cell_id: str) -> None:
        """How a cell stands, that does not run."""
        if not self._open[cell_id].asks:
            self._output.report(f"cloister: cell {cell_id} stands in line behind one that waits for approval")
            return
        self._asked.clear()
        self._tell(_without_content(await self.session.wait(cell_id, yield_ms=0)), None)
        await self.settle()

    # -- told ------------------------------------------------------------------------------------------------

    def _tell(self, seen: Observation, source: Source | None) -> None:
        self._show(seen.content, heard=source is not None)
        match seen:
            case Yielded():
                pass
            case WaitingForApproval():
                self._open[seen.cell_id].asks = True
                self._ask(seen)
            case Completed() | Failed() | Terminated() | Interrupted():
                self._end(seen, source)
            case _:
                assert_never(seen)

    def _show(self, content: tuple[Mapping[str, Any], ...], *, heard: bool) -> None:
        for item in content:
            if item.get("type") == "input_text" and not heard:
                self._output.value(str(item["text"]))
        if sys.stdout.isatty():
            for line in image_lines(content):
                self._output.value(line)

    def _ask(self, seen: WaitingForApproval) -> None:
        for approval in seen.approvals:
            if approval.id not in self._asked:
                self._asked.add(approval.id)
                self._output.report(
                    described(approval, ":approve shows them")
                    + f"  approval {approval.id}: answer with :approve {approval.id[-_TAIL:]} allow, or deny"
                )

    def _end(self, seen: CellEnd, source: Source | None) -> None:
        left = self._open.pop(seen.cell_id, None)
        self._output.finish()
        if left is not None and left.apart:
            self._output.report(f"cloister: cell {seen.cell_id} has ended: {seen.status}")
        elif isinstance(seen, Terminated):
            self._output.report("cloister: the cell was stopped")
        if isinstance(seen, Completed) and seen.result is not None:
            self._output.value(json.dumps(seen.result, indent=2, ensure_ascii=False))
        for finding in findings(seen, lasting=True):
            self._output.report(styled(render(finding, source or Source("<repl>", "", self.session.language))))


def _without_content(seen: Observation) -> Observation:
    return replace(seen, content=())
