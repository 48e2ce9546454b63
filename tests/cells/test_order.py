"""Whose turn it is in a session: in order, one at a time, and never lost on the way."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cells.order import Order, Place

pytestmark = pytest.mark.anyio


class Line:
    """Places that write down what they hear."""

    def __init__(self) -> None:
        self.order = Order()
        self.heard: list[str] = []

    def place(self, name: str, *, impatient: bool = False) -> Place:
        away: Callable[[], None] = lambda: self.heard.append(f"{name} away")  # noqa: E731
        return Place(lambda: self.heard.append(name), away if impatient else None)

    def enter(self, name: str, *, impatient: bool = False) -> Place:
        place = self.place(name, impatient=impatient)
        self.order.enter(place)
        return place


async def rounds(count: int = 5) -> None:
    """Let every task that is ready run until it waits."""
    for _ in range(count):
        await asyncio.sleep(0)


async def in_time(work: "Awaitable[Place | None]") -> Place | None:
    """The bound only turns a deadlock into a failure."""
    return await asyncio.wait_for(work, 10)


# -- entries -----------------------------------------------------------------------------------------------------------


def test_the_first_to_come_has_the_turn_at_once() -> None:
    line = Line()
    assert line.order.free
    line.enter("a")
    assert line.heard == ["a"]
    assert not line.order.free
    assert len(line.order) == 0


def test_turns_are_taken_in_the_order_of_coming() -> None:
    line = Line()
    places = [line.enter(name) for name in "abcd"]
    assert line.heard == ["a"]
    assert len(line.order) == 3
    for place in places:
        line.order.leave(place)
    assert line.heard == list("abcd")
    assert line.order.free


def test_a_place_in_line_that_is_given_up_is_not_called() -> None:
    line = Line()
    a, b, _ = (line.enter(name) for name in "abc")
    line.order.leave(b)
    line.order.leave(a)
    assert line.heard == ["a", "c"]


def test_leaving_twice_takes_nobody_elses_turn() -> None:
    line = Line()
    a, b, c = (line.enter(name) for name in "abc")
    line.order.leave(a)
    line.order.leave(a)
    assert line.heard == ["a", "b"]
    line.order.leave(b)
    line.order.leave(b)
    line.order.leave(a)
    assert line.heard == ["a", "b", "c"]
    line.order.leave(c)
    assert line.order.free


def test_somebody_who_never_came_can_leave() -> None:
    line = Line()
    line.enter("a")
    line.order.leave(line.place("stranger"))
    assert line.heard == ["a"]
    assert not line.order.free


def test_a_holder_that_leaves_while_it_is_called_passes_the_turn_on() -> None:
    order, heard = Order(), list[str]()
    places: dict[str, Place] = {}

    def at_once(name: str) -> Callable[[], None]:
        def called() -> None:
            heard.append(name)
            order.leave(places[name])

        return called

    holder = Place(lambda: None)
    order.enter(holder)
    for name in "abc":
        places[name] = Place(at_once(name))
        order.enter(places[name])
    order.leave(holder)
    assert heard == ["a", "b", "c"]
    assert order.free


# -- a holder that sleeps ----------------------------------------------------------------------------------------------


def test_those_who_cannot_wait_are_turned_away_when_the_holder_falls_asleep() -> None:
    line = Line()
    a = line.enter("a")
    line.enter("b", impatient=True)
    line.enter("c")
    line.enter("d", impatient=True)
    line.order.fall_asleep()
    assert line.heard == ["a", "b away", "d away"]
    assert len(line.order) == 1
    line.order.leave(a)
    assert line.heard[-1] == "c"


def test_whoever_comes_while_the_holder_sleeps_waits_or_is_turned_away_at_once() -> None:
    line = Line()
    line.enter("a")
    line.order.fall_asleep()
    line.enter("b", impatient=True)
    line.enter("c")
    assert line.heard == ["a", "b away"]
    assert len(line.order) == 1


def test_once_the_holder_is_awake_again_everybody_may_wait() -> None:
    line = Line()
    a = line.enter("a")
    line.order.fall_asleep()
    line.order.wake()
    line.enter("b", impatient=True)
    assert line.heard == ["a"]
    line.order.leave(a)
    assert line.heard == ["a", "b"]


def test_the_next_holder_is_awake_though_the_one_before_left_in_its_sleep() -> None:
    line = Line()
    a = line.enter("a")
    line.enter("b")
    line.order.fall_asleep()
    line.order.leave(a)
    line.enter("c", impatient=True)
    assert line.heard == ["a", "b"]
    assert len(line.order) == 1


async def test_a_turn_is_refused_while_the_holder_sleeps() -> None:
    order = Order()
    holder = await in_time(order.turn())
    assert holder is not None
    waiting = asyncio.create_task(order.turn())
    await rounds()
    order.fall_asleep()
    assert await in_time(waiting) is None
    assert await in_time(order.turn()) is None
    order.leave(holder)
    assert await in_time(order.turn()) is not None


# -- cancelled ---------------------------------------------------------------------------------------------------------


async def test_a_waiter_that_is_cancelled_gives_its_place_up() -> None:
    order = Order()
    holder = await order.turn()
    waiters = [asyncio.create_task(order.turn()) for _ in range(3)]
    await rounds()
    waiters[0].cancel()
    await asyncio.wait([waiters[0]])
    assert len(order) == 2
    assert holder is not None
    order.leave(holder)
    assert await in_time(waiters[1]) is not None
    assert not waiters[2].done()
    waiters[2].cancel()


@pytest.mark.parametrize("turns_between", range(4))
async def test_a_waiter_that_is_cancelled_just_as_it_is_called_passes_the_turn_on(turns_between: int) -> None:
    order = Order()
    holder = await order.turn()
    first, second = asyncio.create_task(order.turn()), asyncio.create_task(order.turn())
    await rounds()
    assert holder is not None
    order.leave(holder)
    # Called, and not yet running: the cancellation comes in between, or after that.
    await rounds(turns_between)
    first.cancel()
    await asyncio.wait([first], timeout=10)
    if not first.cancelled():
        got = first.result()
        assert got is not None
        order.leave(got)
    assert await in_time(second) is not None


async def test_a_waiter_that_is_cancelled_just_as_it_is_turned_away_holds_nothing() -> None:
    order = Order()
    holder = await order.turn()
    waiter = asyncio.create_task(order.turn())
    await rounds()
    order.fall_asleep()
    waiter.cancel()
    await asyncio.wait([waiter], timeout=10)
    assert holder is not None
    order.leave(holder)
    assert order.free
    assert len(order) == 0


class Model:
    """What an `Order` should do, written down in the plainest way: a list."""

    def __init__(self) -> None:
        self.line: list[int] = []
        self.asleep = False
        self.turned_away: list[int] = []
        self.called: list[int] = []

    def enter(self, name: int, impatient: bool) -> None:
        if self.line and self.asleep and impatient:
            self.turned_away.append(name)
            return
        self.line.append(name)
        if len(self.line) == 1:
            self.called.append(name)

    def leave(self, name: int) -> None:
        if name not in self.line:
            return
        held = self.line[0] == name
        self.line.remove(name)
        if held:
            self.asleep = False
            if self.line:
                self.called.append(self.line[0])

    def fall_asleep(self, impatient: set[int]) -> None:
        if not self.line:
            return
        self.asleep = True
        away = [name for name in self.line[1:] if name in impatient]
        self.turned_away += away
        self.line = [name for name in self.line if name not in away]


actions = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.booleans()),
        st.tuples(st.just("leave"), st.integers(0, 12)),
        st.tuples(st.just("leave holder"), st.none()),
        st.tuples(st.just("sleep"), st.none()),
        st.tuples(st.just("wake"), st.none()),
    ),
    max_size=40,
)


@given(actions)
def test_an_order_is_a_list_whose_first_has_the_turn(steps: list[tuple[str, bool | int | None]]) -> None:
    order, model = Order(), Model()
    called, turned_away, places, impatient = list[int](), list[int](), list[Place](), set[int]()

    def make(name: int, in_a_hurry: bool) -> Place:
        away: Callable[[], None] = lambda: turned_away.append(name)  # noqa: E731
        return Place(lambda: called.append(name), away if in_a_hurry else None)

    for what, which in steps:
        if what == "enter":
            name = len(places)
            places.append(make(name, bool(which)))
            if which:
                impatient.add(name)
            order.enter(places[name])
            model.enter(name, bool(which))
        elif what == "leave" and isinstance(which, int) and which < len(places):
            order.leave(places[which])
            model.leave(which)
        elif what == "leave holder" and model.line:
            holder = model.line[0]
            order.leave(places[holder])
            model.leave(holder)
        elif what == "sleep" and model.line:
            order.fall_asleep()
            model.fall_asleep(impatient)
        elif what == "wake":
            order.wake()
            model.asleep = False
        assert (called, turned_away) == (model.called, model.turned_away)
        assert order.free is (not model.line)
        assert len(order) == max(len(model.line) - 1, 0)


# What becomes of one who takes a turn: how many rounds of the loop it holds it for, and when it is cancelled, if ever.
visitors = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.none() | st.integers(0, 12)), min_size=1, max_size=8
)


@given(visitors)
def test_however_waiters_are_cancelled_one_at_a_time_has_the_turn_and_it_is_never_lost(
    plan: list[tuple[int, int, int | None]],
) -> None:
    asyncio.run(_visit(plan))


async def _visit(plan: list[tuple[int, int, int | None]]) -> None:
    order, inside, served = Order(), list[int](), list[int]()

    async def visitor(number: int, comes_after: int, stays: int) -> None:
        await rounds(comes_after)
        place = await order.turn()
        assert place is not None, "nobody slept"
        try:
            inside.append(number)
            assert inside == [number], "two have the turn at once"
            await rounds(stays)
            served.append(number)
        finally:
            inside.remove(number)
            order.leave(place)

    tasks = [asyncio.create_task(visitor(n, comes, stays)) for n, (comes, stays, _) in enumerate(plan)]
    for moment in range(13):
        for task, (_, _, cancelled_at) in zip(tasks, plan, strict=True):
            if cancelled_at == moment:
                task.cancel()
        await rounds(1)
    done, pending = await asyncio.wait(tasks, timeout=10)
    assert not pending, "a turn was lost, and somebody waits for it for ever"
    for number, task in enumerate(tasks):
        if task in done and not task.cancelled():
            task.result()
            assert number in served
    assert all(number in served for number, (_, _, cancelled_at) in enumerate(plan) if cancelled_at is None)
    assert order.free
    assert len(order) == 0
