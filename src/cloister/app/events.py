"""Events on their way to the host's listener: numbered, stamped, and never in anybody's way."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from cloister.core.errors import InvalidInput
from cloister.core.event import Event
from cloister.ports.clock import Clock, moment

log = logging.getLogger("cloister.app")
EventListener: TypeAlias = Callable[[Event], None]


class Events:
    def __init__(self, clock: Clock, listener: EventListener) -> None:
        if not callable(listener):
            raise InvalidInput(f"on_event is a function that takes an event, not {type(listener).__name__}")
        self._clock = clock
        self._listener = listener
        self._seq = 0

    def emit(self, kind: str, session_id: str, data: Mapping[str, Any]) -> None:
        self._seq += 1
        try:
            self._listener(Event(self._seq, kind, session_id, moment(self._clock.now_ms()), data))
        # Containment: a listener is the host's; no call may fail because it does.
        except Exception:
            log.exception("the listener of events failed on %s", kind)
