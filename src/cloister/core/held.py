"""What a session holds, as it is listed: values, secrets and attachments, each without what is in it."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """`size_bytes` is about what the value takes as JSON: what the bounds count, without its key."""

    key: str
    size_bytes: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class SecretInfo:
    """What may be known of a secret: not its value."""

    name: str
    allowed: tuple[str, ...]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class AttachmentInfo:
    """`id` is the SHA3-256 of its bytes."""

    id: str
    media_type: str
    size_bytes: int
    created_at: datetime
    name: str | None = None
