"""A driver that is cancelled in the middle of a write: what was handed over is written, so it is waited for."""

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

from cloister.core.item import AgentMessage
from cloister.core.thread import ThreadParams
from cloister.core.turn import Receipt, Status, SteerParams
from cloister.threads import OpenTurn, TurnEnd
from tests.threads.lab import PATIENCE_S, ends, follow, host, inputs_of, projected, say

pytestmark = pytest.mark.anyio
# Long enough for a cancelled task to end, if nothing keeps it.
_MOMENT_S = 0.2


class Locked:
    """The store's file, in the hands of somebody else who writes: our writes are handed over, and wait."""

    def __init__(self, path: Path) -> None:
        self._connection: Any = apsw.Connection(str(path))
        self._connection.execute("BEGIN IMMEDIATE")

    def let_go(self) -> None:
        self._connection.execute("ROLLBACK")
        self._connection.close()


async def _cut(work: "asyncio.Task[Any]", locked: Locked) -> None:
    """Cancel it once its write has been handed over; it ends when that is safe."""
    await asyncio.sleep(0)
    work.cancel()
    _, waits = await asyncio.wait([work], timeout=_MOMENT_S)
    locked.let_go()
    assert waits == {work}
    await asyncio.wait([work])
    assert work.cancelled()


async def test_item_that_was_being_written_as_its_turn_was_interrupted_ends_with_the_turn(tmp_path: Path) -> None:
    cut, path = asyncio.Event(), tmp_path / "a.db"

    async def run(turn: OpenTurn) -> TurnEnd:
        locked = Locked(path)
        try:
            await _cut(asyncio.create_task(turn.keep(turn.item(AgentMessage("Once upon")))), locked)
        finally:
            cut.set()
        await asyncio.Event().wait()
        return TurnEnd()

    async with host(path, run) as cloister:
        threads = cloister.threads
        thread = await threads.create(ThreadParams())
        turn_id = await say(threads, thread.id, "hello")
        async with asyncio.timeout(PATIENCE_S):
            await cut.wait()
            turn = await threads.interrupt(thread.id, turn_id)
        assert turn.status is Status.INTERRUPTED
        items = (await threads.get(thread.id)).items
        assert [item.status for item in items] == [Status.COMPLETED, Status.INTERRUPTED]
        await projected(threads, thread.id)


async def test_words_that_were_being_delivered_as_their_turn_was_interrupted_are_not_dropped(tmp_path: Path) -> None:
    begun, said, cut, path = asyncio.Event(), asyncio.Event(), asyncio.Event(), tmp_path / "a.db"
    delivered: list[list[str]] = []

    async def run(turn: OpenTurn) -> TurnEnd:
        await turn.take_inputs()
        begun.set()
        await said.wait()
        locked = Locked(path)
        try:
            await _cut(asyncio.create_task(turn.take_inputs()), locked)
            await turn.load()
            delivered.append(inputs_of(turn))
        finally:
            cut.set()
        await asyncio.Event().wait()
        return TurnEnd()

    async with host(path, run) as cloister:
        threads = cloister.threads
        thread = await threads.create(ThreadParams())
        turn_id = await say(threads, thread.id, "hello")
        async with asyncio.timeout(PATIENCE_S):
            await begun.wait()
            receipt = await threads.steer(thread.id, turn_id, SteerParams("and this", "mine"))
            assert receipt.receipt is Receipt.QUEUED
            said.set()
            await cut.wait()
            await threads.interrupt(thread.id, turn_id)
        assert delivered == [["hello", "and this"]]
        events = await follow(threads, thread.id, ends(turn_id))
        assert "turn.steer_dropped" not in [one.event for one in events]
        await projected(threads, thread.id)
