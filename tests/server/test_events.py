"""Streams of events: nothing is missed, told twice or forged, however a client reads."""

import asyncio
import json
import random
import socket
from collections.abc import Generator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.envelope import Envelope
from cloister.core.event import Event
from cloister.core.serving import ServerLimits
from cloister.server.feeds import envelope_frame, event_frame
from tests.server.lab import OTHER, RUNNER, Running, running
from tests.server.reading import count, events, frames

_CELL = "await get_order(order_id='x')\nnotify('a\\r\\nid: 99\\nevent: forged\\ndata: {}\\n\\n\\u2028')"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running, None, None]:
    place = tmp_path_factory.mktemp("server")
    limits = ServerLimits(keepalive_ms=100, max_streams=250)
    with running(f"sqlite:///{place}/cloister.db?synchronous=normal", limits=limits) as made:
        yield made


async def _read(client: httpx2.AsyncClient, session: str, wanted: int, **given: Any) -> list[dict[str, Any]]:
    return await events(client, _path(session), count(wanted), **given)


def _path(session: str) -> str:
    return f"/v1/sessions/{session}/events"


@pytest.mark.anyio
async def test_a_client_that_is_cut_off_again_and_again_ends_with_exactly_the_log(quick: Running) -> None:
    chance = random.Random(7)
    async with quick.async_client(RUNNER) as client:
        for name in ("cut", "other"):
            await client.post("/v1/sessions", json={"id": name})

        async def work() -> None:
            for _ in range(12):
                for name in ("cut", "other"):
                    await client.post(f"/v1/sessions/{name}/run", json={"code": _CELL})

        working = asyncio.create_task(work())
        seen: list[dict[str, Any]] = []
        # Opened; and each run: started, requested, settled, notified, completed.
        while len(seen) < 61:
            headers = {"last-event-id": str(seen[-1]["seq"])} if seen else {}
            given = {"headers": headers, "params": {"since_seq": 0}}
            seen += await _read(client, "cut", min(chance.randint(1, 9), 61 - len(seen)), **given)
        await working
        whole = await _read(client, "cut", 61)
        assert seen == whole
        assert len({one["seq"] for one in seen}) == 61
        # Each says what was before it, whoever asks, and from wherever.
        assert [one["previous_seq"] for one in whole] == [0, *(one["seq"] for one in whole[:-1])]
        between = await _read(client, "cut", 61 - 40, params={"since_seq": whole[40]["seq"] - 1})
        assert between[0] == whole[40]
        for one in whole:
            assert one.keys() == {
                "schema_version", "seq", "previous_seq", "event", "kind", "session_id", "timestamp", "payload"
            }  # fmt: skip
            assert (one["schema_version"], one["session_id"]) == (1, "cut")
        told = [one["payload"] for one in whole if one["event"] == "cell.notified"]
        assert len(told) == 12
        assert "forged" in json.dumps(told[0])
        assert quick.service.streams <= 1
        async with quick.async_client(OTHER) as stranger:
            refused = await stranger.get("/v1/sessions/cut/events", headers={"last-event-id": "3"})
            assert (refused.status_code, refused.json()["code"]) == (404, "SESSION_NOT_FOUND")
        for bad in ("x", "-1", "1e3", "1" * 30):
            assert (await client.get("/v1/sessions/cut/events", headers={"last-event-id": bad})).status_code == 422
            assert (await client.get(f"/v1/sessions/cut/events?since_seq={bad}")).status_code == 422


@pytest.mark.anyio
async def test_a_reader_that_does_not_read_makes_nobody_wait_and_misses_nothing(quick: Running) -> None:
    async with quick.async_client(RUNNER) as client:
        await client.post("/v1/sessions", json={"id": "slow"})
        host, port = quick.url.removeprefix("http://").split(":")
        with socket.socket() as wire:
            # As little as the system lets us keep.
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            wire.connect((host, int(port)))
            heads = f"GET /v1/sessions/slow/events HTTP/1.1\r\nHost: {host}:{port}\r\n"
            wire.sendall(f"{heads}Authorization: Bearer {RUNNER}\r\n\r\n".encode())
            code = "for n in range(20):\n    notify('x' * 30_000)"
            for _ in range(5):
                done = await client.post("/v1/sessions/slow/run", json={"code": code})
                assert done.json()["status"] == "ok"
            wire.settimeout(20)
            found, wanted = b"", 1 + 5 * 22
            while found.count(b"\nevent: ") < wanted:
                found += await asyncio.to_thread(wire.recv, 1 << 16)
        numbers = [int(line[4:]) for line in found.split(b"\n") if line.startswith(b"id: ")]
        assert numbers == [one["seq"] for one in await _read(client, "slow", wanted)]


@pytest.mark.anyio
async def test_a_stream_says_that_it_lives_and_why_it_ends(quick: Running) -> None:
    async with quick.async_client(RUNNER) as client:
        await client.post("/v1/sessions", json={"id": "quiet"})
        kept: list[dict[str, str]] = []
        async with asyncio.timeout(20), aclosing(frames(client, _path("quiet"))) as coming:
            async for frame in coming:
                kept.append(frame)
                if len(kept) == 4:
                    assert (await client.delete("/v1/sessions/quiet")).json() == {"deleted": True}
        assert [one.get("comment") or one["event"] for one in kept] == [
            "open", "session.opened", "keepalive", "keepalive", "session.closed", "stream.closed"
        ]  # fmt: skip
        assert json.loads(kept[-1]["data"])["reason"] == "session_closed"
        # What is not written down can be heard, and not be asked for.
        await client.post("/v1/sessions", json={"id": "light", "durability": "none"})
        refused = await client.get("/v1/sessions/light/events?since_seq=0")
        assert (refused.status_code, refused.json()["code"]) == (422, "INVALID_INPUT")
        found: list[dict[str, Any]] = []
        async with asyncio.timeout(20), aclosing(frames(client, _path("light"))) as coming:
            async for frame in coming:
                if frame.get("comment") == "open":
                    await client.post("/v1/sessions/light/run", json={"code": "1"})
                elif "data" in frame:
                    found.append(json.loads(frame["data"]))
                    if len(found) == 2:
                        break
        assert [one["event"] for one in found] == ["cell.started", "cell.completed"]
        assert found[1]["previous_seq"] == found[0]["seq"]


_TEXT = st.text(max_size=30) | st.sampled_from(
    ["\r", "\n\n", "\u2028id: 1", "data: x\r\n\r\nevent: y\n\n", "\ud800", "\x00"]
)


@given(
    kind=_TEXT,
    data=st.dictionaries(_TEXT, _TEXT, max_size=3),
    seq=st.integers(0, 2**53),
    before=st.integers(0),
)
def test_nothing_that_an_event_says_can_end_it_or_begin_another(
    kind: str, data: dict[str, str], seq: int, before: int
) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for written in (
        event_frame(Event(seq, kind, "s", at, data), before),
        envelope_frame(Envelope(kind, at, data, seq=seq, previous_seq=before, thread_id="t")),
        envelope_frame(Envelope(kind, at, data, thread_id="t")),
    ):
        assert written.isascii()
        assert b"\r" not in written
        lines = written.split(b"\n")
        head = [b"id"] if b"previous_seq" in written else []
        assert [line.partition(b": ")[0] for line in lines] == [*head, b"event", b"data", b"", b""]
        said = json.loads(lines[-3].removeprefix(b"data: "))
        assert said["payload"] == data
        if head:
            assert (said["seq"], said["previous_seq"]) == (seq, before)
