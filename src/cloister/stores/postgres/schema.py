"""The schema: found, made or brought up to date when a store is opened, by one process at a time.

It is ours if it is empty or has our table of migrations. A newer one, and one with the tables of another program, are
refused by name and left as they are.
"""

from importlib.resources import files
from typing import LiteralString, cast

from psycopg import Error, sql
from psycopg.errors import InsufficientPrivilege

from cloister.core.errors import StoreUnusable
from cloister.stores.postgres.address import Address
from cloister.stores.postgres.connection import Connection, trouble

MIGRATIONS: tuple[str, ...] = ("m001_initial", "m002_snapshot_blobs", "m003_threads", "m004_cell_operations")
TABLES = frozenset(
    "sessions cells calls approvals snapshots events values files secrets attachments threads turns items answers"
    " inputs tool_calls blobs blob_parts owners leases cloister_migrations".split()
)
# The first that waits for a backend that it ends.
_OLDEST = 14_00_00
_SCHEMA_LOCK = 0x436C6F53
_RELATIONS = """SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %b AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY c.relname"""
_RECORD = """CREATE TABLE cloister_migrations (
    number integer PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now()
)"""


async def bring_up_to_date(connection: Connection, address: Address) -> None:
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL lock_timeout = '5min'")
            await connection.execute(
                "SELECT pg_advisory_xact_lock(%b::int8::int4, %b::int8::int4)", (_SCHEMA_LOCK, address.lock_number)
            )
            await _migrate(connection, address)
    except InsufficientPrivilege as error:
        raise StoreUnusable(
            f"user {connection.info.user!r} may not use the schema {address.schema!r} at {address.url}:"
            f" {error.diag.message_primary}",
            hint=f"let the user own it: CREATE SCHEMA {address.schema} AUTHORIZATION {connection.info.user}",
        ) from None
    except Error as error:
        raise trouble(address, error) from error


async def _migrate(connection: Connection, address: Address) -> None:
    if connection.info.server_version < _OLDEST:
        raise StoreUnusable(f"the server at {address.url} is older than PostgreSQL {_OLDEST // 10_000}")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreUnusable(
            f"the database at {address.url} is encoded as {encoding}, which cannot hold every text",
            hint="create one with ENCODING 'UTF8'",
        )
    tables = await tables_in(connection, address)
    if "cloister_migrations" in tables:
        done = await version_of(connection)
        if done > len(MIGRATIONS):
            raise newer(address, done)
    elif tables:
        raise StoreUnusable(
            f"the schema {address.schema!r} at {address.url} has the tables of another program:"
            f" {', '.join(tables[:5])}{', …' if len(tables) > 5 else ''}",
            hint="give Cloister a schema of its own",
        )
    else:
        done = 0
        exists = await (
            await connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %b", (address.schema,))
        ).fetchone()
        if exists is None:
            await connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(address.schema)))
        await connection.execute(_RECORD)
    for number, name in enumerate(MIGRATIONS[done:], done + 1):
        await connection.execute(_text_of(name), prepare=False)
        await connection.execute("INSERT INTO cloister_migrations (number, name) VALUES (%b, %b)", (number, name))


async def tables_in(connection: Connection, address: Address) -> list[str]:
    cursor = await connection.execute(_RELATIONS, (address.schema,))
    return [str(name) for (name,) in await cursor.fetchall()]


async def version_of(connection: Connection) -> int:
    cursor = await connection.execute("SELECT coalesce(max(number), 0) FROM cloister_migrations")
    row = await cursor.fetchone()
    return 0 if row is None else int(row[0])


def newer(address: Address, version: int) -> StoreUnusable:
    return StoreUnusable(
        f"the schema {address.schema!r} at {address.url} is of version {version}; this Cloister knows up to"
        f" {len(MIGRATIONS)}",
        hint="use the newer Cloister that wrote it",
    )


def _text_of(name: str) -> LiteralString:
    path = files("cloister.stores.postgres.migrations").joinpath(f"{name}.sql")
    return cast("LiteralString", path.read_text(encoding="utf-8"))
