"""Asking the user of a client about an approval, in the ways that the protocol has for it.

A client of the handshake protocol is sent a form while its request waits. To one of the protocol of 2026-07-28 nothing
can be sent: its request is answered with the form, and made again with what was filled in. An answer that is no clear
allow or deny decides nothing: the program goes on waiting.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from cloister.core.approval import Approval, ApprovalState, Decision
from cloister.core.cell import WaitingForApproval
from cloister.core.errors import ApprovalClosed, ApprovalNotFound, CloisterError
from cloister.mcp.answers import described
from cloister.mcp.host import Host
from cloister.sessions import Session
from cloister.sessions.events import EventStream

log = logging.getLogger("cloister.mcp")

_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": ["allow", "deny"]},
        "message": {"type": "string", "title": "What the program should know (optional)"},
    },
    "required": ["decision"],
}
_CLOSED = ("approval.decided", "approval.expired", "approval.cancelled")


def has_forms(context: ServerRequestContext[Any]) -> bool:
    able = context.session.client_capabilities
    if able is None or able.elicitation is None:
        return False
    # A client that says neither has forms; that is how it was before there was another way.
    return able.elicitation.form is not None or able.elicitation.url is None


def is_answered_later(context: ServerRequestContext[Any]) -> bool:
    """Whether the request has to be made again, with what was filled in."""
    return context.session.protocol_version in MODERN_PROTOCOL_VERSIONS


def pending(seen: WaitingForApproval) -> list[Approval]:
    return [approval for approval in seen.approvals if approval.state is ApprovalState.PENDING]


def forms(seen: WaitingForApproval) -> InputRequiredResult:
    """The request will be made again, with the cell's id and what was filled in for each question."""
    asked = {approval.id: ElicitRequest(params=_params(approval)) for approval in pending(seen)}
    return InputRequiredResult(input_requests=dict(asked), request_state=seen.cell_id)


async def take(cloister: Host, questions: Sequence[Approval], responses: Mapping[str, Any]) -> bool:
    """Decide what was filled in, of these questions alone. Whether anything was."""
    decided = False
    for approval in questions:
        answer = responses.get(approval.id)
        if isinstance(answer, ElicitResult):
            decided = await _decide(cloister, approval, answer) or decided
    return decided


async def ask(context: ServerRequestContext[Any], cloister: Host, session: Session, seen: WaitingForApproval) -> bool:
    """Ask about each question, one after the other. Whether any of them is closed now, by this answer or another's."""
    closed = False
    for approval in pending(seen):
        async with session.events() as stream:
            answer = await _ask(context, stream, approval)
        if answer is None:
            closed = True
        else:
            closed = await _decide(cloister, approval, answer) or closed
    return closed


async def _ask(context: ServerRequestContext[Any], stream: EventStream, approval: Approval) -> ElicitResult | None:
    """What the user has filled in; None if the question was closed meanwhile."""
    form = _params(approval)
    asking = asyncio.ensure_future(
        context.session.elicit_form(form.message, form.requested_schema, related_request_id=context.request_id)
    )
    closing = asyncio.ensure_future(_until_closed(stream, approval.id))
    try:
        await asyncio.wait({asking, closing}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        return None
    except (MCPError, ValidationError) as error:
        log.warning("the client could not ask about %s: %s", approval.id, str(error)[:300])
        return ElicitResult(action="cancel")
    finally:
        # Cancelling tells the client that the form is not needed any more.
        for task in (asking, closing):
            task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({asking, closing})


async def _until_closed(stream: EventStream, approval_id: str) -> None:
    async for event in stream:
        if event.kind in _CLOSED and event.data.get("id") == approval_id:
            return


async def _decide(cloister: Host, approval: Approval, answer: ElicitResult) -> bool:
    content = answer.content or {}
    decision, message = content.get("decision"), content.get("message")
    if answer.action != "accept" or decision not in (Decision.ALLOW, Decision.DENY):
        return False
    try:
        said = message if isinstance(message, str) and message else None
        await cloister.decide(approval.id, str(decision), message=said)
    except (ApprovalClosed, ApprovalNotFound):
        # Somebody else was there first.
        return True
    except CloisterError as error:
        log.warning("the decision about %s was refused: %s", approval.id, error.message)
        return False
    return True


def _params(approval: Approval) -> ElicitRequestFormParams:
    message = f"A program wants to call {described(approval)}"
    return ElicitRequestFormParams(message=message, requested_schema=_FORM)
