"""The statuses of a turn: the table, and that one end wins."""

from itertools import permutations

from cloister.core.turn import Status
from cloister.threads.state import TABLE, Machine, Move


def test_final_statuses_are_left_by_no_move_and_every_status_can_be_reached() -> None:
    assert {status for status, moves in TABLE.items() if not moves} == {s for s in Status if s.is_final}
    assert {to for moves in TABLE.values() for to in moves.values()} == set(Status) - {Status.QUEUED}
    assert set(TABLE) == set(Status)


def test_of_completion_failure_and_interruption_the_first_decides() -> None:
    ends = {Move.COMPLETE: Status.COMPLETED, Move.FAIL: Status.FAILED, Move.INTERRUPT: Status.INTERRUPTED}
    for order in permutations(ends):
        machine = Machine()
        assert machine.move(Move.START)
        assert [machine.move(move) for move in order] == [True, False, False]
        assert machine.status is ends[order[0]]
    # What has not begun cannot have been completed.
    waiting = Machine()
    assert not waiting.move(Move.COMPLETE)
    assert waiting.move(Move.INTERRUPT)
    assert waiting.status is Status.CANCELLED
