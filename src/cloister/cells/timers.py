"""The sleeps of one cell: any number of them on a single task, because a program may start ten thousand."""

import asyncio
import heapq

from cloister.ports.clock import Clock


class Timers:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: list[tuple[float, int]] = []
        self._alarm: asyncio.Task[None] | None = None
        self._alarm_at = 0.0

    def __bool__(self) -> bool:
        return bool(self._due)

    def add(self, number: int, seconds: object) -> None:
        """The call `number` ends after `seconds`; what is no time at all ends at once."""
        wait = float(seconds) if isinstance(seconds, (int, float)) and seconds > 0 else 0.0
        heapq.heappush(self._due, (self._clock.monotonic() + wait, number))

    def alarm(self) -> "asyncio.Task[None] | None":
        """A task that ends when the next of them is due; None when there is none."""
        if not self._due:
            return None
        at = self._due[0][0]
        if self._alarm is None or self._alarm.done() or at < self._alarm_at:
            self.cancel()
            self._alarm_at = at
            self._alarm = asyncio.create_task(self._clock.sleep(max(at - self._clock.monotonic(), 0.0)))
        return self._alarm

    def ended(self) -> list[int]:
        """The numbers of those that are due now, and no more."""
        now = self._clock.monotonic()
        out: list[int] = []
        # The alarm may ring a hair early; whoever it rang for is due.
        while self._due and (self._due[0][0] <= now or self._due[0][0] <= self._alarm_at):
            out.append(heapq.heappop(self._due)[1])
        return out

    def cancel(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
