"""Closed questions are kept, but not too many of them and not too much."""

import gc
import weakref
from dataclasses import replace

from cloister.gate.archive import Archive
from cloister.gate.question import Question
from tests.gate.asking import a_desk, ask


def closed(number: int, size: int) -> Question:
    approval = ask(a_desk(), arguments={"n": number})
    return Question(number, approval, "terms", "arguments", size, None)


def test_those_that_closed_first_go_first() -> None:
    archive = Archive(most=2)
    questions = [closed(n, 10) for n in (3, 1, 2)]
    for question in questions:
        archive.add(question)
    assert [question.number for question in archive] == [1, 2]
    assert archive.get(questions[0].approval.id) is None
    assert archive.get(questions[1].approval.id) is questions[1]


def test_arguments_go_when_they_take_too_much_room_and_the_rest_stays() -> None:
    archive = Archive(most_bytes=100)
    for number in range(4):
        archive.add(closed(number, 40))
    assert [question.approval.arguments for question in archive] == [None, None, {"n": 2}, {"n": 3}]
    assert [question.approval.capability for question in archive] == ["refund"] * 4


def test_room_of_what_was_dropped_is_free_again() -> None:
    archive = Archive(most=2, most_bytes=100)
    for number in range(10):
        archive.add(closed(number, 40))
        assert all(question.approval.arguments is not None for question in archive)


def test_nothing_holds_on_to_what_was_dropped() -> None:
    class Watched(dict[str, int]):
        """May be looked at without being held."""

    archive = Archive(most=1)
    question = closed(0, 10)
    question.approval = replace(question.approval, arguments=Watched())
    watched = weakref.ref(question.approval.arguments)
    archive.add(question)
    del question
    gc.collect()
    assert watched() is not None
    archive.add(closed(1, 10))
    gc.collect()
    assert watched() is None


def test_both_bounds_hold_together() -> None:
    archive = Archive(most=3, most_bytes=100)
    for number in range(20):
        archive.add(closed(number, 90))
    assert [question.approval.arguments for question in archive] == [None, None, {"n": 19}]
    archive.add(closed(20, 101))
    assert [question.approval.arguments for question in archive] == [None, None, None]
    archive.add(closed(21, 5))
    assert [question.approval.arguments for question in archive] == [None, None, {"n": 21}]


def test_desk_sizes_what_is_asked() -> None:
    desk = a_desk()
    large = [ask(desk, arguments={"text": "x" * (1 << 20)}) for _ in range(33)]
    for approval in large:
        desk.decide(approval.id, "deny")
    kept = [approval.arguments is not None for approval in desk.list()]
    assert kept == [False] * 2 + [True] * 31
