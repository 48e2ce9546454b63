"""What goes along with the next write: behind it, or by itself when there is none."""

import asyncio
from collections.abc import Awaitable

import pytest

from cloister.ports.rows import Append, Batch, CellRow, Drop, Put
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


class Slow(MemoryStore):
    """Nothing is safe before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Batch] = []
        self.let_go = asyncio.Event()

    def write(self, batch: Batch) -> Awaitable[tuple[int, ...]]:
        self.batches.append(batch)
        return asyncio.ensure_future(self._write(batch))

    async def _write(self, batch: Batch) -> tuple[int, ...]:
        await self.let_go.wait()
        return await super().write(batch)


@pytest.mark.parametrize("by_the_clock", [False, True])
async def test_programs_go_ahead_only_so_far(by_the_clock: bool) -> None:
    store, told = Slow(), 0
    async with store:
        ink = Ink(store, Fences())

        async def go() -> None:
            nonlocal told
            for number in range(100):
                await ink.go_ahead("a", "cel_a", Drop("values", ("a", f"{number}")))
                told += 1
                if by_the_clock:
                    # As it is when reads take longer than what is held is held.
                    ink.release_all()

        going = asyncio.create_task(go())
        for _ in range(200):
            await asyncio.sleep(0)
        # Nothing is safe yet, however many batches are on their way: it waits for the first.
        assert told == 31
        assert len(store.batches) == (31 if by_the_clock else 2)
        store.let_go.set()
        async with asyncio.timeout(30):
            await going
        assert told == 100


async def test_of_a_cell_that_is_held_only_what_was_written_last_is_handed_over() -> None:
    store = Slow()
    store.let_go.set()
    async with store:
        ink = Ink(store, Fences())
        rows = [CellRow("cel_a", "a", 1, f"state {n}", live=True, created_ms=1) for n in range(3)]
        other = CellRow("cel_b", "a", 2, "state", live=True, created_ms=1)
        for row in (*rows[:2], other, rows[2]):
            ink.hold("a", Put(row))
        await ink.write("a")
        assert store.batches[0].writes == (Put(other), Put(rows[2]))


async def test_events_never_go_before_what_they_tell_of() -> None:
    store = Slow()
    store.let_go.set()
    async with store:
        ink = Ink(store, Fences())
        await ink.go_ahead("a", "cel_a", Drop("values", ("a", "k")))
        ink.along("a", event := Append("a", "event", 1))
        await ink.write("b")
        assert [batch.writes for batch in store.batches] == [(), (Drop("values", ("a", "k")),), (event,)]
