"""The cells of one session: begun, found, terminated, taken up from elsewhere, closed.

Cells share the session's namespace and run one at a time, in the order in which they came; isolated ones have a
namespace of their own and run beside them. `run` drives its cell in the caller's own task; `exec` leaves that to the
supervisor. The book says what cells there are, and `Driving` moves them.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from cloister.cells.driver import CLOSED, Driver
from cloister.cells.life import Life
from cloister.cells.order import Order, Place
from cloister.cells.seats import Namespace
from cloister.cells.state import Move
from cloister.core.cell import Observation
from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import CellBusy, InvalidInput, SessionClosed
from cloister.core.limits import SessionLimits
from cloister.core.run import RunResult
from cloister.ports.engine import Program
from cloister.ports.rows import CellRow
from cloister.ports.store import Store
from cloister.sessions.book import Book
from cloister.sessions.driving import Driving
from cloister.sessions.making import Listener, Making
from cloister.sessions.observing import Teller
from cloister.sessions.request import check_listener
from cloister.sessions.setting import Setting
from cloister.sessions.watch import Watch

_TERMINATED = ErrorObject(Code.CANCELLED, "the cell was terminated", "run it again if it should go on")


class Cells:
    def __init__(self, setting: Setting, namespace: Namespace) -> None:
        self._setting = setting
        self._making = Making(setting)
        self._teller = Teller(setting.files)
        self._book = Book(setting, self._making.driver(namespace), self._teller)
        self.watch = Watch(self._teller, setting.desk, read=self._book.read, detach=self.detach)
        self._driving = Driving(setting, self._book, self._making, self.watch)

    # -- what there is ---------------------------------------------------------------------------------------

    @property
    def driver(self) -> Driver:
        """Of the session's own namespace."""
        return self._book.driver

    @property
    def order(self) -> Order:
        return self._book.order

    @property
    def front(self) -> Life | None:
        """The cell whose turn it is in the namespace."""
        return self._book.front

    def find(self, cell_id: object) -> Life:
        return self._book.find(cell_id)

    def __contains__(self, cell_id: object) -> bool:
        return cell_id in self._book

    def __iter__(self) -> Iterator[Life]:
        return iter(self._book)

    def waiting(self, life: Life) -> RunResult:
        """What there is to say of a cell that sleeps."""
        return self._book.waiting(life)

    def left_out(self) -> tuple[str, ...]:
        """The cells that are in no snapshot of the session."""
        return self._book.left_out()

    # -- begun -----------------------------------------------------------------------------------------------

    def new(
        self, program: Program, bounds: SessionLimits, listener: Listener | None, *, detached: bool, isolated: bool
    ) -> Life:
        """A cell that nobody knows of yet."""
        if listener is not None:
            check_listener(listener)
        return self._making.new(program, bounds, self._book.driver, listener, detached=detached, isolated=isolated)

    def admit(self, life: Life) -> None:
        """Take a cell in and have it driven when its turn comes. Raises `QueueFull` and changes nothing."""
        book, supervisor = self._book, self._setting.supervisor
        line = 0 if book.order.free else len(book.order) + 1
        isolated = book.isolated if life.isolated else None
        supervisor.check_session(self._setting.session_id, isolated=isolated, line=line)
        supervisor.admit(life)
        book.enter(life)
        self._setting.enlist(life)
        self._driving.line_up(life)

    def run(
        self, life: Life, then: Callable[[RunResult], Awaitable[RunResult]] | None = None
    ) -> Awaitable[RunResult | None]:
        """Drive a cell to its end, or until it waits for a person, in the caller's task; `then` happens while it still
        has the turn. None: another one sleeps here, and the session has to wait for it."""
        return self._driving.run(life, then)

    def resume(self, life: Life, listener: Listener | None) -> Awaitable[RunResult]:
        """Go on with a cell that sleeps, in the caller's task; if nobody has answered, it still waits."""
        return self._driving.resume(life, listener)

    def detach(self, life: Life) -> None:
        """From now on it goes on by itself."""
        self._driving.detach(life)

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
        if life.observer is not None or life.id not in self._book:
            # The observer was there first: the output is its own.
            return self._teller.end(life, life.result, content=False)
        return self.watch.take(life)

    async def _halt(self, life: Life, why: ErrorObject) -> None:
        if life.halted is not None:
            # It is on its way out, and its calls may take as long as they were given.
            await life.over()
            return
        life.halted = why
        self._book.unwatch(life)
        if life.task is not None and not life.task.done():
            life.task.cancel()
            if not life.driven:
                # A task that is cancelled before its first step never takes one.
                life.seated()
                self._book.end(life, self._book.halted(life))
        elif life.detached or life.sleeper is not None:
            self._book.end(life, self._book.halted(life))
        else:
            life.driver.halt(life.cell)
        await life.over()

    def stop(self) -> None:
        self._book.closed = True
        self.driver.stop()

    async def close(self) -> None:
        """Every cell ends, and those who observe one are told so."""
        self.stop()
        for life in self._book.all():
            if life.ended:
                # Its worker may still be on the way back.
                await life.over()
            elif life.detached or life.sleeper is not None:
                await self._halt(life, CLOSED)
            else:
                # A run that waits for a worker. Of the others the task is cancelled, and that once.
                life.driver.halt(life.cell)
        place = await self.order.turn()
        await self._setting.seats.lose(self.driver.namespace)
        if place is not None:
            self.order.leave(place)
        self.watch.close()
        for life in self._book.all():
            if life.observer is None:
                self._book.read(life)

    # -- from elsewhere --------------------------------------------------------------------------------------

    def lay_asleep(self, kept: Mapping[str, Any], image: bytes, place: Place | None = None) -> None:
        """A cell that came with a snapshot of the session: it sleeps here until it is taken up. `place` has the turn
        already."""
        self._driving.lay_asleep(kept, image, place)

    def take_up(self, row: CellRow, store: Store) -> str:
        """A cell of another process, as it was written down there; what becomes of it."""
        life = self._making.from_row(row, store, self.driver)
        self._book.enter(life)
        if life.result is not None:
            self._setting.supervisor.ended(life, lambda: self._book.reap(life))
            return "ended"
        self._setting.keep(life)
        if not life.detached:
            self._driving.lay(life)
            return "sleeps"
        # What was taken in there is not turned away here.
        self._setting.supervisor.adopt(life)
        self._driving.line_up(life)
        if life.sleeper is None:
            return "begins"
        return "waits" if life.sleeper.is_only_waiting(self._setting.gate) else "goes on"

    async def start_over(self, namespace: Namespace, origin: Callable[[Place], bool]) -> None:
        """Give up what the session held, and whatever sleeps on it. `origin` fills it anew, and says whether what it
        laid asleep has the turn now."""
        place = await self.order.turn()
        front = self.front
        if place is None and front is not None and front.place is not None:
            # The turn of the one that sleeps; those in line go on with what is restored.
            place, front.place = front.place, None
            self._book.drop(front)
        if place is None or self._book.closed:
            raise SessionClosed(f"session {self._setting.session_id!r} is closed")
        taken = False
        try:
            self.order.wake()
            await self._setting.seats.lose(self.driver.namespace)
            self._book.driver = self._making.driver(namespace)
            taken = origin(place)
        finally:
            if not taken:
                self.order.leave(place)
