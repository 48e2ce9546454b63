"""Events: what happened in a session, in order, to as many as listen, and in nobody's way."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cloister import CellLimits, Event, InvalidInput, SessionClosed, Terminated
from tests.cells.lab import House, Latch, Reader, a_few_rounds, behaviour, in_both, program, reading, result, start
from tests.sessions.till import Till


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House(cells=CellLimits(hibernate_after_ms=0)) as made:
        yield made


@in_both
async def test_simple_cell_starts_and_completes(house: House, language: str) -> None:
    async with await house.open(language) as session, reading(session) as events:
        seen = await session.exec("1 + 1")
        last = await events.until("cell.completed")
        assert events.kinds == ["cell.started", "cell.completed"]
        assert [event.data["cell_id"] for event in events.seen] == [seen.cell_id] * 2
        assert last.data["state"] == "completed"
        assert {event.session_id for event in events.seen} == {session.id}


@in_both
async def test_numbers_only_grow(house: House, language: str) -> None:
    async with await house.open(language) as session, reading(session) as events:
        for n in range(5):
            await session.exec(f"notify({n})")
        last = await session.exec("notify('last')")
        await events.until("cell.completed", last.cell_id)
        numbers = [event.seq for event in events.seen]
        assert numbers == sorted(set(numbers))
        times = [event.at for event in events.seen]
        assert times == sorted(times)


@in_both
async def test_hibernated_cell_tells_of_its_call_its_sleep_and_its_waking(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session, reading(session) as events:
        cell_id = await start(session, "notify('a')\nawait hold(1)\nnotify('b')")
        asleep = await events.until("cell.hibernated", cell_id)
        assert asleep.data["waiting_for"] == ["hold"]
        await latch.let_go()
        await events.until("cell.completed", cell_id)
        assert events.kinds == [
            "cell.yielded",
            "cell.started",
            "cell.notified",
            "call.requested",
            "cell.hibernated",
            "call.settled",
            "cell.woken",
            "cell.notified",
            "cell.completed",
        ]


@in_both
async def test_cell_that_asks_tells_of_the_question_and_its_answer(language: str) -> None:
    till = Till()
    async with House() as house:
        session = await house.open(language, till.tool)
        async with reading(session) as events:
            cell_id = await start(session, "await refund('A7')")
            question = await events.until("approval.required")
            await events.until("cell.hibernated", cell_id)
            await house.cloister.decide(question.data["id"], "allow")
            await events.until("cell.completed", cell_id)
        kinds = [kind for kind in events.kinds if kind.startswith(("cell.", "approval."))]
        assert kinds == [
            "cell.yielded",
            "cell.started",
            "approval.required",
            "cell.hibernated",
            "approval.decided",
            "cell.woken",
            "cell.completed",
        ]


@in_both
async def test_failure_and_termination_are_told_with_their_reasons(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session, reading(session) as events:
        await session.exec(program(language, "fail"))
        failed = await events.until("cell.completed")
        assert failed.data["state"] == "failed"
        assert "no way" in failed.data["error"]["message"]
        cell_id = await start(session, "await hold(1)")
        await latch.until_came()
        assert isinstance(await session.terminate(cell_id), Terminated)
        ended = await events.until("cell.terminated", cell_id)
        assert ended.data["state"] == "terminated"
        assert ended.data["error"]["code"] == "CANCELLED"


@in_both
async def test_two_streams_get_the_same(house: House, language: str) -> None:
    async with await house.open(language) as session:
        first, second = Reader(session), Reader(session)
        await session.exec("notify('a')")
        await session.exec(program(language, "fail"))
        await session.close()
        assert await first.rest() == await second.rest()
        assert first.kinds.count("cell.completed") == 2


@in_both
async def test_listener_of_the_host_hears_all_sessions_in_one_numbering(language: str) -> None:
    heard: list[Event] = []
    async with House(on_event=heard.append) as house:
        one, two = await house.open(language), await house.open(language)
        for session in (one, two, one):
            await session.exec("1")
    # Opened; started and completed; closed with the host.
    cells = [event.session_id for event in heard if event.kind.startswith("cell.")]
    assert cells == [one.id] * 2 + [two.id] * 2 + [one.id] * 2
    sessions = [(event.kind, event.session_id) for event in heard if event.kind.startswith("session.")]
    assert sessions == [(kind, one_of.id) for kind in ("session.opened", "session.closed") for one_of in (one, two)]
    assert [event.seq for event in heard] == sorted({event.seq for event in heard})


@in_both
async def test_listener_that_fails_is_in_nobodys_way(language: str) -> None:
    def fail(event: Event) -> None:
        raise RuntimeError(f"no {event.kind}")

    async with House(on_event=fail) as house:
        session = await house.open(language)
        async with reading(session) as events:
            assert result(await session.exec("notify('x')\n7")) == 7
            await events.until("cell.completed")


@behaviour
async def test_slow_reader_is_told_how_much_it_missed_and_no_cell_waits_for_it(house: House) -> None:
    most, more = 10_000, 50
    async with await house.open("python") as session, reading(session) as slow:
        for some in (most, more):
            assert result(await session.exec(program("python", "many_notes", some))) == "told"
        await session.close()
        first = await slow.until("events.missed")
        assert slow.kinds == ["events.missed"]
        rest = (await slow.rest())[1:]
        assert len(rest) == most
        # Started, the notes and completed, twice, and closed; those that are not here were counted.
        assert first.data["count"] + most == most + more + 5
        numbers = [event.seq for event in slow.seen]
        assert numbers == sorted(set(numbers))
        assert [event.kind for event in rest[-2:]] == ["cell.completed", "session.closed"]


@behaviour
async def test_reader_that_caught_up_misses_nothing_more(house: House) -> None:
    async with await house.open("python") as session, reading(session) as slow:
        await session.exec(program("python", "many_notes", 10_000))
        await slow.until("events.missed")
        await slow.until("cell.completed")
        await session.exec("notify('again')")
        await slow.until("cell.completed")
        assert slow.kinds.count("events.missed") == 1
        assert slow.kinds[-3:] == ["cell.started", "cell.notified", "cell.completed"]


@in_both
async def test_stream_ends_with_the_session_after_its_last_event(house: House, language: str) -> None:
    latch = Latch()
    session = await house.open(language, latch.tool)
    reader = Reader(session)
    reading_on = asyncio.create_task(reader.rest())
    cell_id = await start(session, "await hold(1)")
    await latch.until_came()
    await session.close()
    *events, last = await reading_on
    assert last.kind == "session.closed"
    assert events[-1].kind == "cell.completed"
    assert (events[-1].data["cell_id"], events[-1].data["state"]) == (cell_id, "interrupted")
    with pytest.raises(SessionClosed):
        session.events()


@behaviour
async def test_stream_that_was_left_hears_no_more_and_has_one_reader_at_a_time(house: House) -> None:
    async with await house.open("python") as session:
        stream = session.events()
        waiting = asyncio.create_task(stream.__anext__())
        await a_few_rounds()
        with pytest.raises(InvalidInput, match="ask for another stream"):
            await stream.__anext__()
        await session.exec("1")
        assert (await waiting).kind == "cell.started"
        await stream.aclose()
        await session.exec("2")
        assert [event.kind async for event in stream] == ["cell.completed"]


@in_both
async def test_events_of_other_sessions_are_not_heard(house: House, language: str) -> None:
    async with await house.open(language) as session, await house.open(language) as other:
        reader = Reader(session)
        await other.exec("notify('elsewhere')")
        await session.close()
        assert [event.kind for event in await reader.rest()] == ["session.closed"]
