"""The statuses of a turn and every way from one to another.

The table is all there is: a move that is not in it does not happen. Completion, failure and interruption race in one
place, `Machine.move`, on the event loop: whoever comes first decides, and the others find that their move is not there.
"""

from collections.abc import Mapping
from enum import StrEnum

from cloister.core.turn import Status


class Move(StrEnum):
    START = "start"
    COMPLETE = "complete"
    FAIL = "fail"
    INTERRUPT = "interrupt"


TABLE: Mapping[Status, Mapping[Move, Status]] = {
    Status.QUEUED: {
        Move.START: Status.IN_PROGRESS,
        Move.FAIL: Status.FAILED,
        # Nothing of it was done.
        Move.INTERRUPT: Status.CANCELLED,
    },
    Status.IN_PROGRESS: {
        Move.COMPLETE: Status.COMPLETED,
        Move.FAIL: Status.FAILED,
        Move.INTERRUPT: Status.INTERRUPTED,
    },
    Status.COMPLETED: {},
    Status.FAILED: {},
    Status.INTERRUPTED: {},
    Status.CANCELLED: {},
}


class Machine:
    __slots__ = ("status",)

    def __init__(self, status: Status = Status.QUEUED) -> None:
        self.status = status

    def move(self, move: Move) -> bool:
        """Whether it happened."""
        to = TABLE[self.status].get(move)
        if to is None:
            return False
        self.status = to
        return True
