"""What a tool may know about the call it answers: a parameter annotated `CallContext` receives it.

Secrets need nothing from here: a tool's arguments have their values in place already.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cloister.core.light import light


def unheard(_message: str, _fraction: float | None) -> None:
    """Nobody watches."""


@light
@dataclass(frozen=True, slots=True)
class CallContext:
    """May be used from any thread."""

    session_id: str
    cell_id: str
    call_id: str
    # The tool's full name, as the program wrote it.
    name: str
    # The same whenever this very call is made again: give it to whatever must not do a thing twice.
    idempotency_key: str
    # On the scale of `time.monotonic()`: after this the program no longer waits.
    deadline: float
    # What hooks noted about the call.
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    report: Callable[[str, float | None], None] = field(default=unheard, repr=False)
    account: Callable[[Mapping[str, int]], None] = field(default=lambda _usage: None, repr=False)
    wait: Callable[[Callable[[], None]], None] = field(default=lambda _heard: None, repr=False)
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the answer any more. An async tool is cancelled besides; a plain function should
        look here from time to time."""
        return self._stop.is_set()

    @property
    def remaining_ms(self) -> float:
        return max(self.deadline - time.monotonic(), 0.0) * 1000

    def progress(self, message: str, fraction: float | None = None) -> None:
        """Tell whoever watches how far this is; `fraction` is between 0 and 1."""
        self.report(message, fraction)

    def used(self, **counts: int) -> None:
        """Say what the call has used up, for its record: `used(input_tokens=12)`. The last word counts."""
        if any(type(count) is not int or count < 0 for count in counts.values()):
            raise ValueError("what a call has used is told in whole numbers that are not negative")
        self.account(counts)

    def when_settled(self, heard: Callable[[], None]) -> None:
        """Be told once how the call ended is on record, so that it is never made again. Not told otherwise."""
        self.wait(heard)

    def cancel(self) -> None:
        """For the gate: from now on `cancelled` is true."""
        self._stop.set()
