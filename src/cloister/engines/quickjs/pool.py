"""The workers of one engine: some idle and warm, the rest serving one session each, never more than the capacity.

Keeps one spare while there is room for it, so that opening a session does not wait for a process to start. A worker
that served many sessions or grew large is replaced. When the pool closes, no process of it is left.
"""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable

from cloister.core.errors import ConfinementUnavailable, EngineUnavailable
from cloister.engines.quickjs.process import WorkerLost, WorkerProcess

_SESSIONS = 500
_RESIDENT_BYTES = 256 << 20
_START_SECONDS = 60.0


class Pool:
    def __init__(self, spawn: Callable[[], Awaitable[WorkerProcess]], capacity: int) -> None:
        self._spawn = spawn
        self._capacity = capacity
        self._idle: deque[WorkerProcess] = deque()
        self._alive: set[WorkerProcess] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[WorkerProcess]] = deque()
        self._closed = False

    @property
    def workers(self) -> frozenset[WorkerProcess]:
        return frozenset(self._alive)

    def warm(self) -> None:
        """Start what is asked for and a spare, as far as there is room."""
        wanted = sum(not waiter.done() for waiter in self._waiting) + (0 if self._idle else 1)
        while not self._closed and len(self._starting) < wanted and self._room() > 0:
            task = asyncio.get_running_loop().create_task(self._start())
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    def _room(self) -> int:
        return self._capacity - len(self._alive) - len(self._starting)

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                worker = await self._spawn()
        except ConfinementUnavailable as error:
            self._is_over()
            self._refuse(error)
            return
        except (OSError, WorkerLost, EngineUnavailable, TimeoutError) as error:
            self._is_over()
            self._refuse(EngineUnavailable(f"no TypeScript worker starts: {error}"))
            return
        self._is_over()
        self._alive.add(worker)
        worker.ended.add_done_callback(lambda _: self._bury(worker))
        self._offer(worker)

    def _is_over(self) -> None:
        """This start, before anybody hears what came of it: who comes to wait now must not count on it."""
        task = asyncio.current_task()
        assert task is not None
        self._starting.discard(task)

    def _refuse(self, error: EngineUnavailable | ConfinementUnavailable) -> None:
        """All who wait hear of it: the next start would fail as this one did."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(error)

    def _offer(self, worker: WorkerProcess) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(worker)
                return
        self._idle.append(worker)

    def _bury(self, worker: WorkerProcess) -> None:
        self._alive.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        if self._waiting:
            self.warm()

    async def acquire(self) -> WorkerProcess:
        if self._closed:
            raise EngineUnavailable("the TypeScript engine is closed")
        while self._idle:
            # The one that rested least is the warmest.
            worker = self._idle.pop()
            if worker.alive:
                break
        else:
            waiter: asyncio.Future[WorkerProcess] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            self.warm()
            try:
                worker = await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                    self._offer(waiter.result())
                raise
        worker.sessions += 1
        self.warm()
        return worker

    def release(self, worker: WorkerProcess) -> None:
        """Back to the others, or gone if it is worn out. The worker must be at rest, without a session."""
        if not worker.alive:
            worker.kill()
        elif self._closed or worker.sessions >= _SESSIONS or resident_bytes(worker.pid) > _RESIDENT_BYTES:
            worker.misbehaved("the worker was replaced")
        else:
            self._offer(worker)

    async def close(self) -> None:
        """Kill every worker and wait until each is reaped."""
        self._closed = True
        for task in list(self._starting):
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        self._refuse(EngineUnavailable("the TypeScript engine is closed"))
        alive = list(self._alive)
        for worker in alive:
            worker.misbehaved("the engine was closed")
        await asyncio.gather(*(asyncio.shield(worker.ended) for worker in alive))


def resident_bytes(pid: int) -> int:
    """What the process holds now; 0 where the kernel does not say."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as text:
            return int(text.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
