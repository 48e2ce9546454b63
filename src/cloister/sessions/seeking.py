"""Sources that were missing when somebody wanted them, and can be done without: tried again until they are there.

For each there is one task, however many sessions miss it, and a pause that grows. It goes when nobody misses the source
any more. What happens to a source once it was entered is not looked after here: it keeps its own other side.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cloister.core.errors import CloisterError
from cloister.ports.clock import Clock

log = logging.getLogger("cloister.sessions")
T = TypeVar("T")
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


@dataclass(slots=True, eq=False)
class _Sought(Generic[T]):
    # Why it is missing, as far as is known.
    why: str
    wanted: list[Callable[[T], None]] = field(default_factory=list[Callable[[T], None]])
    task: "asyncio.Task[None] | None" = None


class Seeking(Generic[T]):
    """By the identity of the source."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # So that many hosts do not come back to one server all at once.
        self._chance = random.Random()  # noqa: S311 - no secret depends on it
        self._sought: dict[int, _Sought[T]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def seek(
        self, key: int, attempt: Callable[[], Awaitable[object]], came: Callable[[T], None], why: str
    ) -> Callable[[], None]:
        """Call `came` once it is there; what is returned ends that. `attempt` tries, and has `found` called."""
        sought = self._sought.get(key)
        if sought is None:
            sought = self._sought[key] = _Sought(why)
            sought.task = asyncio.get_running_loop().create_task(self._try(sought, attempt))
        sought.wanted.append(came)

        def stop() -> None:
            if came in sought.wanted:
                sought.wanted.remove(came)
            if not sought.wanted and self._sought.get(key) is sought:
                self._end(key)

        return stop

    def why(self, key: int) -> str | None:
        """Why it is missing; None for what nobody seeks."""
        sought = self._sought.get(key)
        return sought.why if sought is not None else None

    def found(self, key: int, what: T) -> None:
        """It is there: whoever has missed it has it now."""
        if key in self._sought:
            for came in self._end(key):
                came(what)

    async def close(self) -> None:
        for key in list(self._sought):
            self._end(key)
        if self._ending:
            await asyncio.wait(self._ending)

    # -- inside --------------------------------------------------------------------------------------------------

    def _end(self, key: int) -> list[Callable[[T], None]]:
        sought = self._sought.pop(key)
        task = sought.task
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        wanted, sought.wanted = sought.wanted, []
        return wanted

    async def _try(self, sought: "_Sought[T]", attempt: Callable[[], Awaitable[object]]) -> None:
        failures = 0
        while True:
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**failures) * self._chance.uniform(0.5, 1.0)
            await self._clock.sleep(pause)
            try:
                await attempt()
                return
            except CloisterError as error:
                sought.why = error.message
            # Containment: a source is the host's code, and nobody awaits this task.
            except Exception as error:
                log.exception("a source that is missing cannot be tried")
                sought.why = type(error).__name__
            failures = min(failures + 1, 20)
