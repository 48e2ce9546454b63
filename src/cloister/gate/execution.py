"""Stages 7 to 13: a call that may be made is made, once, and what came of it is handed back.

The intent is written down before the tool is called and the settlement before anybody sees it. Whatever a host's
exception says stays with the host; the program gets a code and what the tool chose to tell it.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from cloister.core.call import CallStatus, ExternalCallRecord
from cloister.core.capability import HARMLESS
from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.digest import canonical_json, digest_bytes
from cloister.core.event import Emit, Heard, always_heard, call_end
from cloister.core.ids import IdSource
from cloister.core.value import Json
from cloister.core.wire import to_json
from cloister.gate.approvals import ApprovalDesk
from cloister.gate.binding import Binder
from cloister.gate.dispatch import ToolBroke, dispatch
from cloister.gate.guard import NotJson, aside, clean, cut, guard_response, trace
from cloister.gate.hooks import HookedCall, Hooks
from cloister.gate.passage import Outcome, Passage, Scope
from cloister.gate.quota import Quota
from cloister.gate.refusal import Refusal, refuse
from cloister.gate.secrets import Handles
from cloister.ports.clock import Clock
from cloister.ports.engine import Raised, Returned, Settlement
from cloister.ports.journal import Intent, Journal, Settled
from cloister.ports.telemetry import Telemetry
from cloister.tools.catalog import signature_in
from cloister.tools.context import CallContext, unheard
from cloister.tools.search import IndexCache
from cloister.tools.tool import Bound, Tool, ToolError

log = logging.getLogger("cloister.gate")
# What a tool says to a program, or to whoever watches, is cut after this many characters.
_LONGEST_NOTE = 4000
_LONGEST_CODE = 100
# A larger answer is written down before its program goes on: what is not is kept in memory.
_MOST_AHEAD_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the gates of all sessions share."""

    clock: Clock
    ids: IdSource
    desk: ApprovalDesk
    journal: Journal
    emit: Emit | None = None
    heard: Heard = always_heard
    indexes: IndexCache = field(default_factory=IndexCache)
    telemetry: Telemetry | None = None


class Execution:
    """Makes the calls of one session."""

    def __init__(self, wiring: Wiring, scope: Scope, hooks: Hooks, handles: Handles) -> None:
        self._clock = wiring.clock
        self._journal = wiring.journal
        self._emit = wiring.emit
        self._is_heard = wiring.heard
        self._telemetry = wiring.telemetry
        self._scope = scope
        self._hooks = hooks
        self._handles = handles
        self.binder = Binder(scope.language, handles)
        self._quotas: dict[str, tuple[Tool, Quota]] = {}
        # Calls that were made, for the rules.
        self.counts: Counter[str] = Counter()

    async def carry_out(self, passage: Passage, tool: Tool) -> Outcome:
        """Stages 7 to 13, for a call that may be made."""
        # Counted before anything is awaited: of calls made together, each sees those before it.
        self.counts[passage.name] += 1
        bound = self.binder.final(passage, tool)
        intended = False

        async def intend() -> None:
            nonlocal intended
            # Before it is written: a cancellation in the middle may leave it written all the same.
            intended = True
            try:
                await self._intend(passage, tool)
            except Refusal:
                intended = False
                raise

        answer: Json = None
        response_digest: str | None = None
        error: ErrorObject | None = None
        status = CallStatus.OK
        try:
            value = await self._call(passage, tool, bound, intend)
            answer, response_digest = await self._received(passage, tool, value)
        except Refusal as refusal:
            status, error = refusal.status, clean(refusal.error, self._handles.redactor())
        except asyncio.CancelledError:
            if intended:
                # Whether it happened is anybody's guess; a program that sleeps in a snapshot may still ask.
                stopped = ErrorObject(Code.CANCELLED, f"`{passage.name}` was cancelled when its cell ended")
                await asyncio.shield(self._settle(passage, CallStatus.UNKNOWN, None, stopped, None))
            raise
        soon = self._may_go_ahead(passage, tool)
        on_record = intended and await self._settle(passage, status, answer, error, response_digest, soon=soon)
        if on_record:
            for heard in passage.waiting:
                heard()
        if intended and not on_record:
            status, answer, response_digest = CallStatus.UNKNOWN, None, None
            error = ErrorObject(
                Code.OUTCOME_UNKNOWN,
                f"`{passage.name}` was made, but how it ended could not be written down",
                "find out before you repeat it",
            )
        return await self._hand_back(passage, tool, status, answer, error, response_digest, on_record=on_record)

    async def _call(self, passage: Passage, tool: Tool, bound: Bound, started: Callable[[], Awaitable[None]]) -> object:
        context, quota = self._context(passage, tool), self._quota(tool)
        within = self._telemetry.within(passage.call_id) if self._telemetry is not None else nullcontext()
        try:
            with within:
                return await dispatch(tool, bound, context, quota, timeout_ms=tool.limits.timeout_ms, started=started)
        except ToolError as error:
            raise self._spoken(tool, error) from None
        except ToolBroke as broke:
            raise self._broke(tool, "failed", broke.error) from None

    def _may_go_ahead(self, passage: Passage, tool: Tool) -> bool:
        """Whether the program need not wait until the end of this call is on record: made again, it would be as good,
        and nobody else is told of it."""
        return (
            passage.caller.keeps
            and tool.is_declared
            and tool.idempotent
            and tool.side_effect in HARMLESS
            and not passage.waiting
            and not self._hooks
            and passage.answered_bytes <= _MOST_AHEAD_BYTES
        )

    async def _received(self, passage: Passage, tool: Tool, value: object) -> tuple[Json, str]:
        try:
            answer, size = await guard_response(tool, value)
        except NotJson as broken:
            raise self._broke(tool, "returned what is not JSON", broken.__cause__ or broken) from None
        passage.answered_bytes = size
        redactor = self._handles.redactor()

        def scrub() -> tuple[Json, str]:
            shown = redactor.value(answer) if redactor else answer
            return shown, digest_bytes(canonical_json(shown))

        return await aside(size, scrub)

    def _spoken(self, tool: Tool, error: ToolError) -> Refusal:
        """What a tool chose to say."""
        redactor = self._handles.redactor()
        try:
            code = cut(str(error.code), _LONGEST_CODE, redactor)
            message = cut(str(error.message), _LONGEST_NOTE, redactor)
            hint = cut(str(error.hint), _LONGEST_NOTE, redactor) if error.hint is not None else None
        # Containment: what it says may be anything, and have methods that break.
        except BaseException as broken:  # noqa: BLE001
            return self._broke(tool, "failed", broken)
        return refuse(code, message, hint)

    async def shown(self, passage: Passage) -> Json:
        """Arguments as they are written down: with handles in them, and no value that a program put together itself."""
        redactor = self._handles.redactor()
        if not redactor:
            return passage.arguments
        return await aside(passage.size, lambda: redactor.value(passage.arguments))

    async def _intend(self, passage: Passage, tool: Tool) -> None:
        intent = Intent(
            key=passage.key,
            call_id=passage.call_id,
            session_id=self._scope.session_id,
            cell_id=passage.caller.cell_id,
            number=passage.call.number,
            name=passage.name,
            side_effect=tool.side_effect,
            idempotent=tool.idempotent,
            arguments=await self.shown(passage),
            request_digest=passage.request_digest,
            at_ms=self._clock.now_ms(),
        )
        try:
            await self._journal.intend(intent)
        # Containment: whatever keeps the journal from writing, the call is not made.
        except Exception:
            log.exception("call %s could not be written down and was not made", passage.key)
            raise refuse(Code.TOOL_ERROR, f"`{passage.name}` could not be written down, so it was not made") from None

    async def _settle(
        self,
        passage: Passage,
        status: CallStatus,
        value: Json,
        error: ErrorObject | None,
        response_digest: str | None,
        *,
        soon: bool = False,
    ) -> bool:
        settled = Settled(passage.key, status, self._clock.now_ms(), value, error, response_digest, passage.usage)
        try:
            await (self._journal.settle_soon(settled) if soon else self._journal.settle(settled))
        # Containment: a program must not see what is not written down.
        except Exception:
            log.exception("the end of call %s could not be written down", passage.key)
            return False
        return True

    async def _hand_back(
        self,
        passage: Passage,
        tool: Tool,
        status: CallStatus,
        answer: Json,
        error: ErrorObject | None,
        response_digest: str | None,
        *,
        on_record: bool,
    ) -> Outcome:
        number = passage.call.number
        record = passage.record(status, response_digest=response_digest, error=error)
        settlement: Settlement = Returned(number, answer) if error is None else Raised(number, error)
        if self._hooks:
            try:
                await self._hooks.after(self.hooked(passage, tool), record, timeout_ms=tool.limits.timeout_ms)
            except Refusal as refusal:
                withheld = clean(refusal.error, self._handles.redactor())
                record = replace(record, status=refusal.status, error=withheld)
                settlement, on_record = Raised(number, withheld), False
        self.tell_end(passage, record)
        return Outcome(settlement, record, on_record)

    def refused(self, passage: Passage, refusal: Refusal) -> Outcome:
        error = clean(refusal.error, self._handles.redactor())
        record = passage.record(refusal.status, error=error)
        self.tell_end(passage, record)
        if error.hint is None and error.code == Code.INVALID_ARGUMENTS and passage.tool is not None:
            # How the call is written differs from language to language; what is on record does not.
            error = replace(error, hint=signature_in(self._scope.language, passage.tool.capability))
        return Outcome(Raised(passage.call.number, error), record)

    # -- what the stages need ------------------------------------------------------------------------------------

    def _context(self, passage: Passage, tool: Tool) -> CallContext:
        return CallContext(
            session_id=self._scope.session_id,
            cell_id=passage.caller.cell_id,
            call_id=passage.call_id,
            name=passage.name,
            idempotency_key=passage.key,
            deadline=time.monotonic() + tool.limits.timeout_ms / 1000,
            notes=passage.notes,
            report=self._reporter(passage) if self.heard else unheard,
            account=passage.account,
            wait=passage.waiting.append,
        )

    def _reporter(self, passage: Passage) -> Callable[[str, float | None], None]:
        loop = asyncio.get_running_loop()

        def report(message: str, fraction: float | None) -> None:
            said = cut(str(message), _LONGEST_NOTE, self._handles.redactor())
            # Only what it may be: anything else would be heard as it is.
            share = float(fraction) if isinstance(fraction, (int, float)) and 0 <= fraction <= 1 else None
            data = {"message": said, "fraction": share}
            # A plain function's thread may outlive the loop.
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.tell, "call.progressed", passage, data)

        return report

    def _quota(self, tool: Tool) -> Quota:
        held = self._quotas.get(tool.full_name)
        # A tool that was replaced brings its own limits.
        if held is None or held[0] is not tool:
            held = self._quotas[tool.full_name] = (tool, Quota(tool.limits, self._clock))
        return held[1]

    def hooked(self, passage: Passage, tool: Tool) -> HookedCall:
        return HookedCall(
            id=passage.call_id,
            session_id=self._scope.session_id,
            cell_id=passage.caller.cell_id,
            name=passage.name,
            arguments=passage.arguments,
            side_effect=tool.side_effect,
            idempotent=tool.idempotent,
            notes=passage.notes,
        )

    def _broke(self, tool: Tool, what: str, error: BaseException) -> Refusal:
        """A failure that the program learns nothing of but that it happened."""
        log.error("tool %s %s\n%s", tool.full_name, what, trace(error, self._handles.redactor()))
        return refuse(Code.TOOL_ERROR, f"`{tool.full_name}` {what}")

    @property
    def heard(self) -> bool:
        return self._emit is not None and self._is_heard(self._scope.session_id)

    def tell_end(self, passage: Passage, record: ExternalCallRecord) -> None:
        if self.heard:
            self.tell(call_end(record.status), passage, {"record": to_json(record)})

    def tell(self, kind: str, passage: Passage, data: Mapping[str, Any]) -> None:
        if self._emit is not None and self.heard:
            place = {"cell_id": passage.caller.cell_id, "call_id": passage.call_id, "number": passage.call.number}
            self._emit(kind, self._scope.session_id, {**place, **data})
