"""A session's stored values: copies for the host, views for cells, and bounds before anything changes."""

import gc
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cells.values import ValueBounds, entry_size, measure
from cloister.core.errors import CloisterError, InvalidInput, QuotaExceeded
from cloister.core.held import ValueInfo
from cloister.core.value import Json
from cloister.ports.helping import HelperRefused
from cloister.sessions.values import Values
from tests.core.json_values import json_values

pytestmark = pytest.mark.anyio

NOON_MS = 1_763_294_400_000
SMALL = ValueBounds(max_keys=3, max_value_bytes=40, max_total_bytes=60)


class HandClock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.ms = NOON_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("values do not sleep")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def values(clock: HandClock) -> Values:
    return Values(clock)


@pytest.fixture
def small(clock: HandClock) -> Values:
    return Values(clock, SMALL)


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


async def test_what_was_set_is_there_until_it_is_deleted(values: Values) -> None:
    await values.set("a", {"b": [1, 2.5, None, "ü"]})
    assert await values.get("a") == {"b": [1, 2.5, None, "ü"]}
    assert await values.delete("a") is True
    assert await values.delete("a") is False
    assert await values.get("a") is None
    assert await values.all() == {}


async def test_default_is_for_what_is_missing_and_not_for_null(values: Values) -> None:
    assert await values.get("a", 5) == 5
    await values.set("a", None)
    assert await values.get("a", 5) is None


async def test_changing_what_was_handed_out_or_in_changes_nothing(values: Values) -> None:
    given: Any = {"list": [1]}
    await values.set("a", given)
    given["list"].append(2)
    got: Any = await values.get("a")
    got["list"].append(3)
    everything: Any = await values.all()
    everything["a"]["list"].append(4)
    everything["b"] = 1
    assert await values.all() == {"a": {"list": [1]}}


async def test_parts_that_were_shared_come_out_apart(values: Values) -> None:
    part = [1]
    await values.set("a", [part, part])  # pyright: ignore[reportArgumentType] - a list of lists of numbers is JSON
    got: Any = await values.get("a")
    got[0].append(2)
    assert got == [[1, 2], [1]]


async def test_list_tells_keys_sizes_and_times(values: Values, clock: HandClock) -> None:
    await values.set("b", "xyz")
    await values.set("a", 1)
    clock.ms += 1000
    await values.set("b", "wxyz")
    assert await values.list() == [
        ValueInfo("a", 2, _moment(NOON_MS), _moment(NOON_MS)),
        ValueInfo("b", 6, _moment(NOON_MS), _moment(NOON_MS + 1000)),
    ]


async def test_value_that_was_deleted_is_new_when_it_comes_back(values: Values, clock: HandClock) -> None:
    await values.set("a", 1)
    await values.delete("a")
    clock.ms += 1000
    await values.set("a", 1)
    assert [info.created_at for info in await values.list()] == [_moment(clock.ms)]


@pytest.mark.parametrize("key", ["", "x" * 257, "a\nb", "\ud800", 5, None])
async def test_what_is_no_key_is_refused_everywhere(values: Values, key: Any) -> None:
    with pytest.raises(InvalidInput):
        await values.set(key, 1)
    with pytest.raises(InvalidInput):
        await values.get(key)
    with pytest.raises(InvalidInput):
        await values.delete(key)
    with pytest.raises(InvalidInput):
        await values.replace({"a": 1, key: 1})
    assert await values.all() == {}


@pytest.mark.parametrize("value", [float("nan"), b"x", object(), ["\ud800"]])
async def test_what_is_not_json_is_refused(values: Values, value: Any) -> None:
    with pytest.raises(InvalidInput, match="the value for 'a' cannot be stored: "):
        await values.set("a", value)
    with pytest.raises(InvalidInput, match="the value for 'b' cannot be stored: "):
        await values.replace({"a": 1, "b": value})
    assert await values.list() == []


async def test_value_over_its_bound_is_refused(values: Values) -> None:
    await values.set("a", "x" * ((1 << 20) - 2))
    with pytest.raises(QuotaExceeded, match="1048576 bytes"):
        await values.set("b", ["x" * (1 << 20)])
    assert [info.key for info in await values.list()] == ["a"]


async def test_more_keys_than_the_bound_are_refused(small: Values) -> None:
    for key in "abc":
        await small.set(key, 1)
    with pytest.raises(QuotaExceeded, match="at most 3 of them"):
        await small.set("d", 1)
    await small.set("a", 2)
    await small.delete("b")
    await small.set("d", 1)
    with pytest.raises(QuotaExceeded, match="at most 3 of them"):
        await small.replace({key: 1 for key in "abcd"})
    assert await small.all() == {"a": 2, "c": 1, "d": 1}


async def test_more_bytes_than_the_bound_are_refused(small: Values) -> None:
    await small.set("a", "x" * 30)
    with pytest.raises(QuotaExceeded, match="at most 60 bytes, of which 27 are left"):
        await small.set("b", "x" * 30)
    await small.set("a", "x" * 38)
    await small.delete("a")
    await small.set("b", "x" * 38)
    with pytest.raises(QuotaExceeded, match="at most 60 bytes"):
        await small.replace({"a": "x" * 30, "b": "x" * 30})
    assert await small.all() == {"b": "x" * 38}


async def test_replace_leaves_these_values_and_no_others(values: Values, clock: HandClock) -> None:
    await values.set("a", 1)
    await values.set("b", 1)
    view = values.view()
    clock.ms += 1000
    given: dict[str, Json] = {"b": [2], "c": 3}
    await values.replace(given)
    given["d"] = 4
    assert await values.all() == {"b": [2], "c": 3}
    assert [(info.key, info.created_at, info.updated_at) for info in await values.list()] == [
        ("b", _moment(NOON_MS), _moment(clock.ms)),
        ("c", _moment(clock.ms), _moment(clock.ms)),
    ]
    assert view == {"a": 1, "b": 1}


async def test_view_never_changes_whatever_is_written_later(values: Values) -> None:
    await values.set("a", 1)
    view = values.view()
    await values.set("a", 2)
    await values.set("b", 2)
    values.merge({"c": 3})
    await values.delete("a")
    assert view == {"a": 1}
    assert values.view() == {"b": 2, "c": 3}
    with pytest.raises(TypeError):
        view["a"] = 5  # pyright: ignore[reportIndexIssue] - this is what must not work


async def test_views_with_no_write_between_them_are_one_state(values: Values) -> None:
    await values.replace({str(number): number for number in range(1000)})
    # What the proxies stand for: not a copy for every cell that starts.
    (first,), (second,) = gc.get_referents(values.view()), gc.get_referents(values.view())
    assert first is second
    await values.set("a", 1)
    assert gc.get_referents(values.view())[0] is not first


async def test_state_is_copied_by_the_first_write_after_a_view_only(values: Values) -> None:
    def tables() -> set[int]:
        parts: list[Any] = gc.get_referents(values)
        return {id(part) for part in parts if part.__class__ is dict}

    await values.set("a", 1)
    values.view()
    before = tables()
    await values.set("b", 2)
    after = tables()
    await values.set("c", 3)
    assert tables() == after
    assert after != before


async def test_merge_takes_the_written_keys_and_no_others(values: Values, clock: HandClock) -> None:
    await values.replace({"a": 1, "b": 1})
    one, other = values.for_cell(), values.for_cell()
    one.store("a", 2)
    other.store("b", 3)
    other.store("c", [4])
    clock.ms += 1000
    values.merge(one.written)
    values.merge(other.written)
    assert await values.all() == {"a": 2, "b": 3, "c": [4]}
    assert [(info.key, info.created_at, info.updated_at) for info in await values.list()] == [
        ("a", _moment(NOON_MS), _moment(clock.ms)),
        ("b", _moment(NOON_MS), _moment(clock.ms)),
        ("c", _moment(clock.ms), _moment(clock.ms)),
    ]


async def test_cell_is_held_to_what_the_session_has_left(small: Values) -> None:
    await small.set("a", "x" * 30)
    cell = small.for_cell()
    with pytest.raises(HelperRefused, match="of which 27 are left"):
        cell.store("b", "x" * 30)
    await small.delete("a")
    small.for_cell().store("b", "x" * 30)


async def test_merge_never_refuses_and_the_way_back_stays_open(small: Values) -> None:
    cells = [small.for_cell() for _ in range(4)]
    for number, cell in enumerate(cells):
        cell.store(f"k{number}", "x" * 38)
    for cell in cells:
        small.merge(cell.written)
    assert len(await small.all()) == 4
    with pytest.raises(QuotaExceeded):
        await small.set("new", 1)
    await small.set("k0", "x")
    for number in range(1, 4):
        await small.delete(f"k{number}")
    await small.set("new", 1)
    assert await small.all() == {"k0": "x", "new": 1}


_KEYS = st.sampled_from("abcde")
_STEPS = st.lists(
    st.tuples(st.just("set"), _KEYS, json_values)
    | st.tuples(st.just("delete"), _KEYS, st.none())
    | st.tuples(st.just("merge"), _KEYS, st.none() | st.text(max_size=5))
    | st.tuples(st.just("replace"), _KEYS, json_values),
    max_size=20,
)


@given(_STEPS)
async def test_values_are_what_a_plain_table_says_and_views_stay_as_they_were(
    steps: list[tuple[str, str, Any]],
) -> None:
    values = Values(HandClock(), ValueBounds(max_keys=4, max_value_bytes=80, max_total_bytes=120))
    table: dict[str, Any] = {}
    views: list[tuple[Any, dict[str, Any]]] = []
    for what, key, value in steps:
        after = {key: value} if what == "replace" else {**table, key: value}
        try:
            match what:
                case "delete":
                    assert await values.delete(key) == (key in table)
                    del after[key]
                case "merge":
                    values.merge({key: value})
                case "set":
                    await values.set(key, value)
                    assert _fits(after) or _size(after) <= _size(table)
                case _:
                    await values.replace(after)
                    assert _fits(after)
        except CloisterError:
            assert not _fits(after)
        else:
            table = after
        assert await values.all() == table
        assert {info.key: info.size_bytes for info in await values.list()} == {
            one: measure(table[one]) for one in table
        }
        views.append((values.view(), dict(table)))
    assert all(view == then for view, then in views)


def _size(table: dict[str, Any]) -> int:
    return sum(entry_size(key, measure(value)) for key, value in table.items())


def _fits(table: dict[str, Any]) -> bool:
    return len(table) <= 4 and _size(table) <= 120 and all(measure(value) <= 80 for value in table.values())
