"""The gate: one call in, one settlement and one record out, always in this order.

 1 resolve the name            resolve     8 journal the intent         ports/journal
 2 guard shape and size        guard       9 dispatch                   dispatch
 3 bind and validate           binding    10 guard the response         guard
 4 charge the cell's budget    budget     11 journal the settlement     ports/journal
 5 before-hooks                hooks      12 after-hooks                hooks
 6 policy: allow, deny or ask  policy     13 hand the settlement back
 7 quota: rate, concurrency    quota

What comes back is scrubbed between 10 and 11, so that no journal, hook or record ever holds a secret. A refusal at
any stage is an error that the program can catch, and is on record. Knows no engine and no session.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cloister.core.approval import Approval, ApprovalState
from cloister.core.call import CallStatus
from cloister.core.capability import capability_digest
from cloister.core.codes import Code
from cloister.core.diagnostic import ErrorObject
from cloister.core.digest import digest_json
from cloister.core.errors import ApprovalNotFound
from cloister.core.value import Json, ValueRefused, sized
from cloister.gate.approvals import ApprovalDesk
from cloister.gate.discovery import Discovery
from cloister.gate.execution import Execution, Wiring
from cloister.gate.guard import guard_request, guard_size
from cloister.gate.hooks import Hooks
from cloister.gate.passage import Asked, Caller, Outcome, Passage, Passed, Scope
from cloister.gate.policy import Policy
from cloister.gate.refusal import Refusal, refuse
from cloister.gate.resolve import find, make_ready, resolve
from cloister.gate.secrets import Handles
from cloister.ports.engine import Call, Raised, Returned
from cloister.ports.journal import Entry, Settled, call_key
from cloister.tools.offered import Offered
from cloister.tools.registry import ToolRegistry
from cloister.tools.rule import Facts
from cloister.tools.tool import Tool


class Gate:
    """The way out for one session's programs, and for its host's direct calls."""

    def __init__(
        self, registry: ToolRegistry, wiring: Wiring, scope: Scope, policy: Policy, hooks: Hooks, handles: Handles
    ) -> None:
        self._registry = registry
        self._ids = wiring.ids
        self._desk = wiring.desk
        self._journal = wiring.journal
        self._scope = scope
        self._policy = policy
        self._hooks = hooks
        self._handles = handles
        self._execution = Execution(wiring, scope, hooks, handles)
        self._binder = self._execution.binder
        self._discovery = Discovery(registry, policy, scope.language, wiring.indexes)
        # By their keys. A call that is cancelled stays until `cancelled` has asked for it.
        self._under_way: dict[str, Passage] = {}

    @property
    def desk(self) -> ApprovalDesk:
        return self._desk

    @property
    def discovery(self) -> Discovery:
        return self._discovery

    @property
    def offered(self) -> Offered:
        """What sources and plugins offer now."""
        return self._registry.offered

    @property
    def counts(self) -> Counter[str]:
        """How often each tool was called in this session."""
        return self._execution.counts

    def count_with(self, other: "Gate") -> None:
        """From now on its calls are counted together with those of another session, as one."""
        counts = other._execution.counts
        for name, count in self._execution.counts.items():
            counts[name] = max(counts[name], count)
        self._execution.counts = counts

    def relabel(self, labels: Mapping[str, str]) -> None:
        """The session has these labels from now on."""
        self._scope = replace(self._scope, labels=labels)

    async def handle(self, call: Call, caller: Caller, *, charge: bool = True) -> Passed:
        """Pass one call. Never raises but for cancellation. `charge` is False for a call that was charged before."""
        if self._discovery.knows(call.name):
            return await self._own(call, caller)
        passage = Passage(call, self._ids.new("cal_"), caller)
        self._under_way[passage.key] = passage
        self._execution.tell("call.requested", passage, {"name": call.name})
        try:
            tool = passage.tool = await self._resolve(call.name, caller)
            await guard_request(call, tool)
            await self._binder.bind(passage, tool)
            if charge:
                caller.budget.charge()
            if self._hooks:
                await self._before(passage, tool)
            passed = await self._known(passage) if caller.woke else None
            if passed is None:
                passed = await self._judge(passage, tool)
        except Refusal as refusal:
            passed = self._execution.refused(passage, refusal)
        self._under_way.pop(passage.key, None)
        return passed

    async def proceed(self, asked: Asked) -> Passed:
        """Go on with a call that a person was asked about: made if it was allowed and is still the same."""
        passage = asked.passage
        passage.entered = time.monotonic()
        state = self._answer(asked).state
        if state is ApprovalState.PENDING:
            return asked
        self._under_way[passage.key] = passage
        try:
            passed = await self._made_before(passage) if passage.caller.woke else None
            if passed is None and state is not ApprovalState.ALLOWED:
                raise self._unanswered(asked)
            if passed is None:
                passed = await self._answered(asked, passage)
        except Refusal as refusal:
            passed = self._execution.refused(passage, refusal)
        self._under_way.pop(passage.key, None)
        return passed

    async def _made_before(self, passage: Passage) -> Passed | None:
        """What became of an allowed call that another process had begun to make; None if it had not."""
        entry = await self._journal.look_up(passage.key)
        if entry is None:
            return None
        outcome = self._ended(passage.call, passage.caller, entry)
        if outcome is None:
            # It may be made twice, and nobody knows how it ended.
            tool = passage.tool = await self._resolve(passage.name, passage.caller)
            await self._binder.rebind(passage, tool, passage.arguments, passage.size)
            return await self._execution.carry_out(passage, tool)
        if outcome.record is not None:
            self._execution.tell_end(passage, outcome.record)
        return outcome

    async def _answered(self, asked: Asked, passage: Passage) -> Passed:
        tool = passage.tool = await self._resolve(passage.name, passage.caller)
        if passage.bound is None:
            # It was asked about in another process.
            await self._binder.rebind(passage, tool, passage.arguments, passage.size)
        # The journal has no trace of it: it was allowed, and then its process ended.
        again = passage.caller.woke and self._journal.remembers_all
        if self._desk.use(asked.approval.id, self._question(passage, tool), again=again):
            self._check_denied(passage, tool)
            return await self._execution.carry_out(passage, tool)
        if self._answer(asked).state is not ApprovalState.CANCELLED:
            raise self._unanswered(asked)
        # What was allowed is not what would be done now: another tool, another policy. Nobody has allowed that.
        await self._binder.rebind(passage, tool, passage.arguments, passage.size)
        return await self._judge(passage, tool)

    def _unanswered(self, asked: Asked) -> Refusal:
        """Why a question that is no longer open allows nothing."""
        approval, name = self._answer(asked), asked.passage.name
        match approval.state:
            case ApprovalState.DENIED:
                said = f": {approval.message}" if approval.message else ""
                return _denied(Code.APPROVAL_DENIED, f"`{name}` was not allowed{said}")
            case ApprovalState.EXPIRED:
                return _denied(Code.APPROVAL_EXPIRED, f"nobody allowed `{name}` in time")
            case ApprovalState.CANCELLED:
                return _denied(Code.APPROVAL_DENIED, f"the question about `{name}` was withdrawn")
            case ApprovalState.ALLOWED | ApprovalState.PENDING:
                return _denied(Code.APPROVAL_DENIED, f"`{name}` was allowed once, and was made")

    def is_answered(self, asked: Asked) -> bool:
        return self._answer(asked).state is not ApprovalState.PENDING

    def _answer(self, asked: Asked) -> Approval:
        try:
            return self._desk.get(asked.approval.id)
        except ApprovalNotFound:
            # Closed so long ago that the desk has forgotten it.
            return replace(asked.approval, state=ApprovalState.CANCELLED)

    def ask_again(self, call: Call, caller: Caller, kept: Mapping[str, Any] | None) -> Asked | None:
        """A call that a person was asked about before this process began; `kept` is what `Asked.to_json` gave, if that
        was written down. None if nobody was asked about it."""
        question = self._desk.restored(caller.cell_id, call.number)
        if question is None:
            return None
        approval = question.approval
        arguments = kept["arguments"] if kept is not None else approval.arguments
        passage = Passage(call, approval.call_id, caller, arguments=arguments, size=question.size)
        passage.tool = find(self._registry, call.name, caller.offered)
        passage.request_digest = question.arguments_digest
        if kept is not None:
            passage.notes = kept["notes"]
        passage.has_secrets = bool(self._handles.find(passage.arguments))
        return Asked(passage, approval, passage.record(CallStatus.APPROVAL_PENDING))

    def withdraw(self, asked: Asked) -> Outcome:
        """Nobody waits for the answer any more."""
        self._desk.cancel([asked.approval.id])
        asked.passage.entered = time.monotonic()
        error = ErrorObject(Code.CANCELLED, f"`{asked.passage.name}` was cancelled while it waited to be allowed")
        return self._execution.refused(asked.passage, Refusal(CallStatus.ERROR, error))

    # -- what became of calls that were under way --------------------------------------------------------------

    async def recall(self, call: Call, caller: Caller) -> Outcome | None:
        """A call that was made before its program fell asleep: how it ended, or that nobody knows. None if it is to
        be made again, under the same key."""
        outcome = self._ended(call, caller, await self._journal.look_up(call_key(caller.cell_id, call.number)))
        record = outcome.record if outcome is not None else None
        if record is not None and record.status is CallStatus.UNKNOWN:
            # Of one whose end is known it was told when that was written down.
            self._execution.tell_end(Passage(call, record.id, caller), record)
        return outcome

    async def _known(self, passage: Passage) -> Outcome | None:
        """The same for a call of a cell that goes on from a snapshot: it may have come this far before."""
        entry = await self._journal.look_up(passage.key)
        if entry is None or entry.intent.request_digest != passage.request_digest:
            return None
        outcome = self._ended(passage.call, passage.caller, entry)
        if outcome is not None and outcome.record is not None:
            self._execution.tell_end(passage, outcome.record)
        return outcome

    def _ended(self, call: Call, caller: Caller, entry: Entry | None) -> Outcome | None:
        if entry is not None and entry.settled is not None and entry.settled.status is not CallStatus.UNKNOWN:
            return self._replayed(call, caller, entry, entry.settled)
        tool = find(self._registry, call.name, caller.offered)
        if entry is None and (tool is None or self._journal.remembers_all):
            return None
        if self._may_repeat(tool, entry):
            return None
        error = ErrorObject(
            Code.OUTCOME_UNKNOWN,
            f"`{call.name}` was under way when its cell fell asleep; nobody knows whether it happened",
            "find out before you repeat it",
        )
        call_id = entry.intent.call_id if entry is not None else self._ids.new("cal_")
        passage = Passage(call, call_id, caller, tool=tool)
        passage.request_digest = entry.intent.request_digest if entry is not None else _written(call)
        return Outcome(Raised(call.number, error), passage.record(CallStatus.UNKNOWN, error=error))

    @staticmethod
    def _may_repeat(tool: Tool | None, entry: Entry | None) -> bool:
        # Of a tool that nobody knows now, what was known when the call was made counts.
        if entry is not None and (tool is None or not tool.is_known):
            return entry.intent.idempotent
        return tool is not None and tool.idempotent

    def cancelled(self, call: Call, caller: Caller) -> Outcome:
        """A call that its cell did not wait for."""
        error = ErrorObject(Code.CANCELLED, f"`{call.name}` was cancelled when its cell ended")
        if self._discovery.knows(call.name):
            return Outcome(Raised(call.number, error), None)
        passage = self._under_way.pop(call_key(caller.cell_id, call.number), None)
        if passage is None:
            passage = Passage(call, self._ids.new("cal_"), caller, tool=find(self._registry, call.name, caller.offered))
        passage.request_digest = passage.request_digest or _written(call)
        return self._execution.refused(passage, Refusal(CallStatus.ERROR, error))

    def _replayed(self, call: Call, caller: Caller, entry: Entry, settled: Settled) -> Outcome:
        passage = Passage(call, entry.intent.call_id, caller, tool=find(self._registry, call.name, caller.offered))
        passage.request_digest, passage.usage = entry.intent.request_digest, settled.usage
        record = passage.record(settled.status, response_digest=settled.response_digest, error=settled.error)
        if settled.error is not None:
            return Outcome(Raised(call.number, settled.error), record, on_record=True)
        return Outcome(Returned(call.number, settled.value), record, on_record=True)

    # -- the stages ----------------------------------------------------------------------------------------------

    async def _resolve(self, name: str, caller: Caller) -> Tool:
        tool = resolve(self._registry, name, caller.offered)
        if not tool.is_ready:
            await make_ready(tool)
        if tool.defer_loading:
            self._registry.show(tool)
        return tool

    async def _own(self, call: Call, caller: Caller) -> Outcome:
        try:
            return Outcome(Returned(call.number, await self._discovery.answer(call, caller)), None)
        except Refusal as refusal:
            return Outcome(Raised(call.number, refusal.error), None)

    async def _before(self, passage: Passage, tool: Tool) -> None:
        async def revalidate(arguments: Json) -> Json:
            try:
                made, size = sized(arguments)
            except ValueRefused as refusal:
                raise refuse(Code.INVALID_ARGUMENTS, refusal.message, refusal.hint) from None
            guard_size(size, tool)
            await self._binder.rebind(passage, tool, made, size)
            return passage.arguments

        call = self._execution.hooked(passage, tool)
        hooked = await self._hooks.before(call, timeout_ms=tool.limits.timeout_ms, revalidate=revalidate)
        passage.notes = hooked.notes

    async def _judge(self, passage: Passage, tool: Tool) -> Passed:
        facts = self._facts(passage, tool)
        # Here and now: until the call is counted nothing may be awaited, or two could take the place of one. Rules
        # bound their own work.
        verdict = self._policy.judge(tool.capability, facts)
        if verdict.kind == "deny":
            raise _denied(Code.PERMISSION_DENIED, f"`{passage.name}` is denied: {verdict.reason}")
        if verdict.kind == "ask" and not self._granted(passage, tool, facts):
            return self._ask(passage, tool, verdict.reason)
        return await self._execution.carry_out(passage, tool)

    def _check_denied(self, passage: Passage, tool: Tool) -> None:
        """A person can allow what must be asked about, but not what is denied."""
        verdict = self._policy.judge(tool.capability, self._facts(passage, tool))
        if verdict.kind == "deny":
            raise _denied(Code.PERMISSION_DENIED, f"`{passage.name}` is denied: {verdict.reason}")

    def _ask(self, passage: Passage, tool: Tool, reason: str) -> Asked:
        passage.pause()
        # Handles stand in the arguments; values only where a program has put them together from pieces.
        redactor = self._handles.redactor()
        approval = self._desk.ask(
            session_id=self._scope.session_id,
            cell_id=passage.caller.cell_id,
            call_id=passage.call_id,
            capability=passage.name,
            arguments=redactor.value(passage.arguments),
            side_effect=tool.side_effect,
            reason=redactor.text(reason),
            request_digest=self._question(passage, tool),
            terms=self._terms(tool),
            arguments_digest=passage.request_digest,
            call_number=passage.call.number,
        )
        return Asked(passage, approval, passage.record(CallStatus.APPROVAL_PENDING))

    def _granted(self, passage: Passage, tool: Tool, facts: Facts) -> bool:
        grant = self._desk.grant_for(
            self._scope.session_id,
            capability=passage.name,
            terms=self._terms(tool),
            arguments_digest=passage.request_digest,
            facts=facts,
        )
        return grant is not None

    # -- what the stages need ------------------------------------------------------------------------------------

    def _facts(self, passage: Passage, tool: Tool) -> Facts:
        scope = self._scope
        return Facts(
            name=tool.name,
            namespace=tool.namespace,
            args=passage.arguments,
            side_effect=str(tool.side_effect),
            idempotent=tool.idempotent,
            session_id=scope.acts_for or scope.session_id,
            labels=scope.labels,
            language=str(scope.language),
            calls_count=self._execution.counts.total(),
            calls_by_name=self._execution.counts,
        )

    def _terms(self, tool: Tool) -> str:
        return digest_json([capability_digest(tool.capability), self._policy.terms(tool.capability)])

    def _question(self, passage: Passage, tool: Tool) -> str:
        """What exactly a person is asked: an answer counts for nothing else."""
        return digest_json([self._terms(tool), passage.request_digest, self._scope.session_id, passage.key])


def _denied(code: str, message: str) -> Refusal:
    return refuse(code, message, None, CallStatus.DENIED)


def _written(call: Call) -> str:
    """The digest of a call that was never bound."""
    return digest_json([call.name, list(call.args), dict(call.kwargs)])
