"""Engines by language, started when the first session needs them."""

import asyncio
from contextlib import AsyncExitStack

from cloister.cells.seats import Seats
from cloister.core.language import Language
from cloister.ports.engine import Engine


def make_engine(language: Language, *, workers: int | None, require_confinement: bool) -> Engine:
    """The engine of a language. Imported here, because an interpreter's libraries take a while to load."""
    match language:
        case Language.PYTHON:
            from cloister.engines.monty import MontyEngine

            return MontyEngine(capacity=workers, require_confinement=require_confinement)
        case Language.TYPESCRIPT:
            from cloister.engines.quickjs import QuickJSEngine

            return QuickJSEngine(capacity=workers, require_confinement=require_confinement)


def engine_version(language: Language) -> str:
    return make_engine(language, workers=1, require_confinement=False).version


class EngineRoom:
    """Owns the engines of one Cloister and the seats on them."""

    def __init__(self, *, workers: int | None, require_confinement: bool) -> None:
        self._workers = workers
        self._require_confinement = require_confinement
        self._seats: dict[Language, Seats] = {}
        self._stack = AsyncExitStack()
        # Two sessions opened at once must not start an engine twice.
        self._starting = asyncio.Lock()

    async def seats(self, language: Language) -> Seats:
        async with self._starting:
            if language not in self._seats:
                engine = make_engine(language, workers=self._workers, require_confinement=self._require_confinement)
                await self._stack.enter_async_context(engine)
                self._seats[language] = Seats(engine)
            return self._seats[language]

    async def close(self) -> None:
        try:
            for seats in self._seats.values():
                await seats.close()
        finally:
            self._seats.clear()
            await self._stack.aclose()
