"""What goes along with the next write: behind it, or by itself when there is none."""

import asyncio
from collections.abc import Awaitable

import pytest

from cloister.ports.rows import Append, Batch
from cloister.sessions.fences import Fences
from cloister.sessions.ink import Ink
from cloister.stores.memory_store import MemoryStore

pytestmark = pytest.mark.anyio


class Noting(MemoryStore):
    """Notes whose batches it was handed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.handed: list[str] = []

    def write(self, batch: Batch) -> Awaitable[tuple[int, ...]]:
        [append] = batch.writes
        assert isinstance(append, Append)
        self.handed.append(append.kind)
        return super().write(batch)


async def test_events_go_behind_the_next_write_of_any_session() -> None:
    store = Noting()
    async with store:
        ink = Ink(store, Fences())
        first, second = ink.along("a", Append("a", "event 1", 1)), ink.along("b", Append("b", "event 2", 1))
        assert store.handed == []
        await ink.write("c", Append("c", "call", 1))
        assert store.handed == ["call", "event 1", "event 2"]
        assert [await (await first), await (await second)] == [(2,), (3,)]


async def test_events_that_no_write_takes_along_go_by_themselves() -> None:
    store = Noting()
    async with store:
        sent = Ink(store, Fences()).along("a", Append("a", "event", 1))
        async with asyncio.timeout(30):
            assert await (await sent) == (1,)


async def test_what_is_released_at_the_end_takes_events_along() -> None:
    store = Noting()
    async with store:
        ink = Ink(store, Fences())
        ink.along("a", Append("a", "event", 1))
        ink.hold("a", Append("a", "held", 1))
        ink.release_all()
        assert store.handed == ["held", "event"]


async def test_event_whose_reader_has_gone_is_written_all_the_same() -> None:
    store = Noting()
    async with store:
        ink = Ink(store, Fences())
        ink.along("a", Append("a", "event", 1)).cancel()
        ink.send_along()
        assert store.handed == ["event"]
