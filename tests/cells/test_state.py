"""The table of a cell's states: every way is there that must be, and none that must not."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cells.state import ENDS, TABLE, Machine, Move
from cloister.core.cell import CellState

LIVE = [state for state in CellState if state not in ENDS]
# The moves that end a cell, from wherever it can end.
ENDING = {
    Move.COMPLETE: CellState.COMPLETED,
    Move.FAIL: CellState.FAILED,
    Move.INTERRUPT: CellState.INTERRUPTED,
}
EVERY_STEP = list(product(CellState, Move))
walks = st.lists(st.sampled_from(list(Move)), max_size=40)


def reachable(start: CellState) -> set[CellState]:
    found, left = {start}, [start]
    while left:
        for to in TABLE[left.pop()].values():
            if to not in found:
                found.add(to)
                left.append(to)
    return found


def test_every_state_has_a_line_in_the_table() -> None:
    assert set(TABLE) == set(CellState)


def test_a_cell_begins_in_line() -> None:
    assert Machine().state is CellState.QUEUED


def test_every_state_can_be_reached_from_the_first() -> None:
    assert reachable(CellState.QUEUED) == set(CellState)


def test_the_ends_are_the_four_that_an_observer_is_told() -> None:
    assert set(ENDS) == {CellState.COMPLETED, CellState.FAILED, CellState.TERMINATED, CellState.INTERRUPTED}


@pytest.mark.parametrize("state", sorted(ENDS))
def test_no_way_leads_out_of_an_end(state: CellState) -> None:
    assert reachable(state) == {state}
    assert Machine(state).ended


@pytest.mark.parametrize("state", LIVE)
def test_every_live_cell_can_come_to_an_end(state: CellState) -> None:
    assert not Machine(state).ended
    assert reachable(state) & ENDS


@pytest.mark.parametrize("state", [state for state in LIVE if state is not CellState.STOPPING])
def test_every_live_cell_can_be_stopped_and_interrupted(state: CellState) -> None:
    assert TABLE[state][Move.STOP] is CellState.STOPPING
    assert TABLE[state][Move.INTERRUPT] is CellState.INTERRUPTED


def test_a_cell_that_is_being_stopped_cannot_be_stopped_again() -> None:
    machine = Machine(CellState.STOPPING)
    assert not machine.move(Move.STOP)
    assert machine.state is CellState.STOPPING


def test_a_cell_that_is_being_stopped_ends_as_terminated_and_in_no_other_way() -> None:
    assert reachable(CellState.STOPPING) == {CellState.STOPPING, CellState.TERMINATED}
    assert all(TABLE[CellState.STOPPING][move] is CellState.TERMINATED for move in ENDING)


def test_only_a_stopped_cell_is_ever_terminated() -> None:
    before = {state for state, moves in TABLE.items() if CellState.TERMINATED in moves.values()}
    assert before == {CellState.STOPPING}


def test_only_a_running_program_completes() -> None:
    before = {state for state, moves in TABLE.items() if CellState.COMPLETED in moves.values()}
    assert before == {CellState.RUNNING}


@pytest.mark.parametrize("state", [state for state in LIVE if state is not CellState.STOPPING])
def test_an_ending_move_ends_a_cell_as_it_says_or_not_at_all(state: CellState) -> None:
    for move, end in ENDING.items():
        assert TABLE[state].get(move, end) is end


def test_only_a_cell_that_waits_can_fall_asleep_and_only_one_that_sleeps_can_wake() -> None:
    falls = {state for state, moves in TABLE.items() if moves.get(Move.SLEEP) is CellState.ASLEEP}
    wakes = {state for state, moves in TABLE.items() if moves.get(Move.WAKE) is CellState.RUNNING}
    assert falls == {CellState.WAITING}
    assert wakes == {CellState.ASLEEP}


@pytest.mark.parametrize(("state", "move"), EVERY_STEP)
def test_a_move_does_what_the_table_says_and_a_move_that_is_not_there_does_nothing(
    state: CellState, move: Move
) -> None:
    machine = Machine(state)
    to = TABLE[state].get(move)
    assert machine.move(move) is (to is not None)
    assert machine.state is (to or state)


@given(walks)
def test_whatever_happens_a_cell_ends_at_most_once_and_stays_ended(moves: list[Move]) -> None:
    machine, ends = Machine(), list[CellState]()
    for move in moves:
        before = machine.state
        made = machine.move(move)
        if before in ENDS:
            assert not made
            assert machine.state is before
        elif machine.ended:
            ends.append(machine.state)
    assert len(ends) <= 1
    assert machine.ended is bool(ends)


@given(walks, walks)
def test_after_a_stop_that_was_there_to_make_the_end_is_terminated(before: list[Move], after: list[Move]) -> None:
    machine = Machine()
    for move in before:
        machine.move(move)
    was = machine.state
    stopped = machine.move(Move.STOP)
    assert stopped is (was not in ENDS and was is not CellState.STOPPING)
    for move in after:
        machine.move(move)
    if stopped:
        assert machine.state in (CellState.STOPPING, CellState.TERMINATED)
        machine.move(Move.COMPLETE)
        assert machine.state is CellState.TERMINATED
