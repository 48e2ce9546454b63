"""An event: a fact in the past tense, with a number that only grows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Event:
    seq: int
    # `cell.started|yielded|notified|hibernated|woken|completed|terminated|reaped`,
    # `call.requested|progressed|settled`, `approval.required|decided|expired|cancelled`,
    # `events.missed` for a reader that was too slow
    kind: str
    session_id: str
    at: datetime
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])


# kind, session id, data: whoever holds the listeners adds the rest.
Emit: TypeAlias = Callable[[str, str, Mapping[str, Any]], None]
# Whether anybody listens to that session: an event that nobody hears need not be put together.
Heard: TypeAlias = Callable[[str], bool]


def always_heard(_session_id: str) -> bool:
    return True
