"""Requests that may be sent twice at once, or soon after one another, and are done once: all get what the first got.

In memory, for a day, for so many keys. What is older, or of another process, is found by the cell that it has begun:
that is where its key is written down.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from cloister.server.problems import Problem

_MOST_KEYS = 10_000
_DAY_SECONDS = 86_400.0
# Larger answers are not kept: then a repetition is refused, and not done again.
_MOST_BYTES = 1 << 20


@dataclass(slots=True)
class _Done:
    digest: str
    began: float
    answer: "asyncio.Future[bytes | None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Repeats:
    def __init__(self) -> None:
        self._done: OrderedDict[tuple[str, ...], _Done] = OrderedDict()

    async def once(self, key: tuple[str, ...], digest: str, work: Callable[[], Awaitable[bytes]]) -> tuple[bytes, bool]:
        """What `work` gives, or what it gave for this key before, and whether it was before. Another request under the
        same key, by its digest, is refused."""
        while True:
            self._forget_old()
            found = self._done.get(key)
            if found is None:
                return await self._first(key, digest, work), False
            if found.digest != digest:
                raise used_otherwise()
            # Shielded: who waits here may go, and the others must not lose it.
            answer = await asyncio.shield(found.answer)
            if answer is not None:
                return answer, True
            if self._done.get(key) is found:
                raise Problem(
                    "IDEMPOTENCY_CONFLICT", "this request was done before, and its answer was too large to keep"
                )

    async def _first(self, key: tuple[str, ...], digest: str, work: Callable[[], Awaitable[bytes]]) -> bytes:
        mine = self._done[key] = _Done(digest, time.monotonic())
        try:
            answer = await work()
        except BaseException:
            # It has not been done: who waits for it does it, and a later one too.
            del self._done[key]
            mine.answer.set_result(None)
            raise
        mine.answer.set_result(answer if len(answer) <= _MOST_BYTES else None)
        return answer

    def _forget_old(self) -> None:
        now = time.monotonic()
        while self._done:
            key, oldest = next(iter(self._done.items()))
            too_many = len(self._done) >= _MOST_KEYS
            if not oldest.answer.done() or not (too_many or now - oldest.began > _DAY_SECONDS):
                return
            del self._done[key]


def used_otherwise() -> Problem:
    return Problem(
        "IDEMPOTENCY_CONFLICT",
        "this Idempotency-Key was used with another body",
        hint="a new request needs a new key",
    )
