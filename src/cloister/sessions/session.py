"""A session: where programs live. Runs them one at a time, in order, in one namespace that lasts."""

import asyncio
import keyword
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cloister.cells.output import Output, Stream
from cloister.cells.runner import Cell, Ending, Runner
from cloister.cells.seats import Namespace, Seats
from cloister.cells.tape import Recording
from cloister.core.codes import Code, RunStatus, status_of
from cloister.core.diagnostic import Diagnostic, ErrorObject
from cloister.core.errors import (
    InvalidLimits,
    SessionClosed,
    SnapshotForeign,
    SnapshotVersionMismatch,
)
from cloister.core.ids import IdSource
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.core.run import Metrics, RunResult
from cloister.core.session import SessionMeta
from cloister.core.value import Json, ValueRefused, plain
from cloister.core.wire import format_time
from cloister.gate import Budget, Gate
from cloister.ports.clock import Clock, moment
from cloister.ports.engine import Catalog, Interpreter, Program, Turn, TypeCheck
from cloister.sessions.asleep import put_to_sleep, wake
from cloister.sessions.envelope import Envelope, seal, unseal
from cloister.sessions.notes import cut, first_error, forgotten, not_awaited, rolled_back, with_hint
from cloister.tools.catalog import render_catalog
from cloister.tools.registry import ToolRegistry

MAX_CODE_BYTES = 1 << 20
# Identifiers that cannot be variables.
_WORDS = {
    Language.PYTHON: frozenset(keyword.kwlist),
    Language.TYPESCRIPT: frozenset(
        "await break case catch class const continue debugger default delete do else enum export extends false finally "
        "for function if import in instanceof let new null return static super switch this throw true try typeof "
        "undefined var void while with yield".split()
    ),
}
_ASLEEP = ErrorObject(Code.INVALID_INPUT, "the session sleeps in the middle of a cell", "resume() it first")
Listener = Callable[[Stream, str], None]


@dataclass(frozen=True, slots=True)
class SessionOptions:
    id: str
    language: Language = Language.PYTHON
    limits: SessionLimits = field(default_factory=SessionLimits)
    type_check: TypeCheck = TypeCheck.WARN
    title: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


class Session:
    """Made by `Cloister.open_session`; not by hand."""

    def __init__(
        self,
        options: SessionOptions,
        tools: ToolRegistry,
        seats: Seats,
        clock: Clock,
        ids: IdSource,
        key: Callable[[], bytes],
        *,
        origin: Envelope | None = None,
        on_close: Callable[["Session"], None] | None = None,
    ) -> None:
        self._options = options
        self._tools = tools
        self._seats = seats
        self._clock = clock
        self._ids = ids
        self._key = key
        self._gate = Gate(tools, clock, options.language)
        self._on_close = on_close
        self._catalog: Catalog | None = None
        self._catalog_generation = -1
        seed = origin.seed if origin is not None else int.from_bytes(os.urandom(7), "big")
        self._namespace = Namespace(options.limits, seed, origin.state if origin is not None else None)
        # A cell that sleeps in the namespace's bytes and must be taken up before anything else runs.
        self._asleep: Mapping[str, Any] | None = origin.cell if origin is not None else None
        self._created_ms = self._used_ms = clock.now_ms()
        self._closed = False
        # One cell at a time, in the order in which they were asked for.
        self._order = asyncio.Lock()
        self._running: tuple[Runner, Interpreter, Cell] | None = None

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
    def closed(self) -> bool:
        return self._closed

    @property
    def worker_pid(self) -> int | None:
        """The process that holds the session's namespace now; None while it is only bytes."""
        interpreter = self._running[1] if self._running is not None else self._namespace.interpreter
        return interpreter.pid if interpreter is not None else None

    @property
    def is_asleep(self) -> bool:
        """Whether it was restored in the middle of a cell that `resume` must finish."""
        return self._asleep is not None

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
        """Run a program to its end. What the program does wrong is in the result, never an exception."""
        if validate_only:
            return await self.validate(code, inputs=inputs)
        began = self._clock.monotonic()
        prepared = self._prepare(code, inputs, limits, timeout_ms)
        if isinstance(prepared, ErrorObject):
            return self._refused(prepared)
        program, bounds = prepared
        async with self._order:
            self._check_open()
            self._used_ms = self._clock.now_ms()
            if self._asleep is not None:
                return self._refused(_ASLEEP)
            cell = self._cell(program, bounds, on_output)
            narrow = bounds.memory_mb < self.limits.memory_mb or bounds.max_stack_depth < self.limits.max_stack_depth
            if narrow:
                result = await self._run_narrowed(cell, bounds, began)
            else:
                result = await self._run_here(cell, bounds, began)
            if return_snapshot:
                result = await self._with_snapshot(result)
            return result

    async def resume(self, *, on_output: Listener | None = None) -> RunResult:
        """Finish the cell in whose middle this session was restored."""
        began = self._clock.monotonic()
        async with self._order:
            self._check_open()
            asleep = self._asleep
            if asleep is None:
                return self._refused(ErrorObject(Code.INVALID_INPUT, "no cell sleeps in this session"))
            self._used_ms = self._clock.now_ms()
            cell = wake(asleep, self._current_catalog(), self.limits, self._clock.now_ms())
            cell.output.listen(on_output)
            interpreter = await self._seats.take(self._namespace)
            try:
                runner = Runner(self._gate, self._current_catalog(), self._clock, self._ids, self.limits)
                self._running = (runner, interpreter, cell)
                try:
                    ending = await runner.go_on(interpreter, cell)
                finally:
                    self._running = None
                # Its steps are on no tape, so its end must be in the bytes before it counts.
                state = None if ending.lost else await interpreter.dump()
            except BaseException:
                await asyncio.shield(self._seats.lose(self._namespace))
                raise
            if ending.lost:
                # The last bytes are those of the sleeping cell: the session is asleep there again.
                await self._seats.lose(self._namespace)
            else:
                self._namespace.state, self._asleep = state, None
                await self._seats.leave(self._namespace)
            return self._result(cell, ending, (), began)

    async def validate(self, code: str, *, inputs: Mapping[str, Any] | None = None) -> RunResult:
        """What a check finds in a program, without running any of it."""
        began = self._clock.monotonic()
        prepared = self._prepare(code, inputs, None, None)
        if isinstance(prepared, ErrorObject):
            return self._refused(prepared)
        program, bounds = prepared
        async with self._order:
            self._check_open()
            if self._asleep is not None:
                return self._refused(_ASLEEP)
            interpreter = await self._seats.take(self._namespace)
            try:
                types = TypeCheck.WARN if self._options.type_check is TypeCheck.OFF else self._options.type_check
                checked = await interpreter.check(program, types, self._quiet_turn(bounds), starting=False)
            except BaseException:
                await asyncio.shield(self._seats.lose(self._namespace))
                raise
            await self._seats.leave(self._namespace)
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
        if self._running is not None:
            runner, interpreter, cell = self._running
            made = await runner.dump(interpreter, cell)
            if made is not None:
                state, pending = made
                return self._envelope(state, put_to_sleep(cell, pending))
        async with self._order:
            if self._asleep is not None:
                return self._envelope(self._namespace.state, self._asleep)
            return self._envelope(await self._seats.save(self._namespace), None)

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
            await self._seats.lose(self._namespace)
            self._namespace = Namespace(self.limits, envelope.seed, envelope.state)
            self._asleep = envelope.cell

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
        """Give everything back. Closing twice is fine; a cell under way is stopped."""
        if self._closed:
            return
        self._closed = True
        if self._running is not None:
            runner, interpreter, _ = self._running
            runner.stop()
            interpreter.interrupt()
        async with self._order:
            await self._seats.lose(self._namespace)
        if self._on_close is not None:
            self._on_close(self)

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # -- inside ----------------------------------------------------------------------------------------------

    def _prepare(
        self, code: Any, inputs: Any, limits: SessionLimits | Mapping[str, int] | None, timeout_ms: int | None
    ) -> "tuple[Program, SessionLimits] | ErrorObject":
        if not isinstance(code, str):
            return ErrorObject(Code.INVALID_INPUT, f"code is text, not {type(code).__name__}")
        if len(code) > MAX_CODE_BYTES // 4 and len(code.encode("utf-8", "replace")) > MAX_CODE_BYTES:
            return ErrorObject(Code.INVALID_INPUT, f"the code is larger than {MAX_CODE_BYTES} bytes", "split it up")
        if not code.isascii():
            try:
                code.encode()
            except UnicodeEncodeError as error:
                message = f"the code has half a character (a lone surrogate) at position {error.start}"
                return ErrorObject(Code.SYNTAX_ERROR, message, "send it as UTF-8")
        values: Mapping[str, Json] = {}
        if inputs is not None:
            try:
                made = plain(inputs)
            except ValueRefused as refusal:
                return ErrorObject(Code.INVALID_INPUT, f"inputs: {refusal.message}", refusal.hint)
            if not isinstance(made, dict):
                return ErrorObject(Code.INVALID_INPUT, "inputs is an object: names and their values")
            bad = next((name for name in made if not name.isidentifier() or name in _WORDS[self.language]), None)
            if bad is not None:
                return ErrorObject(Code.INVALID_INPUT, f"inputs: {bad!r} cannot be a variable's name")
            values = made
        try:
            bounds = self.limits.narrowed_by(limits)
        except InvalidLimits as refusal:
            return ErrorObject(Code.INVALID_LIMITS, refusal.message)
        if timeout_ms is not None:
            if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int) or timeout_ms <= 0:  # pyright: ignore[reportUnnecessaryIsInstance]
                return ErrorObject(Code.INVALID_LIMITS, f"timeout_ms must be a positive number, not {timeout_ms!r}")
            if timeout_ms > self.limits.wall_ms:
                message = f"timeout_ms={timeout_ms} is longer than the session's wall_ms={self.limits.wall_ms}"
                return ErrorObject(Code.INVALID_LIMITS, message, "a request may only narrow its session's limits")
            bounds = replace(bounds, wall_ms=min(bounds.wall_ms, timeout_ms))
        return Program(code, values), bounds

    def _cell(self, program: Program, bounds: SessionLimits, on_output: Listener | None) -> Cell:
        return Cell(
            id=self._ids.new("cel_"),
            program=program,
            recording=Recording(program, self._current_catalog(), self._clock.now_ms()),
            output=Output(bounds.max_stdout_bytes, on_output),
            budget=Budget(bounds.max_external_calls, bounds.max_external_calls),
            wall_left_ms=bounds.wall_ms,
            cpu_left_ms=bounds.cpu_ms,
        )

    async def _run_here(self, cell: Cell, bounds: SessionLimits, began: float) -> RunResult:
        namespace = self._namespace
        interpreter = await self._seats.take(namespace)
        try:
            ending, diagnostics, ran = await self._check_and_drive(interpreter, cell, bounds)
        except BaseException:
            # Cancelled in the middle: what the interpreter holds is not what any tape says.
            await asyncio.shield(self._seats.lose(namespace))
            raise
        if ending.lost:
            await self._seats.lose(namespace)
        else:
            if ran:
                cell.recording.cpu_ms = cell.cpu_ms
                namespace.tape.add(cell.recording)
            await self._seats.leave(namespace)
        return self._result(cell, ending, diagnostics, began)

    async def _run_narrowed(self, cell: Cell, bounds: SessionLimits, began: float) -> RunResult:
        """Memory and stack are bounds of an interpreter, so a narrower run has one of its own. What it did to
        the namespace is on the tape; its bytes would carry the narrow limits for good."""
        interpreter = await self._seats.borrow(self._namespace, bounds)
        try:
            ending, diagnostics, ran = await self._check_and_drive(interpreter, cell, bounds)
        finally:
            await asyncio.shield(self._seats.give_back(interpreter))
        if ran and not ending.lost:
            self._namespace.tape.add(cell.recording)
        return self._result(cell, ending, diagnostics, began)

    async def _check_and_drive(
        self, interpreter: Interpreter, cell: Cell, bounds: SessionLimits
    ) -> tuple[Ending, tuple[Diagnostic, ...], bool]:
        turn = Turn(
            cell.recording.now_ms,
            cell.wall_left_ms,
            cell.cpu_left_ms,
            cell.output.write,
            cell.recording.catalog,
            bounds.max_external_calls,
        )
        checked = await interpreter.check(cell.program, self._options.type_check, turn, starting=True)
        if checked.diagnostics:
            error = first_error(checked.diagnostics)
            if error is not None:
                return Ending(error=error), checked.diagnostics, False
        if checked.wall_ms:
            cell.wall_left_ms -= checked.wall_ms
            turn = replace(turn, wall_ms=cell.wall_left_ms)
        if self._closed:
            return Ending(error=ErrorObject(Code.INTERRUPTED, "the session was closed")), (), False
        runner = Runner(self._gate, cell.recording.catalog, self._clock, self._ids, bounds)
        self._running = (runner, interpreter, cell)
        try:
            ending = await runner.start(interpreter, cell, turn)
        finally:
            self._running = None
        return ending, checked.diagnostics + ending.diagnostics, True

    async def _with_snapshot(self, result: RunResult) -> RunResult:
        blob = seal(self._envelope(await self._seats.save(self._namespace), None), self._key())
        return replace(result, snapshot_id=self._ids.new("snp_"), snapshot=blob)

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
            seed=self._namespace.seed,
            title=self._options.title,
            labels=self._options.labels,
        )

    def _current_catalog(self) -> Catalog:
        if self._catalog is None or self._catalog_generation != self._tools.generation:
            self._catalog = render_catalog(self._tools, self.language)
            self._catalog_generation = self._tools.generation
        return self._catalog

    def _quiet_turn(self, bounds: SessionLimits) -> Turn:
        return Turn(self._clock.now_ms(), bounds.wall_ms, bounds.cpu_ms, lambda _s, _t: None, self._current_catalog())

    def _result(self, cell: Cell, ending: Ending, diagnostics: tuple[Diagnostic, ...], began: float) -> RunResult:
        extra = list(diagnostics)
        if cell.output.dropped:
            extra.append(cut(cell.output.dropped))
        if ending.lost:
            extra.append(rolled_back())
        if self._namespace.forgotten:
            extra.append(forgotten(self._namespace.forgotten))
            self._namespace.forgotten = 0
        for name in ending.never_awaited:
            extra.append(not_awaited(name))
        error = with_hint(ending.error) if ending.error is not None else None
        records = tuple(cell.records[number] for number in sorted(cell.records))
        return RunResult(
            status=status_of(error.code) if error is not None else RunStatus.OK,
            cell_id=cell.id,
            result=ending.value,
            stdout=cell.output.text("stdout"),
            stderr=cell.output.text("stderr"),
            diagnostics=tuple(extra),
            external_calls=records,
            metrics=Metrics(
                duration_ms=self._since(began),
                cpu_ms=round(cell.cpu_ms, 3),
                memory_peak_bytes=cell.memory_peak_bytes,
                instructions=cell.instructions,
                external_calls_count=len(records),
            ),
            error=error,
        )

    def _refused(self, error: ErrorObject) -> RunResult:
        return RunResult(status=status_of(error.code), cell_id=self._ids.new("cel_"), error=with_hint(error))

    def _since(self, began: float) -> float:
        return round((self._clock.monotonic() - began) * 1000, 3)

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed(f"session {self.id!r} is closed")
