"""A connection that asks its socket before it asks the event loop.

In a pipeline the driver waits twice for every statement until it may write, which it nearly always may: each of these
waits is a round of the event loop, and a commit of a dozen statements came to some thirty, between which everything
else on the loop had its turn. Here only a socket that is really not ready is waited for.
"""

import select
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from psycopg import AsyncConnection
from psycopg.waiting import Ready, Wait

T = TypeVar("T")


class EagerConnection(AsyncConnection[tuple[Any, ...]]):
    async def wait(self, gen: Generator[Any, Any, T], *patience: Any, **more: Any) -> T:
        return await super().wait(_answered(gen, _look(self.pgconn.socket)), *patience, **more)


def _answered(gen: Generator[Any, Any, T], look: Callable[[], int]) -> Generator[Any, Any, T]:
    """`gen`, with those of its waits answered that are over already."""
    ready: Any = None
    while True:
        try:
            wanted = gen.send(ready)
        except StopIteration as end:
            return end.value
        ready = look() if wanted == Wait.RW else 0
        if not ready:
            ready = yield wanted


def _look(socket: int) -> Callable[[], int]:
    """What the socket is ready for now. Nothing, where that cannot be asked: then the event loop is."""
    if not hasattr(select, "poll"):
        return lambda: 0
    poll = select.poll()
    poll.register(socket, select.POLLIN | select.POLLOUT)

    def look() -> int:
        # An error of the socket shows when it is read.
        happened = sum(event for _, event in poll.poll(0))
        readable = Ready.R if happened & ~select.POLLOUT else 0
        return readable | (Ready.W if happened & select.POLLOUT else 0)

    return look
