"""How many calls of one tool run at once, and how many a minute."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.limits import CapabilityLimits
from cloister.gate import Budget, Gate
from cloister.gate.quota import Bucket
from cloister.ports.engine import Call, Raised, Returned
from cloister.tools import Tool, ToolRegistry

pytestmark = pytest.mark.anyio


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


class Crowd:
    """A tool that counts who is in it, and lets nobody out until it is told to."""

    def __init__(self, limits: CapabilityLimits) -> None:
        self.inside = self.most = 0
        self.order: list[int] = []
        self.door, self.full = asyncio.Event(), asyncio.Event()

        async def enter(n: int) -> int:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.order.append(n)
            if self.inside == limits.concurrency:
                self.full.set()
            try:
                await self.door.wait()
            finally:
                self.inside -= 1
            return n

        self.gate = Gate(ToolRegistry([Tool(enter, limits=limits)]), Clock())
        self.budget = Budget(1000, 1000)

    def call(self, n: int) -> "asyncio.Task[object]":
        async def settle() -> object:
            return (await self.gate.handle(Call(n, "enter", (n,)), f"cal_{n}", self.budget)).settlement

        return asyncio.create_task(settle())


async def test_no_more_calls_run_at_once_than_the_concurrency_allows() -> None:
    crowd = Crowd(CapabilityLimits(concurrency=3))
    calls = [crowd.call(n) for n in range(10)]
    await crowd.full.wait()
    crowd.door.set()
    assert [await call for call in calls] == [Returned(n, n) for n in range(10)]
    assert crowd.most == 3


async def test_those_who_wait_come_in_the_order_they_asked() -> None:
    crowd = Crowd(CapabilityLimits(concurrency=1))
    calls = [crowd.call(n) for n in range(8)]
    crowd.door.set()
    await asyncio.gather(*calls)
    assert crowd.order == list(range(8))


async def test_waiting_for_a_place_counts_against_the_call_s_own_timeout() -> None:
    crowd = Crowd(CapabilityLimits(concurrency=1, timeout_ms=50))
    first, second = crowd.call(1), crowd.call(2)
    for call in (first, second):
        settled = await call
        assert isinstance(settled, Raised)
        assert settled.error.code == "TIMEOUT_TOOL"
    assert crowd.order == [1]


async def test_call_that_is_cancelled_in_line_gives_its_place_to_the_next() -> None:
    crowd = Crowd(CapabilityLimits(concurrency=1))
    first, second, third = (crowd.call(n) for n in range(3))
    await crowd.full.wait()
    second.cancel()
    crowd.door.set()
    assert [await first, await third] == [Returned(0, 0), Returned(2, 2)]


async def test_rate_lets_a_minute_s_worth_pass_and_the_rest_at_its_pace() -> None:
    clock = Clock()
    began = clock.now
    bucket = Bucket(30, clock)
    for _ in range(30):
        await bucket.take()
    assert clock.now == began
    for _ in range(15):
        await bucket.take()
    assert clock.now - began == pytest.approx(30.0)


async def test_rate_of_a_tool_is_kept_by_the_gate() -> None:
    async def ping() -> int:
        return 1

    clock = Clock()
    began = clock.now
    limits = CapabilityLimits(rate_per_min=60, timeout_ms=60_000)
    gate = Gate(ToolRegistry([Tool(ping, limits=limits)]), clock)
    for n in range(65):
        await gate.handle(Call(n, "ping"), f"cal_{n}", Budget(100, 100))
    assert clock.now - began == pytest.approx(5.0)


@given(st.integers(1, 200), st.lists(st.floats(0, 30), max_size=60))
def test_bucket_lets_no_more_through_than_it_holds_and_a_minute_brings(rate: int, pauses: list[float]) -> None:
    async def passed() -> list[float]:
        clock = Clock()
        bucket = Bucket(rate, clock)
        moments: list[float] = []
        for pause in pauses:
            clock.now += pause
            for _ in range(max(rate // 4, 1)):
                await bucket.take()
                moments.append(clock.now)
        return moments

    moments = asyncio.run(passed())
    # A full bucket and what a minute brings back.
    for start in moments:
        assert sum(1 for moment in moments if start <= moment < start + 60) <= 2 * rate
