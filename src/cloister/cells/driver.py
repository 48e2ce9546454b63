"""Drives the cells of one namespace: a seat for each, its check, its run, its sleep.

A cell that can only go on when a person has answered is put to bytes and its worker goes to the next one. The
namespace is then what it was before the cell, until the cell ends.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from cloister.cells.berth import Berth
from cloister.cells.cell import Cell
from cloister.cells.ending import Drive, Ending, Waiting
from cloister.cells.notes import first_error
from cloister.cells.runner import Runner
from cloister.cells.seats import Namespace, Seats
from cloister.cells.state import Move
from cloister.core.cell import CellState
from cloister.core.codes import Code
from cloister.core.diagnostic import Diagnostic, ErrorObject
from cloister.core.errors import EngineUnavailable, SnapshotCorrupt
from cloister.core.light import light
from cloister.gate import Gate
from cloister.ports.clock import Clock
from cloister.ports.engine import Interpreter, Turn, TypeCheck

_TOO_NARROW = ErrorObject(
    Code.MEMORY_EXCEEDED,
    "what the session holds does not fit into the memory that this run may have",
    "ask for a larger memory_mb, or run it in another session",
)
CLOSED = ErrorObject(Code.INTERRUPTED, "the session was closed")


@dataclass(slots=True)
class Sleeper:
    """A cell as bytes."""

    cell: Cell
    image: bytes
    diagnostics: tuple[Diagnostic, ...] = ()
    # For a cell that came with the session's own snapshot, what is known of it beside the bytes. What the namespace
    # held before such a cell is not known, so a wake that fails leaves it asleep where it was.
    kept: Mapping[str, Any] | None = None
    stale: bool = False
    # Where its bytes are, while nobody has needed them.
    load: Callable[[], Awaitable[bytes]] | None = None
    # It began in another process: what happened to it there is on no tape.
    recovered: bool = False
    # Only bytes can say what it did to the namespace, and they are in `image`.
    as_bytes: bool = False

    @property
    def restored(self) -> bool:
        return self.kept is not None

    def is_only_waiting(self, gate: Gate) -> bool:
        """Whether there is nothing to wake it for: no question of it has been answered."""
        cell = self.cell
        return len(cell.asked) == len(cell.pending) and not any(gate.is_answered(a) for a in cell.asked.values())


@light
@dataclass(frozen=True, slots=True)
class Ended:
    ending: Ending
    diagnostics: tuple[Diagnostic, ...] = ()


Drove: TypeAlias = Ended | Sleeper


def decide(cell: Cell, drive: Drive) -> None:
    """How the cell ends, as soon as its program has: whoever comes to terminate it now comes too late."""
    if isinstance(drive, Waiting):
        return
    if drive.error is None:
        cell.machine.move(Move.COMPLETE)
    else:
        cell.machine.move(Move.INTERRUPT if drive.error.code == Code.INTERRUPTED else Move.FAIL)


class Driver:
    def __init__(
        self,
        seats: Seats,
        namespace: Namespace,
        gate: Gate,
        clock: Clock,
        types: TypeCheck,
        hibernate_after_ms: int | None = None,
    ) -> None:
        self._seats = seats
        self.namespace = namespace
        self._gate = gate
        self._clock = clock
        self._types = types
        self._hibernate_after_ms = hibernate_after_ms
        self._stopped = False
        self._running: tuple[Runner, Berth, Cell] | None = None
        # The cell that waits for a worker, and how to end that.
        self._boarding: tuple[asyncio.Timeout, Cell] | None = None

    @property
    def interpreter(self) -> Interpreter | None:
        return self._running[1].interpreter if self._running is not None else self.namespace.interpreter

    async def run(self, cell: Cell, seated: Callable[[], None] | None = None) -> Drove:
        """A program from its beginning. `seated` is told when it has a worker."""
        berth = Berth(self._seats, self.namespace, cell.bounds)
        try:
            # The common case, a namespace that has kept its seat: there is no wait, and no deadline for it.
            interpreter = None if self._is_stopping(cell) else berth.board_at_once()
            if interpreter is None:
                interpreter = await self._seated(cell, berth.board())
        except SnapshotCorrupt:
            if not berth.narrow:
                raise
            # The bytes are sound: they only do not fit.
            cell.machine.move(Move.START)
            ending = Ending(error=_TOO_NARROW)
            decide(cell, ending)
            return Ended(ending)
        if interpreter is None:
            ending = Ending(error=CLOSED)
            decide(cell, ending)
            return Ended(ending)
        if berth.narrow:
            cell.recording.filed.keep()
        if seated is not None:
            seated()
        cell.machine.move(Move.START)
        sleeper = Sleeper(cell, b"")
        try:
            turn = await self._check(interpreter, sleeper)
            ran = isinstance(turn, Turn)
            drive = await self._drive(berth, sleeper, turn) if ran else turn
        except BaseException:
            # Cancelled in the middle: what the interpreter holds is not what any tape says.
            await asyncio.shield(berth.give_up())
            raise
        decide(cell, drive)
        return await self._conclude(berth, sleeper, drive, ran=ran)

    async def wake(self, sleeper: Sleeper, seated: Callable[[], None] | None = None) -> Drove:
        """Go on with a cell, in any free seat."""
        if sleeper.load is not None:
            sleeper.image = await sleeper.load()
            sleeper.load = None
        berth = Berth(self._seats, self.namespace, sleeper.cell.bounds, sleeper.image)
        if await self._seated(sleeper.cell, berth.awake()) is None:
            ended = self.terminate(sleeper, CLOSED)
            decide(sleeper.cell, ended.ending)
            return ended
        if seated is not None:
            seated()
        sleeper.cell.machine.move(Move.WAKE)
        sleeper.cell.tell("cell.woken", {})
        # From here on the cell is another one than its bytes say, until it sleeps again.
        sleeper.stale = True
        try:
            drive = await self._drive(berth, sleeper, None)
        except BaseException:
            await asyncio.shield(berth.give_up())
            raise
        sleeper.stale = False
        decide(sleeper.cell, drive)
        return await self._conclude(berth, sleeper, drive)

    def stop(self) -> None:
        """End what runs, for sure; nothing new starts."""
        self._stopped = True
        if self._running is not None:
            self.halt(self._running[2])

    def halt(self, cell: Cell) -> None:
        """End this cell if it runs, or waits for a worker. One that is between the two ends there: it is `STOPPING`."""
        if self._boarding is not None and self._boarding[1] is cell and not self._boarding[0].expired():
            self._boarding[0].reschedule(asyncio.get_running_loop().time())
        if self._running is not None and self._running[2] is cell:
            runner, berth, _ = self._running
            runner.stop()
            if berth.interpreter is not None:
                berth.interpreter.interrupt()

    def terminate(self, sleeper: Sleeper, error: ErrorObject) -> Ended:
        """End a cell in its sleep. The namespace is what it was before."""
        self.withdraw(sleeper.cell)
        return Ended(Ending(error=error, lost=True), sleeper.diagnostics)

    def withdraw(self, cell: Cell) -> None:
        """Nobody need be asked about this cell any more."""
        Runner(self._gate, self._clock).withdraw(cell)

    async def dump(self) -> tuple[bytes, Cell] | None:
        """The cell under way and its bytes, once it waits; None if there is none or it ended before."""
        if self._running is None:
            return None
        runner, berth, cell = self._running
        image = await runner.dump(berth)
        return (image, cell) if image is not None else None

    async def hibernate(self) -> None:
        """If the cell under way waits, its worker goes to others now."""
        if self._running is not None:
            runner, berth, cell = self._running
            await runner.hibernate(berth, cell)

    # -- inside ----------------------------------------------------------------------------------------------

    def _is_stopping(self, cell: Cell) -> bool:
        return self._stopped or cell.machine.state is CellState.STOPPING

    async def _seated(self, cell: Cell, boarding: Coroutine[Any, Any, Interpreter]) -> Interpreter | None:
        """A worker for the cell; None if it is ended before there is one."""
        patience = asyncio.timeout(0 if self._is_stopping(cell) else None)
        self._boarding = (patience, cell)
        try:
            async with patience:
                return await boarding
        except TimeoutError:
            if not patience.expired():
                raise
            return None
        finally:
            self._boarding = None

    async def _check(self, interpreter: Interpreter, sleeper: Sleeper) -> Turn | Ending:
        cell = sleeper.cell
        recording = cell.recording
        turn = Turn(
            recording.now_ms,
            cell.wall_left_ms,
            cell.cpu_left_ms,
            cell.output.write,
            recording.catalog,
            cell.bounds.max_external_calls,
            cell.voice,
        )
        checked = await interpreter.check(cell.program, self._types, turn, starting=True)
        sleeper.diagnostics = checked.diagnostics
        error = first_error(checked.diagnostics) if checked.diagnostics else None
        if error is None and self._is_stopping(cell):
            error = CLOSED
        if error is not None:
            return Ending(error=error)
        if checked.wall_ms:
            cell.wall_left_ms -= checked.wall_ms
            turn = replace(turn, wall_ms=cell.wall_left_ms)
        return turn

    async def _drive(self, berth: Berth, sleeper: Sleeper, turn: Turn | None) -> Drive:
        """From `turn`, or from where it slept, to the cell's end or its next sleep; then its bytes are in `sleeper`,
        as they are for a cell that ended and is on no tape."""
        cell = sleeper.cell
        runner = Runner(self._gate, self._clock, self._hibernate_after_ms)
        self._running = (runner, berth, cell)
        try:
            if turn is not None:
                drive = await runner.start(berth, cell, turn)
            else:
                drive = await runner.go_on(berth, cell)
            if isinstance(drive, Waiting) and self._is_stopping(cell):
                drive = Ending(error=CLOSED, lost=True)
            sleeper.as_bytes = self._ends_as_bytes(berth, sleeper)
            if isinstance(drive, Waiting) or (sleeper.as_bytes and not drive.lost):
                try:
                    sleeper.image = await berth.dump()
                except EngineUnavailable:
                    error = ErrorObject(Code.ENGINE_CRASHED, "the worker that held the program died", "run it again")
                    drive = Ending(error=CLOSED if self._stopped else error, lost=True)
            if cell.asked and isinstance(drive, Ending):
                runner.withdraw(cell)
            return drive
        finally:
            self._running = None

    def _ends_as_bytes(self, berth: Berth, sleeper: Sleeper) -> bool:
        """Whether only bytes say what the cell did to the namespace. Files are not used a second time for a tape."""
        if sleeper.kept is not None or sleeper.recovered:
            return True
        return sleeper.cell.recording.filed.used and self.namespace.lasting and not berth.narrow

    async def _conclude(self, berth: Berth, sleeper: Sleeper, drive: Drive, *, ran: bool = True) -> Drove:
        """Where the interpreter goes, and what the namespace is from now on."""
        cell, namespace = sleeper.cell, self.namespace
        if isinstance(drive, Waiting):
            await berth.give_up()
            if cell.machine.move(Move.SLEEP):
                cell.tell("cell.hibernated", {"approvals": cell.approval_ids})
            return sleeper
        if drive.lost or cell.machine.state is CellState.TERMINATED:
            await berth.give_up()
        else:
            if sleeper.as_bytes:
                # It is on no tape, as a whole or in part: its end counts because it is in the bytes.
                namespace.state, namespace.load = sleeper.image, None
                namespace.tape.clear()
            elif ran and namespace.lasting:
                cell.recording.cpu_ms = cell.cpu_ms
                namespace.tape.add(cell.recording)
            if not berth.settle_at_once():
                await berth.settle_down()
        return Ended(drive, sleeper.diagnostics + drive.diagnostics)
