"""Turns whose programs find no worker, or whose worker dies under them: by name, and the thread goes on."""

import json
import os
import signal
from pathlib import Path

import pytest

from cloister import Cloister, SessionLimits
from cloister.core.cell import Interrupted
from cloister.core.errors import CodeExecutionUnavailable, EngineUnavailable
from cloister.core.item import CellRun
from cloister.core.language import Language
from cloister.core.thread import ThreadParams
from cloister.core.turn import Status, TurnParams
from cloister.engines.monty import engine as monty_engine
from cloister.engines.quickjs.pool import Pool
from tests.threads.drivers.lab import begin, ended, first, host, said_of, scripted, talk, work

pytestmark = pytest.mark.anyio
# Nobody is told that they go on, however slow the machine.
PATIENTLY = {
    Language.PYTHON: '# @exec: {"yield_time_ms": 60000}\n',
    Language.TYPESCRIPT: '// @exec: {"yield_time_ms": 60000}\n',
}
# They say that they compute, and are never done with it.
ENDLESS = {
    Language.PYTHON: "notify('on')\nwhile True:\n    pass",
    Language.TYPESCRIPT: "notify('on');\nwhile (true) {}",
}


async def none_starts(_: Pool) -> None:
    raise EngineUnavailable("no TypeScript worker starts: the machine is full")


PATIENT = SessionLimits(cpu_ms=600_000, wall_ms=600_000)


@pytest.mark.parametrize("language", list(Language))
async def test_worker_that_dies_under_a_program_is_told_to_the_model_which_goes_on(
    tmp_path: Path, language: Language
) -> None:
    script = f"""
answers:
  - exec: {json.dumps(PATIENTLY[language] + ENDLESS[language])}
  - expect: code_execution_stopped
    exec: 40 + 2
  - expect: "42"
    text: Done.
"""
    async with host(tmp_path / "a.db", scripted(script), limits=PATIENT) as cloister:
        turn = await begin(cloister.threads, language=language)
        await first(cloister.threads, turn.thread_id, "cell.notified")
        session = cloister.session((await cloister.threads.get(turn.thread_id)).thread.session_id)
        assert session.worker_pid is not None
        os.kill(session.worker_pid, signal.SIGKILL)
        turn, items = await ended(cloister.threads, turn)
        assert turn.status is Status.COMPLETED, turn.error
        stopped, ran = work(items)
        assert isinstance(stopped.detail, CellRun)
        assert stopped.detail.error is not None
        assert (stopped.status, stopped.detail.error.code) == (Status.FAILED, "code_execution_stopped")
        assert "hint: run the cell again" in said_of(stopped)
        assert ran.status is Status.COMPLETED


async def test_program_that_finds_no_worker_ends_its_turn_and_not_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = (json.dumps(f"{PATIENTLY[Language.TYPESCRIPT]}{number}") for number in (1, 2))
    model = scripted(f"answers: [{{exec: {one}}}, {{expect: code_execution_unavailable, exec: {two}}}, {{text: Two.}}]")
    async with host(tmp_path / "a.db", model) as cloister:
        threads = cloister.threads
        with monkeypatch.context() as broken:
            broken.setattr(Pool, "acquire", none_starts)
            thread = await threads.create(ThreadParams(language=Language.TYPESCRIPT))
            turn, items = await talk(threads, "one", thread=thread)
            assert turn.error is not None
            assert (turn.status, turn.error.code) == (Status.FAILED, "code_execution_unavailable")
            [cell] = work(items)
            assert (cell.status, cell.detail.error.code) == (Status.FAILED, "code_execution_unavailable")
            # The model was not paid to be told the same again, and the host's log has what is wrong.
            assert len(model.asked) == 1
            assert "no TypeScript worker starts" in caplog.text
            assert "TypeScript worker" not in said_of(cell)
        turn, _ = await talk(threads, "again", thread=thread)
        assert turn.status is Status.COMPLETED, turn.error


async def test_thread_whose_language_cannot_be_run_here_says_so_and_can_be_used_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise EngineUnavailable("there is no worker in the package")

    script, path = "answers: [{exec: '1'}, {text: One.}]", tmp_path / "a.db"
    async with host(path, scripted(script)) as cloister:
        thread = await cloister.threads.create()
    async with host(path, scripted(script)) as cloister:
        threads = cloister.threads
        with monkeypatch.context() as broken:
            broken.setattr(monty_engine, "monty_binary", missing)
            for attempt in (threads.turn(thread.id, TurnParams("go")), threads.create()):
                with pytest.raises(CodeExecutionUnavailable, match="no python programs") as refused:
                    await attempt
                assert refused.value.code == "code_execution_unavailable"
            # It can be looked at meanwhile.
            assert (await threads.get(thread.id)).thread == thread
        turn, _ = await talk(threads, thread=thread)
        assert turn.status is Status.COMPLETED, turn.error


async def test_cell_that_finds_no_worker_says_so_by_a_code(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cloister() as cloister:
        with monkeypatch.context() as broken:
            broken.setattr(Pool, "acquire", none_starts)
            session = await cloister.open_session(language="typescript")
            seen = await session.exec("1", yield_ms=60_000)
        assert isinstance(seen, Interrupted)
        assert "ENGINE_UNAVAILABLE" in [note.code for note in seen.diagnostics]
        assert seen.error.code == "INTERRUPTED"
        again = await session.exec("1", yield_ms=60_000)
        assert again.status == "completed"
