"""Going over a finished cell again: it does what it did, in the store's own words, and the world does not notice."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cloister import (
    CannotReplay,
    CellLimits,
    CellNotFound,
    Cloister,
    CloisterError,
    Completed,
    Deny,
    Event,
    Failed,
    Hook,
    HookedCall,
    InvalidInput,
    Language,
    Session,
    SessionLimits,
    Terminated,
    WaitingForApproval,
)
from cloister.core.call import ExternalCallRecord
from cloister.ports.clock import SystemClock
from cloister.ports.rows import Drop, PutBlob
from cloister.stores.sqlite import SqliteStore
from cloister.testing.stores.lab import everything
from tests.crash.wreck import wreck
from tests.sessions.replay_lab import PROGRAMS, World, both, ended
from tests.stores.sqlite_lab import sql

pytestmark = pytest.mark.anyio


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def same(cloister: Cloister, cell_id: str, *, steps: int, calls: int) -> None:
    report = await cloister.replay(cell_id)
    assert (report.cell_id, report.diverged, report.ended_from_outside) == (cell_id, None, None)
    assert (report.steps, report.calls) == (steps, calls)


async def asked_and_answered(cloister: Cloister, session: Session, code: str) -> str:
    """The first question is answered with yes, the second with no."""
    result = await session.run(code)
    for decision in ("allow", "deny"):
        assert result.status == "waiting_for_approval"
        await cloister.decide(result.approvals[-1].id, decision)
        result = await session.resume(result.cell_id)
    assert result.ok, result
    return result.cell_id


@both
@pytest.mark.parametrize(
    ("name", "steps", "calls"), [("sequence", 4, 3), ("caught", 6, 5), ("fail", 2, 1), ("flop", 2, 1)]
)
async def test_cell_does_again_what_it_did(world: World, language: str, name: str, steps: int, calls: int) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        result = await session.run(PROGRAMS[name][language])
        before = list(world.done)
        await same(cloister, result.cell_id, steps=steps, calls=calls)
        assert world.done == before
        # A moment later, and in another process' eyes.
        async with world.open() as other:
            assert (await other.recovery_report()).cells == ()
            await same(other, result.cell_id, steps=steps, calls=calls)


@both
async def test_functions_within_functions_are_replayed(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        # Calls that are settled together wake those who wait for them in one order, and not in any.
        for _ in range(10):
            result = await session.run(PROGRAMS["nested"][language])
            assert result.ok, result
            report = await cloister.replay(result.cell_id)
            assert (report.diverged, report.calls, report.language) == (None, 5, Language(language))


@both
async def test_program_is_told_of_its_calls_in_the_order_in_which_it_was_told(world: World, language: str) -> None:
    async with world.open(cells=CellLimits(hibernate_after_ms=0)) as cloister:
        session = await cloister.open_session("s", language=language)
        seen = await session.exec(PROGRAMS["race"][language], yield_ms=0)
        for number in (1, 2, 3):
            await world.entered[number].wait()
        events = session.events()
        for number in (3, 1, 2):
            world.turns[number].set()
            async for event in events:
                if event.kind == "call.settled" and event.data["record"]["name"] == "turn":
                    break
        end = await ended(session, seen.cell_id)
        assert isinstance(end, Completed)
        assert sorted(end.result) == [1, 2, 3]
        report = await cloister.replay(seen.cell_id)
        assert (report.diverged, report.calls) == (None, 5)


@both
async def test_answers_of_people_are_replayed(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        cell_id = await asked_and_answered(cloister, session, PROGRAMS["asking"][language])
        await same(cloister, cell_id, steps=3, calls=2)
        assert (world.done, len(await cloister.approvals())) == (["ask 1"], 2)


@both
async def test_variables_values_and_chance_are_those_that_the_cell_found(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        first = await session.run(PROGRAMS["define"][language])
        second = await session.run(PROGRAMS["use"][language])
        await session.run("x = 5" if language == "python" else "x = 5 as any")
        await session.values.set("y", "changed by the host")
        third = await session.run(PROGRAMS["use"][language])
        assert third.result[1] == "changed by the host"
        for result, steps in ((first, 1), (second, 2), (third, 2)):
            assert result.ok, result
            await same(cloister, result.cell_id, steps=steps, calls=steps - 1)


@both
async def test_isolated_cell_is_replayed_with_its_own_chance(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        seen = await session.exec(PROGRAMS["sequence"][language], isolated=True)
        assert isinstance(seen, Completed)
        await same(cloister, seen.cell_id, steps=4, calls=3)


@both
async def test_cell_that_went_on_in_another_process_is_replayed_whole(
    world: World, language: str, tmp_path: Path
) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        seen = await session.exec(PROGRAMS["unknown"][language], yield_ms=0)
        await world.entered[1].wait()
        found = await wreck(world.path, tmp_path / "found.db")
        async with world.open(found) as other:
            again = await other.open_session("s")
            end = await ended(again, seen.cell_id)
            assert isinstance(end, Completed)
            assert end.result == ["OUTCOME_UNKNOWN", "paid 2"]
            await same(other, seen.cell_id, steps=3, calls=2)
        world.turns[1].set()
        assert (await ended(session, seen.cell_id)).result == [1, "paid 2"]
        await same(cloister, seen.cell_id, steps=3, calls=2)


@both
async def test_one_call_too_many_ends_the_replay_as_it_ended_the_cell(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        result = await session.run(PROGRAMS["many"][language], limits={"max_external_calls": 4})
        assert result.error is not None
        assert result.error.code == "EXTERNAL_CALLS_EXCEEDED"
        await same(cloister, result.cell_id, steps=5, calls=4)


@both
async def test_cell_that_was_ended_from_outside_is_replayed_up_to_there(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language, limits=SessionLimits(cpu_ms=300))
        waiting = await session.exec(PROGRAMS["turn"][language], yield_ms=0)
        await world.entered[1].wait()
        assert isinstance(await session.terminate(waiting.cell_id), Terminated)
        report = await cloister.replay(waiting.cell_id)
        assert (report.same, report.steps, report.calls) == (True, 1, 1)
        assert report.ended_from_outside == "the cell was terminated"
        computing = await session.run(PROGRAMS["loop"][language])
        assert computing.error is not None
        assert computing.error.code == "TIMEOUT_CPU"
        report = await cloister.replay(computing.cell_id)
        assert (report.same, report.steps, report.calls) == (True, 2, 1)


async def test_program_that_was_refused_by_the_check_never_ran(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        result = await session.run("await py(1)")
        report = await cloister.replay(result.cell_id)
        assert (report.same, report.steps) == (True, 0)
        assert (report.ended_from_outside or "").startswith("it never ran: ")


async def test_what_a_hook_withheld_and_what_a_secret_hid_is_replayed(world: World) -> None:
    class Withhold(Hook):
        async def after_call(self, call: HookedCall, record: ExternalCallRecord) -> Deny | None:
            return Deny("not for you") if call.arguments == {"n": 1} else None

    hooks, secrets = [Withhold()], {"TOKEN": {"value": "paid", "allowed": ["pay"]}}
    async with world.open(hooks=hooks, secrets=secrets) as cloister:
        session = await cloister.open_session("s")
        code = "try:\n    await pay(1)\nexcept RuntimeError as e:\n    r = str(e)\nprint('pa' + 'id')\n"
        result = await session.run(code + "[r, await pay(2), secret('TOKEN')]")
        assert "not for you" in result.result[0]
        assert result.result[1] == "[secret TOKEN] 2"
        assert result.stdout == "[secret TOKEN]\n"
        await same(cloister, result.cell_id, steps=3, calls=2)
    # Whoever replays it need not have any of them.
    async with Cloister(store=f"sqlite://{world.path}") as other:
        await same(other, result.cell_id, steps=3, calls=2)


@both
async def test_session_that_went_back_to_a_snapshot_is_replayed_from_there(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        await session.run(PROGRAMS["define"][language])
        snapshot = await session.snapshot()
        await session.run("x = 1" if language == "python" else "x = 1 as any")
        await session.restore(snapshot)
        back = await session.run(PROGRAMS["use"][language])
        copy = await cloister.restore_session(snapshot, session_id="copy")
        there = await copy.run(PROGRAMS["use"][language])
        assert back.result == there.result
        await copy.run("x = 1" if language == "python" else "x = 1 as any")
        for result in (back, there):
            await same(cloister, result.cell_id, steps=2, calls=1)


async def test_session_that_went_back_to_a_snapshot_is_found_there_by_the_next_process(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        await session.run("x = 'then'\nstore('k', 'then')")
        snapshot = await session.snapshot()
        await session.run("x = 'now'")
        await session.restore(snapshot)
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        assert (await session.run("[x, load('k')]")).result == ["then", "then"]


@both
async def test_replay_writes_nothing_tells_nobody_and_needs_no_session(world: World, language: str) -> None:
    heard: list[Event] = []
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        result = await session.run(PROGRAMS["sequence"][language])
        other_cell = await session.exec(PROGRAMS["turn"][language], yield_ms=0)
        await world.entered[1].wait()
        async for event in session.events(since=0):
            # From here on nothing is to be written, neither of the cell that ended nor of the one that waits.
            if event.kind == "cell.hibernated":
                break
        async with world.open(on_event=heard.append) as other:
            # The session is another's, and busy.
            assert (await other.recovery_report()).elsewhere == ("s",)
            async with SqliteStore(world.path, clock=SystemClock()) as store:
                before = await _of_cell(store, result.cell_id)
                await same(other, result.cell_id, steps=4, calls=3)
                assert await _of_cell(store, result.cell_id) == before
        world.turns[1].set()
        await ended(session, other_cell.cell_id)
    assert heard == []
    assert world.done.count("pay 0") == 1


async def _of_cell(store: SqliteStore, cell_id: str) -> dict[str, Any]:
    """All that is in the store, but for what happens to the other cell meanwhile."""
    found: dict[str, Any] = dict(await everything(store))
    found["events"] = [row for row in found["events"] if row.doc.get("cell_id") == cell_id]
    return {**found, "cells": await store.cell(cell_id)}


# -- refused ----------------------------------------------------------------------------------------------------------


async def test_what_has_not_ended_or_never_was_is_refused_by_name(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        seen = await session.exec("await turn(1)", yield_ms=0)
        await world.entered[1].wait()
        with pytest.raises(CannotReplay, match="has not ended"):
            await cloister.replay(seen.cell_id)
        world.turns[1].set()
        await ended(session, seen.cell_id)
        with pytest.raises(CellNotFound, match="there is no cell cel_0"):
            await cloister.replay("cel_" + "0" * 26)
        for wrong in ("", "cal_1", "cel_\x00", "x" * 5000, None, 7):
            with pytest.raises(InvalidInput, match="is no id of a cell"):
                await cloister.replay(wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(CloisterError, match="closed"):
        await cloister.replay(seen.cell_id)


async def test_what_was_not_written_down_call_by_call_is_refused_by_name(world: World) -> None:
    async with world.open(durability="cell") as cloister:
        session = await cloister.open_session("s")
        result = await session.run("await pay(1)")
        with pytest.raises(CannotReplay, match="call by call") as refused:
            await cloister.replay(result.cell_id)
        assert "durability='call'" in (refused.value.hint or "")
    async with Cloister() as cloister:
        with pytest.raises(InvalidInput, match="not written down"):
            await cloister.replay(result.cell_id)


async def test_cell_that_came_with_a_snapshot_is_refused_by_name(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        await session.run("[await pay(1), await pay(2)]")
        (cell,) = await session.history()
        fork = await session.fork(at=cell.calls[1].id)
        result = await fork.resume()
        assert result.ok
        with pytest.raises(CannotReplay, match="began elsewhere"):
            await cloister.replay(result.cell_id)
        later = await fork.run("await pay(3)")
        await same(cloister, later.cell_id, steps=2, calls=1)


@pytest.mark.parametrize("which", ["start", "wait", "blob", "damaged"])
async def test_cell_of_which_parts_are_gone_is_refused_by_name(world: World, which: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        await session.run("x = 1\nstore('k', 1)")
        result = await session.run("[x, await pay(1), load('k')]")
        async with SqliteStore(world.path, clock=SystemClock()) as store:
            first, wait, *_ = await store.snapshots("s")
        match which:
            case "start":
                await world.write(Drop("snapshots", (first.id,)))
            case "wait":
                await world.write(Drop("snapshots", (wait.id,)))
            case _:
                await _spoil(world, first.image, None if which == "blob" else b"something else")
        with pytest.raises(CannotReplay, match=r"not in the store any more|is damaged") as refused:
            await cloister.replay(result.cell_id)
        assert result.cell_id in refused.value.message
        assert refused.value.hint


async def _spoil(world: World, blob: str, data: bytes | None) -> None:
    sql(world.path, "PRAGMA busy_timeout = 10000", f"DELETE FROM blobs WHERE name = '{blob}'")
    if data is not None:
        await world.write(PutBlob(blob, data))


async def test_a_hundred_replays_at_once_share_the_workers(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        result = await session.run("[await pay(1), await pay(2)]")
        reports = await asyncio.gather(*(cloister.replay(result.cell_id) for _ in range(100)))
        assert {report.diverged for report in reports} == {None}
        assert (await session.run("1 + 1")).result == 2


async def test_failed_observation_and_replay_agree(world: World) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        seen: Any = await session.exec("async def deep(n):\n    return await deep(n + 1)\nawait deep(0)")
        assert isinstance(seen, Failed | Completed | WaitingForApproval)
        report = await cloister.replay(seen.cell_id)
        assert report.same
