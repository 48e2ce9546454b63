# pyright: reportPrivateUsage=false
"""What the kill test has found, one small case each. Those that are marked are not mended yet."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, Event, Session, SessionExists, tool
from cloister.core.errors import StoreUnavailable
from cloister.ports.clock import SystemClock
from cloister.ports.rows import Batch, Fence, Put, SessionRow
from cloister.stores.sqlite import SqliteStore
from tests.crash.parent import Course, Nursery, Trial, kill_at_points
from tests.crash.wreck import Fragile, wreck

pytestmark = pytest.mark.anyio

CASES = [
    pytest.param(
        "sequence-python",
        ["after:intent:3", "after:read:1"],
        id="the variables of a cell that was recovered and has ended are kept",
    ),
    pytest.param(
        "asking-python",
        ["after:answer:3"],
        id="a denied question is not asked again",
    ),
    pytest.param(
        "asking-python",
        ["after:settlement:1"],
        id="an allowed call that was made and settled is not told to be denied",
    ),
    pytest.param(
        "asking-python",
        ["after:tool:1"],
        id="an allowed call that may have been made is not told to be denied",
    ),
    pytest.param(
        "asking-python",
        ["committed:answer:2"],
        id="an allowed call that was not made yet is made",
    ),
    pytest.param(
        "asking-python",
        ["stall:answer:1"],
        id="a decision that was accepted is kept",
    ),
    pytest.param(
        "asking-python",
        ["stall:question:1"],
        id="a question that an observer was told of is kept",
    ),
    pytest.param(
        "asking-python",
        ["committed:question:1", "committed:answer:1"],
        id="whoever can see a question or its end in the store has it in the events",
    ),
    pytest.param(
        "asking-python",
        ["before:asked:1"],
        id="a question that was written is the one that its cell waits for",
    ),
    pytest.param(
        "asking-python",
        ["after:tool:3"],
        id="a question beside calls under way is the one that its cell waits for",
    ),
]


@pytest.mark.parametrize(("plan", "points"), CASES)
@pytest.mark.timeout(600)
def test_killed_there(
    nursery: Nursery, course: Callable[[str], Course], tmp_path: Path, plan: str, points: list[str]
) -> None:
    kill_at_points(Trial(nursery, plan, tmp_path / "trial"), course(plan), points)


# -- in one process ---------------------------------------------------------------------------------------------------


class Till:
    """`pay` and `ask` take note of what they are given; some `pay` wait until `open` is set."""

    def __init__(self, *waits: int) -> None:
        self.paid: list[int] = []
        self.arrived = asyncio.Event()
        self.open = asyncio.Event()
        self._waits = waits

    def cloister(self, store: Fragile | Path, **more: Any) -> Cloister:
        @tool(side_effect="write", idempotent=False)
        async def pay(n: int) -> str:
            """Once."""
            self.paid.append(n)
            if n in self._waits:
                self.arrived.set()
                await self.open.wait()
            return f"paid {n}"

        @tool(side_effect="write", idempotent=False, approval_policy="manual")
        async def ask(n: int) -> str:
            """Once, if a person says so."""
            self.paid.append(n)
            return f"paid {n}"

        return Cloister(tools=[pay, ask], store=store if isinstance(store, Fragile) else Fragile(store), **more)


async def _end_all(session: Session) -> list[Any]:
    return [await session.wait(cell.id) for cell in await session.cells()]


async def test_a_cell_that_was_terminated_does_not_go_on_after_a_crash(tmp_path: Path) -> None:
    store, held = Fragile(tmp_path / "s.db"), asyncio.Event()
    async with Till().cloister(store) as cloister:
        session = await cloister.open_session("s")
        seen = await session.exec("await ask(1)", yield_ms=20_000)
        store.hold = lambda kind: held if kind in ("ended", "read", "answer") else None
        terminating = asyncio.ensure_future(session.terminate(seen.cell_id))
        done, _ = await asyncio.wait([terminating], timeout=0.5)
        # Either it is not told yet, or it is safe.
        wrecked = await wreck(store.path, tmp_path / "w.db")
        held.set()
        await terminating
    async with Till().cloister(wrecked) as cloister:
        outcomes = [cell.outcome for cell in (await cloister.recovery_report()).cells]
    assert not done or outcomes == ["ended"]


async def test_a_cell_that_could_not_be_taken_in_does_not_run(tmp_path: Path) -> None:
    till, store = Till(), Fragile(tmp_path / "s.db")
    async with till.cloister(store) as cloister:
        session = await cloister.open_session("s")
        store.failing = lambda kind: kind == "began"
        with pytest.raises(StoreUnavailable):
            await session.exec("await pay(1)", yield_ms=0)
        store.failing = lambda _kind: False
        await _end_all(session)
    # Whoever was told that it failed will try again.
    assert till.paid == []


@pytest.mark.parametrize("way", ["run", "exec"])
async def test_an_end_that_could_not_be_written_is_not_told_as_completed(tmp_path: Path, way: str) -> None:
    store = Fragile(tmp_path / "s.db")
    async with Till().cloister(store) as cloister:
        session = await cloister.open_session("s")
        failures = iter([True])
        store.failing = lambda kind: kind == "ended" and next(failures, False)
        code = "x = 1\nstore('k', 1)\n'result'"
        seen = await (session.exec(code) if way == "exec" else session.run(code))
        assert str(seen.status) == "interrupted"
        # Whatever was handed over before is written when this is.
        await session.values.set("later", 1)
        [row] = await store.cells("s")
        assert row.state == "interrupted"
        # What the host sees now is what it will see after a crash.
        assert await session.values.all() == {row.key: row.value for row in await store.values("s")}


async def test_cells_run_in_the_order_in_which_they_came_after_two_crashes(tmp_path: Path) -> None:
    async with Till().cloister(tmp_path / "a.db") as cloister:
        session = await cloister.open_session("s")
        await session.exec("r = [1]\nawait ask(1)", yield_ms=20_000)
        await session.exec("r.append(2)", yield_ms=0)
        await wreck(tmp_path / "a.db", tmp_path / "b.db")
    async with Till().cloister(tmp_path / "b.db") as cloister:
        session = await cloister.open_session("s")
        await session.exec("r.append(3)", yield_ms=0)
        await wreck(tmp_path / "b.db", tmp_path / "c.db")
    async with Till().cloister(tmp_path / "c.db") as cloister:
        session = await cloister.open_session("s")
        [question] = await cloister.approvals(state="pending")
        await cloister.decide(question.id, "allow")
        await _end_all(session)
        assert (await session.run("r")).result == [1, 2, 3]


async def test_a_call_that_is_settled_is_not_told_as_not_made_when_its_suspension_was_lost(tmp_path: Path) -> None:
    till, store = Till(2), Fragile(tmp_path / "s.db")
    code = "async def safe(n):\n try:\n  return await pay(n)\n except RuntimeError as e:\n  return str(e)"
    async with till.cloister(store) as cloister:
        session = await cloister.open_session("s")
        store.failing = lambda kind: kind == "suspended"
        await session.exec(code + "\n[await safe(1), await safe(2)]", yield_ms=0)
        await till.arrived.wait()
        store.failing = lambda _kind: False
        await wreck(store.path, tmp_path / "w.db")
    async with till.cloister(tmp_path / "w.db") as cloister:
        [seen] = await _end_all(await cloister.open_session("s"))
        assert till.paid == [1, 2]
        assert seen.result[0] == "paid 1"
        assert seen.result[1].startswith("OUTCOME_UNKNOWN")


async def test_a_call_of_which_nobody_knows_is_told_as_the_one_that_was_asked_for(tmp_path: Path) -> None:
    till, store = Till(1), Fragile(tmp_path / "s.db")
    async with till.cloister(store) as cloister:
        session = await cloister.open_session("s")
        await session.exec("await pay(1)", yield_ms=0)
        await till.arrived.wait()
        await cloister._events.flush()
        await wreck(store.path, tmp_path / "w.db")
    async with till.cloister(tmp_path / "w.db") as cloister:
        [seen] = await _end_all(await cloister.open_session("s"))
        await cloister._events.flush()
        ledger: Any = cloister._ledger
        rows = [row for row in await ledger.store.events(session_id="s") if row.kind.startswith("call.")]
    assert [row.kind for row in rows] == ["call.requested", "call.unknown"]
    assert {row.doc["call_id"] for row in rows} == {seen.external_calls[0].id}
    assert rows[1].doc["record"]["error"]["code"] == "OUTCOME_UNKNOWN"


async def test_a_host_that_leaves_does_not_log_ends_that_did_not_happen(tmp_path: Path) -> None:
    async with Till().cloister(tmp_path / "s.db") as cloister:
        session = await cloister.open_session("s")
        await session.exec("await ask(1)", yield_ms=20_000)
    async with SqliteStore(tmp_path / "s.db", clock=SystemClock()) as store:
        assert [row.state for row in await store.approvals()] == ["pending"]
        kinds = {event.kind for event in await store.events()}
    assert not kinds & {"approval.cancelled", "call.settled", "cell.completed"}


async def test_a_value_that_could_not_be_set_is_not_there(tmp_path: Path) -> None:
    store = Fragile(tmp_path / "s.db")
    async with Till().cloister(store) as cloister:
        session = await cloister.open_session("s")
        await session.values.set("k", 1)
        store.failing = lambda kind: kind == "values"
        with pytest.raises(StoreUnavailable):
            await session.values.set("k", 2)
        assert await session.values.get("k") == 1


async def test_values_here_and_in_the_store_agree_on_who_was_last(tmp_path: Path) -> None:
    store = Fragile(tmp_path / "s.db")
    async with Till().cloister(store) as cloister:
        session = await cloister.open_session("s")

        async def set_while_the_end_is_written() -> None:
            await store.ending.wait()
            await session.values.set("k", "host")

        await asyncio.gather(session.exec("store('k', 'cell')"), set_while_the_end_is_written())
        assert [await session.values.get("k")] == [row.value for row in await store.values("s")]


async def test_a_session_that_two_hosts_open_at_once_is_whole_for_the_one_that_got_it(tmp_path: Path) -> None:
    looked, go = asyncio.Event(), asyncio.Event()

    class Late(Fragile):
        async def session(self, session_id: str) -> SessionRow | None:
            found = await super().session(session_id)
            looked.set()
            await go.wait()
            return found

    mine, late = Fragile(tmp_path / "s.db"), Late(tmp_path / "s.db")
    async with Till().cloister(mine) as one, Till().cloister(late) as other:
        second = asyncio.ensure_future(other.open_session("s"))
        await looked.wait()
        await (await one.open_session("s")).run("x = 42")
        before = await mine.session("s")
        go.set()
        with pytest.raises(SessionExists):
            await second
        assert await mine.session("s") == before


async def test_a_session_that_two_hosts_make_at_once_is_waited_for(tmp_path: Path) -> None:
    looked, go = asyncio.Event(), asyncio.Event()

    class Late(Fragile):
        async def session(self, session_id: str) -> SessionRow | None:
            found = await super().session(session_id)
            looked.set()
            await go.wait()
            return found

    mine, late = Fragile(tmp_path / "s.db"), Late(tmp_path / "s.db")
    async with Till().cloister(mine) as one, Till().cloister(late) as other:
        second = asyncio.ensure_future(other.open_session("s", wait_ms=60_000))
        await looked.wait()
        async with await one.open_session("s") as session:
            await session.run("x = 42")
            go.set()
            done, _ = await asyncio.wait([second], timeout=0.5)
            assert not done
        assert (await (await second).run("x")).result == 42


async def test_events_of_a_session_are_heard_though_another_is_lost(tmp_path: Path) -> None:
    heard: list[Event] = []
    async with Till().cloister(tmp_path / "s.db", on_event=heard.append) as cloister:
        lost, own = await cloister.open_session("lost"), await cloister.open_session("own")
        ledger: Any = cloister._ledger
        ledger.fences.hold(Fence("lost", 0))
        await asyncio.gather(lost.exec("1", yield_ms=0), own.exec("1", yield_ms=0), return_exceptions=True)
        await _end_all(own)
        await cloister._events.flush()
        logged = [event.seq for event in await ledger.store.events(session_id="own")]
        assert [event.seq for event in heard if event.session_id == "own"] == logged


async def test_events_of_several_sessions_are_heard_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    heard: list[int] = []

    def hear(event: Event) -> None:
        heard.append(event.seq)

    async with Till().cloister(tmp_path / "s.db", on_event=hear) as cloister:
        await cloister.open_session("a")
        await cloister.open_session("b")
        for name in "abab":
            cloister._events.emit("test.happened", name, {})
        await cloister._events.flush()
    assert heard == sorted(heard)


async def test_whatever_a_session_writes_it_writes_with_its_fence(tmp_path: Path) -> None:
    unfenced: list[Batch] = []

    class Watching(Fragile):
        def write(self, batch: Batch) -> Any:
            if batch.fence is None and not isinstance(batch.writes[0], Put):
                unfenced.append(batch)
            return super().write(batch)

    till = Till(1)
    async with till.cloister(Watching(tmp_path / "s.db")) as cloister:
        session = await cloister.open_session("s")
        await session.exec("await pay(1)", yield_ms=0)
        await till.arrived.wait()
        await session.close()
        await cloister._events.flush()
    assert unfenced == []


async def test_the_question_of_a_direct_call_does_not_stay_open_for_ever(tmp_path: Path) -> None:
    store = Fragile(tmp_path / "s.db")
    async with Till().cloister(store) as cloister:
        await (await cloister.open_session("s")).call("ask", {"n": 1})
        await cloister._events.flush()
        await wreck(store.path, tmp_path / "w.db")
    till = Till()
    async with till.cloister(tmp_path / "w.db") as cloister:
        session = await cloister.open_session("s")
        for question in await cloister.approvals(state="pending"):
            await cloister.decide(question.id, "allow")
            await session.resume(question.cell_id)
            # If it is still open, it can still be allowed.
            assert till.paid == [1]


async def test_a_run_that_waited_for_approval_is_resumed_by_the_next_host(tmp_path: Path) -> None:
    store = Fragile(tmp_path / "s.db")
    async with Till().cloister(store) as cloister:
        waiting = await (await cloister.open_session("s")).run("await ask(1)")
        await cloister._events.flush()
        await wreck(store.path, tmp_path / "w.db")
    async with Till().cloister(tmp_path / "w.db") as cloister:
        session = await cloister.open_session("s")
        await cloister.decide(waiting.approvals[0].id, "allow")
        assert (await session.resume(waiting.cell_id)).result == "paid 1"


async def test_a_store_without_any_blob_is_sound(tmp_path: Path) -> None:
    async with Till().cloister(tmp_path / "s.db") as cloister:
        await cloister.open_session("s")
        ledger: Any = cloister._ledger
        assert list(await ledger.store.check()) == []
