"""Makes the cells of one session: fresh ones, those that came with a snapshot, and those that were written down.

What is made here is owned by nobody yet, and nothing of it runs.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

from cloister.cells.answers import answers
from cloister.cells.cell import Cell
from cloister.cells.course import Course
from cloister.cells.driver import Driver, Sleeper
from cloister.cells.life import Life
from cloister.cells.output import Kind, Output
from cloister.cells.seats import Namespace
from cloister.cells.state import Machine
from cloister.cells.tape import Recording
from cloister.cells.values import CellValues
from cloister.core.call import ExternalCallRecord
from cloister.core.cell import CellState
from cloister.core.errors import StoreUnusable
from cloister.core.limits import SessionLimits
from cloister.core.operation import Operation
from cloister.core.run import RunResult
from cloister.core.strand import Strand
from cloister.core.value import Json
from cloister.core.wire import from_json
from cloister.gate import Budget
from cloister.ports.engine import Catalog, Program
from cloister.ports.helping import Helper
from cloister.ports.journal import Entry
from cloister.ports.rows import CellRow
from cloister.ports.store import Store
from cloister.sessions.asleep import wake
from cloister.sessions.setting import Setting

Listener: TypeAlias = Callable[[Kind, str], None]
_NO_CATALOG = Catalog()
# Of a cell that has not started, which cannot store anything.
_NO_VALUES = CellValues({})


class Making:
    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def new(
        self,
        program: Program,
        bounds: SessionLimits,
        driver: Driver,
        listener: Listener | None = None,
        *,
        detached: bool,
        isolated: bool,
        cell_id: str | None = None,
    ) -> Life:
        """A cell that has not begun. An isolated one gets a driver of its own."""
        setting = self._setting
        now_ms = setting.clock.now_ms()
        cell = Cell(
            id=cell_id or setting.ids.new("cel_"),
            program=program,
            # What it finds when it starts is not known yet: see `start`.
            recording=Recording(program, _NO_CATALOG, now_ms),
            output=Output(bounds.max_stdout_bytes, listener, setting.handles.redactor()),
            bounds=bounds,
            budget=Budget(bounds.max_external_calls, bounds.max_external_calls),
            wall_left_ms=bounds.wall_ms,
            cpu_left_ms=bounds.cpu_ms,
            enduring=detached,
            values=_NO_VALUES,
        )
        return self._live(cell, self._isolated() if isolated else driver, now_ms, detached=detached, isolated=isolated)

    def start(self, life: Life) -> None:
        """It has a worker: what it finds is what there is now, after all that ran before it."""
        setting, cell = self._setting, life.cell
        cell.values = setting.values.for_cell()
        cell.recording.values = cell.values.view
        cell.recording.catalog = setting.catalog()
        cell.offered = setting.gate.offered
        cell.recording.now_ms = setting.clock.now_ms()
        cell.course.values_version, cell.course.engine = setting.values.version, setting.seats.engine.version
        self._equip(life)

    def from_snapshot(self, kept: Mapping[str, Any], image: bytes, driver: Driver) -> Life:
        """A cell that came with a snapshot of the session, asleep."""
        cell = self._woken(kept)
        life = self._live(cell, driver, self._setting.clock.now_ms(), detached=False)
        self._equip(life)
        # How it began is known where the snapshot was made.
        cell.course = Course({"from": "snapshot"}, ran=True)
        life.sleeper = Sleeper(cell, image, kept=kept)
        return life

    def from_row(self, row: CellRow, store: Store, driver: Driver) -> Life:
        """A cell of another process: ended, asleep, or not begun."""
        doc = row.doc
        if "asleep" in doc:
            life = self._asleep(row, store, driver)
        else:
            kept = doc.get("program", {"code": "", "inputs": {}})
            program = Program(kept["code"], kept["inputs"], kept.get("cwd"))
            bounds = from_json(SessionLimits, doc["limits"])
            life = self.new(program, bounds, driver, detached=True, isolated=doc["isolated"], cell_id=row.id)
            # It may have come further than is written down, and made calls.
            life.cell.woke = True
        if "before" in doc:
            life.cell.course = Course.from_json(doc)
        if "result" in doc:
            life.cell.machine = Machine(CellState(row.state))
            life.cell.output.take_up(_said(item) for item in doc["content"])
            life.end(from_json(RunResult, doc["result"]), row.ended_ms or row.created_ms)
        life.created_ms, life.number, life.max_output_bytes = row.created_ms, row.number, doc["max_output_bytes"]
        life.run = doc["run"]
        if row.thread_id is not None and row.turn_id is not None:
            life.strand = Strand(row.thread_id, row.turn_id, row.item_id)
            self._setting.events.assign(self._setting.session_id, row.id, life.strand)
        if row.operation_key is not None:
            life.operation = Operation(row.operation_key, doc["operation_digest"])
        life.cell.enduring = not life.run
        return life

    def _asleep(self, row: CellRow, store: Store, driver: Driver) -> Life:
        doc = row.doc
        cell = self._woken(doc["asleep"])
        own = self._isolated() if doc["isolated"] else driver
        life = self._live(cell, own, row.created_ms, detached=True, isolated=doc["isolated"])
        self._equip(life)
        written: dict[int, Any] = dict(doc["asked"])
        for number, call in cell.pending.items():
            asked = self._setting.gate.ask_again(call, cell.caller, written.get(number))
            if asked is not None:
                cell.asked[number] = asked
                cell.unmade.discard(number)

        async def image() -> bytes:
            found = await store.blob(row.image) if row.image is not None else None
            if found is None:
                raise StoreUnusable(f"the bytes of cell {row.id} are not in the store")
            cell.records.update(_records(await store.calls(row.id)))
            return found

        # One that came with a snapshot sleeps until it is taken up, here as where it came.
        kept = doc["asleep"] if doc["manual"] else None
        life.detached = kept is None
        life.sleeper = Sleeper(cell, b"", kept=kept, load=image, recovered=True)
        return life

    # -- inside ----------------------------------------------------------------------------------------------

    def driver(self, namespace: Namespace) -> Driver:
        setting = self._setting
        nap = setting.supervisor.limits.hibernate_after_ms
        return Driver(setting.seats, namespace, setting.gate, setting.clock, setting.type_check, nap)

    def _isolated(self) -> Driver:
        seed = int.from_bytes(os.urandom(7), "big")
        return self.driver(Namespace(self._setting.limits, seed, owner=self._setting.session_id, lasting=False))

    def _woken(self, kept: Mapping[str, Any]) -> Cell:
        setting = self._setting
        now_ms, most_ms = setting.clock.now_ms(), setting.supervisor.limits.cell_wall_ms
        cell = wake(kept, setting.catalog(), setting.limits, now_ms, setting.handles.redactor(), most_ms)
        cell.machine = Machine(CellState.ASLEEP)
        cell.offered = setting.gate.offered
        return cell

    def _live(self, cell: Cell, driver: Driver, now_ms: int, *, detached: bool, isolated: bool = False) -> Life:
        began = self._setting.clock.monotonic()
        life = Life(cell, driver, created_ms=now_ms, began=began, detached=detached, isolated=isolated)
        cell.tell = partial(self._setting.tell, life)
        return life

    def _equip(self, life: Life) -> None:
        """Give the program its helpers."""
        life.cell.helper = _Voice(partial(self._answers, life, asyncio.get_running_loop()))

    def _answers(self, life: Life, loop: asyncio.AbstractEventLoop) -> Helper:
        cell = life.cell

        def notify(said: str) -> None:
            loop.call_soon_threadsafe(self._notified, life, said)

        def hand_over() -> None:
            loop.call_soon_threadsafe(life.hand_over)

        def files(name: str, arguments: tuple[Json, ...]) -> Json:
            if cell.keep is None:
                return door(name, arguments)
            return cell.course.files.ask(door, name, arguments, redactor)

        door, redactor = self._setting.files.door(cell.id, cell.program.cwd or "/"), self._setting.handles.redactor()
        return answers(cell.output, cell.values, notify, hand_over, files)

    def _notified(self, life: Life, said: str) -> None:
        redactor = self._setting.handles.redactor()
        self._setting.tell(life, "cell.notified", {"message": redactor.text(said) if redactor else said})


class _Voice:
    """A helper that is made when the program first speaks: most never do."""

    __slots__ = ("_answer", "_make")

    def __init__(self, make: Callable[[], Helper]) -> None:
        self._make = make
        self._answer: Helper | None = None

    def __call__(self, name: str, arguments: tuple[Json, ...]) -> Json:
        if self._answer is None:
            self._answer = self._make()
        return self._answer(name, arguments)


def _records(entries: Iterable[Entry]) -> dict[int, ExternalCallRecord]:
    """The calls of a cell that have ended, as they are on record."""
    return {
        intent.number: ExternalCallRecord(
            id=intent.call_id,
            name=intent.name,
            side_effect=intent.side_effect,
            duration_ms=float(settled.at_ms - intent.at_ms),
            status=settled.status,
            request_digest=intent.request_digest,
            response_digest=settled.response_digest,
            error=settled.error,
            usage=settled.usage,
        )
        for intent, settled in ((entry.intent, entry.settled) for entry in entries)
        if settled is not None
    }


def _said(item: Mapping[str, Any]) -> list[Any]:
    return ["text", item["text"]] if item["type"] == "input_text" else ["image", item]
