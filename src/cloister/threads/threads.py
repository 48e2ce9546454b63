"""The threads of a host: made, found, listed, forked, and their books opened when somebody has something to say.

A thread has one session, made with it or named; who owns the session owns its threads. Looking needs no owner: details
and lists are read from the store, streams from its log.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol

from cloister.core.dynamic import DynamicToolCallResult
from cloister.core.envelope import Envelope
from cloister.core.errors import (
    CloisterError,
    InvalidInput,
    SessionNotFound,
    ThreadNotFound,
    TurnNotFound,
)
from cloister.core.ids import IdSource
from cloister.core.item import Item
from cloister.core.language import Language
from cloister.core.thread import DriverKind, ForkedFrom, Thread, ThreadDetail, ThreadParams
from cloister.core.turn import SteerParams, SteerReceipt, Turn, TurnEnvironmentParams, TurnParams
from cloister.ports.clock import Clock
from cloister.ports.rows import ThreadQuery, ThreadRow
from cloister.sessions.events import Events
from cloister.sessions.ledger import Ledger
from cloister.sessions.session import Session
from cloister.threads.background import Background
from cloister.threads.begun import Begun, ThreadList, new_thread
from cloister.threads.book import Book
from cloister.threads.client_tools import ClientTools, check_schemas
from cloister.threads.driver import Driver, ModelDriver
from cloister.threads.environments import add_environments, check_asked, check_driven
from cloister.threads.forking import last_cell, turn_of_fork, write_fork
from cloister.threads.pen import Pen
from cloister.threads.resting import Resting
from cloister.threads.rows import all_items, detail_of, first_item_of, fold, item_of, marks, thread_of, turn_of
from cloister.threads.streams import Stream, Streams, replay

log = logging.getLogger("cloister.threads")
MAX_PAGE = 1000
# Books of threads that have nothing to do are kept up to this number.
_MOST_BOOKS = 256


class SessionHost(Protocol):
    """What threads need of the host that their sessions live in."""

    def find(self, session_id: str) -> Session | None: ...
    def check_environments(self, wanted: Sequence[TurnEnvironmentParams], *, is_new: bool) -> None: ...
    async def open_for_thread(
        self, session_id: str, tenant: str, source: ClientTools | None, language: Language | None = None
    ) -> Session:
        """The session of that id: as it is in the store, or a new one in that language."""
        ...


class Threads:
    """Of one host; `Cloister.threads`. Event loop only."""

    def __init__(self, ledger: Ledger, events: Events, clock: Clock, ids: IdSource, host: SessionHost) -> None:
        self._ledger = ledger
        self._store = ledger.store
        self._events = events
        self._clock = clock
        self._ids = ids
        self._host = host
        self._streams = Streams(ledger.store)
        self._drivers: dict[DriverKind, Driver] = {}
        self._books: dict[str, Book] = {}
        self._opening: dict[str, asyncio.Future[Book]] = {}
        self._tools: dict[str, ClientTools] = {}
        self._resting = Resting(host.find, self._is_busy, self._forget)
        self._background = Background(self._heard)
        self._is_open = False
        self._left = False

    def drive(self, kind: DriverKind | str, driver: Driver) -> None:
        """Have threads of that kind driven by it; before the host is entered, or what was left in the middle waits
        until `resume`."""
        self._drivers[DriverKind(kind)] = driver

    @property
    def driven(self) -> frozenset[DriverKind]:
        """The kinds that have a driver here."""
        return frozenset(self._drivers)

    # -- the host comes and goes ---------------------------------------------------------------------------------

    async def open(self) -> None:
        self._is_open = True
        await self.resume()

    async def resume(self) -> list[str]:
        """Go on with the turns that nobody goes on with; the ids of those that another host has, or that cannot be gone
        on with now, are given back."""
        held: list[str] = []
        wanted: dict[str, list[str]] = {}
        for row in await self._store.turns(live=True):
            wanted.setdefault(row.thread_id, []).append(row.id)
        for cell in await self._store.cells(live=True):
            if cell.thread_id is not None and self._ledger.ink.holds(cell.session_id):
                # It may go on in the background: its thread hears of it.
                wanted.setdefault(cell.thread_id, [])
        for thread_id, turns in wanted.items():
            book = self._books.get(thread_id)
            if book is None:
                row = await self._store.thread(thread_id)
                if row is None or thread_of(row).driver not in self._drivers:
                    held += turns
                    continue
            try:
                book = book or await self._book(thread_id)
            except CloisterError as error:
                log.warning("the turns of thread %s are not gone on with here: %s", thread_id, error)
                held += turns
        return held

    def leave(self) -> None:
        """The host goes: what is cancelled from now on has not ended."""
        self._left = True

    async def close(self) -> None:
        self._left = True
        await self._background.close()
        for book in list(self._books.values()):
            await book.close()
        await self._resting.close()
        await self._streams.close()

    async def destroyed(self, session_id: str, thread_ids: Iterable[str]) -> None:
        """A session was, and its threads with it: nothing of them goes on, and who follows them is told."""
        for book in [one for one in self._books.values() if one.thread.session_id == session_id]:
            await book.close()
        self._forget(session_id)
        self._resting.drop(session_id)
        for thread_id in thread_ids:
            self._streams.end(thread_id)

    # -- threads -------------------------------------------------------------------------------------------------

    async def create(self, params: ThreadParams | None = None, *, tenant: str = "") -> Thread:
        """A new thread. With a `session_id` it joins that session, otherwise it gets one of its own."""
        params = params or ThreadParams()
        self._check_open()
        check_schemas(params.dynamic_tools)
        if params.session_id is not None:
            await self._check_tenant(params.session_id, tenant)
        check_driven(params)
        self._host.check_environments(params.environments, is_new=params.session_id is None)
        session_id = params.session_id or self._ids.new("ses_")
        with self._resting.in_hand(session_id):
            session = await self._session(session_id, tenant, params.language)
            await check_asked(params, session)
            now = self._pen(session.id, "").now()
            thread = new_thread(self._ids.new("thr_"), session.id, now, tenant, params)
            thread = self._with_provider(thread)
            pen = self._pen(session.id, thread.id)
            await pen.write(*pen.thread("thread.started", thread))
            return thread

    def _with_provider(self, thread: Thread) -> Thread:
        """Whoever serves the model that it names, as far as that can be said by now: its first turn is told what is
        wrong otherwise."""
        driver = self._drivers.get(thread.driver)
        if thread.model is None or not isinstance(driver, ModelDriver):
            return thread
        try:
            return replace(thread, provider=driver.choose(thread, None, switch_provider=False).provider)
        except CloisterError:
            return thread

    async def _check_tenant(self, session_id: str, tenant: str) -> None:
        row = await self._store.session(session_id)
        if row is not None and row.tenant != tenant:
            raise SessionNotFound(f"there is no session {session_id!r}")

    async def describe(self, thread_id: str, *, tenant: str | None = None) -> Thread:
        """The thread alone, without what was said in it."""
        return thread_of(await self._row(thread_id, tenant))

    async def get(self, thread_id: str, *, tenant: str | None = None) -> ThreadDetail:
        """All of it, as it is at one moment."""
        found = await self._store.conversation(thread_id)
        if found is None or (tenant is not None and found.thread.tenant != tenant):
            raise _no_thread(thread_id)
        return detail_of(found)

    async def list(
        self,
        *,
        tenant: str | None = None,
        archived: bool | None = None,
        session_id: str | None = None,
        search: str | None = None,
        labels: Mapping[str, str] | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> ThreadList:
        """Some threads, the newest first; `after` is the `next` of the page before. `search` is a part of the title."""
        if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
            raise InvalidInput(f"limit must be a whole number from 1 to {MAX_PAGE}, not {limit!r:.80}")
        query = ThreadQuery(tenant, archived, session_id, fold(search) if search else None, marks(labels or {}))
        page = await self._store.threads(query, before=after, limit=limit)
        return ThreadList(tuple(map(thread_of, page.rows)), page.before)

    async def patch(self, thread_id: str, patch: Mapping[str, Any], *, tenant: str | None = None) -> Thread:
        """Change its `title`, `labels`, `metadata`, `archived`, `model` or `system_prompt`."""
        async with self._at(thread_id, tenant) as book:
            return await book.patch(patch)

    async def compact(
        self,
        thread_id: str,
        summary: str | None = None,
        through_item_id: str | None = None,
        *,
        keep_last: int | None = None,
        tenant: str | None = None,
    ) -> Item:
        """Have models told a summary in place of what was said up to that item, or before the last `keep_last` turns (1
        unless given), from their next request on. Without a `summary` the thread's model makes one."""
        async with self._at(thread_id, tenant) as book:
            return await book.compact(summary, through_item_id, keep_last)

    async def fork(self, thread_id: str, turn_id: str | None = None, *, tenant: str | None = None) -> Thread:
        """A new thread with what was said up to the end of that turn, or of the last that has ended, and with a session
        as it was then: its variables, stored values and files."""
        detail = await self.get(thread_id, tenant=tenant)
        until, session_id = turn_of_fork(detail, turn_id), self._ids.new("ses_")
        async with self._at(thread_id, tenant) as book:
            with self._resting.in_hand(session_id):
                await self._fork_session(book.session, session_id, detail.thread, until)
                self._resting.own(session_id)
                source, now = detail.thread, book.pen.now()
                thread = replace(
                    source,
                    id=self._ids.new("thr_"),
                    session_id=session_id,
                    created_at=now,
                    updated_at=now,
                    forked_from=ForkedFrom(source.id, until.id if until is not None else None),
                )
                await write_fork(self._store, self._pen(session_id, thread.id), thread, detail, until)
        return thread

    async def _fork_session(self, session: Session, session_id: str, thread: Thread, until: Turn | None) -> Session:
        cells = await self._store.cells(session.id)
        at = last_cell(cells, until)
        if until is None or at is None:
            # Nothing had run by then: it begins as every session here.
            return await self._host.open_for_thread(session_id, thread.tenant, None, session.language)
        return await session.fork(at=at, session_id=session_id)

    # -- turns ---------------------------------------------------------------------------------------------------

    async def turn(self, thread_id: str, params: TurnParams, *, tenant: str | None = None) -> tuple[Thread, Turn]:
        """Say something: a turn that begins now, or when those before it have ended."""
        begun = await self.begin(thread_id, params, tenant=tenant)
        return begun.thread, begun.turn

    async def begin(self, thread_id: str, params: TurnParams, *, tenant: str | None = None) -> Begun:
        """As `turn`, and says whether the turn was there already."""
        async with self._at(thread_id, tenant) as book:
            turn, is_known = await book.begin(params)
            return Begun(book.thread, turn, is_known)

    async def get_turn(self, thread_id: str, turn_id: str, *, tenant: str | None = None) -> Turn:
        await self._row(thread_id, tenant)
        row = await self._store.turn(turn_id)
        if row is None or row.thread_id != thread_id:
            raise TurnNotFound(f"thread {thread_id!r} has no turn {turn_id!r}")
        return turn_of(row)

    async def steer(
        self, thread_id: str, turn_id: str, params: SteerParams, *, tenant: str | None = None
    ) -> SteerReceipt:
        """Say something in the middle of a turn; it goes into the next request to the model. The receipt says what has
        become of it."""
        async with self._at(thread_id, tenant) as book:
            return await book.steer(turn_id, params)

    async def notify(
        self, thread_id: str, content: object, *, client_id: str | None = None, tenant: str | None = None
    ) -> SteerReceipt:
        """Tell the model with the next request, in whichever turn that is made. The same `client_id` is told once."""
        async with self._at(thread_id, tenant) as book:
            return await book.notify(content, client_id)

    async def interrupt(self, thread_id: str, turn_id: str, *, tenant: str | None = None) -> Turn:
        """End a turn for sure; returns when its cells have stopped. What was stored stays."""
        async with self._at(thread_id, tenant) as book:
            return await book.interrupt(turn_id)

    async def answer(
        self,
        thread_id: str,
        turn_id: str,
        call_id: str,
        result: DynamicToolCallResult,
        *,
        tenant: str | None = None,
    ) -> None:
        """The client's answer to a call of its tool; safe when this returns. Raises `ToolCallNotFound` for a call that
        does not wait for one, such as one that has been answered."""
        async with self._at(thread_id, tenant) as book:
            await book.answer(turn_id, call_id, result)

    # -- events --------------------------------------------------------------------------------------------------

    def events(self, *, thread_id: str | None = None, session_id: str | None = None, since: int = 0) -> Stream:
        """What happens in a thread or a session, after the event of that number: `async with threads.events(...) as
        events: async for envelope in events`. It does not end before the host does."""
        self._check_open()
        return self._streams.follow(thread_id=thread_id, session_id=session_id, since=since)

    def replay(
        self, *, thread_id: str | None = None, session_id: str | None = None, since: int = 0
    ) -> AsyncGenerator[Envelope, None]:
        """What is in the log after the event of that number, and then the end."""
        return replay(self._store, thread_id=thread_id, session_id=session_id, since=since)

    # -- inside --------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._is_open or self._left:
            raise CloisterError("threads are used while their Cloister is open: async with Cloister(...)")

    async def _row(self, thread_id: str, tenant: str | None) -> ThreadRow:
        row = await self._store.thread(thread_id)
        if row is None or (tenant is not None and row.tenant != tenant):
            raise _no_thread(thread_id)
        return row

    @asynccontextmanager
    async def _at(self, thread_id: str, tenant: str | None) -> AsyncGenerator[Book]:
        """The book of a thread. Its session stays open for as long."""
        self._check_open()
        row = await self._row(thread_id, tenant)
        with self._resting.in_hand(row.session_id):
            yield await self._book(thread_id)

    async def _book(self, thread_id: str) -> Book:
        """The book of a thread whose session is ours, opened if it is not."""
        book = self._books.get(thread_id)
        if book is not None and not book.session.closed:
            return book
        if (opening := self._opening.get(thread_id)) is None:
            opening = self._opening[thread_id] = asyncio.ensure_future(self._open_book(thread_id))
            opening.add_done_callback(lambda _: self._opening.pop(thread_id, None))
        return await asyncio.shield(opening)

    async def _open_book(self, thread_id: str) -> Book:
        thread = thread_of(await self._row(thread_id, None))
        with self._resting.in_hand(thread.session_id):
            return await self._opened(thread)

    async def _opened(self, thread: Thread) -> Book:
        tools = self._client_tools(thread.session_id)
        # Before the session is opened: cells that go on at once find their tools.
        live = await self._store.turns(session_id=thread.session_id, live=True)
        for turn in live:
            if turn.state == "in_progress":
                owner = await self._store.thread(turn.thread_id)
                said = turn_of(turn)
                if owner is not None:
                    specs = (*thread_of(owner).dynamic_tools, *said.dynamic_tools)
                    tools.offer(turn.id, specs, may_finish=said.accepts_finish)
                if owner is not None and said.accepts_finish:
                    for item in await all_items(self._store, owner.id, after=first_item_of(turn.id)):
                        tools.finishing.take_up(item)
        going_on = {turn.id for turn in live}
        for call in await self._store.tool_calls(session_id=thread.session_id):
            if call.turn_id not in going_on:
                continue
            items = await self._store.items(call.thread_id, after=_before(call.doc["item_id"]), limit=1)
            tools.take_up(call, item_of(items[0]) if items else None)
        session = await self._session(thread.session_id, thread.tenant)
        await add_environments(session, thread)
        book = Book(
            thread,
            session,
            self._pen(session.id, thread.id),
            self._store,
            self._streams,
            self._clock,
            tools,
            self._driver_of,
            self._idle,
            self._events.sent,
            self._events.strand,
            self._background,
        )
        await book.load()
        self._books[thread.id] = book
        book.resume()
        return book

    async def _session(self, session_id: str, tenant: str, language: Language | None = None) -> Session:
        """The session, open here and with the tools of clients."""
        await self._resting.gone(session_id)
        tools = self._client_tools(session_id)
        session = self._host.find(session_id)
        if session is None:
            session = await self._host.open_for_thread(session_id, tenant, tools, language)
            self._resting.own(session_id)
        known = [one.source for one in session.own_overlays if isinstance(one.source, ClientTools)]
        if known != [tools]:
            if known:
                # A fork has come with those of the session that it was made of.
                await session.remove_source(ClientTools.name)
            await session.add_source(tools)
        return session

    async def _heard(self, thread_id: str, said: str, client_id: str, cell_id: str) -> None:
        """A cell that went on has something to tell."""
        if self._left:
            return
        try:
            async with self._at(thread_id, None) as book:
                await book.notify(said, client_id, cell_id=cell_id)
                await book.wake()
        except CloisterError as error:
            log.warning("thread %s was not told of cell %s: %s", thread_id, cell_id, error)

    def _client_tools(self, session_id: str) -> ClientTools:
        tools = self._tools.get(session_id)
        if tools is None:
            tools = self._tools[session_id] = ClientTools(
                session_id,
                self._clock,
                self._events.strand,
                lambda thread_id: self._pen(session_id, thread_id),
                lambda: self._left or self._ledger.leaving,
            )
        return tools

    def _pen(self, session_id: str, thread_id: str) -> Pen:
        return Pen(self._ledger, self._clock, self._ids, session_id, thread_id)

    def _driver_of(self, thread: Thread) -> Driver:
        driver = self._drivers.get(thread.driver)
        if driver is None:
            raise InvalidInput(
                f"thread {thread.id!r} is driven by {thread.driver.value!r}, and this host has no such driver",
                hint="give it one: cloister.threads.drive(kind, driver)",
            )
        return driver

    # -- nothing to do -------------------------------------------------------------------------------------------

    def _idle(self, book: Book) -> None:
        """A thread has nothing to do for now. Of those whose sessions stay open only so many keep their books."""
        self._resting.rest(book.thread.session_id)
        if self._books.get(book.thread.id) is book:
            self._books[book.thread.id] = self._books.pop(book.thread.id)
        over = max(len(self._books) - _MOST_BOOKS, 0)
        for one in list(islice(filter(self._may_put_away, self._books.values()), over)):
            del self._books[one.thread.id]
            if one.session.closed:
                self._tools.pop(one.thread.session_id, None)

    def _may_put_away(self, book: Book) -> bool:
        return book.is_idle and not self._resting.is_in_hand(book.thread.session_id)

    def _is_busy(self, session_id: str) -> bool:
        return any(book.thread.session_id == session_id and not book.is_idle for book in self._books.values())

    def _forget(self, session_id: str) -> None:
        for thread_id in [key for key, book in self._books.items() if book.thread.session_id == session_id]:
            del self._books[thread_id]
        self._tools.pop(session_id, None)


def _before(item_id: str) -> str:
    """An id that comes right before that one."""
    return item_id[:-1] + chr(ord(item_id[-1]) - 1) + "~"


def _no_thread(thread_id: str) -> ThreadNotFound:
    return ThreadNotFound(f"there is no thread {thread_id!r}")
