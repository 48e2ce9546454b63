"""The keeper: writes down what becomes of one session and its cells, so that another process can go on with them.

Everything takes its place in the store's order at the moment it happens. What must be safe before anything else may
happen is awaited: the end of a cell before anybody is told of it. A program's suspension need not be, and is held for a
moment: it goes with the intents of its calls, and they are awaited.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cloister.cells.course import Course
from cloister.cells.life import Life
from cloister.core.cell import CellState
from cloister.core.digest import digest_bytes
from cloister.core.durability import Durability
from cloister.core.errors import SessionClosed
from cloister.core.ids import IdSource
from cloister.core.light import light
from cloister.core.run import RunResult
from cloister.core.value import Json
from cloister.core.wire import to_json
from cloister.ports.clock import Clock
from cloister.ports.engine import Catalog
from cloister.ports.rows import CellRow, Drop, Put, PutBlob, SessionRow, SnapshotRow, ValueRow, Write
from cloister.ports.store import Store
from cloister.sessions.asleep import limits_to_json, put_to_sleep
from cloister.sessions.files import Book, Page
from cloister.sessions.ink import Ink
from cloister.sessions.replay.paper import brief, catalog_to_json

# What a fork needs of a program that waits; the rest is in the row of its cell, or not to be told twice.
_MOMENT = ("id", "limits", "enduring", "wall_left_ms", "cpu_left_ms", "calls_left", "calls_limit", "pending")


@light
@dataclass(frozen=True, slots=True)
class Moment:
    """What a session has, beside its namespace, at the moment that is written down."""

    values: Mapping[str, Json]
    # Counts the changes of the values.
    version: int
    # How often each tool was called.
    calls: Mapping[str, int]


class Keeper:
    def __init__(
        self,
        store: Store,
        ink: Ink,
        session_id: str,
        durability: Durability,
        clock: Clock,
        ids: IdSource,
        kept: SessionRow | None = None,
    ) -> None:
        self._store = store
        self._ids = ids
        self._ink = ink
        self._session_id = session_id
        self._clock = clock
        self.durability = durability
        self.last_cell: int = kept.doc["last_cell"] if kept is not None else 0
        # The snapshot that has the stored values as they are, and their version; and the same for the catalog.
        self._values_at = ("", -1)
        self._catalog_at = ("", "")
        # The name of the namespace's bytes.
        self.image = kept.image if kept is not None else None
        # What was written of the end of a cell last: it is written again when somebody has read it.
        self._told: tuple[RunResult, Json] | None = None
        # The session's files; set by the session, before any cell of it runs.
        self.book: Book | None = None

    @property
    def keeps_calls(self) -> bool:
        return self.durability is Durability.CALL

    def session(self, row: SessionRow, image: bytes | None = None) -> Awaitable[object]:
        """The session itself; `image` is what its namespace has become."""
        if image is None:
            return self._write(Put(row))
        return self._write(PutBlob(digest_bytes(image), image), Put(row))

    def begins_with(self, state: bytes | None) -> list[Write]:
        """The namespace is these bytes now, whatever it was. They are kept, for the first cell that begins in them."""
        self.image = digest_bytes(state) if state is not None else None
        if state is None or self.image is None:
            return []
        first = SnapshotRow(self._ids.new("snp_"), self._session_id, self._clock.now_ms(), self.image)
        return [PutBlob(self.image, state), Put(first)]

    def next_number(self) -> int:
        """Of a new cell."""
        self.last_cell += 1
        return self.last_cell

    def began(self, life: Life) -> Awaitable[object]:
        """A cell was taken in: if nothing more is heard of it, it runs from its beginning. Where its calls are not kept
        it may have made some, and is interrupted instead."""
        life.number = self.next_number()
        row = Put(self._row(life, CellState.QUEUED, {}))
        return self._write(row) if self.keeps_calls else self._ink.hold(self._session_id, row)

    def suspended(self, life: Life, moment: Moment, image: bytes) -> Awaitable[object]:
        """The program waits, here in its bytes."""
        if self._ink.has_lost(life.id):
            # What it would go on with elsewhere is more than is on record.
            return self._ink.hold(self._session_id)
        name = digest_bytes(image)
        cell, course = life.cell, life.cell.course
        course.advance(cell.recording.resumes, cell.pending)
        state = CellState.ASLEEP if cell.asked else CellState.WAITING
        asked = [[number, one.to_json()] for number, one in cell.asked.items()]
        # The more calls a program has made, the longer they would be: those before are on record by themselves.
        asleep = put_to_sleep(cell, records=False)
        page, snapshot = self._page(life), None
        writes: list[Write] = [*page.writes, PutBlob(name, image)]
        if course.due:
            # The first wait for a call is the one that is gone back to: there none of those made with it is settled.
            snapshot_id = self._ids.new("snp_")
            waits = {key: asleep[key] for key in _MOMENT}
            doc = {**self._at(snapshot_id, moment), **self._catalog(snapshot_id, cell.recording.catalog)}
            doc |= {"asleep": waits, "written": dict(cell.values.written), **course.put_away()}
            files, snapshot = self._with_files(self._snapshot(life, snapshot_id, name, course.made, doc))
            writes += [*files, Put(snapshot)]
        manual = life.sleeper is not None and life.sleeper.restored
        slept = {"asleep": asleep, "asked": asked, "manual": manual, **self._course(life)}
        writes.append(Put(self._row(life, state, slept, image=name)))
        return self._ink.hold(self._session_id, *writes, lost=self._lost(page, snapshot))

    def over(self, life: Life) -> Awaitable[object]:
        """To be awaited before `ended`, for a program that came to its end by itself: raises if something that it was
        told is not on record."""
        return self._ink.over(self._session_id, life.id)

    def ended(
        self,
        life: Life,
        result: RunResult,
        row: SessionRow | None = None,
        image: bytes | None = None,
        values: Sequence[ValueRow] = (),
        moment: Moment | None = None,
    ) -> Awaitable[object]:
        """How it ended and what it left behind, all at once."""
        cell, state = life.cell, life.cell.machine.state
        page, snapshot = self._page(life), None
        writes: list[Write] = [*page.writes, *(Put(value) for value in values)]
        cell.course.advance(cell.recording.resumes, cell.pending)
        cell.course.written = {key: brief(value) for key, value in life.merged.items()}
        if image is not None:
            name = digest_bytes(image)
            writes.append(PutBlob(name, image))
            if moment is not None:
                snapshot_id = self._ids.new("snp_")
                doc = self._catalog(snapshot_id, cell.recording.catalog)
                # What the cell began with: before the values are those that it leaves.
                self._course(life)
                doc |= self._at(snapshot_id, moment)
                files, snapshot = self._with_files(self._snapshot(life, snapshot_id, name, None, doc))
                writes += [*files, Put(snapshot)]
        if row is not None:
            writes.append(Put(row))
        told = to_json(result)
        self._told = (result, told)
        doc = {"result": told, "content": list(cell.output.untaken()), **self._course(life)}
        # Until somebody has read it, somebody must keep it.
        writes.append(Put(self._row(life, state, doc, ended=True)))
        written = self._ink.end(self._session_id, life.id, *writes)
        if (lost := self._lost(page, snapshot)) is not None:
            self._ink.heed(written, lost)
        return written

    def read(self, life: Life) -> Awaitable[object]:
        """Its end is known to whoever wanted to know."""
        assert life.result is not None
        known, self._told = self._told, None
        told = known[1] if known is not None and known[0] is life.result else to_json(life.result)
        doc = {"result": told, **self._course(life)}
        return self._write(Put(self._row(life, life.cell.machine.state, doc, ended=True, live=False)))

    def write(self, writes: Sequence[Write]) -> Awaitable[object]:
        """What the host has changed of what the session holds."""
        if not self._ink.holds(self._session_id):
            raise SessionClosed(f"session {self._session_id!r} is closed: nothing of it can be changed")
        return self._write(*writes)

    def doubt(self) -> None:
        """A write was refused: nothing later may refer to what was in it."""
        self._values_at, self._catalog_at = ("", -1), ("", "")
        if self.book is not None:
            self.book.doubt()

    async def namespace(self) -> bytes | None:
        """The session's variables as they are written down."""
        row = await self._store.session(self._session_id)
        self.image = row.image if row is not None else None
        return await self._store.blob(row.image) if row is not None and row.image is not None else None

    def values(self, written: Sequence[tuple[str, Json, int, int]], gone: Sequence[str]) -> Awaitable[object]:
        """What the host has stored, with its times, and what it has taken away."""
        puts = [Put(ValueRow(self._session_id, *one)) for one in written]
        return self.write([*puts, *self.gone(gone)])

    def gone(self, values: Sequence[str]) -> list[Write]:
        """That nothing is stored under these keys any more."""
        return [Drop("values", (self._session_id, key)) for key in values]

    # -- inside ----------------------------------------------------------------------------------------------

    def _page(self, life: Life) -> Page:
        """What the cell has changed in files since the last time."""
        return self.book.page(life.id) if self.book is not None else Page()

    def _with_files(self, snapshot: SnapshotRow) -> tuple[Sequence[Write], SnapshotRow]:
        """The snapshot with what it says of files, and what must be there for that."""
        if self.book is None:
            return (), snapshot
        manifest = self.book.manifest(snapshot.id)
        if not manifest.doc:
            return (), snapshot
        doc = {**snapshot.doc, **manifest.doc}
        return manifest.writes, replace(snapshot, doc=doc, blobs=manifest.blobs)

    def _lost(self, page: Page, snapshot: SnapshotRow | None) -> Callable[[], None] | None:
        """Who must know if this is not written."""
        says = page.paths or (snapshot is not None and "changed" in snapshot.doc.get("files", ()))
        return partial(self.book.give_back, page) if self.book is not None and says else None

    def _at(self, snapshot_id: str, moment: Moment) -> dict[str, Any]:
        """What the session has at a moment beside its bytes. Values are written where they changed."""
        if self._values_at[1] == moment.version:
            return {"calls": moment.calls, "values_at": self._values_at[0]}
        self._values_at = (snapshot_id, moment.version)
        return {"calls": moment.calls, "values": dict(moment.values)}

    def _catalog(self, snapshot_id: str, catalog: Catalog) -> dict[str, Any]:
        """What programs can call, where that changed."""
        if not self.keeps_calls or self._catalog_at[1] == catalog.revision:
            return {}
        self._catalog_at = (snapshot_id, catalog.revision)
        return {"catalog": catalog_to_json(catalog)}

    def _course(self, life: Life) -> dict[str, Any]:
        """What a replay needs beside the journal."""
        course = life.cell.course
        if not self.keeps_calls:
            return {}
        if course.start is None and course.values_version is not None:
            course.start = self._start(life, course)
        return course.to_json()

    def _start(self, life: Life, course: Course) -> dict[str, Any]:
        recording = life.cell.recording
        start: dict[str, Any] = {
            "now_ms": recording.now_ms,
            "seed": life.driver.namespace.seed,
            "image": None if life.isolated else self.image,
            "engine": course.engine,
            "ran": course.ran,
        }
        known, version = self._values_at
        start |= {"values_at": known} if version == course.values_version else {"values": dict(recording.values)}
        known, revision = self._catalog_at
        catalog = recording.catalog
        return start | (
            {"catalog_at": known} if revision == catalog.revision else {"catalog": catalog_to_json(catalog)}
        )

    def _snapshot(
        self, life: Life, snapshot_id: str, image: str, number: int | None, doc: Mapping[str, Any]
    ) -> SnapshotRow:
        return SnapshotRow(snapshot_id, self._session_id, self._clock.now_ms(), image, life.id, number, doc)

    def _row(
        self,
        life: Life,
        state: CellState,
        doc: Mapping[str, Any],
        *,
        image: str | None = None,
        ended: bool = False,
        live: bool = True,
    ) -> CellRow:
        program = life.cell.program
        about: dict[str, Any] = {
            "program": {
                "code": program.code,
                "inputs": dict(program.inputs),
                **({"cwd": program.cwd} if program.cwd is not None else {}),
            },
            "limits": limits_to_json(life.cell.bounds),
            "isolated": life.isolated,
            "run": life.run,
            "max_output_bytes": life.max_output_bytes,
        }
        strand, operation = life.strand, life.operation
        if operation is not None:
            about["operation_digest"] = operation.digest
        return CellRow(
            id=life.id,
            session_id=self._session_id,
            number=life.number,
            state=str(state),
            live=live,
            created_ms=life.created_ms,
            ended_ms=self._clock.now_ms() if ended else None,
            doc={**about, **doc},
            image=image,
            thread_id=strand.thread_id if strand is not None else None,
            turn_id=strand.turn_id if strand is not None else None,
            item_id=strand.item_id if strand is not None else None,
            operation_key=operation.key if operation is not None else None,
        )

    def _write(self, *writes: Write) -> Awaitable[object]:
        return self._ink.write(self._session_id, *writes)
