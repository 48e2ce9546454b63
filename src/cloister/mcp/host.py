"""What the door for MCP clients needs of a runtime: a `Cloister`, or the part of one that its clients may see."""

from typing import Protocol

from cloister.core.approval import Approval
from cloister.core.language import Language
from cloister.sessions import Session


class Host(Protocol):
    def find(self, session_id: str) -> Session | None:
        """The open session of that id."""
        ...

    async def open_session(
        self, session_id: str = ..., *, language: str | Language = ..., wait_ms: int = ...
    ) -> Session: ...

    async def approvals(self, *, state: object = ..., session_id: str | None = ...) -> list[Approval]: ...

    async def decide(
        self, approval_id: str, decision: object, *, message: str | None = ..., rule: str | None = ...
    ) -> Approval: ...
