"""Writes of one thread: rows, and the events that tell of them, in one batch under the fence of its session.

What is told is what is written: no event without its row, and no row that the stream does not know of.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from typing import Any

from cloister.core.errors import SessionClosed
from cloister.core.ids import IdSource
from cloister.core.item import Item, item_to_json
from cloister.core.strand import Strand
from cloister.core.thread import Thread
from cloister.core.turn import Status, Turn
from cloister.core.wire import to_json
from cloister.ports.clock import Clock, moment
from cloister.ports.rows import Append, Put, Write
from cloister.sessions.ledger import Ledger
from cloister.threads.rows import item_row, thread_row, turn_row


class Pen:
    def __init__(self, ledger: Ledger, clock: Clock, ids: IdSource, session_id: str, thread_id: str) -> None:
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self.session_id = session_id
        self.thread_id = thread_id

    def now(self) -> datetime:
        return moment(self._clock.now_ms())

    def new_id(self, prefix: str) -> str:
        return self._ids.new(prefix)

    @property
    def leaving(self) -> bool:
        return self._ledger.leaving

    async def write(self, *writes: Write) -> tuple[int, ...]:
        """Done when all of it is safe, also for who is cancelled meanwhile: whoever ends a turn then finds what was
        begun in it. Raises `SessionClosed` when the session is not ours any more."""
        return await self.written(self.send(*writes), writes)

    def send(self, *writes: Write) -> Awaitable[tuple[int, ...]]:
        """As `write`, and only on their way by now, before all that is sent or written later: `written` waits for
        them."""
        if self._ledger.leaving or not self._ledger.ink.holds(self.session_id):
            raise SessionClosed(f"session {self.session_id!r} of thread {self.thread_id!r} is closed here")
        return self._ledger.ink.write(self.session_id, *writes)

    async def written(self, sent: Awaitable[tuple[int, ...]], writes: Sequence[Write]) -> tuple[int, ...]:
        try:
            numbers = await sent
        except asyncio.CancelledError:
            # It was handed over and cannot be taken back.
            await sent
            raise
        if (telemetry := self._ledger.telemetry) is not None:
            for one in writes:
                if isinstance(one, Append):
                    strand = Strand(self.thread_id, one.turn_id, one.item_id) if one.turn_id is not None else None
                    telemetry.told(one.kind, self.session_id, one.doc, strand)
        return numbers

    def event(
        self, kind: str, payload: Mapping[str, Any], turn_id: str | None = None, item_id: str | None = None
    ) -> Append:
        return Append(self.session_id, kind, self._clock.now_ms(), payload, self.thread_id, turn_id, item_id)

    def thread(self, kind: str, thread: Thread) -> tuple[Write, ...]:
        return (Put(thread_row(thread)), self.event(kind, {"thread": to_json(thread)}))

    def turn(self, kind: str, turn: Turn, digest: str) -> tuple[Write, ...]:
        return (
            Put(turn_row(turn, self.session_id, digest)),
            self.event(kind, {"turn": to_json(turn)}, turn.id),
        )

    def item(self, item: Item) -> tuple[Write, ...]:
        """The item as it is now, with the event that its status stands for."""
        match item.status:
            case Status.QUEUED | Status.IN_PROGRESS:
                kind = "item.started"
            case Status.COMPLETED:
                kind = "item.completed"
            case _:
                kind = "item.failed"
        told = self.event(kind, {"item": item_to_json(item)}, item.turn_id, item.id)
        return (Put(item_row(item, self.session_id)), told)
