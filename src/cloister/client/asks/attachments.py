"""Attachments: bytes that a session refers to, named by the digest of what they are."""

from cloister.client.answers import Attachment
from cloister.client.ask import Ask, Reply, asked, at
from cloister.client.reading import decoded, encoded, many, nothing, one, part, received
from cloister.core.held import AttachmentInfo


def list_(session_id: str) -> Ask[tuple[AttachmentInfo, ...]]:
    """The oldest first."""
    return Ask("GET", at("sessions", session_id, "attachments"), many(AttachmentInfo, "attachments"))


def add(session_id: str, data: bytes, media_type: str, *, name: str | None = None) -> Ask[AttachmentInfo]:
    """Bytes that are there already get this media type and name."""
    body = asked(content=encoded(data), media_type=media_type, name=name)
    return Ask("POST", at("sessions", session_id, "attachments"), one(AttachmentInfo), body)


def get(session_id: str, attachment_id: str) -> Ask[Attachment]:
    """One, with its bytes."""

    def found(reply: Reply) -> Attachment:
        info = received(AttachmentInfo, reply.data)
        return Attachment(info.id, info.media_type, info.created_at, decoded(part(reply.data, "content")), info.name)

    return Ask("GET", at("sessions", session_id, "attachments", attachment_id), found)


def delete(session_id: str, attachment_id: str) -> Ask[None]:
    """The session refers to it no more."""
    return Ask("DELETE", at("sessions", session_id, "attachments", attachment_id), nothing)
