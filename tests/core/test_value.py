"""Values crossing the boundary: what is mapped, what is refused, and that the bounds are cheap to find."""

import datetime
import enum
import json
from collections import OrderedDict, UserDict, deque
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings

from cloister.core.value import MAX_BYTES, MAX_DEPTH, MAX_INT_BITS, MAX_NODES, Bounds, ValueRefused, plain, sized
from tests.core.json_values import json_values, nested

UTC = datetime.UTC


def _refusal(value: Any, bounds: Bounds | None = None) -> ValueRefused:
    with pytest.raises(ValueRefused) as refusal:
        plain(value, bounds) if bounds else plain(value)
    return refusal.value


@given(json_values)
def test_json_value_is_left_as_it_is(value: Any) -> None:
    assert json.dumps(plain(value)) == json.dumps(value)


@given(json_values)
def test_plain_value_is_a_copy_of_the_containers(value: Any) -> None:
    made = plain([value])
    assert isinstance(made, list)
    if isinstance(value, (list, dict)):
        assert made[0] is not value


class Colour(str, enum.Enum):  # noqa: UP042 - the older form, whose str() is not its value
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Word(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


MAPPED: list[tuple[Any, Any]] = [
    ((1, 2), [1, 2]),
    ({1}, [1]),
    (frozenset([1]), [1]),
    (deque([1, 2]), [1, 2]),
    (datetime.date(2026, 1, 2), "2026-01-02"),
    (datetime.time(3, 4), "03:04:00"),
    (datetime.datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00+00:00"),
    (PurePosixPath("/a/b"), "/a/b"),
    ({1: "a"}, {"1": "a"}),
    ({1.5: "a"}, {"1.5": "a"}),
    ({True: "a"}, {"true": "a"}),
    ({None: "a"}, {"null": "a"}),
    (OrderedDict(a=1), {"a": 1}),
    (UserDict({"a": [1]}), {"a": [1]}),
    (MappingProxyType({"a": {"b": 1}}), {"a": {"b": 1}}),
    (Level.HIGH, 3),
    (Colour.RED, "red"),
    (Word("honest"), "honest"),
    (2**53 + 1, 2**53 + 1),
    (-(2**100), -(2**100)),
]


@pytest.mark.parametrize(("value", "made"), MAPPED, ids=repr)
def test_value_that_json_does_not_have_is_mapped(value: Any, made: Any) -> None:
    # Alone and inside: the two take different ways.
    assert plain(value) == made
    assert plain([value]) == [made]
    assert type(plain(value)) is type(made)


@pytest.mark.parametrize("value", ["\ud800", ["a\udfff"], {"\ud800": 1}, {"a": "x\ud800"}], ids=ascii)
def test_half_a_character_is_refused(value: Any) -> None:
    with pytest.raises(ValueRefused, match="surrogate"):
        plain(value)


def test_keys_of_text_subclasses_become_plain_text() -> None:
    made = plain({Colour.RED: 1})
    assert isinstance(made, dict)
    assert [(type(key), key) for key in made] == [(str, "red")]


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        b"x",
        bytearray(b"x"),
        1j,
        Decimal(1),
        datetime.timedelta(1),
        ...,
        print,
        int,
        object(),
        (n for n in [1]),
        range(3),
        json,
    ],
    ids=lambda value: type(value).__name__,
)
def test_value_that_json_cannot_say_is_refused(value: Any) -> None:
    assert _refusal(value).code == "RESULT_NOT_SERIALIZABLE"
    assert _refusal([value]).code == "RESULT_NOT_SERIALIZABLE"
    assert _refusal({"a": value}).code == "RESULT_NOT_SERIALIZABLE"


@pytest.mark.parametrize("value", [float("nan"), b"x", Decimal(1), 1j, datetime.timedelta(1), print])
def test_refusal_says_what_to_do(value: Any) -> None:
    assert _refusal(value).hint


@pytest.mark.parametrize("key", [(1, 2), b"a", frozenset([1]), datetime.date(2026, 1, 1), float("nan")])
def test_key_that_json_cannot_say_is_refused(key: Any) -> None:
    assert _refusal({key: 1}).code == "RESULT_NOT_SERIALIZABLE"


def test_two_keys_that_are_written_alike_are_refused() -> None:
    assert "alike" in _refusal({1: "a", "1": "b"}).message


# -- circles ------------------------------------------------------------------------------------------------------


def test_list_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    assert _refusal(value).code == "RESULT_NOT_SERIALIZABLE"


def test_object_that_contains_itself_further_down_is_refused() -> None:
    value: dict[str, Any] = {}
    value["a"] = [1, ({"b": value},)]
    assert "contains itself" in _refusal(value).message


def test_part_that_is_used_twice_is_no_circle() -> None:
    part = [1]
    assert plain([part, {"a": part}, part]) == [[1], {"a": [1]}, [1]]


# -- bounds -------------------------------------------------------------------------------------------------------


def test_value_of_the_greatest_depth_passes_and_one_deeper_does_not() -> None:
    plain(nested(MAX_DEPTH))
    assert _refusal(nested(MAX_DEPTH + 1)).code == "RESULT_TOO_LARGE"


def test_depth_of_objects_counts_as_that_of_lists() -> None:
    plain(nested(MAX_DEPTH, lambda inner: {"a": inner}))
    assert _refusal(nested(MAX_DEPTH + 1, lambda inner: {"a": inner})).code == "RESULT_TOO_LARGE"


def test_value_far_deeper_than_python_s_own_stack_is_refused_not_crashed() -> None:
    assert _refusal(nested(100_000)).code == "RESULT_TOO_LARGE"


def test_value_of_too_many_parts_is_refused() -> None:
    bounds = Bounds(nodes=10)
    plain(list(range(8)), bounds)
    assert _refusal(list(range(11)), bounds).code == "RESULT_TOO_LARGE"


def test_parts_are_counted_as_written_out_not_as_they_exist() -> None:
    part = list(range(100))
    assert _refusal([part] * 100, Bounds(nodes=1000)).code == "RESULT_TOO_LARGE"


def test_value_of_too_many_bytes_is_refused() -> None:
    assert _refusal(["a" * 50] * 3, Bounds(size=100)).code == "RESULT_TOO_LARGE"
    assert _refusal({"a" * 101: 1}, Bounds(size=100)).code == "RESULT_TOO_LARGE"


def test_single_text_over_the_bound_is_refused() -> None:
    plain("a" * 98, Bounds(size=100))
    # Its quotes count.
    assert _refusal("a" * 99, Bounds(size=100)).code == "RESULT_TOO_LARGE"


@pytest.mark.parametrize("inside", [False, True])
def test_bytes_of_a_text_are_counted_not_its_characters(inside: bool) -> None:
    text = "\U0001f600" * 60
    assert _refusal([text] if inside else text, Bounds(size=100)).code == "RESULT_TOO_LARGE"


def test_digits_of_large_integers_count_as_bytes() -> None:
    value = [2 ** (MAX_INT_BITS - 1)] * 2000
    assert len(json.dumps(value)) > MAX_BYTES
    assert _refusal(value).code == "RESULT_TOO_LARGE"


def test_integer_is_bounded_in_bits() -> None:
    plain(2**MAX_INT_BITS - 1)
    for value in (2**MAX_INT_BITS, -(2**MAX_INT_BITS)):
        assert _refusal(value).code == "RESULT_TOO_LARGE"
        assert _refusal([value]).code == "RESULT_TOO_LARGE"


def test_largest_integer_that_passes_can_be_written() -> None:
    value = plain(2**MAX_INT_BITS - 1)
    assert json.loads(json.dumps(value)) == value


@settings(max_examples=30)
@given(json_values)
def test_what_passes_is_not_larger_than_the_bound_once_written(value: Any) -> None:
    bounds = Bounds(size=60)
    try:
        made = plain([value], bounds)
    except ValueRefused:
        return
    # Spaces and escapes may add to it; a bound that is off by an order of magnitude is no bound.
    assert len(json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()) <= 6 * bounds.size


class Counting(Mapping[str, Any]):
    """A mapping that counts how often it is looked into."""

    looks = 0

    def __init__(self, **items: Any) -> None:
        self._items = items

    def __getitem__(self, key: str) -> Any:
        Counting.looks += 1
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


def test_shared_structure_that_would_be_huge_is_refused_after_a_few_steps() -> None:
    Counting.looks = 0
    value: Any = Counting(a=1)
    for _ in range(60):
        value = Counting(a=value, b=value)
    assert _refusal(value).code == "RESULT_TOO_LARGE"
    # 61 objects with two entries each: a few looks at each of them, not 2**60.
    assert Counting.looks <= 61 * 2 * 4


def test_shared_structure_within_the_bounds_stays_shared() -> None:
    value: Any = [[1]]
    for _ in range(10):
        value = [value, value]
    made: Any = plain(value)
    for _ in range(10):
        assert made[0] is made[1]
        made = made[0]


def test_one_empty_list_a_million_times_over_is_refused() -> None:
    part: list[Any] = []
    assert _refusal([part] * (5 * MAX_NODES)).code == "RESULT_TOO_LARGE"


class Lazy(Mapping[str, Any]):
    """A mapping that makes its values when they are looked at."""

    def __getitem__(self, key: str) -> Any:
        return [key]

    def __iter__(self) -> Iterator[str]:
        return iter("ab")

    def __len__(self) -> int:
        return 2


def test_mapping_that_makes_its_values_on_each_look_is_read() -> None:
    assert plain(Lazy()) == {"a": ["a"], "b": ["b"]}


@given(json_values)
def test_size_is_near_what_is_written(value: Any) -> None:
    _, size = sized(value)
    written = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    # Escapes (\\u0000 for one byte) are what it leaves out; numbers are counted generously.
    assert written / 6 <= size <= 8 * written + 8


# -- texts --------------------------------------------------------------------------------------------------------


def test_every_text_that_is_a_value_is_shown_and_no_key() -> None:
    seen: list[str] = []
    sized(["a", {"key": "b"}, ("c",)], text=seen.append)
    assert sorted(seen) == ["a", "b", "c"]


def test_text_alone_is_shown_too() -> None:
    seen: list[str] = []
    sized("a", text=seen.append)
    assert seen == ["a"]


def test_long_text_that_is_there_many_times_is_looked_at_until_the_bound_and_no_further() -> None:
    looks: list[str] = []
    with pytest.raises(ValueRefused, match="once written out"):
        sized(["é" * 1_000_000] * 100_000, text=looks.append)
    assert len(looks) < 10
