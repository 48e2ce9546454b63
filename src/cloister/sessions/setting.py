"""What the cells of one session have in common."""

from collections.abc import Callable
from dataclasses import dataclass

from cloister.cells.seats import Seats
from cloister.cells.supervisor import Supervisor
from cloister.core.ids import IdSource
from cloister.core.limits import SessionLimits
from cloister.gate import ApprovalDesk, Gate, Handles
from cloister.ports.clock import Clock
from cloister.ports.engine import Catalog, TypeCheck
from cloister.sessions.events import Events
from cloister.sessions.files import Files
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
