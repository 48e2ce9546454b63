"""The journal port: the record of calls that makes "nothing lost, nothing twice" true.

An intent is on record before the tool is called, and its settlement before the program sees it. A call that has
an intent and no settlement is *unknown*: it may have happened. Reads that may be made again can be ahead of their
record for a moment: see `settle_soon`.

What a caller may rely on:
- When `intend` or `settle` returns, the entry is as durable as the journal is; when it raises, nothing has changed.
- A key has one intent: the first, which stays as it was written. The same request under the same key is one more
  attempt, if the call is idempotent and its end is not known: it has no settlement, or one that says `unknown`, which
  the attempt takes away. All else under that key is refused with `InvalidInput`: another request, a call that must not
  be made twice, a call whose end is known.
- A key has one settlement: the first. A second is refused with `InvalidInput`, and so is one without an intent, or
  with `approval_pending`, which is no end. Of a hundred that come at once, one is written.
- A call that is not settled is never forgotten. A journal may forget settled ones, the oldest first, if it says so.
- Values come back equal to what was written. What is handed over belongs to the journal: nobody changes it.

What a caller must do: arguments hold handles, never the values of secrets; results are scrubbed before they come
here; and whatever becomes of a call, cancellation included, its intent gets a settlement while the process lives.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cloister.core.call import CallStatus
from cloister.core.capability import SideEffect
from cloister.core.diagnostic import ErrorObject
from cloister.core.light import light
from cloister.core.value import Json


def call_key(cell_id: str, number: int) -> str:
    """A call's identity, and the idempotency key that its tool is given."""
    return f"{cell_id}/{number}"


@light
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

    def asks_the_same_as(self, other: "Intent") -> bool:
        """Whether both are attempts at one request. The call's id and the time are those of an attempt."""
        return (self.key, self.session_id, self.cell_id, self.number, self.name, self.request_digest) == (
            other.key,
            other.session_id,
            other.cell_id,
            other.number,
            other.name,
            other.request_digest,
        )


@light
@dataclass(frozen=True, slots=True)
class Settled:
    """How a call ended: `value` when `status` is ok, `error` otherwise."""

    key: str
    status: CallStatus
    at_ms: int
    value: Json = None
    error: ErrorObject | None = None
    response_digest: str | None = None
    usage: Mapping[str, int] | None = None


@light
@dataclass(frozen=True, slots=True)
class Entry:
    intent: Intent
    settled: Settled | None = None
    attempts: int = 1


class Journal(Protocol):
    @property
    def remembers_all(self) -> bool:
        """Whether a call that has no entry here was never made: nothing is forgotten, not even by a new process."""
        ...

    async def intend(self, intent: Intent) -> None:
        """Before the tool is called. Raises `InvalidInput` for what the key does not allow."""
        ...

    async def settle(self, settled: Settled) -> None:
        """Before anybody sees how the call ended. Raises `InvalidInput` for what the key does not allow."""
        ...

    async def settle_soon(self, settled: Settled) -> None:
        """As `settle`, of an idempotent read whose program goes on at once: it may get on record together with what the
        program does next, which never does without it. Raises if one of that program's before it was lost."""
        ...

    async def look_up(self, key: str) -> Entry | None:
        """None for a key that nothing is known of."""
        ...

    async def of_cell(self, cell_id: str) -> list[Entry]:
        """In the order of their numbers."""
        ...
