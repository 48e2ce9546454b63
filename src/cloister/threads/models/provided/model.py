"""One model of a provider, behind the port.

A request runs in a task of its own, which the block around it owns: it opens the connection, gathers the pieces, waits
and tries again, and is cancelled with its connection when the block is left. It is sent again only while nothing of an
answer has been handed out. Nobody else retries or times out: the SDKs and the HTTP client are told not to.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from cloister.core.answer import Answer, Piece, Retrying
from cloister.core.errors import CloisterError, ModelTimeout, ProviderUnavailable
from cloister.ports.clock import Clock
from cloister.ports.model import Asked, ModelCapabilities
from cloister.threads.models.asking import check_asked
from cloister.threads.models.keys import find_headers, find_key
from cloister.threads.models.provided.patience import Failure, given_up, wait_ms
from cloister.threads.models.provided.watch import Watch, ended
from cloister.threads.models.settings import ModelSettings

if TYPE_CHECKING:
    from cloister.threads.models.provided.exchange import Exchange

# Pieces that may wait for a slow listener; then the provider has to.
_AHEAD = 32
# For a connection to be closed, when the block is left.
_CLOSING_SECONDS = 5.0


class ProvidedModel:
    """Made by a `ModelRegistry`, which closes it."""

    def __init__(
        self, settings: ModelSettings, environment: Mapping[str, str], clock: Clock, chance: Callable[[], float]
    ) -> None:
        self.settings = settings
        self._environment = environment
        self._clock = clock
        self._chance = chance
        self._exchange: Exchange | None = None
        self._opening = asyncio.Lock()

    @property
    def provider(self) -> str:
        return self.settings.identity

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def capabilities(self) -> ModelCapabilities:
        settings = self.settings
        images = settings.images
        return ModelCapabilities(
            tools=settings.tools,
            freeform_tools=settings.freeform_tools,
            images=images,
            images_in_results=images,
            streaming=settings.stream,
        )

    @asynccontextmanager
    async def request(self, asked: Asked) -> AsyncGenerator[AsyncIterator[Piece]]:
        check_asked(asked, self.capabilities, self.name)
        pieces: asyncio.Queue[Piece | CloisterError] = asyncio.Queue(_AHEAD)
        task = asyncio.create_task(self._carry_out(asked, pieces))
        listening = _heard(pieces, task)
        try:
            yield listening
        finally:
            await listening.aclose()
            await ended(task, _CLOSING_SECONDS)

    async def close(self) -> None:
        if self._exchange is not None:
            exchange, self._exchange = self._exchange, None
            await exchange.close()

    # -- inside ----------------------------------------------------------------------------------------------

    async def _carry_out(self, asked: Asked, pieces: "asyncio.Queue[Piece | CloisterError]") -> None:
        """Puts pieces and at last an answer or an error."""
        reason: list[str] = []

        def expire(said: str) -> None:
            reason.append(said)
            attempt.cancel()

        settings = self.settings
        watch = Watch(self._clock, settings.timeout_ms, settings.idle_timeout_ms, expire)
        attempt = asyncio.create_task(self._attempts(asked, pieces, watch))
        watching = asyncio.create_task(watch.run())
        try:
            await asyncio.wait([attempt])
        finally:
            watching.cancel()
            await ended(attempt, _CLOSING_SECONDS)
        if attempt.cancelled() and reason:
            message = f"{self.name}: {reason[0]}"
            await pieces.put(ModelTimeout(message, provider=self.provider, model=self.name))
        elif not attempt.cancelled() and (error := attempt.exception()) is not None:
            raise error

    async def _attempts(self, asked: Asked, pieces: "asyncio.Queue[Piece | CloisterError]", watch: Watch) -> None:
        seen = False
        attempt = 0
        while True:
            attempt += 1
            failure: Failure | None = None
            try:
                exchange = await self._open()
                key, headers = find_key(self.settings, self._environment), find_headers(self.settings)
            except CloisterError as error:
                return await pieces.put(error)
            watch.heard()
            async with aclosing(exchange.carry_out(asked, key, headers, attempt, watch.heard)) as coming:
                async for piece in coming:
                    if isinstance(piece, Failure):
                        failure = piece
                        break
                    watch.rest()
                    await pieces.put(piece)
                    watch.heard()
                    seen = True
            watch.rest()
            if failure is None:
                return None
            wait = None
            if failure.is_passing and not seen and attempt <= self.settings.max_retries:
                wait = wait_ms(failure, attempt, self.settings.max_retry_wait_ms, self._chance)
            if wait is None:
                return await pieces.put(given_up(failure.error, attempt))
            await pieces.put(Retrying(attempt, failure.error.code, failure.error.message, wait))
            await self._clock.sleep(wait / 1000)

    async def _open(self) -> "Exchange":
        # So that two first requests share one client.
        async with self._opening:
            if self._exchange is None:
                # Importing an SDK takes a second or two: not on the event loop.
                self._exchange = await asyncio.to_thread(_load, self.settings)
            return self._exchange


async def _heard(pieces: "asyncio.Queue[Piece | CloisterError]", task: "asyncio.Task[None]") -> AsyncGenerator[Piece]:
    while True:
        taking = asyncio.ensure_future(pieces.get())
        try:
            await asyncio.wait([taking, task], return_when=asyncio.FIRST_COMPLETED)
            if not taking.done() and pieces.empty():
                # It ended without a word, which is a fault of ours: it is shown.
                task.result()
                raise RuntimeError("a request ended without an answer")
            piece = await taking
        finally:
            taking.cancel()
        if isinstance(piece, CloisterError):
            raise piece
        yield piece
        if isinstance(piece, Answer):
            return


def _load(settings: ModelSettings) -> "Exchange":
    """Raises `ProviderUnavailable` where a package is missing."""
    try:
        client = import_module(f"cloister.threads.models.provided.{settings.provider}")
        from cloister.threads.models.provided.exchange import Exchange
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("pydantic_ai", "openai", "anthropic", "httpx2", ""):
            raise
        raise ProviderUnavailable(
            f"the model {settings.name!r} needs the package {missing or 'pydantic_ai'!r}, which is not installed",
            hint="pip install 'cloister[models]'",
        ) from None
    return Exchange(settings, client.make_model)
