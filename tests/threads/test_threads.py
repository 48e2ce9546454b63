"""Threads and their turns, on a real store and real sessions, with drivers that ask no model."""

import asyncio
from pathlib import Path

import pytest

from cloister import Cloister
from cloister.core.errors import (
    CloisterError,
    InvalidInput,
    OperationConflict,
    SessionNotFound,
    ThreadNotFound,
    TurnNotFound,
)
from cloister.core.item import AgentMessage, ContextCompaction, ItemKind, ended
from cloister.core.thread import ThreadParams
from cloister.core.turn import Receipt, Status, SteerParams, TurnBudget, TurnParams, TurnUsage
from cloister.stores.memory_data import MemoryData
from cloister.stores.memory_store import MemoryStore
from cloister.threads import OpenTurn, TurnEnd
from tests.threads.lab import PATIENCE_S, Plain, echo, ends, follow, host, inputs_of, projected, run_code, say

pytestmark = pytest.mark.anyio


async def test_turn_is_told_event_by_event_and_its_detail_is_made_of_them_alone() -> None:
    store = MemoryStore(data=MemoryData())
    cloister = Cloister(store=store)
    cloister.threads.drive("code", Plain(echo))
    async with cloister:
        threads = cloister.threads
        thread = await threads.create(ThreadParams(title="Straße", labels={"env": "prod"}), tenant="acme")
        async with asyncio.timeout(PATIENCE_S), threads.events(thread_id=thread.id) as events:
            # From here on it hears what happens as it happens.
            seen = [await anext(events)]
            turn_id = await say(threads, thread.id, "hello")
            async for envelope in events:
                seen.append(envelope)
                if ends(turn_id)(envelope):
                    break
        durable = [one for one in seen if one.seq is not None]
        assert [one.event for one in durable] == [
            "thread.started",
            "turn.started",
            "item.completed",
            "item.started",
            "item.completed",
            "turn.completed",
        ]
        assert [one.previous_seq for one in durable] == [0, *(one.seq for one in durable[:-1])]
        [delta] = [one for one in seen if one.seq is None]
        assert (delta.event, delta.payload, delta.item_id) == (
            "item.delta",
            {"text": "hello", "offset": 0},
            durable[3].item_id,
        )
        assert durable[3].seq is not None
        assert seen.index(delta) > seen.index(durable[3])

        detail = await threads.get(thread.id, tenant="acme")
        [turn] = detail.turns
        assert (turn.status, turn.usage.tokens, turn.number) == (Status.COMPLETED, 5, 1)
        assert [item.kind for item in detail.items] == [ItemKind.USER_MESSAGE, ItemKind.AGENT_MESSAGE]
        assert detail.latest_seq == durable[-1].seq
        await projected(threads, thread.id)

        changed = await threads.patch(thread.id, {"title": None, "archived": True, "labels": {"env": "test"}})
        assert (changed.title, changed.archived) == (None, True)
        assert [one.id for one in (await threads.list(search="STRASSE")).threads] == []
        assert [one.id for one in (await threads.list(labels={"env": "test"}, archived=True)).threads] == [thread.id]
        assert (await threads.list(tenant="other")).threads == ()
        await projected(threads, thread.id)

        for refused in (threads.get(thread.id, tenant="other"), threads.get("thr_nobody")):
            with pytest.raises(ThreadNotFound):
                await refused
        with pytest.raises(SessionNotFound):
            await threads.create(ThreadParams(session_id=thread.session_id), tenant="other")
        second = await threads.create(ThreadParams(session_id=thread.session_id), tenant="acme")
        assert second.session_id == thread.session_id
    with pytest.raises(CloisterError, match="open"):
        await threads.turn(thread.id, TurnParams("late"))


async def test_same_operation_is_the_same_turn_and_turns_of_a_thread_follow_one_another(tmp_path: Path) -> None:
    gate = asyncio.Event()
    at_work: list[int] = []

    async def patient(turn: OpenTurn) -> TurnEnd:
        at_work.append(turn.turn.number)
        await gate.wait()
        return TurnEnd()

    async with host(tmp_path / "a.db", patient) as cloister:
        threads = cloister.threads
        thread = await threads.create()
        asked = TurnParams("one", operation_key="k")
        (_, first), (_, again) = await asyncio.gather(threads.turn(thread.id, asked), threads.turn(thread.id, asked))
        assert first.id == again.id
        with pytest.raises(OperationConflict, match="'k'"):
            await threads.turn(thread.id, TurnParams("two", operation_key="k"))
        second, third = await say(threads, thread.id, "two"), await say(threads, thread.id, "three")
        states = [turn.status for turn in (await threads.get(thread.id)).turns]
        assert states == [Status.IN_PROGRESS, Status.QUEUED, Status.QUEUED]
        # One that has not begun is cancelled, and nothing of it is done.
        assert (await threads.interrupt(thread.id, second)).status is Status.CANCELLED
        gate.set()
        await follow(threads, thread.id, ends(third))
        assert at_work == [1, 3]
        _, later = await threads.turn(thread.id, asked)
        assert (later.id, later.status) == (first.id, Status.COMPLETED)
        await projected(threads, thread.id)
        with pytest.raises(InvalidInput, match="environment"):
            await threads.turn(thread.id, TurnParams("x", environment_id="attic"))
        with pytest.raises(TurnNotFound):
            await threads.interrupt(thread.id, "trn_nobody")


async def test_what_is_said_in_the_middle_is_delivered_once_or_dropped_with_its_turn(tmp_path: Path) -> None:
    go = asyncio.Event()
    heard: list[list[str]] = []

    async def listening(turn: OpenTurn) -> TurnEnd:
        await turn.more_input()
        await turn.take_inputs()
        heard.append(inputs_of(turn))
        await go.wait()
        return TurnEnd()

    async with host(tmp_path / "a.db", listening) as cloister:
        threads = cloister.threads
        thread = await threads.create()
        turn_id = await say(threads, thread.id, "begin")
        async with threads.events(thread_id=thread.id) as events:
            receipts = [await threads.steer(thread.id, turn_id, SteerParams("left", "mine")) for _ in range(2)]
            assert receipts[0].input_id == receipts[1].input_id
            async with asyncio.timeout(PATIENCE_S):
                async for envelope in events:
                    if envelope.event == "item.completed" and envelope.payload["item"]["detail"].get("input_id"):
                        break
        assert (await threads.steer(thread.id, turn_id, SteerParams("left", "mine"))).receipt is Receipt.DELIVERED
        late = await threads.steer(thread.id, turn_id, SteerParams("right"))
        assert late.receipt is Receipt.QUEUED
        go.set()
        seen = await follow(threads, thread.id, ends(turn_id))
        assert heard == [["begin", "left"]]
        dropped = [one.payload["input_id"] for one in seen if one.event == "turn.steer_dropped"]
        assert dropped == [late.input_id]
        after = await threads.steer(thread.id, turn_id, SteerParams("too late", "x"))
        assert after.receipt is Receipt.DROPPED
        assert (await threads.steer(thread.id, turn_id, SteerParams("too late", "x"))).input_id == after.input_id
        with pytest.raises(TurnNotFound):
            await threads.steer(thread.id, "trn_nobody", SteerParams("who"))
        # What nobody said waits for whichever turn comes next.
        await threads.notify(thread.id, "a cell has ended", client_id="cel_1")
        second = await say(threads, thread.id, "again")
        await follow(threads, thread.id, ends(second))
        kinds = [item.kind for item in (await threads.get(thread.id)).items if item.turn_id == second]
        assert kinds == [ItemKind.USER_MESSAGE, ItemKind.NOTIFICATION]
        await projected(threads, thread.id)


async def test_interrupt_stops_the_program_and_leaves_one_end(tmp_path: Path) -> None:
    program = "store('kept', 1)\nfor i in range(10**9):\n    if i % 1000 == 0: yield_control()"
    async with host(tmp_path / "a.db", run_code) as cloister:
        threads = cloister.threads
        thread = await threads.create()
        turn_id = await say(threads, thread.id, program)
        await follow(threads, thread.id, lambda one: one.event == "cell.started")
        first, second = await asyncio.gather(
            threads.interrupt(thread.id, turn_id), threads.interrupt(thread.id, turn_id)
        )
        assert first.status is second.status is Status.INTERRUPTED
        assert first.error is not None
        seen = [one async for one in threads.replay(thread_id=thread.id)]
        names = [one.event for one in seen]
        assert names.count("turn.completed") == 1
        assert names.index("turn.interrupt_requested") < names.index("cell.terminated") < names.index("item.failed")
        cell = next(one for one in seen if one.event == "cell.started")
        assert (cell.turn_id, cell.item_id) == (turn_id, (await threads.get(thread.id)).items[1].id)
        assert (await threads.interrupt(thread.id, turn_id)).status is Status.INTERRUPTED
        # The session goes on.
        again = await say(threads, thread.id, "6 * 7")
        await follow(threads, thread.id, ends(again))
        assert (await threads.get_turn(thread.id, again)).answer == {"status": "completed", "result": 42}
        await projected(threads, thread.id)


async def test_turn_that_goes_wrong_fails_and_says_why(tmp_path: Path) -> None:
    async def greedy(turn: OpenTurn) -> TurnEnd:
        while True:
            turn.check_budget()
            await turn.settle("d" * 64, {}, TurnUsage(requests=1, input_tokens=60))

    async def broken(turn: OpenTurn) -> TurnEnd:
        raise RuntimeError("secret of the host")

    async def refusing(turn: OpenTurn) -> TurnEnd:
        raise InvalidInput("no such model", hint="use another")

    async def endless(turn: OpenTurn) -> TurnEnd:
        await asyncio.Event().wait()
        return TurnEnd()

    runs = {"greedy": greedy, "broken": broken, "refusing": refusing, "endless": endless}

    async def chosen(turn: OpenTurn) -> TurnEnd:
        return await runs[str(turn.turn.input[0]["text"])](turn)

    async with host(tmp_path / "a.db", chosen) as cloister:
        threads = cloister.threads
        thread = await threads.create()
        for name, budget, code in (
            ("greedy", TurnBudget(iterations=3), "BUDGET_SPENT"),
            ("greedy", TurnBudget(tokens=100), "BUDGET_SPENT"),
            ("endless", TurnBudget(wall_ms=20), "BUDGET_SPENT"),
            ("broken", TurnBudget(), "INTERNAL"),
            ("refusing", TurnBudget(), "INVALID_INPUT"),
        ):
            turn_id = await say(threads, thread.id, name, budget=budget)
            await follow(threads, thread.id, ends(turn_id))
            turn = await threads.get_turn(thread.id, turn_id)
            assert turn.status is Status.FAILED
            assert turn.error is not None
            assert turn.error.code == code, name
            assert "secret" not in turn.error.message
        usages = [turn.usage.requests for turn in (await threads.get(thread.id)).turns]
        assert usages[:2] == [3, 2]
        await projected(threads, thread.id)


async def test_turn_that_was_left_in_the_middle_goes_on_and_pays_nothing_twice(tmp_path: Path) -> None:
    paid: list[str] = []
    waiting, go = asyncio.Event(), asyncio.Event()

    async def twice(turn: OpenTurn) -> TurnEnd:
        for number in (1, 2):
            if len(turn.answers) < number:
                paid.append(f"{number} resumed={turn.resumed}")
                said = turn.item(AgentMessage(f"answer {number}"), Status.COMPLETED)
                await turn.settle(f"{number:064}", {"n": number}, TurnUsage(requests=1, output_tokens=10), [said])
            if number == 1 and not go.is_set():
                waiting.set()
                await asyncio.Event().wait()
        return TurnEnd(finished=True, answer=[one.answer["n"] for one in turn.answers])

    path = tmp_path / "a.db"
    async with host(path, twice) as cloister:
        thread = await cloister.threads.create()
        turn_id = await say(cloister.threads, thread.id, "pay")
        queued = await say(cloister.threads, thread.id, "then this")
        await waiting.wait()
    go.set()
    # A host without its driver leaves it where it is.
    async with Cloister(store=f"sqlite://{path}") as other:
        assert (await other.threads.get_turn(thread.id, turn_id)).status is Status.IN_PROGRESS
    async with host(path, twice) as cloister:
        threads = cloister.threads
        await follow(threads, thread.id, ends(queued))
        turn = await threads.get_turn(thread.id, turn_id)
        assert (turn.status, turn.answer, turn.usage.output_tokens) == (Status.COMPLETED, [1, 2], 20)
        assert paid[:2] == ["1 resumed=False", "2 resumed=True"]
        events = [one.event async for one in threads.replay(thread_id=thread.id)]
        assert events.count("turn.completed") == 2
        await projected(threads, thread.id)


async def test_fork_has_what_was_said_and_what_programs_had_at_the_end_of_that_turn(tmp_path: Path) -> None:
    async with host(tmp_path / "a.db", run_code) as cloister:
        threads = cloister.threads
        thread = await threads.create(ThreadParams(title="first"), tenant="acme")
        turns: list[str] = []
        for code in ("x = 1\nstore('v', 1)", "x = 2\nstore('v', 2)", "x"):
            turns.append(await say(threads, thread.id, code))
            await follow(threads, thread.id, ends(turns[-1]))
        fork = await threads.fork(thread.id, turns[0])
        assert fork.forked_from is not None
        assert (fork.forked_from.thread_id, fork.forked_from.turn_id) == (thread.id, turns[0])
        assert (fork.tenant, fork.title) == ("acme", "first")
        detail = await threads.get(fork.id, tenant="acme")
        assert [item.kind for item in detail.items] == [ItemKind.USER_MESSAGE, ItemKind.CELL]
        await projected(threads, fork.id)
        asked = await say(threads, fork.id, "[x, load('v')]")
        await follow(threads, fork.id, ends(asked))
        assert (await threads.get_turn(fork.id, asked)).answer == {"status": "completed", "result": [1, 1]}
        assert (await threads.get_turn(thread.id, turns[2])).answer["result"] == 2
        await projected(threads, fork.id)
        with pytest.raises(TurnNotFound):
            await threads.fork(thread.id, "trn_nobody")


async def test_compaction_changes_what_a_model_is_told_and_not_the_log(tmp_path: Path) -> None:
    told: list[list[str]] = []

    async def listening(turn: OpenTurn) -> TurnEnd:
        told.append([str(item.kind) for item in await turn.history()])
        return await echo(turn)

    async with host(tmp_path / "a.db", listening) as cloister:
        threads = cloister.threads
        thread = await threads.create()
        for text in ("one", "two"):
            await follow(threads, thread.id, ends(await say(threads, thread.id, text)))
        items = (await threads.get(thread.id)).items
        made = await threads.compact(thread.id, "they counted", items[1].id)
        assert isinstance(made.detail, ContextCompaction)
        await follow(threads, thread.id, ends(await say(threads, thread.id, "three")))
        assert told[-1] == ["context_compaction", "user_message", "agent_message", "user_message"]
        assert len((await threads.get(thread.id)).items) == 7
        await projected(threads, thread.id)
        with pytest.raises(InvalidInput, match="itm_nobody"):
            await threads.compact(thread.id, "x", "itm_nobody")


async def test_what_a_cell_tells_comes_before_the_end_of_what_it_was_for(tmp_path: Path) -> None:
    async with host(tmp_path / "s.db", run_code, workers=2, type_check="off") as cloister:
        threads = cloister.threads
        thread = await threads.create()
        for number in range(8):
            # Told up to its last moment.
            turn_id = await say(threads, thread.id, "for n in range(3):\n    notify(n)" if number % 2 else "notify(1)")
            await follow(threads, thread.id, ends(turn_id))
        told = [one async for one in threads.replay(thread_id=thread.id) if one.turn_id is not None]
        for turn_id in {one.turn_id for one in told}:
            names = [one.event for one in told if one.turn_id == turn_id]
            assert names[-3:] == ["cell.completed", "item.completed", "turn.completed"]
            assert names.count("cell.notified") in (1, 3)


async def test_item_that_is_begun_and_ended_at_once_is_told_piece_by_piece_in_its_order(tmp_path: Path) -> None:
    async def at_once(turn: OpenTurn) -> TurnEnd:
        item = turn.item(AgentMessage())
        turn.begin(item)
        turn.delta(item, "hel")
        turn.flush()
        turn.delta(item, "lo")
        turn.flush()
        done = ended(item, Status.COMPLETED, turn.now(), AgentMessage("hello"))
        await turn.settle("d" * 64, {}, TurnUsage(requests=1), [done])
        assert turn.items[-1] == done
        return TurnEnd()

    async with host(tmp_path / "s.db", at_once) as cloister:
        threads = cloister.threads
        thread = await threads.create()
        async with asyncio.timeout(PATIENCE_S), threads.events(thread_id=thread.id) as events:
            await anext(events)
            for _ in range(10):
                turn_id = await say(threads, thread.id, "x")
                seen = [await anext(events)]
                while not ends(turn_id)(seen[-1]):
                    seen.append(await anext(events))
                said = ["turn.started", "item.completed", "item.started", "item.delta", "item.delta", "item.completed"]
                assert [one.event for one in seen] == [*said, "turn.completed"]
                assert [one.payload for one in seen[3:5]] == [
                    {"text": "hel", "offset": 0},
                    {"text": "lo", "offset": 3},
                ]
        await projected(threads, thread.id)


async def test_item_that_had_begun_when_its_driver_broke_ends_with_the_turn(tmp_path: Path) -> None:
    async def broken(turn: OpenTurn) -> TurnEnd:
        turn.begin(turn.item(AgentMessage()))
        raise InvalidInput("that is not said")

    async with host(tmp_path / "s.db", broken) as cloister:
        threads = cloister.threads
        thread = await threads.create()
        turn_id = await say(threads, thread.id, "x")
        await follow(threads, thread.id, ends(turn_id))
        detail = await threads.get(thread.id)
        assert [one.status for one in detail.items] == [Status.COMPLETED, Status.FAILED]
        await projected(threads, thread.id)
