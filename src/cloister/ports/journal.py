"""The journal port: the record of calls that makes "nothing lost, nothing twice" true.

An intent is on record before the tool is called, and its settlement before the program sees it. A call that has
an intent and no settlement is *unknown*: it may have happened.

What a caller may rely on:
- When `intend` or `settle` returns, the entry is as durable as the journal is; when it raises, it is not there.
- A key has one intent. Making an idempotent call again raises its `attempts`; a second intent for another request
  under the same key is refused with `InvalidInput`. The first settlement of a key stands; a second is refused too.
- Arguments hold handles, never the values of secrets; results are scrubbed before they come here.
"""

from dataclasses import dataclass
from typing import Protocol

from cloister.core.call import CallStatus
from cloister.core.capability import SideEffect
from cloister.core.diagnostic import ErrorObject
from cloister.core.value import Json


def call_key(cell_id: str, number: int) -> str:
    """A call's identity, and the idempotency key that its tool is given."""
    return f"{cell_id}/{number}"


@dataclass(frozen=True, slots=True)
class Intent:
    key: str
    call_id: str
    session_id: str
    cell_id: str
    number: int
    name: str
    side_effect: SideEffect
    idempotent: bool
    arguments: Json
    request_digest: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Settled:
    """How a call ended: `value` when `status` is ok, `error` otherwise."""

    key: str
    status: CallStatus
    at_ms: int
    value: Json = None
    error: ErrorObject | None = None
    response_digest: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    intent: Intent
    settled: Settled | None = None
    attempts: int = 1


class Journal(Protocol):
    async def intend(self, intent: Intent) -> None: ...

    async def settle(self, settled: Settled) -> None: ...

    async def look_up(self, key: str) -> Entry | None: ...

    async def of_cell(self, cell_id: str) -> list[Entry]:
        """In the order of their numbers."""
        ...
