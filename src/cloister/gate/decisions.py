"""Decisions as people write them: what may stand in one, and what is said about one that comes too late."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from cloister.core.approval import Approval, ApprovalState, Decided
from cloister.core.errors import ApprovalClosed, CloisterError, InvalidInput
from cloister.core.wire import format_time

MAX_MESSAGE = 2_000
_FIELDS = ("id", "decision", "message", "rule")


def check_message(message: object) -> None:
    if message is None:
        return
    if not isinstance(message, str):
        raise InvalidInput(f"the message of a decision is text, not {type(message).__name__}")
    if len(message) > MAX_MESSAGE:
        raise InvalidInput(f"the message of a decision has {len(message)} characters; {MAX_MESSAGE} are allowed")
    try:
        message.encode()
    except UnicodeEncodeError:
        # A program could not be given it.
        raise InvalidInput("the message of a decision is not valid text: it has a lone surrogate in it") from None


def mappings(decisions: object) -> list[Mapping[Any, Any]]:
    """The parts of a batch. All of them are looked at before the first is decided."""
    if isinstance(decisions, (str, bytes, Mapping)) or not isinstance(decisions, Iterable):
        raise InvalidInput(
            f"decisions are given as a list, not as {type(cast('object', decisions)).__name__}",
            hint='[{"id": "apr_…", "decision": "allow"}, …]',
        )
    items: list[Mapping[Any, Any]] = []
    for number, item in enumerate(cast("Iterable[object]", decisions), 1):
        if not isinstance(item, Mapping):
            raise InvalidInput(f"decision {number} is {type(item).__name__}, not an object with an id and a decision")
        items.append(cast("Mapping[Any, Any]", item))
    return items


def refused(approval_id: str, refusal: CloisterError) -> Decided:
    """One of many that was not decided, and why."""
    error = {"code": refusal.code, "message": refusal.message}
    return Decided(approval_id, error=error if refusal.hint is None else {**error, "hint": refusal.hint})


def check_fields(item: Mapping[Any, Any]) -> None:
    unknown = sorted(repr(key) for key in item if key not in _FIELDS)
    if unknown:
        raise InvalidInput(f"a decision has no field {', '.join(unknown)}; it has {', '.join(_FIELDS)}")
    for needed in ("id", "decision"):
        if needed not in item:
            raise InvalidInput(f"a decision needs the field {needed!r}")
    if not isinstance(item["id"], str):
        raise InvalidInput(f"the id of an approval is text, not {type(item['id']).__name__}")


def too_late(approval: Approval) -> ApprovalClosed:
    """Why this approval takes no decision any more."""
    if approval.state is ApprovalState.EXPIRED and approval.expires_at is not None:
        how = f"expired at {format_time(approval.expires_at)}"
    elif approval.state is ApprovalState.CANCELLED or approval.decided_at is None:
        how = f"was {approval.state}"
    else:
        how = f"was decided before: '{approval.decision}' at {format_time(approval.decided_at)}"
    return ApprovalClosed(f"approval {approval.id!r} {how}", hint="nothing was changed by this decision")
