"""What a store in memory says of conversations."""

from collections.abc import Iterator, Sequence
from itertools import islice, takewhile

from cloister.ports.rows import (
    THREADS_LOOKED_AT,
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
from cloister.stores.memory_data import MemoryData
from cloister.stores.memory_tables import Held, one, some, thaw


class MemoryThreads:
    @property
    def _data(self) -> MemoryData:
        raise NotImplementedError

    async def thread(self, thread_id: str) -> ThreadRow | None:
        return one(self._data.threads, thread_id)

    async def threads(self, query: ThreadQuery, *, before: str | None = None, limit: int = 100) -> ThreadPage:
        rows: list[ThreadRow] = []
        last: str | None = None
        everything = self._data.threads.backwards(None if before is None else (before,))
        here = (held for held in everything if query.tenant is None or held.bare.tenant == query.tenant)
        for held in islice(here, THREADS_LOOKED_AT):
            last = held.bare.id
            if _is_wanted(held.bare, query):
                rows.append(thaw(held))
                if len(rows) == limit:
                    break
        else:
            last = None if next(here, None) is None else last
        return ThreadPage(tuple(rows), last)

    async def turn(self, turn_id: str) -> TurnRow | None:
        return one(self._data.turns, turn_id)

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
        rows: Iterator[Held[TurnRow]] = self._data.turns.pages(
            None if after is None else (after,), session_id=session_id, thread_id=thread_id
        )
        return some(
            (
                held
                for held in rows
                if (live is None or held.bare.live == live)
                and (session_id is None or held.bare.session_id == session_id)
                and (operation_key is None or held.bare.operation_key == operation_key)
            ),
            limit,
        )

    async def items(self, thread_id: str, *, after: str | None = None, limit: int = 10_000) -> Sequence[ItemRow]:
        return some(self._data.items.pages(None if after is None else (after,), thread_id=thread_id), limit)

    async def answers(self, turn_id: str) -> Sequence[AnswerRow]:
        return some(takewhile(lambda held: held.bare.turn_id == turn_id, self._data.answers.pages((turn_id,))))

    async def inputs(
        self, thread_id: str, *, state: str | None = None, client_id: str | None = None, limit: int = 10_000
    ) -> Sequence[InputRow]:
        rows = self._data.inputs.pages(thread_id=thread_id)
        return some(
            (
                held
                for held in rows
                if (state is None or held.bare.state == state)
                and (client_id is None or held.bare.client_id == client_id)
            ),
            limit,
        )

    async def tool_call(self, call_id: str) -> ToolCallRow | None:
        return one(self._data.tool_calls, call_id)

    async def tool_calls(
        self, *, thread_id: str | None = None, session_id: str | None = None, state: str | None = None
    ) -> Sequence[ToolCallRow]:
        rows = self._data.tool_calls.pages(session_id=session_id, thread_id=thread_id)
        return some(
            held
            for held in rows
            if (state is None or held.bare.state == state)
            and (session_id is None or held.bare.session_id == session_id)
        )

    async def conversation(self, thread_id: str) -> Conversation | None:
        data = self._data
        thread = one(data.threads, thread_id)
        if thread is None:
            return None
        cells = data.cells.pages(session_id=thread.session_id)
        mine = {held.bare.id for held in cells if held.bare.thread_id == thread_id}
        asked = data.approvals.pages(session_id=thread.session_id)
        return Conversation(
            thread,
            tuple(some(data.turns.pages(thread_id=thread_id))),
            tuple(some(data.items.pages(thread_id=thread_id))),
            tuple(some(it for it in data.tool_calls.pages(thread_id=thread_id) if it.bare.state == "pending")),
            tuple(some(it for it in asked if it.bare.state == "pending" and it.bare.cell_id in mine)),
            max((held.bare.seq for held in data.events.pages(thread_id=thread_id)), default=0),
        )


def _is_wanted(row: ThreadRow, query: ThreadQuery) -> bool:
    return (
        (query.archived is None or row.archived == query.archived)
        and (query.session_id is None or row.session_id == query.session_id)
        and (query.search is None or query.search in row.search)
        and all(mark in row.labels for mark in query.labels)
    )
