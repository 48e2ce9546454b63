"""A warden watches one worker process while it runs a step, and kills it when its time is up.

It trusts nothing inside the worker: wall time is the host's clock, processor time is the kernel's account of
that process, and the kill is SIGKILL through a pidfd, so that a recycled pid is never hit.
"""

import asyncio
import math
import os
import select
import signal
import time
from typing import Literal
from weakref import WeakKeyDictionary

from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject

Verdict = Literal["TIMEOUT_WALL", "TIMEOUT_CPU", "INTERRUPTED"]

# The interpreter's own limit should speak first, as it knows where the program was.
CPU_GRACE_MS = 100.0
_ROUND_SECONDS = 0.02

_MESSAGES: dict[str, tuple[str, str | None]] = {
    "TIMEOUT_WALL": ("the program ran longer than its wall time", "do less in one cell, or ask for a larger wall_ms"),
    "TIMEOUT_CPU": (
        "the program used more than its processor time",
        "do less in one cell, or ask for a larger cpu_ms",
    ),
    "INTERRUPTED": ("the program was stopped by its host", None),
}


class _Rounds:
    """Looks after every worker that is watched, fifty times a second, while there is one.

    A timer for each step would cost more than all the rest of the watching.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.watched: set[Warden] = set()
        self.walking = False

    def begin(self) -> None:
        self.walking = True
        self._loop.call_later(_ROUND_SECONDS, self._walk)

    def _walk(self) -> None:
        now = time.monotonic()
        for warden in tuple(self.watched):
            warden.look(now)
        self.walking = False
        if self.watched:
            self.begin()


_rounds: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Rounds]" = WeakKeyDictionary()


def _rounds_of(loop: asyncio.AbstractEventLoop) -> _Rounds:
    found = _rounds.get(loop)
    if found is None:
        found = _rounds[loop] = _Rounds(loop)
    return found


class Warden:
    """One worker process, from its birth to its end."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._clock = (~pid << 3) | 2  # the kernel's id of that process's CPU clock
        self._pidfd: int | None = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        try:
            self._status: int | None = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._status = None
        self.verdict: Verdict | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rounds: _Rounds | None = None
        self._ends = self._cpu_ends = math.inf
        self._closed = False
        self._peak = 0

    @property
    def alive(self) -> bool:
        """Whether the process still runs, as far as the kernel knows this instant."""
        try:
            if self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, 0)
            else:
                os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    @property
    def is_over(self) -> bool:
        """Whether the process has ended, even if nobody has buried it yet. False where the kernel does not say."""
        if self._pidfd is None:
            return False
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def cpu_ms(self) -> float:
        """Processor time the worker has used since it started; 0 where the kernel does not say."""
        try:
            return time.clock_gettime(self._clock) * 1000
        except OSError:
            return 0.0

    def peak_bytes(self, cpu_ms: float = math.inf) -> int:
        """The most resident memory the worker has held, its interpreter included.

        `cpu_ms` is what it computed since it was last asked: in a blink it cannot have grown by much, and asking
        the kernel costs a tenth of a small run.
        """
        if cpu_ms >= 1.0 or self._peak == 0:
            self._peak = self._read_peak()
        return self._peak

    def _read_peak(self) -> int:
        if self._status is None:
            return 0
        try:
            text = os.pread(self._status, 4096, 0)
        except OSError:
            return 0
        at = text.find(b"VmHWM:")
        return int(text[at + 6 : text.find(b"kB", at)]) * 1024 if at >= 0 else 0

    def watch(self, wall_ms: float, cpu_ms: float, used_ms: float | None = None) -> None:
        """From now on: kill after `wall_ms`, or once the worker has used `cpu_ms` more and the grace. `used_ms` is what
        it had used just now, if that is known: asking the kernel has its price."""
        self.verdict = None
        self._ends = time.monotonic() + wall_ms / 1000
        self._cpu_ends = (self.cpu_ms() if used_ms is None else used_ms) + cpu_ms + CPU_GRACE_MS
        loop = asyncio.get_running_loop()
        rounds = self._rounds
        if rounds is None or loop is not self._loop:
            self._loop, self._rounds = loop, rounds = loop, _rounds_of(loop)
        rounds.watched.add(self)
        if not rounds.walking:
            rounds.begin()

    def look(self, now: float) -> None:
        """Kill the worker if its time is up."""
        if now >= self._ends:
            self.kill("TIMEOUT_WALL")
        elif self.cpu_ms() >= self._cpu_ends:
            self.kill("TIMEOUT_CPU")

    def rest(self) -> None:
        """The step is over: stop watching."""
        if self._rounds is not None:
            self._rounds.watched.discard(self)

    def kill(self, verdict: Verdict | None = None) -> None:
        if verdict is not None and self.verdict is None:
            self.verdict = verdict
        try:
            if self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            elif not self._closed:
                os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self) -> None:
        """Forget the process. Its descriptors go back; the process itself is its spawner's to reap."""
        self.rest()
        self._closed = True
        for fd in (self._pidfd, self._status):
            if fd is not None:
                os.close(fd)
        self._pidfd = self._status = None


def verdict_error(verdict: Verdict) -> ErrorObject:
    message, hint = _MESSAGES[verdict]
    return ErrorObject(code=Code(verdict), message=message, hint=hint)
