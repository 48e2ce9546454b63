"""Writing to the user's terminal what a program chose to say.

A program is not trusted with the terminal: escape sequences can move the cursor, set the clipboard or forge a
prompt. On a terminal only colours pass; everything else becomes visible text. A pipe gets what was written.
"""

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from rich.console import Console

# A colour sequence is kept whole; any other control character but newline and tab is shown as \xNN.
_CONTROL = re.compile(r"\x1b\[[0-9;]*m|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_PLAIN = "\x1b[0m"


def safe(text: str, *, colours: bool = False) -> str:
    """`text` with its control characters made visible."""

    def show(found: re.Match[str]) -> str:
        sequence = found.group()
        if len(sequence) > 1:
            return sequence if colours else ascii(sequence)[1:-1]
        return ascii(sequence)[1:-1]

    return _CONTROL.sub(show, text)


def forgiving_streams() -> None:
    """A character that the terminal's encoding lacks is written as an escape; it never ends the command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def console(*, stderr: bool = False) -> "Console":
    """A console for our own words: no markup, no guessing of what to highlight."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


@contextmanager
def one_json_object() -> Generator[Callable[[object], None], None, None]:
    """The only way to stdout for `--json`: what a tool or an imported module prints meanwhile goes to stderr."""
    stdout = sys.stdout

    def write(value: object) -> None:
        stdout.write(json.dumps(value) + "\n")
        stdout.flush()

    with redirect_stdout(sys.stderr):
        yield write


class ProgramOutput:
    """Passes on what a program prints, as it comes. Called from worker threads; never raises into them."""

    def __init__(self) -> None:
        # Where the last text did not end its line: "screen" for whatever is a terminal, otherwise the stream.
        self._mid_line: set[str] = set()
        self._coloured = False
        # What waits until the terminal is free again; None while it is free.
        self._held: list[tuple[TextIO, str]] | None = None
        # Text is either held back or on the screen before the terminal is somebody else's. Only terminals are under
        # it: a pipe that nobody reads keeps its writer for as long as it likes.
        self._lock = threading.Lock()
        # `| head` closes our stdout: the program goes on, nobody reads it.
        self._unread: set[TextIO] = set()

    def __call__(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        self._pass_on(sys.stderr if stream == "stderr" else sys.stdout, text)

    def value(self, text: str) -> None:
        """The program's value, on a line of its own."""
        self._pass_on(sys.stdout, ("\n" if _place(sys.stdout) in self._mid_line else "") + text + "\n")

    def log(self, text: str) -> None:
        """Words of our own on stderr, which wait like the program's."""
        self._pass_on(sys.stderr, text)

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """Meanwhile the terminal is somebody else's, from a new line on. What the program prints comes afterwards."""
        with self._lock:
            self._held = []
            if self._coloured:
                # Or a program could hide the words of others: colours include the invisible one.
                sys.stderr.write(_PLAIN)
            if "screen" in self._mid_line:
                self._write(sys.stderr, "\n")
        try:
            yield
        finally:
            with self._lock:
                held, self._held = self._held, None
                for target, text in held:
                    self._write(target, text)

    def _pass_on(self, target: TextIO, text: str) -> None:
        if not target.isatty():
            self._write(target, text)
            return
        with self._lock:
            if self._held is None:
                self._write(target, text)
            else:
                self._held.append((target, text))

    def _write(self, target: TextIO, text: str) -> None:
        if target in self._unread or not text:
            return
        ends = self._mid_line.discard if text.endswith("\n") else self._mid_line.add
        ends(_place(target))
        self._coloured = self._coloured or "\x1b" in text
        try:
            target.write(safe(text, colours=True) if target.isatty() else text)
            target.flush()
        except BrokenPipeError:
            self._unread.add(target)
            silence(target)


def _place(target: TextIO) -> str:
    if target.isatty():
        return "screen"
    return "stderr" if target is sys.stderr else "stdout"


def silence(stream: TextIO) -> None:
    """Send what is left in a stream's buffer nowhere, so that closing it at exit does not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)
