"""The book of one session's cells: those that somebody may still ask for, whose turn it is, and how each ended.

Whatever drives a cell, and whoever ends it, it ends in one place: `end`. A cell stands here from its first moment until
somebody has read its end, or nobody has for long enough.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from cloister.cells.driver import CLOSED, Driver, Ended, decide
from cloister.cells.ending import Ending
from cloister.cells.life import Life
from cloister.cells.order import Order
from cloister.cells.state import ENDS
from cloister.core.cell import CellState
from cloister.core.codes import Code
from cloister.core.diagnostic import Diagnostic, ErrorObject, Severity
from cloister.core.errors import CellNotFound, CloisterError
from cloister.core.run import RunResult
from cloister.core.wire import to_json
from cloister.sessions.observing import Teller
from cloister.sessions.results import Reporter
from cloister.sessions.setting import Setting


class Book:
    def __init__(self, setting: Setting, driver: Driver, teller: Teller) -> None:
        self._setting = setting
        self._reporter = Reporter(setting.handles)
        self._teller = teller
        # Drives whichever cell has the turn in the session's namespace.
        self.driver = driver
        self.order = Order()
        # The cell whose turn it is in the namespace.
        self.front: Life | None = None
        # Isolated ones that have not ended.
        self.isolated = 0
        self.closed = False
        self._lives: dict[str, Life] = {}

    def enter(self, life: Life) -> None:
        """From here on it can be asked for."""
        self._lives[life.id] = life
        if life.isolated and not life.ended:
            self.isolated += 1

    def find(self, cell_id: object) -> Life:
        life = self._lives.get(cell_id) if isinstance(cell_id, str) else None
        if life is None:
            shown = cell_id if isinstance(cell_id, str) and len(cell_id) <= 80 else repr(cell_id)[:80]
            raise CellNotFound(f"exec cell {shown} not found", hint="it may have been read to its end already")
        return life

    def __contains__(self, cell_id: object) -> bool:
        return isinstance(cell_id, str) and cell_id in self._lives

    def __iter__(self) -> Iterator[Life]:
        return iter(self._lives.values())

    def all(self) -> list[Life]:
        """Those that are here now, for whoever changes that."""
        return list(self._lives.values())

    def waiting(self, life: Life) -> RunResult:
        """What there is to say of a cell that sleeps."""
        assert life.sleeper is not None
        approvals = [self._setting.desk.get(approval_id) for approval_id in life.cell.approval_ids]
        return self._reporter.waiting(life.cell, approvals, life.sleeper.diagnostics, self._since(life))

    def left_out(self) -> tuple[str, ...]:
        """The cells that are in no snapshot of the session."""
        waiting = [life for life in self._lives.values() if not life.ended and life is not self.front]
        return tuple(f"cell {life.id} ({life.cell.machine.state})" for life in waiting)

    # -- ended -----------------------------------------------------------------------------------------------

    def end(self, life: Life, ended: Ended, result: RunResult | None = None) -> None:
        """The one place where a cell ends, however it came."""
        cell, machine = life.cell, life.cell.machine
        if life.unwatch is not None:
            self.unwatch(life)
        if cell.asked:
            # It was stopped on its way to sleep.
            life.driver.withdraw(cell)
        if machine.state not in ENDS:
            decide(cell, ended.ending)
        keeper = self._setting.keeper
        if result is None:
            result = self.result(life, ended)
            if keeper is not None and life.number and not self._setting.leaving():
                # Ended from outside: nobody need wait until that is written down.
                life.written = keeper.ended(life, result)
        if merged := life.merged:
            self._setting.values.merge(merged)
        life.end(result, self._setting.clock.now_ms())
        if life.saved:
            self._teller.finished(life)
        if self._setting.events.heard(self._setting.session_id):
            data: dict[str, Any] = {"state": str(machine.state), "duration_ms": result.metrics.duration_ms}
            if result.error is not None:
                data["error"] = to_json(result.error)
            self.tell(life, "cell.terminated" if machine.state is CellState.TERMINATED else "cell.completed", data)
        if life.isolated:
            self.isolated -= 1
        if life.detached:
            self._setting.supervisor.ended(life, lambda: self.reap(life))
        if self.front is life:
            self.front = None
        if not life.lingers:
            self.leave(life)

    def leave(self, life: Life) -> None:
        """Its turn is over."""
        place, life.place = life.place, None
        if place is not None:
            self.order.leave(place)

    def drop(self, life: Life) -> None:
        """A cell that goes with its caller, unread; its program may have ended already."""
        if life.result is None:
            life.halted = CLOSED
            self.end(life, self.halted(life))
        self.read(life)

    def read(self, life: Life) -> None:
        """Somebody knows its end: nobody need keep it."""
        if self._lives.get(life.id) is life:
            del self._lives[life.id]
            self._setting.events.unassign(self._setting.session_id, life.id)
            if self._setting.keeper is not None and life.number and not self._setting.leaving():
                self._setting.keeper.read(life)
        self._setting.supervisor.read(life)

    def reap(self, life: Life) -> None:
        self.tell(life, "cell.reaped")
        self.read(life)

    def result(self, life: Life, ended: Ended) -> RunResult:
        if life.cell.machine.state is CellState.TERMINATED and ended.ending.error is None:
            # Its program ended while it was being stopped. That does not count, and the namespace is as before.
            ended = self.halted(life)
        forgotten, life.driver.namespace.forgotten = life.driver.namespace.forgotten, 0
        return self._reporter.ended(life.cell, ended, self._since(life), cells_forgotten=forgotten)

    def halted(self, life: Life) -> Ended:
        """The end of a cell that was ended from outside."""
        why = life.halted or CLOSED
        if life.sleeper is not None:
            return life.driver.terminate(life.sleeper, why)
        return Ended(Ending(error=why, lost=life.driven and not life.isolated))

    def stuck(self, life: Life, message: str, cause: CloisterError | None = None) -> Ended:
        """The end of a cell that its host cannot go on with. Nobody is asked about it any more. `cause` is noted by its
        code: that it was no worker is not to be read out of a text."""
        why = ErrorObject(Code.INTERRUPTED, message)
        ended = life.driver.terminate(life.sleeper, why) if life.sleeper is not None else interrupted(message)
        if cause is None:
            return ended
        note = Diagnostic(Severity.ERROR, cause.code, cause.message, cause.hint)
        return replace(ended, diagnostics=(*ended.diagnostics, note))

    def unwatch(self, life: Life) -> None:
        unwatch, life.unwatch = life.unwatch, None
        if unwatch is not None:
            unwatch()

    def tell(self, life: Life, kind: str, data: Mapping[str, Any] | None = None) -> None:
        self._setting.tell(life, kind, data)

    def _since(self, life: Life) -> float:
        # Rounded like this it takes a fifth of the time.
        return round((self._setting.clock.monotonic() - life.began) * 1e6) / 1000


def interrupted(message: str) -> Ended:
    return Ended(Ending(error=ErrorObject(Code.INTERRUPTED, message), lost=True))
