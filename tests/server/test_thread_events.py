"""Streams of threads: nothing is missed, told twice or forged, however a client reads, and however many do."""

import asyncio
import json
import random
import socket
from collections.abc import Callable, Generator
from contextlib import aclosing
from typing import Any

import httpx2
import pytest

from cloister.core.envelope import envelope_from_json
from cloister.core.serving import ServerLimits
from cloister.core.wire import to_json
from cloister.threads import Projection
from tests.server.lab import OTHER, RUNNER, Running, running
from tests.server.puppet import HOSTILE, puppet
from tests.server.reading import PATIENCE_S, count, events, frames, named, numbered
from tests.threads.lab import run_code

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running, None, None]:
    place = tmp_path_factory.mktemp("server")
    limits = ServerLimits(keepalive_ms=100, max_streams=250)
    drivers = {"code": run_code, "native": puppet}
    with running(f"sqlite:///{place}/cloister.db?synchronous=normal", limits=limits, drivers=drivers) as made:
        yield made


async def _thread(client: httpx2.AsyncClient, driver: str = "native", **given: Any) -> str:
    return (await client.post("/v1/threads", json={"driver": driver, **given})).json()["id"]


async def _say(client: httpx2.AsyncClient, thread_id: str, text: str) -> str:
    made = await client.post(f"/v1/threads/{thread_id}/turns", json={"input": text})
    assert made.status_code == 201, made.text
    return made.json()["turn"]["id"]


def _path(thread_id: str) -> str:
    return f"/v1/threads/{thread_id}/events"


async def test_client_that_is_cut_off_again_and_again_ends_with_exactly_the_log(quick: Running) -> None:
    chance = random.Random(7)
    async with quick.async_client(RUNNER) as client:
        mine, other = await _thread(client), await _thread(client)
        turns = 4

        async def work() -> None:
            for _ in range(turns):
                for thread_id in (mine, other):
                    await _say(client, thread_id, "many 6")

        working = asyncio.create_task(work())
        seen: list[dict[str, Any]] = []
        while not ended(turns)(seen):
            # What a client has last comes before what its address says.
            given = {"headers": {"last-event-id": str(seen[-1]["seq"])} if seen else {}, "params": {"since_seq": 0}}
            seen += numbered(await events(client, _path(mine), cut(chance.randint(1, 9), seen, turns), **given))
        await working
        whole = numbered(await events(client, _path(mine), ended(turns)))
        assert seen == whole
        assert len({one["seq"] for one in seen}) == len(seen) > turns * 12
        assert [one["previous_seq"] for one in whole] == [0, *(one["seq"] for one in whole[:-1])]
        between = await events(client, _path(mine), count(1), params={"since_seq": whole[40]["seq"] - 1})
        assert between == [whole[40]]
        assert {one["thread_id"] for one in whole} == {mine}
        # A client of the same events has what the server says, to the field.
        projection = Projection()
        for one in whole:
            projection.take(envelope_from_json(one))
        assert to_json(projection.detail()) == (await client.get(f"/v1/threads/{mine}")).json()


async def test_what_is_said_forges_nothing(quick: Running) -> None:
    async with quick.async_client(RUNNER) as client:
        thread_id = await _thread(client, "code", title="a\r\nevent: x")
        program = f"notify({HOSTILE!r})\nprint({HOSTILE!r})\n1"
        await _say(client, thread_id, program)
        seen = numbered(await events(client, _path(thread_id), named("turn.completed")))
        names = [one["event"] for one in seen]
        assert names.count("turn.completed") == 1
        assert [one["previous_seq"] for one in seen] == [0, *(one["seq"] for one in seen[:-1])]
        told = next(one for one in seen if one["event"] == "cell.notified")
        assert "data: [DONE]" in json.dumps(told["payload"])
        assert seen[0]["payload"]["thread"]["title"] == "a\r\nevent: x"


async def test_deltas_are_for_who_listens_and_have_no_number(quick: Running) -> None:
    async with quick.async_client(RUNNER) as client:
        thread_id = await _thread(client)
        heard: list[dict[str, Any]] = []
        async with asyncio.timeout(PATIENCE_S), aclosing(frames(client, _path(thread_id))) as coming:
            async for frame in coming:
                if "data" not in frame:
                    continue
                heard.append(json.loads(frame["data"]))
                if heard[-1]["event"] == "thread.started":
                    # From here on it hears what happens as it happens.
                    await _say(client, thread_id, "say hello")
                if heard[-1]["event"] == "turn.completed":
                    break
        deltas = [one for one in heard if one["event"] == "item.delta"]
        assert "".join(one["payload"]["text"] for one in deltas) == "hello"
        for one in deltas:
            assert one.keys() == {
                "schema_version", "event", "kind", "thread_id", "turn_id", "item_id", "timestamp", "payload"
            }  # fmt: skip
        started = next(one for one in heard if one["event"] == "item.started")
        assert {one["item_id"] for one in deltas} == {started["item_id"]}
        assert heard.index(started) < heard.index(deltas[0])
        again = await events(client, _path(thread_id), named("turn.completed"))
        assert again == numbered(heard)


async def test_reader_that_does_not_read_makes_nobody_wait_and_is_healed_from_the_log(
    quick: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is kept for a reader is soon more than that: the rest it has from the log.
    monkeypatch.setattr("cloister.threads.streams._MOST_UNREAD", 20)
    async with quick.async_client(RUNNER) as client:
        thread_id = await _thread(client)
        host, port = quick.url.removeprefix("http://").split(":")
        with socket.socket() as wire:
            # There will be more to read than the system keeps for both of us.
            wire.connect((host, int(port)))
            heads = f"GET {_path(thread_id)} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {RUNNER}\r\n\r\n"
            wire.sendall(heads.encode())
            await _say(client, thread_id, "say " + "x" * 2_000_000)
            await _say(client, thread_id, "many 40")
            # All of it is done before a byte of it is read.
            whole = numbered(await events(client, _path(thread_id), ended(2)))
            wire.settimeout(PATIENCE_S)
            found = b""
            while found[-100_000:].count(f"id: {whole[-1]['seq']}\n".encode()) < 1:
                found += await asyncio.to_thread(wire.recv, 1 << 20)
        numbers = [int(line[4:]) for line in found.split(b"\n") if line.startswith(b"id: ")]
        assert numbers == [one["seq"] for one in whole]


def _last(seen: str) -> list[tuple[bytes, bytes]]:
    return [(b"last-event-id", seen.encode())]


def cut(after: int, before: list[dict[str, Any]], turns: int) -> Callable[[list[dict[str, Any]]], bool]:
    """After so many, or where nothing more will come."""
    return lambda found: len(found) == after or ended(turns)([*before, *found])


def ended(turns: int) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda found: sum(one["event"] == "turn.completed" for one in found) == turns


async def test_two_hundred_clients_of_one_thread_all_have_the_same(quick: Running) -> None:
    limits = httpx2.Limits(max_connections=None)
    async with quick.async_client(RUNNER) as client, quick.async_client(RUNNER, limits=limits) as crowd:
        thread_id = await _thread(client)
        opened = [asyncio.Event() for _ in range(200)]

        async def follow(number: int) -> list[dict[str, Any]]:
            def until(found: list[dict[str, Any]]) -> bool:
                opened[number].set()
                return found[-1]["event"] == "turn.completed"

            return await events(crowd, _path(thread_id), until)

        following = [asyncio.create_task(follow(number)) for number in range(200)]
        await asyncio.gather(*(one.wait() for one in opened))
        await _say(client, thread_id, "many 5")
        heard = await asyncio.gather(*following)
        whole = numbered(heard[0])
        assert [one["event"] for one in whole].count("item.completed") == 6
        assert all(numbered(one) == whole for one in heard)
        # Deltas too: everybody was there.
        assert all(one == heard[0] for one in heard)


async def test_stream_says_that_it_lives_and_refuses_what_is_no_place_in_it(quick: Running) -> None:
    async with quick.async_client(RUNNER) as client, quick.async_client(OTHER) as stranger:
        thread_id = await _thread(client)
        async with asyncio.timeout(PATIENCE_S), aclosing(frames(client, _path(thread_id))) as coming:
            comments = [(await anext(coming)).get("comment"), (await anext(coming)).get("event")]
            comments += [(await anext(coming)).get("comment"), (await anext(coming)).get("comment")]
        assert comments == ["open", "thread.started", "keepalive", "keepalive"]
        for bad in ("x", "-1", "1e3", "1" * 30, "", "1\u0660"):
            assert (await client.get(_path(thread_id), headers=_last(bad))).status_code == 422, bad
            assert (await client.get(_path(thread_id), params={"since_seq": bad})).status_code == 422, bad
        # A cursor of another tenant's thread, or of one that is not there, is nobody's.
        theirs = await _thread(stranger)
        for place in (_path(theirs), _path("thr_none")):
            found = await client.get(place, headers={"last-event-id": "1"})
            assert (found.status_code, found.json()["code"]) == (404, "THREAD_NOT_FOUND")
        ahead = await client.get(_path(thread_id), params={"since_seq": 2**50})
        assert (ahead.status_code, ahead.json()["code"]) == (422, "INVALID_INPUT")


async def test_stream_of_a_thread_ends_when_its_session_is_destroyed_in_the_middle_of_a_turn(quick: Running) -> None:
    async with quick.async_client(RUNNER) as client:
        made = (await client.post("/v1/threads", json={"driver": "native"})).json()
        await _say(client, made["id"], "stay")
        last: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE_S), aclosing(frames(client, _path(made["id"]))) as coming:
            async for last in coming:
                if last.get("event") == "turn.started":
                    gone = await client.delete(f"/v1/sessions/{made['session_id']}")
                    assert gone.json() == {"deleted": True}
        assert (last["event"], json.loads(last["data"])["reason"]) == ("stream.closed", "thread_gone")
        for path in ("", "/events"):
            assert (await client.get(f"/v1/threads/{made['id']}{path}")).status_code == 404
