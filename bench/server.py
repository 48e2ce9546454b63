"""A program of one sum over HTTP, against FastAPI's own echo on the same uvicorn and our own run; events to many.

The client is as thin as can be, bytes on a socket, and the same for both: what it costs is in both numbers.
"""

import asyncio
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path

from bench.measure import Row, typical
from bench.wire import SERVE, Wire, started, token_of
from cloister import Cloister

_ECHO = """
import socket, sys
from typing import Any
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

class Body(BaseModel):
    code: str
    inputs: dict[str, Any] = {}

app = FastAPI()

@app.post("/v1/sessions/{session_id}/run")
async def echo(session_id: str, body: Body) -> Body:
    return body

listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
print('{"port": %d}' % listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listener])
"""
_BODY = json.dumps({"code": "1+1", "inputs": {}}).encode()
_TIMES, _LEAST_SHARE, _MOST_MS = 3.0, 0.6, 20.0
_CONNECTIONS, _CLIENTS = 64, 200


async def _rate(port: int, token: str) -> float:
    """Requests in a second over many connections, each with a session of its own."""
    async with contextlib.AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(Wire(port, token)) for _ in range(_CONNECTIONS)]

        async def work(number: int, count: int) -> None:
            for _ in range(count):
                await wires[number].post(f"/v1/sessions/b{number}/run", _BODY)

        async def round_of(count: int) -> float:
            began = time.perf_counter()
            await asyncio.gather(*(work(number, count) for number in range(_CONNECTIONS)))
            return _CONNECTIONS * count / (time.perf_counter() - began)

        await round_of(3)
        return max([await round_of(12) for _ in range(4)])


async def _own_rate() -> float:
    async with Cloister(workers=2) as cloister:
        sessions = [await cloister.open_session(f"b{number}") for number in range(_CONNECTIONS)]

        async def work(number: int, count: int) -> None:
            for _ in range(count):
                assert (await sessions[number].run("1+1")).result == 2

        async def round_of(count: int) -> float:
            began = time.perf_counter()
            await asyncio.gather(*(work(number, count) for number in range(_CONNECTIONS)))
            return _CONNECTIONS * count / (time.perf_counter() - began)

        await round_of(3)
        return max([await round_of(12) for _ in range(4)])


class _Listener(asyncio.Protocol):
    """Notes what came and when, and looks at it later: two hundred of them share a processor with the server."""

    def __init__(self, heads: bytes) -> None:
        self._heads = heads
        self.came: list[tuple[float, bytes]] = []
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._heads)

    def data_received(self, data: bytes) -> None:
        self.came.append((time.time(), data))
        if not self.opened.done() and b": open" in data:
            self.opened.set_result(None)

    def delays(self) -> Iterator[float]:
        for at, data in self.came:
            for line in data.split(b"\n"):
                if line.startswith(b"data: ") and b'"cell.notified"' in line:
                    then = datetime.fromisoformat(json.loads(line[6:])["timestamp"]).timestamp()
                    # It was stamped some time within that millisecond.
                    yield max(at - then - 0.0005, 0.0) * 1000


async def _delays(port: int, token: str) -> list[float]:
    """Milliseconds from when an event happened to when each of many clients has it."""
    loop, listeners, rounds = asyncio.get_running_loop(), list[_Listener](), 50
    async with Wire(port, token) as control, contextlib.AsyncExitStack() as stack:
        await control.post("/v1/sessions", b'{"id": "events"}')
        await control.post("/v1/sessions/events/run", _BODY)
        heads = control.asking("/v1/sessions/events/events")
        for _ in range(_CLIENTS):
            transport, listener = await loop.create_connection(lambda: _Listener(heads), "127.0.0.1", port)
            stack.callback(transport.close)
            await listener.opened
            listeners.append(listener)
        for _ in range(rounds):
            await control.post("/v1/sessions/events/run", b'{"code": "notify(1)"}')
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        delays = [delay for listener in listeners for delay in listener.delays()]
        assert len(delays) == rounds * _CLIENTS, len(delays)
        return delays


async def rows() -> AsyncIterator[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        echo = Path(scratch) / "echo.py"
        echo.write_text(_ECHO)
        with started(str(echo)) as theirs, started(*SERVE, "memory:") as ours:
            token = token_of(ours)
            async with (
                Wire(theirs["port"], token) as there,
                Wire(ours["port"], token) as here,
                Cloister(workers=2) as cloister,
            ):
                for number in range(_CONNECTIONS):
                    await here.post("/v1/sessions", json.dumps({"id": f"b{number}"}).encode())
                session = await cloister.open_session()
                path = "/v1/sessions/b0/run"
                run, echoed, own = await typical(
                    lambda: here.post(path, _BODY), lambda: there.post(path, _BODY), lambda: session.run("1+1")
                )
            print(f"  POST /run {run * 1000:.2f} ms, echo {echoed * 1000:.2f} ms, run {own * 1000:.2f} ms")
            yield Row("POST /run of 1+1, one connection (x echo, our run taken off)", (run - own) / echoed, _TIMES)
            many, echoes = await _rate(ours["port"], token), await _rate(theirs["port"], token)
        own_rate = await _own_rate()
        print(f"  64 connections: {many:.0f}/s, echo {echoes:.0f}/s, our own run {own_rate:.0f}/s")
        # Both are done by one process, one after the other.
        asked = _LEAST_SHARE / (1 / echoes + 1 / own_rate)
        yield Row("64 connections (60 % of what echo and run allow together, in times of ours)", asked / many, 1.0)
        with started(*SERVE, f"sqlite:///{scratch}/events.db") as ours:
            delays = sorted(await _delays(ours["port"], token_of(ours)))
        p99 = delays[int(len(delays) * 0.99)]
        print(f"  events to {_CLIENTS} clients: p50 {statistics.median(delays):.1f} ms, p99 {p99:.1f} ms")
        yield Row("event from append to SSE client, p99 with 200 clients, ms", p99, _MOST_MS)
