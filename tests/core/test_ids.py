"""Ids sort by time and never repeat; session ids may be chosen by the caller."""

import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import InvalidSessionId
from cloister.core.ids import IdSource, check_session_id

FORM = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}\Z")


class Hands:
    """A clock whose hands are moved by the test."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_id_is_its_prefix_and_26_characters(now_ms: int, chance: bytes) -> None:
    made = IdSource(lambda: now_ms, lambda _n: chance).new("ses_")
    assert made.startswith("ses_")
    assert FORM.match(made.removeprefix("ses_"))


@given(st.lists(st.integers(0, 2**48 - 1), min_size=2, max_size=20))
def test_ids_of_one_source_grow_whatever_the_clock_does(times: list[int]) -> None:
    hands = Hands()
    source = IdSource(hands.now_ms)
    made: list[str] = []
    for hands.now in times:
        made.append(source.new("evt_"))
    assert made == sorted(set(made))


@given(st.integers(0, 2**48 - 2), st.integers(1, 10**6))
def test_id_of_a_later_millisecond_sorts_after_those_of_another_source(now_ms: int, later: int) -> None:
    after = min(now_ms + later, 2**48 - 1)
    first = IdSource(lambda: now_ms, lambda n: b"\xff" * n).new("")
    second = IdSource(lambda: after, lambda n: b"\x00" * n).new("")
    assert first < second


def test_ids_within_one_millisecond_grow_even_at_the_top_of_chance() -> None:
    source = IdSource(lambda: 5, lambda n: b"\xff" * n)
    made = [source.new("cal_") for _ in range(1000)]
    assert made == sorted(set(made))


def test_same_clock_and_chance_give_the_same_ids() -> None:
    sources = [IdSource(lambda: 7, lambda n: b"\x07" * n) for _ in range(2)]
    assert [sources[0].new("a_") for _ in range(3)] == [sources[1].new("a_") for _ in range(3)]


def test_two_sources_in_one_millisecond_make_different_ids() -> None:
    assert IdSource(lambda: 7).new("") != IdSource(lambda: 7).new("")


def test_threads_never_get_one_id_twice() -> None:
    source = IdSource(lambda: 9)
    made: list[list[str]] = [[] for _ in range(4)]
    gate = threading.Barrier(4)

    def work(mine: list[str]) -> None:
        gate.wait()
        mine.extend(source.new("cal_") for _ in range(2000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one for mine in made for one in mine}) == 8000
    assert all(mine == sorted(mine) for mine in made)


@given(st.from_regex(r"[a-zA-Z0-9_\-]{1,64}", fullmatch=True))
def test_session_id_of_letters_digits_underscore_and_hyphen_is_taken(value: str) -> None:
    assert check_session_id(value) == value


@given(st.text())
def test_session_id_is_taken_exactly_when_the_rule_holds(value: str) -> None:
    holds = 1 <= len(value) <= 64 and all(c.isascii() and (c.isalnum() or c in "_-") for c in value)
    if holds:
        assert check_session_id(value) == value
    else:
        with pytest.raises(InvalidSessionId):
            check_session_id(value)


@pytest.mark.parametrize("value", ["", "a" * 65, "a\n", "a b", "é", "a/b", "..", "a\x00", None, 5, b"a", ["a"]])
def test_other_session_id_is_refused(value: object) -> None:
    with pytest.raises(InvalidSessionId) as refusal:
        check_session_id(value)
    assert refusal.value.code == "INVALID_SESSION_ID"


def test_refusal_of_a_huge_session_id_stays_short() -> None:
    with pytest.raises(InvalidSessionId) as refusal:
        check_session_id("a" * 10**6)
    assert len(refusal.value.message) < 200
