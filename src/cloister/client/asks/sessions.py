"""Sessions: made, found, described, copied."""

from collections.abc import Mapping
from typing import Any

from cloister.client.answers import Catalog, Page
from cloister.client.ask import Ask, asked, at, query
from cloister.client.reading import decoded, encoded, nothing, one, page, part
from cloister.core.durability import Durability
from cloister.core.file import InitialFile
from cloister.core.language import Language
from cloister.core.session import SessionMeta


def create(
    session_id: str | None = None,
    *,
    language: Language | str = Language.PYTHON,
    title: str | None = None,
    labels: Mapping[str, str] | None = None,
    limits: Mapping[str, int] | None = None,
    type_check: str | None = None,
    durability: Durability | str | None = None,
    files: Mapping[str, InitialFile | str | bytes] | None = None,
) -> Ask[SessionMeta]:
    """A new session. Each limit may only be narrower than the server's."""
    body = asked(
        id=session_id,
        language=str(language),
        title=title,
        labels=dict(labels) if labels is not None else None,
        limits=dict(limits) if limits is not None else None,
        type_check=type_check,
        durability=str(durability) if durability is not None else None,
        files={path: _file(file) for path, file in files.items()} if files is not None else None,
    )
    return Ask("POST", at("sessions"), one(SessionMeta), body)


def _file(file: InitialFile | str | bytes) -> dict[str, Any]:
    if not isinstance(file, InitialFile):
        file = InitialFile(file)
    if isinstance(file.content, str):
        return {"content": file.content, "read_only": file.read_only}
    return {"content": encoded(file.content), "encoding": "base64", "read_only": file.read_only}


def get(session_id: str) -> Ask[SessionMeta]:
    """What is known of a session."""
    return Ask("GET", at("sessions", session_id), one(SessionMeta))


def list_(*, limit: int | None = None, after: str | None = None, label: str | None = None) -> Ask[Page[SessionMeta]]:
    """Some sessions, by their ids; `label` is `name=text`."""
    return Ask("GET", at("sessions"), page(SessionMeta, "sessions"), query=query(limit=limit, after=after, label=label))


def update(session_id: str, *, title: str | None = None, labels: Mapping[str, str] | None = None) -> Ask[SessionMeta]:
    """Another title, or other labels in place of those that it has."""
    body = asked(title=title, labels=dict(labels) if labels is not None else None)
    return Ask("PATCH", at("sessions", session_id), one(SessionMeta), body)


def delete(session_id: str) -> Ask[None]:
    """It and all that it holds is gone, for good."""
    return Ask("DELETE", at("sessions", session_id), nothing)


def snapshot(session_id: str) -> Ask[bytes]:
    """The session as bytes that `restore` takes."""
    return Ask("POST", at("sessions", session_id, "snapshot"), lambda reply: decoded(part(reply.data, "snapshot")), {})


def restore(
    snapshot: bytes, *, session_id: str | None = None, limits: Mapping[str, int] | None = None
) -> Ask[SessionMeta]:
    """A new session from a snapshot of the same installation."""
    body = asked(snapshot=encoded(snapshot), id=session_id, limits=dict(limits) if limits is not None else None)
    return Ask("POST", at("sessions", "restore"), one(SessionMeta), body)


def fork(session_id: str, *, new_id: str | None = None, point: str | None = None) -> Ask[SessionMeta]:
    """A new session that is as this one is, or as it was at the `point` where that cell or call ended."""
    return Ask("POST", at("sessions", session_id, "fork"), one(SessionMeta), asked(id=new_id, at=point))


def catalog(session_id: str) -> Ask[Catalog]:
    """What its programs may call."""
    return Ask("GET", at("sessions", session_id, "catalog"), one(Catalog))
