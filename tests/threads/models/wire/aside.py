"""A `ModelServer` in a thread of its own, for tests that are not async or that drive other processes."""

import asyncio
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from tests.threads.models.wire.server import Answering, Heard, ModelServer


@contextmanager
def model_server(replies: "Iterable[Answering] | Callable[[Heard], Answering]" = ()) -> Generator[ModelServer]:
    """Its `heard`, `replies`, `port` and `settings` may be looked at from here; its events belong to its own loop."""
    ready, done = threading.Event(), asyncio.Event()
    held: list[tuple[ModelServer, asyncio.AbstractEventLoop]] = []

    async def serve() -> None:
        async with ModelServer(replies) as server:
            held.append((server, asyncio.get_running_loop()))
            ready.set()
            await done.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(30)
    server, loop = held[0]
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(30)
