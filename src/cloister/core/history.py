"""What a session has done, as it is written down: its cells, their calls, and the moments it can be forked at."""

from dataclasses import dataclass
from datetime import datetime

from cloister.core.call import CallStatus
from cloister.core.cell import CellState


@dataclass(frozen=True, slots=True)
class PastCall:
    id: str
    number: int
    name: str
    requested_at: datetime
    # None while nobody knows how it ended.
    status: CallStatus | None = None
    settled_at: datetime | None = None
    # Whether the session can be forked where the program waits for this call.
    forkable: bool = False


@dataclass(frozen=True, slots=True)
class PastSnapshot:
    """A moment that was written down with all that the session had: `fork` begins in one of these."""

    id: str
    at: datetime
    # The last call that the program had made by then, and waited for; None for the end of its cell.
    call_number: int | None = None


@dataclass(frozen=True, slots=True)
class PastCell:
    id: str
    number: int
    state: CellState
    isolated: bool
    code: str
    created_at: datetime
    ended_at: datetime | None = None
    calls: tuple[PastCall, ...] = ()
    # Those in which it waited, the oldest first, and that of its end.
    snapshots: tuple[PastSnapshot, ...] = ()
    # A call that the host made itself, and that waited for a person: a cell without a program.
    direct: bool = False
    # Whether the session can be forked as this cell left it.
    forkable: bool = False
