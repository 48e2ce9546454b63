"""A Python namespace alive on a Monty worker, driven one step at a time from its lane.

Every tool call is answered with a future at once, so that gathered calls are all seen before the program stops;
it stops when nothing can go on without a settlement, and there it can be dumped. Clock reads, sleeps and
imports are the engine's own business and are answered within the step.
"""

import asyncio
import datetime
import json
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import pydantic_monty as monty

from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import EngineUnavailable, SnapshotCorrupt
from cloister.core.limits import SessionLimits
from cloister.core.value import MAX_BYTES, ValueRefused
from cloister.engines.monty import faults
from cloister.engines.monty.checker import Checker, context_after
from cloister.engines.monty.lane import Lane
from cloister.engines.monty.values import outward
from cloister.engines.warden import Warden, verdict_error
from cloister.ports.engine import (
    Call,
    Catalog,
    Checked,
    Failed,
    Finished,
    Program,
    Raised,
    Settlement,
    Step,
    Suspended,
    Turn,
    TypeCheck,
    Usage,
)

_HEADER = struct.Struct("<4sI")
_MAGIC = b"CMY1"
_FUTURE: Any = {"future": ...}
# How long the loop may stand still for a lone step: less than any timer is exact.
_MOMENT = 0.0005


class Traffic:
    """How many steps of one engine are under way."""

    def __init__(self) -> None:
        self.under_way = 0


class MontyInterpreter:
    def __init__(
        self,
        session: Any,
        limits: SessionLimits,
        lane: Lane,
        warden: Warden,
        checker: Checker,
        traffic: Traffic,
        on_close: Callable[[bool], Any],
    ) -> None:
        self._session: Any = session
        self._limits = limits
        self._lane = lane
        self._warden = warden
        self._checker = checker
        self._traffic = traffic
        self._brisk = True
        self._on_close = on_close
        self._snapshot: Any = None
        self._dead = False
        self._closed = False
        self._context = ""
        self._modules: dict[str, Any] = {}
        # Of the program under way:
        self._made = 0
        self._calls = 0
        self._bytes = 0
        self._cpu_before = 0.0
        self._numbers: dict[int, int] = {}
        self._waiting: dict[int, Call] = {}
        self._announced: set[int] = set()
        self._blocking: int | None = None
        self._answers: dict[int, Any] = {}
        self._raised: dict[str, ErrorObject] = {}
        self._turn: Turn | None = None
        self._code = ""

    @property
    def pid(self) -> int | None:
        return None if self._dead else self._warden.pid

    # -- the port -------------------------------------------------------------------------------------------

    async def check(self, program: Program, types: TypeCheck, turn: Turn, *, starting: bool) -> Checked:
        if starting and not self._checker.needed(program, turn.catalog, types):
            return Checked()
        found = await self._checker.check(program, types, turn, context=self._context, starting=starting)
        undefined = found.unresolved
        if undefined:
            defined = await self._lane.do(lambda: frozenset(name for name in undefined if self._is_defined(name)))
        else:
            defined = frozenset[str]()
        return found.judge(defined, turn.catalog, types)

    async def start(self, program: Program, turn: Turn) -> Step:
        self._made = self._calls = 0
        self._numbers, self._waiting, self._announced = {}, {}, set()
        self._blocking, self._answers, self._raised = None, {}, {}
        self._code = program.code
        return await self._step(turn, lambda: self._feed(program))

    async def resume(self, settlements: Sequence[Settlement], turn: Turn) -> Step:
        for settlement in settlements:
            if isinstance(settlement, Raised):
                error = settlement.error
                text = f"{error.code}: {error.message}" + (f" ({error.hint})" if error.hint else "")
                self._raised[f"RuntimeError: {text}"] = error
                self._answers[settlement.number] = {"exc_type": "RuntimeError", "message": text}
            else:
                self._answers[settlement.number] = {"return_value": settlement.value}
        return await self._step(turn, self._go_on)

    async def dump(self) -> bytes:
        try:
            return await self._lane.do(self._dump)
        except (monty.MontyError, RuntimeError) as error:
            self._dead = True
            raise EngineUnavailable(f"the worker is gone: {error}") from None

    def interrupt(self) -> None:
        self._warden.kill("INTERRUPTED")

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        suspended = self._snapshot is not None
        if suspended and not self._dead:
            # Monty would wait for the suspended feed's answer; its worker is cheaper to replace than to unwind.
            self._warden.kill()
        await self._lane.do(self._release)
        self._warden.close()
        await self._on_close(self._dead or suspended)

    # -- one step, from the loop's side -----------------------------------------------------------------------

    async def _step(self, turn: Turn, work: Callable[[], Step]) -> Step:
        warden = self._warden
        if self._dead or warden.verdict is not None:
            # Stopped while it was at rest; `watch` would forget that.
            self._dead = True
            return Failed(self._crash_error(""), fatal=True)
        self._turn = turn
        self._bytes = 0
        began = time.monotonic()
        self._cpu_before = warden.cpu_ms()
        warden.watch(turn.wall_ms, turn.cpu_ms)
        self._traffic.under_way += 1
        future = self._lane.do(work)
        try:
            if self._brisk and self._traffic.under_way == 1:
                # A lone short step, as most are: a moment's wait here is shorter than the way through the loop.
                future.wait_here(_MOMENT)
            step = await future
        except asyncio.CancelledError:
            # The lane is busy until its worker answers or dies; a cancelled caller must leave it free.
            warden.kill("INTERRUPTED")
            self._dead = True
            raise
        except (monty.MontyCrashedError, RuntimeError) as crash:
            self._dead = True
            step = Failed(self._crash_error(str(crash)), fatal=True, usage=self._usage())
        finally:
            self._traffic.under_way -= 1
            warden.rest()
        if warden.verdict is not None and not self._dead:
            # The answer was on its way when the time was up: the worker is dead all the same.
            step = Failed(self._crash_error(""), fatal=True, usage=step.usage)
        if isinstance(step, Failed) and step.fatal:
            self._dead = True
        self._brisk = time.monotonic() - began < _MOMENT
        if isinstance(step, Finished):
            self._context = context_after(self._context, self._code)
        return step

    def _usage(self) -> Usage:
        cpu_ms = max(self._warden.cpu_ms() - self._cpu_before, 0.0)
        return Usage(cpu_ms, self._warden.peak_bytes(cpu_ms))

    def _crash_error(self, crash: str) -> ErrorObject:
        verdict = self._warden.verdict
        if verdict is not None:
            return verdict_error(verdict)
        if "memory limit" in crash and "terminated" in crash:
            return ErrorObject(
                Code.MEMORY_EXCEEDED,
                "the program needed more memory than its worker may have",
                "keep less in variables, or ask for a larger memory_mb",
            )
        return ErrorObject(Code.ENGINE_CRASHED, "the worker that ran the program died", "run the cell again")

    # -- in the lane ---------------------------------------------------------------------------------------

    def _feed(self, program: Program) -> Step:
        turn = cast("Turn", self._turn)
        self._grant(turn.catalog)
        try:
            snapshot = self._session.feed_start(
                program.code, inputs=dict(program.inputs) or None, print_callback=self._print
            )
            return self._drive(snapshot)
        except (monty.MontyRuntimeError, monty.MontySyntaxError) as error:
            return self._failed(error)
        except monty.MontyConversionError as error:
            return self._fail(ErrorObject(Code.INVALID_INPUT, str(error)))

    def _go_on(self) -> Step:
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            raise RuntimeError("resume without a suspended program")
        try:
            return self._drive(snapshot)
        except (monty.MontyRuntimeError, monty.MontySyntaxError) as error:
            return self._failed(error)

    def _drive(self, snapshot: Any) -> Step:
        """Answer what can be answered, until the program ends or waits for a settlement."""
        while True:
            match snapshot:
                case monty.FunctionSnapshot():
                    if snapshot.is_os_function:
                        if snapshot.function_name == "time.sleep":
                            number = self._blocking
                            if number is None:
                                number = self._note(snapshot, "timer").number
                                self._blocking = number
                            if number not in self._answers:
                                return self._suspend(snapshot, frozenset((number,)))
                            self._blocking = None
                            self._settled(number)
                            snapshot = snapshot.resume({"return_value": None})
                        else:
                            snapshot = self._answer_os(snapshot)
                    elif self._calls >= cast("Turn", self._turn).max_calls and self._is_tool(snapshot):
                        return self._fail(faults.too_many_calls(self._calls), fatal=True)
                    else:
                        snapshot = self._answer_call(snapshot)
                case monty.NameLookupSnapshot():
                    snapshot = self._answer_name(snapshot)
                case monty.FutureSnapshot():
                    numbers = {call_id: self._numbers[call_id] for call_id in snapshot.pending_call_ids}
                    ready = {c: self._answers[n] for c, n in numbers.items() if n in self._answers}
                    if not ready:
                        return self._suspend(snapshot, frozenset(numbers.values()))
                    for call_id in ready:
                        self._settled(numbers[call_id])
                        del self._numbers[call_id]
                    snapshot = snapshot.resume(ready)
                case monty.MontyComplete():
                    return self._finished(snapshot)
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
        # A call counts once something waits for it: in Python a coroutine that nobody awaits does not run.
        new = sorted(awaiting - self._announced)
        self._announced.update(new)
        return Suspended(tuple(self._waiting[number] for number in new), awaiting, self._usage())

    def _settled(self, number: int) -> None:
        self._answers.pop(number, None)
        self._waiting.pop(number, None)

    def _finished(self, complete: Any) -> Step:
        try:
            value, _ = outward(complete.output)
        except ValueRefused as refusal:
            return self._fail(ErrorObject(refusal.code, refusal.message, refusal.hint))
        return Finished(value, self._leftover(), self._usage())

    def _fail(self, error: ErrorObject, *, fatal: bool = False) -> Failed:
        return Failed(error, fatal, self._leftover(), self._usage())

    def _failed(self, error: Any) -> Step:
        if faults.is_compile_error(error):
            return self._fail(faults.compile_error(error))
        text = str(error)
        if text == "SystemExit" or text.startswith("SystemExit:"):
            return Finished(None, self._leftover(), self._usage())
        if not self._warden.alive:
            # Monty tells of its worker's end as of an exception of the program; the program had no part in it.
            raise RuntimeError(text)
        if (limit := faults.limit_error(error, self._limits)) is not None:
            return self._fail(limit, fatal=True)
        if (tool := self._raised.get(text)) is not None:
            return self._fail(ErrorObject(tool.code, tool.message, tool.hint, faults.span_of(error)))
        return self._fail(faults.runtime_error(error, cast("Turn", self._turn).catalog.names))

    def _leftover(self) -> tuple[Call, ...]:
        calls = tuple(self._waiting.values())
        self._waiting, self._numbers = {}, {}
        return calls

    def _note(self, snapshot: Any, kind: Any) -> Call:
        self._made += 1
        name, refused, size = str(snapshot.function_name), None, 0
        args: tuple[Any, ...] = ()
        kwargs: dict[str, Any] = {}
        try:
            given, size = outward([list(snapshot.args), snapshot.kwargs])
            self._bytes += size
            if self._bytes > MAX_BYTES:
                raise ValueRefused("", f"the arguments of one step take more than {MAX_BYTES} bytes together")
            args, kwargs = tuple(cast("Any", given)[0]), cast("Any", given)[1]
        except ValueRefused as refusal:
            refused = ErrorObject(Code.INVALID_ARGUMENTS, refusal.message, refusal.hint)
        call = Call(self._made, "sleep" if kind == "timer" else name, args, kwargs, kind, refused, size)
        self._waiting[call.number] = call
        return call

    def _answer_call(self, snapshot: Any) -> Any:
        name = snapshot.function_name
        if not self._is_tool(snapshot):
            return snapshot.resume({"exc_type": "NameError", "message": f"name '{name}' is not defined"})
        self._calls += 1
        self._numbers[snapshot.call_id] = self._note(snapshot, "tool").number
        return snapshot.resume(_FUTURE)

    def _is_tool(self, snapshot: Any) -> bool:
        return snapshot.function_name in cast("Turn", self._turn).catalog.names

    def _answer_name(self, snapshot: Any) -> Any:
        name = snapshot.variable_name
        if snapshot.object_id is None and name in cast("Turn", self._turn).catalog.names:
            return snapshot.resume(value=_stand_in(name))
        return snapshot.resume()

    def _answer_os(self, snapshot: Any) -> Any:
        name = snapshot.function_name
        seconds = cast("Turn", self._turn).now_ms / 1000
        if name == "time.time":
            return snapshot.resume({"return_value": seconds})
        if name == "datetime.now":
            zone = snapshot.args[0] if snapshot.args else None
            now = datetime.datetime.fromtimestamp(seconds, zone or datetime.UTC)
            return snapshot.resume({"return_value": now if zone else now.replace(tzinfo=None)})
        if name == "date.today":
            return snapshot.resume({"return_value": datetime.datetime.fromtimestamp(seconds, datetime.UTC).date()})
        if name == "asyncio.sleep":
            self._numbers[snapshot.call_id] = self._note(snapshot, "timer").number
            return snapshot.resume(_FUTURE)
        if name == "import":
            return snapshot.resume_auto()
        return snapshot.resume_not_handled()

    def _grant(self, catalog: Catalog) -> None:
        """Make the catalog's namespaces importable; Monty reads the mapping when an import happens."""
        if not any("." in name for name in catalog.names):
            self._modules.clear()
            return
        tree: dict[str, dict[str, Any]] = {}
        for full in catalog.names:
            namespace, dot, name = full.partition(".")
            if dot:
                tree.setdefault(namespace, {})[name] = _stand_in(name)
        self._modules.clear()
        self._modules.update({space: monty.ExternalModule(tools) for space, tools in tree.items()})

    def _is_defined(self, name: str) -> bool:
        try:
            snapshot = self._session.feed_start(name)
        except monty.MontyError:
            return False
        if isinstance(snapshot, monty.MontyComplete):
            return True
        try:
            snapshot.resume()
        except monty.MontyError:
            pass
        return False

    # -- bytes -----------------------------------------------------------------------------------------------

    def _dump(self) -> bytes:
        snapshot = self._snapshot
        image = snapshot.dump() if snapshot is not None else self._session.dump()
        meta: dict[str, Any] = {"context": self._context}
        if snapshot is not None:
            meta |= {
                "made": self._made,
                "calls": self._calls,
                "numbers": list(self._numbers.items()),
                "announced": sorted(self._announced & set(self._waiting)),
                "waiting": [[c.number, c.name, c.kind] for c in self._waiting.values()],
                "unheard": [
                    [c.number, list(c.args), dict(c.kwargs)]
                    for c in self._waiting.values()
                    if c.number not in self._announced
                ],
                "blocking": self._blocking,
                "code": self._code,
            }
        head = json.dumps(meta, separators=(",", ":")).encode("utf-8", "surrogatepass")
        return _HEADER.pack(_MAGIC, len(head)) + head + image

    def load(self, state: bytes) -> None:
        """Take over the namespace in `state`. Runs in the lane, once, before anything else."""
        meta, image = _split(state)
        try:
            if "made" not in meta:
                self._session.load_session(image)
            else:
                self._snapshot = self._session.load_snapshot(image, print_callback=self._print)
        except monty.MontyError as error:
            raise SnapshotCorrupt(f"the Python engine cannot read these bytes: {error}") from None
        self._context = meta["context"]
        if "made" in meta:
            self._made, self._calls = meta["made"], meta["calls"]
            self._numbers = dict(meta["numbers"])
            self._announced = set(meta["announced"])
            self._blocking = meta["blocking"]
            self._code = meta["code"]
            told = {number: (args, kwargs) for number, args, kwargs in meta["unheard"]}
            for number, name, kind in meta["waiting"]:
                args, kwargs = told.get(number, ((), {}))
                self._waiting[number] = Call(number, name, tuple(args), kwargs, kind)

    def _print(self, stream: Any, text: str) -> None:
        # Monty keeps a feed's first callback for good; the turn's own sink is found through it.
        if self._turn is not None:
            self._turn.sink(stream, text)

    def bind_modules(self, modules: dict[str, Any]) -> None:
        self._modules = modules

    def _release(self) -> None:
        # Order matters: a snapshot that outlives its session aborts the interpreter at exit.
        self._snapshot = None
        try:
            self._session.__exit__(None, None, None)
        except (monty.MontyError, RuntimeError):
            pass  # the worker is gone already; the pool replaces it
        self._session = None


def _split(state: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        magic, size = _HEADER.unpack_from(state)
        if magic != _MAGIC:
            raise ValueError("magic")
        meta = json.loads(state[_HEADER.size : _HEADER.size + size].decode("utf-8", "surrogatepass"))
    except (struct.error, ValueError):
        raise SnapshotCorrupt("these bytes are not a state of the Python engine") from None
    return meta, state[_HEADER.size + size :]


def _stand_in(name: str) -> Any:
    """A host function that stands for a tool. Monty only reads its name; it is never called."""

    def tool() -> None:
        raise AssertionError("a stand-in is never called")

    tool.__name__ = tool.__qualname__ = name
    return tool
