"""A session's files. An ETag is the hash of a file's content; with If-Match only what it has seen is changed."""

from typing import Annotated, Any

from fastapi import Header, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from cloister.core.errors import FileConflict, FileNotFound, InvalidInput
from cloister.core.file import FileInfo
from cloister.core.wire import format_time
from cloister.server.answers import Destroyed, Directory, FileAt, FileContent, Matches, Moved, answer
from cloister.server.bodies import Grep, Mkdir, OnePath, PutFile, TwoPaths
from cloister.server.problems import Problem
from cloister.server.routes.parts import SessionId, decoded, encoded, plain_text
from cloister.server.routing import refusals, router
from cloister.server.visit import visit_of
from cloister.sessions.files import Files

routes = router("files", "/v1/sessions/{session_id}/files")
FilePath = Annotated[str, Path(alias="path", max_length=4096, examples=["notes.txt"])]
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=200,
        description="The ETag that the client has seen. It is refused with 412 if the file has another by now.",
    ),
]
IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", max_length=200, description="`*`: only if there is no such file.")
]
_FOUND: dict[int | str, dict[str, Any]] = {200: {"model": FileContent | Directory}}


async def _files(request: Request, session_id: str) -> Files:
    return (await visit_of(request).session(session_id)).files


def _etag(digest: str | None) -> dict[str, str]:
    return {"etag": f'"{digest}"'} if digest is not None else {}


# -- operations ------------------------------------------------------------------------------------------------------


@routes.post("/_/stat", responses={200: {"model": FileInfo}, **refusals(404, 409, body=True)}, response_model=None)
async def stat(request: Request, session_id: SessionId, body: OnePath) -> Response:
    """What is there."""
    info = await (await _files(request, session_id)).stat(body.path)
    return answer(info, headers=_etag(info.hash))


@routes.post("/_/mkdir", responses={200: {"model": FileAt}, **refusals(404, 409, body=True)}, response_model=None)
async def mkdir(request: Request, session_id: SessionId, body: Mkdir) -> Response:
    """Make a directory, and with `parents` those above it."""
    await (await _files(request, session_id)).mkdir(body.path, parents=body.parents, exist_ok=body.exist_ok)
    return answer({"path": body.path})


@routes.post("/_/move", responses={200: {"model": Moved}, **refusals(404, 409, body=True)}, response_model=None)
async def move(request: Request, session_id: SessionId, body: TwoPaths) -> Response:
    """A file takes the place of one at `to`; a directory needs a name that is free."""
    await (await _files(request, session_id)).move(body.source, body.target)
    return answer({"from": body.source, "to": body.target})


@routes.post("/_/copy", responses={200: {"model": Moved}, **refusals(404, 409, body=True)}, response_model=None)
async def copy(request: Request, session_id: SessionId, body: TwoPaths) -> Response:
    """As with `move`; what was there stays."""
    await (await _files(request, session_id)).copy(body.source, body.target)
    return answer({"from": body.source, "to": body.target})


@routes.post("/_/grep", responses={200: {"model": Matches}, **refusals(404, 409, body=True)}, response_model=None)
async def grep(request: Request, session_id: SessionId, body: Grep) -> Response:
    """The lines that a regular expression (RE2), or with `literal` a text, is found in."""
    files = await _files(request, session_id)
    found = await files.grep(body.pattern, path=body.path, glob=body.glob, literal=body.literal, limit=body.limit)
    return answer({"matches": found})


# -- by their paths --------------------------------------------------------------------------------------------------


@routes.get("/{path:path}", responses={**_FOUND, **refusals(404, 409)}, response_model=None)
async def get(
    request: Request,
    session_id: SessionId,
    path: FilePath,
    recursive: Annotated[bool, Query(description="Of a directory: all that is somewhere below.")] = False,
) -> Response:
    """A file with its content, as text if it is UTF-8 and otherwise as base64; or what is in a directory."""
    files = await _files(request, session_id)
    name = path or "/"
    info = await files.stat(name)
    if info.kind == "directory":
        entries = await files.list(name, recursive=recursive)
        return answer({"path": info.path, "kind": "directory", "entries": entries})
    if recursive:
        raise InvalidInput(f"{info.path!r} is a file: nothing is below it")
    data = await files.read(name)
    try:
        content, encoding = data.decode(), "text"
    except UnicodeDecodeError:
        content, encoding = encoded(data), "base64"
    said = {
        "path": info.path,
        "kind": "file",
        "content": content,
        "encoding": encoding,
        "size_bytes": len(data),
        "hash": info.hash,
        "read_only": info.read_only,
        "modified_at": format_time(info.modified_at),
    }
    return answer(said, headers=_etag(info.hash))


@routes.put(
    "/{path:path}", responses={200: {"model": FileAt}, **refusals(404, 409, 412, body=True)}, response_model=None
)
async def put(
    request: Request,
    session_id: SessionId,
    path: FilePath,
    body: PutFile,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Write a file. Directories on the way need not be made."""
    files = await _files(request, session_id)
    name = path or "/"
    if body.encoding == "base64":
        data = decoded(body.content, "`content`")
    else:
        data = plain_text(body.content, "`content`")
    if if_none_match is not None:
        if if_none_match != "*" or if_match is not None:
            raise InvalidInput("If-None-Match is `*` here, and stands alone")
        return await _written_if(files, name, data, None)
    if if_match is not None and if_match != "*":
        return await _written_if(files, name, data, _tag(if_match))
    if if_match == "*" and not await files.exists(name):
        raise Problem("PRECONDITION_FAILED", f"{name!r} is not there")
    await files.write(name, data)
    info = await files.stat(name)
    return answer({"path": info.path, "hash": info.hash, "size_bytes": info.size_bytes}, headers=_etag(info.hash))


async def _written_if(files: Files, name: str, data: bytes, expected: str | None) -> Response:
    try:
        digest = await files.write_if_match(name, data, expected)
    except FileConflict as conflict:
        raise Problem("PRECONDITION_FAILED", conflict.message, hint=conflict.hint) from None
    info = await files.stat(name)
    return answer({"path": info.path, "hash": digest, "size_bytes": len(data)}, headers=_etag(digest))


def _tag(header: str) -> str:
    tag = header.strip()
    if len(tag) < 2 or not (tag.startswith('"') and tag.endswith('"')):
        raise InvalidInput("If-Match is an ETag in double quotes, one, and not weak", hint='If-Match: "6b1a…"')
    return tag[1:-1]


@routes.delete(
    "/{path:path}", responses={200: {"model": Destroyed}, **refusals(404, 409, 412, body=True)}, response_model=None
)
async def delete(
    request: Request,
    session_id: SessionId,
    path: FilePath,
    recursive: Annotated[bool, Query(description="A directory with all that is in it.")] = False,
    if_match: IfMatch = None,
) -> Response:
    """Remove a file, or a directory. One that is not empty stays unless it is `recursive`."""
    files = await _files(request, session_id)
    name = path or "/"
    info = await files.stat(name)
    # Nothing is awaited between a stat of what is in memory and the deletion but what is in memory.
    if if_match is not None and if_match != "*" and info.hash != _tag(if_match):
        raise Problem("PRECONDITION_FAILED", f"{info.path!r} has changed: look at it again")
    if not await files.delete(name, recursive=recursive):
        if await files.exists(name):
            raise FileConflict(f"the directory {info.path!r} is not empty", hint="recursive=true removes all of it")
        raise FileNotFound(f"there is no {info.path!r}")
    return answer({"deleted": True})
