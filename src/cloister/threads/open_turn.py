"""A turn in the hands of its driver: what it may look at, what it may do, and what it must write down.

Everything that is written here is safe when the call returns. What was written before a crash is here again after it:
`items`, `answers` and what was delivered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cloister.core.cell import Observation
from cloister.core.codes import RunStatus
from cloister.core.content import text_content
from cloister.core.diagnostic import ErrorObject
from cloister.core.dynamic import DynamicToolSpec
from cloister.core.envelope import Envelope
from cloister.core.errors import CloisterError
from cloister.core.item import KIND_OF, CellRun, ContextCompaction, Detail, Item, Notification, ToolCall, UserMessage
from cloister.core.run import RunResult
from cloister.core.strand import Strand
from cloister.core.thread import Thread
from cloister.core.turn import Status, Turn, TurnUsage
from cloister.core.wire import keep_json, to_json
from cloister.ports.rows import AnswerRow, CellRow, InputRow, Put, Write
from cloister.ports.store import Store
from cloister.sessions.past import end_of, result_of
from cloister.sessions.session import Session
from cloister.threads.background import Background
from cloister.threads.finishing import finished_by
from cloister.threads.inputs import Line
from cloister.threads.pen import Pen
from cloister.threads.rows import all_items, first_item_of, item_of
from cloister.threads.streams import Streams

# A delta waits for so long for more of it, and is never larger.
_MOMENT_SECONDS = 0.032
_MOST_BYTES = 16 << 10
_PAGE = 5_000


class BudgetSpent(Exception):
    """A turn has used what it may use; `error` says of what."""

    def __init__(self, error: ErrorObject) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True)
class SettledAnswer:
    """What a model answered, as its driver wrote it down."""

    number: int
    request_digest: str
    answer: Mapping[str, Any]
    usage: TurnUsage


class OpenTurn:
    """Made by the book of its thread; lives as long as `Driver.run`."""

    def __init__(
        self,
        thread: Thread,
        turn: Turn,
        session: Session,
        tools: tuple[DynamicToolSpec, ...],
        pen: Pen,
        store: Store,
        streams: Streams,
        line: Line,
        events_sent: Callable[[], Awaitable[None]],
        background: Background,
        *,
        resumed: bool,
        base: str | None = None,
    ) -> None:
        self.thread = thread
        self.turn = turn
        self.session = session
        # Those that the client brought along; programs and models may call them as all others.
        self.tools = tools
        # Whether a driver had this turn before.
        self.resumed = resumed
        # Where relative paths of its programs begin, among the session's files.
        self.base = base
        self._pen = pen
        self._store = store
        self._streams = streams
        self._line = line
        self._events_sent = events_sent
        self._background = background
        self._items: dict[str, Item] = {}
        self._answers: list[SettledAnswer] = []
        self._deltas: dict[str, list[str]] = {}
        # How many characters of an item's text have gone so.
        self._gone: dict[str, int] = {}
        self._flushing: asyncio.TimerHandle | None = None
        # The event that says that an item has begun.
        self._begun: dict[str, int] = {}
        # Items that are on their way into the log.
        self._beginning: list[tuple[Item, Awaitable[tuple[int, ...]], Sequence[Write]]] = []
        # What was said before this turn: it does not change any more.
        self._past: list[Item] | None = None

    async def load(self) -> None:
        """What was written down of it before."""
        rows, self._answers = await asyncio.gather(
            self._store.items(self.thread.id, after=first_item_of(self.turn.id)),
            settled_answers(self._store, self.turn.id),
        )
        self._items = {row.id: item_of(row) for row in rows if row.turn_id == self.turn.id}

    # -- what there is -----------------------------------------------------------------------------------------------

    @property
    def items(self) -> Sequence[Item]:
        """Of this turn, the oldest first."""
        return tuple(self._items.values())

    @property
    def answers(self) -> Sequence[SettledAnswer]:
        """Those of this turn, by their numbers, which count from 1."""
        return tuple(self._answers)

    @property
    def usage(self) -> TurnUsage:
        return sum((one.usage for one in self._answers), TurnUsage())

    async def history(self) -> list[Item]:
        """The conversation so far, this turn's included, as a model is to be told it: after a compaction, its summary
        and what came behind it."""
        return compacted(await self.all_items())

    async def all_items(self) -> list[Item]:
        """Of the thread, the oldest first; what was compacted too."""
        first = first_item_of(self.turn.id)
        if self._past is None:
            items = await all_items(self._store, self.thread.id)
            self._past = [item for item in items if item.id <= first]
            return items
        # A compaction may have come since, from outside.
        return [*self._past, *await all_items(self._store, self.thread.id, after=first)]

    async def answers_of(self, turn_id: str) -> Sequence[SettledAnswer]:
        """Of any turn of the thread."""
        return self.answers if turn_id == self.turn.id else await settled_answers(self._store, turn_id)

    async def finished(self) -> ToolCall | None:
        """The call that has ended this turn, if there was one: see `finishing`."""
        if not self.turn.accepts_finish:
            return None
        items = await all_items(self._store, self.thread.id, after=first_item_of(self.turn.id))
        return next((one.detail for one in items if one.turn_id == self.turn.id and finished_by(one)), None)

    def now(self) -> datetime:
        return self._pen.now()

    @property
    def is_spoken_to(self) -> bool:
        """Whether somebody has said something for this turn that is not delivered yet."""
        return self._line.has(self.turn.id)

    def check_budget(self) -> None:
        """Raises `BudgetSpent` when no further request may be made. For before each of them."""
        budget, usage = self.turn.budget, self.usage
        if len(self._answers) >= budget.iterations:
            raise BudgetSpent(_spent(f"the turn has made all its {budget.iterations} requests", "iterations"))
        if budget.tokens is not None and usage.tokens >= budget.tokens:
            raise BudgetSpent(_spent(f"the turn has used {usage.tokens} tokens of {budget.tokens}", "tokens"))

    # -- what a model said -------------------------------------------------------------------------------------------

    async def settle(
        self, request_digest: str, answer: Mapping[str, Any], usage: TurnUsage, items: Sequence[Item] = ()
    ) -> SettledAnswer:
        """Journal the answer to the next request, with the items that it leads to, before any of it is acted upon."""
        number = len(self._answers) + 1
        turn = self.turn
        row = AnswerRow(
            turn.id,
            number,
            self._pen.session_id,
            turn.thread_id,
            request_digest,
            round(self._pen.now().timestamp() * 1000),
            {"answer": dict(answer), "usage": to_json(usage)},
        )
        await self._keep(items, Put(row))
        settled = SettledAnswer(number, request_digest, answer, usage)
        self._answers.append(settled)
        return settled

    # -- items -------------------------------------------------------------------------------------------------------

    def item(self, detail: Detail, status: Status = Status.IN_PROGRESS) -> Item:
        """An item of this turn that nobody knows of yet: see `keep` and `settle`."""
        now = self._pen.now()
        ended_at = now if status.is_final else None
        kind = KIND_OF[type(detail)]
        return Item(self._pen.new_id("itm_"), self.thread.id, self.turn.id, kind, status, now, detail, ended_at)

    async def keep(self, *items: Item) -> None:
        """Write items down as they are now, new ones or such as have changed; all of them or none."""
        await self._keep(items)

    def begin(self, item: Item) -> None:
        """As `keep`, for a new item, without waiting for it: it is safe when what is kept or settled next is, and
        shares its way to the disk where that comes at once."""
        writes = self._pen.item(item)
        self._beginning.append((item, self._pen.send(*writes), writes))
        self._items[item.id] = item
        self._streams.expect(item.id)

    async def begun(self) -> None:
        """Returns when all that has begun is safe."""
        while self._beginning:
            item, sent, writes = self._beginning[0]
            try:
                [self._begun[item.id]] = await self._pen.written(sent, writes)
            except CloisterError:
                self._streams.forget(item.id)
                self._beginning.clear()
                raise
            self._beginning = [one for one in self._beginning if one[0] is not item]

    async def leave(self) -> None:
        """The driver has: what it was saying is told, and what it had begun can be found by who ends the turn."""
        self.flush()
        with suppress(CloisterError):
            await self.begun()

    async def end(self, item: Item, status: Status = Status.COMPLETED, detail: Detail | None = None) -> Item:
        """An item that has ended, written down."""
        self.flush()
        if isinstance(item.detail, (CellRun, ToolCall)):
            # What the cell or the call has told comes before the end of what it was for.
            await self._events_sent()
        ended = replace(item, status=status, ended_at=self._pen.now(), detail=detail or item.detail)
        await self._keep((ended,))
        return ended

    async def _keep(self, items: Sequence[Item], *more: Write) -> None:
        writes: list[Write] = [*more]
        for one in items:
            writes += self._pen.item(one)
        sent = self._pen.send(*writes)
        try:
            await self.begun()
        finally:
            # Also when that has failed, or was cancelled: it is on its way.
            numbers = await self._pen.written(sent, writes)
        for one, seq in zip(items, numbers, strict=True):
            self._items[one.id] = one
            self._begun.setdefault(one.id, seq)

    # -- deltas ------------------------------------------------------------------------------------------------------

    def delta(self, item: Item, text: str) -> None:
        """A piece of an item's text, for who listens now: gathered for a moment, and not written down. The item must
        have been kept or begun before."""
        parts = self._deltas.setdefault(item.id, [])
        parts.append(text)
        if sum(map(_size, parts)) >= _MOST_BYTES:
            self.flush()
        elif self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(_MOMENT_SECONDS, self.flush)

    def flush(self) -> None:
        """What was gathered goes now."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        gathered, self._deltas = self._deltas, {}
        now = self._pen.now()
        for item_id, parts in gathered.items():
            for text in _pieces("".join(parts)):
                offset = self._gone.get(item_id, 0)
                self._gone[item_id] = offset + len(text)
                envelope = Envelope(
                    "item.delta",
                    now,
                    {"text": text, "offset": offset},
                    thread_id=self.thread.id,
                    turn_id=self.turn.id,
                    item_id=item_id,
                )
                self._streams.tell(envelope, self._begun.get(item_id, 0))

    # -- what came in the middle -------------------------------------------------------------------------------------

    async def take_inputs(self) -> list[Item]:
        """What has come since the last request, as items, delivered with this: for right before the next one."""
        # From here on they are not dropped when the turn ends, unless this fails.
        mine = self._line.take(lambda row: row.turn_id in (None, self.turn.id))
        self._line.came.clear()
        if not mine:
            return []
        items: list[Item] = []
        writes: list[Write] = []
        for row in mine:
            item = self.item(_said(row), Status.COMPLETED)
            items.append(item)
            writes.append(Put(replace(row, state="delivered", turn_id=self.turn.id)))
        try:
            await self._keep(items, *writes)
        except asyncio.CancelledError:
            # Written all the same: they were delivered.
            raise
        except BaseException:
            self._line.give_back(mine)
            raise
        return items

    async def more_input(self) -> None:
        """Returns when there is something for `take_inputs`."""
        await self._line.came.wait()

    # -- work --------------------------------------------------------------------------------------------------------

    async def exec(self, item: Item, code: str, **terms: Any) -> Observation:
        """Start a cell for an item that was kept; its events are the thread's. See `Session.exec`."""
        return await self.session.exec(code, strand=self._strand(item), cwd=self.base, **terms)

    def goes_on(self, cell_id: str) -> None:
        """The model was told that this cell goes on: the thread hears when it ends, or asks."""
        self._background.watch(self.session, cell_id, self.thread.id)

    def tends(self, cell_id: str) -> None:
        """This cell is waited for: what there is to hear of it is heard here, until `goes_on`."""
        self._background.leave(self.session.id, cell_id)

    async def cell_of(self, item: Item) -> str | None:
        """The cell that was started for an item and whose end nobody has read, if there is one: after a crash, the one
        to wait for."""
        row = await self._cell_row(item)
        return row.id if row is not None and row.live else None

    async def end_of(self, item: Item) -> Observation | None:
        """How the cell of an item ended, if somebody has read so before a crash: its model was not told."""
        return end_of(await self._cell_row(item))

    async def past_cell(self, cell_id: str) -> Observation | None:
        """How a cell of this session ended, if somebody has read so."""
        row = await self._store.cell(cell_id)
        return end_of(row) if row is not None and row.session_id == self.session.id else None

    async def _cell_row(self, item: Item) -> CellRow | None:
        after: str | None = None
        while page := await self._store.cells(self.session.id, after=after, limit=_PAGE):
            found = next((row for row in page if row.item_id == item.id), None)
            if found is not None or len(page) < _PAGE:
                return found
            after = page[-1].id
        return None

    async def call(self, item: Item, name: str, arguments: Any) -> RunResult:
        """Make a call for an item of kind `tool_call` that was kept with a `cell_id`: the same one after a crash is the
        same call, and is not made twice."""
        return await self.session.call(name, arguments, strand=self._strand(item), cell_id=item.detail.cell_id)

    async def settled_call(self, item: Item, name: str, arguments: Any) -> RunResult:
        """The same to its very end: past every question to a person, in this process or another."""
        cell_id: str = item.detail.cell_id
        row = await self._store.cell(cell_id) if self.resumed else None
        if row is not None and (ended := result_of(row)) is not None:
            return ended
        known = row is not None and row.live
        result = await (self.session.resume(cell_id) if known else self.call(item, name, arguments))
        while result.status is RunStatus.WAITING_FOR_APPROVAL:
            await self.session.decided([approval.id for approval in result.approvals])
            result = await self.session.resume(cell_id)
        return result

    def new_cell_id(self) -> str:
        return self._pen.new_id("cel_")

    def _strand(self, item: Item) -> Strand:
        return Strand(self.thread.id, self.turn.id, item.id)


async def settled_answers(store: Store, turn_id: str) -> list[SettledAnswer]:
    return [
        SettledAnswer(row.number, row.request_digest, row.doc["answer"], keep_json(TurnUsage, row.doc["usage"]))
        for row in await store.answers(turn_id)
    ]


def compacted(items: Sequence[Item]) -> list[Item]:
    """What a model is told of these: from the last compaction on, its summary in place of what it stands for."""
    last = next((item for item in reversed(items) if isinstance(item.detail, ContextCompaction)), None)
    if last is None:
        return list(items)
    through = last.detail.through_item_id
    return [last, *(one for one in items if one.id > through and not isinstance(one.detail, ContextCompaction))]


def _said(row: InputRow) -> Detail:
    content = tuple(row.doc["content"]) or text_content("")
    if row.doc["kind"] == "notification":
        return Notification(content, row.id, row.client_id, row.doc.get("cell_id"))
    return UserMessage(content, row.id, row.client_id)


def _size(text: str) -> int:
    """In UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _pieces(text: str) -> list[str]:
    """Of so many bytes at most, and of whole characters."""
    if _size(text) <= _MOST_BYTES:
        return [text]
    half = len(text) // 2
    return [*_pieces(text[:half]), *_pieces(text[half:])]


def _spent(message: str, what: str) -> ErrorObject:
    return ErrorObject("BUDGET_SPENT", message, f"give the turn a larger budget of {what}, or go on in another turn")
