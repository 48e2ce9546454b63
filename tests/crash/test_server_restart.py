"""A PostgreSQL server that goes away under running cells: said so, nothing acknowledged is lost, and on it goes."""

import asyncio
import signal
from collections import Counter
from functools import partial

import pytest

from cloister import CellLimits, Cloister, Completed, Observation, Session, Yielded, tool
from cloister.core.call import CallStatus
from cloister.core.errors import StoreError, StoreUnavailable
from cloister.stores.postgres import PostgresStore
from tests.crash.parent import look_into
from tests.stores.pg_server import PgServer
from tests.stores.postgres_lab import until

pytestmark = pytest.mark.anyio
SESSIONS, CALLS = 6, 30
CODE = """
got = []
for i in range({calls}):
    try:
        got.append(await pay({first} + i))
    except RuntimeError as e:
        got.append(str(e).split(':')[0])
got
"""


class Shop:
    def __init__(self, server: PgServer) -> None:
        self.server = server
        self.schema = server.new_schema()
        self.paid: Counter[int] = Counter()

    def store(self) -> PostgresStore:
        return PostgresStore(self.server.url(), schema=self.schema)

    def open(self) -> Cloister:
        @tool(side_effect="write", idempotent=False)
        async def pay(n: int) -> str:
            """Once."""
            self.paid[n] += 1
            await asyncio.sleep(0)
            return f"paid {n}"

        limits = CellLimits(hibernate_after_ms=50)
        return Cloister(tools=[pay], store=self.store(), snapshot_key=b"k" * 32, workers=2, cells=limits)


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGINT], ids=["at once", "in order"])
async def test_server_that_restarts_under_running_cells_costs_nothing_that_was_acknowledged(
    pg_server: PgServer, how: signal.Signals
) -> None:
    shop, acknowledged = Shop(pg_server), dict[str, int]()
    told: set[int] = set()
    async with shop.open() as cloister:
        sessions = [await cloister.open_session(f"s{number}") for number in range(SESSIONS)]
        for session in sessions:
            await session.run("kept = 'before'")
        for part in range(2):
            enough = shop.paid.total() + 20
            cells = [
                await session.exec(CODE.format(calls=CALLS, first=number * 1000 + part * 100), yield_ms=0)
                for number, session in enumerate(sessions)
            ]
            await until(partial(_reached, shop.paid, enough))
            await asyncio.to_thread(pg_server.stop, how)
            try:
                for trying in (sessions[0].values.set("refused", 1), cloister.open_session("another")):
                    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1"):
                        await trying
            finally:
                pg_server.start()
            await _set(sessions[0], f"part.{part}", acknowledged)
            for session, cell in zip(sessions, cells, strict=True):
                end = await _end(session, cell)
                said: list[str] = end.result if isinstance(end, Completed) else []
                told |= {int(word.removeprefix("paid ")) for word in said if word.startswith("paid")}
                # Service has resumed, and the variables of before are there.
                assert (await session.run("[kept, await pay(-1)]")).result == ["before", "paid -1"]
        assert (await (await cloister.open_session("another")).run("1")).result == 1
        assert "refused" not in await sessions[0].values.all()
    shop.paid.pop(-1)
    assert shop.paid
    assert set(shop.paid.values()) == {1}
    assert all(shop.paid[n] == 1 for n in told)
    async with shop.store() as store:
        kept = await look_into(store)
    assert kept.findings == []
    assert {key: kept.values["s0", key].value for key in acknowledged} == acknowledged
    known = {
        entry.intent.arguments["n"]: entry for entry in kept.calls.values() if isinstance(entry.intent.arguments, dict)
    }
    # What was made is on record, and what a program was told is how it was settled.
    assert set(shop.paid) <= set(known)
    assert all((settled := known[n].settled) and settled.status is CallStatus.OK for n in told)


def _reached(paid: Counter[int], count: int) -> bool:
    return paid.total() >= count


async def _set(session: Session, key: str, acknowledged: dict[str, int]) -> None:
    """As soon as the server takes it."""
    async with asyncio.timeout(30):
        while key not in acknowledged:
            try:
                await session.values.set(key, 1)
            except StoreError:
                await asyncio.sleep(0.02)
            else:
                acknowledged[key] = 1


async def _end(session: Session, seen: Observation) -> Observation:
    async with asyncio.timeout(60):
        while isinstance(seen, Yielded):
            seen = await session.wait(seen.cell_id)
    return seen
