"""How many calls of one capability run at once, how many start in a minute, and who comes first."""

import asyncio
from collections.abc import Callable, Coroutine
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.limits import CapabilityLimits
from cloister.gate.quota import Bucket, Quota
from cloister.ports.clock import SystemClock

pytestmark = pytest.mark.anyio


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, waker))
        await waker

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for sleeper in [sleeper for sleeper in self._sleepers if sleeper[0] <= self.now]:
            self._sleepers.remove(sleeper)
            if not sleeper[1].done():
                sleeper[1].set_result(None)

    def next(self) -> float | None:
        """When the next sleeper wakes."""
        return min((due for due, waker in self._sleepers if not waker.done()), default=None)


class Door:
    """Calls that go through one quota, by their numbers."""

    def __init__(self, concurrency: int = 16, rate_per_min: int | None = None) -> None:
        self.clock = Clock()
        self.quota = Quota(CapabilityLimits(concurrency=concurrency, rate_per_min=rate_per_min), self.clock)
        # In the order in which they went in.
        self.entered: list[int] = []
        self.moments: list[float] = []
        self.tasks: list[asyncio.Task[None]] = []

    def arrive(self) -> int:
        number = len(self.tasks)
        self.tasks.append(asyncio.create_task(self._enter(number)))
        return number

    async def _enter(self, number: int) -> None:
        await self.quota.enter()
        self.entered.append(number)
        self.moments.append(self.clock.now)

    async def settle(self) -> None:
        """Until everybody who can move has moved."""
        for _ in range(6 * len(self.tasks) + 6):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def in_a_loop(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(body())


# -- concurrency -------------------------------------------------------------------------------------------------------


async def test_no_more_run_at_once_than_the_concurrency_allows() -> None:
    door = Door(concurrency=3)
    for _ in range(5):
        door.arrive()
    await door.settle()
    assert door.entered == [0, 1, 2]
    assert (door.quota.running, door.quota.waiting) == (3, 2)
    door.quota.leave()
    await door.settle()
    assert door.entered == [0, 1, 2, 3]
    assert (door.quota.running, door.quota.waiting) == (3, 1)
    await door.close()


async def test_hundred_who_wait_get_their_turn_in_the_order_they_came() -> None:
    door = Door(concurrency=1)
    for _ in range(101):
        door.arrive()
    for _ in range(100):
        await door.settle()
        door.quota.leave()
    await door.settle()
    assert door.entered == list(range(101))


async def test_slots_that_come_back_together_are_all_used_again() -> None:
    door = Door(concurrency=4)
    for _ in range(8):
        door.arrive()
    await door.settle()
    for _ in range(4):
        door.quota.leave()
    await door.settle()
    assert door.entered == list(range(8))
    assert (door.quota.running, door.quota.waiting) == (4, 0)


async def test_whoever_comes_after_a_slot_came_back_does_not_pass_those_who_wait() -> None:
    door = Door(concurrency=1)
    door.arrive()
    door.arrive()
    await door.settle()
    door.quota.leave()
    # The slot is free for this one moment, but it is not for whoever comes now.
    assert not door.quota.try_enter()
    door.arrive()
    await door.settle()
    assert door.entered == [0, 1]
    await door.close()


@pytest.mark.parametrize("cancelled", [1, 3, 5], ids=["first", "middle", "last"])
async def test_one_that_is_cancelled_in_line_does_not_disturb_the_others(cancelled: int) -> None:
    door = Door(concurrency=1)
    for _ in range(6):
        door.arrive()
    await door.settle()
    door.tasks[cancelled].cancel()
    await door.settle()
    assert door.quota.waiting == 4
    for _ in range(4):
        door.quota.leave()
        await door.settle()
    assert door.entered == [number for number in range(6) if number != cancelled]
    assert (door.quota.running, door.quota.waiting) == (1, 0)


@pytest.mark.parametrize("slot_first", [True, False])
async def test_slot_that_comes_in_the_moment_of_a_cancellation_goes_to_the_next(slot_first: bool) -> None:
    door = Door(concurrency=1)
    for _ in range(3):
        door.arrive()
    await door.settle()
    if slot_first:
        door.quota.leave()
        door.tasks[1].cancel()
    else:
        door.tasks[1].cancel()
        door.quota.leave()
    await door.settle()
    assert door.entered == [0, 2]
    assert (door.quota.running, door.quota.waiting) == (1, 0)


# -- rate --------------------------------------------------------------------------------------------------------------


async def test_rate_lets_a_minute_s_worth_go_at_once_and_the_rest_at_its_pace() -> None:
    door = Door(concurrency=100, rate_per_min=30)
    for _ in range(33):
        door.arrive()
    await door.settle()
    assert len(door.entered) == 30
    door.clock.advance(1.9)
    await door.settle()
    assert len(door.entered) == 30
    door.clock.advance(0.1)
    await door.settle()
    assert len(door.entered) == 31
    door.clock.advance(4.0)
    await door.settle()
    assert door.entered == list(range(33))


async def test_bucket_never_holds_more_than_a_minute_s_worth() -> None:
    door = Door(concurrency=100, rate_per_min=3)
    door.clock.advance(3600)
    for _ in range(5):
        door.arrive()
    await door.settle()
    assert len(door.entered) == 3
    await door.close()


async def test_without_a_rate_nobody_waits_for_time() -> None:
    door = Door(concurrency=1000)
    for _ in range(1000):
        assert door.quota.try_enter()


async def test_whoever_waits_for_a_token_holds_no_slot() -> None:
    door = Door(concurrency=2, rate_per_min=1)
    for _ in range(3):
        door.arrive()
    await door.settle()
    assert (door.quota.running, door.quota.waiting) == (1, 2)
    await door.close()


async def test_whoever_waits_for_a_slot_holds_no_token() -> None:
    """Else those in line would gather tokens, and start faster than the rate once there are slots."""
    door = Door(concurrency=1, rate_per_min=2)
    for _ in range(6):
        door.arrive()
    await door.settle()
    # Ten minutes of a stuck call: twenty tokens came, and two of them fit into the bucket.
    door.clock.advance(600)
    for _ in range(3):
        door.quota.leave()
        await door.settle()
    assert door.entered == [0, 1, 2]
    await door.close()


async def test_one_that_is_cancelled_while_it_waits_for_a_token_leaves_it_to_the_next() -> None:
    door = Door(concurrency=5, rate_per_min=1)
    for _ in range(4):
        door.arrive()
    await door.settle()
    door.clock.advance(50)
    door.tasks[1].cancel()
    door.tasks[2].cancel()
    await door.settle()
    door.clock.advance(10)
    await door.settle()
    assert door.entered == [0, 3]
    assert (door.quota.running, door.quota.waiting) == (2, 0)


async def test_hair_of_a_token_is_not_waited_for() -> None:
    clock = Clock()
    bucket = Bucket(7, clock)
    for _ in range(7):
        bucket.take()
    # A seventh of a minute in seven steps: as a sum of fractions it is a hair less than one token.
    for _ in range(7):
        clock.now += 60 / 49
        bucket.missing()
    assert bucket.missing() == 0


async def test_real_clock_serves_too() -> None:
    quota = Quota(CapabilityLimits(concurrency=100_000, rate_per_min=6000), SystemClock())
    while quota.try_enter():
        pass
    async with asyncio.timeout(10):
        await quota.enter()


# -- for every course of events ----------------------------------------------------------------------------------------


class Model:
    """What the promise says, in the plainest words, with exact numbers."""

    def __init__(self, concurrency: int, rate: int | None) -> None:
        self.concurrency, self.rate = concurrency, rate
        self.tokens = Fraction(rate or 0)
        self.running = 0
        self.line: list[int] = []
        self.entered: list[int] = []

    def wait(self, seconds: Fraction) -> None:
        if self.rate is not None:
            self.tokens = min(self.tokens + seconds * self.rate / 60, Fraction(self.rate))

    def admit(self) -> None:
        while self.line and self.running < self.concurrency and (self.rate is None or self.tokens >= 1):
            self.running += 1
            self.tokens -= 1
            self.entered.append(self.line.pop(0))


actions = st.one_of(
    st.just(("arrive", 0)),
    st.tuples(st.sampled_from(["leave", "cancel"]), st.integers(0, 10)),
    st.tuples(st.just("wait"), st.integers(1, 40)),
)


# Rates whose intervals have exact halves, so that the model's fractions and the bucket's floats agree to the bit.
@given(
    st.integers(1, 4),
    st.sampled_from([None, 1, 2, 15, 30, 60, 120, 240]),
    st.lists(st.lists(actions, max_size=4), max_size=40),
)
def test_exactly_those_go_in_who_are_first_and_find_a_slot_and_a_token(
    concurrency: int, rate: int | None, course: list[list[tuple[str, int]]]
) -> None:
    """So nobody waits while there is a place for them, and nobody passes; whatever happens in one moment."""

    async def body() -> None:
        door, model = Door(concurrency, rate), Model(concurrency, rate)
        for together in course:
            for action, which in together:
                if action == "arrive":
                    model.line.append(door.arrive())
                elif action == "wait":
                    door.clock.advance(which / 4)
                    model.wait(Fraction(which, 4))
                elif action == "leave" and model.running:
                    door.quota.leave()
                    model.running -= 1
                elif action == "cancel" and model.line:
                    door.tasks[model.line.pop(which % len(model.line))].cancel()
            model.admit()
            await door.settle()
            assert door.entered == model.entered
            assert (door.quota.running, door.quota.waiting) == (model.running, len(model.line))
            assert door.quota.running <= concurrency
        await door.close()

    in_a_loop(body)


@given(
    st.integers(1, 3),
    st.integers(1, 400),
    st.lists(st.tuples(st.floats(0, 40), st.floats(0, 90)), min_size=1, max_size=40),
)
def test_in_any_stretch_of_time_no_more_start_than_a_full_bucket_and_what_comes_in_meanwhile(
    concurrency: int, rate: int, calls: list[tuple[float, float]]
) -> None:
    """Each call comes a while after the one before, in a crowd, and holds its slot for a while."""

    async def body() -> None:
        door = Door(concurrency, rate)
        crowd = max(rate // 8, 1)

        async def one(hold: float) -> None:
            await door.quota.enter()
            door.moments.append(door.clock.now)
            await door.clock.sleep(hold / crowd)
            door.quota.leave()

        async def come() -> None:
            for pause, hold in calls:
                await door.clock.sleep(pause)
                door.tasks.extend(asyncio.create_task(one(hold)) for _ in range(crowd))

        coming = asyncio.create_task(come())
        while len(door.moments) < len(calls) * crowd and len(door.moments) < 300:
            for _ in range(8):
                await asyncio.sleep(0)
            due = door.clock.next()
            if due is not None:
                door.clock.advance(max(due - door.clock.now, 0.0))
        coming.cancel()
        await door.close()
        moments = door.moments
        for first, begin in enumerate(moments):
            for last in range(first, len(moments)):
                allowed = rate + (moments[last] - begin) * rate / 60
                assert last - first + 1 <= allowed + 1e-6

    in_a_loop(body)
