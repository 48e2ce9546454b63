"""What the tests of drivers share: hosts with scripted models, and threads on them that talk."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloister import Cloister
from cloister.core.content import text_of
from cloister.core.envelope import Envelope
from cloister.core.item import CellRun, Item
from cloister.core.item import ToolCall as ToolItem
from cloister.core.message import Message, ToolResult
from cloister.core.thread import Thread, ThreadParams
from cloister.core.turn import Turn, TurnParams
from cloister.ports.model import Asked, Model, ModelCapabilities, Piece
from cloister.threads import Threads
from cloister.threads.models import ModelRegistry
from cloister.threads.models.scripted import ScriptedModel, parse_script
from tests.threads.lab import PATIENCE_S, ends, follow, projected


@dataclass
class Heard:
    """A scripted model that remembers what it was asked."""

    model: Model
    asked: list[Asked] = field(default_factory=list[Asked])
    # Answers that were given whole.
    answered: int = 0

    @property
    def provider(self) -> str:
        return self.model.provider

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def capabilities(self) -> ModelCapabilities:
        return self.model.capabilities

    def request(self, asked: Asked) -> AbstractAsyncContextManager[AsyncIterator[Piece]]:
        self.asked.append(asked)
        return self._request(asked)

    @asynccontextmanager
    async def _request(self, asked: Asked) -> AsyncGenerator[AsyncIterator[Piece]]:
        async with self.model.request(asked) as pieces:
            yield pieces
        self.answered += 1

    def told(self, place: int = -1) -> str:
        """The words of everything in one request that no model has said."""
        return "\n".join(map(_words, self.asked[place].messages))


def _words(message: Message) -> str:
    content = getattr(message, "content", ())
    return "\n".join([getattr(message, "text", ""), *(getattr(part, "text", "[image]") for part in content)])


def scripted(text: str, *, capabilities: Mapping[str, bool] | None = None) -> Heard:
    if capabilities is not None:
        flags = ", ".join(f"{name}: {str(on).lower()}" for name, on in capabilities.items())
        text = f"capabilities: {{{flags}}}\n{text}"
    return Heard(ScriptedModel(parse_script(text), name="demo"))


FUNCTIONS = {"freeform_tools": False}
FENCED = {"tools": False, "freeform_tools": False}


def host(path: Path, model: Heard | None = None, *, default: str | None = "demo", **options: Any) -> Cloister:
    given: dict[str, Any] = options.pop("given", {"demo": model})
    return Cloister(
        store=f"sqlite://{path}?synchronous=normal", models=ModelRegistry(given=given), model=default, **options
    )


async def begin(threads: Threads, said: str = "go", *, thread: Thread | None = None, **more: Any) -> Turn:
    """A turn on a thread, new unless one is given."""
    params = {name: more.pop(name) for name in ("driver", "language", "wake", "dynamic_tools") if name in more}
    thread = thread or await threads.create(ThreadParams(**params))
    _, turn = await threads.turn(thread.id, TurnParams(said, **more))
    return turn


async def ended(threads: Threads, turn: Turn) -> tuple[Turn, list[Item]]:
    """How it ended, with its items; what a client makes of the events is the same."""
    await follow(threads, turn.thread_id, ends(turn.id))
    await projected(threads, turn.thread_id)
    detail = await threads.get(turn.thread_id)
    now = next(one for one in detail.turns if one.id == turn.id)
    return now, [one for one in detail.items if one.turn_id == turn.id]


async def talk(threads: Threads, said: str = "go", **more: Any) -> tuple[Turn, list[Item]]:
    return await ended(threads, await begin(threads, said, **more))


async def first(threads: Threads, thread_id: str, event: str) -> Envelope:
    return (await follow(threads, thread_id, lambda one: one.event == event))[-1]


def results(asked: Asked) -> list[ToolResult]:
    return [message for message in asked.messages if isinstance(message, ToolResult)]


def said_of(item: Item) -> str:
    """What the model was told of a cell or a call."""
    assert isinstance(item.detail, (CellRun, ToolItem))
    return text_of(item.detail.content)


def work(items: Sequence[Item]) -> list[Item]:
    return [item for item in items if isinstance(item.detail, (CellRun, ToolItem))]


async def patient(awaitable: Any) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        return await awaitable
