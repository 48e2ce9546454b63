"""What a store in SQLite says of conversations."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from cloister.ports.rows import (
    THREADS_LOOKED_AT,
    AnswerRow,
    Conversation,
    InputRow,
    ItemRow,
    Table,
    ThreadPage,
    ThreadQuery,
    ThreadRow,
    ToolCallRow,
    TurnRow,
)
from cloister.stores.sqlite import queries
from cloister.stores.sqlite.link import Link
from cloister.stores.sqlite.shapes import SHAPES

T = TypeVar("T")


class SqliteThreads:
    async def _read(self, query: Callable[[Link], T]) -> T:
        raise NotImplementedError

    async def thread(self, thread_id: str) -> ThreadRow | None:
        return await self._read(queries.row("threads", thread_id))

    async def threads(self, query: ThreadQuery, *, before: str | None = None, limit: int = 100) -> ThreadPage:
        return await self._read(lambda link: _threads(link, query, before, limit))

    async def turn(self, turn_id: str) -> TurnRow | None:
        return await self._read(queries.row("turns", turn_id))

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
        query = queries.chosen(
            "turns",
            after=after,
            limit=limit,
            live=live,
            thread_id=thread_id,
            session_id=session_id,
            operation_key=operation_key,
        )
        return await self._read(query)

    async def items(self, thread_id: str, *, after: str | None = None, limit: int = 10_000) -> Sequence[ItemRow]:
        return await self._read(queries.chosen("items", after=after, limit=limit, thread_id=thread_id))

    async def answers(self, turn_id: str) -> Sequence[AnswerRow]:
        return await self._read(queries.chosen("answers", turn_id=turn_id))

    async def inputs(
        self, thread_id: str, *, state: str | None = None, client_id: str | None = None, limit: int = 10_000
    ) -> Sequence[InputRow]:
        return await self._read(
            queries.chosen("inputs", limit=limit, thread_id=thread_id, state=state, client_id=client_id)
        )

    async def tool_call(self, call_id: str) -> ToolCallRow | None:
        return await self._read(queries.row("tool_calls", call_id))

    async def tool_calls(
        self, *, thread_id: str | None = None, session_id: str | None = None, state: str | None = None
    ) -> Sequence[ToolCallRow]:
        return await self._read(queries.chosen("tool_calls", thread_id=thread_id, session_id=session_id, state=state))

    async def conversation(self, thread_id: str) -> Conversation | None:
        return await self._read(lambda link: _conversation(link, thread_id))


def _threads(link: Link, query: ThreadQuery, before: str | None, limit: int) -> ThreadPage:
    here: list[str] = []
    parameters: list[Any] = []
    if query.tenant is not None:
        here.append("tenant = ?")
        parameters.append(query.tenant)
    if before is not None:
        here.append("id < ?")
        parameters.append(before)
    # The last that is looked at, and whether there is one behind it.
    ends = link.rows(
        f"SELECT id FROM threads {_where(here)} ORDER BY id DESC LIMIT 2 OFFSET ?",  # noqa: S608
        (*parameters, THREADS_LOOKED_AT - 1),
    )
    last = ends[0][0] if len(ends) == 2 else None
    if last is not None:
        here.append("id >= ?")
        parameters.append(last)
    for condition, value in (
        ("archived = ?", query.archived),
        ("session_id = ?", query.session_id),
        ("instr(search, ?)", query.search or None),
        *(("instr(labels, ?)", mark) for mark in query.labels),
    ):
        if value is not None:
            here.append(condition)
            parameters.append(value)
    shape = SHAPES["threads"]
    found = link.rows(
        f"SELECT {shape.select} FROM threads {_where(here)} ORDER BY id DESC LIMIT ?",  # noqa: S608
        (*parameters, limit),
    )
    rows = tuple(shape.decode(columns) for columns in found)
    return ThreadPage(rows, rows[-1].id if rows and len(rows) == limit else last)


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


_ASKED = "cell_id IN (SELECT id FROM cells WHERE session_id = ? AND thread_id = ?)"


def _conversation(link: Link, thread_id: str) -> Conversation | None:
    link.run("BEGIN")
    try:
        thread: ThreadRow | None = queries.row("threads", thread_id)(link)
        if thread is None:
            return None

        def of_thread(table: Table, state: str | None = None) -> Any:
            return tuple(queries.chosen(table, thread_id=thread_id, state=state)(link))

        shape = SHAPES["approvals"]
        asked = link.rows(
            f"SELECT {shape.select} FROM approvals WHERE session_id = ? AND state = 'pending' AND {_ASKED} ORDER BY id",  # noqa: S608
            (thread.session_id, thread.session_id, thread_id),
        )
        return Conversation(
            thread,
            of_thread("turns"),
            of_thread("items"),
            of_thread("tool_calls", state="pending"),
            tuple(shape.decode(columns) for columns in asked),
            queries.last_event_of(None, thread_id=thread_id)(link),
        )
    finally:
        link.run("COMMIT")
