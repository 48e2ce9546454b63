"""`cloister repl`: reads, runs, and reads again, until there is no more to read."""

import signal
import sys
from collections.abc import Iterable

from cloister.cli.approve import approver
from cloister.cli.calls import are_shown, listener
from cloister.cli.exits import OK, USAGE
from cloister.cli.failures import UsageError, complain, explain, log_to
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.job import Terms, open_session, read_terms
from cloister.cli.options import (
    DEFAULT_CALLS,
    DEFAULT_KEEP,
    DEFAULT_REPL,
    CallOptions,
    KeepOptions,
    ReplOptions,
)
from cloister.cli.repl.commands import COMMANDS, Quit, run_command
from cloister.cli.repl.reader import Cleared, LineReader, Reader
from cloister.cli.repl.sessions import FIRST, CallBook, Sessions
from cloister.cli.terminal import ProgramOutput
from cloister.core.approval import Approver
from cloister.core.errors import CloisterError
from cloister.core.event import Event
from cloister.core.language import Language

# A value is printed whole, however long.
_ALL_TOKENS = 10**9


def repl(
    *, options: ReplOptions = DEFAULT_REPL, calls: CallOptions = DEFAULT_CALLS, keep: KeepOptions = DEFAULT_KEEP
) -> int:
    """Type into a session."""
    return Repl(read_terms(options, calls), options, calls, keep).run()


class Repl:
    def __init__(self, terms: Terms, options: ReplOptions, calls: CallOptions, keep: KeepOptions) -> None:
        self._terms = terms
        self._keep = keep
        self._language = Language(options.language)
        self._cells = terms.config.cells(
            {"cell_wall_ms": options.timeout_ms, "max_output_tokens": _ALL_TOKENS, "shutdown_ms": 0}
        )
        self._output = ProgramOutput()
        log_to(self._output.log)
        # Questions wait for `:approve`, unless the command has answered all of them.
        self._approver: Approver | None = None
        if calls.approve not in ("ask", "later"):
            self._approver = approver(calls.approve, self._output.held)
        self._book = CallBook()
        self._beside = listener(self._output.aside) if are_shown(calls.show) else None
        self._sessions: Sessions | None = None
        self._reader: Reader | None = None

    def run(self) -> int:
        return run_interruptibly(self._talk(), self._interrupt)

    async def _talk(self) -> int:
        async with self._terms.cloister(self._approver, self._hear, self._cells, self._keep) as cloister:
            first = await open_session(cloister, self._keep.session or FIRST, self._language)
            sessions = self._sessions = Sessions(cloister, first, self._output, self._book)
            # What an earlier repl has left in it.
            await sessions.adopt()
            reader = self._reader = self._open_reader()
            all_well = await self._read_all(sessions, reader)
            # The calls of what has not ended are cancelled now: nobody waits for them any more.
            self._beside = None
            for conversation in sessions.all.values():
                for cell_id in conversation.open:
                    what = "and waits until it is opened again" if self._keep.is_kept else "and goes no further"
                    complain(f"cell {cell_id} of {conversation.session.id} has not ended, {what}")
        # At a terminal a wrong command was seen and mended; a script must hear of it.
        return OK if all_well or not isinstance(reader, LineReader) else USAGE

    async def _read_all(self, sessions: Sessions, reader: Reader) -> bool:
        """Whether all commands could be done."""
        all_well = True
        while True:
            try:
                with self._output.held():
                    text = await reader.read(sessions.current.session.id)
            except Cleared:
                continue
            if text is None:
                return all_well
            is_command = text.lstrip().startswith(":")
            try:
                if is_command:
                    await run_command(sessions, text)
                elif text.strip():
                    await sessions.run(text)
            except Quit:
                return all_well
            except (UsageError, CloisterError) as error:
                explain(error)
                all_well = all_well and not is_command

    def _open_reader(self) -> Reader:
        if sys.stdin is None:
            raise UsageError("standard input is closed", "run it at a terminal, or with lines to read")
        screen = sys.stdout if sys.stdout.isatty() else sys.stderr
        if not (sys.stdin.isatty() and screen.isatty()):
            return LineReader(sys.stdin.fileno(), self._language)
        from cloister.cli.repl.prompt import PromptReader

        print(f"cloister repl, {self._language}. :help shows the commands, Ctrl-D leaves.", file=screen)
        return PromptReader(screen, self._language, self._words)

    def _words(self, before: str) -> Iterable[str]:
        """What could be typed next."""
        assert self._sessions is not None
        current = self._sessions.current
        if before.lstrip().startswith(":"):
            return [f":{name}" for name in COMMANDS] if " " not in before.lstrip() else current.open
        prefix = "tools." if self._language is Language.TYPESCRIPT else ""
        return [prefix + name for name in current.session.tools.names()]

    def _hear(self, event: Event) -> None:
        self._book(event)
        if self._beside is not None:
            self._beside(event)

    def _interrupt(self, signum: int) -> bool:
        if self._sessions is not None and self._sessions.interrupt(signum):
            return True
        return signum == signal.SIGINT and self._reader is not None and self._reader.clear()
