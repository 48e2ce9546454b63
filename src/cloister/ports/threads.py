"""What a store can be asked about conversations. A part of the store port; what is said there holds here."""

from collections.abc import Sequence
from typing import Protocol

from cloister.ports.rows import (
    AnswerRow,
    Conversation,
    InputRow,
    ItemRow,
    ThreadPage,
    ThreadQuery,
    ThreadRow,
    ToolCallRow,
    TurnRow,
)


class ThreadReads(Protocol):
    async def thread(self, thread_id: str) -> ThreadRow | None: ...
    async def threads(self, query: ThreadQuery, *, before: str | None = None, limit: int = 100) -> ThreadPage:
        """Those of ids before `before`, the newest first. One page looks at `THREADS_LOOKED_AT` rows at most."""
        ...

    async def turn(self, turn_id: str) -> TurnRow | None: ...
    async def turns(
        self,
        *,
        thread_id: str | None = None,
        session_id: str | None = None,
        live: bool | None = None,
        operation_key: str | None = None,
        after: str | None = None,
        limit: int = 10_000,
    ) -> Sequence[TurnRow]:
        """In the order of their ids, which is that of their making."""
        ...

    async def items(self, thread_id: str, *, after: str | None = None, limit: int = 10_000) -> Sequence[ItemRow]:
        """In the order of their ids, which is that of their making."""
        ...

    async def answers(self, turn_id: str) -> Sequence[AnswerRow]:
        """In the order of their numbers."""
        ...

    async def inputs(
        self, thread_id: str, *, state: str | None = None, client_id: str | None = None, limit: int = 10_000
    ) -> Sequence[InputRow]:
        """In the order of their ids, which is that of their coming."""
        ...

    async def tool_call(self, call_id: str) -> ToolCallRow | None: ...
    async def tool_calls(
        self, *, thread_id: str | None = None, session_id: str | None = None, state: str | None = None
    ) -> Sequence[ToolCallRow]:
        """In the order of their ids."""
        ...

    async def conversation(self, thread_id: str) -> Conversation | None:
        """All of it as it was at one moment."""
        ...
