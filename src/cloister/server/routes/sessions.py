"""Sessions: made, found, described, copied, and what programs there may call."""

from collections.abc import AsyncGenerator
from typing import Annotated, Any, cast

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from cloister.core.errors import InvalidInput, SessionExists
from cloister.core.file import InitialFile
from cloister.core.ids import check_session_id
from cloister.core.session import SessionMeta
from cloister.core.wire import to_json
from cloister.server.answers import Catalog, Destroyed, Sessions, Snapshot, answer
from cloister.server.bodies import ChangeSession, CreateSession, FirstFile, Fork, Nothing, Restore
from cloister.server.routes.parts import After, Limit, SessionId, decoded, encoded, narrowed
from cloister.server.routing import refusals, router
from cloister.server.visit import Visit, visit_of
from cloister.sessions import Session

routes = router("sessions", "/v1/sessions")
_PAGE = 500
_META: dict[int | str, dict[str, Any]] = {200: {"model": SessionMeta}}
_MADE: dict[int | str, dict[str, Any]] = {201: {"model": SessionMeta}}


def _made(session: Session) -> Response:
    return answer(session.meta(), 201, {"location": f"/v1/sessions/{session.id}"})


@routes.post("", status_code=201, responses={**_MADE, **refusals(409, body=True)}, response_model=None)
async def create(request: Request, body: CreateSession | None = None) -> Response:
    """A new session."""
    visit, body = visit_of(request), body or CreateSession()
    service = visit.service
    session_id = body.id if body.id is not None else service.ids.new("ses_")
    if await service.cloister.stored_session(check_session_id(session_id)) is not None:
        raise SessionExists(f"there is a session {session_id!r} already", hint="choose another id, or leave it out")
    session = await service.cloister.open_session(
        session_id,
        language=body.language,
        limits=narrowed(service.base_limits, body.limits),
        type_check=body.type_check,
        title=body.title,
        labels=body.labels,
        tenant=visit.owner,
        durability=body.durability,
        files={path: _first(path, file) for path, file in body.files.items()},
    )
    return _made(session)


def _first(path: str, file: FirstFile) -> InitialFile:
    content = decoded(file.content, f"the file {path!r}") if file.encoding == "base64" else file.content
    return InitialFile(content, file.read_only)


@routes.get("", responses={200: {"model": Sessions}, **refusals()}, response_model=None)
async def list_(
    request: Request,
    limit: Limit = 100,
    after: After = None,
    label: Annotated[str | None, Query(max_length=600, description="`name=text`: those with that label.")] = None,
) -> Response:
    """The sessions of this tenant, in the order of their ids."""
    visit = visit_of(request)
    name, equals, text = (label or "").partition("=")
    if label is not None and not equals:
        raise InvalidInput(f"{label!r} is no label", hint="write label=team=a for those whose `team` is `a`")
    found: list[SessionMeta] = []
    async for meta in _all(visit, after):
        if label is None or meta.labels.get(name) == text:
            found.append(meta)
            if len(found) > limit:
                break
    more = {"next_after": found[limit - 1].id} if len(found) > limit else {}
    return answer({"sessions": found[:limit], **more})


async def _all(visit: Visit, after: str | None) -> AsyncGenerator[SessionMeta, None]:
    """As they are here where they are open, and otherwise as they are written down."""
    cloister = visit.service.cloister
    open_here = {meta.id: meta for meta in await cloister.list_sessions() if meta.tenant == visit.owner}
    unkept = sorted(name for name in open_here if after is None or name > after)
    place = 0
    while True:
        page = await cloister.stored_sessions(tenant=visit.owner, after=after, limit=_PAGE)
        for kept in page:
            while place < len(unkept) and unkept[place] < kept.id:
                yield open_here[unkept[place]]
                place += 1
            if place < len(unkept) and unkept[place] == kept.id:
                place += 1
            yield open_here.get(kept.id, kept)
        if len(page) < _PAGE:
            break
        after = page[-1].id
    for name in unkept[place:]:
        yield open_here[name]


@routes.post("/restore", status_code=201, responses={**_MADE, **refusals(409, body=True)}, response_model=None)
async def restore(request: Request, body: Restore) -> Response:
    """A new session from a snapshot of this installation and tenant."""
    visit = visit_of(request)
    cloister = visit.service.cloister
    limits = narrowed(visit.service.base_limits, body.limits) if body.limits is not None else None
    data = decoded(body.snapshot, "the snapshot")
    return _made(await cloister.restore_session(data, session_id=body.id, limits=limits, tenant=visit.owner))


@routes.get("/{session_id}", responses={**_META, **refusals(404)}, response_model=None)
async def get(request: Request, session_id: SessionId) -> Response:
    """What is known of it. It is not opened for that."""
    visit = visit_of(request)
    cloister = visit.service.cloister
    found = cloister.find(session_id)
    meta = found.meta() if found is not None else await cloister.stored_session(session_id)
    if meta is None or meta.tenant != visit.owner:
        raise visit.service.no_session(session_id)
    return answer(meta)


@routes.patch("/{session_id}", responses={**_META, **refusals(404, 409, body=True)}, response_model=None)
async def change(request: Request, session_id: SessionId, body: ChangeSession) -> Response:
    """Another title, or other labels in place of those that it has."""
    visit = visit_of(request)
    session = await visit.session(session_id)
    await session.describe(**body.said())
    return answer(session.meta())


@routes.delete(
    "/{session_id}", responses={200: {"model": Destroyed}, **refusals(404, 409, body=True)}, response_model=None
)
async def delete(request: Request, session_id: SessionId) -> Response:
    """It and all that it holds is gone, for good."""
    visit = visit_of(request)
    if not await visit.service.is_of(visit.tenant, session_id):
        raise visit.service.no_session(session_id)
    if not await visit.service.cloister.destroy_session(session_id):
        raise SessionExists(f"session {session_id!r} is open in another process", hint="close it there first")
    return answer({"deleted": True})


@routes.post(
    "/{session_id}/snapshot", responses={200: {"model": Snapshot}, **refusals(404, 409, body=True)}, response_model=None
)
async def snapshot(request: Request, session_id: SessionId, body: Nothing | None = None) -> Response:
    """The session as bytes that `restore` takes."""
    del body
    session = await visit_of(request).session(session_id)
    data = await session.snapshot()
    return answer({"session_id": session.id, "snapshot": encoded(data), "size_bytes": len(data)})


@routes.post(
    "/{session_id}/fork", status_code=201, responses={**_MADE, **refusals(404, 409, body=True)}, response_model=None
)
async def fork(request: Request, session_id: SessionId, body: Fork | None = None) -> Response:
    """A new session that is as this one is, or as it was `at` the end of a cell or a call."""
    body = body or Fork(id=None, at=None)
    session = await visit_of(request).session(session_id)
    return _made(await session.fork(body.at, session_id=body.id))


@routes.get("/{session_id}/catalog", responses={200: {"model": Catalog}, **refusals(404, 409)}, response_model=None)
async def catalog(request: Request, session_id: SessionId) -> Response:
    """What programs of this session may call."""
    session = await visit_of(request).session(session_id)
    tools: list[dict[str, Any]] = []
    for one in session.tools.capabilities():
        said = cast("dict[str, Any]", to_json(one))
        tools.append({**said, "name": one.full_name})
    return answer(
        {
            "tools": tools,
            "sources": list(session.sources),
            "stubs": session.stubs,
            "preamble": session.preamble().text,
        }
    )
