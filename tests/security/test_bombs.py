"""Values made to break whoever looks at them: refused before anything is made of them, and only that call fails.

What a program or a host gives may be small and expand to more than there are atoms; what a tool returns may have
methods of its own. Nobody is asked about such a call, nothing of it is written down, and the program goes on.
"""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from pydantic import BeforeValidator

from cloister import Approval, Cloister, Event, Hook, HookedCall, Replace, RunResult, SessionLimits, Tool
from cloister.core.digest import digest_json
from cloister.core.wire import to_json

pytestmark = pytest.mark.anyio

LANGUAGES = ("python", "typescript")
DOUBLED = 60

# Programs that leave the bomb in `a`.
BOMBS = {
    "list that holds itself twice, sixty times over": (
        f"a = [1]\nfor _ in range({DOUBLED}): a = [a, a]",
        f"let a: any = [1]; for (let i = 0; i < {DOUBLED}; i++) a = [a, a];",
    ),
    "object that holds itself twice, sixty times over": (
        f"a = {{'k': 1}}\nfor _ in range({DOUBLED}): a = {{'l': a, 'r': a}}",
        f"let a: any = {{k: 1}}; for (let i = 0; i < {DOUBLED}; i++) a = {{l: a, r: a}};",
    ),
    "ten megabytes": ("a = 'x' * 10_000_000", "let a: any = 'x'.repeat(10_000_000);"),
    "ten megabytes as a key": ("a = {'x' * 10_000_000: 1}", "let a: any = {['x'.repeat(10_000_000)]: 1};"),
    "ten megabytes in pieces": ("a = ['x' * 1000] * 10_000", "let a: any = Array(10_000).fill('x'.repeat(1000));"),
    "two megabytes": ("a = 'x' * 2_000_000", "let a: any = 'x'.repeat(2_000_000);"),
    "a million numbers": ("a = [1] * 1_000_000", "let a: any = Array(1_000_000).fill(1);"),
    "deep nesting": (
        "a = []\nfor _ in range(5000): a = [a]",
        "let a: any = []; for (let i = 0; i < 5000; i++) a = [a];",
    ),
    "huge integer": ("a = 10**6000", "let a: any = 10n ** 6000n;"),
    "not a number": ("a = float('nan')", "let a: any = NaN;"),
    "infinity, deep inside": ("a = [{'k': float('-inf')}]", "let a: any = [{k: -Infinity}];"),
    "list that holds itself": ("a = []\na.append(a)", "let a: any = []; a.push(a);"),
    "object that holds itself": ("a = {}\na['k'] = [a]", "let a: any = {}; a.k = [a];"),
    "function": ("def a(): pass", "let a: any = () => 1;"),
}

CAUGHT = {
    "python": "\ntry:\n    await take(value=a)\n    got = 'taken'\nexcept RuntimeError as e:\n    got = str(e)\n"
    "[got, await fine()]",
    "typescript": " let got: any; try { await tools.take({value: a}); got = 'taken' } "
    "catch (e: any) { got = e.code + ': ' + e.message } [got, await tools.fine()]",
}


class Guarded:
    """A tool whose every stage tells that it was asked about a call."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.threads: list[threading.Thread] = []
        self.events: list[Event] = []

        async def take(value: Annotated[Any, BeforeValidator(self._validate)]) -> str:
            """Take anything."""
            self.asked.append("tool")
            return "taken"

        async def fine() -> str:
            return "fine"

        self.tools = [Tool(take, approval_policy="manual"), Tool(fine)]

    def _validate(self, value: Any) -> Any:
        self.asked.append("validator")
        self.threads.append(threading.current_thread())
        return value

    async def before_call(self, call: HookedCall) -> None:
        if call.name == "take":
            self.asked.append("hook")

    def approve(self, approval: Approval) -> str:
        self.asked.append("policy")
        return "allow"


@pytest.fixture(scope="module")
async def grounds(anyio_backend: str) -> AsyncIterator[tuple[Cloister, Guarded]]:
    guarded = Guarded()
    async with Cloister(
        tools=guarded.tools,
        workers=2,
        hooks=[guarded],
        approver=guarded.approve,
        on_event=lambda event: guarded.events.append(event),
        limits=SessionLimits(wall_ms=20_000, cpu_ms=5_000, memory_mb=128),
        snapshot_key=b"k" * 32,
    ) as cloister:
        yield cloister, guarded


@pytest.fixture
def guarded(grounds: tuple[Cloister, Guarded], caplog: pytest.LogCaptureFixture) -> Guarded:
    caplog.set_level(logging.DEBUG)
    grounds[1].asked.clear()
    grounds[1].threads.clear()
    grounds[1].events.clear()
    return grounds[1]


@pytest.fixture
async def cloister(grounds: tuple[Cloister, Guarded]) -> AsyncIterator[Cloister]:
    yield grounds[0]
    await grounds[0].destroy_session("here")


class Ticks:
    """A task that goes round as often as the loop lets it."""

    def __init__(self) -> None:
        self.count = 0

    async def __aenter__(self) -> "Ticks":
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._task.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.001)
            self.count += 1


async def _assert_refused_unread(
    cloister: Cloister, guarded: Guarded, result: RunResult, log: pytest.LogCaptureFixture
) -> None:
    record = result.external_calls[0]
    assert record.name == "take"
    assert record.error is not None
    assert record.error.code == "INVALID_ARGUMENTS"
    assert record.request_digest == digest_json(["take"])
    assert guarded.asked == []
    journal = getattr(cloister, "_wiring").journal  # noqa: B009
    assert [entry.intent.name for entry in await journal.of_cell(result.cell_id) if entry.intent.name == "take"] == []
    # Nothing of it is told or logged either: a bomb in a line of text would be a long line.
    assert max(len(json.dumps(to_json(event.data))) for event in guarded.events) < 1000
    assert max((len(line.getMessage()) for line in log.records), default=0) < 1000


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("bomb", BOMBS)
async def test_bomb_of_a_program_is_refused_before_anybody_is_asked(
    cloister: Cloister, guarded: Guarded, caplog: pytest.LogCaptureFixture, language: str, bomb: str
) -> None:
    session = await cloister.open_session("here", language=language)
    async with Ticks() as ticks:
        result = await session.run(BOMBS[bomb][LANGUAGES.index(language)] + CAUGHT[language])
    assert result.ok, result.error
    got, fine = result.result
    assert got.startswith("INVALID_ARGUMENTS: "), got
    assert fine == "fine"
    assert ticks.count > 0
    await _assert_refused_unread(cloister, guarded, result, caplog)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_call_that_is_no_bomb_is_asked_about_at_every_stage(
    cloister: Cloister, guarded: Guarded, language: str
) -> None:
    """Or the tests above would prove nothing."""
    session = await cloister.open_session("here", language=language)
    result = await session.run({"python": "a = [1]", "typescript": "let a: any = [1];"}[language] + CAUGHT[language])
    assert result.result == ["taken", "fine"]
    assert guarded.asked == ["validator", "hook", "policy", "tool"]
    assert result.external_calls[0].request_digest == digest_json(["take", {"value": [1]}])


def _doubled(leaf: object, times: int = DOUBLED) -> list[Any]:
    made: list[Any] = [leaf]
    for _ in range(times):
        made = [made, made]
    return made


def _nested(levels: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


def _circular() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["k"] = [made]
    return made


OWN_BOMBS: dict[str, Any] = {
    "list that holds itself twice, sixty times over": _doubled(1),
    "ten megabytes": "x" * 10_000_000,
    "a million numbers": [1] * 1_000_000,
    "deep nesting": _nested(5000),
    "huge integer": 10**6000,
    "not a number": float("nan"),
    "object that holds itself": _circular(),
    "bytes": b"x" * 100,
    "iterator": iter([1]),
    "half a surrogate pair": "half \ud800",
    "half a surrogate pair as a key": {"\udfff": 1},
}


@pytest.mark.parametrize("bomb", OWN_BOMBS)
@pytest.mark.parametrize("by_name", [True, False], ids=["by name", "in order"])
async def test_bomb_of_the_host_is_refused_before_anybody_is_asked(
    cloister: Cloister, guarded: Guarded, caplog: pytest.LogCaptureFixture, bomb: str, by_name: bool
) -> None:
    session = await cloister.open_session("here")
    result = await session.call("take", {"value": OWN_BOMBS[bomb]} if by_name else [OWN_BOMBS[bomb]])
    assert result.error is not None
    await _assert_refused_unread(cloister, guarded, result, caplog)
    assert (await session.call("fine")).result == "fine"


class _Swap(Hook):
    async def before_call(self, call: HookedCall) -> Replace | None:
        return Replace({"value": _doubled(1)}) if call.name == "take" else None


@pytest.mark.parametrize("language", LANGUAGES)
async def test_bomb_of_a_hook_is_refused_too(cloister: Cloister, guarded: Guarded, language: str) -> None:
    session = await cloister.open_session("here", language=language, hooks=[_Swap()])
    result = await session.run({"python": "a = 1", "typescript": "let a: any = 1;"}[language] + CAUGHT[language])
    assert result.result[0].startswith("INVALID_ARGUMENTS: the value has more than"), result.result
    assert guarded.asked == ["validator", "hook"]


@pytest.mark.parametrize(("parts", "aside"), [(10, False), (30_000, True)], ids=["little", "much"])
async def test_much_is_looked_at_aside_and_the_loop_lives(
    cloister: Cloister, guarded: Guarded, parts: int, aside: bool
) -> None:
    """Large, but not too large: it is taken, and the work on it is done in another thread than the loop's."""
    session = await cloister.open_session("here")
    async with Ticks() as ticks:
        result = await session.run(f"a = [[n] for n in range({parts})]" + CAUGHT["python"])
    assert result.result == ["taken", "fine"], result.error
    assert [thread is not threading.current_thread() for thread in guarded.threads] == [aside]
    assert ticks.count > 0
