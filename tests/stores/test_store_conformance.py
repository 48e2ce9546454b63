"""The store conformance suite over the store in memory, with one handle and with two."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings

from cloister.ports.clock import SystemClock
from cloister.stores.memory_data import MemoryData
from cloister.stores.memory_store import MemoryStore
from cloister.testing.stores import ALL, Behaviour, StoreLab
from cloister.testing.stores.history import Step, compare, histories

pytestmark = pytest.mark.anyio


class MovedClock(SystemClock):
    """The machine's clock, ahead by as much as it was moved."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_ms / 1000

    async def move(self, ms: int) -> None:
        self.ahead_ms += ms


@pytest.fixture
async def lab() -> AsyncIterator[StoreLab]:
    clock, data = MovedClock(), MemoryData()
    async with MemoryStore(clock, data) as store:
        yield StoreLab(store, another=lambda: MemoryStore(clock, data), advance=clock.move)


@pytest.mark.parametrize("behaviour", ALL, ids=lambda behaviour: behaviour.slug)
async def test_store(lab: StoreLab, behaviour: Behaviour[StoreLab]) -> None:
    await behaviour.check(lab)


def test_each_behaviour_has_a_sentence_of_its_own() -> None:
    sentences = {behaviour.sentence for behaviour in ALL}
    assert len(sentences) == len(ALL) >= 120


@settings(max_examples=50)
@given(histories())
async def test_two_stores_with_the_same_history_are_alike(history: list[Step]) -> None:
    async with MemoryStore() as store:
        await compare(store, history)
