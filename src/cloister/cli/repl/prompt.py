"""Where cells come from when somebody types: a line editor with history, completion and more than one line."""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application.current import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.utils import is_dumb_terminal

from cloister.app.keys import data_directory
from cloister.cli.failures import complain
from cloister.cli.repl.input import INDENT, indentation, is_complete
from cloister.cli.repl.reader import Cleared
from cloister.core.language import Language

_WORD = re.compile(r"[:\w.$!-]+\Z")
# What could follow: all words that fit the text before the cursor.
Words = Callable[[str], Iterable[str]]


class PromptReader:
    def __init__(self, screen: TextIO, language: Language, words: Words) -> None:
        self._prompt: PromptSession[str] = PromptSession(
            multiline=True,
            history=history("repl_history"),
            completer=_Words(words),
            # Like a shell: no menu to draw, and so nothing to ask the terminal about.
            complete_style=CompleteStyle.READLINE_LIKE,
            complete_while_typing=False,
            reserve_space_for_menu=0,
            key_bindings=_keys(language),
            prompt_continuation=lambda width, _line, _wraps: "... ".rjust(width),
            enable_suspend=True,
            interrupt_exception=Cleared,
            output=output_on(screen),
        )

    async def read(self, session_id: str) -> str | None:
        try:
            # Signals are the command's own, at the prompt as elsewhere.
            return await self._prompt.prompt_async(f"{session_id}> ", handle_sigint=False)
        except EOFError:
            return None

    def clear(self) -> bool:
        app = self._prompt.app
        if app.future is None or app.future.done():
            return False
        app.exit(exception=Cleared(), style="class:aborting")
        return True


def output_on(screen: TextIO) -> Vt100_Output | None:
    # None: for a terminal that can do nothing there is a prompt that asks nothing of it.
    output = None if is_dumb_terminal() else create_output(screen)
    if not isinstance(output, Vt100_Output):
        return None
    # The answer to "where is the cursor" may come when nobody reads it, and then the shell gets it as if typed.
    output.enable_cpr = False
    return output


# -- keys ------------------------------------------------------------------------------------------------------


def _keys(language: Language) -> KeyBindings:
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)

    @Condition
    def in_margin() -> bool:
        before = get_app().current_buffer.document.current_line_before_cursor
        return bool(before) and not before.strip()

    @keys.add("enter", filter=typing)
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text, rest = buffer.text, buffer.document.text_after_cursor
        if ("\n" not in text or not rest.strip()) and is_complete(text, language):
            buffer.document = Document(text.rstrip())
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n" + indentation(buffer.document.text_before_cursor, language))

    @keys.add("backspace", filter=typing & in_margin)
    def dedent(event: KeyPressEvent) -> None:
        column = event.current_buffer.document.cursor_position_col
        event.current_buffer.delete_before_cursor((column - 1) % len(INDENT) + 1)

    @keys.add("tab", filter=typing & in_margin)
    def indent(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(INDENT)

    return keys


class _Words(Completer):
    def __init__(self, words: Words) -> None:
        self._words = words

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        found = _WORD.search(before)
        word = found.group() if found else ""
        for one in self._words(before):
            if one.startswith(word):
                yield Completion(one, start_position=-len(word))


# -- history ---------------------------------------------------------------------------------------------------


def history(name: str) -> History:
    """What was typed before, in a file of that name."""
    path = data_directory() / name
    try:
        _make_private(path)
    except OSError as error:
        complain(f"what is typed here cannot be kept at {path}: {error.strerror}")
        return InMemoryHistory()
    return FileHistory(str(path))


def _make_private(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.fchmod(fd, 0o600)
    finally:
        os.close(fd)
