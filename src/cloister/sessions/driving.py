"""Drives the cells of one session: those of `run` in their caller's task, all others in tasks of their own.

A cell that only people can wake has no task. It keeps its place in the book, and goes on by itself when one of them has
answered, or when whoever ran it takes it up again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from cloister.cells.cut import bytes_for
from cloister.cells.driver import Ended, Sleeper
from cloister.cells.life import Life
from cloister.cells.order import Place
from cloister.cells.state import Machine
from cloister.core.cell import CellState
from cloister.core.errors import CellBusy, CloisterError, SessionClosed, StoreError
from cloister.core.run import RunResult
from cloister.sessions.asleep import put_to_sleep
from cloister.sessions.book import Book, interrupted
from cloister.sessions.keeper import Keeper
from cloister.sessions.making import Listener, Making
from cloister.sessions.request import check_listener
from cloister.sessions.setting import Setting
from cloister.sessions.watch import Watch

log = logging.getLogger("cloister.sessions")


class Driving:
    def __init__(self, setting: Setting, book: Book, making: Making, watch: Watch) -> None:
        self._setting = setting
        self._book = book
        self._making = making
        self._watch = watch

    # -- in turn ---------------------------------------------------------------------------------------------

    def line_up(self, life: Life) -> None:
        """Have it driven when its turn comes; an isolated one needs none."""
        if life.isolated:
            self._go_on(life)
        else:
            life.place = Place(lambda: self._called(life))
            self._book.order.enter(life.place)

    def _called(self, life: Life) -> None:
        # The session may have gone back to a snapshot while the cell stood in line.
        self._book.front, life.driver = life, self._book.driver
        self._go_on(life)

    def _go_on(self, life: Life) -> None:
        if life.sleeper is not None:
            self._wait_for_people(life)
        else:
            self._ready(life)

    def _ready(self, life: Life) -> None:
        if self._book.closed:
            return
        self._setting.supervisor.ready(life, self._setting.session_id, self._setting.seats, partial(self._tend, life))

    def detach(self, life: Life) -> None:
        """From now on it goes on by itself."""
        if life.detached:
            return
        if life.sleeper is None:
            raise CellBusy(f"cell {life.id} belongs to a run that is under way", hint="its result goes to that run")
        life.detached, life.run = True, False
        self._setting.supervisor.adopt(life)
        life.max_output_bytes = bytes_for(self._setting.supervisor.limits.max_output_tokens)
        self._wait_for_people(life)

    def lay_asleep(self, kept: Mapping[str, Any], image: bytes, place: Place | None = None) -> None:
        """A cell that came with a snapshot of the session: it sleeps here until it is taken up. `place` has the turn
        already."""
        life = self._making.from_snapshot(kept, image, self._book.driver)
        self._setting.enlist(life)
        if life.cell.keep is not None:
            life.cell.keep(image)
        self.lay(life, place)

    def lay(self, life: Life, place: Place | None = None) -> None:
        """It sleeps in the session's namespace, and nobody drives it."""
        self._book.enter(life)
        self._book.front = life
        # Whatever else waits for its turn waits for this one to be taken up.
        life.place = place or Place(lambda: None)
        if place is None:
            self._book.order.enter(life.place)
        self._book.order.fall_asleep()

    # -- in the caller's task --------------------------------------------------------------------------------

    async def run(
        self, life: Life, then: Callable[[RunResult], Awaitable[RunResult]] | None = None
    ) -> RunResult | None:
        """Drive a cell to its end, or until it waits for a person, in the caller's task; `then` happens while it still
        has the turn. None: another one sleeps here, and the session has to wait for it."""
        place = await self._book.order.turn()
        if place is None:
            return None
        if self._book.closed:
            self._book.order.leave(place)
            raise SessionClosed(f"session {self._setting.session_id!r} is closed")
        life.place, self._book.front, life.driver, life.run = place, life, self._book.driver, True
        life.lingers = then is not None
        self._book.enter(life)
        try:
            self._setting.enlist(life)
            result = await self._attend(life)
            return await then(result) if then is not None else result
        except BaseException:
            # Whoever ran it is gone, and it goes with them.
            self._book.drop(life)
            raise
        finally:
            if life.lingers:
                life.lingers = False
                if life.ended:
                    self._book.leave(life)

    async def resume(self, life: Life, listener: Listener | None) -> RunResult:
        """Go on with a cell that sleeps, in the caller's task; if nobody has answered, it still waits."""
        if life.attended and life.sleeper is not None and life.sleeper.is_only_waiting(self._setting.gate):
            return self._book.waiting(life)
        life.check_unattended()
        check_listener(listener)
        life.began = self._setting.clock.monotonic()
        life.cell.output.listen(listener)
        if life.sleeper is not None and life.sleeper.is_only_waiting(self._setting.gate):
            return self._book.waiting(life)
        self._book.order.wake()
        try:
            return await self._attend(life)
        except BaseException:
            if life.sleeper is None:
                self._book.drop(life)
            else:
                self._book.order.fall_asleep()
            raise

    async def _attend(self, life: Life) -> RunResult:
        """Drive a cell whose turn it is. While an approver inside this process is at work it sleeps."""
        life.attended = True
        try:
            while await self._drive(life):
                if not await self._setting.desk.answered(life.cell.approval_ids):
                    self._book.order.fall_asleep()
                    return self._book.waiting(life)
                if self._book.closed and not life.ended:
                    self._book.end(life, self._book.halted(life))
                if life.ended:
                    break
        finally:
            life.attended = False
        assert life.result is not None
        self._book.read(life)
        return life.result

    # -- by itself -------------------------------------------------------------------------------------------

    async def _tend(self, life: Life) -> None:
        """Drive a cell that goes on by itself, in its own task. Whatever happens, it ends or sleeps."""
        life.driven, waiting = True, life.on_seated
        try:
            asleep = await self._drive(life)
        except asyncio.CancelledError:
            self._book.end(life, self._book.halted(life))
        except CloisterError as error:
            self._book.end(life, self._book.stuck(life, f"the cell could not go on: {error.message}", error))
        # Containment: nobody awaits this task, so nobody else would hear of it.
        except Exception:
            log.exception("cell %s broke", life.id)
            self._book.end(life, self._book.stuck(life, "the cell could not go on: something broke in its host"))
        else:
            if asleep:
                self._wait_for_people(life)
        finally:
            # One that was cancelled or refused in line never had a worker; one that slept may stand in line again.
            if life.on_seated is waiting:
                life.seated()

    def _wait_for_people(self, life: Life) -> None:
        """It goes on by itself when one of them has answered."""
        if not life.isolated:
            self._book.order.fall_asleep()
        life.unwatch = self._setting.desk.watch(life.cell.approval_ids, lambda: self._answered(life))
        self._answered(life)

    def _answered(self, life: Life) -> None:
        """Something happened to one of the questions; or nothing yet."""
        if life.sleeper is None or life.ended or life.unwatch is None:
            return
        if not life.sleeper.is_only_waiting(self._setting.gate):
            self._book.unwatch(life)
            if not life.isolated:
                self._book.order.wake()
            self._ready(life)
        elif self._watch.is_with_people(life):
            life.poke()

    # -- one step --------------------------------------------------------------------------------------------

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
            self._book.end(life, drove)
            self.lay_asleep(sleeper.kept, sleeper.image, place)
        elif (keeper := self._setting.keeper) is not None and life.number:
            await self._finish(keeper, life, drove)
        else:
            self._book.end(life, drove)
        return False

    async def _finish(self, keeper: Keeper, life: Life, ended: Ended) -> None:
        """The program has ended: its end is written down before anybody is told."""
        # What has ended has ended, also for a caller who leaves meanwhile.
        writing = asyncio.ensure_future(self._write_end(keeper, life, ended))
        cancelled = False
        while not writing.done():
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                cancelled = True
        writing.result()
        if cancelled:
            raise asyncio.CancelledError

    async def _write_end(self, keeper: Keeper, life: Life, ended: Ended) -> None:
        result = self._book.result(life, ended)
        try:
            await self._setting.write_end(keeper, life, result)
        except StoreError as error:
            log.error("the end of cell %s could not be written down: %s", life.id, error)
            # So it has not ended like this: the session is what it was before.
            life.cell.machine = Machine(CellState.INTERRUPTED)
            await self._setting.seats.forget(life.driver.namespace, keeper.namespace)
            self._book.end(life, interrupted(f"how the cell ended could not be written down: {error.message}"))
        else:
            self._book.end(life, ended, result)

    def _started(self, life: Life) -> None:
        life.seated()
        self._making.start(life)
        self._setting.tell(life, "cell.started", {"isolated": life.isolated})

    def _recover(self, life: Life, sleeper: Sleeper) -> None:
        """A cell that did not wake, or was stopped in the middle of it."""
        if life.ended:
            # It was on its way out. What it left, if it left anything, is the namespace's already.
            if life.driver.namespace.state is sleeper.image:
                return
        elif not sleeper.stale:
            life.sleeper = sleeper
            return
        else:
            # How far the cell had come is not known any more.
            life.driver.withdraw(sleeper.cell)
        if sleeper.kept is not None:
            place, life.place = life.place, None
            self._book.drop(life)
            self.lay_asleep(sleeper.kept, sleeper.image, place)
