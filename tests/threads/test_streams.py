"""Streams of events whose reader and writer are at different places of the log."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from cloister.core.envelope import Envelope
from cloister.ports.clock import SystemClock
from cloister.ports.rows import Append, Batch, EventRow
from cloister.stores.memory_store import MemoryStore
from cloister.threads.streams import Streams

pytestmark = pytest.mark.anyio


class Halting(MemoryStore):
    """Whoever reads the log for all of them is held where the test wants it."""

    def __init__(self) -> None:
        super().__init__(clock=SystemClock())
        self.may_read = asyncio.Event()

    async def events(self, **given: Any) -> Sequence[EventRow]:
        if given.get("thread_id") is None:
            await self.may_read.wait()
        return await super().events(**given)


def _piece(text: str) -> Envelope:
    return Envelope("item.delta", datetime.now(UTC), {"text": text}, thread_id="thr_1", item_id="itm_1")


async def test_piece_of_a_text_is_not_told_after_its_end() -> None:
    store = Halting()
    async with store:
        streams = Streams(store)
        async with streams.follow(thread_id="thr_1") as here:
            streams.expect("itm_1")
            kinds = ("item.started", "item.completed", "turn.completed")
            await store.write(Batch(tuple(Append("s", kind, 1, {}, "thr_1", "trn_1", "itm_1") for kind in kinds[:2])))
            streams.tell(_piece("late"), 0)
            # This one reads the log by itself, to the end of the item; then the others come to its beginning.
            assert [(await anext(here)).event for _ in range(2)] == list(kinds[:2])
            store.may_read.set()
            while streams._expected:  # pyright: ignore[reportPrivateUsage]  # noqa: ASYNC110
                await asyncio.sleep(0)
            await store.write(Batch((Append("s", kinds[2], 1, {}, "thr_1", "trn_1"),)))
            assert (await anext(here)).event == kinds[2]
        await streams.close()
