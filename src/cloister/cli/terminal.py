"""Writing to the user's terminal what a program chose to say.

A program is not trusted with the terminal: escape sequences can move the cursor, set the clipboard or forge a
prompt. On a terminal only colours pass; everything else becomes visible text. A pipe gets what was written.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from rich.console import Console

# A colour sequence is kept whole; any other control character but newline and tab is shown as \xNN.
_CONTROL = re.compile(r"\x1b\[[0-9;]*m|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


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
        self._at_line_start = True
        # `| head` closes our stdout: the program goes on, nobody reads it.
        self.reader_gone = False

    def __call__(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        if stream == "stderr":
            self._write(sys.stderr, text)
        elif text:
            self._write(sys.stdout, text)
            self._at_line_start = text.endswith("\n")

    def value(self, text: str) -> None:
        """The program's value, on a line of its own."""
        self._write(sys.stdout, ("" if self._at_line_start else "\n") + text + "\n")

    def _write(self, target: TextIO, text: str) -> None:
        if self.reader_gone:
            return
        try:
            target.write(safe(text, colours=True) if target.isatty() else text)
            target.flush()
        except BrokenPipeError:
            self.reader_gone = True
            silence(target)


def silence(stream: TextIO) -> None:
    """Send what is left in a stream's buffer nowhere, so that closing it at exit does not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)
