"""Threads that have nothing to do: they hold no session and no book, and lose nothing by it."""

import asyncio
import random
from pathlib import Path

import pytest

from cloister import Cloister, Session
from cloister.core.thread import ThreadParams
from cloister.core.turn import Status
from cloister.threads import OpenTurn, TurnEnd
from tests.threads.lab import PATIENCE_S, ends, follow, host, run_code, say

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloister.threads.resting.MOST_IDLE", 2)


async def _down_to(cloister: Cloister, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len(await cloister.list_sessions()) > count:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0)


async def test_sessions_of_threads_that_were_only_made_do_not_stay_open(tmp_path: Path) -> None:
    async with host(tmp_path / "s.db") as cloister:
        made = [await cloister.threads.create(ThreadParams(title=str(number))) for number in range(6)]
        await _down_to(cloister, 2)
        for thread in made:
            # Each of these opens the session once more, and lets it go again.
            assert (await cloister.threads.patch(thread.id, {"title": "seen"})).title == "seen"
            fork = await cloister.threads.fork(thread.id)
            assert fork.session_id != thread.session_id
        await _down_to(cloister, 2)


async def test_more_threads_than_sessions_stay_open_all_get_their_turns(tmp_path: Path) -> None:
    chance = random.Random(7)
    async with host(tmp_path / "s.db", run_code, workers=2, type_check="off") as cloister:
        threads = cloister.threads
        made = [await threads.create() for _ in range(8)]

        async def talk(thread_id: str) -> None:
            await say(threads, thread_id, "total = 0")
            for number in range(1, 5):
                # So that sessions are asked for at every moment of their closing.
                for _ in range(chance.randint(0, 40)):
                    await asyncio.sleep(0)
                turn_id = await say(threads, thread_id, f"total += {number}\ntotal")
                await follow(threads, thread_id, ends(turn_id))
                turn = await threads.get_turn(thread_id, turn_id)
                assert turn.status is Status.COMPLETED, turn
                # The session goes on where it was, as often as it was closed in between.
                assert turn.answer["result"] == sum(range(number + 1))

        await asyncio.gather(*(talk(thread.id) for thread in made))
        await _down_to(cloister, 2)


async def test_whoever_comes_while_a_session_is_being_closed_finds_it_open_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing, may_close, close = asyncio.Event(), asyncio.Event(), Session.close

    async def slowly(session: Session) -> None:
        closing.set()
        await may_close.wait()
        await close(session)

    async with host(tmp_path / "s.db", run_code, workers=2, type_check="off") as cloister:
        threads = cloister.threads
        monkeypatch.setattr(Session, "close", slowly)
        first = await threads.create()
        for _ in range(2):
            await threads.create()
        await closing.wait()
        saying = asyncio.create_task(say(threads, first.id, "1 + 1"))
        # Time enough to get hold of what is about to go.
        await asyncio.wait([saying], timeout=0.3)
        may_close.set()
        turn_id = await saying
        await follow(threads, first.id, ends(turn_id))
        turn = await threads.get_turn(first.id, turn_id)
        assert (turn.status, turn.answer) == (Status.COMPLETED, {"status": "completed", "result": 2})


async def test_session_with_a_cell_that_goes_on_is_not_closed(tmp_path: Path) -> None:
    async def leave_running(turn: OpenTurn) -> TurnEnd:
        seen = await turn.session.exec("store('begun', 1)\nwhile True:\n    yield_control()", yield_ms=0)
        return TurnEnd(finished=True, answer=seen.cell_id)

    async with host(tmp_path / "s.db", leave_running, workers=2, type_check="off") as cloister:
        threads = cloister.threads
        busy = await threads.create()
        turn_id = await say(threads, busy.id, "go")
        await follow(threads, busy.id, ends(turn_id))
        for _ in range(6):
            await threads.create()
        await _down_to(cloister, 3)
        cell_id = (await threads.get_turn(busy.id, turn_id)).answer
        session = cloister.session(busy.session_id)
        assert [one.id for one in await session.cells()] == [cell_id]
        await session.terminate(cell_id)
        # There is nothing in it any more: it goes with the next that rests.
        await threads.create()
        await threads.create()
        await _down_to(cloister, 2)


async def test_books_of_one_session_are_put_away_and_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloister.threads.threads._MOST_BOOKS", 2)
    async with host(tmp_path / "s.db") as cloister:
        threads = cloister.threads
        await cloister.open_session("shared")
        made = [await threads.create(ThreadParams(session_id="shared")) for _ in range(5)]
        for round_ in range(1, 4):
            for thread in made:
                turn_id = await say(threads, thread.id, f"round {round_}")
                await follow(threads, thread.id, ends(turn_id))
                assert (await threads.get_turn(thread.id, turn_id)).number == round_
        held = threads._books  # pyright: ignore[reportPrivateUsage]
        assert len(held) <= 2
