"""The act in which a program falls asleep in mid-call, loses its worker and wakes in another process."""

import asyncio
import json
import os
import secrets
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloister.app import Cloister
from cloister.cli.demo.programs import ASKING
from cloister.cli.demo.shop import Desk
from cloister.cli.demo.stage import Stage, size
from cloister.cli.source import Source
from cloister.core.errors import EngineUnavailable
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.core.run import RunResult

_PATIENCE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Woken:
    finished: bool
    snapshot_bytes: int
    snapshot_ms: float
    wake_ms: float


async def sleep_and_wake(stage: Stage, language: Language, scratch: Path) -> Woken:
    """Play the act in one language. `scratch` stands for what two machines share: the key and the snapshot."""
    stage.program(Source("cell", ASKING[language], language))
    key = _shared_key(scratch)
    blob, snapshot_ms, lost = await _fall_asleep(stage, language, key)
    code = lost.error.code if lost.error is not None else "nothing"
    stage.line(f"   the answer came, nobody heard it: {lost.status.value}, {code}")
    file = scratch / f"{language.value}.snapshot"
    file.write_bytes(blob)
    woken = await _wake_elsewhere(file, language)
    result = woken["result"]
    stage.line(f"process {woken['pid']}: woke the {size(len(blob))} on a new worker, {woken['worker_pid']}")
    stage.line(f"   printed: {' / '.join(result['stdout'].split(chr(10))).rstrip(' /')}")
    stage.line(f"-> {result['result']}")
    finished = not lost.ok and result["status"] == "ok"
    return Woken(finished, len(blob), snapshot_ms, woken["took_ms"])


async def _fall_asleep(stage: Stage, language: Language, key: bytes) -> tuple[bytes, float, RunResult]:
    """The snapshot of a waiting program, how long taking it took, and what became of the run it was taken of."""
    desk = Desk("too late", at_once=False)
    limits = SessionLimits(wall_ms=_PATIENCE_SECONDS * 1000)
    async with Cloister(tools=desk.tools(), snapshot_key=key, limits=limits) as cloister:
        session = await cloister.open_session("order-a7", language=language)
        running = asyncio.create_task(session.run(ASKING[language]))
        asked = asyncio.create_task(desk.asked.wait())
        await asyncio.wait((running, asked), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            asked.cancel()
            raise EngineUnavailable(f"the program never asked: {running.result().error}")
        began = time.perf_counter()
        blob = await session.snapshot()
        took = (time.perf_counter() - began) * 1000
        worker = session.worker_pid
        assert worker is not None
        stage.line(f"process {os.getpid()}: it waits on worker {worker}; its snapshot has {size(len(blob))}")
        os.kill(worker, signal.SIGKILL)
        stage.line(f"   kill -9 {worker}")
        desk.answers.set()
        return blob, took, await running


def _shared_key(scratch: Path) -> bytes:
    """One key for both processes, where the other one looks for its own."""
    file = scratch / "snapshot.key"
    if not file.exists():
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
            made.write(secrets.token_bytes(32))
    return file.read_bytes()


async def _wake_elsewhere(file: Path, language: Language) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cloister.cli", "demo-wake", str(file), language.value),
        env={**os.environ, "CLOISTER_DATA_DIR": str(file.parent)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), _PATIENCE_SECONDS)
    if process.returncode != 0:
        raise EngineUnavailable(f"the other process failed: {err.decode(errors='replace').strip()}")
    return json.loads(out)
