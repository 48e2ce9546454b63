"""A Python namespace alive on a Monty worker, driven one step at a time.

Every tool call is answered with a future at once, so that gathered calls are all seen before the program stops; it
stops when nothing can go on without a settlement, and there it can be dumped. Clock reads, sleeps and imports are the
engine's own business and are answered within the step; so are files, by the turn's helper.

A namespace starts at a desk. Once a program names a tool, or could come by one, the namespace moves to a cabin and
stays there: from then on any function in it may call. See `seat.py`.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pydantic_monty as monty

from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import EngineUnavailable, SnapshotCorrupt
from cloister.core.limits import SessionLimits
from cloister.core.value import MAX_BYTES, Bounds, ValueRefused
from cloister.engines.monty import clock, faults, files
from cloister.engines.monty.checker import Checker, context_after
from cloister.engines.monty.helping import helped
from cloister.engines.monty.lane import Lane
from cloister.engines.monty.pending import Pending
from cloister.engines.monty.seat import TROUBLE, Cabin, Desk
from cloister.engines.monty.standins import SECRET, handle_for, modules_of, stand_in
from cloister.engines.monty.state import joined
from cloister.engines.monty.values import SMALL, WHOLE, arguments, outward
from cloister.ports.engine import (
    Call,
    Catalog,
    Checked,
    Failed,
    Finished,
    Program,
    Settlement,
    Step,
    Suspended,
    Turn,
    TypeCheck,
    Usage,
)

_FUTURE: Any = {"future": ...}
_NOTHING: dict[str, Any] = {}
_WORD = re.compile(r"[A-Za-z_]\w*")
# Ways to get at a name that is not written out, and the waits that are ours to keep.
_OPAQUE = frozenset({"eval", "exec", "sleep"})
# Calls of Cloister's own functions count toward no limit of the session, but nobody needs more of them at once.
_MOST_OPEN = 10_000
_SCANNED = 4096
_CLEAN = Checked()


class MontyInterpreter:
    def __init__(
        self,
        seat: Desk | Cabin,
        limits: SessionLimits,
        checker: Checker,
        modules: dict[str, Any],
        move: Callable[["MontyInterpreter"], Awaitable[Cabin]],
        on_close: Callable[["MontyInterpreter"], None],
    ) -> None:
        self._seat: Desk | Cabin = seat
        self._limits = limits
        self._checker = checker
        self._move = move
        # What the namespace may import from us; Monty reads it when an import happens.
        self._modules = modules
        self._on_close = on_close
        self._snapshot: Any = None
        self._dead = False
        self._closed = False
        self._context = ""
        # What a program may mean by a name, with the parts of the catalog that it was made of.
        self._roots: tuple[frozenset[str] | None, frozenset[str] | None, frozenset[str]] = (None, None, frozenset())
        # The revision of the catalog that this namespace's programs had so far.
        self._seen: str | None = None
        self._granted: Catalog | None = None
        self._pending = Pending()
        self._turn = Turn(0, 0, 0, lambda _stream, _text: None)
        self._bytes = 0
        self._cpu_before = 0.0
        self._code = ""
        # Whether the program ended by exit(), before its own end.
        self._left = False
        # Where relative paths begin, until the namespace has been told; it keeps that, and where programs went since.
        self._home: str | None = files.HOME
        # What broke in the host while it answered a program at a desk.
        self._broken: Exception | None = None

    @property
    def pid(self) -> int | None:
        return None if self._dead or self._seat.warden.is_over else self._seat.warden.pid

    @property
    def lane(self) -> Lane | None:
        """The lane that goes back with it."""
        return self._seat.lane if isinstance(self._seat, Cabin) else None

    async def move_to(self, cabin: Cabin) -> None:
        """Leave the desk for `cabin`, with everything."""
        desk = self._seat
        try:
            image = await desk.dump()
            await cabin.lane.do(lambda: cabin.session.load_session(image))
        except TROUBLE as error:
            raise EngineUnavailable(f"the namespace could not be moved: {error}") from None
        await desk.close()

    # -- the port -------------------------------------------------------------------------------------------

    async def check(self, program: Program, types: TypeCheck, turn: Turn, *, starting: bool) -> Checked:
        if starting and not self._checker.needed(program, turn.catalog, types):
            return _CLEAN
        found = await self._checker.check(program, turn, context=self._context, starting=starting)
        defined = {name for name in found.unresolved if await self._is_defined(name)}
        defined |= turn.catalog.helpers
        if turn.catalog.mark:
            defined.add(SECRET)
        return found.judge(frozenset(defined), turn.catalog, types)

    async def start(self, program: Program, turn: Turn) -> Step:
        self._code = program.code
        if turn.catalog is not self._granted:
            self._grant(turn.catalog)
        seat = self._seat
        if isinstance(seat, Desk):
            if not self._may_call(program.code, turn.catalog):
                # Nothing is ever pending at a desk, so the record of it stays the empty one.
                return await self._step(turn, partial(self._compute, seat, program))
            try:
                self._seat = seat = await self._move(self)
            except EngineUnavailable:
                self._dead = True
                return Failed(self._crash_error(""), fatal=True)
        self._pending = Pending()
        return await self._step(turn, lambda: seat.lane.do(lambda: self._feed(program)))

    async def resume(self, settlements: Sequence[Settlement], turn: Turn) -> Step:
        for settlement in settlements:
            self._pending.settle(settlement)
        seat = self._seat
        if isinstance(seat, Desk) or self._snapshot is None:
            raise EngineUnavailable("no program is suspended here")
        return await self._step(turn, lambda: seat.lane.do(self._go_on))

    async def dump(self) -> bytes:
        try:
            image = await self._seat.dump()
        except (monty.MontyError, RuntimeError) as error:
            self._dead = True
            raise EngineUnavailable(f"the worker is gone: {error}") from None
        return self._with_meta(image)

    def _with_meta(self, image: bytes) -> bytes:
        meta: dict[str, Any] = {"context": self._context, "calls": isinstance(self._seat, Cabin), "seen": self._seen}
        if self._snapshot is not None:
            meta |= {"pending": self._pending.to_json(), "code": self._code}
        return joined(meta, image)

    def interrupt(self) -> None:
        self._seat.warden.kill("INTERRUPTED")

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # Order matters: a snapshot that outlives its session aborts the interpreter at exit. Dropped before, the worker
        # gives the suspended program up and serves the next session.
        self._snapshot = None
        self._dead = True
        await self._seat.close()
        self._on_close(self)

    # -- one step --------------------------------------------------------------------------------------------

    async def _step(self, turn: Turn, launch: Callable[[], Awaitable[Step]]) -> Step:
        warden = self._seat.warden
        self._turn, self._bytes, self._left, self._broken = turn, 0, False, None
        self._cpu_before = warden.cpu_ms()
        if self._dead or warden.verdict is not None:
            # Stopped while it was at rest; `watch` would forget that.
            self._dead = True
            return Failed(self._crash_error(""), fatal=True)
        # Launched before it is watched: the worker is at it while we do the rest.
        under_way = launch()
        warden.watch(turn.wall_ms, turn.cpu_ms, self._cpu_before)
        try:
            step = await under_way
        except asyncio.CancelledError:
            # A cancelled feed may still be computing in its worker.
            warden.kill("INTERRUPTED")
            self._dead = True
            raise
        except (monty.MontyCrashedError, RuntimeError) as crash:
            self._dead = True
            step = self._fail(self._crash_error(str(crash)), fatal=True)
        finally:
            warden.rest()
        if warden.verdict is not None and not self._dead:
            # The answer was on its way when the time was up: the worker is dead all the same.
            step = Failed(self._crash_error(""), fatal=True, usage=step.usage)
        if isinstance(step, Failed) and step.fatal:
            self._dead = True
        # To a type checker nothing comes after an exit(): a cell that left must not stand in front of the next one.
        if isinstance(step, Finished) and not self._left:
            self._context = context_after(self._context, self._code)
        return step

    def _usage(self) -> Usage:
        warden = self._seat.warden
        cpu_ms = warden.cpu_ms() - self._cpu_before
        return Usage(cpu_ms if cpu_ms > 0 else 0.0, warden.peak_bytes(cpu_ms))

    def _crash_error(self, crash: str) -> ErrorObject:
        return faults.crash_error(self._seat.warden.verdict, crash)

    def _compute(self, seat: Desk, program: Program) -> Awaitable[Step]:
        home, self._home = files.home_of(program, self._home), None
        feed = seat.session.feed_run(
            program.code,
            inputs=program.inputs or None,
            external_lookup=_NOTHING,
            print_callback=self.print,
            cwd=home,
            os=self._answer_os_at_once,
        )
        return self._computed(feed)

    async def _computed(self, feed: Awaitable[Any]) -> Step:
        try:
            value = await feed
        except (monty.MontyRuntimeError, monty.MontySyntaxError) as error:
            if self._broken is not None:
                raise self._broken from None
            return self._failed(error)
        except monty.MontyConversionError as error:
            return self._fail(ErrorObject(Code.INVALID_INPUT, str(error)))
        if self._broken is not None:
            raise self._broken
        step = self._finished(value, SMALL)
        if isinstance(step, Failed) and step.error.code == Code.RESULT_TOO_LARGE:
            # It takes a while to look at, large or not too large; the event loop must not stand still for it.
            return await asyncio.to_thread(self._finished, value)
        return step

    # -- in the lane -----------------------------------------------------------------------------------------

    def _feed(self, program: Program) -> Step:
        home, self._home = files.home_of(program, self._home), None
        try:
            snapshot = self._seat.session.feed_start(
                program.code, inputs=program.inputs or None, print_callback=self.print, cwd=home
            )
            return self._kept(self._drive(snapshot))
        except (monty.MontyRuntimeError, monty.MontySyntaxError) as error:
            return self._failed(error)
        except monty.MontyConversionError as error:
            return self._fail(ErrorObject(Code.INVALID_INPUT, str(error)))

    def _go_on(self) -> Step:
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            raise RuntimeError("resume without a suspended program")
        try:
            return self._kept(self._drive(snapshot))
        except (monty.MontyRuntimeError, monty.MontySyntaxError) as error:
            return self._failed(error)

    def _kept(self, step: Step) -> Step:
        """The step with the program's bytes, if they will be asked for: that saves two thread hops."""
        if not self._turn.keep or not isinstance(step, Suspended):
            return step
        began = time.perf_counter()
        try:
            image = self._with_meta(self._seat.session.dump())
        except (monty.MontyError, RuntimeError):
            # Whoever asks for them is told.
            return step
        return replace(step, image=image, image_ms=(time.perf_counter() - began) * 1000)

    def _drive(self, snapshot: Any) -> Step:
        """Answer what can be answered, until the program ends or waits for a settlement."""
        pending = self._pending
        while True:
            match snapshot:
                case monty.FunctionSnapshot():
                    if not snapshot.is_os_function:
                        if (bound := self._bound_passed_by(snapshot.function_name)) is not None:
                            return self._fail(faults.too_many_calls(bound), fatal=True)
                        snapshot = self._answer_call(snapshot)
                    elif snapshot.function_name != "time.sleep":
                        snapshot = self._answer_os(snapshot)
                    else:
                        if pending.blocking is None:
                            pending.blocking = (self._note(snapshot, "timer")).number
                        if pending.blocking not in pending.answers:
                            return self._suspend(snapshot, frozenset((pending.blocking,)))
                        pending.over(pending.blocking)
                        pending.blocking = None
                        snapshot = snapshot.resume({"return_value": None})
                case monty.NameLookupSnapshot():
                    snapshot = self._answer_name(snapshot)
                case monty.FutureSnapshot():
                    call_ids = snapshot.pending_call_ids
                    ready = pending.ready(call_ids)
                    if not ready:
                        return self._suspend(snapshot, frozenset(pending.numbers[call_id] for call_id in call_ids))
                    snapshot = snapshot.resume(ready)
                case monty.MontyComplete():
                    return self._finished(snapshot.output)
                case _:
                    raise RuntimeError(f"Monty sent something unknown: {type(snapshot).__name__}")

    def _suspend(self, snapshot: Any, awaiting: frozenset[int]) -> Step:
        if not awaiting:
            error = ErrorObject(
                Code.RUNTIME_ERROR,
                "the program waits for something that nothing can settle",
                "a call of an earlier cell ended with that cell: make the call again here",
            )
            return self._fail(error, fatal=True)
        self._snapshot = snapshot
        return Suspended(self._pending.announce(awaiting), awaiting, self._usage())

    def _finished(self, output: Any, bounds: Bounds = WHOLE) -> Step:
        try:
            value, _ = outward(output, bounds)
        except ValueRefused as refusal:
            return self._fail(ErrorObject(refusal.code, refusal.message, refusal.hint))
        return Finished(value, self._pending.leftover(), self._usage())

    def _fail(self, error: ErrorObject, *, fatal: bool = False) -> Failed:
        return Failed(error, fatal, self._pending.leftover(), self._usage())

    def _failed(self, error: Any) -> Step:
        if faults.is_compile_error(error):
            return self._fail(faults.compile_error(error))
        text = str(error)
        if text == "SystemExit" or text.startswith("SystemExit:"):
            self._left = True
            return Finished(None, self._pending.leftover(), self._usage())
        if not self._seat.warden.alive:
            # Monty tells of its worker's end as of an exception of the program; the program had no part in it.
            raise RuntimeError(text)
        if (limit := faults.limit_error(error, self._limits)) is not None:
            return self._fail(limit, fatal=True)
        catalog = self._turn.catalog
        if (tool := self._pending.raised.get(text)) is not None:
            return self._fail(ErrorObject(tool.code, tool.message, tool.hint, faults.span_of(error)))
        return self._fail(faults.runtime_error(error, catalog.names | catalog.helpers))

    # -- what a program asks for -------------------------------------------------------------------------------

    def _may_call(self, code: str, catalog: Catalog) -> bool:
        # What an earlier program named in vain may be a tool by now.
        before, self._seen = self._seen, catalog.revision
        if before is not None and before != catalog.revision:
            return True
        names, helpers, roots = self._roots
        if names is not catalog.names or helpers is not catalog.helpers:
            roots = frozenset(name.partition(".")[0] for name in catalog.names) | catalog.helpers | _OPAQUE | {SECRET}
            self._roots = (catalog.names, catalog.helpers, roots)
        # A long program is not worth the search: it is no small run.
        return len(code) > _SCANNED or not roots.isdisjoint(_WORD.findall(code))

    def _note(self, snapshot: Any, kind: Any) -> Call:
        pending = self._pending
        pending.made += 1
        name, refused, size = str(snapshot.function_name), None, 0
        args: tuple[Any, ...] = ()
        kwargs: dict[str, Any] = {}
        try:
            given_args, given_kwargs, size = arguments(snapshot.args, snapshot.kwargs)
            self._bytes += size
            if self._bytes > MAX_BYTES:
                raise ValueRefused("", f"the arguments of one step take more than {MAX_BYTES} bytes together")
            args, kwargs = given_args, given_kwargs
        except ValueRefused as refusal:
            refused = ErrorObject(Code.INVALID_ARGUMENTS, refusal.message, refusal.hint)
        call = Call(pending.made, "sleep" if kind == "timer" else name, args, kwargs, kind, refused, size)
        pending.waiting[call.number] = call
        return call

    def _answer_call(self, snapshot: Any) -> Any:
        name, catalog = snapshot.function_name, self._turn.catalog
        if name not in catalog.names:
            if name == SECRET and catalog.mark:
                return snapshot.resume(handle_for(catalog.mark, snapshot.args, snapshot.kwargs))
            if name in catalog.helpers:
                # What was printed before has reached the sink: Monty flushes before each call of the host.
                return snapshot.resume(helped(name, snapshot.args, snapshot.kwargs, self._turn.helper))
            return snapshot.resume({"exc_type": "NameError", "message": f"name '{name}' is not defined"})
        if name not in catalog.own:
            self._pending.calls += 1
        self._pending.numbers[snapshot.call_id] = (self._note(snapshot, "tool")).number
        return snapshot.resume(_FUTURE)

    def _bound_passed_by(self, name: str) -> int | None:
        """How many calls there may be, if one more of that name is too many."""
        pending, catalog, most = self._pending, self._turn.catalog, self._turn.max_calls
        if name in catalog.own:
            return _MOST_OPEN if len(pending.waiting) >= _MOST_OPEN else None
        return most if pending.calls >= most and name in catalog.names else None

    def _answer_name(self, snapshot: Any) -> Any:
        name, catalog = snapshot.variable_name, self._turn.catalog
        ours = name in catalog.names or name in catalog.helpers or (name == SECRET and catalog.mark)
        if snapshot.object_id is None and ours:
            return snapshot.resume(value=stand_in(name))
        return snapshot.resume()

    def _answer_os(self, snapshot: Any) -> Any:
        name = snapshot.function_name
        if name == "asyncio.sleep":
            self._pending.numbers[snapshot.call_id] = (self._note(snapshot, "timer")).number
            return snapshot.resume(_FUTURE)
        if name == "import":
            return snapshot.resume_auto()
        if name in files.FUNCTIONS:
            return snapshot.resume(self._file(name, snapshot.args, snapshot.kwargs))
        answer = clock.told(name, snapshot.args, self._turn.now_ms)
        if answer is monty.NOT_HANDLED:
            return snapshot.resume_not_handled()
        return snapshot.resume({"return_value": answer})

    def _answer_os_at_once(self, *, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], **_more: Any) -> Any:
        """At a desk, in a thread of Monty's."""
        if name not in files.FUNCTIONS:
            return clock.told(name, args, self._turn.now_ms)
        try:
            if self._broken is not None:
                raise self._broken
            answer = self._file(name, args, kwargs)
        # Containment: whatever is raised here is told to the program, word for word. What broke is raised after it.
        except Exception as error:  # noqa: BLE001
            self._broken = error
            raise RuntimeError("the host could not answer") from None
        if "exc_type" in answer:
            raise files.as_exception(answer)
        return answer["return_value"]

    def _file(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return files.settled(name, args, kwargs, self._turn.helper, lambda: self._seat.warden.verdict is not None)

    def _grant(self, catalog: Catalog) -> None:
        """Make the catalog's namespaces importable."""
        self._granted = catalog
        self._modules.clear()
        if not catalog.modules and not any("." in name for name in catalog.names):
            return
        self._modules.update(modules_of(catalog.names))

    def print(self, stream: Any, text: str) -> None:
        # Monty keeps a feed's first callback for good; the turn's own sink is found through it.
        self._turn.sink(stream, text)

    async def _is_defined(self, name: str) -> bool:
        seat = self._seat
        try:
            if isinstance(seat, Desk):
                await seat.session.feed_run(name, external_lookup=_NOTHING)
            else:
                await seat.lane.do(lambda: seat.session.feed_run(name, external_lookup=_NOTHING))
        except monty.MontyRuntimeError:
            return False
        except TROUBLE:
            self._dead = True
            return False
        return True

    # -- bytes -----------------------------------------------------------------------------------------------

    async def load(self, meta: dict[str, Any], image: bytes) -> None:
        """Take over the namespace in these bytes, at a desk. Once, before anything else."""
        seat = self._seat
        assert isinstance(seat, Desk), "a cabin is taken with what it holds"
        try:
            await seat.session.load_session(image)
        except TROUBLE as error:
            raise SnapshotCorrupt(f"the Python engine cannot read these bytes: {error}") from None
        self.loaded(meta, None)

    def loaded(self, meta: dict[str, Any], snapshot: Any) -> None:
        """The seat holds what these bytes said; `snapshot` is the program that waits there, if one does."""
        if "pending" in meta:
            self._snapshot = snapshot
            self._pending = Pending.from_json(meta["pending"])
            self._code = meta["code"]
        self._context, self._seen, self._home = meta["context"], meta["seen"], None
