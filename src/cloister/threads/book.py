"""The book of one thread: its turns one after the other, what is said in their middle, and how they end.

A turn is in progress, others stand in line behind it. What has been decided here is decided: every decision is made in
one step of the event loop, and then written down under the fence of the thread's session, whose owner is the only one
to write. Idle threads have no book.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from cloister.core.cell import Content
from cloister.core.diagnostic import ErrorObject
from cloister.core.dynamic import DynamicToolCallResult, DynamicToolSpec
from cloister.core.errors import (
    CloisterError,
    InvalidInput,
    LeaseLost,
    OperationConflict,
    QueueFull,
    SessionClosed,
    StoreUnavailable,
    TurnNotFound,
    within,
)
from cloister.core.item import Item, ItemKind, UserMessage
from cloister.core.strand import Strand
from cloister.core.thread import Thread, Wake, parse_patch
from cloister.core.turn import Status, SteerParams, SteerReceipt, Turn, TurnParams, TurnUsage
from cloister.core.wire import keep_json, to_json
from cloister.ports.clock import Clock
from cloister.ports.rows import Write
from cloister.ports.store import Store
from cloister.ports.telemetry import IN_TURN
from cloister.sessions.session import Session
from cloister.threads.background import Background
from cloister.threads.client_tools import ClientTools, check_tools
from cloister.threads.compacting import Place, compact
from cloister.threads.driver import Choice, Driver, ModelDriver, TurnEnd
from cloister.threads.environments import environment_of
from cloister.threads.finishing import NAME as FINISH
from cloister.threads.inputs import Line
from cloister.threads.open_turn import BudgetSpent, OpenTurn
from cloister.threads.pen import Pen
from cloister.threads.rows import first_item_of, item_of, turn_of
from cloister.threads.state import Machine, Move
from cloister.threads.stopping import stop_cells
from cloister.threads.streams import Streams

log = logging.getLogger("cloister.threads")
# Turns of one thread that have not ended.
MAX_TURNS = 32
_INTERRUPTED = ErrorObject("INTERRUPTED", "the turn was interrupted")
_AGAIN_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class _Live:
    turn: Turn
    digest: str
    machine: Machine
    work: "asyncio.Task[None] | None" = None
    # Done when its end is written down.
    over: "asyncio.Future[Turn]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Book:
    def __init__(
        self,
        thread: Thread,
        session: Session,
        pen: Pen,
        store: Store,
        streams: Streams,
        clock: Clock,
        tools: ClientTools,
        driver_of: Callable[[Thread], Driver],
        on_idle: Callable[["Book"], None],
        sent: Callable[[], Awaitable[None]],
        strand_of: Callable[[str, str], Strand | None],
        background: Background,
    ) -> None:
        self._background = background
        self._strand_of = strand_of
        self._sent = sent
        self.thread = thread
        self.session = session
        self.pen = pen
        self._store = store
        self._streams = streams
        self._clock = clock
        self._tools = tools
        self._driver_of = driver_of
        self._on_idle = on_idle
        self._live: dict[str, _Live] = {}
        self._line = Line(pen, store)
        self._last_number = 0
        self._closing = False
        # It is about to see whether to begin a turn by itself.
        self._is_waking = False
        # One operation key makes one turn, and one id of a client's one input, although the store is asked in between.
        self._one_at_a_time = asyncio.Lock()
        # A model is asked for one summary at a time.
        self._compacting = asyncio.Lock()

    @property
    def is_idle(self) -> bool:
        return not (self._live or self._is_waking or self._one_at_a_time.locked())

    async def load(self) -> None:
        """What has been written down of it."""
        rows = await self._store.turns(thread_id=self.thread.id)
        self._last_number = max((row.number for row in rows), default=0)
        for row in rows:
            if row.live:
                turn = turn_of(row)
                self._live[turn.id] = _Live(turn, row.doc["digest"], Machine(turn.status))
        await self._line.load()
        await self._background.watch_again(self._store, self.session, self.thread.id)

    def resume(self) -> None:
        """Go on with what another process has left in the middle."""
        for live in self._live.values():
            if live.turn.status is Status.IN_PROGRESS:
                if live.work is None:
                    self._start_work(live, resumed=True)
                return
        self._start_next()

    async def close(self) -> None:
        """The host goes: turns stay as they were written down, for whoever comes next."""
        self._closing = True
        tasks = [live.work for live in self._live.values() if live.work is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # -- begun -------------------------------------------------------------------------------------------------------

    async def begin(self, params: TurnParams) -> tuple[Turn, bool]:
        """The turn, and whether its operation_key has made it before."""
        choice = self._choice(params.model, switch_provider=params.switch_provider)
        check_tools(self.thread.dynamic_tools, params.dynamic_tools)
        environment_id = environment_of(self.thread, params.environment_id)
        async with self._one_at_a_time:
            digest = params.digest()
            if params.operation_key is not None:
                found = await self._store.turns(thread_id=self.thread.id, operation_key=params.operation_key, limit=1)
                if found:
                    if found[0].doc["digest"] != digest:
                        raise OperationConflict(
                            f"operation {params.operation_key!r} of thread {self.thread.id!r} was another one before",
                            hint="use a new operation_key for what is new",
                        )
                    live = self._live.get(found[0].id)
                    return (live.turn if live is not None else turn_of(found[0])), True
            if len(self._live) >= MAX_TURNS:
                raise QueueFull(f"thread {self.thread.id!r} has {MAX_TURNS} turns that have not ended")
            with within("environment_id"):
                await self._base(environment_id)
            turn = self._new_turn(
                params.input,
                params.model or self.thread.model if choice is None else choice.model,
                environment_id=environment_id,
                dynamic_tools=params.dynamic_tools,
                operation_key=params.operation_key,
                budget=params.budget,
                switch_provider=params.switch_provider,
                accepts_finish=params.accepts_finish,
            )
            return await self._accept(turn, digest), False

    def _new_turn(self, said: Content, model: str | None, **more: Any) -> Turn:
        made, now = self.pen.new_id("trn_"), self.pen.now()
        return Turn(made, self.thread.id, self._last_number + 1, Status.QUEUED, now, said, model=model, **more)

    async def _accept(self, turn: Turn, digest: str) -> Turn:
        live = _Live(turn, digest, Machine())
        at_once = not self._live
        self._live[turn.id] = live
        try:
            if at_once:
                await self._offer(turn)
                await self._write_start(live)
            else:
                await self.pen.write(*self.pen.turn("turn.queued", turn, digest))
        except BaseException:
            del self._live[turn.id]
            self._tools.withdraw(turn.id)
            raise
        self._last_number = turn.number
        if at_once:
            self._start_work(live, resumed=False)
        else:
            # The one before it may have ended meanwhile.
            self._start_next()
        return live.turn

    async def wake(self) -> None:
        """Begin a turn by itself, if the thread is to be woken, none is in progress, and a cell has something to tell
        that no turn was begun for."""
        try:
            async with self._one_at_a_time:
                if self._closing or self._live or self.thread.wake is not Wake.TURN:
                    return
                for row in self._line.notices():
                    key = f"wake:{row.id}"
                    if not await self._store.turns(thread_id=self.thread.id, operation_key=key, limit=1):
                        choice, cell_id = self._choice(None, switch_provider=False), str(row.doc["cell_id"])
                        turn = self._new_turn((), choice and choice.model, operation_key=key, woken_by=cell_id)
                        await self._accept(turn, "")
                        return
        finally:
            self._is_waking = False

    def _choice(self, model: str | None, *, switch_provider: bool) -> Choice | None:
        """Which model is meant, where models drive. Raises what keeps the thread from being driven by it."""
        driver = self._driver_of(self.thread)
        if not isinstance(driver, ModelDriver):
            return None
        return driver.choose(self.thread, model, switch_provider=switch_provider)

    def _remembering(self, turn: Turn) -> Thread:
        """The thread as it is once that turn has begun: it goes on with whoever it has talked to."""
        choice, thread = self._choice(turn.model, switch_provider=turn.switch_provider), self.thread
        if choice is None or thread.provider == choice.provider:
            return thread
        return replace(thread, provider=choice.provider, model=choice.model, updated_at=self.pen.now())

    async def _offer(self, turn: Turn) -> None:
        """Have the client's tools among those of the session before anything of the turn runs."""
        specs = self._specs(turn)
        if not specs and not turn.accepts_finish:
            return
        for name in (*(spec.full_name for spec in specs), *((FINISH,) if turn.accepts_finish else ())):
            known = self.session.tools.get(name)
            if known is not None and getattr(known, "source", None) is not self._tools:
                raise InvalidInput(
                    f"session {self.session.id!r} has a tool {name!r} of its own",
                    hint="give the client's tool another name, or a namespace",
                )
        self._tools.offer(turn.id, specs, may_finish=turn.accepts_finish)
        await self.session.refresh(self._tools.name)

    async def _base(self, environment_id: str, *, must_exist: bool = True) -> str:
        """Where relative paths begin in it; refused by name if that is no directory."""
        cwd = next((one.cwd for one in self.thread.environments if one.environment_id == environment_id), "/")
        return await self.session.base_in(environment_id, cwd, must_exist=must_exist)

    def _specs(self, turn: Turn) -> tuple[DynamicToolSpec, ...]:
        return (*self.thread.dynamic_tools, *turn.dynamic_tools)

    async def _write_start(self, live: _Live) -> None:
        thread = self._remembering(live.turn)
        live.machine.move(Move.START)
        now = self.pen.now()
        turn = replace(live.turn, status=live.machine.status, started_at=now)
        said = Item(
            self.pen.new_id("itm_"),
            self.thread.id,
            turn.id,
            ItemKind.USER_MESSAGE,
            Status.COMPLETED,
            now,
            UserMessage(turn.input),
            now,
        )
        writes: list[Write] = [*self.pen.turn("turn.started", turn, live.digest)]
        # One that has woken by itself was told nothing yet.
        writes += self.pen.item(said) if turn.input else ()
        writes += self.pen.thread("thread.updated", thread) if thread is not self.thread else ()
        await self.pen.write(*writes)
        live.turn, self.thread = turn, thread

    def _start_next(self) -> None:
        """Whose turn it is, if nobody's is in progress."""
        if self._closing or any(live.work is not None for live in self._live.values()):
            return
        for live in self._live.values():
            if live.machine.status is Status.QUEUED:
                live.work = asyncio.get_running_loop().create_task(self._begin_queued(live), name=live.turn.id)
                return
        if not self._live:
            if self.thread.wake is Wake.TURN and self._line.notices():
                self._is_waking = True
                self._background.soon(self.wake(), self.thread.id)
            self._on_idle(self)

    async def _begin_queued(self, live: _Live) -> None:
        try:
            await self._offer(live.turn)
            async with self._one_at_a_time:
                await self._write_start(live)
        except CloisterError as error:
            if live.machine.status is Status.QUEUED or not isinstance(error, (LeaseLost, SessionClosed)):
                await self._end(live, Move.FAIL, TurnEnd(ErrorObject(error.code, error.message, error.hint)))
            return
        await self._work(live, resumed=False)

    # -- worked on ---------------------------------------------------------------------------------------------------

    def _start_work(self, live: _Live, *, resumed: bool) -> None:
        live.work = asyncio.get_running_loop().create_task(self._work(live, resumed=resumed), name=live.turn.id)

    async def _work(self, live: _Live, *, resumed: bool) -> None:
        # In a task of its own, and in those that it starts.
        IN_TURN.set(live.turn.id)
        try:
            move, end = Move.COMPLETE, await self._drive(live, resumed=resumed)
            if end.error is not None:
                move = Move.FAIL
        except asyncio.CancelledError:
            # Interrupted, which writes the end, or the host goes, and there is none.
            return
        except (LeaseLost, SessionClosed) as error:
            log.warning("turn %s goes on elsewhere, if it does: %s", live.turn.id, error)
            return
        except BudgetSpent as spent:
            move, end = Move.FAIL, TurnEnd(spent.error)
        except CloisterError as error:
            move, end = Move.FAIL, TurnEnd(ErrorObject(error.code, error.message, error.hint))
        # Containment: whatever a driver does, its turn has an end.
        except Exception:
            log.exception("the driver of turn %s broke", live.turn.id)
            move, end = Move.FAIL, TurnEnd(ErrorObject("INTERNAL", "the driver of the turn broke; the log says why"))
        await self._end(live, move, end)

    async def _drive(self, live: _Live, *, resumed: bool) -> TurnEnd:
        turn = live.turn
        opened = OpenTurn(
            self.thread,
            turn,
            self.session,
            self._specs(turn),
            self.pen,
            self._store,
            self._streams,
            self._line,
            self._sent,
            self._background,
            resumed=resumed,
            # What it had begun in may be gone by its own doing.
            base=await self._base(turn.environment_id, must_exist=not resumed),
        )
        await opened.load()
        driver = self._driver_of(self.thread)
        try:
            if turn.budget.wall_ms is None or turn.started_at is None:
                return await driver.run(opened)
            left_ms = turn.budget.wall_ms - (self.pen.now() - turn.started_at).total_seconds() * 1000
            return await self._within(driver.run(opened), left_ms, turn.budget.wall_ms)
        finally:
            await opened.leave()

    async def _within(self, work: Awaitable[TurnEnd], left_ms: float, wall_ms: int) -> TurnEnd:
        """On the host's clock, which tests can move."""
        running = asyncio.ensure_future(work)
        timer = asyncio.ensure_future(self._clock.sleep(max(left_ms, 0) / 1000))
        try:
            await asyncio.wait((running, timer), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            raise BudgetSpent(
                ErrorObject("BUDGET_SPENT", f"the turn has taken the {wall_ms} ms that it may", "give it more wall_ms")
            )
        finally:
            for one in (running, timer):
                one.cancel()
            await asyncio.wait((running, timer))

    # -- in the middle -----------------------------------------------------------------------------------------------

    async def steer(self, turn_id: str, params: SteerParams) -> SteerReceipt:
        async with self._one_at_a_time:
            is_over = partial(self._is_over, turn_id)
            return await self._line.say("steer", params.input, params.id, turn_id, is_over=is_over)

    def _is_over(self, turn_id: str) -> bool:
        live = self._live.get(turn_id)
        return live is None or live.machine.status.is_final

    async def notify(self, content: object, client_id: str | None = None, **more: Any) -> SteerReceipt:
        """Something that nobody said, such as the end of a background cell: for the next request of this thread,
        whichever turn makes it."""
        said = SteerParams(content, client_id)
        async with self._one_at_a_time:
            return await self._line.say("notification", said.input, said.id, None, **more)

    async def interrupt(self, turn_id: str) -> Turn:
        """End a turn, for sure: returns when its cells have stopped and its end is written down. One that has ended
        stays as it is."""
        live = self._live.get(turn_id)
        if live is None:
            found = await self._store.turn(turn_id)
            if found is None or found.thread_id != self.thread.id:
                raise TurnNotFound(f"thread {self.thread.id!r} has no turn {turn_id!r}")
            return turn_of(found)
        if not live.machine.status.is_final:
            await self.pen.write(self.pen.event("turn.interrupt_requested", {"turn_id": turn_id}, turn_id))
        if live.machine.status.is_final:
            return await asyncio.shield(live.over)
        work = live.work
        end = asyncio.ensure_future(self._end(live, Move.INTERRUPT, TurnEnd(_INTERRUPTED), stop=work))
        await asyncio.shield(end)
        return await asyncio.shield(live.over)

    async def answer(self, turn_id: str, call_id: str, result: DynamicToolCallResult) -> None:
        await self._tools.answer(self.thread.id, turn_id, call_id, result)

    # -- ended -------------------------------------------------------------------------------------------------------

    async def _end(self, live: _Live, move: Move, end: TurnEnd, stop: "asyncio.Task[None] | None" = None) -> None:
        """The one point where completion, failure and interruption meet: the first decides, the others do nothing."""
        if not live.machine.move(move):
            return
        if stop is not None and not stop.done():
            stop.cancel()
            await asyncio.wait([stop])
        while True:
            try:
                if move is not Move.COMPLETE:  # first: a program that is told that its calls are cancelled would go on
                    await stop_cells(self.session, self._store, live.turn.id, self._strand_of)
                await self._tools.turn_ended(live.turn.id)
                # What its cells have told comes before its end.
                await self._sent()
                await self._write_end(live, end)
                break
            except StoreUnavailable as error:
                # What has been decided must be written down, or the turn would be gone on with.
                log.warning("the end of turn %s could not be written down yet: %s", live.turn.id, error)
                await self._clock.sleep(_AGAIN_SECONDS)
            except (LeaseLost, SessionClosed) as error:
                log.warning("the end of turn %s was not written down: %s", live.turn.id, error)
                break
        self._live.pop(live.turn.id, None)
        if not live.over.done():
            live.over.set_result(live.turn)
        live.work = None
        self._start_next()

    async def _write_end(self, live: _Live, end: TurnEnd) -> None:
        answers = await self._store.answers(live.turn.id)
        usage = sum((keep_json(TurnUsage, row.doc["usage"]) for row in answers), TurnUsage())
        now = self.pen.now()
        turn = replace(
            live.turn,
            status=live.machine.status,
            ended_at=now,
            usage=usage,
            error=end.error,
            finished=end.finished,
            answer=end.answer,
        )
        mine = self._line.take(lambda row: row.turn_id == turn.id)
        writes = [write for row in mine for write in self._line.dropped(row)]
        if turn.status is not Status.COMPLETED:
            for item in await self._unfinished(turn.id):
                writes += self.pen.item(replace(item, status=turn.status, ended_at=now))
        try:
            await self.pen.write(*writes, *self.pen.turn("turn.completed", turn, live.digest))
        except BaseException:
            self._line.give_back(mine)
            raise
        live.turn = turn

    async def _unfinished(self, turn_id: str) -> list[Item]:
        rows = await self._store.items(self.thread.id, after=first_item_of(turn_id))
        return [item_of(row) for row in rows if row.turn_id == turn_id and row.state == Status.IN_PROGRESS]

    # -- the thread itself -------------------------------------------------------------------------------------------

    async def patch(self, patch: Mapping[str, Any]) -> Thread:
        changes = parse_patch(patch)
        async with self._one_at_a_time:
            made = keep_json(Thread, {**to_json(self.thread), **changes})
            changed = replace(made, updated_at=self.pen.now())
            await self.pen.write(*self.pen.thread("thread.updated", changed))
            self.thread = changed
        return self.thread

    async def compact(
        self, summary: str | None = None, through_item_id: str | None = None, keep_last: int | None = None
    ) -> Item:
        """From now on a model is told a summary in place of what was said. The log stays whole."""
        async with self._compacting:
            driver = None if summary is not None else self._driver_of(self.thread)
            place = Place(self.thread, self.pen, self._store, list(self._live))
            return await compact(place, driver, summary, through_item_id, keep_last)
