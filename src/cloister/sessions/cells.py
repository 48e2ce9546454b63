"""The cells of one session: begun, driven, observed, put to sleep, ended.

Cells share the session's namespace and run one at a time, in the order in which they came; isolated ones have a
namespace of their own and run beside them. A cell is owned by this book of them from its first moment until somebody
has read its end. `run` drives its cell in the caller's own task; `exec` leaves that to the supervisor.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any

from cloister.cells.cut import bytes_for
from cloister.cells.driver import CLOSED, Ended, Sleeper, decide
from cloister.cells.life import Life
from cloister.cells.order import Order, Place
from cloister.cells.runner import Ending
from cloister.cells.seats import Namespace
from cloister.cells.state import Machine, Move
from cloister.core.cell import CellState, Observation
from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import CellBusy, CellNotFound, CloisterError, InvalidInput, SessionClosed, StoreError
from cloister.core.limits import SessionLimits
from cloister.core.run import RunResult
from cloister.core.wire import to_json
from cloister.ports.engine import Program
from cloister.ports.rows import CellRow
from cloister.ports.store import Store
from cloister.sessions.asleep import put_to_sleep
from cloister.sessions.making import Listener, Making
from cloister.sessions.observing import Teller
from cloister.sessions.request import check_listener
from cloister.sessions.results import Reporter
from cloister.sessions.setting import Setting
from cloister.sessions.watch import Watch

log = logging.getLogger("cloister.sessions")
_TERMINATED = ErrorObject(Code.CANCELLED, "the cell was terminated", "run it again if it should go on")


class Cells:
    def __init__(self, setting: Setting, namespace: Namespace) -> None:
        self._setting = setting
        self._seats = setting.seats
        self._gate = setting.gate
        self._clock = setting.clock
        self._desk = setting.desk
        self._supervisor = setting.supervisor
        self._reporter = Reporter(setting.handles)
        self._teller = Teller(setting.files)
        self.watch = Watch(self._teller, setting.desk, read=self._read, detach=self.detach)
        self.order = Order()
        self._making = Making(setting)
        self.driver = self._making.driver(namespace)
        self._lives: dict[str, Life] = {}
        self._isolated = 0
        # The cell whose turn it is in the namespace.
        self.front: Life | None = None
        self._closed = False

    # -- begun -----------------------------------------------------------------------------------------------

    def new(
        self, program: Program, bounds: SessionLimits, listener: Listener | None, *, detached: bool, isolated: bool
    ) -> Life:
        """A cell that nobody knows of yet."""
        check_listener(listener)
        return self._making.new(program, bounds, self.driver, listener, detached=detached, isolated=isolated)

    def admit(self, life: Life) -> None:
        """Take a cell in and have it driven when its turn comes. Raises `QueueFull` and changes nothing."""
        owner, line = self._setting.session_id, 0 if self.order.free else len(self.order) + 1
        self._supervisor.check_session(owner, isolated=self._isolated if life.isolated else None, line=line)
        self._supervisor.admit(life)
        self._lives[life.id] = life
        self._setting.enlist(life)
        if life.isolated:
            self._isolated += 1
            self._ready(life)
        else:
            life.place = Place(lambda: self._called(life))
            self.order.enter(life.place)

    def _called(self, life: Life) -> None:
        # The session may have gone back to a snapshot while the cell stood in line.
        self.front, life.driver = life, self.driver
        if life.sleeper is not None:
            self._wait_for_people(life)
        else:
            self._ready(life)

    def _ready(self, life: Life) -> None:
        if self._closed:
            return
        self._supervisor.ready(life, self._setting.session_id, self._seats, lambda: self._tend(life))

    # -- driven ----------------------------------------------------------------------------------------------

    async def run(
        self, life: Life, then: Callable[[RunResult], Awaitable[RunResult]] | None = None
    ) -> RunResult | None:
        """Drive a cell to its end, or until it waits for a person, in the caller's task; `then` happens while it still
        has the turn. None: another one sleeps here, and the session has to wait for it."""
        place = await self.order.turn()
        if place is None:
            return None
        if self._closed:
            self.order.leave(place)
            raise SessionClosed(f"session {self._setting.session_id!r} is closed")
        life.place, self.front, life.driver, life.run = place, life, self.driver, True
        life.lingers = then is not None
        self._lives[life.id] = life
        try:
            self._setting.enlist(life)
            result = await self._attend(life)
            return await then(result) if then is not None else result
        except BaseException:
            # Whoever ran it is gone, and it goes with them.
            self._drop(life)
            raise
        finally:
            life.lingers = False
            if life.ended:
                self._leave(life)

    async def resume(self, life: Life, listener: Listener | None) -> RunResult:
        """Go on with a cell that sleeps, in the caller's task; if nobody has answered, it still waits."""
        if life.attended and life.sleeper is not None and life.sleeper.is_only_waiting(self._gate):
            return self.waiting(life)
        life.check_unattended()
        check_listener(listener)
        life.began = self._clock.monotonic()
        life.cell.output.listen(listener)
        if life.sleeper is not None and life.sleeper.is_only_waiting(self._gate):
            return self.waiting(life)
        self.order.wake()
        try:
            return await self._attend(life)
        except BaseException:
            if life.sleeper is None:
                self._drop(life)
            else:
                self.order.fall_asleep()
            raise

    async def _attend(self, life: Life) -> RunResult:
        """Drive a cell whose turn it is. While an approver inside this process is at work it sleeps."""
        life.attended = True
        try:
            while await self._drive(life):
                if not await self._desk.answered(life.cell.approval_ids):
                    self.order.fall_asleep()
                    return self.waiting(life)
                if self._closed and not life.ended:
                    self._end(life, self._halted(life))
                if life.ended:
                    break
        finally:
            life.attended = False
        assert life.result is not None
        self._read(life)
        return life.result

    def waiting(self, life: Life) -> RunResult:
        """What there is to say of a cell that sleeps."""
        assert life.sleeper is not None
        approvals = [self._desk.get(approval_id) for approval_id in life.cell.approval_ids]
        return self._reporter.waiting(life.cell, approvals, life.sleeper.diagnostics, self._since(life))

    async def _tend(self, life: Life) -> None:
        """Drive a cell that goes on by itself, in its own task. Whatever happens, it ends or sleeps."""
        life.driven, waiting = True, life.on_seated
        try:
            asleep = await self._drive(life)
        except asyncio.CancelledError:
            self._end(life, self._halted(life))
        except CloisterError as error:
            self._end(life, self._stuck(life, f"the cell could not go on: {error.message}"))
        # Containment: nobody awaits this task, so nobody else would hear of it.
        except Exception:
            log.exception("cell %s broke", life.id)
            self._end(life, self._stuck(life, "the cell could not go on: something broke in its host"))
        else:
            if asleep:
                self._wait_for_people(life)
        finally:
            # One that was cancelled or refused in line never had a worker; one that slept may stand in line again.
            if life.on_seated is waiting:
                life.seated()

    async def _drive(self, life: Life) -> bool:
        """Until it ends; True when it sleeps and only a person's answer can wake it."""
        if life.begun is not None:
            # What cannot be written down does not happen.
            await life.begun
        if not self._setting.files.are_here:
            await self._setting.files.fetch()
        sleeper, life.sleeper = life.sleeper, None
        try:
            if sleeper is None:
                drove = await life.driver.run(life.cell, partial(self._started, life))
            else:
                drove = await life.driver.wake(sleeper, life.seated)
        except BaseException:
            if sleeper is not None:
                self._recover(life, sleeper)
            raise
        if isinstance(drove, Sleeper):
            if drove.kept is not None:
                drove.kept = put_to_sleep(life.cell)
            life.sleeper = drove
            if life.cell.keep is not None:
                # Once more, with the questions that were asked: nobody is told of them before.
                try:
                    await life.cell.keep(drove.image)
                except StoreError as error:
                    log.error("that cell %s waits for a person could not be written down: %s", life.id, error)
            return True
        if drove.ending.lost and sleeper is not None and sleeper.kept is not None:
            # The last bytes are those of the sleeping cell: the session is asleep there again.
            place, life.place = life.place, None
            self._end(life, drove)
            self.lay_asleep(sleeper.kept, sleeper.image, place)
        else:
            await self._finish(life, drove)
        return False

    async def _finish(self, life: Life, ended: Ended) -> None:
        """The program has ended: its end is written down before anybody is told."""
        keeper = self._setting.keeper
        if keeper is None or not life.number:
            self._end(life, ended)
            return
        result = self._result(life, ended)
        try:
            await self._setting.write_end(keeper, life, result)
        except StoreError as error:
            log.error("the end of cell %s could not be written down: %s", life.id, error)
            # So it has not ended like this: the session is what it was before.
            life.cell.machine = Machine(CellState.INTERRUPTED)
            await self._seats.forget(life.driver.namespace, keeper.namespace)
            self._end(life, _interrupted(f"how the cell ended could not be written down: {error.message}"))
        else:
            self._end(life, ended, result)

    def _started(self, life: Life) -> None:
        life.seated()
        self._making.start(life)
        self._tell(life, "cell.started", {"isolated": life.isolated})

    def _recover(self, life: Life, sleeper: Sleeper) -> None:
        """A cell that did not wake, or was stopped in the middle of it."""
        if not sleeper.stale:
            life.sleeper = sleeper
            return
        # How far the cell had come is not known any more.
        life.driver.withdraw(sleeper)
        if sleeper.kept is not None:
            place, life.place = life.place, None
            self._drop(life)
            self.lay_asleep(sleeper.kept, sleeper.image, place)

    def _wait_for_people(self, life: Life) -> None:
        """It goes on by itself when one of them has answered."""
        if not life.isolated:
            self.order.fall_asleep()
        life.unwatch = self._desk.watch(life.cell.approval_ids, lambda: self._answered(life))
        self._answered(life)

    def _answered(self, life: Life) -> None:
        """Something happened to one of the questions; or nothing yet."""
        if life.sleeper is None or life.ended or life.unwatch is None:
            return
        if not life.sleeper.is_only_waiting(self._gate):
            self._unwatch(life)
            if not life.isolated:
                self.order.wake()
            self._ready(life)
        elif self.watch.is_with_people(life):
            life.poke()

    def _unwatch(self, life: Life) -> None:
        unwatch, life.unwatch = life.unwatch, None
        if unwatch is not None:
            unwatch()

    # -- observed --------------------------------------------------------------------------------------------

    def find(self, cell_id: object) -> Life:
        life = self._lives.get(cell_id) if isinstance(cell_id, str) else None
        if life is None:
            shown = cell_id if isinstance(cell_id, str) and len(cell_id) <= 80 else repr(cell_id)[:80]
            raise CellNotFound(f"exec cell {shown} not found", hint="it may have been read to its end already")
        return life

    def __contains__(self, cell_id: object) -> bool:
        return isinstance(cell_id, str) and cell_id in self._lives

    def detach(self, life: Life) -> None:
        """From now on it goes on by itself."""
        if life.detached:
            return
        if life.sleeper is None:
            raise CellBusy(f"cell {life.id} belongs to a run that is under way", hint="its result goes to that run")
        life.detached, life.run = True, False
        self._supervisor.adopt(life)
        life.max_output_bytes = bytes_for(self._supervisor.limits.max_output_tokens)
        self._wait_for_people(life)

    def __iter__(self) -> Iterator[Life]:
        return iter(self._lives.values())

    # -- ended -----------------------------------------------------------------------------------------------

    async def terminate(self, life: Life) -> Observation:
        """End a cell for sure, and wait until it and its calls have ended. One that ended before tells how."""
        if not life.ended:
            if life.sleeper is not None and life.sleeper.restored:
                raise InvalidInput(
                    f"cell {life.id} came with the session's snapshot, which has no earlier state to go back to",
                    hint="resume() it, or close the session",
                )
            if not life.cell.machine.move(Move.STOP):
                raise CellBusy(f"exec cell {life.id} is already being terminated")
            await self._halt(life, _TERMINATED)
        await life.over()
        if life.written is not None:
            await life.written
        assert life.result is not None
        if life.observer is not None or life.id not in self._lives:
            # The observer was there first: the output is its own.
            return self._teller.end(life, life.result, content=False)
        return self.watch.take(life)

    async def _halt(self, life: Life, why: ErrorObject) -> None:
        if life.halted is not None:
            # It is on its way out, and its calls may take as long as they were given.
            await life.over()
            return
        life.halted = why
        self._unwatch(life)
        if life.task is not None and not life.task.done():
            life.task.cancel()
            if not life.driven:
                # A task that is cancelled before its first step never takes one.
                life.seated()
                self._end(life, self._halted(life))
        elif life.detached or life.sleeper is not None:
            self._end(life, self._halted(life))
        else:
            life.driver.halt(life.cell)
        await life.over()

    def _halted(self, life: Life) -> Ended:
        """The end of a cell that was ended from outside."""
        why = life.halted or CLOSED
        if life.sleeper is not None:
            return life.driver.terminate(life.sleeper, why)
        return Ended(Ending(error=why, lost=life.driven and not life.isolated))

    def _stuck(self, life: Life, message: str) -> Ended:
        """The end of a cell that its host cannot go on with. Nobody is asked about it any more."""
        why = ErrorObject(Code.INTERRUPTED, message)
        return life.driver.terminate(life.sleeper, why) if life.sleeper is not None else _interrupted(message)

    def _result(self, life: Life, ended: Ended) -> RunResult:
        if life.cell.machine.state is CellState.TERMINATED and ended.ending.error is None:
            # Its program ended while it was being stopped. That does not count, and the namespace is as before.
            ended = self._halted(life)
        forgotten, life.driver.namespace.forgotten = life.driver.namespace.forgotten, 0
        return self._reporter.ended(life.cell, ended, self._since(life), cells_forgotten=forgotten)

    def _end(self, life: Life, ended: Ended, result: RunResult | None = None) -> None:
        """The one place where a cell ends, however it came."""
        cell, machine = life.cell, life.cell.machine
        self._unwatch(life)
        decide(cell, ended.ending)
        keeper = self._setting.keeper
        if result is None:
            result = self._result(life, ended)
            if keeper is not None and life.number and not self._setting.leaving():
                # Ended from outside: nobody need wait until that is written down.
                life.written = keeper.ended(life, result)
        if merged := life.merged:
            self._setting.values.merge(merged)
        life.end(result, self._clock.now_ms())
        self._teller.finished(life)
        if self._setting.events.heard(self._setting.session_id):
            data: dict[str, Any] = {"state": str(machine.state), "duration_ms": result.metrics.duration_ms}
            if result.error is not None:
                data["error"] = to_json(result.error)
            self._tell(life, "cell.terminated" if machine.state is CellState.TERMINATED else "cell.completed", data)
        if life.isolated:
            self._isolated -= 1
        if life.detached:
            self._supervisor.ended(life, lambda: self._reap(life))
        if self.front is life:
            self.front = None
        if not life.lingers:
            self._leave(life)

    def _leave(self, life: Life) -> None:
        """Its turn is over."""
        place, life.place = life.place, None
        if place is not None:
            self.order.leave(place)

    def _drop(self, life: Life) -> None:
        """A cell that goes with its caller, unread; its program may have ended already."""
        if life.result is None:
            life.halted = CLOSED
            self._end(life, self._halted(life))
        self._read(life)

    def _read(self, life: Life) -> None:
        """Somebody knows its end: nobody need keep it."""
        if self._lives.get(life.id) is life:
            del self._lives[life.id]
            if self._setting.keeper is not None and life.number and not self._setting.leaving():
                self._setting.keeper.read(life)
        self._supervisor.read(life)

    def _reap(self, life: Life) -> None:
        self._read(life)
        self._tell(life, "cell.reaped")

    def stop(self) -> None:
        self._closed = True
        self.driver.stop()

    async def close(self) -> None:
        """Every cell ends, and those who observe one are told so."""
        self.stop()
        for life in list(self._lives.values()):
            if life.ended:
                # Its worker may still be on the way back.
                await life.over()
            elif life.detached or life.sleeper is not None:
                await self._halt(life, CLOSED)
        place = await self.order.turn()
        await self._seats.lose(self.driver.namespace)
        if place is not None:
            self.order.leave(place)
        for life in list(self._lives.values()):
            if life.observer is None:
                self._read(life)

    # -- bytes -----------------------------------------------------------------------------------------------

    def lay_asleep(self, kept: Mapping[str, Any], image: bytes, place: Place | None = None) -> None:
        """A cell that came with a snapshot of the session: it sleeps here until it is taken up. `place` has the turn
        already."""
        life = self._making.from_snapshot(kept, image, self.driver)
        self._setting.enlist(life)
        if life.cell.keep is not None:
            life.cell.keep(image)
        self._lay(life, place)

    def _lay(self, life: Life, place: Place | None = None) -> None:
        self._lives[life.id] = life
        self.front = life
        # Whatever else waits for its turn waits for this one to be taken up.
        life.place = place or Place(lambda: None)
        if place is None:
            self.order.enter(life.place)
        self.order.fall_asleep()

    def take_up(self, row: CellRow, store: Store) -> str:
        """A cell of another process, as it was written down there; what becomes of it."""
        life = self._making.from_row(row, store, self.driver)
        self._lives[life.id] = life
        if life.result is not None:
            self._supervisor.ended(life, lambda: self._reap(life))
            return "ended"
        self._setting.keep(life)
        if not life.detached:
            self._lay(life)
            return "sleeps"
        # What was taken in there is not turned away here.
        self._supervisor.adopt(life)
        if life.isolated:
            self._isolated += 1
            self._wait_for_people(life) if life.sleeper is not None else self._ready(life)
        else:
            life.place = Place(lambda: self._called(life))
            self.order.enter(life.place)
        if life.sleeper is None:
            return "begins"
        return "waits" if life.sleeper.is_only_waiting(self._gate) else "goes on"

    async def start_over(self, namespace: Namespace, origin: Callable[[Place], bool]) -> None:
        """Give up what the session held, and whatever sleeps on it. `origin` fills it anew, and says whether what it
        laid asleep has the turn now."""
        place = await self.order.turn()
        front = self.front
        if place is None and front is not None and front.place is not None:
            # The turn of the one that sleeps; those in line go on with what is restored.
            place, front.place = front.place, None
            self._drop(front)
        if place is None or self._closed:
            raise SessionClosed(f"session {self._setting.session_id!r} is closed")
        taken = False
        try:
            self.order.wake()
            await self._seats.lose(self.driver.namespace)
            self.driver = self._making.driver(namespace)
            taken = origin(place)
        finally:
            if not taken:
                self.order.leave(place)

    def left_out(self) -> tuple[str, ...]:
        """The cells that are in no snapshot of the session."""
        waiting = [life for life in self._lives.values() if not life.ended and life is not self.front]
        return tuple(f"cell {life.id} ({life.cell.machine.state})" for life in waiting)

    # -- inside ----------------------------------------------------------------------------------------------

    def _tell(self, life: Life, kind: str, data: Mapping[str, Any] | None = None) -> None:
        self._setting.tell(life, kind, data)

    def _since(self, life: Life) -> float:
        return round((self._clock.monotonic() - life.began) * 1000, 3)


def _interrupted(message: str) -> Ended:
    return Ended(Ending(error=ErrorObject(Code.INTERRUPTED, message), lost=True))
