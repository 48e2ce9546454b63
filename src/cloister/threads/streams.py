"""Streams of events: of a thread, or of a session; from the log, and then as they happen.

One task reads the log of the store for all who follow it here, so a stream more costs no read. A follower that is slow
is let go of, and takes up the log where it stopped: it misses nothing, and no writer waits for it. What is ephemeral
goes past the log to those who are there, never before the events that it builds on.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import TypeAlias

from cloister.core.envelope import Envelope
from cloister.core.errors import CloisterError, InvalidInput
from cloister.ports.clock import moment
from cloister.ports.rows import EventRow
from cloister.ports.store import Store

_PAGE = 1000
_MOST_UNREAD = 2000
# Nothing depends on it: whoever waits is woken by what is written.
_LONG_MS = 60_000
_ENDS = ("item.completed", "item.failed")
# A thread's stream, or a session's: one of the two is None.
Whose: TypeAlias = tuple[str | None, str | None]


def envelope_of(row: EventRow, previous_seq: int, whose: Whose) -> Envelope:
    thread_id, session_id = whose
    return Envelope(
        row.kind,
        moment(row.at_ms),
        row.doc,
        seq=row.seq,
        previous_seq=previous_seq,
        thread_id=thread_id,
        session_id=session_id,
        turn_id=row.turn_id,
        item_id=row.item_id,
    )


async def replay(
    store: Store, *, thread_id: str | None = None, session_id: str | None = None, since: int = 0
) -> AsyncGenerator[Envelope, None]:
    """What is in the log after the event `since`, page by page, and then the end."""
    whose = _check(thread_id, session_id)
    previous = await store.last_event(thread_id=thread_id, session_id=session_id, upto=since)
    after = since
    while rows := await store.events(thread_id=thread_id, session_id=session_id, since=after, limit=_PAGE):
        for row in rows:
            yield envelope_of(row, previous, whose)
            previous = row.seq
        after = previous


def _check(thread_id: str | None, session_id: str | None) -> Whose:
    if (thread_id is None) == (session_id is None):
        raise InvalidInput("a stream is of a thread or of a session")
    return (thread_id, session_id)


class Streams:
    """Of one host. Event loop only."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._followers: dict[Whose, set[Stream]] = {}
        self._task: asyncio.Task[None] | None = None
        self._last = 0
        # Ephemeral ones that wait for the events that they build on.
        self._early: list[tuple[int, Envelope]] = []
        # By item, those of items whose beginning is on its way into the log.
        self._expected: dict[str, list[Envelope]] = {}
        # One at a time finds out where the log ends: two tasks that read it would tell everything twice.
        self._starting = asyncio.Lock()

    def follow(self, *, thread_id: str | None = None, session_id: str | None = None, since: int = 0) -> "Stream":
        return Stream(self, _check(thread_id, session_id), since)

    def expect(self, item_id: str) -> None:
        """The event that begins that item is on its way into the log."""
        if self._task is not None:
            self._expected[item_id] = []

    def forget(self, item_id: str) -> None:
        """Of that item nothing more is told."""
        self._expected.pop(item_id, None)

    def tell(self, envelope: Envelope, after: int) -> None:
        """An ephemeral event of a thread, for those who follow it now; not before event `after`, nor before the
        beginning of its item where that is expected."""
        if self._task is None or (envelope.thread_id, None) not in self._followers:
            return
        if (expected := self._expected.get(envelope.item_id or "")) is not None:
            expected.append(envelope)
        elif after > self._last:
            self._early.append((after, envelope))
        else:
            self._push_delta(envelope)

    def end(self, thread_id: str) -> None:
        """It is gone: who follows it comes to the end."""
        for one in list(self._followers.get((thread_id, None), ())):
            one.end()

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        for followers in list(self._followers.values()):
            for one in list(followers):
                one.end()

    async def join(self, stream: "Stream") -> None:
        async with self._starting:
            if self._task is None:
                self._last = await self.store.last_event()
                self._expected.clear()
                self._task = asyncio.get_running_loop().create_task(self._run(), name="cloister: events")
            self._followers.setdefault(stream.whose, set()).add(stream)

    def leave(self, stream: "Stream") -> None:
        followers = self._followers.get(stream.whose)
        if followers is not None:
            followers.discard(stream)
            if not followers:
                del self._followers[stream.whose]
        if not self._followers and self._task is not None:
            self._task.cancel()
            self._task = None
            self._early.clear()
            self._expected.clear()

    async def _run(self) -> None:
        try:
            while True:
                rows = await self.store.events(since=self._last, limit=_PAGE)
                for row in rows:
                    for whose in ((row.thread_id, None), (None, row.session_id)):
                        for one in self._followers.get(whose, ()):
                            one.push(row)
                    self._last = row.seq
                    if self._early:
                        # Right behind what it builds on, and before what came later.
                        self._release()
                    if self._expected and row.kind == "item.started":
                        for envelope in self._expected.pop(row.item_id or "", ()):
                            self._push_delta(envelope)
                if len(rows) < _PAGE:
                    # It returns at once if there is more by now: no page is read to find out that it is empty.
                    await self.store.wait_for_events(self._last, _LONG_MS)
        except CloisterError as error:
            # Whoever follows is told, and may come again.
            self._task = None
            for followers in list(self._followers.values()):
                for one in list(followers):
                    one.end(error)

    def _release(self) -> None:
        due = [envelope for after, envelope in self._early if after <= self._last]
        self._early = [(after, envelope) for after, envelope in self._early if after > self._last]
        for envelope in due:
            self._push_delta(envelope)

    def _push_delta(self, envelope: Envelope) -> None:
        for one in self._followers.get((envelope.thread_id, None), ()):
            one.push(envelope)


class Stream:
    """`async with threads.events(...) as events: async for envelope in events`. Ends with the host."""

    def __init__(self, streams: Streams, whose: Whose, since: int) -> None:
        self.whose = whose
        self._streams = streams
        self._last = since
        self._previous = 0
        # From the log, before what comes by itself.
        self._found: deque[EventRow] = deque()
        self._behind = True
        # Items that have ended in there: what is still told of their texts comes too late.
        self._over: set[str | None] = set()
        self._unread: deque[EventRow | Envelope] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._why: CloisterError | None = None

    async def __aenter__(self) -> "Stream":
        await self._streams.join(self)
        thread_id, session_id = self.whose
        try:
            self._previous = await self._streams.store.last_event(
                thread_id=thread_id, session_id=session_id, upto=self._last
            )
        except BaseException:
            self._streams.leave(self)
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.end()
        self._streams.leave(self)

    def push(self, what: EventRow | Envelope) -> None:
        if self._behind and isinstance(what, EventRow):
            # It will be found in the log.
            return
        if len(self._unread) >= _MOST_UNREAD:
            if isinstance(what, EventRow):
                self._unread.clear()
                self._behind = True
            return
        self._unread.append(what)
        self._wake()

    def end(self, why: CloisterError | None = None) -> None:
        self._ended, self._why = True, why
        self._wake()

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Envelope:
        while True:
            if self._behind and not self._found:
                await self._catch_up()
            envelope = self._next()
            if envelope is not None:
                return envelope
            if self._behind:
                continue
            if self._ended:
                if self._why is not None:
                    raise self._why
                raise StopAsyncIteration
            if self._waiter is not None:
                raise InvalidInput("these events are read already: ask for another stream")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def at_once(self, most: int) -> list[Envelope]:
        """What can be told without waiting, and no more than so many."""
        found: list[Envelope] = []
        while len(found) < most and (envelope := self._next()) is not None:
            found.append(envelope)
        return found

    def _next(self) -> Envelope | None:
        if self._found:
            row = self._found.popleft()
            if row.kind in _ENDS:
                self._over.add(row.item_id)
            return self._tell(row)
        while self._unread and not self._behind:
            one = self._unread.popleft()
            if isinstance(one, Envelope):
                if one.item_id not in self._over:
                    return one
            elif one.seq > self._last:
                # From here on it comes in order.
                self._over.clear()
                return self._tell(one)
        return None

    def _tell(self, row: EventRow) -> Envelope:
        envelope = envelope_of(row, self._previous, self.whose)
        self._last = self._previous = row.seq
        return envelope

    async def _catch_up(self) -> None:
        """A page of the log. From the moment that it is asked for what comes by itself is kept as well."""
        thread_id, session_id = self.whose
        self._behind = False
        try:
            page = await self._streams.store.events(
                thread_id=thread_id, session_id=session_id, since=self._last, limit=_PAGE
            )
        except BaseException:
            self._behind = True
            raise
        self._found.extend(page)
        if len(page) == _PAGE:
            # There is more; what has come by itself is behind it.
            self._unread.clear()
            self._behind = True

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
