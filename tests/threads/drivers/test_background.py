"""Cells that go on after their turn: their thread hears of them, once, and wakes if it is to."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from cloister import tool
from cloister.core.content import text_of
from cloister.core.envelope import Envelope
from cloister.core.item import ItemKind, Notification
from cloister.core.thread import Wake
from cloister.core.turn import Status, Turn
from tests.threads.drivers.lab import begin, ended, first, host, scripted, talk, work
from tests.threads.lab import ends, follow

pytestmark = pytest.mark.anyio

GOES_ON = """
answers:
  - exec: |
      yield_control()
      await signal()
      "late"
  - text: It goes on.
  - expect: has ended
    wait: {}
  - expect: late
    text: It said so.
"""


def another(turn: Turn) -> Callable[[Envelope], bool]:
    """That another turn has ended."""
    return lambda one: one.event == "turn.completed" and one.turn_id != turn.id


class Signal:
    """A tool that answers when it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.made = 0

    def tool(self) -> object:
        @tool
        async def signal() -> str:
            self.made += 1
            await self.go.wait()
            return "went"

        return signal


async def test_end_of_a_background_cell_is_told_with_the_next_turn(tmp_path: Path) -> None:
    signal, model = Signal(), scripted(GOES_ON)
    async with host(tmp_path / "a.db", model, tools=[signal.tool()]) as cloister:
        threads = cloister.threads
        turn, items = await talk(threads)
        assert (turn.status, work(items)[0].detail.outcome) == (Status.COMPLETED, "yielded")
        signal.go.set()
        steered = await first(threads, turn.thread_id, "turn.steered")
        assert steered.turn_id is None
        assert len((await threads.get(turn.thread_id)).turns) == 1
        turn, items = await talk(threads, "and?", thread=(await threads.get(turn.thread_id)).thread)
        assert turn.status is Status.COMPLETED, turn.error
        [notice] = [item.detail for item in items if isinstance(item.detail, Notification)]
        assert "[completed]" in text_of(notice.content)
        assert notice.cell_id == work(items)[0].detail.cell_id


async def test_end_of_a_background_cell_begins_a_turn_where_that_is_wanted(tmp_path: Path) -> None:
    signal, model = Signal(), scripted(GOES_ON)
    async with host(tmp_path / "a.db", model, tools=[signal.tool()]) as cloister:
        threads = cloister.threads
        turn, _ = await talk(threads, wake=Wake.TURN)
        signal.go.set()
        events = await follow(threads, turn.thread_id, another(turn))
        woken = (await threads.get(turn.thread_id)).turns[1]
        assert (woken.status, woken.input, woken.id) == (Status.COMPLETED, (), events[-1].turn_id)
        assert woken.woken_by is not None
        woken, items = await ended(threads, woken)
        assert next(item.kind for item in items) is ItemKind.NOTIFICATION
        assert "late" in model.told()


async def test_cell_that_ends_after_a_restart_is_told_once(tmp_path: Path) -> None:
    signal, path = Signal(), tmp_path / "a.db"
    async with host(path, scripted(GOES_ON), tools=[signal.tool()]) as cloister:
        turn, _ = await talk(cloister.threads, wake=Wake.TURN)
        await follow(cloister.threads, turn.thread_id, lambda one: one.event == "call.requested")
    signal.go.set()
    for attempt in range(2):
        async with host(path, scripted(GOES_ON), tools=[signal.tool()]) as cloister:
            await follow(cloister.threads, turn.thread_id, another(turn))
            turns = (await cloister.threads.get(turn.thread_id)).turns
            assert [one.status for one in turns] == [Status.COMPLETED] * 2, attempt
            events = [one async for one in cloister.threads.replay(thread_id=turn.thread_id)]
            assert [one.event for one in events].count("turn.steered") == 1


async def test_question_of_a_background_cell_is_told(tmp_path: Path) -> None:
    @tool(approval_policy="manual")
    async def pay() -> str:
        return "paid"

    model = scripted(
        """
answers:
  - exec: |
      yield_control()
      await signal()
      await pay()
  - text: It goes on.
  - expect: "allow `pay`"
    text: You are asked.
"""
    )
    signal = Signal()
    async with host(tmp_path / "a.db", model, tools=[pay, signal.tool()]) as cloister:
        threads = cloister.threads
        turn, _ = await talk(threads, wake=Wake.TURN)
        signal.go.set()
        woken = await follow(threads, turn.thread_id, another(turn))
        detail = await threads.get(turn.thread_id)
        assert detail.turns[1].status is Status.COMPLETED, (detail.turns[1].error, woken[-1])


async def test_cell_of_an_interrupted_turn_wakes_nobody(tmp_path: Path) -> None:
    signal, model = (
        Signal(),
        scripted('answers: [{exec: "yield_control()\\nawait signal()"}, {text: x, delay_ms: 60000}]'),
    )
    async with host(tmp_path / "a.db", model, tools=[signal.tool()]) as cloister:
        threads = cloister.threads
        turn = await begin(threads, wake=Wake.TURN)
        await follow(threads, turn.thread_id, lambda one: one.event == "call.requested")
        turn = await threads.interrupt(turn.thread_id, turn.id)
        assert turn.status is Status.INTERRUPTED
        await follow(threads, turn.thread_id, ends(turn.id))
        assert len((await threads.get(turn.thread_id)).turns) == 1
