"""An MCP server as a child process: started with little, and ended for sure.

It gets a process group of its own, a minimal environment and three pipes. On Linux it is started through a few lines of
Python that ask the kernel to kill it when this host dies. The group is killed before its leader is reaped, so that the
number of the group can belong to nobody else.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping

from cloister.ports.source import SourceFailed
from cloister.tools.sources.mcp.servers import McpStdio

# How long a server has to end by itself once its input is closed, and again once it was asked to.
GRACE_SECONDS = 2.0
_LAST_WORDS_SECONDS = 0.5
_READ_BYTES = 64 << 10
# What it last wrote to its standard error, for whoever wonders why it is gone.
_TAIL_BYTES = 4 << 10
# A server that writes more than this in a second to its standard error has to wait.
_STDERR_BYTES_A_SECOND = 4 << 20
_INHERITED = ("PATH", "HOME", "LANG")
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
# Turns into the server. The host may be gone before the signal is armed, hence the second look.
_LAUNCH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
try:
    os.execv(sys.argv[2], sys.argv[3:])
except OSError as error:
    sys.exit(f"cannot be executed: {error.strerror}")
"""


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """All that a server learns of the host's environment, and what it was given."""
    return {**{name: os.environ[name] for name in _INHERITED if name in os.environ}, **given}


class Child:
    """A running server. Made by `start`, ended by `end`, which has to be awaited in any case."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        stdin: asyncio.WriteTransport,
        stdin_protocol: "_Drain",
        stdout: asyncio.StreamReader,
        pipes: tuple[asyncio.BaseTransport, ...],
        stderr: asyncio.StreamReader,
    ) -> None:
        self._process = process
        self._stdin = stdin
        self._drain = stdin_protocol
        self.stdout = stdout
        self._pipes = pipes
        self._tail = bytearray()
        self._watcher = asyncio.ensure_future(self._watch(stderr))
        self._ended = asyncio.ensure_future(_end_of(process))

    @property
    def pid(self) -> int:
        return self._process.pid

    async def last_words(self) -> str:
        """The last line of what it wrote to its standard error; for one that has closed its output."""
        # Both are closed when it ends, but they are read one after the other.
        await asyncio.wait([self._watcher], timeout=_LAST_WORDS_SECONDS)
        lines = self._tail.decode(errors="replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else ""

    def write(self, data: bytes) -> None:
        if self._drain.lost or self._stdin.is_closing():
            raise BrokenPipeError
        self._stdin.write(data)

    async def drain(self) -> None:
        """Until most of what was written was read."""
        await self._drain.wait()

    async def end(self) -> None:
        """Close its input, wait, ask, wait, kill. Comes back when the process is reaped, and is not cut short."""
        work = asyncio.ensure_future(self._end())
        cancelled = False
        while not work.done():
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                if work.cancelled():
                    break
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError

    async def _end(self) -> None:
        try:
            self._stdin.close()
            if not await self._ends_within(GRACE_SECONDS):
                self._signal(signal.SIGTERM)
                await self._ends_within(GRACE_SECONDS)
        finally:
            # Whoever is left of its group, the leader included. It is not reaped yet, so the number is still its own.
            self._signal(signal.SIGKILL)
            await self._ended
            self._process.wait()
            self._watcher.cancel()
            for pipe in (self._stdin, *self._pipes):
                pipe.close()
            await asyncio.gather(self._watcher, return_exceptions=True)
            # The pipes are closed by callbacks of the loop.
            await asyncio.sleep(0)

    async def ended(self) -> None:
        """Until the process has ended."""
        await asyncio.shield(self._ended)

    async def _ends_within(self, seconds: float) -> bool:
        await asyncio.wait([self._ended], timeout=seconds)
        return self._ended.done()

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # nobody is left, or (on macOS) only the one that has ended

    async def _watch(self, stderr: asyncio.StreamReader) -> None:
        """Read its standard error for as long as it writes there, and keep the end of it."""
        loop = asyncio.get_running_loop()
        read, since = 0, loop.time()
        while chunk := await stderr.read(_READ_BYTES):
            self._tail += chunk
            del self._tail[:-_TAIL_BYTES]
            read += len(chunk)
            if read >= _STDERR_BYTES_A_SECOND:
                await asyncio.sleep(max(0.0, since + 1 - loop.time()))
                read, since = 0, loop.time()


async def start(server: McpStdio, values: Mapping[str, str]) -> Child:
    """`values` are those of its `env`. Raises `SourceFailed` for a program that cannot be started."""
    environment = _environment(values)
    command = _command(server, environment)
    try:
        process = subprocess.Popen(  # noqa: ASYNC220 - as long as a vfork takes; the asyncio one reaps too early
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=server.cwd,
            close_fds=True,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise _unstartable(server, str(error)) from None
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    loop = asyncio.get_running_loop()
    pipes: list[asyncio.BaseTransport] = []
    try:
        readers: list[asyncio.StreamReader] = []
        for pipe in (process.stdout, process.stderr):
            reader = asyncio.StreamReader(limit=_READ_BYTES)
            transport, _ = await loop.connect_read_pipe(lambda made=reader: asyncio.StreamReaderProtocol(made), pipe)
            readers.append(reader)
            pipes.append(transport)
        stdin, drain = await loop.connect_write_pipe(_Drain, process.stdin)
        return Child(process, stdin, drain, readers[0], tuple(pipes), readers[1])
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in pipes:
            pipe.close()
        raise


def _command(server: McpStdio, environment: Mapping[str, str]) -> list[str]:
    if server.cwd is not None and not os.path.isdir(server.cwd):
        raise _unstartable(server, f"its working directory {os.fspath(server.cwd)!r} is not there")
    written = server.command
    if server.cwd is not None and os.path.dirname(written):
        written = os.path.join(os.getcwd(), server.cwd, written)
    found = shutil.which(written, path=environment.get("PATH", _DEFAULT_PATH))
    if found is None:
        raise _unstartable(server, f"there is no program {server.command!r}", "install it, or give its whole path")
    if not sys.platform.startswith("linux") or not sys.executable:
        return [os.path.abspath(found), *server.args]
    launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid())]
    return [*launch, os.path.abspath(found), server.command, *server.args]


def _unstartable(server: McpStdio, reason: str, hint: str | None = None) -> SourceFailed:
    return SourceFailed(f"{server.what} cannot be started: {reason}", hint=hint, gone=True)


async def _end_of(process: "subprocess.Popen[bytes]") -> None:
    """Until the process has ended; it is not reaped yet, where the system can tell one from the other."""
    if not hasattr(os, "pidfd_open"):
        while process.poll() is None:  # noqa: ASYNC110 - the system has nothing that would tell
            await asyncio.sleep(0.02)
        return
    loop = asyncio.get_running_loop()
    handle = os.pidfd_open(process.pid)
    gone = loop.create_future()
    loop.add_reader(handle, lambda: gone.done() or gone.set_result(None))
    try:
        await gone
    finally:
        loop.remove_reader(handle)
        os.close(handle)


class _Drain(asyncio.Protocol):
    """Tells when the other end of a pipe has read enough."""

    def __init__(self) -> None:
        self._free = asyncio.Event()
        self._free.set()
        self.lost = False

    def pause_writing(self) -> None:
        self._free.clear()

    def resume_writing(self) -> None:
        self._free.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._free.set()

    async def wait(self) -> None:
        await self._free.wait()
        if self.lost:
            raise BrokenPipeError
