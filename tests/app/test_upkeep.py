"""What a host does from time to time: its log does not grow for ever, and nothing that is pending goes."""

from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, EventRetention, InvalidInput, tool
from cloister.core.errors import StoreUnavailable
from cloister.stores.sqlite import SqliteStore
from tests.sessions.hurried import HurriedClock

pytestmark = pytest.mark.anyio
DAY_MS = 24 * 3_600_000


@tool(approval_policy="manual")
async def ask(n: int) -> int:
    """Ask first."""
    return n


class Watched(SqliteStore):
    """Counts what is asked of it, and can be in trouble."""

    def __init__(self, path: Path, clock: HurriedClock) -> None:
        super().__init__(path, clock=clock)
        self.rounds = 0
        self.broken = False

    async def collect(self) -> int:
        self.rounds += 1
        if self.broken:
            raise StoreUnavailable("not now")
        return await super().collect()

    async def rounds_from_now(self, count: int) -> None:
        """Whole ones: the one that is under way may have begun before."""
        goal = self.rounds + count + 1
        while self.rounds < goal:
            await HurriedClock().sleep(1)


def _made(store: Watched, clock: HurriedClock, **keep: Any) -> Cloister:
    return Cloister(tools=[ask], store=store, clock=clock, event_retention=EventRetention(**keep))


async def test_old_events_go_and_those_of_a_cell_that_has_not_ended_stay(tmp_path: Path) -> None:
    clock = HurriedClock()
    store = Watched(tmp_path / "s.db", clock)
    async with _made(store, clock, max_age_ms=DAY_MS) as cloister:
        done, busy = await cloister.open_session("done"), await cloister.open_session("busy")
        await done.run("1")
        await busy.exec("await ask(1)", yield_ms=20_000)
        await store.rounds_from_now(2)
        assert await store.events(session_id="done")
        pending = await store.events(session_id="busy")
        clock.ahead_ms += 2 * DAY_MS
        await store.rounds_from_now(2)
        assert await store.events(session_id="done") == []
        assert list(await store.events(session_id="busy"))[: len(pending)] == list(pending)
        await done.run("2")
        await store.rounds_from_now(2)
        assert await store.events(session_id="done")


async def test_only_so_many_events_stay(tmp_path: Path) -> None:
    clock = HurriedClock()
    store = Watched(tmp_path / "s.db", clock)
    async with _made(store, clock, max_events=3) as cloister:
        session = await cloister.open_session("s")
        for _ in range(5):
            await session.run("1")
        async with cloister.events(since=0) as events:
            # Numbers are not used again, and what is left can be read.
            await store.rounds_from_now(2)
            left = [row.seq for row in await store.events()]
            assert len(left) == 3
            assert left[-1] == await store.last_event() >= 10
            assert (await anext(events)).seq == left[0]


async def test_without_bounds_everything_stays(tmp_path: Path) -> None:
    clock = HurriedClock()
    store = Watched(tmp_path / "s.db", clock)
    async with _made(store, clock) as cloister:
        await (await cloister.open_session("s")).run("1")
        clock.ahead_ms += 1000 * DAY_MS
        await store.rounds_from_now(2)
        assert (await store.events())[0].seq == 1


async def test_bytes_that_nothing_refers_to_go(tmp_path: Path) -> None:
    clock = HurriedClock()
    store = Watched(tmp_path / "s.db", clock)
    async with _made(store, clock) as cloister:
        session = await cloister.open_session("s")
        await session.run("x = 'x' * 1000")
        row = await store.session("s")
        assert row is not None
        assert row.image is not None
        assert await cloister.destroy_session("s")
        assert await store.blob(row.image) is not None
        clock.ahead_ms += DAY_MS
        await store.rounds_from_now(2)
        assert await store.blob(row.image) is None


async def test_a_store_in_trouble_is_asked_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = HurriedClock()
    store = Watched(tmp_path / "s.db", clock)
    store.broken = True
    async with _made(store, clock, max_events=1) as cloister:
        await store.rounds_from_now(2)
        assert "not this time: not now" in caplog.text
        store.broken = False
        await (await cloister.open_session("s")).run("1")
        await store.rounds_from_now(2)
        assert len(await store.events()) == 1


@pytest.mark.parametrize(
    "wrong",
    [{"max_age_ms": -1}, {"max_events": 1.5}, {"max_events": True}, {"every_ms": 0}, {"every_ms": None}],
)
def test_bounds_that_are_none_are_refused_by_name(wrong: dict[str, Any]) -> None:
    [name] = wrong
    with pytest.raises(InvalidInput, match=name):
        EventRetention(**wrong)


def test_retention_is_for_a_store() -> None:
    with pytest.raises(InvalidInput, match="log of a store"):
        Cloister(event_retention=EventRetention(max_events=1))
    with pytest.raises(InvalidInput, match="is an EventRetention"):
        Cloister(event_retention=7)  # type: ignore[arg-type]
