"""Streams against a real server, through a relay that breaks their connections."""

import asyncio
import random
import threading
from pathlib import Path

import anyio
import pytest

from cloister.client import AsyncClient, Client, Retry, ServerUnreachable
from cloister.core.envelope import Envelope
from cloister.core.errors import InvalidInput, SessionNotFound
from tests.client.conftest import QUICK
from tests.client.relay import relay
from tests.server.lab import ADMIN, Running, running

# Opened; and for each: started, requested, settled, notified, completed.
_CELL = "await get_order(order_id='x')\nnotify('data: forged\\r\\n\\n' * 40)"
_EACH = 5


def _work(client: Client, session: str, times: int) -> None:
    for _ in range(times):
        assert client.sessions.run(session, _CELL).ok


def test_stream_that_is_cut_at_random_points_ends_with_exactly_the_log(client: Client, server: Running) -> None:
    client.sessions.create("cut")
    chance = random.Random(11)
    working = threading.Thread(target=_work, args=(client, "cut", 20))
    with relay(server.url, lambda _: chance.randint(600, 9000)) as way, Client(way.url, ADMIN, retry=QUICK) as remote:
        working.start()
        with remote.events(session_id="cut") as events:
            seen = [next(events) for _ in range(1 + 20 * _EACH)]
            working.join()
            assert events.reconnects > 3
    with client.events(session_id="cut") as events:
        whole = [next(events) for _ in range(1 + 20 * _EACH)]
    assert seen == whole
    assert [one.previous_seq for one in seen] == [0, *(one.seq for one in seen[:-1])]


def test_stream_goes_on_where_it_is_told_to(client: Client) -> None:
    client.sessions.create("later")
    _work(client, "later", 2)
    with client.events(session_id="later") as events:
        whole: list[Envelope] = []
        for _ in range(1 + 2 * _EACH):
            whole.append(next(events))
            assert events.last_seq == whole[-1].seq
    with client.events(session_id="later", since=whole[3].seq or 0) as events:
        assert [next(events) for _ in range(1 + 2 * _EACH - 4)] == whole[4:]
        assert events.last_seq == whole[-1].seq


def test_stream_outlives_its_server(tmp_path: Path) -> None:
    seen: list[Envelope] = []
    with relay("http://127.0.0.1:1") as way, Client(way.url, ADMIN, retry=QUICK) as remote:
        with remote.events(session_id="lives") as events:
            for times in (1, 2):
                with running(f"sqlite://{tmp_path}/store.db") as server, Client(server.url, ADMIN) as client:
                    way.aim(server.url)
                    if times == 1:
                        client.sessions.create("lives")
                    _work(client, "lives", 1)
                    while [one.event for one in seen].count("cell.completed") < times:
                        seen.append(next(events))
            assert events.reconnects == 1
    assert [one.previous_seq for one in seen] == [0, *(one.seq for one in seen[:-1])]


@pytest.mark.anyio
async def test_whoever_asks_hears_that_the_server_is_gone_and_that_it_is_back(tmp_path: Path) -> None:
    store = f"sqlite://{tmp_path}/store.db"
    heard: asyncio.Queue[bool] = asyncio.Queue()
    with relay("http://127.0.0.1:1") as way:
        async with AsyncClient(way.url, ADMIN, retry=QUICK) as remote:
            events = remote.events(session_id="heard", on_connection=heard.put_nowait)
            with running(store) as server, Client(server.url, ADMIN) as client:
                way.aim(server.url)
                client.sessions.create("heard")
                _work(client, "heard", 1)
                for _ in range(1 + _EACH):
                    await anext(events)
            reading = asyncio.ensure_future(anext(events))
            assert await heard.get() is False
            with running(store) as server, Client(server.url, ADMIN) as client:
                way.aim(server.url)
                assert await heard.get() is True
                _work(client, "heard", 1)
                # By the second server, for the program.
                assert (await reading).event == "session.opened"
            assert heard.empty()
            await events.aclose()


def test_stream_of_a_session_ends_when_that_is_closed(client: Client) -> None:
    client.sessions.create("closes")
    with client.events(session_id="closes") as events:
        _work(client, "closes", 1)
        seen = [next(events) for _ in range(1 + _EACH)]
        client.sessions.delete("closes")
        rest = list(events)
    assert [one.event for one in (*seen, *rest)].count("cell.completed") == 1
    assert [one.event for one in rest] == ["session.closed"]
    with client.events(session_id="closes") as events, pytest.raises(SessionNotFound):
        next(events)


def test_stream_of_a_server_that_is_not_there_gives_up() -> None:
    retry = Retry(attempts=2, first_ms=1, most_ms=2)
    with Client("http://127.0.0.1:1", ADMIN, retry=retry) as client:
        with client.events(session_id="x") as events, pytest.raises(ServerUnreachable, match=r"127\.0\.0\.1:1"):
            next(events)


def test_stream_whose_server_stays_away_gives_up_after_its_time(server: Running, client: Client) -> None:
    client.sessions.create("away")
    _work(client, "away", 1)
    retry = Retry(attempts=2, first_ms=1, most_ms=2, reconnect_ms=50)
    with relay(server.url, lambda number: 900 if number == 1 else 0) as way:
        with Client(way.url, ADMIN, retry=retry) as remote, remote.events(session_id="away") as events:
            with pytest.raises(ServerUnreachable):
                for _ in events:
                    pass


def test_stream_is_of_one_thing(client: Client) -> None:
    for thread_id, session_id in ((None, None), ("a", "b")):
        with pytest.raises(InvalidInput, match="one of thread_id and session_id"):
            client.events(thread_id=thread_id, session_id=session_id)


@pytest.mark.anyio
async def test_async_stream_is_cut_cancelled_and_misses_nothing(client: Client, server: Running) -> None:
    client.sessions.create("awaits")
    chance = random.Random(5)
    working = threading.Thread(target=_work, args=(client, "awaits", 6))
    with relay(server.url, lambda _: chance.randint(600, 9000)) as way:
        async with AsyncClient(way.url, ADMIN, retry=QUICK) as remote, remote.events(session_id="awaits") as events:
            working.start()
            seen: list[Envelope] = []
            while len(seen) < 1 + 6 * _EACH:
                with anyio.move_on_after(chance.random() / 50):
                    seen.append(await anext(events))
            assert events.reconnects > 1
        await anyio.to_thread.run_sync(working.join)
    with client.events(session_id="awaits") as stream:
        assert seen == [next(stream) for _ in range(1 + 6 * _EACH)]
