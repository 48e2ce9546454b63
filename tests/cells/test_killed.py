"""Workers that are killed: the cell on one fails and says so, and nobody else notices. Real processes, SIGKILL."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from cloister import (
    CapabilityLimits,
    CellLimits,
    Cloister,
    Code,
    Completed,
    EngineUnavailable,
    Event,
    Failed,
    Observation,
    Session,
    SessionLimits,
    Tool,
    WaitingForApproval,
    Yielded,
)
from cloister.cells.tape import Tape
from tests.processes import children

pytestmark = pytest.mark.anyio

both_languages = pytest.mark.parametrize("language", ["python", "typescript"])
LIMITS = SessionLimits(cpu_ms=60_000, wall_ms=120_000)
NEVER = 3_600_000
AT_ONCE = 0

PROGRAMS = {
    "python": {
        "bind": "kept = {}",
        "kept": "kept",
        "loop": "kept = -1\nprint('computing')\nwhile True:\n    pass",
        "compute": "n = 0\nwhile n < 400000:\n    n = n + 1\nn",
        "hold": "kept = kept + 1\nsaid = await hold(key='{}')\n[kept, said]",
        "ask": "kept = kept + 1\nsaid = await ask(key='{}')\n[kept, said]",
        "own_hold": "said = await hold(key='{}')\nsaid",
        "own_ask": "said = await ask(key='{}')\nsaid",
        "quick": "await quick()",
        "two_holds": "a = await hold(key='{0}1')\nb = await hold(key='{0}2')\n[a, b]",
    },
    "typescript": {
        "bind": "var kept = {}",
        "kept": "kept",
        "loop": "var kept = -1; console.log('computing'); while (true) {}",
        "compute": "let n = 0; while (n < 400000) { n = n + 1 }; n",
        "hold": "kept = kept + 1; var said = await tools.hold({{key: '{}'}}); [kept, said]",
        "ask": "kept = kept + 1; var said = await tools.ask({{key: '{}'}}); [kept, said]",
        "own_hold": "var said = await tools.hold({{key: '{}'}}); said",
        "own_ask": "var said = await tools.ask({{key: '{}'}}); said",
        "quick": "await tools.quick()",
        "two_holds": "var a = await tools.hold({{key: '{0}1'}}); var b = await tools.hold({{key: '{0}2'}}); [a, b]",
    },
}


class House:
    """A Cloister of two workers, with a tool that waits until it is let go, and one that a person is asked about."""

    def __init__(self, language: str, hibernate_after_ms: int) -> None:
        self.language = language
        self.programs = PROGRAMS[language]
        self.events: list[Event] = []
        self.on_event: Callable[[Event], None] | None = None
        self._changed = asyncio.Event()
        self._held: dict[str, asyncio.Future[str]] = {}
        self._sessions = 0
        self._strangers = children()
        cells = CellLimits(hibernate_after_ms=hibernate_after_ms)
        limits = CapabilityLimits(timeout_ms=120_000)
        self.cloister = Cloister(
            tools=[Tool(self.hold, limits=limits), Tool(self.ask, approval_policy="manual"), Tool(self.quick)],
            workers=2,
            type_check="off",
            limits=LIMITS,
            cells=cells,
            on_event=self._hear,
        )

    async def hold(self, key: str) -> str:
        """Wait until it is let go."""
        held = self._held.setdefault(key, asyncio.get_running_loop().create_future())
        self._changed.set()
        return await held

    async def quick(self) -> int:
        """Done at once."""
        return 1

    async def ask(self, key: str) -> str:
        """Somebody is asked first."""
        return f"{key} allowed"

    def let_go(self, key: str) -> None:
        self._held[key].set_result(f"{key} done")

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()
        if self.on_event is not None:
            self.on_event(event)

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def until_held(self, key: str) -> None:
        await self.until(lambda: key in self._held)

    async def until_told(self, kind: str, cell_id: str) -> None:
        await self.until(lambda: self.told(kind, cell_id))

    def told(self, kind: str, cell_id: str) -> bool:
        return any(event.kind == kind and event.data.get("cell_id") == cell_id for event in self.events)

    async def open(self, kept: int | None = None) -> Session:
        self._sessions += 1
        session = await self.cloister.open_session(f"s{self._sessions}", language=self.language)
        if kept is not None:
            await ended(await session.exec(self.programs["bind"].format(kept)), Completed)
        return session

    async def until_computing(self, session: Session, *, isolated: bool = False) -> Observation:
        """A cell that computes for ever, once it does."""
        loop, computing = asyncio.get_running_loop(), asyncio.Event()

        def hear(_stream: str, _text: str) -> None:
            loop.call_soon_threadsafe(computing.set)

        observed = await session.exec(self.programs["loop"], yield_ms=0, isolated=isolated, on_output=hear)
        await asyncio.wait_for(computing.wait(), 30)
        return observed

    async def kill_all(self) -> None:
        """Every process of this Cloister, whatever it does; returns when there are living workers again."""
        ours = children(beside=self._strangers)
        assert ours
        for pid in ours:
            kill(pid)
        sessions = [await self.open(), await self.open()]
        well = 0
        async with asyncio.timeout(30):
            # Whoever is handed one that died idle has to come again, until nobody is.
            while well < 4:
                runs = (session.exec(self.programs["quick"], isolated=True) for session in sessions)
                well = well + 1 if all(isinstance(ran, Completed) for ran in await asyncio.gather(*runs)) else 0


def kill(pid: int | None) -> None:
    assert pid is not None, "there is no worker to kill"
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def worker_of(session: Session, cell_id: str) -> int | None:
    """The process that one cell of the session is on."""
    interpreter = session._cells.find(cell_id).driver.interpreter  # pyright: ignore[reportPrivateUsage]
    return interpreter.pid if interpreter is not None else None


async def ended(observed: Observation, kind: type[Any]) -> Any:
    assert isinstance(observed, kind), observed
    return observed


async def end_of(session: Session, observed: Observation) -> Observation:
    """How the cell ended, whatever it told before."""
    async with asyncio.timeout(60):
        while isinstance(observed, Yielded | WaitingForApproval):
            observed = await session.wait(observed.cell_id, yield_ms=30_000)
    return observed


async def crashed(session: Session, observed: Observation) -> None:
    failed = await end_of(session, observed)
    assert isinstance(failed, Failed), failed
    assert failed.error.code == Code.ENGINE_CRASHED, failed.error


async def value_of(session: Session, observed: Observation) -> Any:
    completed = await end_of(session, observed)
    assert isinstance(completed, Completed), completed
    return completed.result


@pytest.fixture
async def house(request: pytest.FixtureRequest) -> AsyncIterator[House]:
    language, hibernate_after_ms = request.param
    made = House(language, hibernate_after_ms)
    async with made.cloister:
        yield made
    assert not children(beside=made._strangers), "a process is left over"  # pyright: ignore[reportPrivateUsage]


def houses(hibernate_after_ms: int) -> pytest.MarkDecorator:
    made = [(language, hibernate_after_ms) for language in PROGRAMS]
    return pytest.mark.parametrize("house", made, ids=list(PROGRAMS), indirect=True)


# -- while it computes -------------------------------------------------------------------------------------------------


@houses(NEVER)
async def test_a_cell_whose_worker_dies_while_it_computes_fails_and_the_session_is_as_before(house: House) -> None:
    session = await house.open(kept=41)
    observed = await house.until_computing(session)
    kill(session.worker_pid)
    await crashed(session, observed)
    assert await value_of(session, await session.exec(house.programs["kept"])) == 41


@houses(NEVER)
async def test_a_cell_in_line_behind_one_whose_worker_dies_runs_on_the_variables_of_before(house: House) -> None:
    session = await house.open(kept=41)
    first = await house.until_computing(session)
    second = await session.exec(house.programs["kept"], yield_ms=0)
    kill(session.worker_pid)
    await crashed(session, first)
    assert await value_of(session, second) == 41


@houses(NEVER)
async def test_an_isolated_cell_whose_worker_dies_fails_alone(house: House) -> None:
    session = await house.open(kept=41)
    isolated = await house.until_computing(session, isolated=True)
    waiting = await session.exec(house.programs["hold"].format("a"), yield_ms=0)
    await house.until_held("a")
    kill(worker_of(session, isolated.cell_id))
    await crashed(session, isolated)
    house.let_go("a")
    assert await value_of(session, waiting) == [42, "a done"]
    assert await value_of(session, await session.exec(house.programs["kept"])) == 42


@houses(NEVER)
async def test_cells_of_other_sessions_complete_though_a_worker_dies(house: House) -> None:
    session, other = await house.open(kept=1), await house.open(kept=2)
    doomed = await house.until_computing(session)
    neighbour = await other.exec(house.programs["hold"].format("n"), yield_ms=0)
    await house.until_held("n")
    queued = [await other.exec(house.programs["compute"], yield_ms=0, isolated=True) for _ in range(4)]
    kill(worker_of(session, doomed.cell_id))
    await crashed(session, doomed)
    house.let_go("n")
    assert await value_of(other, neighbour) == [3, "n done"]
    assert [await value_of(other, cell) for cell in queued] == [400_000] * 4
    assert await value_of(session, await session.exec(house.programs["kept"])) == 1


# -- while it waits on its worker --------------------------------------------------------------------------------------


@houses(NEVER)
async def test_a_cell_whose_worker_dies_while_a_call_is_under_way_fails_when_it_would_go_on(house: House) -> None:
    session = await house.open(kept=41)
    observed = await session.exec(house.programs["hold"].format("a"), yield_ms=0)
    await house.until_held("a")
    kill(session.worker_pid)
    house.let_go("a")
    await crashed(session, observed)
    assert await value_of(session, await session.exec(house.programs["kept"])) == 41


@houses(NEVER)
async def test_a_cell_whose_worker_died_in_its_wait_can_be_terminated(house: House) -> None:
    session = await house.open(kept=41)
    observed = await session.exec(house.programs["hold"].format("a"), yield_ms=0)
    await house.until_held("a")
    kill(session.worker_pid)
    over = await asyncio.wait_for(session.terminate(observed.cell_id), 30)
    assert over.status == "terminated"
    assert await value_of(session, await session.exec(house.programs["kept"])) == 41


@houses(200)
async def test_a_cell_that_cannot_fall_asleep_because_its_worker_died_fails_without_waiting_for_its_call(
    house: House,
) -> None:
    session = await house.open(kept=41)
    observed = await session.exec(house.programs["own_hold"].format("a"), yield_ms=0)
    await house.until_held("a")
    kill(session.worker_pid)
    await crashed(session, observed)
    assert await value_of(session, await session.exec(house.programs["kept"])) == 41


# -- while it sleeps ---------------------------------------------------------------------------------------------------


@houses(AT_ONCE)
async def test_a_cell_that_hibernates_does_not_notice_that_every_worker_dies(house: House) -> None:
    session, other = await house.open(kept=41), await house.open(kept=5)
    shared = await session.exec(house.programs["hold"].format("a"), yield_ms=0)
    isolated = await session.exec(house.programs["own_hold"].format("b"), yield_ms=0, isolated=True)
    for key, cell in (("a", shared), ("b", isolated)):
        await house.until_held(key)
        await house.until_told("cell.hibernated", cell.cell_id)
    await house.kill_all()
    house.let_go("a")
    house.let_go("b")
    assert await value_of(session, shared) == [42, "a done"]
    assert await value_of(session, isolated) == "b done"
    assert await value_of(session, await session.exec(house.programs["kept"])) == 42
    assert await value_of(other, await other.exec(house.programs["kept"])) == 5


@houses(AT_ONCE)
async def test_a_cell_that_sleeps_for_an_answer_does_not_notice_that_every_worker_dies(house: House) -> None:
    session = await house.open(kept=41)
    shared = await session.exec(house.programs["ask"].format("a"))
    isolated = await session.exec(house.programs["own_ask"].format("b"), isolated=True)
    assert isinstance(shared, WaitingForApproval)
    assert isinstance(isolated, WaitingForApproval)
    await house.kill_all()
    for cell in (shared, isolated):
        await house.cloister.decide(cell.approvals[0].id, "allow")
    assert await value_of(session, shared) == [42, "a allowed"]
    assert await value_of(session, isolated) == "b allowed"
    assert await value_of(session, await session.exec(house.programs["kept"])) == 42


@houses(NEVER)
async def test_a_session_at_rest_whose_worker_dies_still_has_its_variables(house: House) -> None:
    session = await house.open(kept=41)
    kill(session.worker_pid)
    # The first cell to come may be the one that finds out.
    first = await end_of(session, await session.exec(house.programs["kept"]))
    assert isinstance(first, Completed) or (isinstance(first, Failed) and first.error.code == Code.ENGINE_CRASHED)
    assert await value_of(session, await session.exec(house.programs["kept"])) == 41


# -- when it wakes -----------------------------------------------------------------------------------------------------


@houses(AT_ONCE)
async def test_a_cell_whose_worker_dies_as_it_wakes_from_a_call_fails_and_the_session_is_as_before(
    house: House,
) -> None:
    session, other = await house.open(kept=41), await house.open(kept=5)
    observed = await session.exec(house.programs["hold"].format("a"), yield_ms=0)
    neighbour = await other.exec(house.programs["hold"].format("n"), yield_ms=0)
    for key, cell in (("a", observed), ("n", neighbour)):
        await house.until_held(key)
        await house.until_told("cell.hibernated", cell.cell_id)
    kill_when_woken(house, session, observed.cell_id)
    house.let_go("a")
    house.let_go("n")
    await crashed(session, observed)
    assert await value_of(other, neighbour) == [6, "n done"]
    assert await value_of(session, await session.exec(house.programs["kept"])) == 41


@houses(AT_ONCE)
async def test_a_cell_whose_worker_dies_as_it_wakes_for_an_answer_fails_and_the_session_is_as_before(
    house: House,
) -> None:
    session = await house.open(kept=41)
    observed = await session.exec(house.programs["ask"].format("a"))
    assert isinstance(observed, WaitingForApproval)
    kill_when_woken(house, session, observed.cell_id)
    await house.cloister.decide(observed.approvals[0].id, "allow")
    await crashed(session, observed)
    assert await value_of(session, await session.exec(house.programs["kept"])) == 41


@houses(AT_ONCE)
async def test_a_cell_that_woke_and_sleeps_again_does_not_notice_that_every_worker_dies(house: House) -> None:
    session = await house.open(kept=41)
    observed = await session.exec(house.programs["two_holds"].format("a"), yield_ms=0)
    await house.until_held("a1")
    await house.until_told("cell.hibernated", observed.cell_id)
    house.let_go("a1")
    await house.until_held("a2")
    await house.until(lambda: sum(event.kind == "cell.hibernated" for event in house.events) == 2)
    await house.kill_all()
    house.let_go("a2")
    assert await value_of(session, observed) == ["a1 done", "a2 done"]


@houses(AT_ONCE)
async def test_a_cell_that_would_wake_on_a_worker_that_died_idle_wakes_on_another(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await house.open(kept=41)
    observed = await session.exec(house.programs["hold"].format("a"), yield_ms=0)
    await house.until_held("a")
    await house.until_told("cell.hibernated", observed.cell_id)
    hand_out_a_dead_worker(session, monkeypatch)
    house.let_go("a")
    assert await value_of(session, observed) == [42, "a done"]


@houses(AT_ONCE)
async def test_an_answered_cell_that_would_wake_on_a_worker_that_died_idle_wakes_on_another(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await house.open(kept=41)
    observed = await session.exec(house.programs["ask"].format("a"))
    assert isinstance(observed, WaitingForApproval)
    hand_out_a_dead_worker(session, monkeypatch)
    await house.cloister.decide(observed.approvals[0].id, "allow")
    assert await value_of(session, observed) == [42, "a allowed"]


@houses(NEVER)
async def test_a_cell_that_would_begin_on_a_worker_that_died_idle_begins_on_another(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await house.open()
    hand_out_a_dead_worker(session, monkeypatch)
    assert await value_of(session, await session.exec(house.programs["compute"], isolated=True)) == 400_000


def hand_out_a_dead_worker(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next interpreter that is asked for cannot be had, as when its worker has died idle. Both engines say it so;
    whether a worker that was killed is found out before it is handed out is up to the kernel."""
    engine = session._seats.engine  # pyright: ignore[reportPrivateUsage]
    opened = engine.open

    async def dead(*_: Any, **__: Any) -> Any:
        monkeypatch.setattr(engine, "open", opened)
        raise EngineUnavailable("the worker died while it opened a session")

    monkeypatch.setattr(engine, "open", dead)


def kill_when_woken(house: House, session: Session, cell_id: str) -> None:
    """The worker that a sleeping cell was just put on dies before the program has gone on."""

    def hear(event: Event) -> None:
        if event.kind == "cell.woken" and event.data["cell_id"] == cell_id:
            kill(session.worker_pid)

    house.on_event = hear


@houses(NEVER)
async def test_a_worker_that_dies_while_variables_are_brought_back_takes_none_of_them_along(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await house.open(kept=41)
    play, deaths = Tape.play, list[int]()

    async def killed_once(self: Tape, interpreter: Any, limits: SessionLimits) -> None:
        if not deaths:
            deaths.append(interpreter.pid)
            kill(interpreter.pid)
        await play(self, interpreter, limits)

    observed = await house.until_computing(session)
    kill(session.worker_pid)
    await crashed(session, observed)
    monkeypatch.setattr(Tape, "play", killed_once)
    assert await value_of(session, await session.exec(house.programs["kept"])) == 41
    assert len(deaths) == 1


# -- again and again ---------------------------------------------------------------------------------------------------


@houses(NEVER)
async def test_a_session_survives_one_death_after_another(house: House) -> None:
    session = await house.open(kept=0)
    for round_ in range(1, 4):
        await ended(await session.exec(house.programs["bind"].format(round_)), Completed)
        observed = await house.until_computing(session)
        kill(session.worker_pid)
        await crashed(session, observed)
        assert await value_of(session, await session.exec(house.programs["kept"])) == round_
