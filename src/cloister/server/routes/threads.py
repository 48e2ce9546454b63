"""Threads: conversations, made, found, changed, copied, and what happens in them as a stream."""

from typing import Annotated, Any, TypeAlias

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from cloister.core.errors import InvalidInput
from cloister.server.answers import answer
from cloister.server.feeds import ThreadFeed
from cloister.server.routes.parts import STREAM, LastEventId, SinceSeq, begins_after
from cloister.server.routing import refusals, router
from cloister.server.sse import Streaming
from cloister.server.thread_answers import CompactionItem, Thread, ThreadDetail, Threads
from cloister.server.thread_bodies import ChangeThread, Compact, CreateThread, ForkThread
from cloister.server.visit import visit_of
from cloister.threads import Threads as Kept

routes = router("threads", "/v1/threads")
ThreadId: TypeAlias = Annotated[str, Path(alias="thread_id", min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_\-]+$")]
_THREAD: dict[int | str, dict[str, Any]] = {200: {"model": Thread}}
_MADE: dict[int | str, dict[str, Any]] = {201: {"model": Thread}}


def threads_of(request: Request) -> Kept:
    """Raises `NotKept` where nothing is written down."""
    return visit_of(request).service.cloister.threads


def _made(thread: Thread) -> Response:
    return answer(thread, 201, {"location": f"/v1/threads/{thread.id}"})


@routes.post("", status_code=201, responses={**_MADE, **refusals(404, 409, body=True)}, response_model=None)
async def create(request: Request, body: CreateThread | None = None) -> Response:
    """A new thread. Its programs live in the session that `session_id` names, or in one that is made for it."""
    body = body or CreateThread()
    return _made(await threads_of(request).create(body.params(), tenant=visit_of(request).owner))


@routes.get("", responses={200: {"model": Threads}, **refusals(409)}, response_model=None)
async def list_(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
    after: Annotated[
        str | None, Query(max_length=64, description="What `next_after` was, for those that come next.")
    ] = None,
    search: Annotated[
        str | None, Query(max_length=500, description="Those with that in their titles, small or large.")
    ] = None,
    archived: Annotated[bool | None, Query(description="Those that are, or are not. Without it, both.")] = None,
    session_id: Annotated[str | None, Query(pattern=r"^[a-zA-Z0-9_\-]{1,64}$")] = None,
    label: Annotated[str | None, Query(max_length=600, description="`name=text`: those with that label.")] = None,
) -> Response:
    """The threads of this tenant, the newest first."""
    name, equals, text = (label or "").partition("=")
    if label is not None and not (name and equals):
        raise InvalidInput(f"{label!r} is no label", hint="write label=team=a for those whose `team` is `a`")
    page = await threads_of(request).list(
        tenant=visit_of(request).owner,
        archived=archived,
        session_id=session_id,
        search=search,
        labels={name: text} if label is not None else None,
        after=after,
        limit=limit,
    )
    return answer({"threads": page.threads, "next_after": page.next})


@routes.get("/{thread_id}", responses={200: {"model": ThreadDetail}, **refusals(404, 409)}, response_model=None)
async def get(request: Request, thread_id: ThreadId) -> Response:
    """All of it, as it is at one moment. Who reads its events from `latest_seq` on misses nothing."""
    return answer(await threads_of(request).get(thread_id, tenant=visit_of(request).owner))


@routes.patch("/{thread_id}", responses={**_THREAD, **refusals(404, 409, body=True)}, response_model=None)
async def change(request: Request, thread_id: ThreadId, body: ChangeThread) -> Response:
    """Another title, model or prompt, other labels or metadata in place of those that it has; put away, or not."""
    return answer(await threads_of(request).patch(thread_id, body.said(), tenant=visit_of(request).owner))


@routes.post(
    "/{thread_id}/fork", status_code=201, responses={**_MADE, **refusals(404, 409, body=True)}, response_model=None
)
async def fork(request: Request, thread_id: ThreadId, body: ForkThread | None = None) -> Response:
    """A new thread with what was said up to the end of that turn, or of the last that has ended, and a session as it
    was then."""
    turn_id = body.turn_id if body is not None else None
    return _made(await threads_of(request).fork(thread_id, turn_id, tenant=visit_of(request).owner))


@routes.post(
    "/{thread_id}/compact",
    responses={200: {"model": CompactionItem}, **refusals(404, 409, 502, 504, body=True)},
    response_model=None,
)
async def compact(request: Request, thread_id: ThreadId, body: Compact | None = None) -> Response:
    """Have models told a summary in place of what was said before. The log keeps all of it."""
    body = body or Compact(keep_last=None, summary=None, through_item_id=None)
    made = await threads_of(request).compact(
        thread_id,
        body.summary,
        body.through_item_id,
        keep_last=body.keep_last,
        tenant=visit_of(request).owner,
    )
    return answer(made)


@routes.get("/{thread_id}/events", responses={**STREAM, **refusals(404, 409)}, response_model=None)
async def events(
    request: Request,
    thread_id: ThreadId,
    since_seq: SinceSeq = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Server-sent events: those of the log first, then those that come, until the server ends. Pieces of an item's text
    (`item.delta`) have no number: they are for who listens now."""
    visit, threads = visit_of(request), threads_of(request)
    thread = await threads.describe(thread_id, tenant=visit.owner)
    since = await begins_after(visit.service, since_seq, last_event_id) or 0
    stream = threads.events(thread_id=thread.id, since=since)
    return Streaming(visit.service, ThreadFeed(stream, visit.service.frames))
