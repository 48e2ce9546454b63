"""Stored values as a cell sees them: a view, its own writes, and the session's bounds."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cells.values import (
    MAX_KEY,
    CellValues,
    ValueBounds,
    check_key,
    check_value,
    entry_size,
    measure,
)
from cloister.core.errors import InvalidInput
from cloister.core.value import Json, ValueRefused
from cloister.ports.helping import HelperRefused
from tests.core.json_values import json_values

SMALL = ValueBounds(max_keys=3, max_value_bytes=40, max_total_bytes=60)
keys = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=3)
states = st.dictionaries(keys, json_values, max_size=3)


def _refusal(values: CellValues, key: Any, value: Any) -> str:
    before = dict(values.written)
    with pytest.raises(HelperRefused) as refused:
        values.store(key, value)
    assert values.written == before
    return refused.value.message


def test_cell_sees_the_view_and_its_own_writes_before_it() -> None:
    values = CellValues({"a": 1, "b": 2})
    values.store("b", 3)
    values.store("c", [4])
    assert [values.load(key) for key in "abcd"] == [1, 3, [4], None]


def test_only_what_was_written_is_written() -> None:
    view: dict[str, Json] = {"a": 1}
    values = CellValues(view)
    values.load("a")
    assert values.written == {}
    values.store("b", 2)
    assert values.written == {"b": 2}
    assert view == {"a": 1}


def test_null_that_was_written_hides_the_value_of_the_view() -> None:
    values = CellValues({"a": 1})
    values.store("a", None)
    assert values.load("a") is None
    assert values.written == {"a": None}


def test_value_is_as_it_was_when_it_was_stored() -> None:
    values = CellValues({})
    mine: list[Json] = [1]
    values.store("a", mine)
    mine.append(2)
    assert values.load("a") == [1]


@pytest.mark.parametrize("key", ["a", "x" * MAX_KEY, "two words", "ключ", "a\u00a0b", "😀", "\u200d"])
def test_text_is_a_key(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("", "at least one character"),
        ("x" * (MAX_KEY + 1), "has 257 characters: at most 256"),
        ("a\nb", "control characters"),
        ("a\0", "control characters"),
        ("\x7f", "control characters"),
        ("\x85", "control characters"),
        ("\ud800", "half a surrogate pair"),
        (None, "is text, not NoneType"),
        (5, "is text, not int"),
        (["a"], "is text, not list"),
    ],
)
def test_what_is_no_key_is_refused_by_name(key: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_key(key)
    values = CellValues({})
    assert message in _refusal(values, key, 1)
    with pytest.raises(HelperRefused, match=message):
        values.load(key)


@pytest.mark.parametrize("value", [float("nan"), b"x", object(), {"a": {1j}}])
def test_what_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(ValueRefused):
        check_value(value)
    assert "the value for 'a' cannot be stored: " in _refusal(CellValues({}), "a", value)


def test_value_over_its_bound_is_refused() -> None:
    values = CellValues({}, bounds=SMALL)
    values.store("a", "x" * 38)
    assert "over the bound of 40 bytes" in _refusal(values, "b", "x" * 41)
    assert "takes more than 40 bytes" in _refusal(values, "b", ["x" * 38])


def test_value_of_a_mebibyte_is_the_largest() -> None:
    values = CellValues({})
    values.store("a", "x" * ((1 << 20) - 2))
    assert "1048576 bytes" in _refusal(values, "b", ["x" * (1 << 20)])


def test_more_keys_than_a_session_may_have_are_refused() -> None:
    values = CellValues({"a": 1, "b": 2}, bounds=SMALL)
    values.store("c", 3)
    assert "at most 3 of them" in _refusal(values, "d", 4)
    for key in "abc":
        values.store(key, 0)
    assert "at most 3 of them" in _refusal(values, "d", 4)


def test_view_and_writes_together_keep_to_the_bytes_of_the_session() -> None:
    values = CellValues({"a": "x" * 30}, bounds=SMALL)
    assert "at most 60 bytes, of which 27 are left" in _refusal(values, "b", "x" * 30)
    values.store("a", "")
    values.store("b", "x" * 30)
    assert "do not fit" in _refusal(values, "a", "x" * 30)


def test_value_that_is_written_again_counts_once() -> None:
    values = CellValues({}, bounds=SMALL)
    for _ in range(100):
        values.store("a", "x" * 30)


def test_cell_whose_view_is_past_the_bounds_can_still_make_it_smaller() -> None:
    view: dict[str, Json] = {key: "x" * 30 for key in "abcde"}
    values = CellValues(view, bounds=SMALL)
    assert "do not fit" in _refusal(values, "a", "x" * 31)
    for key in "abcde":
        values.store(key, "")
    values.store("a", "x" * 30)


def test_given_size_of_the_view_is_believed() -> None:
    assert "do not fit" in _refusal(CellValues({}, 59, SMALL), "a", 1)
    CellValues({}, 50, SMALL).store("a", 1)


@given(states, st.lists(st.tuples(keys, json_values), max_size=6))
def test_values_taken_up_elsewhere_are_the_same(view: dict[str, Any], writes: list[tuple[str, Any]]) -> None:
    first = CellValues(view)
    for key, value in writes:
        first.store(key, value)
    second = CellValues.from_json(json.loads(json.dumps(first.to_json())))
    assert second.to_json() == first.to_json()
    assert second.written == first.written
    assert all(second.load(key) == first.load(key) for key in [*view, *first.written, "?"])


def _attempt(values: CellValues, key: str, value: Any) -> str | None:
    try:
        values.store(key, value)
    except HelperRefused as refused:
        return refused.message
    return None


@given(states, st.lists(st.tuples(keys, json_values, st.booleans()), max_size=10))
def test_bounds_hold_and_hold_alike_wherever_the_cell_goes_on(
    view: dict[str, Any], writes: list[tuple[str, Any, bool]]
) -> None:
    bounds = ValueBounds(max_keys=5, max_value_bytes=100, max_total_bytes=150)
    stayed = moved = CellValues(view, bounds=bounds)
    before = _total(view)
    for key, value, moves in writes:
        if moves:
            moved = CellValues.from_json(json.loads(json.dumps(moved.to_json())), bounds)
        refusal = _attempt(stayed, key, value)
        if moved is not stayed:
            assert _attempt(moved, key, value) == refusal
        together = {**view, **stayed.written}
        assert len(together) <= bounds.max_keys
        assert _total(together) <= max(before, bounds.max_total_bytes)
        assert moved.written == stayed.written


def _total(state: dict[str, Any]) -> int:
    return sum(entry_size(key, measure(value)) for key, value in state.items())


@pytest.mark.parametrize("data", [None, [], {}, {"view": {}}, {"view": {}, "written": []}, {"view": 1, "written": {}}])
def test_what_no_cell_wrote_down_is_not_taken_up(data: Any) -> None:
    with pytest.raises(InvalidInput, match="not the stored values"):
        CellValues.from_json(data)


@given(json_values)
def test_measure_is_what_the_check_said(value: Any) -> None:
    made, size = check_value(value)
    assert measure(made) == size
