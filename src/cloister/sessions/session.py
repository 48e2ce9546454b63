"""A session: where programs live. Runs them one at a time, in order, in one namespace that lasts."""

import asyncio
import os
import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cloister.cells.output import Output, Stream
from cloister.cells.runner import Cell
from cloister.cells.seats import Namespace, Seats
from cloister.cells.tape import Recording
from cloister.core.codes import Code, RunStatus, status_of
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import SessionClosed, SnapshotForeign, SnapshotVersionMismatch
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.core.run import Metrics, RunResult
from cloister.core.session import SessionMeta
from cloister.core.wire import format_time
from cloister.gate import Budget, Gate, Handles, Hooks, Policy, Scope, Wiring
from cloister.ports.clock import moment
from cloister.ports.engine import Catalog, Program, Turn, TypeCheck
from cloister.ports.secrets import SecretProvider
from cloister.sessions.asleep import put_to_sleep, wake
from cloister.sessions.direct import DirectCalls
from cloister.sessions.driver import CLOSED, Driver, Drove, Sleeper
from cloister.sessions.envelope import Envelope, seal, unseal
from cloister.sessions.notes import first_error, with_hint
from cloister.sessions.request import prepare
from cloister.sessions.results import Reporter
from cloister.tools.catalog import CatalogCache, render_stubs
from cloister.tools.registry import ToolRegistry

_ASLEEP = ErrorObject(
    Code.INVALID_INPUT, "the session sleeps in the middle of a cell", "resume() or terminate() that cell first"
)
_TERMINATED = ErrorObject(Code.CANCELLED, "the cell was terminated", "run it again if it should go on")
_MARK_LETTERS = string.ascii_lowercase + string.digits
Listener = Callable[[Stream, str], None]


@dataclass(frozen=True, slots=True)
class SessionOptions:
    id: str
    language: Language = Language.PYTHON
    limits: SessionLimits = field(default_factory=SessionLimits)
    type_check: TypeCheck = TypeCheck.WARN
    title: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a session is built on: the tools it was granted and the terms they are granted under."""

    tools: ToolRegistry
    policy: Policy
    hooks: Hooks
    secrets: SecretProvider
    wiring: Wiring
    catalogs: CatalogCache
    snapshot_key: Callable[[], bytes]


class Session:
    """Made by `Cloister.open_session`; not by hand."""

    def __init__(
        self,
        options: SessionOptions,
        grounds: Grounds,
        seats: Seats,
        *,
        origin: Envelope | None = None,
        on_close: Callable[["Session"], None] | None = None,
    ) -> None:
        self._options = options
        self._tools = grounds.tools
        self._catalogs = grounds.catalogs
        self._seats = seats
        self._clock = grounds.wiring.clock
        self._ids = grounds.wiring.ids
        self._desk = grounds.wiring.desk
        self._key = grounds.snapshot_key
        # Known to this session's programs only, so that no text from elsewhere is taken for a secret's handle.
        self._mark = origin.mark if origin is not None and origin.mark else _new_mark()
        self._handles = Handles(self._mark, grounds.secrets)
        scope = Scope(options.id, options.language, options.labels)
        self._gate = Gate(grounds.tools, grounds.wiring, scope, grounds.policy, grounds.hooks, self._handles)
        self._direct = DirectCalls(self._gate, self._ids)
        self._reporter = Reporter(self._handles)
        self._on_close = on_close
        self._catalog: Catalog | None = None
        self._catalog_generation = -1
        self._created_ms = self._used_ms = self._clock.now_ms()
        self._closed = False
        # One cell at a time, in the order in which they were asked for.
        self._order = asyncio.Lock()
        # A cell that must be taken up before anything else runs.
        self._sleeper: Sleeper | None = None
        self._driver = self._drive_from(origin)

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
    def tools(self) -> ToolRegistry:
        return self._tools

    @property
    def stubs(self) -> str:
        """What a program may call, written in the session's language: for the prompt of whoever writes programs."""
        return render_stubs(self._tools, self.language)

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def worker_pid(self) -> int | None:
        """The process that holds the session's namespace now; None while it is only bytes."""
        interpreter = self._driver.interpreter
        return interpreter.pid if interpreter is not None else None

    @property
    def is_asleep(self) -> bool:
        """Whether a cell sleeps here that `resume` must finish: restored in its middle, or waiting for approval."""
        return self._sleeper is not None

    def meta(self) -> SessionMeta:
        return SessionMeta(
            id=self.id,
            created_at=moment(self._created_ms),
            last_used_at=moment(self._used_ms),
            language=self.language,
            limits=self.limits,
            title=self._options.title,
            labels=self._options.labels,
        )

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
    ) -> RunResult:
        """Run a program to its end, or until it waits for approval. What the program does wrong is in the result,
        never an exception."""
        if validate_only:
            return await self.validate(code, inputs=inputs)
        began = self._clock.monotonic()
        prepared = prepare(code, inputs, self.language, self.limits, limits, timeout_ms)
        if isinstance(prepared, ErrorObject):
            return self._refused(prepared)
        program, bounds = prepared
        async with self._order:
            self._check_open()
            self._used_ms = self._clock.now_ms()
            if self._sleeper is not None:
                return self._refused(_ASLEEP)
            cell = self._cell(program, bounds, on_output)
            try:
                result = await self._finish(cell, await self._driver.run(cell), began)
            except asyncio.CancelledError:
                if self._sleeper is not None:
                    # It slept while an approver was at work. Whoever ran it is gone, and it goes with them.
                    self._driver.withdraw(self._sleeper)
                    self._sleeper = None
                raise
            return await self._with_snapshot(result) if return_snapshot else result

    async def resume(self, cell_id: str | None = None, *, on_output: Listener | None = None) -> RunResult:
        """Go on with a cell that sleeps: one that waits for approval, or in whose middle the session was restored.

        Of several questions only those that were answered are acted upon; with none answered, nothing happens and
        the cell still waits. Without `cell_id` the program that sleeps here is meant.
        """
        began = self._clock.monotonic()
        if cell_id is not None and cell_id in self._direct:
            self._check_open()
            return await self._direct.resume(cell_id)
        async with self._order:
            self._check_open()
            sleeper = self._sleeper
            if sleeper is None or (cell_id is not None and cell_id != sleeper.cell.id):
                what = "no cell sleeps in this session" if cell_id is None else f"no cell {cell_id!r} sleeps here"
                return self._refused(ErrorObject(Code.INVALID_INPUT, what, "it may have ended, or never have slept"))
            self._used_ms = self._clock.now_ms()
            sleeper.cell.output.listen(on_output)
            if sleeper.is_only_waiting(self._gate):
                return await self._finish(sleeper.cell, sleeper, began)
            return await self._finish(sleeper.cell, await self._wake(sleeper), began)

    async def terminate(self, cell_id: str) -> RunResult:
        """End a cell that waits for approval. Nobody is asked any more, and the variables are as before the cell."""
        self._check_open()
        if cell_id in self._direct:
            return self._direct.terminate(cell_id)
        sleeper = self._sleeper
        if sleeper is None or sleeper.cell.id != cell_id:
            return self._refused(ErrorObject(Code.INVALID_INPUT, f"no cell {cell_id!r} sleeps here"))
        if sleeper.restored:
            message = f"cell {cell_id!r} came with the session's snapshot, which has no earlier state to go back to"
            return self._refused(ErrorObject(Code.INVALID_INPUT, message, "resume() it, or close the session"))
        self._sleeper = None
        ended = self._driver.terminate(sleeper, _TERMINATED)
        return self._reporter.ended(sleeper.cell, ended, 0.0, cells_forgotten=0)

    async def call(self, name: str, arguments: Mapping[str, Any] | list[Any] | tuple[Any, ...] = ()) -> RunResult:
        """Call a tool as a program of this session would: same checks, same policy, same record. `arguments` are by
        name, or in order."""
        self._check_open()
        self._used_ms = self._clock.now_ms()
        return await self._direct.call(name, arguments, self.limits.max_external_calls)

    async def validate(self, code: str, *, inputs: Mapping[str, Any] | None = None) -> RunResult:
        """What a check finds in a program, without running any of it."""
        began = self._clock.monotonic()
        prepared = prepare(code, inputs, self.language, self.limits)
        if isinstance(prepared, ErrorObject):
            return self._refused(prepared)
        program, bounds = prepared
        async with self._order:
            self._check_open()
            if self._sleeper is not None:
                return self._refused(_ASLEEP)
            namespace = self._driver.namespace
            interpreter = await self._seats.take(namespace)
            try:
                types = TypeCheck.WARN if self._options.type_check is TypeCheck.OFF else self._options.type_check
                checked = await interpreter.check(program, types, self._quiet_turn(bounds), starting=False)
            except BaseException:
                await asyncio.shield(self._seats.lose(namespace))
                raise
            await self._seats.leave(namespace)
        error = first_error(checked.diagnostics)
        return RunResult(
            status=status_of(error.code) if error else RunStatus.OK,
            cell_id=self._ids.new("cel_"),
            diagnostics=checked.diagnostics,
            error=error,
            metrics=Metrics(duration_ms=self._since(began)),
        )

    # -- bytes -----------------------------------------------------------------------------------------------

    async def snapshot(self) -> bytes:
        """The session as bytes that `Cloister.restore_session` opens again. While a cell waits for a call, its
        program is in there too, asleep; while it computes, this waits until it does either."""
        return seal(await self._freeze(), self._key())

    async def _freeze(self) -> Envelope:
        self._check_open()
        dumped = await self._driver.dump()
        if dumped is not None:
            image, cell = dumped
            return self._envelope(image, put_to_sleep(cell))
        if self._sleeper is not None:
            return self._envelope(self._sleeper.image, put_to_sleep(self._sleeper.cell))
        async with self._order:
            if self._sleeper is not None:
                return self._envelope(self._sleeper.image, put_to_sleep(self._sleeper.cell))
            return self._envelope(await self._seats.save(self._driver.namespace), None)

    async def restore(self, snapshot: bytes) -> None:
        """Go back to an earlier snapshot of this very session. What the session held is given up.

        Raises a `SnapshotError` and changes nothing if the snapshot is not of this session, or cannot be used.
        """
        envelope = unseal(snapshot, self._key())
        if envelope.session_id != self.id:
            raise SnapshotForeign(
                f"the snapshot is of session {envelope.session_id!r}, this is {self.id!r}",
                hint="make a copy of it: restore_session(snapshot, session_id=...)",
            )
        self.check_origin(envelope)
        async with self._order:
            self._check_open()
            await self._seats.lose(self._driver.namespace)
            if self._sleeper is not None:
                self._desk.cancel(self._sleeper.cell.approval_ids)
            self._driver = self._drive_from(envelope)

    def check_origin(self, envelope: Envelope) -> None:
        """Refuse an envelope that this session cannot go on with."""
        engine = self._seats.engine
        if (envelope.engine, envelope.engine_version) != (engine.name, engine.version):
            raise SnapshotVersionMismatch(
                f"the snapshot was made by {envelope.engine_version!r}; this is {engine.version!r}",
                hint="restore it with the same release of the engine",
            )
        envelope.check_capabilities(self._tools.digests())

    async def close(self) -> None:
        """Give everything back. Closing twice is fine; a cell under way is stopped, and nobody is asked any more."""
        if self._closed:
            return
        self._closed = True
        self._driver.stop()
        self._desk.forget_session(self.id)
        await self._direct.close()
        async with self._order:
            await self._seats.lose(self._driver.namespace)
        if self._on_close is not None:
            self._on_close(self)

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # -- inside ----------------------------------------------------------------------------------------------

    def _drive_from(self, origin: Envelope | None) -> Driver:
        """A driver for a fresh namespace, or for the one in `origin`, whose cell then sleeps here."""
        self._sleeper = None
        seed = origin.seed if origin is not None else int.from_bytes(os.urandom(7), "big")
        namespace = Namespace(self.limits, seed, origin.state if origin is not None else None)
        if origin is not None:
            self._gate.counts.clear()
            self._gate.counts.update(origin.calls)
            if origin.cell is not None and origin.state is not None:
                # The bytes are those of the sleeping cell; what was before it, nobody knows.
                namespace.state = None
                # A copy is another cell: two branches must not share the keys of their calls.
                own = {} if origin.session_id == self.id else {"id": self._ids.new("cel_")}
                self._sleeper = self._asleep({**origin.cell, **own}, origin.state)
        return Driver(self._seats, namespace, self._gate, self._clock, self._options.type_check)

    def _asleep(self, kept: Mapping[str, Any], image: bytes) -> Sleeper:
        redactor = self._handles.redactor()
        cell = wake(kept, self._current_catalog(), self.limits, self._clock.now_ms(), redactor)
        return Sleeper(cell, image, kept=kept)

    async def _wake(self, sleeper: Sleeper) -> Drove:
        try:
            return await self._driver.wake(sleeper)
        except BaseException:
            if sleeper.stale:
                # Cancelled in the middle: how far the cell had come is not known any more.
                self._driver.withdraw(sleeper)
                self._sleeper = self._asleep(sleeper.kept, sleeper.image) if sleeper.kept is not None else None
            raise

    async def _finish(self, cell: Cell, drove: Drove, began: float) -> RunResult:
        """The result of a drive. While an approver inside this process is at work the cell sleeps, and then goes on."""
        while isinstance(drove, Sleeper):
            if drove.kept is not None:
                drove.kept = put_to_sleep(cell)
            self._sleeper = drove
            if not await self._desk.answered(cell.approval_ids):
                approvals = [self._desk.get(approval_id) for approval_id in cell.approval_ids]
                return self._reporter.waiting(cell, approvals, drove.diagnostics, self._since(began))
            if self._closed or self._sleeper is not drove:
                drove = self._driver.terminate(drove, CLOSED if self._closed else _TERMINATED)
                break
            drove = await self._wake(drove)
        sleeper, self._sleeper = self._sleeper, None
        if drove.ending.lost and sleeper is not None and sleeper.kept is not None:
            # The last bytes are those of the sleeping cell: the session is asleep there again.
            self._sleeper = self._asleep(sleeper.kept, sleeper.image)
        lost, self._driver.namespace.forgotten = self._driver.namespace.forgotten, 0
        return self._reporter.ended(cell, drove, self._since(began), cells_forgotten=lost)

    def _cell(self, program: Program, bounds: SessionLimits, on_output: Listener | None) -> Cell:
        return Cell(
            id=self._ids.new("cel_"),
            program=program,
            recording=Recording(program, self._current_catalog(), self._clock.now_ms()),
            output=Output(bounds.max_stdout_bytes, on_output, self._handles.redactor()),
            bounds=bounds,
            budget=Budget(bounds.max_external_calls, bounds.max_external_calls),
            wall_left_ms=bounds.wall_ms,
            cpu_left_ms=bounds.cpu_ms,
        )

    async def _with_snapshot(self, result: RunResult) -> RunResult:
        if self._sleeper is not None:
            envelope = self._envelope(self._sleeper.image, put_to_sleep(self._sleeper.cell))
        else:
            envelope = self._envelope(await self._seats.save(self._driver.namespace), None)
        return replace(result, snapshot_id=self._ids.new("snp_"), snapshot=seal(envelope, self._key()))

    def _envelope(self, state: bytes | None, cell: Mapping[str, Any] | None) -> Envelope:
        engine = self._seats.engine
        return Envelope(
            session_id=self.id,
            language=self.language,
            engine=engine.name,
            engine_version=engine.version,
            limits=self.limits,
            capabilities=self._tools.digests(),
            created_at=format_time(moment(self._clock.now_ms())),
            state=state,
            cell=cell,
            seed=self._driver.namespace.seed,
            title=self._options.title,
            labels=self._options.labels,
            mark=self._mark,
            calls=dict(self._gate.counts),
        )

    def _current_catalog(self) -> Catalog:
        if self._catalog is None or self._catalog_generation != self._tools.generation:
            self._catalog = replace(self._catalogs.get(self._tools, self.language), mark=self._mark)
            self._catalog_generation = self._tools.generation
        return self._catalog

    def _quiet_turn(self, bounds: SessionLimits) -> Turn:
        return Turn(self._clock.now_ms(), bounds.wall_ms, bounds.cpu_ms, lambda _s, _t: None, self._current_catalog())

    def _refused(self, error: ErrorObject) -> RunResult:
        return RunResult(status=status_of(error.code), cell_id=self._ids.new("cel_"), error=with_hint(error))

    def _since(self, began: float) -> float:
        return round((self._clock.monotonic() - began) * 1000, 3)

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed(f"session {self.id!r} is closed")


def _new_mark() -> str:
    return "".join(secrets.choice(_MARK_LETTERS) for _ in range(20))
