"""The act in which a whole host is killed while its program waits for a person, and another one goes on."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from cloister.app import Cloister
from cloister.cli.demo.programs import SELLING
from cloister.cli.demo.shop import Counter
from cloister.cli.demo.stage import Stage
from cloister.cli.source import Source
from cloister.core.cell import Completed, Observation, Yielded
from cloister.core.errors import EngineUnavailable
from cloister.core.language import Language

_PATIENCE_SECONDS = 30
SESSION = "order-a7"


async def kill_the_host(stage: Stage, language: Language, scratch: Path) -> bool:
    """Play the act in one language; whether each effect happened once. `scratch` is the disk that both hosts have."""
    disk = scratch / f"killed-{language.value}"
    disk.mkdir()
    stage.program(Source("cell", SELLING[language], language))
    pid, cell_id = await _die_waiting(disk, language)
    stage.line(f"process {pid}: its program waits for a person")
    stage.line(f"   kill -9 {pid}; done so far: {', '.join(Counter(disk).made())}")
    async with opened(disk) as cloister:
        # Where nobody can tell that a process has died, its time has to run out.
        session = await cloister.open_session(SESSION, wait_ms=_PATIENCE_SECONDS * 2000)
        [asked] = await cloister.approvals(state="pending")
        given = ", ".join(f"{name}={json.dumps(asked.arguments[name])}" for name in ("order_id", "cents"))
        stage.line(f"process {os.getpid()}: opens its store, and the question is there")
        stage.line(f"   {asked.capability}({given})? The answer: allow")
        await cloister.decide(asked.id, "allow")
        seen: Observation = await session.wait(cell_id)
        while isinstance(seen, Yielded):
            seen = await session.wait(cell_id)
    made = Counter(disk).made()
    stage.line(f"-> {json.dumps(seen.result) if isinstance(seen, Completed) else seen.status}")
    stage.line(f"   done in all, each once: {', '.join(made)}")
    return isinstance(seen, Completed) and made == ["charge A7", "refund A7"]


def opened(disk: Path) -> Cloister:
    """A host on what lies on that disk."""
    return Cloister(tools=Counter(disk).tools(), store=f"sqlite://{disk}/cloister.db", snapshot_key=b"demo" * 8)


async def _die_waiting(disk: Path, language: Language) -> tuple[int, str]:
    """The process that was killed, and the cell that waited in it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cloister.cli", "demo-host", str(disk), language.value),
        # What it cannot clean up any more goes with the disk.
        env={**os.environ, "CLOISTER_DATA_DIR": str(disk), "TMPDIR": str(disk)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        said = await asyncio.wait_for(process.stdout.readline(), _PATIENCE_SECONDS)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        _, err = await process.communicate()
    if not said:
        raise EngineUnavailable(f"the other process failed: {err.decode(errors='replace').strip()}")
    return process.pid, json.loads(said)["cell_id"]
