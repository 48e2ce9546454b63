"""`python -m bench.idle_threads`: prints the tasks of five hundred idle threads, and the KB of host memory of one,
in a process of its own.

Each thread was made and had a turn with a program. What is there once, and what is kept for those that were busy last,
is there before the first is counted. The memory is the larger of two measurements, as in `bench.idle`. Caches that
libraries have, each with a bound of its own, are in it while they fill: pydantic's of the texts that it has read takes
about half a KB for each thread.
"""

import asyncio
import gc
import sys
import tempfile
import tracemalloc
from pathlib import Path

from bench.measure import resident_bytes
from cloister import Cloister
from cloister.core.turn import TurnParams
from cloister.threads.models import ModelRegistry
from cloister.threads.models.scripted import ScriptedModel, parse_script

COUNT = 500
# Until the caches of SQLite are full.
_WARM = 1000
_SCRIPT = "answers: [{exec: x = 1}, {text: Done.}]"


async def measure(path: Path) -> tuple[int, float]:
    models = ModelRegistry(given={"scripted": ScriptedModel(parse_script(_SCRIPT))})
    store = f"sqlite://{path}?synchronous=normal"
    async with Cloister(store=store, models=models, model="scripted", workers=2, type_check="off") as cloister:

        async def use(count: int) -> None:
            for _ in range(count):
                thread = await cloister.threads.create()
                async with cloister.threads.events(thread_id=thread.id) as events:
                    await cloister.threads.begin(thread.id, TurnParams("Go on."))
                    async for envelope in events:
                        if envelope.event == "turn.completed":
                            break
            await _still()
            gc.collect()

        await use(_WARM)
        tasks, before = len(asyncio.all_tasks()), resident_bytes()
        await use(COUNT)
        tasks, grown = len(asyncio.all_tasks()) - tasks, resident_bytes() - before
        tracemalloc.start()
        # What was there before is not seen to go: those that were busy last are seen anew.
        await use(100)
        traced, _ = tracemalloc.get_traced_memory()
        await use(COUNT)
        allocated = tracemalloc.get_traced_memory()[0] - traced
        return tasks, max(grown, allocated) / COUNT / 1024


async def _still() -> None:
    """Until what is closed behind the last turn is closed."""
    before = -1
    while (now := len(asyncio.all_tasks())) != before:
        before = now
        await asyncio.sleep(0.5)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        tasks, kilobytes = asyncio.run(measure(Path(scratch) / "idle.db"))
    sys.stdout.write(f"{tasks} {kilobytes:.3f}\n")
