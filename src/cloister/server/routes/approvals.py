"""Questions that programs wait for, and the answers to them."""

from typing import Annotated, Any, Literal

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from cloister.core.approval import Approval, ApprovalState
from cloister.core.errors import ApprovalClosed, ApprovalNotFound, CloisterError
from cloister.server.answers import Approvals, DecidedAnswer, DecidedMany, answer
from cloister.server.bodies import Decide, DecideMany
from cloister.server.routes.parts import After, Limit
from cloister.server.routing import refusals, router
from cloister.server.visit import Visit, visit_of

routes = router("approvals", "/v1/approvals")
ApprovalId = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_\-]+$")]
State = Literal["pending", "allowed", "denied", "expired", "cancelled"]


@routes.get("", responses={200: {"model": Approvals}, **refusals()}, response_model=None)
async def list_(
    request: Request,
    state: State | None = None,
    session_id: Annotated[str | None, Query(pattern=r"^[a-zA-Z0-9_\-]{1,64}$")] = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """The questions of this tenant's sessions, the oldest first."""
    visit = visit_of(request)
    found = await _of_tenant(visit, await visit.service.cloister.approvals(state=state, session_id=session_id))
    found.sort(key=lambda one: one.id)
    if after is not None:
        # Ids sort by the time at which they were made.
        found = [one for one in found if one.id > after]
    more = {"next_after": found[limit - 1].id} if len(found) > limit else {}
    return answer({"approvals": found[:limit], **more})


async def _of_tenant(visit: Visit, approvals: list[Approval]) -> list[Approval]:
    ours: dict[str, bool] = {}
    for one in approvals:
        if one.session_id not in ours:
            ours[one.session_id] = await visit.service.is_of(visit.tenant, one.session_id)
    return [one for one in approvals if ours[one.session_id]]


@routes.post("/decide", responses={200: {"model": DecidedMany}, **refusals(body=True)}, response_model=None)
async def decide_many(request: Request, body: DecideMany) -> Response:
    """Answer several. Each is decided, or refused, by itself; what became of it is in the same place."""
    visit = visit_of(request)
    results: list[dict[str, Any]] = []
    for one in body.decisions:
        try:
            results.append(await _decided(visit, one.id, one))
        except ApprovalNotFound:
            results.append({"id": one.id, "outcome": "not_found"})
        except CloisterError as error:
            said = {"code": error.code, "message": error.message}
            results.append({"id": one.id, "outcome": "refused", "error": said})
    return answer({"results": results})


@routes.post(
    "/{approval_id}", responses={200: {"model": DecidedAnswer}, **refusals(404, 409, body=True)}, response_model=None
)
async def decide(request: Request, approval_id: ApprovalId, body: Decide) -> Response:
    """Answer one. What became of it is in `outcome`, also when somebody else was first."""
    return answer(await _decided(visit_of(request), approval_id, body))


async def _decided(visit: Visit, approval_id: str, body: Decide) -> dict[str, Any]:
    service = visit.service
    # Also one that was asked before this host began, or by another one.
    await service.approval(visit.tenant, approval_id)
    try:
        done = await service.cloister.decide(approval_id, body.decision, message=body.message, rule=body.rule)
    except ApprovalClosed:
        done = await service.approval(visit.tenant, approval_id)
        outcome = "expired" if done.state is ApprovalState.EXPIRED else "already_decided"
        return {"id": approval_id, "outcome": outcome, "approval": done}
    return {"id": approval_id, "outcome": "denied" if body.decision == "deny" else "executed", "approval": done}
