"""A log of a hundred thousand events, told again over HTTP: how long each takes, and what the server holds meanwhile.

The store is filled by its port before the server starts. The client keeps what comes, and looks at it afterwards.
"""

import asyncio
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bench.measure import Row
from bench.wire import SERVE, Wire, started, token_of
from cloister import Cloister
from cloister.core.thread import Thread
from cloister.ports.clock import SystemClock
from cloister.ports.rows import Append, Batch
from cloister.stores.sqlite import SqliteStore

_EVENTS, _LEAST_PER_SECOND, _MOST_MB = 100_000, 30_000, 16.0
# As cells leave them: they are in the stream of the thread and in that of its session.
_KINDS = ("cell.started", "call.requested", "call.settled", "cell.completed")
_NUMBER = re.compile(rb"^id: (\d+)$", re.MULTILINE)


async def rows() -> AsyncIterator[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "events.db"
        thread, last = await _filled(path)
        for whose, place in (("thread", f"threads/{thread.id}"), ("session", f"sessions/{thread.session_id}")):
            with started(*SERVE, f"sqlite://{path}") as ready:
                seconds, busy, grown = await _told(ready, f"/v1/{place}/events?since_seq=", last)
            each, worked = seconds / _EVENTS * 1e6, busy / _EVENTS * 1e6
            print(f"  {_EVENTS:,} events of a {whose}: {1e6 / each:.0f}/s, {worked:.1f} µs of the server each")
            yield Row(f"replay of {_EVENTS:,} events of a {whose} over SSE [µs each]", each, 1e6 / _LEAST_PER_SECOND)
            yield Row("the same, the server's memory at most over before [MB]", grown, _MOST_MB)


async def _filled(path: Path) -> tuple[Thread, int]:
    """A thread with many events, and the number of the last."""
    async with Cloister(store=f"sqlite://{path}") as cloister:
        thread = await cloister.threads.create()
    async with SqliteStore(path, clock=SystemClock(), synchronous="normal") as store:
        for start in range(0, _EVENTS, 1000):
            await store.write(Batch(tuple(_event(thread, start + number) for number in range(1000))))
        return thread, await store.last_event()


def _event(thread: Thread, number: int) -> Append:
    said = {
        "cell_id": f"cel_{number // 4:026}",
        "call_id": f"cll_{number // 4:026}",
        "capability": "get_order",
        "arguments": {"order_id": f"A{number}", "fields": ["size", "total", "currency"]},
        "status": "ok",
        "duration_ms": number % 97 + 0.25,
    }
    turn_id, item_id = f"trn_{number // 40:026}", f"itm_{number // 4:026}"
    at_ms = 1_790_000_000_000 + number
    return Append(thread.session_id, _KINDS[number % 4], at_ms, said, thread.id, turn_id, item_id)


async def _told(ready: dict[str, Any], path: str, last: int) -> tuple[float, float, float]:
    """The seconds that the quickest of three took, the least that the server was busy, and the most MB that one of them
    added."""
    wire, status = Wire(ready["port"], token_of(ready)), Path(f"/proc/{ready['pid']}")
    # Whatever is loaded or opened once is there by then.
    await _read(ready["port"], wire.asking(f"{path}{last - 5000}"), last)
    seconds, busy, grown = list[float](), list[float](), list[float]()
    for _ in range(3):
        before = _kb(status, "VmRSS")
        # From now on its highest is that of this reading.
        (status / "clear_refs").write_text("5")
        began, worked = time.perf_counter(), _busy(status)
        told = await _read(ready["port"], wire.asking(f"{path}0"), last)
        seconds.append(time.perf_counter() - began)
        busy.append(_busy(status) - worked)
        grown.append((_kb(status, "VmHWM") - before) / 1024)
        # What has happened since may have come along.
        numbers = [number for number in map(int, _NUMBER.findall(told)) if number <= last]
        wanted = list(range(last - _EVENTS + 1, last + 1))
        assert numbers[-_EVENTS:] == wanted, sorted({*wanted} ^ {*numbers[-_EVENTS:]})[:20]
    return min(seconds), min(busy), max(grown)


class _Reader(asyncio.Protocol):
    def __init__(self, asking: bytes, last: int) -> None:
        self._asking = asking
        self._end = f"id: {last}\n".encode()
        self.came: list[bytes] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._asking)

    def data_received(self, data: bytes) -> None:
        before = self.came[-1][-100:] if self.came else b""
        self.came.append(data)
        if self._end in before + data and not self.over.done():
            self.over.set_result(None)


async def _read(port: int, asking: bytes, last: int) -> bytes:
    """All that comes up to the event of that number."""
    transport, reader = await asyncio.get_running_loop().create_connection(
        lambda: _Reader(asking, last), "127.0.0.1", port
    )
    try:
        await reader.over
    finally:
        transport.close()
    return b"".join(reader.came)


def _kb(process: Path, name: str) -> int:
    return int(re.findall(rf"^{name}:\s+(\d+)", (process / "status").read_text(), re.MULTILINE)[0])


def _busy(process: Path) -> float:
    """Seconds of processor that it has used."""
    used = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
