"""Conversations: what a turn costs beside its model, what idle threads hold, and how fast very many are listed."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from bench.measure import Row
from bench.wire import SERVE, Wire, started, token_of
from cloister import Cloister, Tool
from cloister.core.answer import Piece
from cloister.core.ids import IdSource
from cloister.core.thread import Thread
from cloister.core.turn import TurnParams
from cloister.ports.clock import SystemClock
from cloister.ports.model import Asked, Model, ModelCapabilities
from cloister.ports.rows import Batch, Put
from cloister.stores.sqlite import SqliteStore
from cloister.threads.models import ModelRegistry
from cloister.threads.models.scripted import ScriptedModel, parse_script
from cloister.threads.rows import thread_row

_CONVERSATIONS, _TURNS, _MOST_TURN_MS = 10, 12, 15.0
_MOST_IDLE_KB = 1.0
_THREADS, _PAGE, _MOST_PAGE_MS = 100_000, 100, 50.0
_ANSWER = """
  - text: I look the order up.
    exec: |
      order = await get_order(order_id="A7")
      order["size"] * 2
  - text: It is twice as large as you said.
"""


async def rows() -> AsyncIterator[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        yield await _turns(Path(scratch) / "turns.db")
        for row in _idle():
            yield row
        async for row in _listed(Path(scratch) / "threads.db"):
            yield row


# -- a turn ----------------------------------------------------------------------------------------------------------


class _Timed:
    """A model, and how long it took."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.seconds = 0.0

    @property
    def provider(self) -> str:
        return self._model.provider

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def capabilities(self) -> ModelCapabilities:
        return self._model.capabilities

    @asynccontextmanager
    async def request(self, asked: Asked) -> AsyncGenerator[AsyncIterator[Piece]]:
        began = time.perf_counter()
        async with self._model.request(asked) as pieces:
            self.seconds += time.perf_counter() - began
            yield self._pieces(pieces)

    async def _pieces(self, pieces: AsyncIterator[Piece]) -> AsyncGenerator[Piece]:
        while True:
            began = time.perf_counter()
            piece = await anext(pieces, None)
            self.seconds += time.perf_counter() - began
            if piece is None:
                return
            yield piece


async def _turns(path: Path) -> Row:
    """The code driver: the model is asked, its program makes one call and ends, the model is asked again and says
    something. From what is said to the event that the turn has ended, on a store that waits for the disk."""

    async def get_order(order_id: str) -> dict[str, int]:
        """Look an order up."""
        return {"size": len(order_id)}

    model = _Timed(ScriptedModel(parse_script("answers:" + _ANSWER * _TURNS)))
    models, spent = ModelRegistry(given={"timed": model}), list[float]()
    tool = Tool(get_order, side_effect="read")
    async with Cloister(tools=[tool], store=f"sqlite://{path}", models=models, model="timed", workers=2) as cloister:
        threads = cloister.threads
        for _ in range(_CONVERSATIONS):
            thread = await threads.create()
            async with threads.events(thread_id=thread.id) as events:
                for number in range(_TURNS):
                    model.seconds, began = 0.0, time.perf_counter()
                    await threads.begin(thread.id, TurnParams("How large is it?"))
                    while (envelope := await anext(events)).event != "turn.completed":
                        pass
                    took = time.perf_counter() - began - model.seconds
                    assert envelope.payload["turn"]["status"] == "completed", envelope
                    if number:
                        # With the first, a session has its worker.
                        spent.append(took * 1000)
    print(f"  turns: p50 {statistics.median(spent):.1f} ms, p90 {sorted(spent)[len(spent) * 9 // 10]:.1f} ms")
    return Row(
        "a turn of the code driver with a program and a call, SQLite, FULL, p50 [ms beside the model]",
        statistics.median(spent),
        _MOST_TURN_MS,
    )


# -- nothing to do ---------------------------------------------------------------------------------------------------


def _idle() -> list[Row]:
    """In a process of its own, whose memory nothing else has touched."""
    printed = subprocess.check_output([sys.executable, "-m", "bench.idle_threads"], text=True)
    tasks, kilobytes = map(float, printed.split())
    return [
        Row("an idle thread that had a turn [tasks, for 500 of them]", tasks, 0.0),
        Row(
            "an idle thread that had a turn [KB of host memory, caches that fill included]",
            kilobytes,
            _MOST_IDLE_KB,
        ),
    ]


# -- very many -------------------------------------------------------------------------------------------------------


async def _listed(path: Path) -> AsyncIterator[Row]:
    made = await _many(path)
    shown = f"{_THREADS:,} threads, {_PAGE} to a page"
    with started(*SERVE, f"sqlite://{path}") as ready:
        async with Wire(ready["port"], token_of(ready)) as wire:
            for what, words, wanted in (
                ("listed", "", made),
                ("those with a label", "&label=team=t3", [one for one in made if one.labels["team"] == "t3"]),
                ("searched for a title", "&search=order%207777", [one for one in made if "r 7777" in str(one.title)]),
            ):
                slowest = await _walked(wire, words, [thread.id for thread in reversed(wanted)])
                yield Row(f"{shown}, {what}: the slowest page [ms]", slowest, _MOST_PAGE_MS)


async def _many(path: Path) -> list[Thread]:
    """By the port of the store, the oldest first."""
    ids, at = IdSource(SystemClock().now_ms), datetime(2026, 1, 1, tzinfo=UTC)
    made = [
        Thread(ids.new("thr_"), ids.new("ses_"), at, at, title=f"Order {number}", labels={"team": f"t{number % 7}"})
        for number in range(_THREADS)
    ]
    async with SqliteStore(path, clock=SystemClock(), synchronous="normal") as store:
        for start in range(0, _THREADS, 1000):
            await store.write(Batch(tuple(Put(thread_row(thread)) for thread in made[start : start + 1000])))
    return made


async def _walked(wire: Wire, words: str, wanted: list[str]) -> float:
    """Milliseconds of the slowest of all pages, each at the best of three."""
    times: list[list[float]] = []
    for _ in range(3):
        found, spent, after = list[str](), list[float](), ""
        while True:
            began = time.perf_counter()
            page = await wire.get(f"/v1/threads?limit={_PAGE}{words}{after}")
            spent.append((time.perf_counter() - began) * 1000)
            said = json.loads(page)
            found += [thread["id"] for thread in said["threads"]]
            if said.get("next_after") is None:
                break
            after = f"&after={said['next_after']}"
        assert found == wanted, (len(found), len(wanted))
        times.append(spent)
    return max(map(min, zip(*times, strict=True)))
