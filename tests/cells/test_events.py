"""Events on their way: numbered in one row, bounded for the slow, ended with the session, in nobody's way."""

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister import CellLimits, Cloister, Completed, Event, InvalidInput, SessionClosed
from cloister.ports.clock import SystemClock
from cloister.sessions.events import Events, EventStream

pytestmark = pytest.mark.anyio

SHOP = "shop"


def events(listener: Any = None) -> Events:
    return Events(SystemClock(), listener)


async def soon(work: Any) -> Any:
    """The bound only turns a hang into a failure."""
    return await asyncio.wait_for(work, 10)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def read(stream: EventStream, count: int) -> list[Event]:
    return [await soon(anext(stream)) for _ in range(count)]


async def rest(stream: EventStream) -> list[Event]:
    """What there is, up to the stream's end."""

    async def all_of() -> list[Event]:
        return [event async for event in stream]

    return await soon(all_of())


# -- numbers -----------------------------------------------------------------------------------------------------------


async def test_events_of_all_sessions_are_numbered_in_one_row_without_gaps() -> None:
    heard: list[Event] = []
    made = events(heard.append)
    for number in range(20):
        made.emit("cell.started", f"session{number % 3}", {"n": number})
    assert [event.seq for event in heard] == list(range(1, 21))
    assert [event.data["n"] for event in heard] == list(range(20))
    assert heard[4].session_id == "session1"


async def test_a_reader_gets_the_events_of_its_own_session_in_order() -> None:
    made = events()
    stream = made.subscribe(SHOP)
    made.emit("a", SHOP, {})
    made.emit("not for us", "other", {})
    made.emit("b", SHOP, {"x": 1})
    made.close(SHOP)
    assert [(event.kind, dict(event.data)) for event in await rest(stream)] == [("a", {}), ("b", {"x": 1})]


async def test_a_reader_hears_only_of_what_happens_after_it_came() -> None:
    made = events(list[Event]().append)
    made.emit("before", SHOP, {})
    stream = made.subscribe(SHOP)
    made.emit("after", SHOP, {})
    made.close(SHOP)
    assert [event.kind for event in await rest(stream)] == ["after"]


async def test_what_nobody_hears_is_not_made_and_takes_no_number() -> None:
    made = events()
    assert not made.heard(SHOP)
    made.emit("unheard", SHOP, {})
    stream = made.subscribe(SHOP)
    assert made.heard(SHOP)
    assert not made.heard("other")
    made.emit("heard", SHOP, {})
    (event,) = await read(stream, 1)
    assert event.seq == 1


# -- the slow ----------------------------------------------------------------------------------------------------------


async def test_a_slow_reader_misses_the_oldest_and_is_told_how_many() -> None:
    made = events()
    stream = made.subscribe(SHOP, most_unread=3)
    for number in range(10):
        made.emit("tick", SHOP, {"n": number})
    missed, *kept = await read(stream, 4)
    assert (missed.kind, missed.data["count"], missed.session_id) == ("events.missed", 7, SHOP)
    assert [event.data["n"] for event in kept] == [7, 8, 9]
    assert missed.seq < kept[0].seq


async def test_what_is_missed_is_told_once_and_again_when_there_is_more_of_it() -> None:
    made = events()
    stream = made.subscribe(SHOP, most_unread=2)
    for number in range(3):
        made.emit("tick", SHOP, {"n": number})
    assert [event.kind for event in await read(stream, 3)] == ["events.missed", "tick", "tick"]
    made.emit("tick", SHOP, {"n": 3})
    assert [event.kind for event in await read(stream, 1)] == ["tick"]
    for number in range(4, 10):
        made.emit("tick", SHOP, {"n": number})
    assert [event.kind for event in await read(stream, 3)] == ["events.missed", "tick", "tick"]


async def test_one_reader_that_is_slow_costs_another_nothing() -> None:
    made = events()
    slow, quick = made.subscribe(SHOP, most_unread=1), made.subscribe(SHOP)
    for number in range(50):
        made.emit("tick", SHOP, {"n": number})
    made.close(SHOP)
    assert [event.data["n"] for event in await rest(quick)] == list(range(50))
    assert [event.kind for event in await rest(slow)] == ["events.missed", "tick"]


# How many events come, then how many are read of them; again and again.
bursts = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=12)


@given(st.integers(1, 5), bursts)
def test_every_event_is_read_once_or_counted_as_missed(most: int, plan: list[tuple[int, int]]) -> None:
    async def act() -> None:
        made = events()
        stream = made.subscribe(SHOP, most_unread=most)
        emitted, got, unread = 0, list[Event](), 0
        for come, go in plan:
            for _ in range(come):
                emitted += 1
                made.emit("tick", SHOP, {"n": emitted})
            unread = min(unread + come, most)
            for _ in range(go):
                if not unread:
                    break
                got.append(await soon(anext(stream)))
                unread -= got[-1].kind == "tick"
        made.close(SHOP)
        got += await rest(stream)
        accounted, last_seq = 0, 0
        for event in got:
            if event.kind == "events.missed":
                accounted += event.data["count"]
            else:
                accounted += 1
                assert event.data["n"] == accounted, "an event is out of its place, or twice there"
            assert event.seq >= last_seq
            last_seq = event.seq
        assert accounted == emitted

    asyncio.run(act())


# -- readers -----------------------------------------------------------------------------------------------------------


async def test_a_reader_that_waits_is_woken_by_the_next_event() -> None:
    made = events()
    stream = made.subscribe(SHOP)
    waiting = asyncio.create_task(anext(stream))
    await settled()
    assert not waiting.done()
    made.emit("now", SHOP, {})
    assert (await soon(waiting)).kind == "now"


async def test_several_streams_of_one_session_get_everything_each() -> None:
    made = events()
    streams = [made.subscribe(SHOP) for _ in range(5)]
    readers = [asyncio.create_task(rest(stream)) for stream in streams]
    for number in range(30):
        made.emit("tick", SHOP, {"n": number})
        if number % 7 == 0:
            await settled()
    made.close(SHOP)
    for reader in readers:
        assert [event.data["n"] for event in await soon(reader)] == list(range(30))


async def test_two_cannot_wait_at_one_stream_and_the_first_is_not_disturbed() -> None:
    made = events()
    stream = made.subscribe(SHOP)
    first = asyncio.create_task(anext(stream))
    await settled()
    with pytest.raises(InvalidInput, match="another stream"):
        await soon(anext(stream))
    made.emit("now", SHOP, {})
    assert (await soon(first)).kind == "now"


async def test_a_reader_that_is_cancelled_while_it_waits_loses_nothing() -> None:
    made = events()
    stream = made.subscribe(SHOP)
    waiting = asyncio.create_task(anext(stream))
    await settled()
    waiting.cancel()
    made.emit("kept", SHOP, {})
    await asyncio.wait([waiting], timeout=10)
    assert (await soon(anext(stream))).kind == "kept"


@pytest.mark.parametrize("between", [0, 1, 2])
async def test_a_reader_that_is_cancelled_just_as_an_event_comes_loses_nothing(between: int) -> None:
    made = events()
    stream = made.subscribe(SHOP)
    waiting = asyncio.create_task(anext(stream))
    await settled()
    made.emit("kept", SHOP, {})
    for _ in range(between):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting], timeout=10)
    got = None if waiting.cancelled() else waiting.result()
    event = got or await soon(anext(stream))
    assert event.kind == "kept"


# -- ends --------------------------------------------------------------------------------------------------------------


async def test_closing_a_stream_ends_its_reader_and_no_other() -> None:
    made = events()
    ours, theirs = made.subscribe(SHOP), made.subscribe(SHOP)
    reader = asyncio.create_task(rest(ours))
    await settled()
    await ours.aclose()
    assert await soon(reader) == []
    made.emit("still here", SHOP, {})
    assert (await soon(anext(theirs))).kind == "still here"


async def test_a_closed_stream_hears_no_more_and_closing_it_twice_is_fine() -> None:
    made = events()
    async with made.subscribe(SHOP) as stream:
        made.emit("before", SHOP, {})
    await stream.aclose()
    made.emit("after", SHOP, {})
    assert not made.heard(SHOP)
    assert [event.kind for event in await rest(stream)] == ["before"]


async def test_a_reader_gets_what_was_left_when_the_session_closed_and_then_the_end() -> None:
    made = events()
    stream = made.subscribe(SHOP)
    made.emit("last", SHOP, {})
    made.close(SHOP)
    assert [event.kind for event in await rest(stream)] == ["last"]
    with pytest.raises(StopAsyncIteration):
        await soon(anext(stream))
    await stream.aclose()


async def test_a_session_that_comes_anew_under_the_same_id_is_not_heard_by_old_readers() -> None:
    made = events()
    old = made.subscribe(SHOP)
    made.close(SHOP)
    new = made.subscribe(SHOP)
    await old.aclose()
    made.emit("new", SHOP, {})
    assert await rest(old) == []
    assert (await soon(anext(new))).kind == "new"


# -- the listener ------------------------------------------------------------------------------------------------------


async def test_a_listener_that_raises_is_logged_and_hears_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def listener(event: Event) -> None:
        heard.append(event.kind)
        raise RuntimeError("the listener's own trouble")

    made = events(listener)
    stream = made.subscribe(SHOP)
    with caplog.at_level(logging.ERROR, logger="cloister.sessions"):
        made.emit("one", SHOP, {})
        made.emit("two", SHOP, {})
    assert heard == ["one", "two"]
    assert [event.kind for event in await read(stream, 2)] == ["one", "two"]
    assert "the listener of events failed on one" in caplog.text


def test_a_listener_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(InvalidInput, match="on_event"):
        events("not a function")


async def test_a_listener_may_end_a_stream_while_it_is_told() -> None:
    """A host that stops reading as soon as it has seen what it wanted."""
    made: list[Events] = []
    streams: list[EventStream] = []

    def listener(_: Event) -> None:
        made[0].close(SHOP)

    made.append(events(listener))
    streams += [made[0].subscribe(SHOP), made[0].subscribe(SHOP)]
    made[0].emit("one", SHOP, {})
    for stream in streams:
        assert [event.kind for event in await rest(stream)] == ["one"]


# -- of a session ------------------------------------------------------------------------------------------------------


async def test_the_life_of_a_cell_is_told_in_order_and_the_stream_ends_with_the_session() -> None:
    heard: list[Event] = []
    async with Cloister(workers=1, type_check="off", on_event=heard.append) as cloister:
        session = await cloister.open_session(SHOP)
        stream = session.events()
        observed = await session.exec("notify('hello')\n1 + 1")
        assert isinstance(observed, Completed)
        reader = asyncio.create_task(rest(stream))
        await session.close()
        told = await soon(reader)
        with pytest.raises(SessionClosed):
            session.events()
    kinds = [event.kind for event in told]
    assert kinds == ["cell.started", "cell.notified", "cell.completed", "session.closed"]
    assert [event.seq for event in told] == sorted({event.seq for event in told})
    assert {event.data["cell_id"] for event in told[:-1]} == {observed.cell_id}
    assert told[-2].data["state"] == "completed"
    # Who asked for the stream did so when it was open.
    assert [event for event in heard if event.session_id == SHOP] == [heard[0], *told]
    assert heard[0].kind == "session.opened"


async def test_no_cell_waits_for_a_reader_that_never_reads() -> None:
    limits = CellLimits(max_isolated=64)
    async with Cloister(workers=1, type_check="off", cells=limits) as cloister:
        session = await cloister.open_session(SHOP)
        stream = session.events()
        for number in range(20):
            observed = await session.exec(f"[notify(str(n)) for n in range(50)]\n{number}")
            assert isinstance(observed, Completed)
            assert observed.result == number
        await session.close()
        assert sum(event.kind == "cell.notified" for event in await rest(stream)) == 20 * 50


async def test_a_listener_that_raises_fails_no_cell(caplog: pytest.LogCaptureFixture) -> None:
    def listener(event: Event) -> None:
        raise RuntimeError(event.kind)

    with caplog.at_level(logging.CRITICAL, logger="cloister.sessions"):
        async with Cloister(workers=1, type_check="off", on_event=listener) as cloister:
            session = await cloister.open_session(SHOP)
            observed = await session.exec("1 + 1")
    assert isinstance(observed, Completed)
    assert observed.result == 2
