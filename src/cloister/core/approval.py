"""An approval: a pending question to a person about exactly one call, and what was answered."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from cloister.core.capability import SideEffect
from cloister.core.errors import InvalidInput


class ApprovalState(StrEnum):
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
        raise InvalidInput(f"unknown decision {word!r}: use one of {choices}") from None


def parse_state(word: object) -> ApprovalState:
    try:
        return ApprovalState(word)
    except ValueError:
        choices = ", ".join(f"'{choice}'" for choice in ApprovalState)
        raise InvalidInput(f"unknown state of an approval {word!r}: use one of {choices}") from None


@dataclass(frozen=True, slots=True)
class Approval:
    """`arguments` are as the tool would get them, but with handles in the place of secrets.

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


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of one decision of many: the approval as it is now, or why the decision was refused."""

    id: str
    approval: Approval | None = None
    # `code` and `message` of the refusal.
    error: Mapping[str, str] | None = None

    @property
    def ok(self) -> bool:
        return self.error is None
