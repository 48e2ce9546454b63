"""The last act: a model at a real server writes a program, and the server is killed while a person is asked.

The server is started again on the same store, the answer is given, and the turn goes on to its end. The client that
listens all the while has every event once: it compares what it saw with the log.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cloister.cli.demo.shop import Counter
from cloister.cli.demo.stage import Stage
from cloister.cli.source import Source
from cloister.core.approval import Approval
from cloister.core.envelope import Envelope
from cloister.core.errors import EngineUnavailable
from cloister.core.item import AgentMessage, CellRun, item_from_json
from cloister.core.language import Language
from cloister.core.turn import Status, Turn, TurnParams
from cloister.core.wire import keep_json

if TYPE_CHECKING:
    from cloister.client import AsyncClient, AsyncEventStream

_PATIENCE_SECONDS = 60
_WORDS = "Take the money for order A7, and give it back."
_TOOLS = """\
from pathlib import Path
from cloister.cli.demo.shop import Counter

tools = Counter(Path(__file__).parent).tools()
"""
_SCRIPT = """\
answers:
  - expect: A7
    text: I charge the order, and ask for the refund.
    exec: |
      charged = await charge(order_id="A7", cents=1250)
      given_back = await refund(order_id="A7", cents=1250)
      [charged, given_back]
  - expect: gave 1250 cents back
    text: Order A7 was charged, and the money is back.
"""


async def kill_the_server(stage: Stage, scratch: Path) -> bool:
    """Play the act; whether the turn ended well, each effect happened once and the client saw each event once."""
    if any(find_spec(name) is None for name in ("fastapi", "httpx2", "uvicorn")):
        stage.line("This act needs a server: pip install 'cloister[server]'")
        return True
    from cloister.client import AsyncClient

    disk = scratch / "served"
    disk.mkdir()
    (disk / "till.py").write_text(_TOOLS)
    (disk / "answers.yaml").write_text(_SCRIPT)
    async with asyncio.timeout(_PATIENCE_SECONDS):
        async with _serving(disk, 0) as first:
            token = (disk / "server.token").read_text().strip()
            stage.line(f"process {first.pid}: cloister serve, on a free port of this machine")
            async with AsyncClient(first.url, token) as client:
                return await _converse(stage, disk, first, client)


async def _converse(stage: Stage, disk: Path, first: "_Serving", client: "AsyncClient") -> bool:
    thread = await client.threads.create()
    begun = await client.threads.turn(thread.id, TurnParams(_WORDS, operation_key="order-a7"))
    stage.line(f"   said to the model: {_WORDS}")
    async with client.events(thread_id=thread.id) as events:
        act = _Act(stage, events, [])
        asked = await act.until_asked()
        given = ", ".join(f"{name}={json.dumps(asked.arguments[name])}" for name in ("order_id", "cents"))
        stage.line(f"a person is asked: {asked.capability}({given})")
        first.kill()
        stage.line(f"   kill -9 {first.pid}; done so far: {', '.join(Counter(disk).made())}")
        async with _serving(disk, first.port) as second:
            stage.line(f"process {second.pid}: cloister serve, on the same store; the answer: allow")
            await client.approvals.decide(asked.id, "allow")
            turn = await act.until_ended(begun.turn.id)
            stage.line(f"-> {turn.status}, after {turn.usage.requests} requests to the model")
            seen = [one for one in act.seen if not one.is_ephemeral]
            async with client.events(thread_id=thread.id) as log:
                is_whole = [await anext(log) for _ in seen] == seen
            stage.line(f"   the client saw {len(seen)} events, each once, over {events.reconnects + 1} connections")
    made = Counter(disk).made()
    stage.line(f"   done in all, each once: {', '.join(made)}")
    completed = turn.status is Status.COMPLETED and turn.usage.requests == 2
    return completed and is_whole and events.reconnects > 0 and made == ["charge A7", "refund A7"]


@dataclass(slots=True)
class _Act:
    """What the client sees, in words."""

    stage: Stage
    events: "AsyncEventStream"
    seen: list[Envelope]

    async def until_asked(self) -> Approval:
        while (event := await self._next()).event != "approval.required":
            pass
        return keep_json(Approval, event.payload)

    async def until_ended(self, turn_id: str) -> Turn:
        while (event := await self._next()).event != "turn.completed" or event.turn_id != turn_id:
            pass
        return keep_json(Turn, event.payload["turn"])

    async def _next(self) -> Envelope:
        event = await anext(self.events)
        self.seen.append(event)
        if event.event in ("item.started", "item.completed"):
            match item_from_json(event.payload["item"]).detail:
                case AgentMessage(text) if event.event == "item.completed":
                    self.stage.line(f"   the model says: {text}")
                case CellRun(code) if event.event == "item.started":
                    self.stage.program(Source("cell", code, Language.PYTHON))
                case _:
                    pass
        return event


# -- the server -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Serving:
    url: str
    port: int
    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)


@asynccontextmanager
async def _serving(disk: Path, port: int) -> AsyncGenerator[_Serving, None]:
    """A server on what lies on that disk; it is told to stop at the end, if it is still there."""
    # Nothing of this user's: not the configuration, nor the keys, nor the token.
    ours = {name: value for name, value in os.environ.items() if not name.startswith("CLOISTER_")}
    places = {"CLOISTER_DATA_DIR": str(disk), "XDG_CONFIG_HOME": str(disk), "TMPDIR": str(disk)}
    cache = {"CLOISTER_CACHE_DIR": found} if (found := os.environ.get("CLOISTER_CACHE_DIR")) else {}
    with (disk / "log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cloister.cli", "serve", "--port", str(port), "--tools", "till:tools"),
            *("--store", f"sqlite://{disk}/cloister.db", "--model", f"scripted:{disk}/answers.yaml", "--json"),
            cwd=disk,
            env={**ours, **places, **cache},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    assert process.stdout is not None
    try:
        said = await process.stdout.readline()
        if not said:
            raise EngineUnavailable(f"the server did not start: {(disk / 'log').read_text().strip()[-500:]}")
        ready = json.loads(said)
        yield _Serving(ready["url"], ready["port"], process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
