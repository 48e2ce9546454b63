"""Files inside the cells of a session: shared with its host, written once whatever happens to a worker."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cloister import CellLimits, Cloister, Code, Completed, Session, SessionLimits, Tool, Yielded
from tests.cells.lab import Latch

pytestmark = pytest.mark.anyio

LIMITS = SessionLimits(cpu_ms=20_000, wall_ms=60_000)
APPEND = {
    "python": "open('log', 'a').write('{0};')\n{0} = open('log').read()\n{0}",
    "typescript": "files.append('log', '{0};'); var {0} = files.read('log'); {0}",
}
AROUND = {
    "python": "open('log', 'a').write('before;')\nn = await hold(n=7)\nopen('log', 'a').write(f'after {n};')",
    "typescript": "files.append('log', 'before;'); const n = await hold({n: 7}); files.append('log', `after ${n};`)",
}


@pytest.fixture
def latch() -> Latch:
    return Latch()


@pytest.fixture(params=["python", "typescript"])
async def session(request: pytest.FixtureRequest, latch: Latch) -> AsyncIterator[Session]:
    cells = CellLimits(hibernate_after_ms=1)
    async with Cloister(tools=[latch.tool], limits=LIMITS, cells=cells, type_check="off", workers=1) as cloister:
        yield await cloister.open_session("inside", language=request.param)


async def _append(session: Session, name: str, **more: Any) -> Any:
    result = await session.run(APPEND[session.language].format(name), **more)
    assert result.ok, result.error
    return result.result


async def _kill(session: Session) -> None:
    """The worker dies, and the cell that finds out fails without having done anything."""
    assert session.worker_pid is not None
    os.kill(session.worker_pid, signal.SIGKILL)
    result = await session.run(APPEND[session.language].format("lost"))
    assert result.error is not None
    assert result.error.code == Code.ENGINE_CRASHED


async def test_host_and_programs_see_the_same_files(session: Session) -> None:
    await session.files.write("/log", "host;")
    assert await _append(session, "a") == "host;a;"
    assert await session.files.read_text("log") == "host;a;"


async def test_worker_that_dies_neither_writes_again_nor_takes_variables_along(session: Session) -> None:
    await session.run("keep = 41" if session.language == "python" else "var keep = 41")
    await _append(session, "a")
    await _append(session, "b")
    await _kill(session)
    assert (await session.run("keep")).result == 41
    assert [(await session.run(name)).result for name in "ab"] == ["a;", "a;b;"]
    assert await session.files.read_text("log") == "a;b;"


async def test_run_with_less_memory_than_its_session_writes_once(session: Session) -> None:
    assert await _append(session, "a", limits={"memory_mb": 32}) == "a;"
    assert await _append(session, "b") == "a;b;"
    await _kill(session)
    assert [(await session.run(name)).result for name in "ab"] == ["a;", "a;b;"]
    assert await session.files.read_text("log") == "a;b;"


async def test_cell_that_slept_between_two_writes_goes_on_with_its_files(session: Session, latch: Latch) -> None:
    seen = await session.exec(AROUND[session.language], yield_ms=50)
    assert isinstance(seen, Yielded)
    await latch.until_came()
    await latch.let_go(7)
    ended = await session.wait(seen.cell_id, yield_ms=20_000)
    assert isinstance(ended, Completed), ended
    await _kill(session)
    assert await session.files.read_text("log") == "before;after 7;"


async def test_isolated_cell_shares_files_and_nothing_else(session: Session) -> None:
    await _append(session, "a")
    seen = await session.exec(APPEND[session.language].format("b"), isolated=True)
    assert isinstance(seen, Completed), seen
    assert seen.result == "a;b;"
    missing = await session.run("b")
    assert missing.error is not None
    assert missing.error.code == Code.RUNTIME_ERROR


@pytest.mark.parametrize("language", ["python", "typescript"])
async def test_files_of_a_cell_outlive_its_process_and_a_replay_writes_none(language: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    async with Cloister(store=store, snapshot_key=b"k" * 32, type_check="off") as cloister:
        session = await cloister.open_session("kept", language=language)
        assert await _append(session, "a") == "a;"
    async with Cloister(store=store, snapshot_key=b"k" * 32, type_check="off") as cloister:
        session = await cloister.open_session("kept", language=language)
        result = await session.run(APPEND[language].format("b"))
        assert result.result == "a;b;"
        assert (await cloister.replay(result.cell_id)).same
        assert await session.files.read_text("log") == "a;b;"


async def test_tool_called_files_stands_in_front_of_the_object() -> None:
    async def files(n: int) -> int:
        return n + 1

    async with Cloister(tools=[Tool(files)], type_check="off") as cloister:
        session = await cloister.open_session(language="typescript")
        assert (await session.run("await files({n: 1})")).result == 2
        assert "declare const files:" not in session.stubs
