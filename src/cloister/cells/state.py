"""The states of a cell and every way from one to another.

The table is all there is: a move that is not in it does not happen. Completion and termination race in one place,
`Machine.move`, on the event loop: whoever comes first decides, and the other finds that its move is not there, or is
another one. A cell that is being stopped ends as terminated however its program ends.
"""

from collections.abc import Mapping
from enum import StrEnum

from cloister.core.cell import CellState as State


class Move(StrEnum):
    START = "start"
    SUSPEND = "suspend"
    SETTLE = "settle"
    SLEEP = "sleep"
    WAKE = "wake"
    STOP = "stop"
    COMPLETE = "complete"
    FAIL = "fail"
    INTERRUPT = "interrupt"


TABLE: Mapping[State, Mapping[Move, State]] = {
    State.QUEUED: {
        Move.START: State.RUNNING,
        Move.STOP: State.STOPPING,
        Move.INTERRUPT: State.INTERRUPTED,
    },
    State.RUNNING: {
        Move.SUSPEND: State.WAITING,
        Move.COMPLETE: State.COMPLETED,
        Move.FAIL: State.FAILED,
        Move.STOP: State.STOPPING,
        Move.INTERRUPT: State.INTERRUPTED,
    },
    State.WAITING: {
        Move.SETTLE: State.RUNNING,
        Move.SLEEP: State.ASLEEP,
        # Its time is over, or its worker is.
        Move.FAIL: State.FAILED,
        Move.STOP: State.STOPPING,
        Move.INTERRUPT: State.INTERRUPTED,
    },
    State.ASLEEP: {
        Move.WAKE: State.RUNNING,
        Move.FAIL: State.FAILED,
        Move.STOP: State.STOPPING,
        Move.INTERRUPT: State.INTERRUPTED,
    },
    State.STOPPING: {
        Move.COMPLETE: State.TERMINATED,
        Move.FAIL: State.TERMINATED,
        Move.INTERRUPT: State.TERMINATED,
        # What the program still does on its way out changes nothing.
        Move.SUSPEND: State.STOPPING,
        Move.SETTLE: State.STOPPING,
        Move.SLEEP: State.STOPPING,
        Move.WAKE: State.STOPPING,
    },
    State.COMPLETED: {},
    State.FAILED: {},
    State.TERMINATED: {},
    State.INTERRUPTED: {},
}

ENDS = frozenset(state for state, moves in TABLE.items() if not moves)


class Machine:
    """Where one cell is. Moved on the event loop only."""

    __slots__ = ("state",)

    def __init__(self, state: State = State.QUEUED) -> None:
        self.state = state

    def move(self, move: Move) -> bool:
        """Whether the move was there to make."""
        to = TABLE[self.state].get(move)
        if to is None:
            return False
        self.state = to
        return True

    @property
    def ended(self) -> bool:
        return self.state in ENDS
