"""A few connections to read with, made when they are needed and kept for the next.

A read that finds its connection broken is made once more on a new one: to read twice does no harm.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from psycopg import Error

from cloister.core.errors import StoreUnavailable
from cloister.stores.postgres.address import Address
from cloister.stores.postgres.connection import Connection, connect, execute, is_alive, is_idle, trouble

_MOST = 4


class Readers:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: list[Connection] = []
        # As many as may be out at once.
        self._places = asyncio.Semaphore(_MOST)
        self._open = False

    def open(self) -> None:
        self._open = True

    async def close(self) -> None:
        self._open = False
        while self._idle:
            await self._idle.pop().close()

    async def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows. Raises `StoreUnavailable` when the server cannot be asked."""
        try:
            try:
                return await self._fetch(sql, parameters, fresh=False)
            except Error as error:
                if (error.sqlstate or "08")[:2] not in ("08", "57"):
                    raise
                return await self._fetch(sql, parameters, fresh=True)
        except (Error, OSError) as error:
            raise trouble(self._address, error) from None

    async def _fetch(self, sql: str, parameters: Sequence[Any], *, fresh: bool) -> list[tuple[Any, ...]]:
        async with self.connection(fresh=fresh) as connection:
            cursor = await execute(connection, sql, parameters)
            return [] if cursor.description is None else await cursor.fetchall()

    @asynccontextmanager
    async def connection(self, *, fresh: bool = False) -> AsyncGenerator[Connection, None]:
        self.check_open()
        async with self._places:
            self.check_open()
            connection = await self._take(fresh=fresh)
            try:
                yield connection
            finally:
                # After a cancelled read the driver has cleared the line, or it is not idle and of no more use.
                if self._open and is_idle(connection):
                    self._idle.append(connection)
                else:
                    await connection.close()

    async def _take(self, *, fresh: bool) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not fresh and is_alive(connection):
                return connection
            await connection.close()
        return await connect(self._address, "cloister reader")

    def check_open(self) -> None:
        if not self._open:
            raise StoreUnavailable(f"the store at {self._address.url} is closed")
