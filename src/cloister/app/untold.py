"""Events of sessions that are being made: told when there is a session to tell them of, or never."""

from collections.abc import Container, Mapping
from typing import Any

from cloister.core.event import Emit


class Untold:
    def __init__(self, emit: Emit, sessions: Container[str]) -> None:
        self._emit = emit
        self._sessions = sessions
        self._waiting: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}

    def tell(self, session_id: str, kind: str, data: Mapping[str, Any]) -> None:
        if session_id in self._sessions:
            self._emit(kind, session_id, data)
        else:
            self._waiting.setdefault(session_id, []).append((kind, data))

    def release(self, session_id: str) -> None:
        """The session is there."""
        for kind, data in self._waiting.pop(session_id, ()):
            self._emit(kind, session_id, data)

    def drop(self, session_id: str) -> None:
        """It could not be made."""
        self._waiting.pop(session_id, None)
