"""What is on record of a conversation between two lives of its server."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cloister.core.content import text_of
from cloister.ports.clock import SystemClock
from cloister.ports.rows import AnswerRow, EventRow, InputRow, ItemRow, ToolCallRow, TurnRow
from cloister.ports.store import Store
from cloister.stores.postgres import PostgresStore
from cloister.stores.sqlite import SqliteStore
from cloister.threads.rows import turn_of as turn_of_row
from tests.crash.parent import Kept, copy_of, look_into
from tests.crash.served.conversations import turn_of
from tests.stores.pg_server import PgServer


class Place(Protocol):
    """Where a server writes."""

    @property
    def url(self) -> str: ...
    async def store(self) -> Store:
        """To look at while nobody writes."""
        ...


class InFile:
    def __init__(self, directory: Path) -> None:
        self._path = directory / "store.db"
        # A process that is killed leaves to the system what it had written.
        self.url = f"sqlite://{self._path}?synchronous=normal"

    async def store(self) -> Store:
        return SqliteStore(await asyncio.to_thread(copy_of, self._path), clock=SystemClock())


class InServer:
    def __init__(self, server: PgServer) -> None:
        self._server = server
        self._database = server.new_database()
        self.url = server.url(self._database)

    async def store(self) -> Store:
        # What a killed process had sent may still be under way.
        async with asyncio.timeout(60):
            while await asyncio.to_thread(self._is_used):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return PostgresStore(self.url)

    def _is_used(self) -> bool:
        asked = f"SELECT 1 FROM pg_stat_activity WHERE datname = '{self._database}'"
        return bool(self._server.execute(asked))


@dataclass(frozen=True, slots=True)
class Record:
    kept: Kept
    events: Sequence[EventRow] = ()
    turns: Sequence[TurnRow] = ()
    answers: Sequence[AnswerRow] = ()
    items: Sequence[ItemRow] = ()
    inputs: Sequence[InputRow] = ()
    tool_calls: Sequence[ToolCallRow] = ()
    # By the key of each turn, what models have answered in it, and in those that began by themselves behind it.
    answered: dict[str, int] = field(default_factory=dict[str, int])


NOTHING = Record(Kept({}, {}, {}, {}, {}, {}, {}, []))


async def read(place: Place, thread_id: str | None) -> Record:
    async with await place.store() as store:
        kept = await look_into(store)
        if thread_id is None:
            return Record(kept)
        turns = await store.turns(thread_id=thread_id)
        answers: list[AnswerRow] = []
        answered: dict[str, int] = {}
        key = ""
        for row in turns:
            key = turn_of(text_of(turn_of_row(row).input)) or key
            of_turn = await store.answers(row.id)
            answers += of_turn
            answered[key] = answered.get(key, 0) + len(of_turn)
        return Record(
            kept,
            await store.events(thread_id=thread_id, limit=1_000_000),
            turns,
            answers,
            await store.items(thread_id),
            await store.inputs(thread_id),
            await store.tool_calls(thread_id=thread_id),
            answered,
        )
