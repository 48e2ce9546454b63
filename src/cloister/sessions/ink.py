"""Writes of a host's sessions on their way to the store, each under the fence of its session.

What need not be safe by itself is held for a moment, so that it shares the commit of what comes next: a program's wait
that leads to nothing but reads, say, and what these came to. The order within a session is kept: whatever is held goes
first. Events, for which only their own order counts, go along behind the next write of any session.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cloister.core.errors import StoreError, StoreUnavailable
from cloister.ports.rows import Batch, CellRow, Put, PutBlob, Write
from cloister.ports.store import Store
from cloister.sessions.fences import Fences

# A program that waits for longer is safe where it waits.
_HOLD_SECONDS = 0.02
# Events that no write has taken along go by themselves after this.
_ALONG_SECONDS = 0.01
# How far the programs of a session may go on with what is not safe yet: so many answers, or so many bytes, go as one
# batch, and twice as many are told and not safe at the most.
_MOST_ANSWERS = 16
_MOST_BYTES = 256 << 10
log = logging.getLogger("cloister.sessions")


@dataclass(slots=True)
class _Held:
    """What is held of one session."""

    writes: list[Write | None] = field(default_factory=list[Write | None])
    # Who must know when it is refused.
    lost: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    # Where each cell was written last: of several in one batch, only that one counts.
    cells: dict[str, int] = field(default_factory=dict[str, int])
    # How many answers programs were told, and those of which cells.
    answers: int = 0
    told: set[str] = field(default_factory=set[str])
    # Of blobs.
    size: int = 0

    def add(self, writes: tuple[Write, ...]) -> None:
        for write in writes:
            if isinstance(write, PutBlob):
                self.size += len(write.data)
            elif isinstance(write, Put) and isinstance(write.row, CellRow):
                before = self.cells.get(write.row.id)
                if before is not None:
                    self.writes[before] = None
                self.cells[write.row.id] = len(self.writes)
            self.writes.append(write)

    def all(self) -> tuple[Write, ...]:
        return tuple([write for write in self.writes if write is not None])


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """A batch with answers in it that the programs of these cells were told before it is safe."""

    written: Awaitable[object]
    told: set[str]
    answers: int
    size: int


class Ink:
    def __init__(self, store: Store, fences: Fences) -> None:
        self._store = store
        self._fences = fences
        self._held: dict[str, _Held] = {}
        # Those of each session that may not be safe yet, in their order.
        self._sent: dict[str, deque[_Sent]] = {}
        # The session of each cell whose program was told such answers; and those of them that lost one.
        self._ahead: dict[str, str] = {}
        self._broken: set[str] = set()
        self._heeding: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        # Batches that go with the next write, whose they are, and who waits for them.
        self._along: list[tuple[str, Batch, asyncio.Future[Awaitable[tuple[int, ...]]]]] = []
        self._along_timer: asyncio.TimerHandle | None = None

    def write(self, session_id: str, *writes: Write) -> Awaitable[tuple[int, ...]]:
        """Done when these, and all before them, are safe."""
        self.release(session_id)
        return self._written(session_id, writes)

    def _written(self, session_id: str, writes: tuple[Write, ...]) -> Awaitable[tuple[int, ...]]:
        written = self._store.write(Batch(writes, self._fences.get(session_id)))
        # Behind it: somebody waits for the write, and nobody for what goes along.
        self.send_along()
        return written

    def along(self, session_id: str, *writes: Write) -> "asyncio.Future[Awaitable[tuple[int, ...]]]":
        """Have these written with whatever is written next, of any session, or in a moment: a commit of their own would
        be in the way of that. Done when they are on their way, with what to wait for then."""
        loop = asyncio.get_running_loop()
        sent: asyncio.Future[Awaitable[tuple[int, ...]]] = loop.create_future()
        self._along.append((session_id, Batch(writes, self._fences.get(session_id)), sent))
        if self._along_timer is None:
            self._along_timer = loop.call_later(_ALONG_SECONDS, self.send_along)
        return sent

    def send_along(self) -> None:
        """What would go along goes now, behind what it tells of."""
        if self._along_timer is not None:
            self._along_timer.cancel()
            self._along_timer = None
        batches, self._along = self._along, []
        for session_id, batch, sent in batches:
            self.release(session_id)
            written = self._store.write(batch)
            # Who stopped waiting has not stopped the write.
            if not sent.done():
                sent.set_result(written)

    def holds(self, session_id: str) -> bool:
        """Whether the session is ours to write to."""
        return self._fences.get(session_id) is not None

    def hold(self, session_id: str, *writes: Write, lost: Callable[[], None] | None = None) -> "Held":
        """These go with what comes next, or in a moment; or at once, for one who waits for them. `lost` is called when
        they are refused."""
        held = self._held.get(session_id)
        if held is None:
            held = self._held[session_id] = _Held()
        held.add(writes)
        if lost is not None:
            held.lost.append(lost)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_HOLD_SECONDS, self.release_all)
        return Held(self, session_id)

    def release(self, session_id: str) -> None:
        """Hand over what is held of a session that is written to, or let go."""
        held = self._held.pop(session_id, None)
        if held is not None:
            self._handed_over(session_id, held)

    def _handed_over(self, session_id: str, held: _Held) -> Awaitable[tuple[int, ...]]:
        written = self._store.write(Batch(held.all(), self._fences.get(session_id)))
        if held.told:
            sent = _Sent(written, held.told, held.answers, held.size)
            self._sent.setdefault(session_id, deque()).append(sent)
            held.lost.append(partial(self._broken.update, held.told))
        if held.lost:
            self.heed(written, partial(_tell_all, held.lost))
        return written

    def heed(self, written: Awaitable[object], lost: Callable[[], None]) -> None:
        """Call `lost` when it turns out that this was not written."""
        heeding = asyncio.get_running_loop().create_task(_heed(written, lost))
        self._heeding.add(heeding)
        heeding.add_done_callback(self._heeding.discard)

    def release_all(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for session_id in list(self._held):
            self.release(session_id)
        self.send_along()

    # -- programs that go on before what they were told is safe ------------------------------------------------------

    async def go_ahead(self, session_id: str, cell_id: str, *writes: Write) -> None:
        """As `hold`, of an answer that the cell's program is told at once. Waits only where too many are not safe yet.
        Raises `StoreError` when one of that cell was lost: it is told nothing more, and its end is not written."""
        self._check(cell_id)
        self._ahead[cell_id] = session_id
        self.hold(session_id, *writes)
        held = self._held[session_id]
        held.told.add(cell_id)
        held.answers += 1
        if held.answers >= _MOST_ANSWERS or held.size >= _MOST_BYTES:
            self.release(session_id)
            self.send_along()
        while self._is_too_far(session_id):
            await self._arrival(session_id, self._sent[session_id][0])
            self._check(cell_id)

    def _is_too_far(self, session_id: str) -> bool:
        """Whether a program has to wait, however these batches were handed over: full, or by the clock."""
        sent = self._sent.get(session_id)
        if not sent:
            return False
        held = self._held.get(session_id)
        answers = sum([one.answers for one in sent]) + (held.answers if held is not None else 0)
        size = sum([one.size for one in sent]) + (held.size if held is not None else 0)
        return answers >= 2 * _MOST_ANSWERS or size >= 2 * _MOST_BYTES

    async def catch_up(self, cell_id: str) -> None:
        """Returns when all that the cell's program was told is safe."""
        session_id = self._ahead.get(cell_id)
        if session_id is not None:
            await self.write(session_id)

    async def settle(self, session_id: str) -> None:
        """Returns when all that has happened in the session is safe, for whoever reads of it in the store."""
        if session_id in self._held or session_id in self._sent:
            await self.write(session_id)

    async def write_after(self, session_id: str, cell_id: str, *writes: Write) -> None:
        """As `write`, as one with what is held: the wait that leads to a call is there if its intent is. Raises too if
        something was lost that the cell's program was told before."""
        before = tuple(self._sent.get(session_id, ())) if cell_id in self._ahead else ()
        await self._with_held(session_id, writes)
        for sent in before:
            await self._arrival(session_id, sent)
        self._check(cell_id)

    async def over(self, session_id: str, cell_id: str) -> None:
        """Before the end of a cell: what its program was told is safe, or held, and then `end` takes it along. Raises
        if something of it was lost."""
        if cell_id in self._ahead:
            # Meanwhile more may be handed over: of this cell, or of others beside it.
            while its := [sent for sent in self._sent.get(session_id, ()) if cell_id in sent.told]:
                await self._arrival(session_id, its[-1])
            self._check(cell_id)

    def end(self, session_id: str, cell_id: str, *writes: Write) -> Awaitable[tuple[int, ...]]:
        """The end of a cell, as one with what is held."""
        self._ahead.pop(cell_id, None)
        self._broken.discard(cell_id)
        held = self._held.get(session_id)
        if held is not None:
            # Whoever writes the end is told what becomes of it.
            held.told.discard(cell_id)
        return self._with_held(session_id, writes)

    def let_go(self, session_id: str) -> None:
        """The session is not ours any more after this."""
        self.release(session_id)
        self.send_along()
        self._sent.pop(session_id, None)
        for cell_id in [cell_id for cell_id, its in self._ahead.items() if its == session_id]:
            del self._ahead[cell_id]
            self._broken.discard(cell_id)

    def _with_held(self, session_id: str, writes: tuple[Write, ...]) -> Awaitable[tuple[int, ...]]:
        held = self._held.pop(session_id, None)
        if held is None:
            return self._written(session_id, writes)
        held.add(writes)
        written = self._handed_over(session_id, held)
        self.send_along()
        return written

    async def _arrival(self, session_id: str, sent: _Sent) -> None:
        """Returns when it is safe, or lost, and so are those before it."""
        waiting = self._sent.get(session_id)
        while waiting and sent in waiting:
            first = waiting[0]
            try:
                await first.written
            except StoreError:
                self._broken |= first.told
            # Not before: others of the session may wait for it too.
            if waiting and waiting[0] is first:
                waiting.popleft()
        if waiting is not None and not waiting and self._sent.get(session_id) is waiting:
            del self._sent[session_id]

    def has_lost(self, cell_id: str) -> bool:
        """Whether the cell's program was told what could not be written down."""
        return cell_id in self._broken

    def _check(self, cell_id: str) -> None:
        if cell_id in self._broken:
            raise StoreUnavailable(
                f"what calls of cell {cell_id} came to could not be written down",
                hint="look into the log for what is wrong with the store, and run it again",
            )


def _tell_all(lost: list[Callable[[], None]]) -> None:
    for one in lost:
        one()


async def _heed(written: Awaitable[object], lost: Callable[[], None]) -> None:
    try:
        await written
    except StoreError as error:
        log.error("changes were not written down: %s", error)
        lost()


class Held:
    """What is held, for one who must know that it is safe."""

    def __init__(self, ink: Ink, session_id: str) -> None:
        self._ink = ink
        self._session_id = session_id

    def __await__(self) -> Generator[Any, None, object]:
        return self._ink.write(self._session_id).__await__()
