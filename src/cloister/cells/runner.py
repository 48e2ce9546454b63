"""Drives one program to its end: steps from the engine, calls to the gate, settlements back.

Owns the cell's wall clock. Calls that become known together are dispatched together; each settlement resumes
the program as soon as it is there. Between steps the program only waits, and there it may be dumped; when it has
waited for a while, its worker goes to others, and the calls go on without it. One whose bytes are known at each wait
leaves its worker at once to whoever stands in line. When nothing is left to wait for but a person's answer, the drive
ends in `Waiting`: whoever holds the cell puts it to sleep.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, TypeAlias

from cloister.cells.berth import Berth
from cloister.cells.cell import Cell
from cloister.cells.ending import Drive, Ending, Waiting
from cloister.cells.nap import Nap
from cloister.cells.state import Move
from cloister.cells.timers import Timers
from cloister.core.call import CallStatus
from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import EngineUnavailable
from cloister.gate import Gate, Outcome, Passed
from cloister.ports.clock import Clock
from cloister.ports.engine import (
    Call,
    Failed,
    Finished,
    Returned,
    Settlement,
    Step,
    Suspended,
    Turn,
)

_Tasks: TypeAlias = "dict[asyncio.Task[Passed], Call]"


# A program of up to so many bytes is dumped within its steps. What it takes to dump a larger one could be longer than
# the time that it has left.
_SMALL_IMAGE = 1 << 16

_CRASHED = ErrorObject(Code.ENGINE_CRASHED, "the worker that held the program died", "run it again")
_STOPPED = ErrorObject(Code.INTERRUPTED, "the program was stopped by its host")


class Runner:
    """Drives one cell. `hibernate_after_ms` is how long it may wait on a worker; for ever, if that is None."""

    def __init__(self, gate: Gate, clock: Clock, hibernate_after_ms: int | None = None) -> None:
        self._gate = gate
        self._clock = clock
        # Held while the interpreter is spoken to: a dump from outside, or a nap, never falls into a step.
        self._turnstile = asyncio.Lock()
        self._waits = False
        self._stopped = False
        self._crashed = False
        self._patience: asyncio.Timeout | None = None
        self._timers = Timers(clock)
        self._nap_after = None if hibernate_after_ms is None else hibernate_after_ms / 1000
        self._nap: Nap | None = None
        # The waiting program's bytes, if they were needed anyhow; and whether it is nothing else by now.
        self._image: bytes | None = None
        self._is_small = False
        self._handed_on = False

    async def start(self, berth: Berth, cell: Cell, turn: Turn) -> Drive:
        began = self._clock.monotonic()
        await self._turnstile.acquire()
        try:
            assert berth.interpreter is not None
            cell.course.ran = True
            step = await berth.interpreter.start(cell.program, turn)
            self._waits = isinstance(step, Suspended)
        finally:
            self._turnstile.release()
        self._charge(cell, step, began)
        if isinstance(step, Suspended):
            return await self._follow(berth, cell, step, {})
        return self._end(cell, step)

    async def go_on(self, berth: Berth, cell: Cell) -> Drive:
        """Take up a cell that was asleep. Calls that were under way are settled as the journal knows them, made again
        if they may be, or unknown; those that waited for a person are made if they were allowed."""
        tasks: _Tasks = {}
        try:
            settlements = await self._take_up(cell, tasks)
            now_ms = self._clock.now_ms()
            if settlements:
                cell.recording.resumes.append((now_ms, settlements))
            step = await self._resume(berth, cell, settlements, now_ms)
        except BaseException:
            await self._cancel(tasks, cell)
            raise
        return await self._follow(berth, cell, step, tasks)

    def stop(self) -> None:
        """End the cell where it waits. A step under way is the interpreter's to interrupt."""
        self._stopped = True
        self._hurry()

    def _hurry(self) -> None:
        # One that is over already, in this very moment, cannot be moved.
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(asyncio.get_running_loop().time())

    async def dump(self, berth: Berth) -> bytes | None:
        """The waiting program's bytes; None if it ended before it waited."""
        async with self._turnstile:
            return await berth.dump() if self._waits else None

    async def hibernate(self, berth: Berth, cell: Cell) -> None:
        """Give the worker away if the program waits. Its calls go on."""
        async with self._turnstile:
            if not self._waits or (berth.asleep and not self._handed_on):
                return
            self._handed_on = False
            try:
                await berth.sleep()
            except EngineUnavailable:
                if not self._outlived(berth):
                    # Nobody can go on with the program: its calls need not be waited for.
                    await berth.give_up()
                    self._crashed = True
                    self._hurry()
                    return
        cell.machine.move(Move.SLEEP)
        cell.tell("cell.hibernated", {"waiting_for": sorted({call.name for call in cell.pending.values()})})

    def _outlived(self, berth: Berth) -> bool:
        """Whether the program's worker died while it only waited. If its bytes are known, it is nothing else from now
        on, and nothing of it is lost."""
        if self._image is None or berth.interpreter is None or berth.interpreter.pid is not None:
            return False
        berth.hand_on(self._image)
        return True

    def _hand_on(self, berth: Berth) -> "asyncio.Future[None] | None":
        """Others need the worker. Nobody is told: the program goes on waiting, and wakes in its turn."""
        if self._turnstile.locked() or not self._waits or self._image is None or berth.asleep:
            return None
        self._handed_on = True
        return berth.hand_on(self._image)

    # -- the drive -------------------------------------------------------------------------------------------

    async def _take_up(self, cell: Cell, tasks: _Tasks) -> list[Settlement]:
        settlements: list[Settlement] = []
        for call in list(cell.pending.values()):
            if call.kind == "timer" or call.number in cell.asked or call.number in cell.unmade:
                known = None
            else:
                known = await self._gate.recall(call, cell.caller)
            if known is not None:
                settlements.append(self._record(cell, call, known))
            elif call.number not in cell.asked:
                self._dispatch(cell, call, tasks, charge=False)
        cell.unmade.clear()
        return settlements

    async def _follow(self, berth: Berth, cell: Cell, step: Step, tasks: _Tasks) -> Drive:
        """Take the program from one wait to the next, to its end."""
        if self._nap_after is not None:
            self._nap = Nap(self._nap_after, lambda: self.hibernate(berth, cell))
        hand_on = partial(self._hand_on, berth)
        try:
            while isinstance(step, Suspended):
                for call in step.calls:
                    cell.pending[call.number] = call
                cell.machine.move(Move.SUSPEND)
                if cell.keep is not None:
                    image = step.image
                    if image is None:
                        try:
                            async with self._turnstile:
                                image = await berth.dump()
                        except EngineUnavailable:
                            self._crashed = True
                            return self._out_of_time(cell)
                    cell.keep(image)
                    self._image, self._is_small = image, len(image) <= _SMALL_IMAGE
                if self._nap is not None:
                    self._nap.begin()
                if self._image is not None:
                    berth.offer(hand_on)
                try:
                    settlements = await self._settle(cell, step, tasks)
                except TimeoutError:
                    return self._out_of_time(cell)
                if not settlements:
                    return Waiting()
                now_ms = self._clock.now_ms()
                cell.recording.resumes.append((now_ms, settlements))
                berth.take_back(hand_on)
                step = await self._resume(berth, cell, settlements, now_ms)
            return self._end(cell, step)
        except BaseException:
            self.withdraw(cell)
            raise
        finally:
            # Whoever wanted its bytes comes too late.
            self._waits = False
            self._timers.cancel()
            berth.take_back(hand_on)
            try:
                await self._cancel(tasks, cell)
            finally:
                if self._nap is not None:
                    await self._nap.over()

    async def _resume(self, berth: Berth, cell: Cell, settlements: Sequence[Settlement], now_ms: int) -> Step:
        sink, limit = cell.output.write, cell.budget.limit
        keep = self._is_small and cell.keep is not None
        turn = Turn(now_ms, cell.wall_left_ms, cell.cpu_left_ms, sink, cell.recording.catalog, limit, cell.voice, keep)
        if self._nap is not None:
            self._nap.end()
        async with self._turnstile:
            if self._outlived(berth):
                self._handed_on = True
            if berth.asleep:
                if self._crashed:
                    return Failed(_CRASHED, fatal=True)
                # The wait for a worker ends when the cell is.
                self._patience = asyncio.timeout(0 if self._stopped else None)
                try:
                    async with self._patience:
                        interpreter = await berth.awake()
                except TimeoutError:
                    return Failed(_STOPPED, fatal=True)
                finally:
                    self._patience = None
                if self._handed_on:
                    self._handed_on = False
                    cell.machine.move(Move.SETTLE)
                else:
                    cell.machine.move(Move.WAKE)
                    cell.tell("cell.woken", {})
            else:
                assert berth.interpreter is not None
                interpreter = berth.interpreter
                cell.machine.move(Move.SETTLE)
            # The wait for a worker is not the program's.
            began = self._clock.monotonic()
            self._waits, self._image = False, None
            # Only now: whoever dumped the program a moment ago has these calls pending in its bytes.
            for settlement in settlements:
                cell.pending.pop(settlement.number, None)
            step = await interpreter.resume(settlements, turn)
            self._waits = isinstance(step, Suspended)
        self._charge(cell, step, began)
        return step

    def _charge(self, cell: Cell, step: Step, began: float) -> None:
        usage = step.usage
        cell.wall_left_ms -= (self._clock.monotonic() - began) * 1000
        if isinstance(step, Suspended):
            cell.wall_left_ms += step.image_ms
        cell.cpu_left_ms -= usage.cpu_ms
        cell.cpu_ms += usage.cpu_ms
        if usage.memory_peak_bytes > cell.memory_peak_bytes:
            cell.memory_peak_bytes = usage.memory_peak_bytes
        cell.instructions += usage.instructions

    async def _settle(self, cell: Cell, step: Suspended, tasks: _Tasks) -> Sequence[Settlement]:
        """Wait until a call of the program is settled; nothing when only people are waited for. Raises `TimeoutError`
        when the cell's time is up first."""
        began = self._clock.monotonic()
        # As long as the cell may still take, or until it is stopped.
        self._patience = asyncio.timeout(0 if self._stopped else max(cell.wall_left_ms / 1000, 0))
        try:
            async with self._patience:
                if len(step.calls) == 1 and not tasks and not self._timers and step.calls[0].kind == "tool":
                    # The common case, a single awaited call: no task, no set, half the cost.
                    return await self._settle_one(cell, step.calls[0])
                for call in step.calls:
                    self._dispatch(cell, call, tasks)
                while True:
                    self._take_answers(cell, tasks)
                    if not tasks and not self._timers:
                        if not cell.asked:
                            raise RuntimeError("a program waits and no call is under way")
                        return ()
                    if settlements := await self._next(cell, tasks):
                        return settlements
        finally:
            self._patience = None
            cell.wall_left_ms -= (self._clock.monotonic() - began) * 1000

    async def _settle_one(self, cell: Cell, call: Call) -> Sequence[Settlement]:
        try:
            passed = await self._gate.handle(call, cell.caller)
        except asyncio.CancelledError:
            self._cancelled(cell, call)
            raise
        settlement = self._note(cell, call, passed)
        return (settlement,) if settlement is not None else ()

    async def _next(self, cell: Cell, tasks: _Tasks) -> list[Settlement]:
        """The calls that end next, as settlements. None of them, if a person answered first."""
        async with AsyncExitStack() as stack:
            waiting: set[asyncio.Task[Any]] = set(tasks)
            alarm = self._timers.alarm()
            if alarm is not None:
                waiting.add(alarm)
            if cell.asked:
                answer = asyncio.create_task(self._gate.desk.decided(cell.approval_ids))
                stack.callback(answer.cancel)
                waiting.add(answer)
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        settled = sorted(((tasks.pop(task), task) for task in done if task in tasks), key=lambda p: p[0].number)
        made = [self._note(cell, call, task.result()) for call, task in settled]
        out = [settlement for settlement in made if settlement is not None]
        if alarm in done:
            out += [Returned(number, None) for number in self._timers.ended()]
        return out

    def _take_answers(self, cell: Cell, tasks: _Tasks) -> None:
        """Calls that a person has answered go on."""
        for number, asked in list(cell.asked.items()):
            if self._gate.is_answered(asked):
                del cell.asked[number]
                work = self._gate.proceed(asked)
                tasks[asyncio.create_task(work, name=f"{cell.id}/{number}")] = asked.passage.call

    def _dispatch(self, cell: Cell, call: Call, tasks: _Tasks, *, charge: bool = True) -> None:
        if call.kind == "timer":
            self._timers.add(call.number, call.args[0] if call.args else 0)
        else:
            work = self._gate.handle(call, cell.caller, charge=charge)
            tasks[asyncio.create_task(work, name=f"{cell.id}/{call.number}")] = call

    def _note(self, cell: Cell, call: Call, passed: Passed) -> Settlement | None:
        if isinstance(passed, Outcome):
            return self._record(cell, call, passed)
        cell.asked[call.number] = passed
        cell.records[call.number] = passed.record
        return None

    def _record(self, cell: Cell, call: Call, outcome: Outcome) -> Settlement:
        if outcome.record is not None:
            cell.records[call.number] = outcome.record
        if cell.keep is not None:
            cell.course.note(call.number, outcome)
        return outcome.settlement

    # -- endings ---------------------------------------------------------------------------------------------

    def _end(self, cell: Cell, step: Step) -> Ending:
        if not step.calls and isinstance(step, Finished) and not cell.asked:
            return Ending(step.value)
        self.withdraw(cell)
        loose = [call for call in step.calls if call.number not in cell.records and call.kind == "tool"]
        for call in loose:
            if call.number not in cell.pending:
                self._cancelled(cell, call)
        # Of a program that failed, those under way may well have been awaited, beside the one that failed.
        never = tuple(c.name for c in loose if isinstance(step, Finished) or c.number not in cell.pending)
        match step:
            case Finished():
                return Ending(step.value, never_awaited=never)
            case Failed():
                return Ending(error=step.error, lost=step.fatal, never_awaited=never, diagnostics=step.diagnostics)
            case Suspended():
                raise AssertionError("a suspended program has not ended")

    def withdraw(self, cell: Cell) -> None:
        """The cell is over: nobody need be asked any more."""
        for number, asked in cell.asked.items():
            self._record(cell, asked.passage.call, self._gate.withdraw(asked))
            cell.pending.pop(number, None)
        cell.asked.clear()

    def _out_of_time(self, cell: Cell) -> Ending:
        names = ", ".join(sorted({call.name for call in cell.pending.values()}))
        self.withdraw(cell)
        if self._crashed:
            return Ending(error=_CRASHED, lost=True)
        if self._stopped:
            return Ending(error=_STOPPED, lost=True)
        error = ErrorObject(
            Code.TIMEOUT_WALL,
            f"the program was still waiting for {names} when its {cell.bounds.wall_ms} ms were over",
            "wait for less in one cell, or ask for a larger wall_ms",
        )
        return Ending(error=error, lost=True)

    async def _cancel(self, tasks: _Tasks, cell: Cell) -> None:
        """Calls that nobody waits for any more are cancelled, and the cell does not end before they have."""
        for task, call in tasks.items():
            if task.cancel():
                self._cancelled(cell, call)
            else:
                # It ended while the program was at its last step.
                passed = task.result()
                self._record(cell, call, passed if isinstance(passed, Outcome) else self._gate.withdraw(passed))
        if tasks:
            # The gate abandons a tool that ignores its cancellation, so this ends.
            await asyncio.wait(tasks)

    def _cancelled(self, cell: Cell, call: Call) -> None:
        known = cell.records.get(call.number)
        if call.kind == "tool" and (known is None or known.status is CallStatus.APPROVAL_PENDING):
            self._record(cell, call, self._gate.cancelled(call, cell.caller))
