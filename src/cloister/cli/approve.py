"""Who answers when a call needs approval: the word given with `--approve`, or the person at the terminal.

The person is asked on stderr, one question at a time, and the event loop is never blocked: the answer is awaited like
any other input. What was typed before a question was on the screen is no answer to it.
"""

import asyncio
import json
import os
import sys
import termios
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Literal, TextIO, cast

from cloister.cli.terminal import flat, safe
from cloister.core.approval import Answer, Approval, Approver, Decision

Mode = Literal["ask", "allow", "deny", "later"]
Quiet = Callable[[], AbstractContextManager[object]]

NOBODY = "there is no terminal to ask at; `--approve allow` would allow it, `later` would leave the question open"
REFUSED = "the command was given `--approve deny`"

_WORDS = {
    "": Decision.DENY,
    "n": Decision.DENY,
    "no": Decision.DENY,
    "y": Decision.ALLOW,
    "yes": Decision.ALLOW,
    "a": Decision.ALLOW_ALWAYS,
    "always": Decision.ALLOW_ALWAYS,
}
_QUESTION = "Allow it? [y/N/a/?] "
_HELP = """\
  y  allow this call
  n  deny it: the program is told so, and may go on
  a  allow it, and in this run each call of the same tool with the same arguments
  ?  this help, and the arguments in full
"""
# What is shown of the arguments before anybody asks for more.
_WIDTH = 160
_LINES = 12


def approver(mode: Mode, quiet: Quiet) -> Approver:
    """The approver for a mode. `quiet` keeps everybody else off the terminal while a question is on it."""
    if mode == "allow":
        return _always(Answer(Decision.ALLOW))
    if mode == "deny":
        return _always(Answer(Decision.DENY, REFUSED))
    if mode == "later":
        # The question stays open, in the store.
        return _always(None)
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stderr)):
        return _always(Answer(Decision.DENY, NOBODY))
    return Prompt(sys.stdin.fileno(), sys.stderr, quiet).ask


def _always(answer: Answer | None) -> Approver:
    async def answers(_approval: Approval) -> Answer | None:
        return answer

    return answers


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


class Prompt:
    """Asks at a terminal. An end of input (Ctrl-D) is no answer: the question stays open, and so do later ones."""

    def __init__(self, typed: int, screen: TextIO, quiet: Quiet) -> None:
        self._typed = typed
        self._screen = screen
        self._quiet = quiet
        # One question is on the screen at a time: an answer belongs to the one above it.
        self._turn = asyncio.Lock()
        self._left = False
        # What was allowed for good: questions that were raised together with it are not asked again.
        self._allowed: set[tuple[str, str]] = set()

    async def ask(self, approval: Approval) -> Answer | None:
        async with self._turn:
            same = (approval.capability, json.dumps(approval.arguments, sort_keys=True))
            if same in self._allowed:
                return Answer(Decision.ALLOW)
            if self._left:
                return None
            with self._quiet():
                decision = await self._answer(approval)
            if decision is Decision.ALLOW_ALWAYS:
                self._allowed.add(same)
            return Answer(decision) if decision is not None else None

    async def _answer(self, approval: Approval) -> Decision | None:
        with suppress(termios.error):
            termios.tcflush(self._typed, termios.TCIFLUSH)
        self._write(described(approval))
        while True:
            self._write(_QUESTION)
            try:
                line = await self._line()
            except asyncio.CancelledError as gone:
                # Whoever takes the question off may say why: above all that has waited for the terminal.
                self._write(f"\ncloister: {safe(str(gone.args[0]))}\n" if gone.args else "\n")
                raise
            if not line:
                self._left = True
                self._write("\n")
                return None
            word = line.decode(errors="replace").strip().lower()
            if word in _WORDS:
                return _WORDS[word]
            self._write(_HELP + in_full(approval) if word == "?" else "  y, n, a or ?\n")

    async def _line(self) -> bytes:
        """The next line that is typed; empty at the end of input."""
        loop = asyncio.get_running_loop()
        typed = asyncio.Event()
        # Not in a thread: one that waits for a key cannot be stopped.
        loop.add_reader(self._typed, typed.set)
        try:
            await typed.wait()
        finally:
            loop.remove_reader(self._typed)
        try:
            return os.read(self._typed, 4096)
        except OSError:  # the terminal is gone
            return b""

    def _write(self, text: str) -> None:
        with suppress(OSError):
            self._screen.write(text)
            self._screen.flush()


def described(approval: Approval, more: str = "? shows them") -> str:
    """What would be done and why somebody is asked, on a few lines; `more` says how to see what was cut."""
    lines = [f"cloister: `{approval.capability}` needs approval (side effect: {approval.side_effect.value})"]
    arguments = _named(approval.arguments)
    lines += [f"{name}: {_cut(_written(value), more)}" for name, value in arguments[:_LINES]]
    if len(arguments) > _LINES:
        lines.append(f"… and {len(arguments) - _LINES} more arguments ({more})")
    lines.append(f"because {approval.reason}")
    return "\n  ".join(flat(line) for line in lines) + "\n"


def in_full(approval: Approval) -> str:
    """The arguments, all of them."""
    return safe(json.dumps(approval.arguments, indent=2, ensure_ascii=False)) + "\n"


def _named(arguments: Any) -> list[tuple[str, Any]]:
    """By name, or by position from 1."""
    if isinstance(arguments, dict):
        return list(cast("dict[str, Any]", arguments).items())
    return [(str(number), value) for number, value in enumerate(cast("list[Any]", arguments), 1)]


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str, more: str) -> str:
    """Nobody should allow what they cannot see, so it says how much is not shown."""
    if len(text) <= _WIDTH:
        return text
    return f"{text[:_WIDTH]}… and {len(text) - _WIDTH} more characters ({more})"
