"""Where words come from when somebody types them and no turn goes on: a line with history and completion."""

from collections.abc import Callable, Iterable
from typing import TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.shortcuts import CompleteStyle

from cloister.cli.repl.prompt import history, output_on
from cloister.cli.repl.reader import Cleared

# What stands before what is typed.
MARK = "you> "


class Prompt:
    """A read that is cancelled keeps what was typed for the next one."""

    def __init__(self, screen: TextIO, words: Callable[[], Iterable[str]]) -> None:
        self._kept = ""
        self._prompt: PromptSession[str] = PromptSession(
            history=history("chat_history"),
            completer=_Commands(words),
            complete_style=CompleteStyle.READLINE_LIKE,
            complete_while_typing=False,
            reserve_space_for_menu=0,
            enable_suspend=True,
            interrupt_exception=Cleared,
            output=output_on(screen),
        )

    async def read(self) -> str | None:
        """A line, None at the end (Ctrl-D). Raises `Cleared`."""
        kept, self._kept = self._kept, ""
        try:
            # Signals are the command's own, at the prompt as elsewhere.
            return await self._prompt.prompt_async(MARK, default=kept, handle_sigint=False)
        except EOFError:
            return None
        except BaseException as gone:
            if not isinstance(gone, Cleared):
                self._kept = self._prompt.default_buffer.text
            raise

    def clear(self) -> bool:
        """Give up what is being typed; False if nothing is."""
        app = self._prompt.app
        if app.future is None or app.future.done():
            return False
        app.exit(exception=Cleared(), style="class:aborting")
        return True


class _Commands(Completer):
    def __init__(self, words: Callable[[], Iterable[str]]) -> None:
        self._words = words

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.startswith("/") and " " not in before:
            for word in self._words():
                if word.startswith(before):
                    yield Completion(word, start_position=-len(before))
