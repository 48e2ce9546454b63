"""A lane: one thread that talks to one Monty worker, so that the event loop never waits for it.

A step of a program that calls tools takes several round trips to its worker. Here they cost two thread hops
together; Monty's async client takes two for each of them. See docs/decisions/003.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

log = logging.getLogger("cloister.engines")
T = TypeVar("T")
_Answer: TypeAlias = "tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]]"


class Lane:
    """Runs what it is given, in order, in its own thread. Ends when it is closed."""

    def __init__(self, name: str) -> None:
        self._work: SimpleQueue[tuple[Callable[[], Any], _Answer | None] | None]
        self._work = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def do(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Queue `work`. Cancelling the future does not stop the work: kill the worker for that."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._work.put((work, (loop, future)))
        return future

    def send(self, work: Callable[[], None]) -> None:
        """Queue `work` that nobody waits for."""
        self._work.put((work, None))

    def close(self) -> None:
        """End the thread once its queue is empty."""
        self._work.put(None)

    def join(self) -> None:
        """Wait for its end, but not for long: its last job may be a dying worker."""
        self._thread.join(timeout=2.0)

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            work, answer = item
            if answer is None:
                try:
                    work()
                # Containment: nobody waits for it, and the thread goes on.
                except Exception:
                    log.exception("a worker could not be left")
                del item, work
                continue
            loop, future = answer
            try:
                result, failure = work(), None
            # Containment: whatever breaks belongs to the one who waits for this job, not to the thread.
            except BaseException as error:  # noqa: BLE001
                result, failure = None, error
            try:
                loop.call_soon_threadsafe(_deliver, future, result, failure)
            except RuntimeError:
                pass  # the loop is closed: nobody waits any more
            del item, work, answer, loop, future, result, failure


def _deliver(future: "asyncio.Future[Any]", result: Any, failure: BaseException | None) -> None:
    if future.cancelled():
        return
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(result)
