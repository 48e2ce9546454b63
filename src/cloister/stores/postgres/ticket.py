"""What a caller holds of a write under way. Giving up waiting does not give up the write."""

import asyncio
import logging
from collections.abc import Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Ticket(Generic[T]):
    """Can be awaited by many, and cancelled by none of them. An error that nobody came for is logged."""

    __slots__ = ("_future", "_told", "_waiting")

    def __init__(self) -> None:
        self._future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._told = False
        self._waiting: list[asyncio.Future[None]] = []

    def __await__(self) -> Generator[Any, None, T]:
        try:
            if not self._future.done():
                # A future of the waiter's own, so that whoever is cancelled takes it from nobody else.
                mine = self._future.get_loop().create_future()
                self._waiting.append(mine)
                yield from mine
            return self._future.result()
        finally:
            # Whoever was cancelled before the end was not told it.
            self._told = self._told or self._future.done()

    def settle(self, result: T) -> None:
        if not self._future.done():
            self._future.set_result(result)
            self._tell()

    def fail(self, error: Exception) -> None:
        if not self._future.done():
            # Its traceback leads to the writer's frames, and through them back to us: a ring that only gc would open.
            self._future.set_exception(error.with_traceback(None))
            # Ours is the one log line: asyncio would add its own.
            self._future.exception()
            self._tell()

    def _tell(self) -> None:
        for one in self._waiting:
            if not one.done():
                one.set_result(None)
        self._waiting.clear()

    def __del__(self) -> None:
        if not self._told and self._future.done() and (error := self._future.exception()) is not None:
            _log.warning("a write failed and nobody asked: %s", error)
