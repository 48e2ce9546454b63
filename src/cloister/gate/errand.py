"""An errand: a piece of the host's code that somebody waits for, but not longer than agreed.

It runs in a task of its own. When its time is over, or whoever waits is cancelled, it is asked to stop; one that
does not is *abandoned*: it goes on alone, what it says is dropped, and nobody is held up by it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine

from cloister.gate.threads import Ended

log = logging.getLogger("cloister.gate")

# Seconds that code has to clean up in after it was asked to stop.
GRACE = 0.2

# The loop itself holds tasks weakly: without this, an abandoned one could vanish in the middle.
_abandoned: "set[asyncio.Task[Ended]]" = set()


class Errand:
    """`what` names it in the log. The coroutine must not raise: it answers with an `Ended`. `on_end` is called when it
    has ended, however late that is, and before anybody hears of it."""

    def __init__(
        self,
        what: str,
        coroutine: "Coroutine[object, object, Ended]",
        *,
        stop: "Callable[[asyncio.Task[Ended]], None] | None" = None,
        on_end: Callable[[], None] | None = None,
        on_abandoned: Callable[[], None] | None = None,
    ) -> None:
        self._what = what
        self._coroutine = coroutine
        self._stop = stop
        self._on_end = on_end
        self._on_abandoned = on_abandoned
        self._waiter: asyncio.Future[None] | None = None
        self._began = False
        self.task = asyncio.get_running_loop().create_task(self._go())
        self.task.add_done_callback(self._check_begun)

    async def _go(self) -> Ended:
        self._began = True
        try:
            return await self._coroutine
        finally:
            # From inside: whoever waits goes on in the loop's next round, and not in the one after.
            self._ended()

    def _check_begun(self, _: object) -> None:
        """A task that is cancelled before its first step never gets to its end."""
        if not self._began:
            self._coroutine.close()
            self._ended()

    def _ended(self) -> None:
        if self._on_end is not None:
            self._on_end()
        _wake(self._waiter)

    async def outcome(self, seconds: float) -> Ended | None:
        """How it ended; None if it did not within `seconds`. Raises `CancelledError` only if the caller is cancelled;
        either way the errand is over or abandoned afterwards."""
        task = self.task
        try:
            await self._wait(seconds)
        except asyncio.CancelledError:
            await self._end()
            raise
        if not task.done():
            await self._end()
            return None
        # Code can cancel its own task and return: then there is no result, and nobody else's cancellation either.
        return Ended(error=asyncio.CancelledError()) if task.cancelled() else task.result()

    async def _end(self) -> None:
        if self._stop is not None:
            self._stop(self.task)
        else:
            self.task.cancel()
        # Only those who come here pay for the import.
        from anyio import CancelScope

        try:
            # Shielded, or a cancelled scope of anyio would cut the grace short. It is bounded by the timeout.
            with CancelScope(shield=True):
                await self._wait(GRACE)
        finally:
            if not self.task.done():
                self._abandon()

    async def _wait(self, seconds: float) -> None:
        """`asyncio.wait` for one task, at half the cost: every call passes here."""
        if self.task.done():
            return
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = loop.call_later(seconds, _wake, waiter)
        try:
            await waiter
        finally:
            # Else every call would leave one behind for as long as it was allowed to take.
            timer.cancel()

    def _abandon(self) -> None:
        log.warning("%s does not stop and was abandoned", self._what)
        _abandoned.add(self.task)
        self.task.add_done_callback(self._over)
        if self._on_abandoned is not None:
            self._on_abandoned()

    def _over(self, task: "asyncio.Task[Ended]") -> None:
        _abandoned.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.result().error
        # Only its kind: the text of an exception may hold what nobody has scrubbed.
        how = "with a result" if error is None else f"with {type(error).__name__}"
        log.debug("%s, abandoned before, ended %s", self._what, how)


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
