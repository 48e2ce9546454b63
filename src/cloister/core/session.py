"""What is known of a session from outside."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cloister.core.errors import InvalidInput
from cloister.core.ids import check_session_id
from cloister.core.language import Language
from cloister.core.limits import SessionLimits


@dataclass(frozen=True, slots=True)
class SessionMeta:
    id: str
    created_at: datetime
    last_used_at: datetime
    language: Language = Language.PYTHON
    limits: SessionLimits = field(default_factory=SessionLimits)
    snapshot_version: int = 1
    title: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    # Whose it is, where one host serves several; "" where it serves one.
    tenant: str = ""

    def __post_init__(self) -> None:
        check_session_id(self.id)
        if self.created_at.tzinfo is None or self.last_used_at.tzinfo is None:
            raise InvalidInput("a session's times say which zone they are in")
