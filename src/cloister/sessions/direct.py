"""Calls that the host makes itself, through the same gate: a cell without a program, with one call."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from cloister.cells.notes import with_hint
from cloister.core.cell import Terminated
from cloister.core.codes import Code, RunStatus, status_of
from cloister.core.diagnostic import ErrorObject
from cloister.core.ids import IdSource
from cloister.core.run import Metrics, RunResult
from cloister.core.value import ValueRefused, sized
from cloister.gate import Asked, Budget, Caller, Gate, Outcome, Passed
from cloister.ports.engine import Call, Raised, Returned


@dataclass(frozen=True, slots=True)
class _Waiting:
    caller: Caller
    asked: Asked


@dataclass(frozen=True, slots=True, eq=False)
class _UnderWay:
    # Ended by whoever closes the session.
    patience: asyncio.Timeout
    over: "asyncio.Future[None]"


class DirectCalls:
    def __init__(self, gate: Gate, ids: IdSource) -> None:
        self._gate = gate
        self._ids = ids
        self._waiting: dict[str, _Waiting] = {}
        self._under_way: set[_UnderWay] = set()

    def __contains__(self, cell_id: object) -> bool:
        return isinstance(cell_id, str) and cell_id in self._waiting

    async def call(self, name: str, arguments: object, max_calls: int) -> RunResult:
        caller = Caller(self._ids.new("cel_"), Budget(max_calls, max_calls))
        made = _call(name, arguments)
        return await self._finish(caller, await self._pass(made, caller, self._gate.handle(made, caller)))

    async def resume(self, cell_id: str) -> RunResult:
        waiting = self._waiting.pop(cell_id)
        return await self._finish(waiting.caller, await self._proceed(waiting.caller, waiting.asked))

    def terminate(self, cell_id: str) -> Terminated:
        waiting = self._waiting.pop(cell_id)
        result = _result(waiting.caller, self._gate.withdraw(waiting.asked))
        return Terminated(cell_id=cell_id, external_calls=result.external_calls, metrics=result.metrics)

    async def close(self) -> None:
        """Stop the calls that are under way, and wait until they have."""
        for call in self._under_way:
            call.patience.reschedule(asyncio.get_running_loop().time())
        if self._under_way:
            # The gate abandons a tool that ignores its cancellation, so this ends.
            await asyncio.wait([call.over for call in self._under_way])

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
            if not await desk.answered([passed.approval.id]):
                return RunResult(
                    RunStatus.WAITING_FOR_APPROVAL,
                    caller.cell_id,
                    external_calls=(passed.record,),
                    approvals=(desk.get(passed.approval.id),),
                )
            if self._waiting.pop(caller.cell_id, None) is None:
                # Somebody else went on with it, or ended it, meanwhile.
                error = ErrorObject(Code.CANCELLED, f"the call of {passed.passage.name!r} was taken up elsewhere")
                return RunResult(status_of(error.code), caller.cell_id, error=with_hint(error))
            passed = await self._proceed(caller, passed)
        return _result(caller, passed)


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
