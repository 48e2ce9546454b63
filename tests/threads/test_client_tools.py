"""Tools that a client brings along: asked through the gate, answered once, also after a restart."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cloister import tool
from cloister.core.dynamic import DynamicToolCallResult, DynamicToolSpec
from cloister.core.envelope import Envelope
from cloister.core.errors import ToolCallNotFound
from cloister.core.item import ItemKind
from cloister.core.limits import SessionLimits
from cloister.core.thread import ThreadParams
from cloister.core.turn import Status, TurnParams
from cloister.ports.clock import SystemClock
from cloister.threads.client_tools import MAX_PENDING
from tests.threads.lab import PATIENCE_S, ends, follow, host, projected, run_code, say

pytestmark = pytest.mark.anyio
PAY = DynamicToolSpec(
    "pay",
    "shop",
    "Pay an order.",
    {
        "type": "object",
        "properties": {"order": {"type": "string"}},
        "required": ["order"],
        "additionalProperties": False,
    },
)
CALL = """
from shop import pay
try:
    said = await pay(order='A7')
except Exception as error:
    said = str(error)
said
"""


def text(said: str, *, success: bool = True) -> DynamicToolCallResult:
    return DynamicToolCallResult(success, ({"type": "input_text", "text": said},))


def requested(envelope: Envelope) -> bool:
    return envelope.event == "tool_call.requested"


async def test_program_waits_for_the_client_who_answers_once(tmp_path: Path) -> None:
    async with host(tmp_path / "a.db", run_code) as cloister:
        threads = cloister.threads
        thread = await threads.create(ThreadParams(dynamic_tools=(PAY,)))
        results: list[Any] = []
        for result in (text("paid"), text("no money", success=False), DynamicToolCallResult(True)):
            before = (await threads.get(thread.id)).latest_seq
            turn_id = await say(threads, thread.id, CALL)
            asked = (await follow(threads, thread.id, requested, before))[-1]
            assert {key: asked.payload[key] for key in ("thread_id", "turn_id", "namespace", "tool", "arguments")} == {
                "thread_id": thread.id,
                "turn_id": turn_id,
                "namespace": "shop",
                "tool": "pay",
                "arguments": {"order": "A7"},
            }
            call_id = asked.payload["call_id"]
            detail = await threads.get(thread.id)
            assert [one.call_id for one in detail.pending_tool_calls] == [call_id]
            await projected(threads, thread.id)
            with pytest.raises(ToolCallNotFound):
                await threads.answer(thread.id, "trn_other", call_id, result)
            await threads.answer(thread.id, turn_id, call_id, result)
            with pytest.raises(ToolCallNotFound):
                await threads.answer(thread.id, turn_id, call_id, text("again"))
            await follow(threads, thread.id, ends(turn_id))
            results.append((await threads.get_turn(thread.id, turn_id)).answer["result"])
        assert results[0] == "paid"
        assert "no money" in results[1]
        assert results[2] is None
        calls = [item for item in (await threads.get(thread.id)).items if item.kind is ItemKind.TOOL_CALL]
        assert [item.status for item in calls] == [Status.COMPLETED, Status.FAILED, Status.COMPLETED]
        # What does not fit never comes to the client, and outside of a turn nobody asks it.
        bad = await say(threads, thread.id, CALL.replace("'A7'", "7"))
        seen = await follow(threads, thread.id, ends(bad), before)
        assert [one.turn_id for one in seen if requested(one)] == [turn_id]
        await projected(threads, thread.id)


async def test_call_that_another_host_asked_is_answered_here(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with host(path, run_code) as cloister:
        thread = await cloister.threads.create()
        _, turn = await cloister.threads.turn(thread.id, TurnParams(CALL, dynamic_tools=(PAY,)))
        asked = (await follow(cloister.threads, thread.id, requested))[-1]
    async with host(path, run_code) as cloister:
        threads = cloister.threads
        [pending] = (await threads.get(thread.id)).pending_tool_calls
        assert pending.call_id == asked.payload["call_id"]
        await threads.answer(thread.id, turn.id, pending.call_id, text("paid later"))
        seen = await follow(threads, thread.id, ends(turn.id))
        assert (await threads.get_turn(thread.id, turn.id)).answer == {"status": "completed", "result": "paid later"}
        names = [one.event for one in seen]
        assert names.count("tool_call.requested") == names.count("tool_call.resolved") == 1
        await projected(threads, thread.id)


async def test_end_of_the_turn_ends_its_calls(tmp_path: Path) -> None:
    async with host(tmp_path / "a.db", run_code) as cloister:
        threads = cloister.threads
        thread = await threads.create(ThreadParams(dynamic_tools=(PAY,)))
        turn_id = await say(threads, thread.id, CALL)
        call_id = (await follow(threads, thread.id, requested))[-1].payload["call_id"]
        async with asyncio.timeout(PATIENCE_S):
            ended, answered = await asyncio.gather(
                threads.interrupt(thread.id, turn_id),
                threads.answer(thread.id, turn_id, call_id, text("paid")),
                return_exceptions=True,
            )
        assert not isinstance(ended, BaseException)
        assert ended.status is Status.INTERRUPTED
        names = [one.event async for one in threads.replay(thread_id=thread.id)]
        over = [name for name in names if name.startswith("tool_call.")]
        # Whoever came first: there is one end of it, and the client was told the truth.
        assert over == ["tool_call.requested", "tool_call.resolved" if answered is None else "tool_call.cancelled"]
        assert (await threads.get(thread.id)).pending_tool_calls == ()
        await projected(threads, thread.id)


async def test_program_of_an_interrupted_turn_is_stopped_and_not_told_that_its_call_is_over(tmp_path: Path) -> None:
    noted: list[str] = []

    @tool(idempotent=False)
    async def note(said: str) -> None:
        noted.append(said)

    async with host(tmp_path / "a.db", run_code, tools=[note]) as cloister:
        threads = cloister.threads
        thread = await threads.create(ThreadParams(dynamic_tools=(PAY,)))
        for number in range(10):
            before = (await threads.get(thread.id)).latest_seq
            turn_id = await say(threads, thread.id, f"{CALL}\nawait note(said)\nstore('went on', {number})")
            await follow(threads, thread.id, requested, before)
            assert (await threads.interrupt(thread.id, turn_id)).status is Status.INTERRUPTED
        assert noted == []
        assert await cloister.session(thread.session_id).values.all() == {}
        names = [one.event async for one in threads.replay(thread_id=thread.id)]
        assert [names.count(name) for name in ("cell.terminated", "tool_call.cancelled")] == [10, 10]
        await projected(threads, thread.id)


class Late(SystemClock):
    """The time that a client has is over when `over` is set."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        await (self.over.wait() if 250 < seconds <= 300 else super().sleep(seconds))


async def test_client_that_does_not_answer_in_time_is_told_so_and_so_is_the_program(tmp_path: Path) -> None:
    clock = Late()
    async with host(tmp_path / "a.db", run_code, clock=clock) as cloister:
        threads = cloister.threads
        thread = await threads.create(ThreadParams(dynamic_tools=(PAY,)))
        turn_id = await say(threads, thread.id, CALL)
        call_id = (await follow(threads, thread.id, requested))[-1].payload["call_id"]
        clock.over.set()
        seen = await follow(threads, thread.id, ends(turn_id))
        assert [one.event for one in seen if one.event.startswith("tool_call.")] == [
            "tool_call.requested",
            "tool_call.timeout",
        ]
        assert "did not answer" in (await threads.get_turn(thread.id, turn_id)).answer["result"]
        [item] = [item for item in (await threads.get(thread.id)).items if item.kind is ItemKind.TOOL_CALL]
        assert item.status is Status.FAILED
        with pytest.raises(ToolCallNotFound):
            await threads.answer(thread.id, turn_id, call_id, text("late"))
        # What the client is told is written down before the program sees it.
        told = next(one for one in seen if one.event == "tool_call.timeout")
        settled = next(one for one in seen if one.event == "call.settled")
        assert (told.seq or 0) < (settled.seq or 0)


async def test_client_is_asked_so_many_things_at_once_and_no_more(tmp_path: Path) -> None:
    code = f"""
import asyncio
from shop import pay
async def one(n):
    try:
        return await pay(order=str(n))
    except Exception as error:
        return 'refused: ' + str(error)
said = await asyncio.gather(*[one(n) for n in range({MAX_PENDING + 2})])
said
"""
    limits = SessionLimits(max_external_calls=MAX_PENDING + 2)
    async with host(tmp_path / "a.db", run_code, limits=limits) as cloister:
        threads = cloister.threads
        thread = await threads.create(ThreadParams(dynamic_tools=(PAY,)))
        turn_id = await say(threads, thread.id, code)
        asked = 0

        def all_asked(envelope: Envelope) -> bool:
            nonlocal asked
            asked += requested(envelope)
            return asked == MAX_PENDING

        await follow(threads, thread.id, all_asked)
        calls = (await threads.get(thread.id)).pending_tool_calls
        assert len(calls) == MAX_PENDING
        answered: set[str] = set()
        while len(answered) < MAX_PENDING + 2:
            for call in (await threads.get(thread.id)).pending_tool_calls:
                # Never more than that, also while they are answered one by one.
                assert len((await threads.get(thread.id)).pending_tool_calls) <= MAX_PENDING
                await threads.answer(thread.id, turn_id, call.call_id, text("paid"))
                answered.add(call.call_id)
        await follow(threads, thread.id, ends(turn_id))
        assert (await threads.get_turn(thread.id, turn_id)).answer["result"] == ["paid"] * (MAX_PENDING + 2)
