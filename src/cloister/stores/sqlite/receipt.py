"""What `write` returns: done when the batch is safe. Several may wait for it, and who stops waiting stops only that."""

import asyncio
import logging
from collections.abc import Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Receipt(Generic[T]):
    """Belongs to the event loop's thread, like what it is made of."""

    __slots__ = ("_error", "_is_done", "_loop", "_seen", "_value", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiters: list[asyncio.Future[None]] = []
        self._is_done = False
        self._seen = False
        self._value: Any = None
        self._error: BaseException | None = None

    def settle(self, value: Any, error: BaseException | None) -> None:
        self._value, self._error, self._is_done = value, error, True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def __await__(self) -> Generator[Any, None, T]:
        if not self._is_done:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            yield from waiter
        self._seen = True
        if self._error is not None:
            raise self._error
        return self._value

    def __del__(self) -> None:
        if self._error is not None and not self._seen:
            _log.error("nobody asked what became of a batch that was not written: %s", self._error)
