"""Processes of the command line that begin with everything imported: most of what a short command takes is imports.

One process per run of tests imports the command line and waits. For each command it forks twice: the inner child takes
the directory, environment and streams that it is given, a terminal among them if that is what they are, and is then
`cloister WORDS` as the script would be; the outer one says who that is, waits for it and reports how it ended. What the
tests of the script itself type runs as a process from scratch.
"""

import array
import atexit
import ctypes
import fcntl
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_MOST = 1 << 20
_streams = ("stdin", "stdout", "stderr")


class Zygote:
    """One for all; started at the first command, gone when the tests are."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.zygote", str(theirs.fileno())], cwd=root, pass_fds=[theirs.fileno()]
        )
        theirs.close()
        self._socket = ours

    def begin(
        self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], streams: tuple[int, int, int], terminal: bool
    ) -> "Begun":
        """A command at work, with these for its standard streams. `terminal`: the first of them is one, its own."""
        end_read, end_write = os.pipe()
        request = {"words": [*words], "cwd": str(cwd), "env": dict(env), "terminal": terminal}
        passed = array.array("i", [*streams, end_write])
        self._socket.sendmsg([json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
        os.close(end_write)
        return Begun(end_read)

    def run(
        self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: str, timeout: float
    ) -> "subprocess.CompletedProcess[str]":
        """As `subprocess.run` of the script, with all that it said captured."""
        (in_read, in_write), (out_read, out_write), (err_read, err_write) = (os.pipe() for _ in range(3))
        theirs = (in_read, out_write, err_write)
        begun = self.begin(words, cwd=cwd, env=env, streams=theirs, terminal=False)
        for fd in theirs:
            os.close(fd)
        read: dict[int, bytes] = {}
        threads = [threading.Thread(target=_drain, args=(fd, read)) for fd in (out_read, err_read)]
        threads.append(threading.Thread(target=_fill, args=(in_write, stdin.encode())))
        for thread in threads:
            thread.daemon = True
            thread.start()
        for thread in threads:
            thread.join(timeout)
            if thread.is_alive():
                begun.kill()
                begun.wait(10)
                raise subprocess.TimeoutExpired(list(words), timeout, read.get(out_read), read.get(err_read))
        return subprocess.CompletedProcess(
            list(words), begun.wait(timeout), read[out_read].decode(), read[err_read].decode()
        )


class Begun:
    """What `subprocess.Popen` would be asked about a command."""

    def __init__(self, end: int) -> None:
        self._end = os.fdopen(end, "rb", buffering=0)
        self.pid = int(self._end.readline())
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; minus the signal that has ended it."""
        if self._code is None:
            ready, _, _ = select.select([self._end], [], [], timeout)
            if not ready:
                raise subprocess.TimeoutExpired([f"process {self.pid}"], timeout or 0.0)
            self._code = os.waitstatus_to_exitcode(int(self._end.readline()))
            self._end.close()
        return self._code

    def kill(self) -> None:
        if self._code is None and not select.select([self._end], [], [], 0)[0]:
            os.kill(self.pid, signal.SIGKILL)


def _drain(fd: int, read: dict[int, bytes]) -> None:
    with open(fd, "rb") as stream:
        read[fd] = stream.read()


def _fill(fd: int, text: bytes) -> None:
    try:
        with open(fd, "wb") as stream:
            stream.write(text)
    except BrokenPipeError:
        pass  # it ended without reading all


# -- in the zygote ---------------------------------------------------------------------------------------------------


def serve(line: socket.socket) -> None:
    for name in ("app.cloister", "cli.main", "cli.run", "cli.repl.prompt", "client", "stores.sqlite"):
        importlib.import_module(f"cloister.{name}")
    while True:
        message, fds, _, _ = socket.recv_fds(line, _MOST, 4)
        if not message:
            return
        outer = os.fork()
        if outer == 0:
            line.close()
            _end_with_parent()
            inner = os.fork()
            if inner:
                _wait_for(inner, fds)
            _end_with_parent()
            _become(json.loads(message), fds)
        os.waitpid(outer, os.WNOHANG)
        for fd in fds:
            os.close(fd)
        _bury()


def _bury() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _end_with_parent() -> None:
    """A command that hangs does not outlive the tests."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait_for(inner: int, fds: list[int]) -> NoReturn:
    for fd in fds[:3]:
        os.close(fd)
    os.write(fds[3], f"{inner}\n".encode())
    _, status = os.waitpid(inner, 0)
    os.write(fds[3], f"{status}\n".encode())
    os._exit(0)


def _become(request: dict[str, Any], fds: list[int]) -> NoReturn:
    os.close(fds[3])
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
        os.close(fd)
    if request["terminal"]:
        # As a shell's own: Ctrl-C is for us, and we end when it is gone.
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for number, name in enumerate(_streams):
        # As the interpreter opens them.
        mode, errors = ("r", "strict") if number == 0 else ("w", "backslashreplace" if number == 2 else "strict")
        stream = os.fdopen(number, mode, encoding="utf-8", errors=errors, closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = ["cloister", *request["words"]]
    # The script's own directory comes first on the path of one that is installed; the tests' root does not.
    sys.path[0] = str(Path(sys.executable).parent)
    from cloister.cli.main import main

    code: Any = 1
    try:
        code = main()
    except SystemExit as end:
        code = end.code
    finally:
        # As an interpreter ends: threads are waited for, what is registered runs, streams are flushed.
        threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType]
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
