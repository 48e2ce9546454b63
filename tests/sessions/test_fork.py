"""Forks at any past call: both branches finish, each with its own results and values."""

from pathlib import Path

import pytest

from cloister import InvalidInput, tool
from tests.sessions.replay_lab import World, both, ended

pytestmark = pytest.mark.anyio
CALLS = 20
PROGRAM = {
    "python": """
got = []
for i in range(20):
    got.append(await answer(i))
    store('last', [i, got[-1]])
store('all', len(got))
got
""",
    "typescript": """
const got: string[] = []
for (let i = 0; i < 20; i++) {
  got.push(await answer({n: i}))
  store('last', [i, got[got.length - 1]])
}
store('all', got.length)
got
""",
}
TOGETHER = {
    "python": "import asyncio\nr = await asyncio.gather(turn(1), turn(2), turn(3))\nr",
    "typescript": "let r = await Promise.all([turn({n: 1}), turn({n: 2}), turn({n: 3})]); r",
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@both
async def test_fork_at_every_call_of_twenty_answered_differently_finishes_on_its_own(
    world: World, language: str
) -> None:
    branch = "the session"

    @tool(side_effect="write", idempotent=False)
    async def answer(n: int) -> str:
        """Answer as the branch does that asks."""
        return f"{n}: {branch}"

    async with world.open(tools=[answer]) as cloister:
        session = await cloister.open_session("s", language=language)
        own = [f"{n}: the session" for n in range(CALLS)]
        assert (await session.run(PROGRAM[language])).result == own
        (cell,) = await session.history()
        for at, call in enumerate(cell.calls):
            branch = f"fork {at}"
            fork = await session.fork(at=call.id, session_id=f"fork{at}")
            # What was stored before the cell ended is the cell's, and not the session's yet.
            assert await fork.values.all() == {}
            result = await fork.resume()
            assert result.result == own[:at] + [f"{n}: fork {at}" for n in range(at, CALLS)]
            assert await fork.values.all() == {"all": CALLS, "last": [CALLS - 1, f"{CALLS - 1}: fork {at}"]}
            assert (await fork.run("got" if language == "python" else "got[19]")).ok
            await fork.close()
        # The first branch has not noticed.
        assert await session.values.all() == {"all": CALLS, "last": [CALLS - 1, f"{CALLS - 1}: the session"]}
        assert len((await session.history())[0].calls) == CALLS
        assert (await cloister.replay(cell.id)).same


@both
async def test_fork_at_one_of_several_calls_waits_for_all_that_were_made_with_it(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        seen = await session.exec(TOGETHER[language], yield_ms=0)
        # They end in the other order, one by one.
        events = session.events()
        for number in (3, 2, 1):
            await world.entered[number].wait()
            world.turns[number].set()
            async for event in events:
                if event.kind == "call.settled":
                    break
        assert (await ended(session, seen.cell_id)).result == [1, 2, 3]
        (cell,) = await session.history()
        for call in cell.calls:
            world.done.clear()
            fork = await session.fork(at=call.id)
            assert (await fork.resume()).result == [1, 2, 3]
            assert sorted(world.done) == ["turn 1", "turn 2", "turn 3"]


async def test_fork_where_it_cannot_be_is_refused_with_what_to_do(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        other = await cloister.open_session("other")
        theirs = await other.run("await pay(1)")
        refused = await session.run("1 +")
        beside = await session.exec("1", isolated=True)
        running = await session.exec("await turn(1)", yield_ms=0)
        await world.entered[1].wait()
        for at, why in (
            (theirs.cell_id, "that is a cell of session 'other'"),
            (theirs.external_calls[0].id, "nothing of that id"),
            ("cal_" + "0" * 26, "nothing of that id"),
            ("cel_" + "0" * 26, "nothing of that id"),
            (beside.cell_id, "it left nothing behind"),
            (running.cell_id, "it has not ended"),
            ("snp_" + "0" * 26, "no id of a cell or a call"),
            ("", "no id of a cell or a call"),
            ("cal_1\n", "no id of a cell or a call"),
        ):
            with pytest.raises(InvalidInput, match=why) as refusal:
                await session.fork(at=at)
            assert "session.history()" in (refusal.value.hint or "")
        world.turns[1].set()
        await ended(session, running.cell_id)
        assert refused.error is not None
        assert [meta.id for meta in await cloister.list_sessions()] == ["s", "other"]


@both
async def test_history_lists_cells_their_calls_and_the_moments_that_are_kept(world: World, language: str) -> None:
    code = {"python": "await pay(1)\nawait pay(2)", "typescript": "await pay({n: 1}); await pay({n: 2})"}[language]
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        await session.run(code)
        await session.run("1")
        first, second = await session.history()
        assert [(call.number, call.name, call.forkable) for call in first.calls] == [(1, "pay", True), (2, "pay", True)]
        assert [one.call_number for one in first.snapshots] == [1, 2, None]
        assert [one.call_number for one in second.snapshots] == [None]
        moments = [one.at for cell in (first, second) for one in cell.snapshots]
        assert moments == sorted(moments)
        assert (first.forkable, second.forkable) == (True, True)
