# pyright: reportPrivateUsage=false, reportUnknownMemberType=false
"""A store that cannot be written for a while: said so, nothing lost that was acknowledged, and on it goes."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, Completed, Session, tool
from cloister.core.call import CallStatus
from cloister.core.errors import StoreUnavailable
from cloister.ports.clock import SystemClock
from cloister.stores.sqlite import SqliteStore
from tests.crash.parent import Kept, look
from tests.crash.wreck import wreck

pytestmark = pytest.mark.anyio

SAFE = """
async def safe(n):
    try:
        return await pay(n)
    except RuntimeError as e:
        return str(e).split(':')[0]
"""


class Shop:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.paid: list[int] = []
        self.store = SqliteStore(path, clock=SystemClock())
        self.break_store: Callable[[], Any] | None = None

    def cloister(self) -> Cloister:
        @tool(side_effect="write", idempotent=False)
        async def pay(n: int) -> str:
            """Once. Some of them break the store while they are at it."""
            self.paid.append(n)
            if n >= 100 and self.break_store is not None:
                await self.break_store()
            return f"paid {n}"

        return Cloister(tools=[pay], store=self.store)

    async def fill_up(self) -> None:
        """From now on the file cannot grow, and what is free in it is taken."""
        await self.store._change(lambda hand: hand.rows(f"PRAGMA max_page_count = {hand.value('PRAGMA page_count')}"))

    async def make_room(self) -> None:
        await self.store._change(lambda hand: hand.rows("PRAGMA max_page_count = 4294967294"))

    async def forbid(self) -> None:
        await self.store._change(lambda hand: hand.rows("PRAGMA query_only = 1"))

    def allow(self) -> None:
        raw = self.store._here().writer._hand.raw
        raw.pragma("query_only", 0)


async def _fill(session: Session, most: int = 400) -> str:
    """Until nothing more goes in; what that was told as."""
    for number in range(most):
        try:
            await session.values.set(f"filler.{number}", "x" * 3000)
        except StoreUnavailable as error:
            return str(error)
    raise AssertionError("it never got full")


async def test_a_full_disk_is_told_and_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "s.db")
    async with shop.cloister() as cloister:
        session = await cloister.open_session("s")
        assert (await session.run(SAFE + "x = await safe(1)\nx")).result == "paid 1"
        await session.values.set("acknowledged", 1)
        await shop.fill_up()
        assert "the disk is full" in await _fill(session)
        # What is small may still fit in. What does not is not made.
        result = await session.run("await safe(2)")
        assert result.error is not None or result.result in ("TOOL_ERROR", "OUTCOME_UNKNOWN", "paid 2")
        await wreck(shop.path, tmp_path / "w.db")

        await shop.make_room()
        assert (await session.run("[x, await safe(3)]")).result == ["paid 1", "paid 3"]
        await session.values.set("later", 2)
    assert shop.paid in ([1, 3], [1, 2, 3])
    kept = await _look(tmp_path / "w.db")
    assert kept.values["s", "acknowledged"].value == 1
    written = {str(entry.intent.arguments) for entry in kept.calls.values()}
    assert ("{'n': 2}" in written) == (2 in shop.paid)
    assert kept.findings == []

    # Where the host died of it, the next one goes on with what was acknowledged.
    after = Shop(tmp_path / "w.db")
    async with after.cloister() as cloister:
        session = await cloister.open_session("s")
        for cell in await session.cells():
            await session.wait(cell.id)
        assert (await session.run("x")).result == "paid 1"
        assert await session.values.get("acknowledged") == 1
    assert after.paid in ([[]] if 2 in shop.paid else [[], [2]])


@pytest.mark.parametrize("trouble", ["full", "read-only"])
async def test_a_call_whose_end_cannot_be_written_is_unknown_to_its_program(tmp_path: Path, trouble: str) -> None:
    shop = Shop(tmp_path / "s.db")
    async with shop.cloister() as cloister:
        session = await cloister.open_session("s")
        await session.run(SAFE)

        async def break_store() -> None:
            if trouble == "read-only":
                await shop.forbid()
            else:
                await shop.fill_up()
                await _fill(session)

        shop.break_store = break_store
        # It mends as soon as the program has been told, so that its end can be written.
        gate: Any = session._gate
        settle, asked = gate._execution._settle, asyncio.Event()

        async def settling(*args: Any, **more: Any) -> bool:
            written = await settle(*args, **more)
            if trouble == "read-only":
                shop.allow()
            else:
                await shop.make_room()
            asked.set()
            return written

        gate._execution._settle = settling
        seen = await session.exec("y = await safe(100)\ny", yield_ms=20_000)
        assert asked.is_set()
        if trouble == "read-only":
            assert isinstance(seen, Completed)
            assert seen.result == "OUTCOME_UNKNOWN"
        assert shop.paid == [100]
    kept = await _look(shop.path)
    [entry] = kept.calls.values()
    assert entry.settled is None or entry.settled.status in (CallStatus.UNKNOWN, CallStatus.OK)
    assert kept.findings == []


async def test_a_store_that_is_read_only_is_told_so_and_goes_on_afterwards(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "s.db")
    async with shop.cloister() as cloister:
        session = await cloister.open_session("s")
        await session.run(SAFE)
        await session.values.set("acknowledged", 1)
        await shop.forbid()
        with pytest.raises(StoreUnavailable, match="read-only"):
            await session.values.set("refused", 1)
        with pytest.raises(StoreUnavailable, match="read-only"):
            await cloister.open_session("another")
        with pytest.raises(StoreUnavailable, match="read-only"):
            await session.run("await safe(1)")
        assert shop.paid == []
        shop.allow()
        assert (await session.run("await safe(2)")).result == "paid 2"
        # One that was refused is not half open.
        assert (await (await cloister.open_session("another")).run("1")).result == 1
    kept = await _look(shop.path)
    assert ("s", "acknowledged") in kept.values
    assert ("s", "refused") not in kept.values
    assert kept.findings == []


async def test_a_store_that_cannot_be_opened_is_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"not a database at all" * 10)
    with pytest.raises(Exception, match="not a database"):
        async with Cloister(store=f"sqlite://{tmp_path}/s.db"):
            pass


async def _look(path: Path) -> Kept:
    return await asyncio.to_thread(look, path)
