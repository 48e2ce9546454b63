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
    from rich.text import Text

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


def flat(line: str) -> str:
    """On one line: what a program chose to say cannot look like a line of ours."""
    return safe(line).replace("\n", "\\n")


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


def styled(text: "Text") -> str:
    """What a console would write to stderr, with its styles if that is a terminal."""
    screen = console(stderr=True)
    with screen.capture() as captured:
        screen.print(text)
    return captured.get()


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
    """Passes on what a program says, as it comes. Called from worker threads; never raises into them."""

    def __init__(self) -> None:
        # Where the last text did not end its line: "screen" for whatever is a terminal, otherwise the stream.
        self._mid_line: set[str] = set()
        self._coloured = False
        # What waits until the terminal is free again; None while it is free.
        self._held: list[tuple[TextIO, str, _Form]] | None = None
        # Lines of ours that wait until the program has ended its own.
        self._asides: list[str] = []
        # One for each place, taken while something is written there: text is whole, and it is either held back or on
        # the screen before the terminal is somebody else's. A pipe that nobody reads holds up its own writers only.
        self._locks = {place: threading.Lock() for place in ("screen", "stdout", "stderr")}
        # `| head` closes our stdout: the program goes on, nobody reads it.
        self._unread: set[TextIO] = set()

    def __call__(self, kind: Literal["stdout", "stderr", "text"], text: str) -> None:
        if kind == "text":
            self.value(text)
        else:
            self._pass_on(sys.stderr if kind == "stderr" else sys.stdout, text)

    def value(self, text: str) -> None:
        """The program's value, or a text that it shows: on lines of its own."""
        self._pass_on(sys.stdout, text, "lines")

    def log(self, text: str) -> None:
        """Words of our own on stderr, which wait like the program's."""
        self._pass_on(sys.stderr, text)

    def report(self, text: str) -> None:
        """The same, on lines of their own."""
        self._pass_on(sys.stderr, text, "lines")

    def aside(self, line: str) -> None:
        """A line of ours on stderr, beside what the program says: it waits until the program's own line has ended."""
        self._pass_on(sys.stderr, line, "aside")

    def finish(self) -> None:
        """The program says no more: what waited for the end of its line waits no longer."""
        with self._locks[_place(sys.stderr)]:
            if self._asides:
                self._end_line(sys.stderr)

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """Meanwhile the terminal is somebody else's, from a new line on. What the program prints comes afterwards."""
        with self._locks["screen"]:
            self._held = []
            screen = sys.stderr if sys.stderr.isatty() else sys.stdout
            if screen.isatty():
                self._plain(screen)
            if "screen" in self._mid_line:
                self._end_line(screen)
        try:
            yield
        finally:
            with self._locks["screen"]:
                held, self._held = self._held, None
                for target, text, form in held:
                    self._put(target, text, form)

    def _pass_on(self, target: TextIO, text: str, form: "_Form" = "piece") -> None:
        place = _place(target)
        with self._locks[place]:
            if place == "screen" and self._held is not None:
                self._held.append((target, text, form))
            else:
                self._put(target, text, form)

    def _put(self, target: TextIO, text: str, form: "_Form") -> None:
        if form == "piece":
            self._write(target, text)
            return
        mid_line = _place(target) in self._mid_line
        if form == "aside" and mid_line:
            self._asides.append(text)
            return
        if mid_line:
            self._end_line(target)
        if target is sys.stderr:
            self._plain(target)
        self._write(target, text if text.endswith("\n") else text + "\n")

    def _end_line(self, target: TextIO) -> None:
        self._write(target, "\n")

    def _plain(self, target: TextIO) -> None:
        if self._coloured and target.isatty():
            # Or a program could hide the words of others: colours include the invisible one.
            target.write(_PLAIN)
            self._coloured = False

    def _write(self, target: TextIO, text: str) -> None:
        if not text:
            return
        if self._asides and "\n" in text and _place(target) == _place(sys.stderr):
            line, newline, text = text.partition("\n")
            asides, self._asides = self._asides, []
            self._write(target, line + newline)
            self._plain(sys.stderr)
            self._write(sys.stderr, "".join(f"{aside}\n" for aside in asides))
            self._write(target, text)
            return
        ends = self._mid_line.discard if text.endswith("\n") else self._mid_line.add
        ends(_place(target))
        self._coloured = self._coloured or "\x1b" in text
        if target in self._unread:
            return
        try:
            target.write(safe(text, colours=True) if target.isatty() else text)
            target.flush()
        except BrokenPipeError:
            self._unread.add(target)
            silence(target)


# A piece of a line or of several; whole lines; or one line that waits for the end of the program's.
_Form = Literal["piece", "lines", "aside"]


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
