"""A TypeScript namespace alive on one worker, as the port knows it: one request to the worker for each step."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from cloister.core.codes import Code
from cloister.core.diagnostic import Diagnostic, ErrorObject, Severity
from cloister.core.errors import EngineUnavailable
from cloister.engines.quickjs import frames, helping, report
from cloister.engines.quickjs.checker import Checker, Overdue
from cloister.engines.quickjs.process import WorkerLost, WorkerProcess
from cloister.engines.warden import Verdict, verdict_error
from cloister.ports.engine import Checked, Failed, Program, Settlement, Step, Turn, TypeCheck, Usage

_CLOSE_SECONDS = 5.0
_DUMP_SECONDS = 60.0
_LARGE = 64 << 10


class QuickJSInterpreter:
    def __init__(
        self,
        worker: WorkerProcess,
        checker: Checker,
        on_close: Callable[["QuickJSInterpreter"], Awaitable[None]],
    ) -> None:
        self.worker = worker
        self._checker = checker
        self._on_close = on_close
        self._told: tuple[frozenset[str], frozenset[str], frozenset[str], str] | None = None
        # A fatal step leaves no namespace behind, whether or not its worker lives.
        self._gone = False
        self._closed = False
        # One request at a time is the worker's protocol; a dump may be asked for while a program starts.
        self._one = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return self.worker.pid if self.worker.alive and not self.worker.warden.is_over else None

    # -- the port ----------------------------------------------------------------------------------------------

    async def check(self, program: Program, types: TypeCheck, turn: Turn, *, starting: bool) -> Checked:
        # `start` erases, and looks for unknown tools, in the same round trip; there are no types to check.
        if starting or self._gone:
            return Checked()
        head = {"names": sorted(turn.catalog.names)}
        frame = frames.pack_with_head(frames.CHECK, head, program.code.encode("utf-8", "surrogatepass"))
        try:
            found, suspects = report.read_check(await self._checker.examine(frame, turn), turn.catalog)
        except Overdue as overdue:
            error = verdict_error(overdue.verdict)
            return Checked((Diagnostic(Severity.ERROR, error.code, error.message, error.hint),))
        except frames.FrameError as error:
            self._checker.distrust(str(error))
            raise EngineUnavailable("the worker that checks programs misbehaved") from None
        except WorkerLost as error:
            raise EngineUnavailable(f"the worker that checks programs died: {error}") from None
        if suspects:
            found += await self._judge(suspects, program, turn)
        return Checked(found)

    async def _judge(self, suspects: list[Any], program: Program, turn: Turn) -> tuple[Diagnostic, ...]:
        """The calls among `suspects` that no variable of this session explains."""
        frame = frames.pack_with_head(
            frames.JUDGE,
            {
                "now_ms": turn.now_ms,
                "cpu_ms": turn.cpu_ms,
                "wall_ms": turn.wall_ms,
                "suspects": suspects,
                "inputs": list(program.inputs),
                "secret": bool(turn.catalog.mark),
                "helpers": sorted(turn.catalog.helpers),
            },
        )
        async with self._one:
            try:
                _, payload = await self.worker.ask(frame, frames.CHECKED)
                return report.read_check(payload, turn.catalog)[0]
            except frames.FrameError as error:
                self.worker.misbehaved(str(error))
            except WorkerLost:
                pass
        # Nothing was found because nobody could look: starting the program says why.
        return ()

    async def start(self, program: Program, turn: Turn) -> Step:
        inputs, bigs = report.write_value(dict(program.inputs))
        head = self._head(turn) | {"code": program.code, "bigs": bigs, "inputs": list(program.inputs)}
        return await self._step(frames.pack_with_head(frames.START, head, inputs), turn)

    async def resume(self, settlements: Sequence[Settlement], turn: Turn) -> Step:
        settled, bigs = report.write_value([report.settlement(item) for item in settlements])
        return await self._step(frames.pack_with_head(frames.RESUME, self._head(turn) | {"bigs": bigs}, settled), turn)

    async def dump(self) -> bytes:
        try:
            async with self._one, asyncio.timeout(_DUMP_SECONDS):
                kind, payload = await self.worker.ask(frames.pack(frames.DUMP), frames.IMAGE, frames.REFUSED)
        except (WorkerLost, TimeoutError) as error:
            raise EngineUnavailable(f"the namespace is gone with its worker: {error}") from None
        if kind == frames.REFUSED:
            raise EngineUnavailable(payload.decode("utf-8", "replace"))
        return payload

    def interrupt(self) -> None:
        self.worker.warden.kill("INTERRUPTED")

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._on_close(self)

    # -- inside ------------------------------------------------------------------------------------------------

    async def open(self, head: dict[str, Any], state: bytes) -> str | None:
        """Put a namespace on the worker; returns why it cannot be."""
        kind, payload = await self.worker.ask(
            frames.pack_with_head(frames.OPEN, head, state), frames.OPENED, frames.REFUSED
        )
        return payload.decode("utf-8", "replace") if kind == frames.REFUSED else None

    async def leave(self) -> bool:
        """Take the namespace off the worker. False if the worker did not take part and was killed."""
        if not self.worker.alive:
            return False
        try:
            async with self._one, asyncio.timeout(_CLOSE_SECONDS):
                await self.worker.ask(frames.pack(frames.CLOSE), frames.CLOSED)
        except (WorkerLost, TimeoutError):
            return False
        return True

    def _head(self, turn: Turn) -> dict[str, Any]:
        catalog = turn.catalog
        now = (catalog.names, catalog.own, catalog.helpers, catalog.mark)
        news = None
        if now != self._told:
            lists = {"names": catalog.names, "own": catalog.own, "helpers": catalog.helpers}
            news = {part: sorted(names) for part, names in lists.items()} | {"mark": catalog.mark}
            self._told = now
        return {
            "now_ms": turn.now_ms,
            "cpu_ms": turn.cpu_ms,
            "wall_ms": turn.wall_ms,
            "calls": turn.max_calls,
            "catalog": news,
        }

    async def _step(self, frame: bytes, turn: Turn) -> Step:
        async with self._one:
            return await self._go(frame, turn)

    async def _go(self, frame: bytes, turn: Turn) -> Step:
        worker, warden = self.worker, self.worker.warden
        # A verdict from before this step (interrupted while at rest) must not be forgotten by `watch`.
        if self._gone or not worker.alive or warden.verdict is not None:
            return self._lost(warden.verdict, Usage())
        if len(frame) > frames.TO_WORKER:
            message = f"the program and its values take more than {frames.TO_WORKER >> 20} MiB"
            return Failed(ErrorObject(Code.INVALID_INPUT, message, "give it less at once"))
        warden.watch(turn.wall_ms, turn.cpu_ms)
        try:
            consult = partial(helping.answer, turn=turn)
            _, payload = await worker.ask(frame, frames.STEP, output=turn.sink, consult=consult)
            warden.rest()
            if len(payload) > _LARGE:
                # Reading it takes long enough to be felt by everybody else on the loop.
                step, dropped = await asyncio.to_thread(report.read_step, payload, turn.catalog)
            else:
                step, dropped = report.read_step(payload, turn.catalog)
        except WorkerLost:
            # The dead have no processor time: what is known is that all of it was used, or nothing.
            verdict = self._verdict()
            return self._lost(verdict, Usage(cpu_ms=turn.cpu_ms if verdict == "TIMEOUT_CPU" else 0.0))
        except frames.FrameError as error:
            worker.misbehaved(str(error))
            return self._lost(self._verdict(), Usage())
        finally:
            warden.rest()
        if dropped:
            turn.sink("stderr", f"[{dropped} bytes of output were dropped]\n")
        if isinstance(step, Failed) and step.fatal:
            self._gone = True
        return step

    def _verdict(self) -> Verdict | None:
        return self.worker.warden.verdict

    def _lost(self, verdict: Verdict | None, usage: Usage) -> Failed:
        self._gone = True
        if verdict is not None:
            return Failed(verdict_error(verdict), fatal=True, usage=usage)
        message = "the worker that ran the program died"
        return Failed(ErrorObject(Code.ENGINE_CRASHED, message, "run the cell again"), fatal=True, usage=usage)
