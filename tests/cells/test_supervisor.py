"""The supervisor: how many cells there may be, whose turn it is for a worker, what becomes of all when a host stops."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cloister import (
    CapabilityLimits,
    CellLimits,
    CellState,
    Cloister,
    CloisterError,
    Code,
    Completed,
    Event,
    Failed,
    Interrupted,
    Observation,
    QueueFull,
    Session,
    SessionClosed,
    SessionLimits,
    Terminated,
    Tool,
    WaitingForApproval,
    Yielded,
)
from cloister.engines.monty.seat import Desk
from cloister.ports.clock import Clock, SystemClock
from tests.processes import children

pytestmark = pytest.mark.anyio

NEVER = 3_600_000
WORKERS = 2
PROGRAMS = {
    "python": {
        "loop": "print('computing')\nwhile True:\n    pass",
        "long": "print('computing')\nn = 0\nwhile n < 3000000:\n    n = n + 1\nn",
        "long_then_hold": "print('computing')\nn = 0\nwhile n < 1000000:\n    n = n + 1\nawait hold(key='{}')",
        "hold": "await hold(key='{}')",
        "ask": "await ask()",
        "bind": "kept = {}",
        "hold_and_bind": "await hold(key='{}')\nkept = {}",
        "now": "import datetime\nint(datetime.datetime.now(datetime.timezone.utc).timestamp() * 1000)",
    },
    "typescript": {
        "loop": "console.log('computing'); while (true) {}",
        "long": "console.log('computing'); let n = 0; while (n < 3000000) { n = n + 1 }; n",
        "long_then_hold": "console.log('computing'); let n = 0; while (n < 1000000) {{ n = n + 1 }};"
        " await tools.hold({{key: '{}'}})",
        "hold": "await tools.hold({{key: '{}'}})",
        "ask": "await tools.ask({})",
        "bind": "var kept = {}",
        "hold_and_bind": "await tools.hold({{key: '{}'}}); kept = {}",
        "now": "Date.now()",
    },
}
both_languages = pytest.mark.parametrize("language", list(PROGRAMS))


class House:
    """A Cloister of two workers that writes down what happens in it."""

    def __init__(self, language: str = "python", *, clock: Clock | None = None, **limits: int) -> None:
        self.language = language
        self.programs = PROGRAMS[language]
        self.events: list[Event] = []
        self._changed = asyncio.Event()
        self._held: dict[str, asyncio.Future[str]] = {}
        self.cancelled: list[str] = []
        self.cloister = Cloister(
            tools=[
                Tool(self.hold, limits=CapabilityLimits(timeout_ms=120_000, concurrency=1000)),
                Tool(self.ask, approval_policy="manual"),
            ],
            workers=WORKERS,
            type_check="off",
            clock=clock,
            limits=SessionLimits(cpu_ms=60_000, wall_ms=120_000),
            cells=CellLimits(**({"hibernate_after_ms": NEVER} | limits)),
            on_event=self._hear,
        )

    async def hold(self, key: str) -> str:
        """Wait until it is let go."""
        held = self._held.setdefault(key, asyncio.get_running_loop().create_future())
        self._changed.set()
        try:
            return await held
        except asyncio.CancelledError:
            self.cancelled.append(key)
            raise

    async def ask(self) -> str:
        """Somebody is asked first."""
        return "allowed"

    def let_go(self, key: str) -> None:
        self._held[key].set_result(f"{key} done")

    def forget(self, key: str) -> None:
        del self._held[key]

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def until_held(self, *keys: str) -> None:
        await self.until(lambda: all(key in self._held for key in keys))

    async def open(self, name: str) -> Session:
        return await self.cloister.open_session(name, language=self.language)

    async def computing(self, session: Session, program: str, **options: Any) -> Observation:
        """Such a cell, once it computes."""
        loop, computing = asyncio.get_running_loop(), asyncio.Event()

        def hear(_stream: str, _text: str) -> None:
            loop.call_soon_threadsafe(computing.set)

        observed = await session.exec(program, yield_ms=0, on_output=hear, **options)
        await asyncio.wait_for(computing.wait(), 30)
        return observed

    def told(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]

    def states_told(self) -> dict[str, str]:
        """How each cell ended, as told by events; every one once."""
        ends = [event for event in self.events if event.kind in ("cell.completed", "cell.terminated")]
        assert len({event.data["cell_id"] for event in ends}) == len(ends), "a cell has ended twice"
        return {event.data["cell_id"]: event.data["state"] for event in ends}


async def soon(work: Any, seconds: float = 30) -> Any:
    """The bound only turns a hang into a failure."""
    async with asyncio.timeout(seconds):
        return await work


async def settled(holds: Callable[[], object]) -> None:
    """Something that nobody tells of comes true within a few hundred rounds of the loop."""
    for _ in range(300):
        if holds():
            return
        await asyncio.sleep(0.001)
    assert holds()


async def end_of(session: Session, observed: Observation) -> Observation:
    async with asyncio.timeout(60):
        while isinstance(observed, Yielded | WaitingForApproval):
            observed = await session.wait(observed.cell_id, yield_ms=30_000)
    return observed


# -- whose turn it is --------------------------------------------------------------------------------------------------


@both_languages
async def test_a_session_that_brings_one_cell_is_served_soon_though_another_brought_a_hundred(language: str) -> None:
    house = House(language, max_isolated=200)
    async with house.cloister:
        greedy, modest = await house.open("greedy"), await house.open("modest")
        cells = [await greedy.exec("1", yield_ms=0, isolated=True) for _ in range(100)]
        one = await modest.exec("2", yield_ms=0, isolated=True)
        assert isinstance(await end_of(modest, one), Completed)
        started = [event.session_id for event in house.told("cell.started")]
        # Those that had a task already, twice as many as workers, and those who were served meanwhile.
        assert started.index("modest") <= 3 * WORKERS
        for cell in cells:
            assert isinstance(await end_of(greedy, cell), Completed)
    assert [event.session_id for event in house.told("cell.started")].count("greedy") == 100


async def test_sessions_that_bring_many_cells_each_take_turns() -> None:
    house = House(max_isolated=200)
    async with house.cloister:
        sessions = [await house.open(name) for name in ("a", "b", "c")]
        cells = [
            (session, await session.exec("1", yield_ms=0, isolated=True)) for session in sessions for _ in range(20)
        ]
        for session, cell in cells:
            assert isinstance(await end_of(session, cell), Completed)
    started = [event.session_id for event in house.told("cell.started")]
    through = next(end for end in range(len(started)) if 20 in [started[:end].count(name) for name in ("a", "b", "c")])
    assert min(started[:through].count(name) for name in ("a", "b", "c")) >= 10, started


async def test_a_cell_that_is_answered_wakes_soon_though_another_session_was_answered_a_hundred_times() -> None:
    house = House(max_isolated=200)
    async with house.cloister:
        greedy, modest = await house.open("greedy"), await house.open("modest")
        cells = [(greedy, await greedy.exec("await ask()", yield_ms=0, isolated=True)) for _ in range(100)]
        cells.append((modest, await modest.exec("await ask()", yield_ms=0, isolated=True)))
        await house.until(lambda: len(house.told("cell.hibernated")) == 101)
        pending = await house.cloister.approvals(state="pending")
        ordered = sorted(pending, key=lambda approval: approval.session_id == "modest")
        await house.cloister.decide_many([{"id": approval.id, "decision": "allow"} for approval in ordered])
        for session, cell in cells:
            ended = await end_of(session, cell)
            assert isinstance(ended, Completed)
            assert ended.result == "allowed"
    woken = [event.session_id for event in house.told("cell.woken")]
    assert woken.index("modest") <= 3 * WORKERS


async def test_cells_of_one_session_start_in_the_order_in_which_they_came() -> None:
    house = House()
    async with house.cloister:
        session = await house.open("a")
        cells = [await session.exec(f"n = {n}\nn", yield_ms=0) for n in range(30)]
        results = [await end_of(session, cell) for cell in cells]
    assert [cell.result for cell in results if isinstance(cell, Completed)] == list(range(30))
    assert [event.data["cell_id"] for event in house.told("cell.started")] == [cell.cell_id for cell in cells]


async def test_only_as_many_cells_have_a_task_as_can_soon_have_a_worker() -> None:
    house = House(max_isolated=200)
    async with house.cloister:
        session = await house.open("a")
        await soon(session.run("1"))
        before = len(asyncio.all_tasks())
        cells = [await session.exec("1", yield_ms=0, isolated=True) for _ in range(150)]
        assert len(asyncio.all_tasks()) - before <= 2 * WORKERS
        for cell in cells:
            await end_of(session, cell)


async def test_a_cell_that_stood_in_line_sees_what_those_before_it_stored() -> None:
    house = House()
    async with house.cloister:
        session = await house.open("a")
        await session.exec("store('k', 1)\nv = 1", yield_ms=0)
        second = await session.exec("[load('k'), v]", yield_ms=0)
        ended = await end_of(session, second)
        assert isinstance(ended, Completed)
        assert ended.result == [1, 1]


class MovedClock(SystemClock):
    """The time of the day, moved on by the test."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@both_languages
async def test_a_cell_that_stood_in_line_reads_the_time_at_which_it_starts(language: str) -> None:
    clock = MovedClock()
    house = House(language, clock=clock)
    async with house.cloister:
        session = await house.open("a")
        await session.exec(house.programs["hold"].format("h"), yield_ms=0)
        await house.until_held("h")
        second = await session.exec(house.programs["now"], yield_ms=0)
        clock.ahead_ms = 3_600_000
        started_ms = clock.now_ms()
        house.let_go("h")
        ended = await end_of(session, second)
        assert isinstance(ended, Completed)
        assert ended.result >= started_ms


# -- how many there may be ---------------------------------------------------------------------------------------------


async def test_more_cells_than_a_host_allows_are_refused_over_all_sessions_and_without_a_trace() -> None:
    house = House(max_cells=3)
    async with house.cloister:
        a, b = await house.open("a"), await house.open("b")
        held = [(a, await a.exec("await ask()")), (b, await b.exec("await ask()"))]
        held.append((b, await b.exec("await ask()", isolated=True)))
        for session in (a, b):
            for isolated in (False, True):
                with pytest.raises(QueueFull, match="3 cells"):
                    await session.exec("1", isolated=isolated)
        assert len(await a.cells()) == 1
        assert len(await b.cells()) == 2
        session, first = held[0]
        assert isinstance(await soon(session.terminate(first.cell_id)), Terminated)
        # There is room again, and what has ended takes none, read or not.
        for _ in range(5):
            unread = await a.exec("1", yield_ms=0, isolated=True)
            await house.until(lambda cell_id=unread.cell_id: cell_id in house.states_told())
        assert len(await a.cells()) == 5


async def test_more_isolated_cells_than_a_session_may_have_are_refused_and_its_neighbour_may_go_on() -> None:
    house = House(max_isolated=2)
    async with house.cloister:
        a, b = await house.open("a"), await house.open("b")
        first = await a.exec("await ask()", isolated=True)
        await a.exec("await ask()", isolated=True)
        with pytest.raises(QueueFull, match="2 isolated"):
            await a.exec("1", isolated=True)
        assert isinstance(await b.exec("1", isolated=True), Completed)
        assert isinstance(await a.exec("1"), Completed)
        await soon(a.terminate(first.cell_id))
        assert isinstance(await a.exec("1", isolated=True), Completed)


async def test_more_cells_than_may_wait_in_line_are_refused_and_the_line_moves_on() -> None:
    house = House(max_queued=2)
    async with house.cloister:
        session = await house.open("a")
        held = await session.exec("await hold(key='h')", yield_ms=0)
        await house.until_held("h")
        queued = [await session.exec(f"{n}", yield_ms=0) for n in range(2)]
        with pytest.raises(QueueFull, match="2 cells in line"):
            await session.exec("3", yield_ms=0)
        house.let_go("h")
        for cell in (held, *queued):
            assert isinstance(await end_of(session, cell), Completed)
        assert isinstance(await session.exec("4"), Completed)


async def test_a_finished_cell_that_nobody_asks_for_is_forgotten_after_its_time() -> None:
    house = House(reap_after_ms=50)
    async with house.cloister:
        session = await house.open("a")
        cell = await session.exec("1", yield_ms=0)
        await house.until(lambda: house.told("cell.reaped"))
        assert await session.cells() == []
        with pytest.raises(CloisterError, match=f"exec cell {cell.cell_id} not found"):
            await session.wait(cell.cell_id)


# -- ended in line -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("rounds", range(4))
async def test_a_cell_can_be_terminated_at_each_of_its_first_moments(rounds: int, isolated: bool) -> None:
    house = House()
    async with house.cloister:
        session = await house.open("a")
        observed = await session.exec("1", yield_ms=0, isolated=isolated)
        for _ in range(rounds):
            await asyncio.sleep(0)
        assert isinstance(await soon(session.terminate(observed.cell_id)), Terminated)
        assert isinstance(await soon(session.exec("2")), Completed)
        assert await session.cells() == []


async def test_cells_that_are_terminated_while_they_wait_for_a_worker_leave_no_gap() -> None:
    house = House(max_isolated=200)
    async with house.cloister:
        session = await house.open("a")
        cells = [await session.exec(f"{n}", yield_ms=0, isolated=True) for n in range(60)]
        for n, cell in enumerate(cells):
            if n % 3:
                assert isinstance(await soon(session.terminate(cell.cell_id)), Terminated | Completed)
        kept = [await end_of(session, cell) for n, cell in enumerate(cells) if not n % 3]
        assert [cell.result for cell in kept if isinstance(cell, Completed)] == list(range(0, 60, 3))
        # Every worker is to be had again.
        more = [await session.exec("1", yield_ms=0, isolated=True) for _ in range(8)]
        assert all([isinstance(await end_of(session, cell), Completed) for cell in more])


@both_languages
async def test_cells_that_are_terminated_just_as_they_end_give_their_workers_back(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(language)
    async with house.cloister:
        session = await house.open("a")
        seats: Any = session._seats  # pyright: ignore[reportPrivateUsage]
        give_back, terminations = seats.give_back, list[asyncio.Task[Observation]]()
        cell_id = ""

        async def ended_meanwhile(interpreter: Any) -> None:
            # The termination comes while the interpreter is being closed.
            terminations.append(asyncio.create_task(session.terminate(cell_id)))
            await give_back(interpreter)

        monkeypatch.setattr(seats, "give_back", ended_meanwhile)
        for before in range(6):
            cell_id = (await session.exec(house.programs["hold"].format("h"), yield_ms=0, isolated=True)).cell_id
            await house.until_held("h")
            house.let_go("h")
            await house.until(lambda ended=before + 1: len(house.states_told()) == ended)
            await soon(asyncio.gather(*terminations, return_exceptions=True))
            house.forget("h")
        monkeypatch.undo()
        assert len(terminations) == 6
        await settled(lambda: not seats.engine._open)
        more = [await session.exec("1", yield_ms=0, isolated=True) for _ in range(2 * WORKERS)]
        for cell in more:
            assert isinstance(await soon(session.wait(cell.cell_id), 10), Completed)


async def test_a_cell_that_is_terminated_while_its_program_changes_workers_gives_both_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    house = House()
    async with house.cloister:
        session = await house.open("a")
        close, terminations = Desk.close, list[asyncio.Task[Observation]]()
        cell = await session.exec("await hold(key='h')", yield_ms=0, isolated=True)

        async def ended_meanwhile(self: Desk) -> None:
            if not terminations:
                terminations.append(asyncio.create_task(session.terminate(cell.cell_id)))
            await close(self)

        monkeypatch.setattr(Desk, "close", ended_meanwhile)
        await house.until(house.states_told)
        assert isinstance(await soon(terminations[0]), Terminated)
        assert not caplog.records
        seats: Any = session._seats  # pyright: ignore[reportPrivateUsage]
        await settled(lambda: not seats.engine._open)


@both_languages
async def test_a_cell_that_is_terminated_just_as_it_ends_either_counts_or_leaves_no_trace(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(language)
    async with house.cloister:
        session, other = await house.open("a"), await house.open("b")
        assert (await session.run(house.programs["bind"].format(1))).ok
        cell = await session.exec(house.programs["hold_and_bind"].format("h", 2), yield_ms=0)
        # Others need workers, so the session's own is given away at the end of the cell.
        await house.until_held("h")
        others = [await other.exec(house.programs["hold"].format(f"o{n}"), yield_ms=0, isolated=True) for n in range(3)]
        await house.until_held("o0")
        seats: Any = session._seats  # pyright: ignore[reportPrivateUsage]
        rest, terminations = seats.rest, list[asyncio.Task[Observation]]()

        async def ended_meanwhile(namespace: Any) -> None:
            terminations.append(asyncio.create_task(session.terminate(cell.cell_id)))
            await rest(namespace)

        monkeypatch.setattr(seats, "rest", ended_meanwhile)
        house.let_go("h")
        await house.until(lambda: terminations)
        monkeypatch.undo()
        ended = await soon(terminations[0])
        assert isinstance(ended, Terminated | Completed), ended
        for n, one in enumerate(others):
            await house.until_held(f"o{n}")
            house.let_go(f"o{n}")
            assert isinstance(await end_of(other, one), Completed)
        kept = await soon(session.run("kept"))
        assert kept.result == (1 if isinstance(ended, Terminated) else 2)


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("was_told", [False, True])
async def test_whoever_waits_for_a_cell_that_was_just_answered_is_told_how_it_ended(
    isolated: bool, was_told: bool
) -> None:
    house = House()
    async with house.cloister:
        session = await house.open("a")
        observed = await session.exec("await ask()", yield_ms=10_000 if was_told else 0, isolated=isolated)
        await house.until(lambda: house.told("cell.hibernated"))
        (approval,) = await house.cloister.approvals(state="pending")
        # Nothing happens between these two: the cell has not even begun to wake.
        await house.cloister.decide(approval.id, "allow")
        ended = await soon(session.wait(observed.cell_id))
        assert isinstance(ended, Completed), ended
        assert ended.result == "allowed"


@pytest.mark.parametrize("isolated", [False, True])
async def test_a_cell_that_was_answered_is_never_said_to_wait_for_that_answer(isolated: bool) -> None:
    house = House()
    async with house.cloister:
        session = await house.open("a")
        observed = await session.exec("await ask()", isolated=isolated)
        assert isinstance(observed, WaitingForApproval)
        await house.cloister.decide(observed.approvals[0].id, "allow")
        looked = await soon(session.wait(observed.cell_id, yield_ms=0))
        assert isinstance(looked, Yielded | Completed), looked


# -- the host stops ----------------------------------------------------------------------------------------------------


@both_languages
async def test_whatever_cells_do_when_the_host_stops_all_end_all_observers_hear_of_it_and_nothing_is_left(
    language: str,
) -> None:
    house = House(language, shutdown_ms=300)
    strangers, tasks_before = children(), asyncio.all_tasks()
    observers: dict[str, asyncio.Task[Observation]] = {}
    async with house.cloister:
        a, b, c = [await house.open(name) for name in ("a", "b", "c")]

        def observe(name: str, session: Session, cell: Observation) -> None:
            observers[name] = asyncio.create_task(session.wait(cell.cell_id, yield_ms=60_000))

        observe("for a person", b, await b.exec(house.programs["ask"], isolated=True))
        observe("for a call", b, await b.exec(house.programs["hold"].format("w"), yield_ms=0))
        await house.until_held("w")
        observe("computes", a, await house.computing(a, house.programs["loop"]))
        # Both workers are taken: one computes, one is held by the cell that waits.
        observe("in line for its session", a, await a.exec("1", yield_ms=0))
        for n in range(6):
            observe(f"in line for a worker {n}", c, await c.exec("1", yield_ms=0, isolated=True))
        for _ in range(5):
            await asyncio.sleep(0)
    told = {name: await soon(observer) for name, observer in observers.items()}
    # One that was just starting when its cell was ended may take a moment to be gone.
    async with asyncio.timeout(20):
        while children(beside=strangers):  # noqa: ASYNC110 - no event tells of a process's end
            await asyncio.sleep(0.005)
    assert asyncio.all_tasks() <= tasks_before
    for name, observed in told.items():
        if name.startswith("in line for a worker"):
            # The one that waited gave its worker away, so some of them may have got to run.
            assert isinstance(observed, Interrupted | Completed), (name, observed)
        else:
            assert isinstance(observed, Interrupted), (name, observed)
            assert observed.error.code == Code.INTERRUPTED
    assert house.cancelled == ["w"]
    slept = {event.data["cell_id"] for event in house.told("cell.hibernated")}
    assert {told["for a call"].cell_id, told["for a person"].cell_id} <= slept
    states = house.states_told()
    assert {name: states[observed.cell_id] for name, observed in told.items()} == {
        name: observed.status for name, observed in told.items()
    }


@both_languages
async def test_a_cell_that_computes_when_the_host_stops_may_come_to_its_end(language: str) -> None:
    house = House(language, shutdown_ms=30_000)
    async with house.cloister:
        session = await house.open("a")
        observed = await house.computing(session, house.programs["long"])
        observer = asyncio.create_task(session.wait(observed.cell_id, yield_ms=60_000))
        await asyncio.sleep(0)
        assert not house.states_told()
    ended = await soon(observer)
    assert isinstance(ended, Completed), ended
    assert ended.result == 3_000_000


async def test_a_cell_that_comes_to_a_wait_while_the_host_stops_is_put_to_sleep() -> None:
    house = House(shutdown_ms=30_000)
    async with house.cloister:
        session = await house.open("a")
        observed = await house.computing(session, house.programs["long_then_hold"].format("w"))
        observer = asyncio.create_task(session.wait(observed.cell_id, yield_ms=60_000))
        await asyncio.sleep(0)
        assert not house.told("cell.hibernated")
    assert isinstance(await soon(observer), Interrupted)
    assert [event.data["cell_id"] for event in house.told("cell.hibernated")] == [observed.cell_id]


async def test_a_host_that_gives_no_time_interrupts_what_computes_at_once() -> None:
    house = House(shutdown_ms=0)
    async with house.cloister:
        session = await house.open("a")
        observed = await house.computing(session, house.programs["loop"])
        observer = asyncio.create_task(session.wait(observed.cell_id, yield_ms=60_000))
        await asyncio.sleep(0)
    ended = await soon(observer)
    assert isinstance(ended, Interrupted)
    assert any("computing" in item["text"] for item in ended.content)


async def test_nothing_new_begins_once_the_host_stops() -> None:
    house = House(shutdown_ms=30_000)
    refused: list[BaseException] = []

    async def come_late(session: Session) -> None:
        for start in (session.exec, session.run):
            try:
                await start("1")
            except CloisterError as error:
                refused.append(error)

    async with house.cloister:
        session = await house.open("a")
        await house.computing(session, house.programs["long_then_hold"].format("w"))
        late = asyncio.create_task(_after(house, lambda: house.told("cell.hibernated"), come_late(session)))
    await soon(late)
    assert len(refused) == 2, "a cell began although the host was stopping"
    assert len(house.told("cell.started")) == 1


async def _after(house: House, holds: Callable[[], object], work: Any) -> None:
    await house.until(holds)
    await work


async def test_a_run_under_way_when_the_host_stops_ends_and_its_caller_is_told() -> None:
    house = House(shutdown_ms=100)
    async with house.cloister:
        session = await house.open("a")
        run = asyncio.create_task(session.run("await hold(key='r')"))
        await house.until_held("r")
    result = await soon(run)
    assert result.error is not None
    assert result.error.code == Code.INTERRUPTED


async def test_closing_a_session_ends_its_cells_and_leaves_those_of_others_alone() -> None:
    house = House()
    async with house.cloister:
        a, b = await house.open("a"), await house.open("b")
        doomed = [
            await a.exec("await hold(key='a')", yield_ms=0),
            await a.exec("1", yield_ms=0),
            await a.exec("await ask()", yield_ms=0, isolated=True),
        ]
        safe = await b.exec("await hold(key='b')", yield_ms=0)
        await house.until_held("a", "b")
        observers = [asyncio.create_task(a.wait(cell.cell_id, yield_ms=60_000)) for cell in doomed]
        await asyncio.sleep(0)
        await soon(a.close())
        for observer in observers:
            observed = await soon(observer)
            # One may have had the news before: that it waits for a person.
            assert isinstance(observed, Interrupted | WaitingForApproval), observed
        with pytest.raises(SessionClosed):
            await a.exec("1")
        assert {house.states_told()[cell.cell_id] for cell in doomed} == {"interrupted"}
        house.let_go("b")
        assert isinstance(await end_of(b, safe), Completed)


async def test_a_program_that_is_not_accepted_ends_its_cell_and_the_line_moves_on() -> None:
    house = House()
    async with house.cloister:
        session = await house.open("a")
        bad = await session.exec("def (", yield_ms=0)
        good = await session.exec("1", yield_ms=0)
        assert isinstance(await end_of(session, bad), Failed)
        assert isinstance(await end_of(session, good), Completed)
        assert {info.state for info in await session.cells()} <= {CellState.COMPLETED}
