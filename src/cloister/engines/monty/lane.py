"""A lane: one thread that talks to one Monty worker, so that the event loop never waits for it.

Monty's sync calls in a thread of ours cost two thread hops a step and no more; its own async client costs two
hops for each of the several round trips in a step. See docs/decisions/003.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Wakeup = Callable[["Handover[Any]"], object]


class Handover(Generic[T]):
    """What a job in a lane comes to. Awaited by one task, once.

    It is a future as far as asyncio's tasks care, but it wakes its task straight from the lane's thread. A plain
    future set by `call_soon_threadsafe` would take another turn of the loop, a tenth of a small run.
    """

    _asyncio_future_blocking = False

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._over = False
        self._cancelled = False
        self._result: Any = None
        self._failure: BaseException | None = None
        self._waiter: tuple[Wakeup, contextvars.Context | None] | None = None
        # The lane ends it and the loop waits for it or cancels it, in two threads: one of them is first.
        self._lock = threading.Lock()
        # Held until it is over.
        self._gate = threading.Lock()
        self._gate.acquire()

    def wait_here(self, seconds: float) -> bool:
        """Block this thread until it is over, but not longer than `seconds`. For moments that nobody can notice."""
        return self._gate.acquire(timeout=seconds)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def done(self) -> bool:
        return self._over

    def cancelled(self) -> bool:
        return self._cancelled

    def add_done_callback(self, wakeup: Wakeup, *, context: contextvars.Context | None = None) -> None:
        with self._lock:
            if not self._over:
                self._waiter = (wakeup, context)
                return
        self._loop.call_soon(wakeup, self, context=context)

    def remove_done_callback(self, wakeup: Wakeup) -> int:
        with self._lock:
            found = self._waiter is not None and self._waiter[0] == wakeup
            if found:
                self._waiter = None
        return int(found)

    def cancel(self, msg: Any = None) -> bool:
        """Stop waiting. The job itself goes on: kill its worker for that."""
        return self._end(None, asyncio.CancelledError(*([msg] if msg is not None else [])), cancelled=True)

    def deliver(self, result: Any, failure: BaseException | None) -> None:
        self._end(result, failure)

    def _end(self, result: Any, failure: BaseException | None, *, cancelled: bool = False) -> bool:
        with self._lock:
            if self._over:
                return False
            self._over, self._cancelled = True, cancelled
            self._result, self._failure = result, failure
            waiter, self._waiter = self._waiter, None
        self._gate.release()
        if waiter is not None:
            try:
                self._loop.call_soon_threadsafe(waiter[0], self, context=waiter[1])
            except RuntimeError:
                pass  # the loop is closed: nobody waits any more
        return True

    def result(self) -> T:
        if self._failure is not None:
            raise self._failure
        return self._result

    def exception(self) -> BaseException | None:
        return self._failure

    def __await__(self) -> Generator[Any, None, T]:
        if not self._over:
            self._asyncio_future_blocking = True
            yield self
        return self.result()


class Lane:
    """Runs what it is given, in order, in its own thread. Ends when it is closed."""

    def __init__(self, name: str) -> None:
        self._work: SimpleQueue[tuple[Callable[[], Any], Handover[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def do(self, work: Callable[[], T]) -> Handover[T]:
        """Queue `work`; await what it comes to."""
        handover: Handover[T] = Handover(asyncio.get_running_loop())
        self._work.put((work, handover))
        return handover

    def close(self) -> None:
        """End the thread once its queue is empty."""
        self._work.put(None)

    def join(self) -> None:
        """Wait for its end, but not for long: its last job may be a dying worker."""
        self._thread.join(timeout=2.0)

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            work, handover = item
            try:
                handover.deliver(work(), None)
            # Containment: whatever breaks belongs to the one who waits for this job, not to the thread.
            except BaseException as error:  # noqa: BLE001
                handover.deliver(None, error)
            del item, work, handover
