"""One cell from its first moment to its end, and whoever looks at it.

Its owner is the session that started it; the program is driven by one task at a time, and by none while it sleeps
for a person's answer or stands in line. At most one observer looks at it. What there is to tell is taken when the
observer goes with it, not before: one that was dropped on the way has taken nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from cloister.cells.cell import Cell
from cloister.cells.driver import Driver, Sleeper
from cloister.cells.order import Place
from cloister.core.cell import CellInfo, CellState
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import CellBusy
from cloister.core.operation import Operation
from cloister.core.run import RunResult
from cloister.core.strand import Strand
from cloister.core.value import Json
from cloister.ports.clock import moment


class Life:
    __slots__ = (
        "_over",
        "attended",
        "began",
        "begun",
        "cell",
        "created_ms",
        "detached",
        "driven",
        "driver",
        "ended_ms",
        "halted",
        "handed_over",
        "id",
        "isolated",
        "lingers",
        "max_output_bytes",
        "number",
        "observer",
        "on_seated",
        "operation",
        "place",
        "result",
        "run",
        "saved",
        "sleeper",
        "strand",
        "task",
        "told",
        "unwatch",
        "written",
    )

    def __init__(
        self, cell: Cell, driver: Driver, *, created_ms: int, began: float, detached: bool, isolated: bool = False
    ) -> None:
        self.id = cell.id
        self.cell = cell
        self.driver = driver
        self.created_ms = created_ms
        self.began = began
        self.ended_ms: int | None = None
        # Done when it is written down that there is such a cell.
        self.begun: Awaitable[object] | None = None
        # Whether it goes on without a caller: started by `exec`, or waited for with `wait`.
        self.detached = detached
        self.isolated = isolated
        # Whether somebody drives it in their own task, or waits there for an approver to answer.
        self.attended = False
        # Whether its turn is still needed when it has ended.
        self.lingers = False
        # Whether it was begun by `run`, here or elsewhere.
        self.run = False
        # Done when its end is written down, if somebody ended it.
        self.written: Awaitable[object] | None = None
        self.max_output_bytes: int | None = None
        # Its place among all cells of the session, if that is written down.
        self.number = 0
        # The conversation that started it, if one did.
        self.strand: Strand | None = None
        # What a client asked for with it, by its own name.
        self.operation: Operation | None = None
        # Whether the session's files have its output.
        self.saved = False
        self.place: Place | None = None
        self.sleeper: Sleeper | None = None
        self.task: asyncio.Task[None] | None = None
        # Whether the task has taken its first step.
        self.driven = False
        self.on_seated: Callable[[], None] | None = None
        # What it ended with, until somebody has read it.
        self.result: RunResult | None = None
        # Why it was ended from outside.
        self.halted: ErrorObject | None = None
        self.observer: asyncio.Future[None] | None = None
        # The program asked to be observed, and the observer has not gone yet.
        self.handed_over = False
        # The questions that an observer has been told of.
        self.told: frozenset[str] = frozenset()
        self.unwatch: Callable[[], None] | None = None
        self._over: asyncio.Future[None] | None = None

    @property
    def ended(self) -> bool:
        return self.cell.machine.ended

    @property
    def merged(self) -> Mapping[str, Json]:
        """What it stored that the session takes over: of one that was ended from outside, nothing."""
        cell = self.cell
        return cell.values.written if cell.machine.state in (CellState.COMPLETED, CellState.FAILED) else {}

    def seated(self) -> None:
        """It has a worker now."""
        seated, self.on_seated = self.on_seated, None
        if seated is not None:
            seated()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Drive it in a task of its own."""
        self.driven = False
        self.task = asyncio.get_running_loop().create_task(work, name=self.id)

    def info(self) -> CellInfo:
        cell = self.cell
        return CellInfo(
            id=self.id,
            state=cell.machine.state,
            isolated=self.isolated,
            created_at=moment(self.created_ms),
            waiting_for=() if self.ended else tuple(sorted({call.name for call in cell.pending.values()})),
            approvals=tuple(cell.approval_ids),
            observed=self.observer is not None,
        )

    # -- looked at -------------------------------------------------------------------------------------------

    def observe(self, by: "asyncio.Future[None]") -> None:
        """Nobody else may look, until whoever does looks away. `by` is done when there is something to tell."""
        if self.observer is not None:
            self.check_unobserved()
        self.observer = by

    def observe_on(self, by: "asyncio.Future[None] | None" = None) -> "asyncio.Future[None]":
        """Whoever looks found nothing, and looks on; done when there is something to tell."""
        self.observer = by if by is not None else asyncio.get_running_loop().create_future()
        return self.observer

    def look_away(self) -> None:
        self.observer = None
        self.handed_over = False

    def check_unattended(self) -> None:
        if self.attended:
            raise CellBusy(f"cell {self.id} belongs to a run that is under way", hint="its result goes to that run")

    def check_unobserved(self) -> None:
        if self.observer is not None:
            raise CellBusy(
                f"exec cell {self.id} already has an active observer", hint="wait for its answer, or terminate the cell"
            )

    def hand_over(self) -> None:
        """The program wants to be observed now; if nobody looks, it goes on."""
        if self.observer is not None:
            self.handed_over = True
            self.poke()

    def poke(self) -> None:
        """There is something to tell. Event loop only."""
        if self.observer is not None and not self.observer.done():
            self.observer.set_result(None)

    # -- ended -----------------------------------------------------------------------------------------------

    def end(self, result: RunResult, now_ms: int) -> None:
        self.result = result
        self.ended_ms = now_ms
        self.sleeper = None
        # What was made for the program holds on to this object, and it to that: left so, only the collector frees them.
        self.cell.release()
        self.poke()
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    async def over(self) -> None:
        """Returns when it has ended."""
        if self.result is not None:
            return
        if self._over is None:
            self._over = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._over)
