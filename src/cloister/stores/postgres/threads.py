"""What a store in PostgreSQL says of conversations."""

from collections.abc import Sequence
from typing import Any

from psycopg import Error

from cloister.core.errors import CloisterError
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
from cloister.stores.postgres.address import Address
from cloister.stores.postgres.columns import SHAPES
from cloister.stores.postgres.connection import Connection, execute, trouble
from cloister.stores.postgres.readers import Readers
from cloister.stores.rules import check_key


def equals(**columns: str | None) -> tuple[list[str], list[Any]]:
    """Conditions that those columns which are not None are as given, and what goes into them."""
    for column, value in columns.items():
        if value is not None:
            check_key(value, column)
    given = {column: value for column, value in columns.items() if value is not None}
    return [f"{column} = %b" for column in given], list(given.values())


def where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


class PostgresThreads:
    _address: Address
    _readers: Readers

    async def _one(self, table: Table, key: str) -> Any:
        raise NotImplementedError

    async def _many(self, table: Table, **terms: Any) -> list[Any]:
        raise NotImplementedError

    async def thread(self, thread_id: str) -> ThreadRow | None:
        return await self._one("threads", thread_id)

    async def threads(self, query: ThreadQuery, *, before: str | None = None, limit: int = 100) -> ThreadPage:
        here, parameters = equals(tenant=query.tenant)
        if before is not None:
            check_key(before, "before")
            here.append("id < %b")
            parameters.append(before)
        # The last that is looked at, and whether there is one behind it.
        ends = await self._readers.fetch(
            f"SELECT id FROM threads{where(here)} ORDER BY id DESC LIMIT 2 OFFSET %b",  # noqa: S608 - names of ours
            (*parameters, THREADS_LOOKED_AT - 1),
        )
        last = ends[0][0] if len(ends) == 2 else None
        if last is not None:
            here.append("id >= %b")
            parameters.append(last)
        for condition, value in (
            ("archived = %b", query.archived),
            ("session_id = %b", query.session_id),
            ("strpos(search, %b) > 0", query.search or None),
            *(("strpos(labels, %b) > 0", mark) for mark in query.labels),
        ):
            if value is not None:
                if isinstance(value, str):
                    check_key(value, "what is looked for")
                here.append(condition)
                parameters.append(value)
        shape = SHAPES["threads"]
        found = await self._readers.fetch(
            f"SELECT {shape.selected} FROM threads{where(here)} ORDER BY id DESC LIMIT %b",  # noqa: S608 - ours
            (*parameters, limit),
        )
        rows = tuple(shape.decode(columns) for columns in found)
        return ThreadPage(rows, rows[-1].id if rows and len(rows) == limit else last)

    async def turn(self, turn_id: str) -> TurnRow | None:
        return await self._one("turns", turn_id)

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
        # As a literal, so that the index of the live ones is used.
        condition = "" if live is None else "live" if live else "NOT live"
        of = {"thread_id": thread_id, "session_id": session_id, "operation_key": operation_key}
        return await self._many("turns", condition=condition, after=_behind(after), limit=limit, **of)

    async def items(self, thread_id: str, *, after: str | None = None, limit: int = 10_000) -> Sequence[ItemRow]:
        return await self._many("items", after=_behind(after), limit=limit, thread_id=thread_id)

    async def answers(self, turn_id: str) -> Sequence[AnswerRow]:
        return await self._many("answers", turn_id=turn_id)

    async def inputs(
        self, thread_id: str, *, state: str | None = None, client_id: str | None = None, limit: int = 10_000
    ) -> Sequence[InputRow]:
        return await self._many("inputs", limit=limit, thread_id=thread_id, state=state, client_id=client_id)

    async def tool_call(self, call_id: str) -> ToolCallRow | None:
        return await self._one("tool_calls", call_id)

    async def tool_calls(
        self, *, thread_id: str | None = None, session_id: str | None = None, state: str | None = None
    ) -> Sequence[ToolCallRow]:
        return await self._many("tool_calls", thread_id=thread_id, session_id=session_id, state=state)

    async def conversation(self, thread_id: str) -> Conversation | None:
        check_key(thread_id, "thread_id")
        try:
            async with self._readers.connection() as connection, connection.transaction():
                await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                return await _conversation(connection, thread_id)
        except CloisterError:
            raise
        except (Error, OSError) as error:
            raise trouble(self._address, error) from None


_ASKED = """session_id = %b AND state = 'pending' AND cell_id IN
(SELECT id FROM cells WHERE session_id = %b AND thread_id = %b)"""


async def _conversation(connection: Connection, thread_id: str) -> Conversation | None:
    async def rows(table: Table, condition: str, *parameters: Any) -> tuple[Any, ...]:
        shape = SHAPES[table]
        keys = ", ".join(shape.keys)
        query = f"SELECT {shape.selected} FROM {shape.name} WHERE {condition} ORDER BY {keys}"  # noqa: S608 - ours
        cursor = await execute(connection, query, parameters)
        return tuple(shape.decode(columns) for columns in await cursor.fetchall())

    found = await rows("threads", "id = %b", thread_id)
    if not found:
        return None
    thread: ThreadRow = found[0]
    turns = await rows("turns", "thread_id = %b", thread_id)
    items = await rows("items", "thread_id = %b", thread_id)
    tool_calls = await rows("tool_calls", "thread_id = %b AND state = 'pending'", thread_id)
    approvals = await rows("approvals", _ASKED, thread.session_id, thread.session_id, thread_id)
    cursor = await execute(connection, "SELECT coalesce(max(seq), 0) FROM events WHERE thread_id = %b", (thread_id,))
    row = await cursor.fetchone()
    assert row is not None
    return Conversation(thread, turns, items, tool_calls, approvals, row[0])


def _behind(key: str | None) -> tuple[str] | None:
    if key is None:
        return None
    check_key(key, "after")
    return (key,)
