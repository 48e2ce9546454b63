"""A shell to type `cloister` in: the installed script in a process of its own, in a directory of its own."""

import os
import pty
import re
import select
import signal
import subprocess
import sysconfig
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Protocol, TextIO

from tests.cli.zygote import Zygote

SCRIPT = Path(sysconfig.get_path("scripts")) / "cloister"

TOOLS = '''
    import asyncio
    import time

    from cloister import ToolError, tool


    @tool(side_effect="read")
    def get_order(order_id: str) -> dict[str, int]:
        """An order."""
        return {"size": len(order_id)}


    @tool
    async def nap() -> str:
        """Sleeps for long, and says when it began."""
        print("begun", flush=True)
        await asyncio.sleep(600)
        return "rested"


    @tool
    def block() -> str:
        """Blocks a thread for long, and says when it began."""
        print("begun", flush=True)
        time.sleep(600)
        return "rested"


    @tool
    def explode() -> str:
        """Fails with something the program must not learn."""
        raise ValueError("host's secret")


    def add(a: int, b: int = 2) -> int:
        return a + b


    several = [get_order, add]
    number = 7
'''

# Tools under terms. `note` and `await_word` go through named pipes, so that a test knows where a program is.
BANK = """
    import asyncio
    from pathlib import Path

    from cloister import ToolError, tool


    @tool(side_effect="write", idempotent=False, approval_policy={"auto": {"rule": "args.amount < 100"}})
    async def refund(order_id: str, amount: int, note: str = "") -> str:
        with open("paid", "a") as paid:
            print(order_id, amount, file=paid)
        return f"paid {amount}"


    @tool
    def note(pipe: str) -> None:
        Path(pipe).write_text("")


    @tool
    def await_word(pipe: str) -> None:
        Path(pipe).read_text()


    @tool
    async def stumble() -> str:
        raise ValueError("stumbled")


    @tool(side_effect="network")
    def fetch(url: str, token: str) -> str:
        if url == "bad":
            raise ValueError(f"cannot fetch with {token}")
        Path("fetched").write_text(token)
        return f"{url} with {token}"


    @tool(side_effect="network")
    def publish(text: str) -> None:
        Path("published").write_text(text)
"""


class Work(Protocol):
    """A process at work."""

    @property
    def pid(self) -> int: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def kill(self) -> None: ...


class Terminal:
    """A command at work on a terminal, and what is on its screen."""

    def __init__(self, running: Work, ours: int) -> None:
        self._running = running
        self._ours = ours
        self._screen = b""
        self._seen = 0

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def screen(self) -> str:
        return self._screen.decode().replace("\r\n", "\n")

    def until(self, text: str) -> None:
        """Wait until `text` is on the screen, after all that was waited for before."""
        while (found := self._screen.find(text.encode(), self._seen)) < 0:
            assert self._read(), f"it ended without {text!r}: {self.screen}"
        self._seen = found + len(text)

    def match(self, pattern: str) -> str:
        """Wait until `pattern` is on the screen, after all that was waited for before; its first group."""
        while (found := re.compile(pattern.encode()).search(self._screen, self._seen)) is None:
            assert self._read(), f"it ended without {pattern!r}: {self.screen}"
        self._seen = found.end()
        return found.group(1).decode()

    def enter(self, text: str, session: str = "repl") -> None:
        """Wait for the prompt of a repl, type, and press Enter."""
        self.until(f"{session}>")
        self.type(f"{text}\r")

    def paste(self, text: str) -> None:
        """What a terminal makes of it, for a program that asked to be told what was pasted."""
        self.type(f"\x1b[200~{text}\x1b[201~")

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def answer(self, text: str) -> None:
        """Wait for the next question, and type."""
        self.until("Allow it? [y/N/a/?] ")
        self.type(text)

    def interrupt(self) -> None:
        """What the terminal does at Ctrl-C."""
        os.killpg(self._running.pid, signal.SIGINT)

    def end(self) -> int:
        """The exit code, once the command has ended; by then everything is on the screen."""
        while self._read():
            pass
        return self._running.wait(30)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], 60)
        assert ready, f"nothing happens: {self.screen}"
        try:
            chunk = os.read(self._ours, 65536)
        except OSError:  # the other side is closed
            return False
        self._screen += chunk
        return bool(chunk)


@cache
def _zygote() -> Zygote:
    return Zygote()


class Shell:
    """Where commands are typed. `here` holds `shop.py` and `bank.py`, modules with tools."""

    def __init__(self, directory: Path) -> None:
        self.here = directory / "here"
        self.data = directory / "data"
        self.here.mkdir()
        (self.here / "shop.py").write_text(dedent(TOOLS))
        (self.here / "bank.py").write_text(dedent(BANK))
        self.environment = {**os.environ, "CLOISTER_DATA_DIR": str(self.data), "COLUMNS": "80"}
        for name in ("CLOISTER_DEBUG", "FORCE_COLOR", "NO_COLOR"):
            self.environment.pop(name, None)

    def command(self, *words: str) -> list[str]:
        return [str(SCRIPT), *words]

    def __call__(
        self, *words: str, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        env = {**self.environment, **(environment or {})}
        if any(name.startswith("PYTHON") for name in environment or {}):
            # What the interpreter is to be told as it starts needs one that starts.
            command = self.command(*words)
            return subprocess.run(
                command, input=stdin, cwd=self.here, env=env, capture_output=True, text=True, timeout=110
            )
        return _zygote().run([*words], cwd=self.here, env=env, stdin=stdin, timeout=110)

    @contextmanager
    def terminal(
        self, *words: str, stdout: int | None = None, from_scratch: bool = False
    ) -> Generator[Terminal, None, None]:
        """The same, typed at a terminal. `from_scratch`: with an interpreter that starts, as a user's does."""
        ours, theirs = pty.openpty()
        env = {**self.environment, "TERM": "xterm-256color"}
        streams = (theirs, theirs if stdout is None else stdout, theirs)
        running: Work
        if from_scratch:
            running = subprocess.Popen(
                self.command(*words),
                cwd=self.here,
                env=env,
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                start_new_session=True,
            )
        else:
            running = _zygote().begin(words, cwd=self.here, env=env, streams=streams, terminal=True)
        os.close(theirs)
        try:
            yield Terminal(running, ours)
        finally:
            running.kill()
            running.wait()
            os.close(ours)

    @contextmanager
    def at_work(self, *words: str) -> Generator[tuple[Work, TextIO], None, None]:
        """A command that goes on in a pipe, and its standard output. The standard error is a file, `errors`."""
        (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
        with (self.here / "errors").open("wb") as errors, os.fdopen(out_read) as out:
            streams = (in_read, out_write, errors.fileno())
            running = _zygote().begin(words, cwd=self.here, env=self.environment, streams=streams, terminal=False)
            for fd in (in_read, in_write, out_write):
                os.close(fd)
            try:
                yield running, out
            finally:
                running.kill()
                running.wait(30)

    @property
    def paid(self) -> list[str]:
        """The refunds that were really made."""
        file = self.here / "paid"
        return file.read_text().splitlines() if file.exists() else []

    def pipe(self, name: str) -> Path:
        os.mkfifo(self.here / name)
        return self.here / name
