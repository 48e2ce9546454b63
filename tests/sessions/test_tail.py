"""The events of all sessions: each once, in order, from wherever a reader wants, whoever wrote them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, Event, InvalidInput

pytestmark = pytest.mark.anyio


async def _until(events: Any, last: str) -> list[Event]:
    """All up to the end of a cell in that session."""
    seen: list[Event] = []
    async for event in events:
        seen.append(event)
        if (event.kind, event.session_id) == ("cell.completed", last):
            break
    return seen


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/s.db"


async def test_events_of_all_sessions_come_in_the_order_of_their_numbers(file: str) -> None:
    async with Cloister(store=file) as cloister:
        sessions = [await cloister.open_session(f"s{n}") for n in range(5)]
        async with cloister.events() as events:
            await asyncio.gather(*(session.run("print(1)") for session in sessions))
            await (await cloister.open_session("last")).run("1")
            seen = await asyncio.wait_for(_until(events, "last"), 30)
    assert {event.session_id for event in seen} == {"s0", "s1", "s2", "s3", "s4", "last"}
    numbers = [event.seq for event in seen]
    assert numbers == sorted(set(numbers))


async def test_replay_from_a_number_goes_on_live_without_a_gap(file: str) -> None:
    async with Cloister(store=file) as cloister:
        session = await cloister.open_session("s")
        await session.run("1")
        async with cloister.events(since=0) as events:
            first = await asyncio.wait_for(_until(events, "s"), 30)
            await session.run("2")
            then = await asyncio.wait_for(_until(events, "s"), 30)
        async with cloister.events(since=0) as events:
            both = [await anext(events) for _ in range(len(first) + len(then))]
        assert both == first + then
        async with cloister.events(since=first[-1].seq) as events:
            assert await anext(events) == then[0]


async def test_reader_who_comes_late_is_told_only_what_is_new(file: str) -> None:
    async with Cloister(store=file) as cloister:
        session = await cloister.open_session("s")
        await session.run("1")
        async with cloister.events(since=0) as events:
            before = (await asyncio.wait_for(_until(events, "s"), 30))[-1].seq
        async with cloister.events() as events:
            await session.run("2")
            assert (await anext(events)).seq > before


async def test_events_of_another_host_are_told_too(file: str) -> None:
    async with Cloister(store=file) as one, Cloister(store=file) as other:
        async with one.events() as events:
            waiting = asyncio.ensure_future(_until(events, "theirs"))
            await (await other.open_session("theirs")).run("1")
            seen = await asyncio.wait_for(waiting, 30)
    assert {event.session_id for event in seen} == {"theirs"}


@pytest.mark.parametrize("stored", [True, False])
async def test_events_end_with_their_host_and_when_they_are_closed(file: str, stored: bool) -> None:
    async with Cloister(store=file if stored else "memory:") as cloister:
        closed, open_ = cloister.events(), cloister.events()
        waiting = [asyncio.ensure_future(_until(events, "nobody")) for events in (closed, open_)]
        await asyncio.sleep(0)
        await closed.aclose()
        assert await asyncio.wait_for(waiting[0], 30) == []
        await asyncio.sleep(0)
        assert not waiting[1].done()
    assert await asyncio.wait_for(waiting[1], 30) == []


async def test_without_a_store_there_is_only_what_happens_now() -> None:
    async with Cloister() as cloister:
        with pytest.raises(InvalidInput, match="kept in a store"):
            cloister.events(since=0)
        async with cloister.events() as events:
            await (await cloister.open_session("a")).run("1")
            await (await cloister.open_session("b")).run("1")
            seen = await asyncio.wait_for(_until(events, "b"), 30)
    assert {event.session_id for event in seen} == {"a", "b"}


async def test_place_to_begin_is_a_number(file: str) -> None:
    async with Cloister(store=file) as cloister:
        for wrong in (-1, "1", 1.5, True):
            with pytest.raises(InvalidInput, match="number of an event"):
                cloister.events(since=wrong)  # type: ignore[arg-type]
