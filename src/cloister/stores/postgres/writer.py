"""The writer: one connection, one task, everything in the order in which it came.

Whatever is in line when a commit is done goes into the next one. When the connection breaks, all that is in line
fails with it: who is told that a write is safe may rely on those before it, so none may overtake one that was lost.
The next write connects anew, after a pause that grows while the server is away.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from psycopg import Error

from cloister.core.errors import CloisterError, StoreUnavailable
from cloister.ports.clock import Clock
from cloister.ports.rows import Batch
from cloister.stores.postgres.address import Address
from cloister.stores.postgres.commit import Committer
from cloister.stores.postgres.connection import (
    Connection,
    connect,
    execute,
    is_alive,
    is_idle,
    is_the_batchs_own_fault,
    trouble,
)
from cloister.stores.postgres.line import Errand, Line, Waiting
from cloister.stores.postgres.order import Order, prepare
from cloister.stores.postgres.schema import MIGRATIONS, newer, version_of
from cloister.stores.postgres.statements import BEGIN, COMMIT, write_lock
from cloister.stores.postgres.ticket import Ticket

T = TypeVar("T")
_log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
# Rounds of the event loop that a commit waits for what comes with it; each is a fraction of a millisecond.
_MOST_ROUNDS = 8
# A server that holds the connection open and says nothing for so long is as good as gone.
_PATIENCE_S = 120.0
# In the list of what is selected: among the conditions it could be carried out before the others, on anybody.
_END_PREDECESSORS = """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE application_name = %b AND pid <> pg_backend_pid() AND usename = current_user"""


class Writer:
    def __init__(self, address: Address, clock: Clock | None, on_events: Callable[[int], None]) -> None:
        self._address = address
        self._clock = clock
        self._on_events = on_events
        self._committer = Committer(address)
        # Its own, so that the server can be told to end what is left of a connection that broke.
        self._name = f"cloister writer {secrets.token_hex(8)}"
        self._line = Line()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._closing = False
        self._pause_s = 0.0
        self._not_before = 0.0

    # -- for callers -------------------------------------------------------------------------------------------------

    async def open(self, prepare_schema: Callable[[Connection], Awaitable[None]]) -> None:
        connection = await connect(self._address, self._name, by_key=True)
        try:
            await prepare_schema(connection)
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        self._task = asyncio.create_task(self._run(), name=self._name)

    def write(self, batch: Batch) -> Ticket[tuple[int, ...]]:
        if self._closing or self._task is None:
            return _failed(StoreUnavailable(f"the store at {self._address.url} is closed"))
        try:
            parts = prepare(batch)
        except CloisterError as refusal:
            return _failed(refusal)
        order = Order(batch, parts)
        self._append(order)
        return order.ticket

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Have it done in its turn, in a transaction of its own and under the write lock."""
        if self._closing or self._task is None:
            raise StoreUnavailable(f"the store at {self._address.url} is closed")
        errand = Errand(work)
        self._append(errand)
        return await errand.ticket

    async def close(self) -> None:
        """When all that is in line is done."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await asyncio.shield(self._task)
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    # -- the task ----------------------------------------------------------------------------------------------------

    def _append(self, item: Waiting) -> None:
        self._line.append(item)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            if not self._line:
                if self._closing:
                    return
                self._wake.clear()
                await self._wake.wait()
                continue
            await self._gather()
            # Its own frame, so that nothing is held on to while there is nothing to do.
            await self._take_turn()

    async def _gather(self) -> None:
        """As long as each round of the event loop brings more, they may as well go together."""
        for _ in range(_MOST_ROUNDS):
            there = len(self._line)
            await asyncio.sleep(0)
            if len(self._line) == there:
                return

    async def _take_turn(self) -> None:
        taken = self._line.take()
        items: Sequence[Waiting] = [taken] if isinstance(taken, Errand) else taken
        try:
            async with asyncio.timeout(_patience(taken)):
                await self._do(taken)
        except CloisterError as error:
            self._fail(items, error)
        except (Error, OSError, TimeoutError) as error:
            await self._let_go()
            self._fail(items, trouble(self._address, error))
        except Exception as error:  # noqa: BLE001 - containment: the line must go on; the callers are told
            _log.exception("the writer of %s met something that it does not know", self._address.url)
            await self._let_go()
            self._fail(items, StoreUnavailable(f"the store at {self._address.url} failed: {type(error).__name__}"))

    def _fail(self, items: Sequence[Waiting], error: CloisterError) -> None:
        for item in (*items, *self._line.take_all()):
            item.ticket.fail(error)

    async def _do(self, taken: Errand | list[Order]) -> None:
        connection = await self._connected()
        if isinstance(taken, Errand):
            await self._do_errand(connection, taken)
        else:
            await self._do_group(connection, taken)

    async def _do_group(self, connection: Connection, group: list[Order]) -> None:
        now_ms = None if self._clock is None else self._clock.now_ms()
        try:
            outcomes = await self._committer.commit(connection, group, now_ms)
        except Error as error:
            if not is_the_batchs_own_fault(error):
                raise
            await connection.rollback()
            if len(group) == 1:
                group[0].ticket.fail(trouble(self._address, error))
                return
            for order in group:
                await self._do_group(connection, [order])
            return
        last = 0
        for order, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, CloisterError):
                order.ticket.fail(outcome)
            else:
                order.ticket.settle(outcome)
                last = outcome[-1] if outcome else last
        if last:
            self._on_events(last)

    async def _do_errand(self, connection: Connection, errand: Errand) -> None:
        await execute(connection, *BEGIN)
        await execute(connection, *write_lock(self._address.lock_number))
        result = await errand.work(connection)
        await execute(connection, *COMMIT)
        errand.ticket.settle(result)

    # -- the connection ----------------------------------------------------------------------------------------------

    async def _connected(self) -> Connection:
        if self._connection is not None and is_alive(self._connection) and is_idle(self._connection):
            return self._connection
        await self._let_go()
        loop = asyncio.get_running_loop()
        if not self._closing:
            await asyncio.sleep(max(0.0, self._not_before - loop.time()))
        try:
            connection = await connect(self._address, self._name, by_key=True)
        except CloisterError:
            self._pause_s = min(max(_FIRST_PAUSE_S, self._pause_s * 2), _LONGEST_PAUSE_S)
            self._not_before = loop.time() + self._pause_s
            raise
        try:
            # What was sent on the old connection and not yet read by the server must not happen after what comes now.
            ended = await (await execute(connection, _END_PREDECESSORS, (self._name,))).fetchall()
            if (False,) in ended:
                raise StoreUnavailable(f"the store at {self._address.url} has not ended a connection that broke")
            version = await version_of(connection)
            if version > len(MIGRATIONS):
                raise newer(self._address, version)
        except BaseException:
            await connection.close()
            raise
        self._pause_s = self._not_before = 0.0
        self._connection = connection
        _log.info("connected again to %s", self._address.url)
        return connection

    async def _let_go(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()


def _patience(taken: Errand | list[Order]) -> float:
    return _PATIENCE_S if isinstance(taken, Errand) else _PATIENCE_S + sum(order.size for order in taken) / (1 << 20)


def _failed(error: CloisterError) -> Ticket[tuple[int, ...]]:
    ticket: Ticket[tuple[int, ...]] = Ticket()
    ticket.fail(error)
    return ticket
