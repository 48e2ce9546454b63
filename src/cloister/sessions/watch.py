"""Observers: those who wait for news of a cell, and what they go with.

One looks at a cell at a time. What is new is taken in the same moment in which the observer goes: one that was
cancelled while it waited has taken nothing.
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

from cloister.cells.alarm import Alarm
from cloister.cells.life import Life
from cloister.core.cell import Observation, WaitingForApproval, Yielded
from cloister.gate import ApprovalDesk
from cloister.sessions.observing import Teller


class Watch:
    """Over the cells of one session. `read` hears that the end of a cell is known, `detach` that it must go on by
    itself."""

    def __init__(
        self, teller: Teller, desk: ApprovalDesk, *, read: Callable[[Life], None], detach: Callable[[Life], None]
    ) -> None:
        self._teller = teller
        self._desk = desk
        self._read = read
        self._detach = detach
        # For the next observer: nearly always there is one at a time.
        self._spare: Alarm | None = None

    def close(self) -> None:
        if self._spare is not None:
            self._spare.close()

    async def one(self, life: Life, yield_ms: int) -> Observation:
        """What there is to tell, as soon as there is something, or after `yield_ms`."""
        if life.attended:
            life.check_unattended()
        if not life.detached:
            self._detach(life)
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()
        life.observe(news)
        try:
            if yield_ms > 0 and not self._has_news(life):
                until = loop.time() + yield_ms / 1000
                alarm, self._spare = self._spare or Alarm(), None
                alarm.set(yield_ms / 1000, life.poke)
                try:
                    await news
                    while not (self._is_told_of(life) or loop.time() >= until):
                        # A question, answered before anybody came to look: the program goes on, and so does the wait.
                        await life.observe_on()
                finally:
                    if self._spare is None:
                        alarm.put_off()
                        self._spare = alarm
                    else:
                        alarm.close()
        finally:
            life.look_away()
        # Nothing is awaited from here on: what is taken is delivered.
        return self.take(life)

    async def to_the_end(self, life: Life, most_ms: int) -> bool:
        """Whether it has ended; False as soon as it waits for a person."""
        while life.result is None:
            if self.is_with_people(life) or isinstance(await self.one(life, most_ms), WaitingForApproval):
                return False
        return True

    async def first_of(self, lives: list[Life], timeout_ms: int) -> Observation | None:
        """The first of them that has something to tell; None when none has in time."""
        for life in lives:
            life.check_unattended()
            life.check_unobserved()
        for life in lives:
            self._detach(life)
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()
        with ExitStack() as stack:
            for life in lives:
                life.observe(news)
                stack.callback(life.look_away)
            if timeout_ms > 0 and not any(self._has_news(life) for life in lives):
                until = loop.time() + timeout_ms / 1000
                stack.callback(loop.call_later(timeout_ms / 1000, lives[0].poke).cancel)
                await news
                while not (any(map(self._is_told_of, lives)) or loop.time() >= until):
                    news = lives[0].observe_on()
                    for life in lives[1:]:
                        life.observe_on(news)
                    await news
            handed_over = [life for life in lives if life.handed_over]
        told = next((life for life in lives if self._has_news(life)), None)
        if told is None and handed_over:
            told = handed_over[0]
        return self.take(told) if told is not None else None

    def take(self, life: Life) -> Observation:
        if life.result is not None:
            self._read(life)
            return self._teller.end(life, life.result)
        content, saved = self._teller.news(life)
        if self.is_with_people(life):
            life.told = frozenset(life.cell.approval_ids)
            approvals = tuple(self._desk.get(approval_id) for approval_id in life.cell.approval_ids)
            return WaitingForApproval(cell_id=life.id, content=content, saved_output=saved, approvals=approvals)
        life.cell.tell("cell.yielded", {"items": len(content)})
        return Yielded(cell_id=life.id, content=content, saved_output=saved)

    def is_with_people(self, life: Life) -> bool:
        """Whether there is nothing to do but to ask somebody outside this process."""
        if life.sleeper is None or life.unwatch is None:
            return False
        asked = life.cell.approval_ids
        return self._desk.are_open(asked) and not self._desk.being_answered(asked)

    def _is_told_of(self, life: Life) -> bool:
        """Whether there is something for an observer who was woken."""
        return life.result is not None or life.handed_over or self.is_with_people(life)

    def _has_news(self, life: Life) -> bool:
        if life.result is not None or life.sleeper is None:
            return life.result is not None
        return self.is_with_people(life) and life.told != frozenset(life.cell.approval_ids)
