"""Attachments: bytes that a session refers to, named by the digest of what they are."""

from typing import Annotated

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from cloister.core.errors import AttachmentNotFound
from cloister.core.wire import to_json
from cloister.server.answers import AttachmentContent, AttachmentInfo, Attachments, Destroyed, answer
from cloister.server.bodies import AddAttachment
from cloister.server.routes.parts import SessionId, decoded, encoded
from cloister.server.routing import refusals, router
from cloister.server.visit import visit_of

routes = router("attachments", "/v1/sessions/{session_id}/attachments")
AttachmentId = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]


@routes.get("", responses={200: {"model": Attachments}, **refusals(404, 409)}, response_model=None)
async def list_(request: Request, session_id: SessionId) -> Response:
    """The oldest first."""
    session = await visit_of(request).session(session_id)
    return answer({"attachments": await session.attachments.list()})


@routes.post(
    "",
    status_code=201,
    responses={201: {"model": AttachmentInfo}, **refusals(404, 409, body=True)},
    response_model=None,
)
async def add(request: Request, session_id: SessionId, body: AddAttachment) -> Response:
    """`content` is base64. Bytes that are there already get this media type and name."""
    session = await visit_of(request).session(session_id)
    made = await session.attachments.add(decoded(body.content, "`content`"), body.media_type, name=body.name)
    return answer(made, 201, {"location": f"/v1/sessions/{session.id}/attachments/{made.id}"})


@routes.get(
    "/{attachment_id}", responses={200: {"model": AttachmentContent}, **refusals(404, 409)}, response_model=None
)
async def get(request: Request, session_id: SessionId, attachment_id: AttachmentId) -> Response:
    """Its bytes, as base64."""
    session = await visit_of(request).session(session_id)
    info = await session.attachments.stat(attachment_id)
    data = await session.attachments.get(attachment_id)
    return answer({**to_json(info), "content": encoded(data)})


@routes.delete(
    "/{attachment_id}", responses={200: {"model": Destroyed}, **refusals(404, 409, body=True)}, response_model=None
)
async def delete(request: Request, session_id: SessionId, attachment_id: AttachmentId) -> Response:
    """The session refers to it no more."""
    session = await visit_of(request).session(session_id)
    if not await session.attachments.delete(attachment_id):
        raise AttachmentNotFound(f"session {session.id!r} has no attachment {attachment_id}")
    return answer({"deleted": True})
