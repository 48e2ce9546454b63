"""Cells through any story that hypothesis can think of, on real engines: none is lost, ends twice, or loses a word.

A story is a series of steps: cells are begun, looked at, answered, let go, terminated; observers are dropped and
workers killed in between. What must hold is checked after each of them, and at the end of the story, when everything
has come to its end.
"""

import asyncio
import os
import re
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from cloister import (
    CapabilityLimits,
    CellBusy,
    CellLimits,
    CellNotFound,
    CellState,
    Cloister,
    Code,
    Completed,
    Event,
    Failed,
    Observation,
    Session,
    SessionLimits,
    Terminated,
    Tool,
    ToolError,
    WaitingForApproval,
    Yielded,
)

T = TypeVar("T")
WORKERS = 2
LANGUAGES = ("python", "typescript")
# No step may take longer: the bound only turns a hang into a failure.
LONG = 60
TOKEN = re.compile(r"<\d+:\d+>")
MANY = 200
NOT_NOW = "NOT_NOW"
# Which of those that there are. How many there are depends on how fast things go, so nothing is drawn from them: a
# story that is told again must make the same choices.
NTH = st.integers(0, 255)

# {n} is the cell's number and {a}, {b}, ... its tokens, in the order in which it says them.
PYTHON = {
    "plain": "print('{a}')\ntext('{b}')\nprint('{c}')\n{n}",
    "hold": "print('{a}')\nstore('own-{n}', {n})\nstore('last', {n})\nsaid = await hold(key='{n}')\nprint('{b}')\n"
    "store('late-{n}', {n})\nsaid",
    "two": "import asyncio\nprint('{a}')\nsaid = await asyncio.gather(hold(key='{n}x'), hold(key='{n}y'))\n"
    "print('{b}')\nsaid[0] + said[1]",
    "ask": "text('{a}')\nstore('own-{n}', {n})\nsaid = await ask(key='{n}')\nprint('{b}')\n"
    "store('late-{n}', {n})\nsaid",
    "both": "import asyncio\nprint('{a}')\nsaid = await asyncio.gather(hold(key='{n}x'), ask(key='{n}y'))\n"
    "print('{b}')\nsaid[0] + said[1]",
    "fail": "print('{a}')\nstore('own-{n}', {n})\nstore('last', {n})\nprint('{b}')\nraise ValueError('its own fault')",
    "compute": "print('{a}')\ni = 0\nwhile i < 30000:\n    i = i + 1\nprint('{b}')\ni",
    "same": "before = load('last')\nprint('{a}')\nawait hold(key='{n}')\nprint('{b}')\nbefore == load('last')",
    "shout": "for i in range({many}):\n    print('<{n}:' + str(i) + '>')\nawait hold(key='{n}')\n{n}",
    "forever": "print('{a}')\nwhile True:\n    pass",
}
TYPESCRIPT = {
    "plain": "console.log('{a}'); text('{b}'); console.log('{c}'); {n}",
    "hold": "console.log('{a}'); store('own-{n}', {n}); store('last', {n});"
    " var said = await tools.hold({{key: '{n}'}}); console.log('{b}'); store('late-{n}', {n}); said",
    "two": "console.log('{a}');"
    " var said = await Promise.all([tools.hold({{key: '{n}x'}}), tools.hold({{key: '{n}y'}})]);"
    " console.log('{b}'); said[0] + said[1]",
    "ask": "text('{a}'); store('own-{n}', {n}); var said = await tools.ask({{key: '{n}'}}); console.log('{b}');"
    " store('late-{n}', {n}); said",
    "both": "console.log('{a}');"
    " var said = await Promise.all([tools.hold({{key: '{n}x'}}), tools.ask({{key: '{n}y'}})]);"
    " console.log('{b}'); said[0] + said[1]",
    "fail": "console.log('{a}'); store('own-{n}', {n}); store('last', {n}); console.log('{b}');"
    " throw new Error('its own fault')",
    "compute": "console.log('{a}'); var i = 0; while (i < 30000) {{ i = i + 1 }}; console.log('{b}'); i",
    "same": "var before = load('last'); console.log('{a}'); await tools.hold({{key: '{n}'}}); console.log('{b}');"
    " before === load('last')",
    "shout": "for (let i = 0; i < {many}; i++) console.log(`<{n}:${{i}}>`); await tools.hold({{key: '{n}'}}); {n}",
    "forever": "console.log('{a}'); while (true) {{}}",
}
PROGRAMS = {"python": PYTHON, "typescript": TYPESCRIPT}
# In front of a cell that shares the session's variables: it signs in.
SIGNS_IN = {"python": "done = done + [{n}]\n", "typescript": "done = [...done, {n}]; "}
FIRST = {"python": "done = []", "typescript": "var done = []"}
KINDS = sorted(PYTHON)
# What each of them stores: at its beginning, and once its call is over.
STORES = {"hold": ("own", "late"), "ask": ("own", "late"), "fail": ("own", None)}
# A cell of which kind, of which session, and whether it is isolated.
CELLS = st.tuples(st.sampled_from(KINDS), st.integers(0, 2), st.booleans())
ON_A_WORKER = (CellState.RUNNING, CellState.WAITING)
WRITES_LAST = {"hold", "fail"}


@dataclass
class Cell:
    """What is known of a cell by those who look at it."""

    session: "House"
    id: str
    number: int
    kind: str
    isolated: bool
    said: list[str] = field(default_factory=list[str])
    end: Observation | None = None
    # Whatever was told of it, for whoever has to find out what went wrong.
    told: list[Observation] = field(default_factory=list[Observation])

    @property
    def tokens(self) -> list[str]:
        """All that it says if it comes to its end."""
        count = MANY if self.kind == "shout" else {"plain": 3, "forever": 1}.get(self.kind, 2)
        return [f"<{self.number}:{k}>" for k in range(count)]

    def hear(self, observed: Observation) -> None:
        assert observed.cell_id == self.id
        self.told.append(observed)
        assert self.end is None, f"cell {self.number} was told to have ended twice"
        assert not any("missing" in item["text"] for item in observed.content if len(item["text"]) > 5000)
        for item in observed.content:
            self.said += TOKEN.findall(item["text"])
        assert self.said == self.tokens[: len(self.said)], self
        if not isinstance(observed, Yielded | WaitingForApproval):
            self.end = observed


@dataclass
class House:
    """A session, and what happened to its workers."""

    session: Session
    language: str
    killed: int = 0


class Story(RuleBasedStateMachine):
    """One Cloister with two sessions, driven on a loop that runs only within the steps."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.cells: dict[str, Cell] = {}
        self.ends: list[tuple[str, str]] = []
        self.held: dict[str, asyncio.Future[str]] = {}
        # Every call that ended badly, or was refused, fails its program.
        self.refused: set[int] = set()
        self.number = 0
        self.houses: list[House] = []

    def go(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(LONG):
                return await work

        return self.runner.run(bounded())

    # -- the stage -----------------------------------------------------------------------------------------------

    @initialize(
        hibernate_after_ms=st.sampled_from([0, 1, 3_600_000]),
        languages=st.permutations(LANGUAGES),
        first=st.lists(CELLS, min_size=3, max_size=9),
    )
    def begin(self, hibernate_after_ms: int, languages: list[str], first: list[tuple[str, int, bool]]) -> None:
        self.go(self._begin(hibernate_after_ms, [languages[0], languages[0], languages[1]]))
        for cell in first:
            self._start(*cell, yield_ms=0)

    async def _begin(self, hibernate_after_ms: int, languages: list[str]) -> None:
        self.cloister = Cloister(
            tools=[
                Tool(self.hold, limits=CapabilityLimits(timeout_ms=300_000, concurrency=1000)),
                Tool(self.ask, approval_policy="manual"),
            ],
            workers=WORKERS,
            type_check="off",
            limits=SessionLimits(cpu_ms=300_000, wall_ms=300_000),
            cells=CellLimits(hibernate_after_ms=hibernate_after_ms),
            on_event=self._hear,
        )
        await self.cloister.__aenter__()
        for number, language in enumerate(languages):
            session = await self.cloister.open_session(f"s{number}", language=language)
            first = await session.run(FIRST[language])
            assert first.ok, first
            self.houses.append(House(session, language))

    def _hear(self, event: Event) -> None:
        if event.kind in ("cell.completed", "cell.terminated") and event.data["cell_id"] in self.cells:
            self.ends.append((event.data["cell_id"], event.data["state"]))

    async def hold(self, key: str) -> str:
        """Wait until it is let go."""
        held = self.held.setdefault(key, asyncio.get_running_loop().create_future())
        return await held

    async def ask(self, key: str) -> str:
        """Somebody is asked first."""
        return f"[{key}]"

    # -- what can happen -----------------------------------------------------------------------------------------

    @rule(cells=st.lists(CELLS, min_size=1, max_size=3), yield_ms=st.sampled_from([0, 0, 5, 40]))
    def exec_cells(self, cells: list[tuple[str, int, bool]], yield_ms: int) -> None:
        for cell in cells:
            self._start(*cell, yield_ms=yield_ms)

    def _start(self, kind: str, which: int, isolated: bool, *, yield_ms: int) -> None:
        # One that computes for ever takes half of the machine: there is at most one.
        if kind == "forever" and any(cell.kind == "forever" for cell in self.live()):
            kind = "compute"
        self.number += 1
        self.go(self._exec(self.houses[which], kind, isolated, yield_ms))

    async def _exec(self, house: House, kind: str, isolated: bool, yield_ms: int) -> None:
        number = self.number
        names = {name: f"<{number}:{k}>" for k, name in enumerate("abc")}
        code = PROGRAMS[house.language][kind].format(n=number, many=MANY, **names)
        if not isolated:
            code = SIGNS_IN[house.language].format(n=number) + code
        began = await house.session.exec(code, yield_ms=0, isolated=isolated)
        cell = self.cells[began.cell_id] = Cell(house, began.cell_id, number, kind, isolated)
        cell.hear(began)
        if yield_ms:
            cell.hear(await house.session.wait(cell.id, yield_ms=yield_ms))

    @rule(nth=NTH, yield_ms=st.sampled_from([0, 5, 40]))
    def wait_for_a_cell(self, nth: int, yield_ms: int) -> None:
        cell = self.pick(nth)
        if cell is None:
            return
        cell.hear(self.go(cell.session.session.wait(cell.id, yield_ms=yield_ms)))

    @rule(nth=NTH, timeout_ms=st.sampled_from([0, 5, 40]))
    def wait_for_any(self, nth: int, timeout_ms: int) -> None:
        picked = self.pick(nth)
        if picked is None:
            return
        house = picked.session
        ids = [cell.id for cell in self.live() if cell.session is house]
        observed = self.go(house.session.wait_any(ids, timeout_ms=timeout_ms))
        if observed is not None:
            assert observed.cell_id in ids
            self.cells[observed.cell_id].hear(observed)

    @rule(nth=NTH)
    def terminate_a_cell(self, nth: int) -> None:
        cell = self.pick(nth)
        if cell is None:
            return
        self._terminated(cell, self.go(cell.session.session.terminate(cell.id)))

    def _terminated(self, cell: Cell, observed: Observation) -> None:
        assert not isinstance(observed, Yielded | WaitingForApproval)
        cell.hear(observed)

    @rule(nth=NTH)
    def terminate_a_cell_twice_at_once(self, nth: int) -> None:
        cell = self.pick(nth)
        if cell is None:
            return
        terminate = cell.session.session.terminate
        both = self.go(_all(terminate(cell.id), terminate(cell.id)))
        told = [one for one in both if not isinstance(one, BaseException)]
        refused = [one for one in both if isinstance(one, BaseException)]
        assert told, both
        assert all(isinstance(one, CellBusy | CellNotFound) for one in refused), both
        self._terminated(cell, told[0])
        # It had come to its end by itself: whoever asks second is told so, and nothing that the first was told.
        assert all((one.status, one.content) == (told[0].status, ()) for one in told[1:]), both

    @rule(nth=NTH)
    def terminate_a_cell_that_is_observed(self, nth: int) -> None:
        cell = self.pick(nth)
        if cell is None:
            return
        session = cell.session.session
        seen, ended = self.go(_all(session.wait(cell.id, yield_ms=LONG * 1000), session.terminate(cell.id)))
        if isinstance(seen, BaseException):
            raise seen
        cell.hear(seen)
        if cell.end is None:
            # It had something to tell before it was ended.
            assert not isinstance(ended, BaseException), ended
            self._terminated(cell, ended)
        elif isinstance(ended, BaseException):
            assert isinstance(ended, CellNotFound), ended
        else:
            assert (ended.status, ended.content) == (seen.status, ())

    @rule(nth=NTH, rounds=st.integers(0, 4))
    def drop_an_observer(self, nth: int, rounds: int) -> None:
        cell = self.pick(nth)
        if cell is None:
            return

        async def look() -> Observation | None:
            task = asyncio.create_task(cell.session.session.wait(cell.id, yield_ms=LONG * 1000))
            for _ in range(rounds):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            return None if task.cancelled() else task.result()

        observed = self.go(look())
        if observed is not None:
            cell.hear(observed)

    @rule(nth=NTH)
    def two_cannot_observe(self, nth: int) -> None:
        cell = self.pick(nth)
        if cell is None:
            return
        wait = cell.session.session.wait
        first, second = self.go(_all(wait(cell.id, yield_ms=20), wait(cell.id, yield_ms=20)))
        assert not isinstance(first, BaseException), first
        cell.hear(first)
        if isinstance(second, BaseException):
            assert isinstance(second, CellBusy | CellNotFound), second
        else:
            # The first had its answer before the second asked.
            cell.hear(second)

    @rule(nth=NTH, well=st.sampled_from([True, True, False]))
    def let_a_call_end(self, nth: int, well: bool) -> None:
        key = _nth(self.under_way(), nth)
        if key is not None:
            self.go(self._let_go(key, well=well))

    async def _let_go(self, key: str, *, well: bool) -> None:
        held = self.held[key]
        if well:
            held.set_result(f"[{key}]")
        else:
            self.refused.add(int(key.rstrip("xy")))
            held.set_exception(ToolError(NOT_NOW, "it cannot be done"))

    @rule(nth=NTH, word=st.sampled_from(["allow", "allow", "deny"]), many=st.booleans())
    def answer(self, nth: int, word: str, many: bool) -> None:
        pending = self.go(self.cloister.approvals(state="pending"))
        if pending:
            some = pending if many else [pending[nth % len(pending)]]
            self.go(self._answer([(one.id, one.cell_id) for one in some], word))

    async def _answer(self, questions: list[tuple[str, str]], word: str) -> None:
        decided = await self.cloister.decide_many([{"id": question, "decision": word} for question, _ in questions])
        assert all(one.error is None for one in decided), decided
        if word == "deny":
            self.refused |= {self.cells[cell_id].number for _, cell_id in questions}

    @rule(nth=NTH)
    def kill_a_worker(self, nth: int) -> None:
        worker = _nth(self.workers(), nth)
        if worker is None:
            return
        house, pid = worker
        note(f"killed {pid}")
        house.killed += 1
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    # -- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def all_is_well(self) -> None:
        assert all(count == 1 for count in Counter(cell_id for cell_id, _ in self.ends).values()), "a cell ended twice"
        for house in self.houses:
            listed = {info.id for info in self.go(house.session.cells())}
            assert listed == {cell.id for cell in self.live() if cell.session is house}, "a cell was lost"
            seats: Any = house.session._seats  # pyright: ignore[reportPrivateUsage]
            assert 0 <= seats._free <= WORKERS
            # One that is being closed may have handed its place on.
            assert sum(not interpreter._closed for interpreter in seats.engine._open) <= WORKERS

    # -- the end of the story ------------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            if self.houses:
                self.go(self._come_to_the_end())
                self._judge()
                self.all_is_well()
                self.go(self._all_workers_are_to_be_had())
        finally:
            try:
                if self.houses:
                    self.go(self.cloister.__aexit__(None, None, None))
                left = self.go(_others())
            finally:
                self.runner.close()
        assert not left, "a task is left over"

    async def _come_to_the_end(self) -> None:
        while live := self.live():
            for cell in live:
                if cell.kind == "forever":
                    self._terminated(cell, await cell.session.session.terminate(cell.id))
                    continue
                for key in self.under_way():
                    await self._let_go(key, well=True)
                pending = await self.cloister.approvals(state="pending")
                await self._answer([(one.id, one.cell_id) for one in pending], "allow")
                cell.hear(await cell.session.session.wait(cell.id, yield_ms=20))

    def _judge(self) -> None:
        ended = dict(self.ends)
        for cell in self.cells.values():
            assert cell.end is not None
            assert cell.end.status == ended[cell.id], "it was told to have ended in two ways"
            self._judge_end(cell, cell.end)
        for house in self.houses:
            crashed = [cell for cell in self.cells.values() if cell.session is house and _crashed(cell.end)]
            assert len(crashed) <= house.killed, "one death took several cells"
            self._judge_values(house)
            self._judge_variables(house)

    def _judge_end(self, cell: Cell, end: Observation) -> None:
        if isinstance(end, Terminated) or _crashed(end):
            return
        # All that it had to say was said.
        if cell.kind == "fail":
            assert isinstance(end, Failed), end
            assert end.error.code == Code.RUNTIME_ERROR, cell
            assert cell.said == cell.tokens, cell
        elif cell.number in self.refused:
            assert isinstance(end, Failed), end
            assert end.error.code in (NOT_NOW, Code.APPROVAL_DENIED), end
            assert cell.said == cell.tokens[: MANY if cell.kind == "shout" else 1], cell
        else:
            assert isinstance(end, Completed), end
            assert end.result == self._result(cell)
            assert cell.said == cell.tokens, cell

    def _result(self, cell: Cell) -> Any:
        n = cell.number
        match cell.kind:
            case "hold" | "ask":
                return f"[{n}]"
            case "two" | "both":
                return f"[{n}x][{n}y]"
            case "compute":
                return 30_000
            case "same":
                return True
            case _:
                return n

    def _judge_values(self, house: House) -> None:
        values = dict(house.session.values.view())
        last: set[int | None] = {None}
        for cell_id, state in self.ends:
            cell = self.cells[cell_id]
            if cell.session is not house:
                continue
            own, late = STORES.get(cell.kind, (None, None))
            kept = [values.get(f"{word}-{cell.number}") for word in (own, late) if word]
            if state == "completed":
                assert kept == [cell.number] * len(kept), cell
            elif state == "terminated":
                assert kept == [None] * len(kept), cell
            elif own is not None and not _crashed(cell.end):
                assert kept[0] == cell.number, cell
                assert kept[1:] == [None] * len(kept[1:]), cell
            if cell.kind in WRITES_LAST and kept[0] is not None:
                # One whose worker died may have come to the one and not to the other.
                last = last | {cell.number} if _crashed(cell.end) else {cell.number}
        assert values.get("last") in last

    def _judge_variables(self, house: House) -> None:
        """Those who came to their end have signed in, in their order; of the others there is no trace."""
        signed = [
            cell.number
            for cell in self.cells.values()
            if cell.session is house
            and not cell.isolated
            and not isinstance(cell.end, Terminated)
            and not _crashed(cell.end)
        ]
        result = self.go(house.session.run("done"))
        if not result.ok:
            # The one to find out that an idle worker was killed.
            assert result.error is not None
            assert result.error.code == Code.ENGINE_CRASHED
            assert house.killed
            result = self.go(house.session.run("done"))
        assert result.result == signed, [cell for cell in self.cells.values() if cell.session is house]

    async def _all_workers_are_to_be_had(self) -> None:
        for house in self.houses:
            session = house.session
            cells = [await session.exec("1", yield_ms=0, isolated=True) for _ in range(2 * WORKERS)]
            for cell in cells:
                assert isinstance(await session.wait(cell.cell_id, yield_ms=30_000), Completed)

    # -- looked up -----------------------------------------------------------------------------------------------

    def live(self) -> list[Cell]:
        return [cell for cell in self.cells.values() if cell.end is None]

    def pick(self, nth: int) -> Cell | None:
        cell = _nth(self.live(), nth)
        if cell is not None:
            note(f"cell {cell.number}: {cell.kind}{', isolated' if cell.isolated else ''}, {cell.session.language}")
        return cell

    def under_way(self) -> list[str]:
        return [key for key, held in self.held.items() if not held.done()]

    def workers(self) -> list[tuple[House, int]]:
        """The workers that hold a program or a session at rest, and whose they are."""
        found: dict[int | None, House] = {}
        for house in self.houses:
            cells: Any = house.session._cells  # pyright: ignore[reportPrivateUsage]
            seats: Any = house.session._seats  # pyright: ignore[reportPrivateUsage]
            if id(cells.driver.namespace) in seats._idle:
                found[cells.driver.namespace.interpreter.pid] = house
            for cell in self.live():
                if cell.session is not house:
                    continue
                life = cells.find(cell.id)
                if life.cell.machine.state in ON_A_WORKER and life.driver.interpreter is not None:
                    found[life.driver.interpreter.pid] = house
        return [(house, pid) for pid, house in found.items() if pid is not None]


def _nth(those: list[T], nth: int) -> T | None:
    if not those:
        return None
    return those[nth % len(those)]


def _crashed(end: Observation | None) -> bool:
    return isinstance(end, Failed) and end.error.code == Code.ENGINE_CRASHED


async def _all(*work: Awaitable[Observation]) -> list[Observation | BaseException]:
    return await asyncio.gather(*work, return_exceptions=True)


async def _others() -> list[str]:
    mine = asyncio.current_task()
    return [task.get_name() for task in asyncio.all_tasks() if task is not mine]


def _tell(stories: int, steps: int) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    # A story is played in real time and real processes: one that fails need not fail again, so it is not made shorter.
    phases = (Phase.explicit, Phase.reuse, Phase.generate)
    told = settings(
        max_examples=stories, stateful_step_count=steps, deadline=None, suppress_health_check=checks, phases=phases
    )
    play: Callable[..., None] = run_state_machine_as_test
    play(Story, settings=told)


def test_whatever_happens_no_cell_is_lost_ends_twice_or_loses_a_word() -> None:
    _tell(stories=15, steps=20)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_whatever_happens_in_long_stories_no_cell_is_lost_ends_twice_or_loses_a_word() -> None:
    _tell(stories=150, steps=40)
