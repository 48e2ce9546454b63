"""A session's files."""

from collections.abc import Mapping
from typing import Any, cast

from cloister.client.answers import FileAt, StoredFile
from cloister.client.ask import Ask, Reply, asked, at, below, query
from cloister.client.errors import AnswerUnreadable
from cloister.client.reading import decoded, encoded, many, nothing, one, part, received
from cloister.core.errors import InvalidInput
from cloister.core.file import FileEntry, FileInfo, FileMatch


def read(session_id: str, path: str) -> Ask[StoredFile]:
    """A file with its bytes. Raises `InvalidInput` for a directory."""

    def found(reply: Reply) -> StoredFile:
        said = cast("Mapping[str, Any]", reply.data)
        if part(said, "kind") != "file":
            raise InvalidInput(f"{path!r} is a directory", hint="list shows what is in it")
        content = part(said, "content")
        info = received(FileInfo, said)
        if info.hash is None or not isinstance(content, str):
            raise AnswerUnreadable("the server's answer is no file")
        data = decoded(content) if part(said, "encoding") == "base64" else content.encode()
        return StoredFile(info.path, data, info.hash, info.read_only, info.modified_at)

    return Ask("GET", _at(session_id, path), found)


def list_(session_id: str, path: str = "/", *, recursive: bool = False) -> Ask[tuple[FileEntry, ...]]:
    """What is in a directory; with `recursive` all that is somewhere below. Raises `InvalidInput` for a file."""

    def found(reply: Reply) -> tuple[FileEntry, ...]:
        if part(reply.data, "kind") != "directory":
            raise InvalidInput(f"{path!r} is a file", hint="read gives what is in it")
        return many(FileEntry, "entries")(reply)

    asks = query(recursive=True) if recursive else {}
    return Ask("GET", _at(session_id, path), found, query=asks)


def stat(session_id: str, path: str) -> Ask[FileInfo]:
    """What is there."""
    return Ask("POST", _operation(session_id, "stat"), one(FileInfo), {"path": path})


def write(
    session_id: str, path: str, content: str | bytes, *, if_match: str | None = None, if_absent: bool = False
) -> Ask[FileAt]:
    """Write a file. With `if_match` only if it is still what has that hash, with `if_absent` only if there is none;
    otherwise `RequestRefused` with the code `PRECONDITION_FAILED`."""
    if if_absent and if_match is not None:
        raise InvalidInput("a file is either absent or has a hash: give one of if_match and if_absent")
    headers = {"if-match": f'"{if_match}"'} if if_match is not None else {"if-none-match": "*"} if if_absent else {}
    if isinstance(content, str):
        body = {"content": content}
    else:
        body = {"content": encoded(content), "encoding": "base64"}
    return Ask("PUT", _at(session_id, path), one(FileAt), body, headers=headers)


def delete(session_id: str, path: str, *, recursive: bool = False, if_match: str | None = None) -> Ask[None]:
    """Remove a file, or a directory; one that is not empty stays unless it is `recursive`."""
    headers = {"if-match": f'"{if_match}"'} if if_match is not None else {}
    asks = query(recursive=True) if recursive else {}
    return Ask("DELETE", _at(session_id, path), nothing, query=asks, headers=headers)


def mkdir(session_id: str, path: str, *, parents: bool = True, exist_ok: bool = False) -> Ask[None]:
    """Make a directory."""
    body = {"path": path, "parents": parents, "exist_ok": exist_ok}
    return Ask("POST", _operation(session_id, "mkdir"), nothing, body)


def move(session_id: str, source: str, target: str) -> Ask[None]:
    """A file takes the place of one at `target`; a directory needs a name that is free."""
    return Ask("POST", _operation(session_id, "move"), nothing, {"from": source, "to": target})


def copy(session_id: str, source: str, target: str) -> Ask[None]:
    """As with `move`; what was there stays."""
    return Ask("POST", _operation(session_id, "copy"), nothing, {"from": source, "to": target})


def grep(
    session_id: str,
    pattern: str,
    *,
    path: str = "/",
    glob: str | None = None,
    literal: bool = False,
    limit: int | None = None,
) -> Ask[tuple[FileMatch, ...]]:
    """The lines that a regular expression (RE2), or with `literal` a text, is found in."""
    body = asked(pattern=pattern, path=path, glob=glob, literal=literal, limit=limit)
    return Ask("POST", _operation(session_id, "grep"), many(FileMatch, "matches"), body)


def _operation(session_id: str, name: str) -> str:
    return at("sessions", session_id, "files", "_", name)


def _at(session_id: str, path: str) -> str:
    return below(at("sessions", session_id, "files"), path.lstrip("/"))
