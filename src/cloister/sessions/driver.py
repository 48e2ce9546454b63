"""Drives the cells of one session's namespace: a seat for each, its check, its run, its sleep.

A cell that can only go on when a person has answered is put to bytes and its worker goes to the next one. The
namespace is then what it was before the cell, until the cell ends.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from cloister.cells.runner import Cell, Drive, Ending, Runner, Waiting
from cloister.cells.seats import Namespace, Seats
from cloister.core.codes import Code
from cloister.core.diagnostic import Diagnostic, ErrorObject
from cloister.core.errors import EngineUnavailable, SnapshotCorrupt
from cloister.gate import Gate
from cloister.ports.clock import Clock
from cloister.ports.engine import Interpreter, Turn, TypeCheck
from cloister.sessions.notes import first_error

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

    @property
    def restored(self) -> bool:
        return self.kept is not None

    def is_only_waiting(self, gate: Gate) -> bool:
        """Whether there is nothing to wake it for: no question of it has been answered."""
        cell = self.cell
        return len(cell.asked) == len(cell.pending) and not any(gate.is_answered(a) for a in cell.asked.values())


@dataclass(frozen=True, slots=True)
class Ended:
    ending: Ending
    diagnostics: tuple[Diagnostic, ...] = ()


Drove: TypeAlias = Ended | Sleeper


class Driver:
    def __init__(self, seats: Seats, namespace: Namespace, gate: Gate, clock: Clock, types: TypeCheck) -> None:
        self._seats = seats
        self.namespace = namespace
        self._gate = gate
        self._clock = clock
        self._types = types
        self._stopped = False
        self._running: tuple[Runner, Interpreter, Cell] | None = None

    @property
    def interpreter(self) -> Interpreter | None:
        return self._running[1] if self._running is not None else self.namespace.interpreter

    async def run(self, cell: Cell) -> Drove:
        if self._is_narrow(cell):
            # Memory and stack are bounds of an interpreter, so a narrower run has one of its own. What it did to
            # the namespace is on the tape; its bytes would carry the narrow limits for good.
            try:
                interpreter = await self._seats.borrow(self.namespace, cell.bounds)
            except SnapshotCorrupt:
                # Our own bytes are sound: they only do not fit.
                return Ended(Ending(error=_TOO_NARROW))
        else:
            interpreter = await self._seats.take(self.namespace)
        sleeper = Sleeper(cell, b"")
        try:
            turn = await self._check(interpreter, sleeper)
            ran = isinstance(turn, Turn)
            drive = await self._drive(interpreter, sleeper, turn) if ran else turn
        except BaseException:
            # Cancelled in the middle: what the interpreter holds is not what any tape says.
            await asyncio.shield(self._give_up(interpreter))
            raise
        return await self._conclude(interpreter, sleeper, drive, ran=ran)

    async def wake(self, sleeper: Sleeper) -> Drove:
        """Go on with a cell, in any free seat."""
        interpreter = await self._seats.open(sleeper.cell.bounds, sleeper.image, self.namespace.seed)
        if not self._is_narrow(sleeper.cell):
            self._seats.adopt(self.namespace, interpreter)
        # From here on the cell is another one than its bytes say, until it sleeps again.
        sleeper.stale = True
        try:
            drive = await self._drive(interpreter, sleeper, None)
        except BaseException:
            await asyncio.shield(self._give_up(interpreter))
            raise
        sleeper.stale = False
        return await self._conclude(interpreter, sleeper, drive)

    def stop(self) -> None:
        """End what runs, for sure; nothing new starts."""
        self._stopped = True
        if self._running is not None:
            runner, interpreter, _ = self._running
            runner.stop()
            interpreter.interrupt()

    def terminate(self, sleeper: Sleeper, error: ErrorObject) -> Ended:
        """End a cell in its sleep. The namespace is what it was before."""
        self.withdraw(sleeper)
        return Ended(Ending(error=error, lost=True), sleeper.diagnostics)

    def withdraw(self, sleeper: Sleeper) -> None:
        """Nobody need be asked about this cell any more."""
        Runner(self._gate, self._clock).withdraw(sleeper.cell)

    async def dump(self) -> tuple[bytes, Cell] | None:
        """The cell under way and its bytes, once it waits; None if there is none or it ended before."""
        if self._running is None:
            return None
        runner, interpreter, cell = self._running
        image = await runner.dump(interpreter, cell)
        return (image, cell) if image is not None else None

    # -- inside ----------------------------------------------------------------------------------------------

    def _is_narrow(self, cell: Cell) -> bool:
        own, bounds = self.namespace.limits, cell.bounds
        return bounds.memory_mb < own.memory_mb or bounds.max_stack_depth < own.max_stack_depth

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
        )
        checked = await interpreter.check(cell.program, self._types, turn, starting=True)
        sleeper.diagnostics = checked.diagnostics
        error = first_error(checked.diagnostics) if checked.diagnostics else None
        if error is None and self._stopped:
            error = CLOSED
        if error is not None:
            return Ending(error=error)
        if checked.wall_ms:
            cell.wall_left_ms -= checked.wall_ms
            turn = replace(turn, wall_ms=cell.wall_left_ms)
        return turn

    async def _drive(self, interpreter: Interpreter, sleeper: Sleeper, turn: Turn | None) -> Drive:
        """From `turn`, or from where it slept, to the cell's end or its next sleep; then its bytes are in `sleeper`,
        as they are for a cell that ended and is on no tape."""
        cell = sleeper.cell
        runner = Runner(self._gate, self._clock)
        self._running = (runner, interpreter, cell)
        try:
            if turn is not None:
                drive = await runner.start(interpreter, cell, turn)
            else:
                drive = await runner.go_on(interpreter, cell)
            if isinstance(drive, Waiting) and self._stopped:
                drive = Ending(error=CLOSED, lost=True)
            if isinstance(drive, Waiting) or (sleeper.restored and not drive.lost):
                try:
                    sleeper.image = await interpreter.dump()
                except EngineUnavailable:
                    error = ErrorObject(Code.ENGINE_CRASHED, "the worker that held the program died", "run it again")
                    drive = Ending(error=CLOSED if self._stopped else error, lost=True)
            if isinstance(drive, Ending):
                runner.withdraw(cell)
            return drive
        finally:
            self._running = None

    async def _conclude(self, interpreter: Interpreter, sleeper: Sleeper, drive: Drive, *, ran: bool = True) -> Drove:
        """Where the interpreter goes, and what the namespace is from now on."""
        cell, namespace = sleeper.cell, self.namespace
        if isinstance(drive, Waiting):
            await self._give_up(interpreter)
            return sleeper
        if drive.lost:
            await self._give_up(interpreter)
        else:
            if sleeper.restored:
                # What came before it is on no tape: its end counts because it is in the bytes.
                namespace.state = sleeper.image
                namespace.tape.clear()
            elif ran:
                cell.recording.cpu_ms = cell.cpu_ms
                namespace.tape.add(cell.recording)
            await self._settle_down(interpreter)
        return Ended(drive, sleeper.diagnostics + drive.diagnostics)

    async def _settle_down(self, interpreter: Interpreter) -> None:
        """The interpreter is fine: it keeps its seat if it is the namespace's own."""
        if interpreter is self.namespace.interpreter:
            await self._seats.leave(self.namespace)
        else:
            await self._seats.give_back(interpreter)

    async def _give_up(self, interpreter: Interpreter) -> None:
        if interpreter is self.namespace.interpreter:
            await self._seats.lose(self.namespace)
        else:
            await self._seats.give_back(interpreter)
