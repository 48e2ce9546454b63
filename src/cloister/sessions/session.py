"""A session: where programs live. Runs them one at a time, in order, in one namespace that lasts."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from cloister.cells.life import Life
from cloister.cells.notes import with_hint
from cloister.cells.order import Place
from cloister.cells.seats import Seats
from cloister.core.cell import CellInfo, Failed, Observation
from cloister.core.codes import Code, status_of
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import InvalidInput, SessionClosed, SnapshotForeign, SnapshotVersionMismatch
from cloister.core.history import PastCell
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.core.operation import Operation
from cloister.core.run import RunResult
from cloister.core.strand import Strand
from cloister.gate import Gate, Handles, Scope
from cloister.ports.clock import moment
from cloister.ports.engine import Turn
from cloister.ports.rows import CellRow, SecretRow, SessionRow, Write
from cloister.ports.store import Store
from cloister.sessions.asleep import put_to_sleep
from cloister.sessions.beginning import first_files, first_namespace, first_writes, mark_of
from cloister.sessions.belongings import Belongings
from cloister.sessions.carrying import carried
from cloister.sessions.cells import Cells
from cloister.sessions.checking import ASLEEP, check_program, checked_result
from cloister.sessions.described import Described
from cloister.sessions.direct import DirectCalls, Within
from cloister.sessions.direct_rows import DirectRows
from cloister.sessions.envelope import Envelope, seal, unseal
from cloister.sessions.events import EventStream
from cloister.sessions.furnished import Furnished
from cloister.sessions.grounds import Grounds, SessionOptions
from cloister.sessions.history import envelope_at, read_history
from cloister.sessions.making import Listener
from cloister.sessions.portrait import Portrait
from cloister.sessions.prompt import PreambleWriter
from cloister.sessions.request import check_cwd, check_ids, check_switch, check_yield, lasting, observing_terms, prepare
from cloister.sessions.setting import Setting
from cloister.sessions.tooled import Tooled
from cloister.sessions.values import Values


class Session(Described, Tooled, Furnished):
    """Made by `Cloister.open_session`; not by hand."""

    def __init__(
        self,
        options: SessionOptions,
        grounds: Grounds,
        seats: Seats,
        *,
        origin: Envelope | None = None,
        kept: SessionRow | None = None,
        fork: Callable[[Envelope, str | None, Belongings], Awaitable["Session"]] | None = None,
        parent: Belongings | None = None,
        on_close: Callable[["Session"], None] | None = None,
    ) -> None:
        self._options = options
        self._catalog = grounds.catalog
        self._seats = seats
        self._clock = grounds.wiring.clock
        self._ids = grounds.wiring.ids
        self._desk = grounds.wiring.desk
        self._keys = grounds.snapshot_keys
        self._ledger = grounds.ledger
        self._keeper = self._ledger.keeper(options.id, options.durability, kept) if self._ledger is not None else None
        self._belongings = Belongings.of(
            options.id, grounds, self._keeper, parent, options.tenant, options.environments
        )
        environments = self._belongings.environments
        # Known to this session's programs only, so that no text from elsewhere is taken for a secret's handle.
        self._mark = mark_of(origin, kept)
        self._handles = Handles(self._mark, self._belongings.secrets.provider)
        scope = Scope(options.id, options.language, options.labels, grounds.acts_for)
        self._plugins = grounds.plugins
        hooks = grounds.hooks.then(self._plugins.hooks)
        self._gate = Gate(self.tools, grounds.wiring, scope, grounds.policy, hooks, self._handles)
        self._preambles = PreambleWriter(self.tools, options.language, options.limits, self._plugins.parts)
        rows = DirectRows(self._keeper, options.id, self._clock, self._handles, self._leaving) if self._keeper else None
        self._direct = DirectCalls(self._gate, self._ids, grounds.events, options.id, rows)
        self._supervisor = grounds.supervisor
        self._events = grounds.events
        self._on_close = on_close
        self._fork = fork
        self._created_ms = self._used_ms = self._clock.now_ms()
        if kept is not None:
            self._created_ms, self._used_ms = kept.created_ms, kept.used_ms
            self._gate.counts.update(kept.doc["calls"])
        self._closed = False
        self._portrait = Portrait(
            options,
            seats.engine,
            self.tools,
            self._gate,
            self._mark,
            lambda: grounds.own_terms or bool(self._catalog.own_overlays),
            self._created_ms,
            grounds.plugins,
            environments.names,
        )
        is_new = kept is None and origin is None
        self._files = first_files(options, grounds, self._keeper, environments.mounts(), is_new=is_new)
        self._values = Values(self._clock, keep=self._keeper.values if self._keeper is not None else None)
        self._plugins.bind(self._values)
        setting = Setting(
            session_id=options.id,
            limits=options.limits,
            type_check=options.type_check,
            seats=seats,
            gate=self._gate,
            handles=self._handles,
            clock=self._clock,
            ids=self._ids,
            desk=self._desk,
            supervisor=grounds.supervisor,
            files=self._files,
            values=self._values,
            catalog=partial(self._catalog.current, options.language, self._mark),
            events=grounds.events,
            keeper=self._keeper,
            row=self.row,
            leaving=self._leaving,
        )
        # What a cell may use that may outlive its caller.
        self._enduring = replace(options.limits, wall_ms=self._supervisor.limits.cell_wall_ms)
        self._cells = Cells(setting, first_namespace(options, origin, kept, self._ledger))
        if origin is not None:
            self._take_over(origin)

    # -- what is known of it ---------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self._options.id

    @property
    def language(self) -> Language:
        return self._options.language

    @property
    def limits(self) -> SessionLimits:
        return self._options.limits

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def worker_pid(self) -> int | None:
        """The process that holds the session's namespace now; None while it is only bytes."""
        interpreter = self._cells.driver.interpreter
        return interpreter.pid if interpreter is not None else None

    @property
    def is_asleep(self) -> bool:
        """Whether a cell sleeps here that `resume` must finish: restored in its middle, or waiting for approval."""
        return self._sleeping() is not None

    def events(self, *, since: int | None = None) -> EventStream:
        """What happens here from now on: `async for event in session.events()`. With `since`, what happened after the
        event of that number comes first, if it is in a store."""
        self._check_open()
        if since is not None and self._keeper is None:
            raise InvalidInput("events of before are kept by sessions that are written down", hint="give a store")
        return self._events.subscribe(self.id, since=since)

    # -- running ---------------------------------------------------------------------------------------------

    async def run(
        self,
        code: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        limits: SessionLimits | Mapping[str, int] | None = None,
        timeout_ms: int | None = None,
        return_snapshot: bool = False,
        validate_only: bool = False,
        on_output: Listener | None = None,
        operation: Operation | None = None,
    ) -> RunResult:
        """Run a program to its end, or until it waits for approval. What the program does wrong is in the result,
        never an exception. With an `operation` it is written down that the cell was asked for by that."""
        if validate_only:
            return await self.validate(code, inputs=inputs)
        prepared = prepare(code, inputs, self._options.language, self._options.limits, limits, timeout_ms)
        if isinstance(prepared, ErrorObject):
            return self._refused(prepared)
        self._check_open()
        life = self._cells.new(*prepared, on_output, detached=False, isolated=False)
        self._used_ms, life.operation = life.created_ms, operation
        return await self._cells.run(life, self._with_snapshot if return_snapshot else None) or self._refused(ASLEEP)

    async def resume(self, cell_id: str | None = None, *, on_output: Listener | None = None) -> RunResult:
        """Go on with a run that sleeps: one that waits for approval, or in whose middle the session was restored.
        Of several questions only those that were answered are acted upon; with none answered, nothing happens and the
        cell still waits. Without `cell_id` the one that sleeps here is meant. A cell of `exec` goes on by itself."""
        self._check_open()
        if cell_id is not None and cell_id in self._direct:
            return await self._direct.resume(cell_id)
        if cell_id in self._cells and (run := self._cells.find(cell_id)).run and run.detached:
            # It goes on by itself since the process that ran it has ended.
            await self._cells.watch.to_the_end(run, self._supervisor.limits.max_yield_ms)
            return run.result or self._cells.waiting(run)
        life = self._sleeping()
        if life is None or (cell_id is not None and cell_id != life.id):
            what = "no cell sleeps in this session" if cell_id is None else f"no cell {cell_id!r} sleeps here"
            return self._refused(ErrorObject(Code.INVALID_INPUT, what, "it may have ended, or never have slept"))
        self._used_ms = self._clock.now_ms()
        return await self._cells.resume(life, on_output)

    # -- cells -----------------------------------------------------------------------------------------------

    async def exec(
        self,
        code: str,
        *,
        yield_ms: int = 10_000,
        max_output_tokens: int | None = None,
        isolated: bool = False,
        inputs: Mapping[str, Any] | None = None,
        limits: SessionLimits | Mapping[str, int] | None = None,
        on_output: Listener | None = None,
        on_begin: Callable[[str], object] | None = None,
        strand: Strand | None = None,
        cwd: str | None = None,
        operation: Operation | None = None,
    ) -> Observation:
        """Start a cell and observe it for as long as `yield_ms`; then it goes on, and `wait` tells more.
        Cells run one at a time, in order, in the session's namespace. An `isolated` one has a namespace of its own and
        runs beside them. The first line of `code` may be a pragma that says how long to observe and how much to tell.
        The session's `wall_ms` does not bound it, but the host's `cell_wall_ms` does, or a `wall_ms` among `limits`.
        `on_begin` is told its id at once, for whoever may be cancelled before this returns; `strand` is the step of
        a conversation that it belongs to. `cwd` is the directory of the session's files where relative paths begin.
        `operation` is as with `run`."""
        self._check_open()
        language = self._options.language
        terms = observing_terms(code, language, yield_ms, max_output_tokens, self._supervisor.limits)
        isolated, enduring = check_switch(isolated, "isolated"), self._enduring
        prepared = prepare(code, inputs, language, enduring, lasting(limits, enduring.wall_ms))
        if isinstance(terms, ErrorObject):
            return self._not_begun(terms)
        if isinstance(prepared, ErrorObject):
            return self._not_begun(prepared)
        program, bounds = prepared
        program = replace(program, cwd=check_cwd(cwd)) if cwd is not None else program
        life = self._cells.new(program, bounds, on_output, detached=True, isolated=isolated)
        self._used_ms = life.created_ms
        (observe_ms, life.max_output_bytes), life.strand, life.operation = terms, strand, operation
        self._cells.admit(life)
        if on_begin is not None:
            on_begin(life.id)
        seen = await self._cells.watch.one(life, observe_ms)
        if life.begun is not None and life.result is None:
            # Whoever knows its id can rely on it.
            await life.begun
        return seen

    async def wait(self, cell_id: str, *, yield_ms: int = 10_000, terminate: bool = False) -> Observation:
        """What is new of a cell, as soon as it has ended or waits for approval, and otherwise after `yield_ms`. One
        observer at a time. With `terminate` the cell is ended first; see `terminate`."""
        self._check_open()
        observe_ms = min(check_yield(yield_ms), self._supervisor.limits.max_yield_ms)
        if check_switch(terminate, "terminate"):
            return await self.terminate(cell_id)
        return await self._cells.watch.one(self._cells.find(cell_id), observe_ms)

    async def wait_any(self, cell_ids: Iterable[str], *, timeout_ms: int = 10_000) -> Observation | None:
        """What is new of the first of these cells that has something to tell: that it ended, waits for approval, or
        yielded by itself. None when none has in time."""
        self._check_open()
        timeout_ms = min(check_yield(timeout_ms, "timeout_ms"), self._supervisor.limits.max_yield_ms)
        lives = [self._cells.find(cell_id) for cell_id in check_ids(cell_ids)]
        return await self._cells.watch.first_of(lives, timeout_ms)

    async def cells(self) -> list[CellInfo]:
        """The cells that have not ended, and those whose end nobody has read; the oldest first."""
        return [life.info() for life in self._cells]

    async def terminate(self, cell_id: str) -> Observation:
        """End a cell, for sure: returns when it has stopped and its calls are over. One that ended before tells how.
        The session's variables are as before the cell, and what it stored is not kept; files that it wrote are."""
        self._check_open()
        if cell_id in self._direct:
            return await self._direct.terminate(cell_id)
        return await self._cells.terminate(self._cells.find(cell_id))

    async def decided(self, approval_ids: Sequence[str]) -> None:
        """Returns when one of these questions is not open any more."""
        await self._desk.decided(approval_ids)

    async def call(
        self, name: str, arguments: Mapping[str, Any] | list[Any] | tuple[Any, ...] = (), **within: Unpack[Within]
    ) -> RunResult:
        """Call a tool as a program of this session would: same checks, same policy, same record. `arguments` are by
        name, or in order. For drivers: `strand` is the step of a conversation that it belongs to, and `cell_id` what
        an earlier attempt was made under."""
        self._check_open()
        self._used_ms = self._clock.now_ms()
        return await self._direct.call(name, arguments, self.limits.max_external_calls, **within)

    async def validate(self, code: str, *, inputs: Mapping[str, Any] | None = None) -> RunResult:
        """What a check finds in a program, without running any of it."""
        began = self._clock.monotonic()
        prepared = prepare(code, inputs, self.language, self.limits)
        if isinstance(prepared, ErrorObject):
            return self._refused(prepared)
        program, bounds = prepared
        self._check_open()
        now_ms, catalog = self._clock.now_ms(), self._catalog.current(self.language, self._mark)
        turn = Turn(now_ms, bounds.wall_ms, bounds.cpu_ms, lambda _s, _t: None, catalog)
        checked = await check_program(self._cells, self._seats, program, self._options.type_check, turn)
        if checked is None:
            return self._refused(ASLEEP)
        return checked_result(checked, self._ids.new("cel_"), self._clock.monotonic() - began)

    # -- bytes -----------------------------------------------------------------------------------------------

    async def snapshot(self) -> bytes:
        """The session as bytes that `Cloister.restore_session` opens again. While a cell waits for a call, its program
        is in there too, asleep; while it computes, this waits until it does either."""
        return seal(await carried(await self._freeze(), self._files), await self._keys.ring(make=True))

    async def _freeze(self) -> Envelope:
        self._check_open()
        await self._belongings.load()
        if (dumped := await self._cells.driver.dump()) is not None:
            return self._envelope(dumped[0], put_to_sleep(dumped[1]))
        place = await self._cells.order.turn()
        if place is None:
            return self._asleep_envelope()
        try:
            return self._envelope(await self._seats.save(self._cells.driver.namespace), None)
        finally:
            self._cells.order.leave(place)

    def _asleep_envelope(self) -> Envelope:
        front = self._cells.front
        if front is None or front.sleeper is None:
            raise SessionClosed(f"session {self.id!r} is closed")
        return self._envelope(front.sleeper.image, put_to_sleep(front.cell))

    async def history(self) -> list[PastCell]:
        """What this session has done, the oldest first, if it is written down."""
        return await read_history(await self._stored(), self.id)

    async def fork(self, at: str | None = None, *, session_id: str | None = None) -> "Session":
        """A new session that is as this one is now or, in a store, as it was `at` the end of the cell of that id, or
        where a program waited for the call of that id. Then the program sleeps there, and `resume` makes the call anew.
        It has the tools and terms of this one. `session_id` names it."""
        self._check_open()
        if self._fork is None:
            raise InvalidInput(f"session {self.id!r} cannot be forked")
        if at is None:
            return await self._fork(await self._freeze(), session_id, self._belongings)
        origin = await envelope_at(await self._stored(), self.id, at, self._envelope(None, None))
        return await self._fork(origin, session_id, await self._belongings.load())

    async def _stored(self) -> Store:
        """The store, with all in it that has happened until now."""
        self._check_open()
        if self._ledger is None or self._keeper is None:
            raise InvalidInput(f"session {self.id!r} is not written down", hint="give a store to the Cloister")
        await self._ledger.ink.settle(self.id)
        return self._ledger.store

    async def restore(self, snapshot: bytes) -> None:
        """Go back to an earlier snapshot of this very session; what it held is given up. Raises a `SnapshotError` and
        changes nothing if the snapshot is not of this session, or cannot be used."""
        envelope = unseal(snapshot, await self._keys.ring())
        if envelope.session_id != self.id:
            raise SnapshotForeign(
                f"the snapshot is of session {envelope.session_id!r}, this is {self.id!r}",
                hint="make a copy of it: restore_session(snapshot, session_id=...)",
            )
        self.check_origin(envelope)
        self._check_open()
        await self._cells.start_over(first_namespace(self._options, envelope), partial(self._take_over, envelope))
        if self._keeper is not None:
            await self._keeper.session(self.row(self._keeper.image))
        self.tell_of_itself(envelope)

    def check_origin(self, envelope: Envelope) -> None:
        """Refuse an envelope that this session cannot go on with."""
        engine = self._seats.engine
        if (envelope.engine, envelope.engine_version) != (engine.name, engine.version):
            raise SnapshotVersionMismatch(
                f"the snapshot was made by {envelope.engine_version!r}; this is {engine.version!r}",
                hint="restore it with the same release of the engine",
            )
        envelope.check_capabilities(self.tools.digests())

    async def close(self) -> None:
        """Give everything back. Closing twice is fine; a cell under way is stopped, and nobody is asked any more."""
        if self._closed:
            return
        self._closed = True
        self._cells.stop()
        self._desk.forget_session(self.id)
        await self._direct.close()
        await self._cells.close()
        self._events.emit("session.closed", self.id, {})
        if self._keeper is not None:
            # While the session is still ours.
            await self._events.flush()
        self._events.close(self.id)
        self._files.close()
        self._plugins.close()
        await self._catalog.close()
        if self._on_close is not None:
            self._on_close(self)

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # -- inside ----------------------------------------------------------------------------------------------

    def first_writes(self) -> list[Write]:
        """What there is of the session before it has run anything."""
        return [*self._what_is(), *self._belongings.first_writes()]

    def _what_is(self) -> list[Write]:
        return first_writes(self.row, self._cells.driver.namespace, self._values, self._files, self._keeper)

    def row(self, image: str | None) -> SessionRow:
        """The session as it is written down; `image` names its namespace's bytes."""
        last_cell, seed = self._keeper.last_cell if self._keeper is not None else 0, self._cells.driver.namespace.seed
        return self._portrait.row(image, used_ms=self._used_ms, seed=seed, last_cell=last_cell)

    async def take_up(self, cells: Iterable[CellRow], secrets: Sequence[SecretRow]) -> dict[str, str]:
        """What another process had written down of this session, and what becomes of each of these cells."""
        assert self._ledger is not None
        await self._belongings.secrets.take_up(secrets)
        store, rows = self._ledger.store, sorted(cells, key=lambda row: (row.number, row.id))
        self._values.take_up(await store.values(self.id))
        self._files.take_up(await store.files(self.id))
        if self._keeper is not None:
            self._keeper.last_cell = max([self._keeper.last_cell, *(row.number for row in rows)])
        return {row.id: self._direct.take_up(row) or self._cells.take_up(row, store) for row in rows}

    def _take_over(self, origin: Envelope, place: Place | None = None) -> bool:
        """What the session has from `origin` beside its namespace. Whether a cell sleeps here now, at `place`."""
        self._gate.counts.clear()
        self._gate.counts.update(origin.calls)
        gone = self._values.start_over(origin.values)
        self._files.replace(origin.files, origin.contents)
        if place is not None and self._keeper is not None:
            self._keeper.write([*self._keeper.gone(gone), *self._what_is()])
        if origin.cell is not None and origin.state is not None:
            # A copy is another cell: two branches must not share the keys of their calls.
            own = {} if origin.session_id == self.id else {"id": self._ids.new("cel_")}
            self._cells.lay_asleep({**origin.cell, **own}, origin.state, place)
            return True
        return False

    def _sleeping(self) -> Life | None:
        """The cell that sleeps here until somebody takes it up."""
        front = self._cells.front
        return front if front is not None and front.sleeper is not None and not front.detached else None

    async def _with_snapshot(self, result: RunResult) -> RunResult:
        await self._belongings.load()
        asleep = self._sleeping() is not None
        state = None if asleep else await self._seats.save(self._cells.driver.namespace)
        envelope = self._asleep_envelope() if asleep else self._envelope(state, None)
        snapshot = seal(await carried(envelope, self._files), await self._keys.ring(make=True))
        return replace(result, snapshot_id=self._ids.new("snp_"), snapshot=snapshot)

    def _envelope(self, state: bytes | None, cell: Mapping[str, Any] | None) -> Envelope:
        return self._portrait.envelope(
            state,
            cell,
            now=moment(self._clock.now_ms()),
            seed=self._cells.driver.namespace.seed,
            values=dict(self._values.view()),
            files=self._files.entries(),
            left_out=self._cells.left_out() + self._belongings.left_out(),
        )

    def _refused(self, error: ErrorObject) -> RunResult:
        return RunResult(status=status_of(error.code), cell_id=self._ids.new("cel_"), error=with_hint(error))

    def _not_begun(self, error: ErrorObject) -> Failed:
        return Failed(cell_id=self._ids.new("cel_"), error=with_hint(error))

    def _leaving(self) -> bool:
        return self._ledger is not None and self._ledger.leaving

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed(f"session {self.id!r} is closed")
