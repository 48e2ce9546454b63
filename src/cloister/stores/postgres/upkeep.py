"""Upkeep: letting go of old events and of blobs that nobody needs, and finding what is wrong."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, LiteralString

from psycopg import Error, sql

from cloister.ports.clock import Clock
from cloister.stores.postgres.address import Address
from cloister.stores.postgres.columns import SHAPES
from cloister.stores.postgres.connection import FREELY, Connection, trouble
from cloister.stores.postgres.readers import Readers
from cloister.stores.postgres.schema import TABLES, tables_in
from cloister.stores.postgres.writer import Writer
from cloister.stores.rules import BLOB_GRACE_MS

# So many at a time, so that writes come in between.
_MANY = 5000
_JSON_SINCE = 16_00_00

_LAST_TO_GO = "SELECT coalesce((SELECT seq FROM events ORDER BY seq DESC OFFSET %b LIMIT 1), 0)"
_PRUNE = """WITH gone AS (
    DELETE FROM events WHERE seq IN (
        SELECT seq FROM events e WHERE seq > %b AND (at_ms < %b::int8 OR seq <= %b::int8)
        AND NOT EXISTS (SELECT 1 FROM cells c WHERE c.live AND c.session_id = e.session_id)
        AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.id = e.thread_id)
        ORDER BY seq LIMIT %b
    ) RETURNING seq
) SELECT count(*), coalesce(max(seq), 0) FROM gone"""

_USED: LiteralString = """SELECT image AS name, 'sessions' AS holder FROM sessions WHERE image IS NOT NULL
UNION ALL SELECT image, 'cells' FROM cells WHERE image IS NOT NULL
UNION ALL SELECT image, 'snapshots' FROM snapshots
UNION ALL SELECT json_array_elements_text(blobs::json), 'snapshots' FROM snapshots WHERE blobs <> '[]'
UNION ALL SELECT blob, 'files' FROM files
UNION ALL SELECT blob, 'attachments' FROM attachments"""
_COLLECT: LiteralString = f"""WITH used AS ({_USED}), gone AS (
    DELETE FROM blobs b WHERE put_ms <= coalesce(%b::int8, now_ms()) - %b
    AND NOT EXISTS (SELECT 1 FROM used u WHERE u.name = b.name) RETURNING name
), parts AS (
    DELETE FROM blob_parts p USING gone g WHERE p.name = g.name
) SELECT count(*) FROM gone"""  # noqa: S608 - text of ours
_FORGET_OWNERS = """DELETE FROM owners o WHERE until_ms < coalesce(%b::int8, now_ms()) - 86400000
AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.owner = o.name)"""

_CHECKS: tuple[tuple[LiteralString, str], ...] = (
    (
        f"SELECT DISTINCT u.holder, u.name FROM ({_USED}) u WHERE NOT EXISTS"  # noqa: S608 - text of ours
        " (SELECT 1 FROM blobs b WHERE b.name = u.name) ORDER BY 1, 2",
        "a row of {} refers to the blob {}, which is not there",
    ),
    (
        """SELECT b.name, coalesce(sum(length(p.data)), 0), b.size_bytes FROM blobs b
        LEFT JOIN blob_parts p ON p.name = b.name GROUP BY b.name
        HAVING coalesce(sum(length(p.data)), 0) <> b.size_bytes ORDER BY 1""",
        "the blob {} has {} bytes instead of {}",
    ),
    (
        "SELECT max(seq) FROM events HAVING max(seq) > (SELECT last_value FROM event_numbers)",
        "the event {} has a number that is still to be given",
    ),
    (
        """SELECT l.session_id FROM leases l WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = l.session_id)
        ORDER BY 1""",
        "the session {!r} is owned, but is not there",
    ),
    (
        """SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        WHERE c.relnamespace = current_schema()::regnamespace AND NOT i.indisvalid ORDER BY 1""",
        "the index {} is not valid: REINDEX it",
    ),
)


class Upkeep:
    def __init__(self, address: Address, readers: Readers, writer: Writer, clock: Clock | None) -> None:
        self._address = address
        self._readers = readers
        self._writer = writer
        self._clock = clock

    async def prune(self, events_before_ms: int | None, keep_events: int | None) -> int:
        if events_before_ms is None and keep_events is None:
            return 0
        last_to_go: int | None = None
        if keep_events is not None:
            [(last_to_go,)] = await self._readers.fetch(_LAST_TO_GO, (keep_events,))
        gone = after = 0
        while True:
            work = partial(_one, query=_PRUNE, parameters=(after, events_before_ms, last_to_go, _MANY))
            count, after = await self._writer.run(work)
            gone += count
            if count < _MANY:
                return gone

    async def collect(self) -> int:
        now_ms = None if self._clock is None else self._clock.now_ms()

        async def work(connection: Connection) -> int:
            await connection.execute(_FORGET_OWNERS, (now_ms,))
            (count,) = await _one(connection, _COLLECT, (now_ms, BLOB_GRACE_MS))
            return count

        return await self._writer.run(work)

    async def check(self) -> list[str]:
        try:
            async with self._readers.connection() as connection, connection.transaction():
                await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                tables = await tables_in(connection, self._address)
                if missing := sorted(TABLES - set(tables)):
                    return [f"the table {name} is missing" for name in missing]
                wrong = [f"{name} is not a table of ours" for name in tables if name not in TABLES]
                async for words in _findings(connection):
                    wrong.append(words)
                return wrong
        except (Error, OSError) as error:
            raise trouble(self._address, error) from None

    async def vacuum(self) -> None:
        """Of the kind that lets others go on: only what is free at the end of a table goes back to the system."""
        try:
            async with self._readers.connection(fresh=True) as connection:
                for table in sorted(TABLES):
                    command = sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(table))
                    await connection.execute(command, prepare=False)
        except (Error, OSError) as error:
            raise trouble(self._address, error) from None


async def _one(connection: Connection, query: LiteralString, parameters: tuple[Any, ...]) -> tuple[Any, ...]:
    await connection.execute(FREELY, prepare=False)
    row = await (await connection.execute(query, parameters, binary=True)).fetchone()
    assert row is not None
    return row


async def _findings(connection: Connection) -> AsyncGenerator[str, None]:
    for query, words in _CHECKS:
        for row in await (await connection.execute(query)).fetchall():
            yield words.format(*row)
    if connection.info.server_version < _JSON_SINCE:
        return
    for shape in SHAPES.values():
        docs = [shape.columns[place] for place in sorted(shape.docs)] or ["intent", "settled"]
        for column in docs:
            query = sql.SQL("SELECT {key}::text FROM {table} WHERE {doc} IS NOT JSON ORDER BY 1 LIMIT 100").format(
                key=sql.Identifier(shape.keys[-1]), table=sql.Identifier(shape.table), doc=sql.Identifier(column)
            )
            for (key,) in await (await connection.execute(query)).fetchall():
                yield f"the {column} of {key!r} in {shape.table} is not JSON"
