"""Programs that go on with what idempotent reads came to before that is safe: what may rely on it, and what may not."""

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, ExternalCallRecord, Hook, HookedCall, SessionLimits, Tool, tool
from cloister.core.errors import StoreUnavailable
from cloister.ports.clock import SystemClock
from cloister.ports.journal import Entry
from cloister.ports.rows import Batch, Settle
from cloister.stores.sqlite import SqliteStore

pytestmark = pytest.mark.anyio


class Shop:
    """Reads and payments, on a store that notes what it is handed and loses what it is told to lose."""

    def __init__(self, path: Path) -> None:
        self.store = Losing(path)
        self.paid: list[int] = []
        # What was in the store when a payment was made.
        self.found: Sequence[Entry] = ()

        @tool(side_effect="read")
        async def look(n: int) -> int:
            """Look."""
            return n * 2

        @tool(side_effect="write", idempotent=False)
        async def pay(n: int) -> str:
            """Pay."""
            self.paid.append(n)
            self.found = [entry for cell in await self.store.cells("s") for entry in await self.store.calls(cell.id)]
            return f"paid {n}"

        @tool
        async def careless(n: int) -> int:
            """Says nothing of what it does."""
            return n * 2

        self.tools: list[Tool] = [look, pay, careless]

    def open(self, **options: Any) -> Cloister:
        limits = SessionLimits(max_external_calls=100, wall_ms=60_000)
        return Cloister(store=self.store, tools=self.tools, limits=limits, **options)

    async def settled(self) -> list[int]:
        """The numbers of the calls whose ends are in the store."""
        rows = [entry for cell in await self.store.cells("s") for entry in await self.store.calls(cell.id)]
        return [entry.intent.number for entry in rows if entry.settled is not None]


class Losing(SqliteStore):
    def __init__(self, path: Path) -> None:
        super().__init__(path, clock=SystemClock())
        self.ends: list[int] = []
        # How many batches with ends in them are refused from now on.
        self.loses = 0

    def write(self, batch: Batch) -> Awaitable[tuple[int, ...]]:
        answers = sum(isinstance(write, Settle) for write in batch.writes)
        if answers:
            self.ends.append(answers)
        if answers and self.loses:
            self.loses -= 1
            refused: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
            refused.set_exception(StoreUnavailable("the disk is full"))
            return refused
        return super().write(batch)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "s.db")


CHAIN = "total = 0\nfor i in range(48):\n    total += await look(i)\ntotal"


async def test_reads_of_a_chain_get_on_record_many_at_a_time(shop: Shop) -> None:
    async with shop.open() as cloister:
        result = await (await cloister.open_session("s")).run(CHAIN)
        assert result.result == sum(range(48)) * 2
        # Its end is told, so all that it was told is there.
        assert await shop.settled() == list(range(1, 49))
    assert sum(shop.store.ends) == 48
    assert max(shop.store.ends) > 1


async def test_a_tool_that_declares_nothing_is_on_record_before_its_program_goes_on(shop: Shop) -> None:
    async with shop.open() as cloister:
        result = await (await cloister.open_session("s")).run(CHAIN.replace("look", "careless"))
        assert result.result == sum(range(48)) * 2
    assert shop.store.ends == [1] * 48


async def test_a_write_is_not_made_before_the_reads_before_it_are_on_record(shop: Shop) -> None:
    async with shop.open() as cloister:
        code = "seen = [await look(1), await look(2)]\nawait pay(sum(seen))"
        assert (await (await cloister.open_session("s")).run(code)).result == "paid 6"
    assert shop.paid == [6]
    assert [entry.settled is not None for entry in shop.found] == [True, True, False]


async def test_what_was_read_and_lost_leads_to_no_write(shop: Shop) -> None:
    async with shop.open() as cloister:
        session = await cloister.open_session("s")
        await session.run("before = 1")
        shop.store.loses = 1_000
        result = await session.run("before = 2\nseen = await look(1)\nawait pay(seen)")
        shop.store.loses = 0
        assert shop.paid == []
        assert result.status != "ok"


@pytest.mark.parametrize("reads", [1, 40])
async def test_program_that_lost_an_answer_once_has_not_ended_whatever_it_catches(shop: Shop, reads: int) -> None:
    async with shop.open() as cloister:
        session = await cloister.open_session("s")
        shop.store.loses = 1
        code = f"""
seen = [await look(i) for i in range({reads})]
for i in range(3):
    try:
        await pay(i)
    except RuntimeError:
        pass
"""
        result = await session.run(code)
        assert (result.status, shop.paid) == ("interrupted", [])
        assert (await session.run("await pay(7)")).result == "paid 7"
    assert shop.paid == [7]


async def test_program_that_was_told_what_was_lost_has_not_ended(shop: Shop) -> None:
    async with shop.open() as cloister:
        session = await cloister.open_session("s")
        await session.run("before = 1")
        shop.store.loses = 1_000
        result = await session.run("before = 2\nawait look(1)")
        shop.store.loses = 0
        assert result.error is not None
        assert (result.status, result.error.code) == ("interrupted", "INTERRUPTED")
        assert "could not be written down" in result.error.message
        # The session is what it was, and goes on.
        assert (await session.run("[before, await look(2)]")).result == [1, 4]
        for past in await session.history():
            assert past.state != "completed" or all(call.status == "ok" for call in past.calls)


async def test_history_has_what_was_read_until_now(shop: Shop) -> None:
    waits, go_on = asyncio.Event(), asyncio.Event()

    @tool(side_effect="read")
    async def hold() -> None:
        """Take as long as it takes."""
        waits.set()
        await go_on.wait()

    shop.tools.append(hold)
    async with shop.open() as cloister:
        session = await cloister.open_session("s")
        running = asyncio.create_task(session.run("await look(1)\nawait hold()"))
        await waits.wait()
        [past] = await session.history()
        assert [(call.name, call.status) for call in past.calls] == [("look", "ok"), ("hold", None)]
        go_on.set()
        assert (await running).ok


async def test_hooks_hear_of_a_read_when_it_is_on_record(shop: Shop) -> None:
    seen: list[list[int]] = []

    class Hearing(Hook):
        async def after_call(self, call: HookedCall, record: ExternalCallRecord) -> None:
            seen.append(await shop.settled())

    async with shop.open(hooks=[Hearing()]) as cloister:
        assert (await (await cloister.open_session("s")).run("await look(1)")).ok
    assert seen == [[1]]


async def test_host_is_told_what_its_own_call_came_to_when_that_is_on_record(shop: Shop) -> None:
    async with shop.open() as cloister:
        session = await cloister.open_session("s")
        called = await session.call("look", {"n": 1})
        assert called.ok
        [entry] = await shop.store.calls(called.cell_id)
        assert entry.settled is not None


async def test_large_answer_is_on_record_before_its_program_goes_on(shop: Shop) -> None:
    @tool(side_effect="read")
    async def much() -> str:
        """A lot."""
        return "x" * 100_000

    shop.tools.append(much)
    async with shop.open() as cloister:
        result = await (await cloister.open_session("s")).run("for i in range(8):\n    await much()")
        assert result.ok
    assert shop.store.ends == [1] * 8
