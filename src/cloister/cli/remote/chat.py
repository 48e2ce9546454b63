"""`cloister chat`: a conversation at the terminal with a model that a server asks.

A line is a turn. While one goes on its words, programs and calls are shown as they come, its questions are put to
whoever sits here, and what is typed is said in its middle. From a pipe each line is a turn, one after the other.
"""

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

from cyclopts import Parameter

from cloister.cli.approve import Mode
from cloister.cli.calls import are_shown
from cloister.cli.exits import DENIED, EXIT_OF_TURN, OK, USAGE
from cloister.cli.failures import UsageError, complain, explain, log_to
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.remote.commands import COMMANDS, Conversation, Quit, run_command
from cloister.cli.remote.lines import Lines
from cloister.cli.remote.screen import Screen
from cloister.cli.remote.talk import NobodyAnswers
from cloister.cli.remote.threads import Model, asker_of, nobody, thread_params
from cloister.cli.remote.where import HERE, Server, ways_on
from cloister.cli.repl.reader import Cleared
from cloister.cli.terminal import ProgramOutput, safe
from cloister.core.errors import CloisterError
from cloister.core.turn import TurnParams

if TYPE_CHECKING:
    from cloister.cli.remote.prompt import Prompt
    from cloister.client import AsyncClient

ThreadOrNone = Annotated[str | None, Parameter(help="The thread to go on with.  [default: the newest, or a new one]")]


def chat(
    thread: ThreadOrNone = None,
    /,
    *,
    new: Annotated[bool, Parameter(negative="", show_default=False, help="Begin a new thread.")] = False,
    title: Annotated[str | None, Parameter(help="What a new thread is called.")] = None,
    model: Model = None,
    language: Annotated[
        Literal["python", "typescript"] | None,
        Parameter(name=["--language", "-l"], help="Of the programs of a new thread.", show_default=False),
    ] = None,
    driver: Annotated[
        Literal["code", "native"], Parameter(help="In a new thread the model writes programs, or makes plain calls.")
    ] = "code",
    approve: Annotated[Mode, Parameter(help="What becomes of calls that need approval.")] = "ask",
    calls: Annotated[
        bool | None,
        Parameter(name="--calls", negative="--no-calls", show_default=False, help="Show programs and calls on stderr."),
    ] = None,
    reasoning: Annotated[bool, Parameter(negative="", show_default=False, help="Show what models think.")] = False,
    server: Server = HERE,
) -> int:
    """Talk to a model."""
    if thread is not None and (new or title or language):
        raise UsageError(f"{thread} is there already, and --new, --title and --language are for a new one")
    if sys.stdin is None:
        raise UsageError("standard input is closed", "run it at a terminal, or with lines to read")
    output = ProgramOutput()
    log_to(output.log)
    screen = Screen(output, work=are_shown(calls), reasoning=reasoning)
    return Chat(server, output, screen, approve).run(
        thread, new or bool(title or language), model, (title, language, driver)
    )


class Chat:
    def __init__(self, server: Server, output: ProgramOutput, screen: Screen, approve: Mode) -> None:
        self._server = server
        self._output = output
        self._screen = screen
        self._approve: Mode = approve
        self._lines = Lines(sys.stdin.fileno())
        self._prompt: Prompt | None = None
        self._with: Conversation | None = None
        # The turn that Ctrl-C has ended: another one leaves.
        self._interrupted: str | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        # How the last turn ended.
        self._code = OK

    def run(self, thread: str | None, new: bool, model: str | None, terms: tuple[str | None, str | None, str]) -> int:
        try:
            with ways_on():
                return run_interruptibly(self._talk(thread, new, model, terms), self._interrupt)
        finally:
            self._output.finish()

    async def _talk(
        self, thread: str | None, new: bool, model: str | None, terms: tuple[str | None, str | None, str]
    ) -> int:
        async with self._server.client() as client:
            conversation = Conversation(client, self._screen, asker_of(self._approve, self._output))
            self._with = conversation
            conversation.model = model
            try:
                await self._begin(client, conversation, thread, new, model, terms)
                return await (self._typed(conversation) if self._is_terminal() else self._piped(conversation))
            finally:
                for task in self._tasks:
                    task.cancel()
                await conversation.close()

    async def _begin(
        self,
        client: "AsyncClient",
        conversation: Conversation,
        thread: str | None,
        new: bool,
        model: str | None,
        terms: tuple[str | None, str | None, str],
    ) -> None:
        title, language, driver = terms
        if thread is None and not new and self._is_terminal():
            found = await client.threads.list(limit=1, archived=False)
            thread = found.items[0].id if found.items else None
        if thread is not None:
            await conversation.open(thread)
        else:
            await conversation.new(thread_params(title, model, language, driver))

    def _is_terminal(self) -> bool:
        return sys.stdin.isatty() and self._screen_file().isatty()

    def _screen_file(self) -> TextIO:
        return sys.stdout if sys.stdout.isatty() else sys.stderr

    # -- typed ------------------------------------------------------------------------------------------------------

    async def _typed(self, conversation: Conversation) -> int:
        from cloister.cli.remote.prompt import Prompt

        screen = self._screen_file()
        print(f"cloister chat, {safe(conversation.about())}. /help shows the commands, Ctrl-D leaves.", file=screen)
        conversation.show_past()
        self._prompt = Prompt(screen, lambda: [f"/{name}" for name in COMMANDS])
        while True:
            try:
                await self._while_busy(conversation)
                text = await self._ask_for_words(conversation, self._prompt)
                if text is None:
                    return OK
                if text.strip():
                    await self._do(conversation, text)
            except Cleared:
                continue
            except Quit:
                return OK
            except (UsageError, CloisterError) as error:
                conversation.talk.check()
                explain(error)

    async def _ask_for_words(self, conversation: Conversation, prompt: "Prompt") -> str | None:
        """What is typed. A turn that begins by itself, and a question, come first: they raise `Cleared`."""
        talk = conversation.talk
        with self._output.held():
            reading = asyncio.ensure_future(prompt.read())
            try:
                await talk.until(lambda: bool(talk.busy), reading)
            finally:
                if not reading.done():
                    reading.cancel()
                    await asyncio.wait([reading])
        if reading.cancelled():
            if (question := talk.asks()) is not None:
                await talk.ask(question)
            raise Cleared
        return reading.result()

    async def _while_busy(self, conversation: Conversation) -> None:
        """Until no turn goes on; what is typed meanwhile is said in its middle."""
        talk = conversation.talk
        listens = True
        while talk.busy:
            line = asyncio.ensure_future(self._lines.next()) if listens else None
            try:
                await talk.until(lambda: not talk.busy, line)
            finally:
                if line is not None and not line.done():
                    line.cancel()
                    await asyncio.wait([line])
            if line is None or line.cancelled():
                if talk.busy and (question := talk.asks()) is not None:
                    await talk.ask(question)
                continue
            text = line.result()
            if text is None:
                # Ctrl-D in the middle of a turn leaves the turn alone.
                listens = False
            elif text.strip():
                await self._in_the_middle(conversation, text.strip())

    async def _in_the_middle(self, conversation: Conversation, text: str) -> None:
        try:
            if text.startswith("/"):
                await run_command(conversation, text)
            else:
                await conversation.steer(text)
        except Quit:
            self._leave_turn(conversation)
            raise
        except (UsageError, CloisterError) as error:
            explain(error)

    async def _do(self, conversation: Conversation, text: str) -> None:
        if text.startswith("/"):
            await run_command(conversation, text)
        else:
            await conversation.talk.say(TurnParams(text, model=conversation.model, switch_provider=conversation.switch))

    # -- from a pipe --------------------------------------------------------------------------------------------------

    async def _piped(self, conversation: Conversation) -> int:
        all_well = True
        while (text := await self._lines.next()) is not None:
            text = text.strip()
            if not text:
                continue
            try:
                if text.startswith("/"):
                    await run_command(conversation, text)
                    continue
                talk = conversation.talk
                turn = await talk.say(TurnParams(text, model=conversation.model, switch_provider=conversation.switch))
                await talk.until(lambda talk=talk, turn=turn: turn.id in talk.ended)
                self._code = EXIT_OF_TURN[talk.ended[turn.id].status]
            except Quit:
                break
            except NobodyAnswers as question:
                nobody(question.approval)
                return DENIED
            except UsageError as error:
                explain(error)
                all_well = False
        return self._code if all_well else USAGE

    # -- signals ------------------------------------------------------------------------------------------------------

    def _interrupt(self, signum: int) -> bool:
        """The first Ctrl-C ends the turn; the second, and every other signal, ends us."""
        conversation = self._with
        if signum != signal.SIGINT or conversation is None or not conversation.is_open:
            return False
        current = conversation.talk.current
        if current is None:
            return self._prompt is not None and self._prompt.clear()
        if self._interrupted == current:
            self._leave_turn(conversation)
            return False
        self._interrupted = current
        complain("ending the turn; another Ctrl-C leaves it to the server")
        task: asyncio.Task[object] = asyncio.get_running_loop().create_task(self._end(conversation, current))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _end(self, conversation: Conversation, turn_id: str) -> None:
        try:
            await conversation.client.threads.interrupt(conversation.talk.thread.id, turn_id)
        except CloisterError as error:
            explain(error)

    def _leave_turn(self, conversation: Conversation) -> None:
        if conversation.talk.busy:
            complain(
                "the turn goes on at the server", f"cloister chat {conversation.talk.thread.id} takes part in it again"
            )
