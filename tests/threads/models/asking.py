"""What tests of models share: a clock that is moved by hand, a question, and ways to ask it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from cloister.core.answer import Answer, Piece, Retrying
from cloister.core.message import user_text
from cloister.core.offer import FunctionTool
from cloister.ports.model import Asked, Model
from cloister.threads.models import ModelRegistry
from tests.threads.models.wire.server import ModelServer

KEY = "sk-live-0123456789abcdef"
EXEC = FunctionTool("exec", "Runs a program.", {"type": "object", "properties": {"code": {"type": "string"}}})
ASKED = Asked((user_text("What is one and one?"),), "Be brief.", (EXEC,))


class HandClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._sleeping: list[tuple[float, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        waking: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleeping.append((self.now + seconds, waking))
        await waking

    async def move(self, seconds: float) -> None:
        """To each moment at which somebody wakes, in order."""
        until = self.now + seconds
        while True:
            # Whoever was cancelled sleeps no more.
            due = sorted(at for at, waking in self._sleeping if not waking.done() and at <= until)
            if not due:
                break
            self.now = max(self.now, due[0])
            for at, waking in self._sleeping:
                if at <= self.now and not waking.done():
                    waking.set_result(None)
            awake = [one for one in self._sleeping if one[1].done()]
            for one in awake:
                self._sleeping.remove(one)
            # Those who woke may go to sleep again before `until`.
            for _ in range(5):
                await asyncio.sleep(0)
        self.now = until


@asynccontextmanager
async def model_at(
    server: ModelServer, wire: str, clock: HandClock | None = None, **more: Any
) -> AsyncGenerator[Model]:
    # A chance of 1 makes the waits as long as they get.
    chance: Callable[[], float] = lambda: 1.0  # noqa: E731
    async with ModelRegistry(
        [server.settings(wire, **more)], environment={"SOME_KEY": KEY}, clock=clock, chance=chance
    ) as models:
        yield models.get("there")


async def pieces_of(model: Model, asked: Asked = ASKED, clock: HandClock | None = None) -> list[Piece]:
    """All of them. A wait before a request is sent again is over at once."""
    found: list[Piece] = []
    async with model.request(asked) as pieces:
        async for piece in pieces:
            found.append(piece)
            if isinstance(piece, Retrying) and clock is not None:
                await clock.move(piece.wait_ms / 1000)
    return found


def answer_in(pieces: list[Piece]) -> Answer:
    assert isinstance(pieces[-1], Answer)
    assert not any(isinstance(piece, Answer) for piece in pieces[:-1])
    return pieces[-1]
