"""Threads for plain functions: as many as are needed at once, each kept a while for the next.

They are daemons, and that is why they are not asyncio's or anyio's, which the interpreter waits for at its end: a
function that never returns keeps its own thread, and neither the loop nor the process. Nothing here bounds their
number; quotas do.
"""

import asyncio
import contextvars
import inspect
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

# Seconds that a thread waits for its next function.
_IDLE = 10.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a piece of the host's code ended. Its exception is a value here, so that it stops nobody."""

    # Kept out of its text: asyncio's debug log shows the results of tasks, and these are not scrubbed.
    value: object = field(default=None, repr=False)
    error: BaseException | None = field(default=None, repr=False)


def discard(value: object) -> None:
    """Nobody will await `value`: Python need not warn about that. One that was begun is left alone."""
    if inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == inspect.CORO_CREATED:
        value.close()


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[], object]
    context: contextvars.Context
    ended: "asyncio.Future[Ended]"

    def do(self) -> Ended:
        try:
            return Ended(self.context.run(self.work))
        # Containment: nothing that a function raises, SystemExit included, ends the thread.
        except BaseException as error:  # noqa: BLE001
            return Ended(error=error)

    def report(self, outcome: Ended) -> None:
        try:
            self.ended.get_loop().call_soon_threadsafe(self._settle, outcome)
        except RuntimeError:  # the loop is closed: nobody is there to hear it
            discard(outcome.value)

    def _settle(self, outcome: Ended) -> None:
        if self.ended.done():
            discard(outcome.value)
        else:
            self.ended.set_result(outcome)


_Inbox: TypeAlias = "queue.SimpleQueue[_Job]"


class Threads:
    def __init__(self) -> None:
        # Guards the list of idle inboxes: an inbox that was taken from it gets a job, and its thread must be there.
        self._lock = threading.Lock()
        self._idle: list[_Inbox] = []

    def run(self, work: Callable[[], object]) -> "asyncio.Future[Ended]":
        """Start `work` in a thread, with the contextvars of whoever asks. To cancel the future drops the result; the
        thread goes on."""
        job = _Job(work, contextvars.copy_context(), asyncio.get_running_loop().create_future())
        inbox: _Inbox | None
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="cloister tool", daemon=True).start()
        inbox.put(job)
        return job.ended

    def _serve(self, inbox: _Inbox) -> None:
        while (job := self._next(inbox)) is not None:
            outcome = job.do()
            with self._lock:
                # Before the report: whoever calls again at once finds this thread free.
                self._idle.append(inbox)
            job.report(outcome)
            # Nothing of what was done is kept while the thread waits for more.
            del job, outcome

    def _next(self, inbox: _Inbox) -> _Job | None:
        try:
            return inbox.get(timeout=_IDLE)
        except queue.Empty:
            pass
        with self._lock:
            if inbox in self._idle:
                self._idle.remove(inbox)
                return None
        # Somebody took it in the last moment.
        return inbox.get()

    def forget(self) -> None:
        """In a forked child: the threads stayed with the parent."""
        self._lock = threading.Lock()
        self._idle = []


THREADS = Threads()
os.register_at_fork(after_in_child=THREADS.forget)
