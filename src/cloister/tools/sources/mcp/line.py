"""A line to a server: whether it still holds, why it does not, and how much may come over it that nobody asked for."""

import asyncio
from types import TracebackType
from typing import Any, Protocol, Self

from cloister.ports.clock import Clock

# The longest message. A list of tools and an image in base64 have to fit.
MAX_FRAME_BYTES = 16 << 20
# Messages that answer nothing: so many at once, and so many a second after that. A server that sends more waits.
_BURST = 1000
_A_SECOND = 500


class Line:
    """Shared by the two ends of a connection. The first reason for its end is the one that counts."""

    def __init__(self) -> None:
        self._lost = asyncio.Event()
        self.reason = ""
        # What the server said last when it refused, for messages that would otherwise say nothing.
        self.note = ""

    @property
    def is_lost(self) -> bool:
        return self._lost.is_set()

    def lose(self, reason: str) -> None:
        if not self._lost.is_set():
            self.reason = reason
            self._lost.set()

    async def lost(self) -> None:
        """Until the line is lost."""
        await self._lost.wait()


class Reading(Protocol):
    """What the SDK reads messages from; each has the `message` itself, or is an exception."""

    async def receive(self) -> Any: ...
    async def __anext__(self) -> Any: ...
    async def aclose(self) -> None: ...


class Writing(Protocol):
    """What the SDK writes messages to."""

    async def send(self, item: Any, /) -> None: ...
    async def aclose(self) -> None: ...


class Metered:
    """Hands messages on from a stream, and lets one wait that nobody asked for when there were too many of them.

    Nothing is read ahead, so the server waits with it: its messages pile up on its own side.
    """

    def __init__(self, inner: Reading, asked: "Asked", clock: Clock) -> None:
        self._inner = inner
        self._asked = asked
        self._clock = clock
        self._left = float(_BURST)
        self._at = clock.monotonic()

    @property
    def last_context(self) -> Any:
        """The context variables of the sender, which the SDK looks for."""
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        item = await self._inner.__anext__()
        await self._pay(item)
        return item

    async def receive(self) -> Any:
        item = await self._inner.receive()
        await self._pay(item)
        return item

    async def _pay(self, item: Any) -> None:
        # What is there already is read without waiting: others must have their turn all the same.
        await asyncio.sleep(0)
        message = getattr(item, "message", None)
        if message is not None and not hasattr(message, "method") and self._asked.answered():
            return
        now = self._clock.monotonic()
        self._left = min(float(_BURST), self._left + (now - self._at) * _A_SECOND)
        self._at = now
        self._left -= 1
        if self._left < 0:
            await self._clock.sleep(-self._left / _A_SECOND)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class Asked:
    """Counts the requests that go out over a stream, and the answers that came back."""

    def __init__(self, inner: Writing) -> None:
        self._inner = inner
        self._open = 0

    def answered(self) -> bool:
        """Whether an answer was still owed."""
        if self._open == 0:
            return False
        self._open -= 1
        return True

    async def send(self, item: Any, /) -> None:
        if hasattr(item.message, "method") and hasattr(item.message, "id"):
            self._open += 1
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()
