"""Drives one program to its end: steps from the engine, calls to the gate, settlements back.

Owns the cell's wall clock. Calls that become known together are dispatched together; each settlement resumes
the program as soon as it is there. Between steps the program only waits, and there it may be dumped.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cloister.cells.output import Output
from cloister.cells.tape import Recording
from cloister.cells.timers import Timers
from cloister.core.call import CallStatus, ExternalCallRecord
from cloister.core.codes import Code
from cloister.core.diagnostic import Diagnostic, ErrorObject
from cloister.core.digest import digest_json
from cloister.core.ids import IdSource
from cloister.core.limits import SessionLimits
from cloister.gate import Budget, Gate, Outcome
from cloister.ports.clock import Clock
from cloister.ports.engine import (
    Call,
    Catalog,
    Failed,
    Finished,
    Interpreter,
    Program,
    Raised,
    Returned,
    Settlement,
    Step,
    Suspended,
    Turn,
)


@dataclass(slots=True)
class Cell:
    """One program under way: all that is needed to go on with it elsewhere but the interpreter's bytes."""

    id: str
    program: Program
    recording: Recording
    output: Output
    budget: Budget
    wall_left_ms: float
    cpu_left_ms: float
    pending: dict[int, Call] = field(default_factory=dict[int, Call])
    records: dict[int, ExternalCallRecord] = field(default_factory=dict[int, ExternalCallRecord])
    cpu_ms: float = 0.0
    memory_peak_bytes: int = 0
    instructions: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a cell ended. `lost` says that the namespace must go back to what it was before."""

    value: Any = None
    error: ErrorObject | None = None
    lost: bool = False
    never_awaited: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


class Runner:
    def __init__(self, gate: Gate, catalog: Catalog, clock: Clock, ids: IdSource, limits: SessionLimits) -> None:
        self._gate = gate
        self._catalog = catalog
        self._clock = clock
        self._ids = ids
        self._limits = limits
        # Held while the interpreter is spoken to: a dump from outside never falls into a step.
        self._turnstile = asyncio.Lock()
        self._waits = False
        self._stopped = False
        self._patience: asyncio.Timeout | None = None
        self._timers = Timers(clock)

    async def start(self, interpreter: Interpreter, cell: Cell, turn: Turn) -> Ending:
        began = self._clock.monotonic()
        async with self._turnstile:
            step = await interpreter.start(cell.program, turn)
            self._waits = isinstance(step, Suspended)
        self._charge(cell, step, began)
        if isinstance(step, Suspended):
            return await self._follow(interpreter, cell, step, {})
        return self._end(cell, step)

    async def go_on(self, interpreter: Interpreter, cell: Cell) -> Ending:
        """Take up a cell that was asleep: its pending calls are made again, as far as they may be."""
        settlements = [self._doubt(call, cell) for call in cell.pending.values() if not self._may_repeat(call)]
        for settlement in settlements:
            cell.pending.pop(settlement.number)
        tasks: dict[asyncio.Task[Outcome], Call] = {}
        for call in cell.pending.values():
            self._dispatch(cell, call, tasks)
        try:
            step = await self._resume(interpreter, cell, settlements, cell.recording.now_ms)
        except BaseException:
            await self._cancel(tasks, cell)
            raise
        return await self._follow(interpreter, cell, step, tasks)

    def stop(self) -> None:
        """End the cell where it waits. A step under way is the interpreter's to interrupt."""
        self._stopped = True
        if self._patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time())

    async def dump(self, interpreter: Interpreter, cell: Cell) -> tuple[bytes, tuple[Call, ...]] | None:
        """The waiting program's bytes and the calls it waits for; None if it ended before it waited."""
        async with self._turnstile:
            if not self._waits:
                return None
            return await interpreter.dump(), tuple(cell.pending.values())

    # -- the drive -------------------------------------------------------------------------------------------

    async def _follow(
        self, interpreter: Interpreter, cell: Cell, step: Step, tasks: "dict[asyncio.Task[Outcome], Call]"
    ) -> Ending:
        """Take the program from one wait to the next, to its end."""
        try:
            while isinstance(step, Suspended):
                for call in step.calls:
                    cell.pending[call.number] = call
                settlements = await self._settle(cell, step, tasks)
                if settlements is None:
                    return self._out_of_time(cell)
                now_ms = self._clock.now_ms()
                cell.recording.resumes.append((now_ms, settlements))
                for settlement in settlements:
                    cell.pending.pop(settlement.number, None)
                step = await self._resume(interpreter, cell, settlements, now_ms)
            return self._end(cell, step)
        finally:
            self._timers.cancel()
            await self._cancel(tasks, cell)

    async def _resume(
        self, interpreter: Interpreter, cell: Cell, settlements: Sequence[Settlement], now_ms: int
    ) -> Step:
        began = self._clock.monotonic()
        sink, limit = cell.output.write, cell.budget.limit
        turn = Turn(now_ms, cell.wall_left_ms, cell.cpu_left_ms, sink, self._catalog, limit)
        async with self._turnstile:
            self._waits = False
            step = await interpreter.resume(settlements, turn)
            self._waits = isinstance(step, Suspended)
        self._charge(cell, step, began)
        return step

    def _charge(self, cell: Cell, step: Step, began: float) -> None:
        usage = step.usage
        cell.wall_left_ms -= (self._clock.monotonic() - began) * 1000
        cell.cpu_left_ms -= usage.cpu_ms
        cell.cpu_ms += usage.cpu_ms
        cell.memory_peak_bytes = max(cell.memory_peak_bytes, usage.memory_peak_bytes)
        cell.instructions += usage.instructions

    async def _settle(
        self, cell: Cell, step: Suspended, tasks: "dict[asyncio.Task[Outcome], Call]"
    ) -> Sequence[Settlement] | None:
        """Wait until a call of the program is settled; None when its time is up first."""
        began = self._clock.monotonic()
        try:
            if len(step.calls) == 1 and not tasks and not self._timers and step.calls[0].kind == "tool":
                # The common case, a single awaited call: no task, no set, half the cost.
                return await self._settle_one(cell, step.calls[0])
            for call in step.calls:
                self._dispatch(cell, call, tasks)
            alarm = self._timers.alarm()
            waiting: set[asyncio.Task[Any]] = {*tasks, alarm} if alarm is not None else set(tasks)
            if not waiting:
                raise RuntimeError("a program waits and no call is under way")
            try:
                async with self._wait(cell):
                    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            except TimeoutError:
                return None
            settled = sorted(((tasks.pop(task), task) for task in done if task in tasks), key=lambda p: p[0].number)
            out = [self._record(cell, call, task.result()) for call, task in settled]
            if alarm in done:
                out += [Returned(number, None) for number in self._timers.ended()]
            return out
        finally:
            self._patience = None
            cell.wall_left_ms -= (self._clock.monotonic() - began) * 1000

    async def _settle_one(self, cell: Cell, call: Call) -> Sequence[Settlement] | None:
        try:
            async with self._wait(cell):
                outcome = await self._gate.handle(call, self._ids.new("cal_"), cell.budget)
        except TimeoutError:
            self._cancelled(cell, call)
            return None
        return (self._record(cell, call, outcome),)

    def _wait(self, cell: Cell) -> asyncio.Timeout:
        """As long as the cell may still take, or until it is stopped."""
        self._patience = asyncio.timeout(0 if self._stopped else max(cell.wall_left_ms / 1000, 0))
        return self._patience

    def _dispatch(self, cell: Cell, call: Call, tasks: "dict[asyncio.Task[Outcome], Call]") -> None:
        if call.kind == "timer":
            self._timers.add(call.number, call.args[0] if call.args else 0)
        else:
            work = self._gate.handle(call, self._ids.new("cal_"), cell.budget)
            tasks[asyncio.create_task(work, name=f"{cell.id}/{call.number}")] = call

    def _record(self, cell: Cell, call: Call, outcome: Outcome) -> Settlement:
        cell.records[call.number] = outcome.record
        return outcome.settlement

    # -- endings ---------------------------------------------------------------------------------------------

    def _end(self, cell: Cell, step: Step) -> Ending:
        if not step.calls and isinstance(step, Finished):
            return Ending(step.value)
        never = tuple(call.name for call in step.calls if call.number not in cell.records and call.kind == "tool")
        for call in step.calls:
            if call.kind == "tool" and call.number not in cell.records and call.number not in cell.pending:
                self._cancelled(cell, call)
        match step:
            case Finished():
                return Ending(step.value, never_awaited=never)
            case Failed():
                return Ending(error=step.error, lost=step.fatal, never_awaited=never, diagnostics=step.diagnostics)
            case Suspended():
                raise AssertionError("a suspended program has not ended")

    def _out_of_time(self, cell: Cell) -> Ending:
        if self._stopped:
            return Ending(error=ErrorObject(Code.INTERRUPTED, "the program was stopped by its host"), lost=True)
        names = ", ".join(sorted({call.name for call in cell.pending.values()}))
        error = ErrorObject(
            Code.TIMEOUT_WALL,
            f"the program was still waiting for {names} when its {self._limits.wall_ms} ms were over",
            "wait for less in one cell, or ask for a larger wall_ms",
        )
        return Ending(error=error, lost=True)

    async def _cancel(self, tasks: "Mapping[asyncio.Task[Outcome], Call]", cell: Cell) -> None:
        """Calls that nobody waits for any more are cancelled, and the cell does not end before they have."""
        for task, call in tasks.items():
            task.cancel()
            self._cancelled(cell, call)
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)

    def _cancelled(self, cell: Cell, call: Call) -> None:
        if call.kind != "tool" or call.number in cell.records:
            return
        error = ErrorObject(Code.CANCELLED, f"`{call.name}` was cancelled when its cell ended")
        self._note(cell, call, CallStatus.ERROR, error)

    def _doubt(self, call: Call, cell: Cell) -> Settlement:
        error = ErrorObject(
            Code.OUTCOME_UNKNOWN,
            f"`{call.name}` was under way when its cell fell asleep; nobody knows whether it happened",
            "find out before you repeat it",
        )
        self._note(cell, call, CallStatus.UNKNOWN, error)
        return Raised(call.number, error)

    def _note(self, cell: Cell, call: Call, status: CallStatus, error: ErrorObject) -> None:
        cell.records[call.number] = ExternalCallRecord(
            id=self._ids.new("cal_"),
            name=call.name,
            side_effect=self._gate.side_effect_of(call.name),
            duration_ms=0.0,
            status=status,
            request_digest=digest_json([call.name, list(call.args), dict(call.kwargs)]),
            error=error,
        )

    def _may_repeat(self, call: Call) -> bool:
        return call.kind == "timer" or self._gate.is_idempotent(call.name)
