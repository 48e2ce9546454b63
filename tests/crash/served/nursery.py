"""`cloister serve`, forked from a process that has everything imported: a start costs a tenth of one from nothing.

    python -m tests.crash.served.nursery SOCKET_FD

One server at a time. It is what the script would be, but for the points at which it can be killed by name (CRASH_AT,
see `points`); when it ends in order, what it came to is in `points.json`.
"""

import asyncio
import ctypes
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tests.crash.parent import ROOT, environment

_PR_SET_PDEATHSIG = 1
_MOST = 1 << 16
# Not what this user has set up for their own servers.
_OWN = ("CLOISTER_", "ANTHROPIC_", "OPENAI_", "OTEL_")


@dataclass(slots=True)
class Server:
    """One life of a server."""

    pid: int
    # Done with what it says when it can be used, or with nothing when it has ended before that.
    ready: "asyncio.Task[dict[str, Any]]"
    # Done with its exit code; negative for the signal that has killed it.
    over: "asyncio.Task[int]"

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        # It is reaped right before that is told, so the number is still its own.
        if not self.over.done():
            try:
                os.kill(self.pid, how)
            except ProcessLookupError:
                pass


class Nursery:
    """Used by one event loop at a time."""

    def __init__(self) -> None:
        self._wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._wire.setblocking(False)
        with theirs:
            command = [sys.executable, "-m", "tests.crash.served.nursery", str(theirs.fileno())]
            self._process = subprocess.Popen(command, cwd=ROOT, env=environment(), pass_fds=[theirs.fileno()])
        self.starts = 0

    def close(self) -> None:
        self._wire.close()
        self._process.wait(30)

    async def start(self, directory: Path, words: Sequence[str], extra: Mapping[str, str]) -> Server:
        """What it logs is in `log` of the directory."""
        self.starts += 1
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
        # What is compiled once for all servers.
        kept |= {name: os.environ[name] for name in ("CLOISTER_CACHE_DIR",) if name in os.environ}
        request = {"directory": str(directory), "words": list(words), "environment": {**kept, **extra}}
        ours, theirs = os.pipe()
        try:
            socket.send_fds(self._wire, [json.dumps(request).encode()], [theirs])
        finally:
            os.close(theirs)
        pid = (await self._hear())["pid"]
        return Server(pid, asyncio.create_task(_first_line(ours)), asyncio.create_task(self._status()))

    async def _status(self) -> int:
        return (await self._hear())["status"]

    async def _hear(self) -> dict[str, Any]:
        said = await asyncio.get_running_loop().sock_recv(self._wire, _MOST)
        if not said:
            raise RuntimeError("the nursery of servers is gone")
        return json.loads(said)


async def _first_line(fd: int) -> dict[str, Any]:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0)
    )
    try:
        line = await reader.readline()
    finally:
        transport.close()
    # Of half a line nobody can say that it was said.
    return json.loads(line) if line.endswith(b"\n") else {}


# -- in the nursery ---------------------------------------------------------------------------------------------------


def _end_with_parent() -> None:
    """A server that hangs does not outlive the tests."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _serve(fd: int) -> None:
    _end_with_parent()
    for name in ("app.cloister", "cli.serve", "client", "server", "stores.sqlite", "stores.postgres"):
        importlib.import_module(f"cloister.{name}")
    for name in ("threads.models", "threads.drivers", "mcp.server"):
        importlib.import_module(f"cloister.{name}")
    for name in ("openai", "anthropic", "pydantic_ai.models.openai", "pydantic_ai.models.anthropic", "jsonschema_rs"):
        importlib.import_module(name)
    importlib.import_module("tests.crash.points")
    with socket.socket(fileno=fd) as wire:
        while True:
            said, fds, _, _ = socket.recv_fds(wire, _MOST, 1)
            if not said:
                return
            if (pid := os.fork()) == 0:
                wire.close()
                _become(json.loads(said), fds[0])
            os.close(fds[0])
            wire.send(json.dumps({"pid": pid}).encode())
            _, status = os.waitpid(pid, 0)
            wire.send(json.dumps({"status": os.waitstatus_to_exitcode(status)}).encode())


def _become(request: dict[str, Any], out: int) -> NoReturn:
    _end_with_parent()
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    log = os.open("log", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    for fd, target in ((out, 1), (log, 2)):
        os.dup2(fd, target)
        os.close(fd)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    from cloister.cli.main import main
    from tests.crash.served.till import POINTS

    POINTS.install()
    sys.argv = ["cloister", *request["words"]]
    code: Any = 1
    try:
        code = main()
        Path("points.json").write_text(json.dumps(POINTS.counts))
    except SystemExit as end:
        code = end.code
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
