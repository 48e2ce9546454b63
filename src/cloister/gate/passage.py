"""One call on its way through the gate: what is known of it so far, and what came of it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cloister.core.approval import Approval
from cloister.core.call import CallStatus, ExternalCallRecord
from cloister.core.capability import SideEffect
from cloister.core.diagnostic import ErrorObject
from cloister.core.digest import digest_json
from cloister.core.language import Language
from cloister.core.light import light
from cloister.core.value import Json
from cloister.gate.budget import Budget
from cloister.ports.engine import Call, Settlement
from cloister.ports.journal import call_key
from cloister.tools.offered import Offered
from cloister.tools.tool import Bound, Tool


@dataclass(frozen=True, slots=True)
class Scope:
    """The session that a gate belongs to, as rules and records see it."""

    session_id: str
    language: Language = Language.PYTHON
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    # The session that rules take it for, if that is another one: see `spawn`.
    acts_for: str | None = None


@light
@dataclass(frozen=True, slots=True)
class Caller:
    """The cell that calls, and what it may still call. A direct call of the host is a cell of one call."""

    cell_id: str
    budget: Budget
    # It goes on from a snapshot: calls that it makes may have been made before, under the same keys.
    woke: bool = False
    # What sources and plugins offered when it began; None for what is offered now.
    offered: Offered | None = None
    # Its waits are written down: what it was told before one is on record with it.
    keeps: bool = False


@dataclass(slots=True)
class Passage:
    call: Call
    call_id: str
    caller: Caller
    # Time in the gate; the wait for a person does not count.
    spent: float = 0.0
    entered: float = field(default_factory=time.monotonic)
    tool: Tool | None = None
    # Bound to names or positions, with handles in the place of secrets.
    arguments: Json = None
    size: int = 0
    has_secrets: bool = False
    bound: Bound | None = None
    request_digest: str = ""
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    # What the tool said that it has used up.
    usage: Mapping[str, int] | None = None
    # What its answer takes.
    answered_bytes: int = 0
    # Who wants to know that its end is on record.
    waiting: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def account(self, usage: Mapping[str, int]) -> None:
        self.usage = usage

    @property
    def name(self) -> str:
        return self.tool.full_name if self.tool is not None else self.call.name

    @property
    def key(self) -> str:
        return call_key(self.caller.cell_id, self.call.number)

    def pause(self) -> None:
        self.spent += time.monotonic() - self.entered

    def record(
        self, status: CallStatus, *, response_digest: str | None = None, error: ErrorObject | None = None
    ) -> ExternalCallRecord:
        return ExternalCallRecord(
            id=self.call_id,
            name=self.name,
            side_effect=self.tool.side_effect if self.tool is not None else SideEffect.NONE,
            duration_ms=round((self.spent + time.monotonic() - self.entered) * 1000, 3),
            status=status,
            # A request that was refused unread has the digest of its name: there is nothing else to vouch for.
            request_digest=self.request_digest or digest_json([self.call.name]),
            response_digest=response_digest,
            error=error,
            usage=self.usage,
        )


@light
@dataclass(frozen=True, slots=True)
class Outcome:
    settlement: Settlement
    # None for Cloister's own functions: nothing left the cell.
    record: ExternalCallRecord | None
    # Whether the journal says just this: then it need be written down nowhere else.
    on_record: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """The call waits for a person. It has not been made."""

    passage: Passage
    approval: Approval
    record: ExternalCallRecord

    def to_json(self) -> dict[str, Any]:
        """What must be kept beside the call to go on with it in another process."""
        passage = self.passage
        return {
            "approval_id": self.approval.id,
            "call_id": passage.call_id,
            "arguments": passage.arguments,
            "size": passage.size,
            "request_digest": passage.request_digest,
            "notes": dict(passage.notes),
        }


Passed: TypeAlias = Outcome | Asked
