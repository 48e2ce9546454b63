"""What the cells of one session have in common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cloister.cells.life import Life
from cloister.cells.seats import Seats
from cloister.cells.supervisor import Supervisor
from cloister.core.digest import digest_bytes
from cloister.core.errors import StoreError
from cloister.core.ids import IdSource
from cloister.core.limits import SessionLimits
from cloister.core.run import RunResult
from cloister.core.value import Json
from cloister.gate import ApprovalDesk, Gate, Handles
from cloister.ports.clock import Clock
from cloister.ports.engine import Catalog, TypeCheck
from cloister.ports.rows import SessionRow
from cloister.sessions.events import Events
from cloister.sessions.files import Files
from cloister.sessions.keeper import Keeper, Moment
from cloister.sessions.values import Values


@dataclass(frozen=True, slots=True)
class Setting:
    session_id: str
    limits: SessionLimits
    type_check: TypeCheck
    seats: Seats
    gate: Gate
    handles: Handles
    clock: Clock
    ids: IdSource
    desk: ApprovalDesk
    supervisor: Supervisor
    files: Files
    values: Values
    catalog: Callable[[], Catalog]
    events: Events
    # Writes down what becomes of the cells; None where nothing is.
    keeper: Keeper | None = None
    # The session as it is written down, with the name of its namespace's bytes.
    row: Callable[[str | None], SessionRow] | None = None
    # Whether the host is going: what has not ended by then is left as it was written down, for whoever comes next.
    leaving: Callable[[], bool] = bool

    def tell(self, life: Life, kind: str, data: Mapping[str, Any] | None = None) -> None:
        """What happened to a cell, for whoever listens."""
        if self.events.heard(self.session_id):
            self.events.emit(kind, self.session_id, {"cell_id": life.id, **(data or {})})

    def enlist(self, life: Life) -> None:
        """From here on the cell is in the book, if there is one."""
        self.events.assign(self.session_id, life.id, life.strand)
        if self.keeper is not None:
            begun = self.keeper.began(life)
            # Where calls are not kept, nobody could go on with it, and nobody need wait for this.
            life.begun = begun if self.keeper.keeps_calls else None
            self.keep(life)

    def keep(self, life: Life) -> None:
        """Have its waits written down."""
        keeper = self.keeper
        if keeper is not None and keeper.keeps_calls:
            life.cell.keep = lambda image: keeper.suspended(life, self.moment(), image)

    def moment(self, merged: Mapping[str, Json] | None = None) -> Moment:
        """What the session has now, or will have once `merged` is merged."""
        values, counts = self.values, dict(self.gate.counts)
        if not merged:
            return Moment(values.view(), values.version, counts)
        return Moment({**values.view(), **merged}, values.version + len(merged), counts)

    async def write_end(self, keeper: Keeper, life: Life, result: RunResult) -> None:
        """How a cell ended, with what it left behind; raises `StoreError`, and then nothing of it is written down."""
        row, image, merged = None, None, life.merged
        if not life.isolated and self.row is not None:
            image = await self.seats.save(life.driver.namespace)
            row = self.row(digest_bytes(image) if image is not None else None)
        written = self.values.rows(self.session_id, merged)
        try:
            await keeper.over(life)
            await keeper.ended(life, result, row, image, written, self.moment(merged))
        except StoreError:
            keeper.doubt()
            raise
        if row is not None:
            keeper.image = row.image
