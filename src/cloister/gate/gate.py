"""The gate: one call in, one settlement and one record out, in a fixed order.

resolve the name, guard the shape and size, bind the arguments, charge the budget, dispatch within the capability's
quota and timeout, guard the response. A refusal at any stage is an error that the program can catch. What a host's
exception says never reaches the program: it gets a code and what the tool chose to tell it.
"""

import asyncio
import difflib
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from cloister.core.call import CallStatus, ExternalCallRecord
from cloister.core.capability import SideEffect
from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.digest import canonical_json, digest_bytes
from cloister.core.language import Language
from cloister.core.value import Bounds, Json, ValueRefused, sized
from cloister.gate.quota import Quota
from cloister.ports.clock import Clock, SystemClock
from cloister.ports.engine import Call, Raised, Returned, Settlement
from cloister.tools.catalog import signature_in
from cloister.tools.registry import ToolRegistry
from cloister.tools.signature import BadArguments
from cloister.tools.tool import Tool, ToolError

log = logging.getLogger("cloister.gate")
T = TypeVar("T")
# What is looked at on the event loop: a millisecond or two of work.
_SMALL = Bounds(nodes=2_000, size=64 << 10)


@dataclass(slots=True)
class Budget:
    """How many calls a cell may still make."""

    left: int
    limit: int

    def charge(self) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        return True


@dataclass(frozen=True, slots=True)
class Outcome:
    settlement: Settlement
    record: ExternalCallRecord


class _Refusal(Exception):
    """Ends the pipeline: this is what the program gets and what is recorded."""

    def __init__(self, status: CallStatus, error: ErrorObject) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error


def _refuse(code: str, message: str, hint: str | None = None, status: CallStatus = CallStatus.ERROR) -> _Refusal:
    return _Refusal(status, ErrorObject(code, message, hint))


class Gate:
    """Passes calls to the tools of one registry."""

    def __init__(
        self, registry: ToolRegistry, clock: Clock | None = None, language: Language = Language.PYTHON
    ) -> None:
        self._registry = registry
        self._language = language
        self._clock = clock or SystemClock()
        self._quotas: dict[str, tuple[Tool, Quota]] = {}

    async def handle(self, call: Call, call_id: str, budget: Budget) -> Outcome:
        """Pass one call. Never raises but for cancellation."""
        started = time.monotonic()
        request = b""
        side_effect, response_digest = SideEffect.NONE, None
        settlement: Settlement
        status, error = CallStatus.OK, None
        try:
            tool = self._resolve(call.name)
            side_effect = tool.side_effect
            self._guard_request(call, tool)
            request, arguments = await _aside(call.size, lambda: (_request(call), self._bind(call, tool)))
            self._charge(call, budget)
            value = await self._dispatch(tool, arguments)
            value, response_digest = await self._guard_response(tool, value)
            settlement = Returned(call.number, value)
        except _Refusal as refusal:
            status, error = refusal.status, refusal.error
            settlement = Raised(call.number, error)
        record = ExternalCallRecord(
            id=call_id,
            name=call.name,
            side_effect=side_effect,
            duration_ms=round((time.monotonic() - started) * 1000, 3),
            status=status,
            # A request that was refused unread has the digest of its name: there is nothing else to vouch for.
            request_digest=digest_bytes(request or canonical_json([call.name])),
            response_digest=response_digest,
            error=error,
        )
        return Outcome(settlement, record)

    def side_effect_of(self, name: str) -> SideEffect:
        tool = self._registry.get(name)
        return tool.side_effect if tool is not None else SideEffect.NONE

    def is_idempotent(self, name: str) -> bool:
        tool = self._registry.get(name)
        return tool is None or tool.idempotent

    def _resolve(self, name: str) -> Tool:
        tool = self._registry.get(name)
        if tool is None:
            close = difflib.get_close_matches(name, self._registry.names(), n=1)
            hint = f"did you mean `{close[0]}`?" if close else None
            raise _refuse(Code.UNKNOWN_TOOL, f"there is no tool `{name}`", hint)
        return tool

    def _guard_request(self, call: Call, tool: Tool) -> None:
        if call.refused is not None:
            raise _Refusal(CallStatus.ERROR, call.refused)
        bound = tool.limits.max_request_bytes
        if call.size > bound:
            message = f"the arguments take about {call.size} bytes; `{call.name}` takes {bound}"
            raise _refuse(Code.INVALID_ARGUMENTS, message, "send less in one call")

    def _bind(self, call: Call, tool: Tool) -> Mapping[str, object]:
        try:
            return tool.signature.bind(call.args, call.kwargs)
        except BadArguments as bad:
            message = f"`{call.name}`: {bad} at {bad.path}"
            raise _refuse(Code.INVALID_ARGUMENTS, message, signature_in(self._language, tool.capability)) from None
        # Containment: a tool's own validators are the host's code, and may break like any of it.
        except Exception as error:  # noqa: BLE001
            raise self._broke(tool, "could not read its arguments", error) from None

    def _charge(self, call: Call, budget: Budget) -> None:
        if not budget.charge():
            raise _refuse(
                Code.EXTERNAL_CALLS_EXCEEDED,
                f"this cell has made its {budget.limit} calls",
                "do the work with fewer calls, or ask for a larger max_external_calls",
            )

    async def _dispatch(self, tool: Tool, arguments: Mapping[str, object]) -> object:
        bound = asyncio.timeout(tool.limits.timeout_ms / 1000)
        try:
            async with bound, self._quota(tool).use():
                if tool.is_async:
                    return await tool.handler(**arguments)
                # A thread that ignores the timeout goes on alone; its result is dropped.
                value = await asyncio.to_thread(_call, tool, arguments)
                # A plain function around an async one: what it made is awaited here, where the loop is.
                return await value if inspect.isawaitable(value) else value
        except TimeoutError as error:
            if not bound.expired():
                raise self._broke(tool, "failed", error) from None
            raise _refuse(
                Code.TIMEOUT_TOOL,
                f"`{tool.full_name}` took longer than {tool.limits.timeout_ms} ms",
                "try again, or do less in one call",
                CallStatus.TIMEOUT,
            ) from None
        except ToolError as error:
            raise _refuse(error.code, error.message, error.hint) from None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Nobody cancelled this call: something inside the tool was cancelled, and that is the tool's failure.
            raise self._broke(tool, "failed", error) from None
        # Containment: any other exception is the host's secret. It is logged here and nowhere else.
        except Exception as error:  # noqa: BLE001
            raise self._broke(tool, "failed", error) from None

    def _quota(self, tool: Tool) -> Quota:
        held = self._quotas.get(tool.full_name)
        # A tool that was replaced brings its own limits.
        if held is None or held[0] is not tool:
            held = self._quotas[tool.full_name] = (tool, Quota(tool.limits, self._clock))
        return held[1]

    async def _guard_response(self, tool: Tool, value: object) -> tuple[Json, str]:
        try:
            try:
                # Small answers are looked at here; a look that does not end soon goes on in a thread.
                answer, size = sized(value, _SMALL)
            except ValueRefused:
                answer, size = await asyncio.to_thread(_whole, tool, value)
            bound = tool.limits.max_response_bytes
            if size > bound:
                message = f"`{tool.full_name}` returned about {size} bytes; {bound} are allowed"
                raise _refuse(Code.RESULT_TOO_LARGE, message, "ask for less in one call")
            return answer, await _aside(size, lambda: digest_bytes(canonical_json(answer)))
        except _Refusal:
            raise
        # Containment: a result's own methods are the host's code.
        except Exception as error:  # noqa: BLE001
            raise self._broke(tool, "returned what is not JSON", error) from None

    def _broke(self, tool: Tool, what: str, error: BaseException) -> _Refusal:
        """A failure that the program learns nothing of but that it happened."""
        log.error("tool %s %s", tool.full_name, what, exc_info=error)
        return _refuse(Code.TOOL_ERROR, f"`{tool.full_name}` {what}")


async def _aside(size: int, work: Callable[[], T]) -> T:
    """Do `work` at once if it is about little data, otherwise in a thread: the loop must not stand still."""
    return work() if size <= _SMALL.size else await asyncio.to_thread(work)


def _request(call: Call) -> bytes:
    return canonical_json([call.name, list(call.args), call.kwargs])


def _whole(tool: Tool, value: object) -> tuple[Json, int]:
    try:
        return sized(value)
    except ValueRefused as refusal:
        if refusal.code != Code.RESULT_NOT_SERIALIZABLE:
            raise
        return sized(tool.signature.unwrap(value))


def _call(tool: Tool, arguments: Mapping[str, object]) -> object:
    try:
        return tool.handler(**arguments)
    except StopIteration as stop:
        # A future cannot carry it, and would hang.
        raise RuntimeError("StopIteration") from stop
