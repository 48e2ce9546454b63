"""The fair line: first come, first served within a key, and turns between keys."""

from collections import defaultdict, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cells.line import FairLine


def _drain(line: FairLine[str]) -> str:
    return "".join(line.pop() for _ in range(len(line)))


def _line(*arrivals: str) -> FairLine[str]:
    """Items named by their letter, waiting under it in lower case."""
    line: FairLine[str] = FairLine()
    for item in arrivals:
        line.put(item.lower(), item)
    return line


def test_empty_line_is_false_and_has_nobody_to_pop() -> None:
    line: FairLine[str] = FairLine()
    assert not line
    assert len(line) == 0
    with pytest.raises(IndexError):
        line.pop()


def test_one_who_brings_one_does_not_wait_behind_one_who_brings_many() -> None:
    assert _drain(_line("a", "a", "a", "b", "c", "c")) == "abcaca"


def test_key_is_served_in_the_order_of_its_arrivals() -> None:
    line: FairLine[int] = FairLine()
    for number in range(5):
        line.put("k", number)
    assert [line.pop() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_key_that_comes_anew_joins_at_the_back_of_the_round() -> None:
    line = _line("a", "b", "c")
    assert line.pop() == "a"
    line.put("a", "A")
    assert _drain(line) == "bcA"


def test_one_who_goes_away_is_not_served() -> None:
    line = _line("a", "b", "a")
    assert line.remove("b", "b")
    assert len(line) == 2
    assert _drain(line) == "aa"


def test_one_who_goes_away_leaves_the_turn_to_the_next_of_the_key() -> None:
    line = _line("a", "A", "b")
    assert line.remove("a", "a")
    assert _drain(line) == "Ab"


def test_one_who_does_not_wait_cannot_be_removed() -> None:
    line = _line("a")
    assert not line.remove("a", "b")
    assert not line.remove("b", "a")
    assert line.pop() == "a"
    assert not line.remove("a", "a")
    assert len(line) == 0


def test_what_is_falsy_waits_like_everything_else() -> None:
    line: FairLine[int | None] = FairLine()
    line.put(None, None)
    line.put(0, 0)
    assert line
    assert [line.pop(), line.pop()] == [None, 0]


# A step: somebody comes under a key, one is served, or somebody who waits goes away.
_KEYS = st.sampled_from("abcd")
_STEPS = st.lists(
    st.tuples(st.just("put"), _KEYS) | st.tuples(st.just("pop"), _KEYS) | st.tuples(st.just("remove"), _KEYS),
    max_size=60,
)


@given(_STEPS)
def test_nothing_is_lost_and_each_key_is_first_come_first_served(steps: list[tuple[str, str]]) -> None:
    line: FairLine[tuple[str, int]] = FairLine()
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for number, (what, key) in enumerate(steps):
        if what == "put":
            line.put(key, (key, number))
            waiting[key].append(number)
        elif what == "remove":
            last = waiting[key].pop() if waiting[key] else -1
            assert line.remove(key, (key, last)) == (last >= 0)
        elif line:
            served, item = line.pop()
            assert item == waiting[served].popleft()
        assert len(line) == sum(map(len, waiting.values()))
        assert bool(line) == (len(line) > 0)
    assert sorted(line.pop() for _ in range(len(line))) == sorted((key, n) for key in waiting for n in waiting[key])


@given(_STEPS)
def test_between_two_turns_of_a_key_all_who_waited_are_served_exactly_once(steps: list[tuple[str, str]]) -> None:
    line: FairLine[str] = FairLine()
    counts: dict[str, int] = defaultdict(int)
    # For each key since its last turn: how often others were served, and which others waited all along.
    since: dict[str, tuple[dict[str, int], set[str]]] = {}
    for what, key in steps:
        if what == "put":
            line.put(key, key)
            counts[key] += 1
            continue
        if what == "remove":
            if line.remove(key, key):
                counts[key] -= 1
        elif line:
            served = line.pop()
            counts[served] -= 1
            if served in since:
                turns, patient = since.pop(served)
                assert all(turns.get(other, 0) == 1 for other in patient), (served, turns, patient)
            for turns, _ in since.values():
                turns[served] = turns.get(served, 0) + 1
            since[served] = ({}, {other for other in counts if other != served and counts[other]})
        gone = {other for other in counts if not counts[other]}
        for watched, (turns, patient) in list(since.items()):
            # One who was served and had nobody else waiting is out of the round, but had its turn.
            patient -= {other for other in gone if not turns.get(other)}
            if watched in gone:
                del since[watched]
