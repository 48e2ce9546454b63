"""A question as the desk keeps it: the approval that everybody sees, and what only the desk knows about it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cloister.core.approval import Approval, ApprovalState
from cloister.core.errors import InvalidInput
from cloister.ports.clock import Clock

_LONGEST_TTL_MS = 2**40


@dataclass(slots=True, eq=False)
class Question:
    number: int
    approval: Approval
    terms: str
    arguments_digest: str
    # About how many bytes the arguments take.
    size: int
    expires_ms: int | None
    # Of the call, within its cell.
    call_number: int = 0
    # An answer counts once.
    used: bool = False
    # The approver at work.
    answering: "asyncio.Task[None] | None" = None
    # Of those who wait for something to happen.
    waiting: "set[asyncio.Future[None]]" = field(default_factory=set["asyncio.Future[None]"])
    # Told whenever something happens, without waiting for it.
    watchers: tuple[Callable[[], None], ...] = ()

    @property
    def pending(self) -> bool:
        return self.approval.state is ApprovalState.PENDING

    def answer_with(self, task: "asyncio.Task[None]") -> None:
        self.answering = task
        task.add_done_callback(self._answering_ended)

    def stop_answering(self) -> None:
        """Nobody needs the approver's answer. But if it is the approver that decides here, it goes on."""
        task, self.answering = self.answering, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    def wake(self) -> None:
        for future in self.waiting:
            if not future.done():
                future.set_result(None)
        for watcher in self.watchers:
            # Later, so that of several answers given at once all are there when the first is heard of.
            asyncio.get_running_loop().call_soon(watcher)

    def _answering_ended(self, _: object) -> None:
        self.answering = None
        self.wake()


def checked_ttl(ttl_ms: object) -> int | None:
    if ttl_ms is None:
        return None
    if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int) or not 1 <= ttl_ms <= _LONGEST_TTL_MS:
        raise InvalidInput(
            f"ttl_ms must be a whole number of milliseconds between 1 and {_LONGEST_TTL_MS}, not {ttl_ms!r}",
            hint="leave it out if an approval should never expire",
        )
    return ttl_ms


async def change(questions: Sequence[Question], clock: Clock) -> None:
    """Wait until something happens to one of them, be it that its time is over."""
    changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ends = [question.expires_ms for question in questions if question.expires_ms is not None]
    for question in questions:
        question.waiting.add(changed)
    try:
        async with asyncio.TaskGroup() as group:
            alarm = group.create_task(_ring(changed, min(ends), clock)) if ends else None
            await changed
            if alarm is not None:
                alarm.cancel()
    finally:
        for question in questions:
            question.waiting.discard(changed)


async def _ring(changed: "asyncio.Future[None]", at_ms: int, clock: Clock) -> None:
    await clock.sleep((at_ms - clock.now_ms()) / 1000)
    if not changed.done():
        changed.set_result(None)
