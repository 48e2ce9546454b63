"""Connections, made alike: adapters, settings, and what goes wrong said in our words.

Numbers always travel as 64 bits and everything is binary, so that a statement is prepared once per connection and not
once for every size of number.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, LiteralString, TypeAlias, cast

from psycopg import AsyncConnection, AsyncCursor, Error, sql
from psycopg.errors import PipelineAborted
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper

from cloister.core.errors import CloisterError, InvalidInput, StoreUnavailable, StoreUnusable
from cloister.stores.postgres.address import Address
from cloister.stores.postgres.arrays import register
from cloister.stores.postgres.eager import EagerConnection

Connection: TypeAlias = AsyncConnection[tuple[Any, ...]]

_SETTINGS: Mapping[str, str] = {
    "client_min_messages": "warning",
    # Whoever stops in the middle of a transaction must not hold up everybody else for long.
    "idle_in_transaction_session_timeout": "30s",
    "jit": "off",
    "lock_timeout": "30s",
    "statement_timeout": "0",
}
# The writer finds every row by its key. A plan that was made when a table was small and reads all of it would be kept.
_BY_KEY: Mapping[str, str] = {
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
}
# For statements of the writer that do read much.
FREELY = "SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on; SET LOCAL enable_seqscan = on"


async def connect(address: Address, name: str, *, by_key: bool = False) -> Connection:
    """Raises `StoreUnavailable`, or `StoreUnusable` when there is no PostgreSQL at all."""
    connection: Connection | None = None
    try:
        connection = await EagerConnection.connect(
            autocommit=True,
            prepare_threshold=0,
            **{**address.parameters, "application_name": name},  # type: ignore[arg-type]
        )
        connection.prepared_max = None
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        register(connection.adapters)
        settings = {**_SETTINGS, **(_BY_KEY if by_key else {})}
        path = sql.Identifier(address.schema).as_string(connection)
        settings["search_path"] = path
        await connection.execute(
            "SELECT set_config(name, setting, false) FROM unnest(%b::text[], %b::text[]) AS s (name, setting)",
            (list(settings), list(settings.values())),
        )
    except Error as error:
        if connection is not None:
            await connection.close()
        raise _not_connected(address, error) from None
    except BaseException:
        if connection is not None:
            await connection.close()
        raise
    return connection


@asynccontextmanager
async def pipelined(connection: Connection) -> AsyncGenerator[None, None]:
    """A pipeline that raises the first error, wherever it shows, and does not log that the rest was skipped."""
    first: Error | None = None
    try:
        async with connection.pipeline():
            try:
                yield
            except Error as error:
                first = error
    except PipelineAborted:
        if first is None:
            raise
    if first is not None:
        raise first


async def execute(connection: Connection, text: str, parameters: Sequence[Any] = ()) -> AsyncCursor[tuple[Any, ...]]:
    """`text` is made of our own words only; what callers give goes beside it."""
    return await connection.execute(cast("LiteralString", text), parameters, binary=True)


def is_alive(connection: Connection) -> bool:
    """Whether the other side has not hung up while nothing was under way. Costs no round trip."""
    try:
        # Twice: the first may read a last word, and only the second that nothing follows.
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except Error:
        return False
    return not connection.closed and connection.pgconn.status == ConnStatus.OK


def is_idle(connection: Connection) -> bool:
    return not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE


def trouble(address: Address, error: BaseException) -> CloisterError:
    """What the caller is told about an error of the driver."""
    said = address.without_secrets(str(error).strip()).splitlines()
    what = said[0] if said else type(error).__name__
    code = getattr(error, "sqlstate", None) or ""
    if code in ("42P01", "42703", "42883", "3F000"):
        return StoreUnusable(
            f"the schema {address.schema!r} at {address.url} is not what it was when it was opened: {what}",
            hint="something else changed its tables: restore them, or use another schema",
        )
    if code[:2] in ("22", "23", "54"):
        return InvalidInput(f"the server does not take it: {what}")
    return StoreUnavailable(f"the store at {address.url} failed: {what}")


def is_the_batchs_own_fault(error: BaseException) -> bool:
    """Whether other batches of its group may still be right."""
    return isinstance(error, Error) and (error.sqlstate or "")[:2] in ("22", "23", "54")


def _not_connected(address: Address, error: Error) -> CloisterError:
    said = address.without_secrets(str(error).strip())
    database, user = address.parameters.get("dbname"), address.parameters.get("user")
    if "authentication failed" in said or "no password supplied" in said:
        return StoreUnavailable(
            f"the store at {address.url} does not let us in as user {user!r}",
            hint="check the user and the password in the URL, or the server's pg_hba.conf",
        )
    if "database" in said and "does not exist" in said:
        return StoreUnavailable(
            f"there is no database {database!r} at {address.url}", hint=f"create it: createdb {database or 'cloister'}"
        )
    if "invalid response to SSL negotiation" in said or "expected authentication request" in said:
        return StoreUnusable(
            f"what answers at {address.url} is not a PostgreSQL server", hint="check the host and the port in the URL"
        )
    return StoreUnavailable(
        f"the store at {address.url} cannot be reached: {' '.join(said.split())}",
        hint="check that the server runs, and the host and the port in the URL",
    )
