"""The thread that a chat is in, and what begins with a slash there: a table of commands, each with a line of help."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloister.cli.failures import UsageError
from cloister.cli.remote.screen import Screen
from cloister.cli.remote.talk import Talk
from cloister.cli.tables import show
from cloister.cli.terminal import safe
from cloister.core.approval import Approver
from cloister.core.thread import ThreadDetail, ThreadParams
from cloister.core.turn import SteerParams

if TYPE_CHECKING:
    from cloister.client import AsyncClient

# How much of a thread that goes on is shown.
_PAST = 12


class Quit(Exception):
    """Whoever types has had enough."""


class Conversation:
    """One thread at a time, and what the next turn is asked with."""

    def __init__(self, client: "AsyncClient", screen: Screen, asker: Approver | None) -> None:
        self.client = client
        self._screen = screen
        self._asker = asker
        self._talk: Talk | None = None
        self._past: ThreadDetail | None = None
        # Of the next turn; None for that of the thread.
        self.model: str | None = None
        # Whether somebody said that it may be of another provider.
        self.switch = False

    @property
    def talk(self) -> Talk:
        assert self._talk is not None
        return self._talk

    @property
    def is_open(self) -> bool:
        return self._talk is not None

    async def open(self, thread_id: str) -> None:
        detail = await self.client.threads.get(thread_id)
        await self.close()
        self._talk, self._past = Talk(self.client, detail, self._screen, self._asker), detail

    async def new(self, params: ThreadParams) -> None:
        await self.open((await self.client.threads.create(params)).id)

    async def close(self) -> None:
        talk, self._talk = self._talk, None
        if talk is not None:
            await talk.close()

    def show_past(self) -> None:
        """What was said last in a thread that goes on."""
        detail, self._past = self._past, None
        for item in detail.items[-_PAST:] if detail is not None else ():
            self._screen.item(item)

    def about(self) -> str:
        thread = self.talk.thread
        parts = (thread.id, thread.title and f"“{thread.title}”", self.model or thread.model)
        return ", ".join(part for part in parts if part)

    async def steer(self, text: str) -> None:
        current = self.talk.current
        if current is None:
            raise UsageError("no turn goes on that could be steered", "say it as the next one")
        receipt = await self.client.threads.steer(self.talk.thread.id, current, SteerParams(text))
        say(f"  {receipt.receipt.value}")


@dataclass(frozen=True, slots=True)
class Command:
    # What follows its name.
    form: str
    help: str
    do: Callable[[Conversation, str], Awaitable[None]]


async def run_command(conversation: Conversation, line: str) -> None:
    """Raises `UsageError` for what there is not, and `Quit`."""
    name, _, rest = line.removeprefix("/").partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise UsageError(f"there is no /{name}", "/help shows what there is")
    await command.do(conversation, rest.strip())


def say(text: str) -> None:
    print(safe(text), file=sys.stderr)


async def _help(_conversation: Conversation, _rest: str) -> None:
    for name, command in COMMANDS.items():
        say(f"  {f'/{name} {command.form}'.strip():<31}  {command.help}")
    say("  Anything else is a turn, and while one goes on it is said in its middle. Ctrl-C ends a turn.")


async def _quit(_conversation: Conversation, _rest: str) -> None:
    raise Quit


async def _steer(conversation: Conversation, rest: str) -> None:
    if not rest:
        raise UsageError("/steer says something in the middle of a turn", "/steer in euros, please")
    await conversation.steer(rest)


async def _interrupt(conversation: Conversation, _rest: str) -> None:
    current = conversation.talk.current
    if current is None:
        raise UsageError("no turn goes on")
    await conversation.client.threads.interrupt(conversation.talk.thread.id, current)


async def _approve(conversation: Conversation, rest: str) -> None:
    talk = conversation.talk
    talk.put_off.clear()
    if rest:
        words = {"allow": "allow", "always": "allow_always", "deny": "deny"}
        word, _, which = rest.partition(" ")
        if word not in words:
            raise UsageError(f"/approve {word}: say allow, always or deny", "/approve alone asks about each")
        chosen = [one for one in talk.questions if one.endswith(which.strip())]
        if not chosen:
            raise UsageError("nothing waits for approval")
        for approval_id in chosen:
            await talk.decide(approval_id, words[word])
        return
    if not talk.questions:
        say("  nothing waits for approval")
    while (question := talk.asks()) is not None:
        await talk.ask(question)


async def _threads(conversation: Conversation, rest: str) -> None:
    found = await conversation.client.threads.list(limit=20, archived=False, search=rest or None)
    here = conversation.talk.thread.id
    rows = [(one.id, one.title, one.updated_at, "here" if one.id == here else "") for one in found.items]
    show(["thread", "title", "changed", ""], rows, "there are none")


async def _open(conversation: Conversation, rest: str) -> None:
    if not rest:
        raise UsageError("/open needs a thread", "/threads shows them")
    _check_idle(conversation)
    await conversation.open(rest)
    say(f"  {conversation.about()}")
    conversation.show_past()


async def _new(conversation: Conversation, rest: str) -> None:
    _check_idle(conversation)
    thread = conversation.talk.thread
    model = conversation.model or thread.model
    await conversation.new(ThreadParams(title=rest or None, model=model, driver=thread.driver))
    say(f"  {conversation.about()}")


async def _title(conversation: Conversation, rest: str) -> None:
    talk = conversation.talk
    talk.thread = await conversation.client.threads.update(talk.thread.id, {"title": rest or None})


async def _model(conversation: Conversation, rest: str) -> None:
    if rest:
        name, _, more = rest.partition(" ")
        if more not in ("", "--switch"):
            raise UsageError(f"/model {rest}: after the name there is --switch or nothing")
        conversation.model, conversation.switch = name, bool(more)
    say(f"  {conversation.model or conversation.talk.thread.model or 'the model of the server'}")


async def _fork(conversation: Conversation, rest: str) -> None:
    _check_idle(conversation)
    made = await conversation.client.threads.fork(conversation.talk.thread.id, rest or None)
    await conversation.open(made.id)
    say(f"  {conversation.about()}, a fork")


async def _compact(conversation: Conversation, rest: str) -> None:
    await conversation.client.threads.compact(conversation.talk.thread.id, summary=rest or None)


def _check_idle(conversation: Conversation) -> None:
    if conversation.talk.busy:
        raise UsageError("a turn goes on here", "/interrupt ends it; or wait")


COMMANDS: Mapping[str, Command] = {
    "steer": Command("TEXT", "say something in the middle of a turn", _steer),
    "interrupt": Command("", "end the turn", _interrupt),
    "approve": Command("[allow|always|deny]", "answer what waits for approval", _approve),
    "threads": Command("[TEXT]", "the threads, those with a text in their titles", _threads),
    "open": Command("THREAD", "go on with another thread", _open),
    "new": Command("[TITLE]", "begin another thread", _new),
    "title": Command("TEXT", "call this thread something", _title),
    "model": Command("[NAME [--switch]]", "the model, or another one from now on", _model),
    "fork": Command("[TURN]", "go on in a copy, up to a turn", _fork),
    "compact": Command("[SUMMARY]", "have what was said summarised", _compact),
    "help": Command("", "this help", _help),
    "quit": Command("", "leave", _quit),
}
