"""An event: a fact in the past tense, with a number that only grows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from cloister.core.call import CallStatus
from cloister.core.errors import InvalidInput

# How a call may end: each has its one `record`.
CALL_ENDS = ("call.settled", "call.denied", "call.unknown")


def call_end(status: CallStatus) -> str:
    """The event that a call ends with: it was not allowed, or nobody knows what became of it, or it was settled."""
    match status:
        case CallStatus.DENIED:
            return "call.denied"
        case CallStatus.UNKNOWN:
            return "call.unknown"
        case _:
            return "call.settled"


@dataclass(frozen=True, slots=True)
class Event:
    seq: int
    # `cell.started|yielded|notified|hibernated|woken|completed|terminated|reaped|recovered`,
    # `call.requested|progressed|settled|denied|unknown`, `approval.required|decided|expired|cancelled`,
    # `session.opened|restored|forked|closed`, `catalog.changed`, `source.failed`, `plugin.disabled`,
    # `events.missed` for a reader that was too slow
    kind: str
    session_id: str
    at: datetime
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class EventRetention:
    """How long the log of a store keeps events: none that is older than `max_age_ms`, and no more than `max_events`;
    None for no bound. Looked at once every `every_ms`. Those of a session with cells that have not ended all stay."""

    max_age_ms: int | None = None
    max_events: int | None = None
    every_ms: int = 3_600_000

    def __post_init__(self) -> None:
        for name, least in (("max_age_ms", 0), ("max_events", 0), ("every_ms", 1)):
            value = getattr(self, name)
            if value is None and name != "every_ms":
                continue
            if type(value) is not int or not least <= value < 1 << 53:
                raise InvalidInput(f"{name} must be a whole number of at least {least}, not {value!r}")


# kind, session id, data: whoever holds the listeners adds the rest.
Emit: TypeAlias = Callable[[str, str, Mapping[str, Any]], None]
# Whether anybody listens to that session: an event that nobody hears need not be put together.
Heard: TypeAlias = Callable[[str], bool]


def always_heard(_session_id: str) -> bool:
    return True
