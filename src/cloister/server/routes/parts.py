"""Parts of requests that several nouns have: ids in paths, limits of a request, bytes as base64, keys of repetition."""

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeAlias

from fastapi import Header, Path, Query
from starlette.responses import Response

from cloister.core.digest import digest_json
from cloister.core.errors import InvalidInput, within
from cloister.core.limits import SessionLimits
from cloister.core.operation import Operation
from cloister.ports.rows import CellRow
from cloister.server.answers import raw, written
from cloister.server.bodies import Body, Limits
from cloister.server.repeats import used_otherwise
from cloister.server.service import Service
from cloister.server.sse import MEDIA_TYPE
from cloister.server.visit import Visit
from cloister.sessions import Session

SessionId: TypeAlias = Annotated[str, Path(alias="session_id", pattern=r"^[a-zA-Z0-9_\-]{1,64}$", examples=["notes"])]
CellId: TypeAlias = Annotated[str, Path(alias="cell_id", min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_\-]+$")]
Limit: TypeAlias = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
After: TypeAlias = Annotated[
    str | None, Query(max_length=64, description="What `next_after` was, for those that come next.")
]
RepeatKey: TypeAlias = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="A request with a key that was used before in this session, and the same body, does nothing and "
        "gets what the first got; after a restart of the server, how the cell stands that the first has begun.",
    ),
]
SinceSeq: TypeAlias = Annotated[
    int | None, Query(ge=0, le=2**53 - 1, description="Events after this one. Without it, all that are in the log.")
]
LastEventId: TypeAlias = Annotated[
    str | None,
    Header(alias="Last-Event-ID", pattern=r"^[0-9]{1,15}$", description="As `since_seq`; browsers send it."),
]
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "Events, for ever."}
}


async def begins_after(service: Service, since_seq: int | None, last_event_id: str | None) -> int | None:
    """What a client that was cut off says of itself is newer than what its address says. Raises `InvalidInput` for an
    event that is yet to come: it would wait for ever, and the client believe that it has all."""
    since = int(last_event_id) if last_event_id is not None else since_seq
    if since and since > await service.cloister.last_event():
        raise InvalidInput(f"there is no event {since} yet", hint="it may be of another server's log: read from 0")
    return since


def narrowed(base: SessionLimits, limits: Limits | None) -> SessionLimits:
    """Raises `InvalidLimits` for what is wider."""
    with within("limits"):
        return base.narrowed_by(limits.said()) if limits is not None else base


def decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(f"{what} is not base64") from None


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def plain_text(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} has half a surrogate pair in it") from None


async def once(
    visit: Visit,
    session_id: str,
    key: str | None,
    body: Body,
    work: Callable[[Session, Operation | None], Awaitable[Any]],
    again: Callable[[Session, CellRow], Awaitable[Any]],
) -> Response:
    """What `work` answers, which begins a cell once for a key: where one has been begun, what `again` says of it."""
    if key is None:
        return raw(written(await work(await visit.session(session_id), None)))
    kind = type(body).__name__.lower()
    operation = Operation(f"{kind} {key}", digest_json(body.model_dump(mode="json", by_alias=True)))
    is_known = False

    async def made() -> bytes:
        nonlocal is_known
        session = await visit.session(session_id)
        known = await visit.service.cloister.asked_before(session_id, operation.key)
        if known is None:
            return written(await work(session, operation))
        if known.doc["operation_digest"] != operation.digest:
            raise used_otherwise()
        is_known = True
        return written(await again(session, known))

    repeats = visit.service.repeats
    data, is_repeated = await repeats.once((visit.tenant, session_id, operation.key), operation.digest, made)
    return raw(data, headers={"idempotency-replayed": "true"} if is_known or is_repeated else None)
