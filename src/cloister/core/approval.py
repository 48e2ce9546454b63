"""An approval: a pending question to a person about exactly one call, and what was answered."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from cloister.core.capability import SideEffect
from cloister.core.errors import InvalidInput


class ApprovalState(StrEnum):
    """Left at most once, but for one case: what was allowed and not yet used may still expire or be cancelled."""

    PENDING = "pending"
    ALLOWED = "allowed"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Decision(StrEnum):
    """What a person may answer: this call once, this call and those like it, or no."""

    ALLOW = "allow"
    ALLOW_ALWAYS = "allow_always"
    DENY = "deny"


def parse_decision(word: object) -> Decision:
    try:
        return Decision(word)
    except ValueError:
        choices = ", ".join(f"'{choice}'" for choice in Decision)
        raise InvalidInput(f"unknown decision {_shown(word)}: use one of {choices}") from None


def parse_state(word: object) -> ApprovalState:
    try:
        return ApprovalState(word)
    except ValueError:
        choices = ", ".join(f"'{choice}'" for choice in ApprovalState)
        raise InvalidInput(f"unknown state of an approval {_shown(word)}: use one of {choices}") from None


def _shown(word: object) -> str:
    shown = repr(word)
    return shown if len(shown) <= 80 else shown[:77] + "..."


@dataclass(frozen=True, slots=True)
class Approval:
    """`arguments` are as the tool would get them, but with handles in the place of secrets; None when they were large
    and the approval closed a long time ago.

    `request_digest` binds the answer to exactly this: capability, arguments, session, call and policy. If any of
    them is another when the call goes on, the answer does not count.
    """

    id: str
    session_id: str
    cell_id: str
    call_id: str
    # The full name, as a program writes it.
    capability: str
    arguments: Any
    side_effect: SideEffect
    # Why a person is asked: which rule, with which values.
    reason: str
    request_digest: str
    created_at: datetime
    expires_at: datetime | None = None
    state: ApprovalState = ApprovalState.PENDING
    decision: Decision | None = None
    decided_at: datetime | None = None
    # What the person wanted the program to know.
    message: str | None = None
    # With `allow_always`: which other calls count as allowed from now on. None: those with the same arguments.
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What an approver says when a word is not enough."""

    decision: Decision | str
    message: str | None = None
    rule: str | None = None


# None means "I cannot say": the question stays open for somebody else.
Reply: TypeAlias = Answer | Decision | str | None
# Asked about each approval inside the host's process; a plain function is asked in a thread of its own.
Approver: TypeAlias = Callable[[Approval], Reply | Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of one decision of many: the approval as it is now, or why the decision was refused."""

    id: str
    approval: Approval | None = None
    # `code` and `message` of the refusal, and its `hint` if it has one.
    error: Mapping[str, str] | None = None

    @property
    def ok(self) -> bool:
        return self.error is None
