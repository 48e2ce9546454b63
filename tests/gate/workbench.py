"""What the tests of dispatch work with: calls of one function, and functions that do not stop."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from cloister.core.limits import CapabilityLimits
from cloister.gate.dispatch import dispatch
from cloister.gate.quota import Quota
from cloister.ports.clock import SystemClock
from cloister.tools.context import CallContext
from cloister.tools.tool import Bound, Tool


class Bell:
    """Rung from any thread, heard on the loop, once for every time it was rung."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Semaphore(0)

    def ring(self) -> None:
        self._loop.call_soon_threadsafe(self._rung.release)

    async def heard(self) -> None:
        await self._rung.acquire()


@dataclass
class Workbench:
    """Dispatches calls of one function, as the gate does."""

    function: Callable[..., Any]
    limits: CapabilityLimits = field(default_factory=CapabilityLimits)
    started: Callable[[], Awaitable[None]] | None = None

    def __post_init__(self) -> None:
        self.tool = Tool(self.function, name="try_it", limits=self.limits)
        self.quota = Quota(self.limits, SystemClock())
        self.abandoned = asyncio.Event()
        self.contexts: list[CallContext] = []

    def call(self, *args: object, timeout_ms: int | None = None, **kwargs: object) -> Coroutine[Any, Any, object]:
        timeout_ms = timeout_ms or self.limits.timeout_ms
        context = CallContext("ses", "cel", "cal", "try_it", "cel/1", time.monotonic() + timeout_ms / 1000)
        self.contexts.append(context)
        return dispatch(
            self.tool,
            Bound(args, kwargs),
            context,
            self.quota,
            timeout_ms=timeout_ms,
            started=self.started,
            on_abandoned=self.abandoned.set,
        )

    def begin(self, *args: object, timeout_ms: int | None = None) -> "asyncio.Task[object]":
        return asyncio.create_task(self.call(*args, timeout_ms=timeout_ms))

    async def idle(self) -> None:
        """Until nothing runs: whoever holds every slot is alone."""
        for _ in range(self.limits.concurrency):
            await self.quota.enter()
        for _ in range(self.limits.concurrency):
            self.quota.leave()


class Stubborn:
    """A tool that does not stop when it is told to, until it is let go."""

    def __init__(self) -> None:
        self.began, self.told, self.let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.says: object = "late"

    async def __call__(self) -> object:
        self.began.set()
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.told.set()
        if isinstance(self.says, BaseException):
            raise self.says
        return self.says


class Stuck:
    """A plain function that does not return until it is let go, and never looks whether it should."""

    def __init__(self, says: Callable[[], object] = lambda: "late") -> None:
        self.began, self.let_go = Bell(), threading.Event()
        self.says = says

    def __call__(self) -> object:
        self.began.ring()
        self.let_go.wait(60)
        return self.says()


async def no_time() -> None:
    raise AssertionError("it was called")
