"""Something to be done some time from now, unless it is put off before, as it nearly always is.

What was set with the event loop stays there when the alarm is put off, and serves the next one that is due later:
setting a timer costs more than looking in vain once in a while.
"""

import asyncio
from collections.abc import Callable


class Alarm:
    """One at a time, on one event loop."""

    __slots__ = ("_due", "_ring", "_timer")

    def __init__(self) -> None:
        self._due = 0.0
        self._ring: Callable[[], object] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float, ring: Callable[[], object]) -> None:
        """Call `ring` then."""
        loop = asyncio.get_running_loop()
        self._due, self._ring = loop.time() + seconds, ring
        if self._timer is not None and self._timer.when() > self._due:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_at(self._due, self._look)

    def put_off(self) -> None:
        """Nothing is to be done any more."""
        self._ring = None

    def close(self) -> None:
        self._ring = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._ring is None:
            return
        loop = asyncio.get_running_loop()
        if self._due > loop.time():
            self._timer = loop.call_at(self._due, self._look)
        else:
            ring, self._ring = self._ring, None
            ring()
