"""Calls that the host makes itself, through the same gate: a cell without a program, with one call.

One that waits for a person is kept as a row, where rows are kept, and gone on with once: by whoever resumes it.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from cloister.cells.notes import with_hint
from cloister.core.cell import CellState, Terminated
from cloister.core.codes import Code, RunStatus, status_of
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import CloisterError
from cloister.core.ids import IdSource
from cloister.core.run import Metrics, RunResult
from cloister.core.strand import Strand
from cloister.core.value import ValueRefused, sized
from cloister.gate import Asked, Budget, Caller, Gate, Outcome, Passed
from cloister.ports.engine import Call, Raised, Returned
from cloister.ports.rows import CellRow
from cloister.sessions.direct_rows import DirectRows, is_direct, kept_call
from cloister.sessions.events import Events


@dataclass(frozen=True, slots=True)
class _Waiting:
    caller: Caller
    asked: Asked


@dataclass(frozen=True, slots=True, eq=False)
class _UnderWay:
    # Ended by whoever closes the session.
    patience: asyncio.Timeout
    over: "asyncio.Future[None]"


class Within(TypedDict, total=False):
    cell_id: str | None
    strand: Strand | None


class DirectCalls:
    def __init__(
        self, gate: Gate, ids: IdSource, events: Events, session_id: str, rows: DirectRows | None = None
    ) -> None:
        self._events = events
        self._session_id = session_id
        self._gate = gate
        self._ids = ids
        self._rows = rows
        # Of another process, and read by nobody yet.
        self._ended: dict[str, RunResult] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._under_way: set[_UnderWay] = set()

    def __contains__(self, cell_id: object) -> bool:
        return isinstance(cell_id, str) and (cell_id in self._waiting or cell_id in self._ended)

    async def call(
        self,
        name: str,
        arguments: object,
        max_calls: int,
        *,
        cell_id: str | None = None,
        strand: Strand | None = None,
    ) -> RunResult:
        """One with a `cell_id` may have been made before under that id: then this says how it ended."""
        caller = Caller(cell_id or self._ids.new("cel_"), Budget(max_calls, max_calls), woke=cell_id is not None)
        self._events.assign(self._session_id, caller.cell_id, strand)
        made = _call(name, arguments)
        return await self._finish(caller, await self._pass(made, caller, self._gate.handle(made, caller)))

    async def resume(self, cell_id: str) -> RunResult:
        if (ended := self._ended.pop(cell_id, None)) is not None:
            return await self._told(ended)
        waiting = self._waiting.pop(cell_id)
        try:
            return await self._finish(waiting.caller, await self._proceed(waiting.caller, waiting.asked))
        except asyncio.CancelledError:
            # Its caller has left, and what may have been made is on record: nobody goes on with it.
            await asyncio.shield(self._told(_failed(cell_id, Code.CANCELLED, "its caller left in the middle of it")))
            raise

    async def terminate(self, cell_id: str) -> Terminated:
        if (ended := self._ended.pop(cell_id, None)) is None:
            waiting = self._waiting.pop(cell_id)
            ended = _result(waiting.caller, self._gate.withdraw(waiting.asked))
        await self._told(ended, CellState.TERMINATED)
        return Terminated(cell_id=cell_id, external_calls=ended.external_calls, metrics=ended.metrics)

    def take_up(self, row: CellRow) -> str | None:
        """A call of another process, as it was written down there; what becomes of it. None for a cell of a program."""
        if not is_direct(row):
            return None
        assert self._rows is not None
        self._rows.take_up(row)
        if row.thread_id is not None and row.turn_id is not None:
            self._events.assign(self._session_id, row.id, Strand(row.thread_id, row.turn_id, row.item_id))
        kept = kept_call(row)
        if kept.result is not None:
            self._ended[row.id] = kept.result
            return "ended"
        caller = Caller(row.id, Budget(1, 1), woke=True)
        asked = self._gate.ask_again(kept.call, caller, kept.asked)
        if asked is None:
            self._ended[row.id] = _failed(row.id, Code.INTERRUPTED, "what was asked about it is not on record")
            return "interrupted"
        self._waiting[row.id] = _Waiting(caller, asked)
        return "sleeps"

    async def close(self) -> None:
        """Stop the calls that are under way, and wait until they have."""
        for call in self._under_way:
            call.patience.reschedule(asyncio.get_running_loop().time())
        if self._under_way:
            # The gate abandons a tool that ignores its cancellation, so this ends.
            await asyncio.wait([call.over for call in self._under_way])
        if self._rows is not None:
            await self._rows.give_up(with_hint(ErrorObject(Code.INTERRUPTED, "the session was closed")))

    async def _proceed(self, caller: Caller, asked: Asked) -> Passed:
        return await self._pass(asked.passage.call, caller, self._gate.proceed(asked))

    async def _pass(self, call: Call, caller: Caller, way: Coroutine[Any, Any, Passed]) -> Passed:
        this = _UnderWay(asyncio.timeout(None), asyncio.get_running_loop().create_future())
        self._under_way.add(this)
        try:
            async with this.patience:
                return await way
        except TimeoutError:
            record = self._gate.cancelled(call, caller).record
            return Outcome(Raised(call.number, ErrorObject(Code.INTERRUPTED, "the session was closed")), record)
        except asyncio.CancelledError:
            self._gate.cancelled(call, caller)
            raise
        finally:
            self._under_way.discard(this)
            this.over.set_result(None)

    async def _finish(self, caller: Caller, passed: Passed) -> RunResult:
        desk = self._gate.desk
        while isinstance(passed, Asked):
            # An approver inside the process may be at work on it; nobody else is waited for.
            self._waiting[caller.cell_id] = _Waiting(caller, passed)
            await self._waits(caller.cell_id, passed)
            if not await desk.answered([passed.approval.id]):
                return RunResult(
                    RunStatus.WAITING_FOR_APPROVAL,
                    caller.cell_id,
                    external_calls=(passed.record,),
                    approvals=(desk.get(passed.approval.id),),
                )
            if self._waiting.pop(caller.cell_id, None) is None:
                # Somebody else went on with it, or ended it, meanwhile.
                said = f"the call of {passed.passage.name!r} was taken up elsewhere"
                return _failed(caller.cell_id, Code.CANCELLED, said)
            passed = await self._proceed(caller, passed)
        return await self._told(_result(caller, passed))

    async def _waits(self, cell_id: str, asked: Asked) -> None:
        """Written down before anybody is told."""
        if self._rows is None:
            return
        try:
            await self._rows.waits(cell_id, asked, self._events.strand(self._session_id, cell_id))
        except CloisterError:
            self._waiting.pop(cell_id, None)
            self._gate.withdraw(asked)
            raise

    async def _told(self, result: RunResult, state: CellState | None = None) -> RunResult:
        """Its caller knows how it ended."""
        self._events.unassign(self._session_id, result.cell_id)
        if self._rows is not None:
            await self._rows.ended(result.cell_id, result, state)
        return result


def _call(name: str, arguments: object) -> Call:
    """The host's values are looked at like a program's: they may have come from a model."""
    named = isinstance(arguments, Mapping)
    if not named and (isinstance(arguments, (str, bytes)) or not isinstance(arguments, Sequence)):
        given = type(arguments).__name__
        refused = ErrorObject(Code.INVALID_ARGUMENTS, f"arguments are an object or a list, not {given}")
        return Call(1, name, refused=refused)
    try:
        made, size = sized(cast("Any", arguments))
    except ValueRefused as refusal:
        return Call(1, name, refused=ErrorObject(Code.INVALID_ARGUMENTS, refusal.message, refusal.hint))
    if isinstance(made, dict):
        return Call(1, name, kwargs=made, size=size)
    return Call(1, name, tuple(cast("list[Any]", made)), size=size)


def _failed(cell_id: str, code: Code, message: str) -> RunResult:
    return RunResult(status_of(code), cell_id, error=with_hint(ErrorObject(code, message)))


def _result(caller: Caller, outcome: Outcome) -> RunResult:
    records = (outcome.record,) if outcome.record is not None else ()
    metrics = Metrics(duration_ms=records[0].duration_ms if records else 0.0, external_calls_count=len(records))
    match outcome.settlement:
        case Returned(value=value):
            return RunResult(RunStatus.OK, caller.cell_id, value, external_calls=records, metrics=metrics)
        case Raised(error=error):
            return RunResult(
                status_of(error.code), caller.cell_id, external_calls=records, metrics=metrics, error=with_hint(error)
            )
