"""What the journal in memory keeps, and what it lets go of."""

from collections.abc import Sized
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.call import CallStatus
from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.stores.memory import MemoryJournal
from cloister.testing.journal import make_intent, make_settled

pytestmark = pytest.mark.anyio


async def write(journal: MemoryJournal, number: int, value: Json = None, arguments: Json = None) -> None:
    await journal.intend(make_intent(number, arguments=arguments))
    await journal.settle(make_settled(number, value=value))


async def numbers(journal: MemoryJournal) -> list[int]:
    return [entry.intent.number for entry in await journal.of_cell("cel_a")]


async def test_settled_calls_beyond_the_count_are_dropped_in_the_order_of_their_settlements() -> None:
    journal = MemoryJournal(keep_settled=2)
    for number in range(4):
        await journal.intend(make_intent(number))
    for number in (2, 0, 3, 1):
        await journal.settle(make_settled(number))
    assert await numbers(journal) == [1, 3]
    assert await journal.look_up("cel_a/2") is None


async def test_calls_that_are_not_settled_are_never_dropped() -> None:
    journal = MemoryJournal(keep_settled=1, keep_bytes=1)
    await journal.intend(make_intent(0))
    for number in range(1, 50):
        await write(journal, number)
    assert await numbers(journal) == [0, 49]


@pytest.mark.parametrize("big", ["value", "arguments"])
async def test_settled_calls_beyond_the_bytes_are_dropped_oldest_first(big: str) -> None:
    journal = MemoryJournal(keep_bytes=100_000)
    parts: list[Json] = ["x" * 30_000]
    for number in range(5):
        await write(journal, number, **{big: parts})
    assert await numbers(journal) == [2, 3, 4]


async def test_keys_of_objects_and_many_small_parts_are_weighed_too() -> None:
    journal = MemoryJournal(keep_bytes=100_000)
    await write(journal, 1, value={"k" * 60_000: None})
    await write(journal, 2, value={"k" * 60_000: None})
    assert await numbers(journal) == [2]
    parts: list[Json] = [None] * 10_000
    await write(journal, 3, value=parts)
    assert await numbers(journal) == [3]


async def test_newest_settlement_stays_even_if_it_alone_is_over_the_bound() -> None:
    journal = MemoryJournal(keep_bytes=1)
    await write(journal, 1, value="x" * 1000)
    assert await numbers(journal) == [1]


async def test_dropped_calls_give_their_bytes_back() -> None:
    journal = MemoryJournal(keep_bytes=100_000)
    await write(journal, 1, value="x" * 90_000)
    for number in range(2, 52):
        await write(journal, number, value="x" * 500)
    # All fifty fit once the big one is gone.
    assert await numbers(journal) == list(range(2, 52))


async def test_call_that_is_made_again_is_not_settled_and_so_not_dropped() -> None:
    journal = MemoryJournal(keep_settled=2, keep_bytes=100_000)
    await journal.intend(make_intent(1, arguments="x" * 90_000))
    await journal.settle(replace(make_settled(1), status=CallStatus.UNKNOWN))
    await journal.intend(make_intent(1, arguments="x" * 90_000))
    # Nor does it count: neither against the two nor against the bytes.
    for number in range(2, 6):
        await write(journal, number, value="x" * 40_000)
    assert await numbers(journal) == [1, 4, 5]


async def test_nothing_is_left_of_a_cell_whose_calls_were_dropped() -> None:
    journal = MemoryJournal(keep_settled=1)
    for number in range(100):
        await journal.intend(make_intent(1, f"cel_{number}"))
        await journal.settle(make_settled(1, f"cel_{number}"))
    assert [await journal.of_cell(f"cel_{number}") for number in range(99)] == [[]] * 99
    held: dict[str, Sized] = {name: part for name, part in vars(journal).items() if isinstance(part, Sized)}
    assert {name: len(part) for name, part in held.items()} == {"_entries": 1, "_cells": 1, "_settled": 1}


@pytest.mark.parametrize("bound", [0, -1, 1.5, True, None])
@pytest.mark.parametrize("name", ["keep_settled", "keep_bytes"])
async def test_bound_that_is_none_is_refused_by_its_name(name: str, bound: object) -> None:
    with pytest.raises(InvalidInput, match=name):
        MemoryJournal(**{name: bound})  # type: ignore[arg-type]


@given(st.integers(1, 5), st.lists(st.tuples(st.booleans(), st.integers(0, 3_000)), max_size=40))
async def test_bounds_hold_after_every_settlement(keep: int, calls: list[tuple[bool, int]]) -> None:
    journal = MemoryJournal(keep_settled=keep, keep_bytes=10_000)
    unsettled: list[int] = []
    settled: list[int] = []
    for number, (ends, size) in enumerate(calls):
        await journal.intend(make_intent(number))
        if not ends:
            unsettled.append(number)
            continue
        await journal.settle(make_settled(number, value="x" * size))
        settled.append(number)
        there = await numbers(journal)
        assert [n for n in there if n in unsettled] == unsettled
        left = [n for n in there if n in settled]
        # An unbroken row of the newest.
        assert left == settled[len(settled) - len(left) :]
        assert 1 <= len(left) <= keep
        assert len(left) == 1 or sum(calls[n][1] for n in left) <= 10_000
