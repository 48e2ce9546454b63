"""The bell: wakes those who wait for events, whoever wrote them.

A connection of its own listens; it is made when the first one waits. Each time that it begins to listen it asks for
the last number, so what happened while nobody listened is not missed.
"""

import asyncio
import logging

from psycopg import Error, sql

from cloister.core.errors import CloisterError, StoreUnavailable
from cloister.stores.postgres.address import Address
from cloister.stores.postgres.connection import connect

_log = logging.getLogger(__name__)
_PAUSE_S = 0.5


class Bell:
    def __init__(self, address: Address) -> None:
        self._address = address
        # No event that anybody has seen has a higher number.
        self._last = 0
        self._rung = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def last(self) -> int:
        return self._last

    def ring(self, seq: int) -> None:
        self._last = max(self._last, seq)
        self._wake()

    async def wait(self, since: int, timeout_s: float) -> bool:
        """Whether there may be an event above `since` before time is up."""
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name="cloister bell")
        try:
            async with asyncio.timeout(timeout_s):
                while self._last <= since:
                    self._check_open()
                    await self._rung.wait()
        except TimeoutError:
            return self._last > since
        return True

    async def close(self) -> None:
        self._closed = True
        self._wake()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _wake(self) -> None:
        """Lets all go that wait now; those who wait from now on wait for the next time."""
        self._rung.set()
        self._rung = asyncio.Event()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"the store at {self._address.url} is closed")

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_until_it_breaks()
            except (CloisterError, Error, OSError) as error:
                said = self._address.without_secrets(str(error).strip())
                _log.warning("events of others at %s are not heard: %s", self._address.url, said)
            await asyncio.sleep(_PAUSE_S)

    async def _listen_until_it_breaks(self) -> None:
        connection = await connect(self._address, "cloister listener")
        async with connection:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._address.channel)))
            cursor = await connection.execute("SELECT coalesce(max(seq), 0) FROM events")
            row = await cursor.fetchone()
            self.ring(0 if row is None else int(row[0]))
            async for notice in connection.notifies():
                self.ring(int(notice.payload))
