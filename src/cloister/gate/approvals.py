"""The approval desk: questions to people about single calls, and what became of them.

One desk serves all sessions of a host. It knows nothing of programs or tools: it is told by digest what a question is
about, and says later whether exactly that was allowed. What it promises:

- A question is decided once. Whoever comes second is refused and told how it was decided.
- An answer counts once, for the very request that was asked about, and not after it expired or was cancelled.
- Nothing that goes wrong here allows anything: a broken approver, rule or listener leaves the question as it is.

Everything but waiting is synchronous and runs on the event loop: that is what makes it atomic, without a lock.
Expiry is noticed when somebody looks or waits.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from cloister.core.approval import (
    Answer,
    Approval,
    ApprovalState,
    Approver,
    Decided,
    Decision,
    parse_decision,
    parse_state,
)
from cloister.core.capability import SideEffect
from cloister.core.errors import ApprovalNotFound, CloisterError, InvalidInput, within
from cloister.core.event import Emit, Heard, always_heard
from cloister.core.ids import IdSource
from cloister.core.value import Json
from cloister.core.wire import to_json
from cloister.gate.approver import Inquiries
from cloister.gate.archive import MOST_KEPT, Archive
from cloister.gate.decisions import check_fields, check_message, mappings, refused, too_late
from cloister.gate.grants import Grant, Grants
from cloister.gate.question import Question, change, checked_ttl
from cloister.ports.clock import Clock, moment
from cloister.tools.rule import Facts, Rule

log = logging.getLogger("cloister.gate")
# Told of each question as it is from now on, before anybody else; and what is to be told of that, its kind and its
# data, if anything is. Whether it is told by that: then what is on record and what was told are one.
Record: TypeAlias = Callable[[Question, tuple[str, Mapping[str, Any]] | None], bool]


class ApprovalDesk:
    """`approver` is asked about every question, and may leave it to somebody else. `ttl_ms` is how long a question, and
    an answer that nobody used, stays good: for ever unless given. `emit` hears of every question and its end. Of the
    closed ones, the last `most_kept` can still be looked at."""

    def __init__(
        self,
        clock: Clock,
        ids: IdSource,
        *,
        approver: Approver | None = None,
        ttl_ms: int | None = None,
        emit: Emit | None = None,
        heard: Heard = always_heard,
        record: Record | None = None,
        most_kept: int = MOST_KEPT,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._inquiries = Inquiries(approver) if approver is not None else None
        self._ttl_ms = checked_ttl(ttl_ms)
        self._emit = emit
        self._heard = heard
        self._record = record
        self._asked = 0
        # Pending, or allowed and not used yet.
        self._open: dict[str, Question] = {}
        self._closed = Archive(most_kept)
        # By cell and number of the call, those that came from another process.
        self._restored: dict[tuple[str, int], Question] = {}
        self._grants = Grants()
        # Set whenever a question is open that was not open before.
        self._news = asyncio.Event()

    def ask(
        self,
        *,
        session_id: str,
        cell_id: str,
        call_id: str,
        capability: str,
        arguments: Json,
        side_effect: SideEffect,
        reason: str,
        request_digest: str,
        terms: str,
        arguments_digest: str,
        call_number: int = 0,
    ) -> Approval:
        now_ms = self._clock.now_ms()
        expires_ms = now_ms + self._ttl_ms if self._ttl_ms is not None else None
        written = json.dumps(arguments)
        approval = Approval(
            id=self._ids.new("apr_"),
            session_id=session_id,
            cell_id=cell_id,
            call_id=call_id,
            capability=capability,
            # A copy: nobody who is asked can change what will be done, nor a tool what was asked about.
            arguments=json.loads(written),
            side_effect=side_effect,
            reason=reason,
            request_digest=request_digest,
            created_at=moment(now_ms),
            expires_at=moment(expires_ms) if expires_ms is not None else None,
        )
        self._asked += 1
        question = Question(self._asked, approval, terms, arguments_digest, len(written), expires_ms, call_number)
        self._open[approval.id] = question
        self._news.set()
        if not self._note(question, "approval.required"):
            self._tell("approval.required", approval)
        # A listener may have answered already.
        if self._inquiries is not None and question.pending:
            self._inquire(question, self._inquiries)
        return question.approval

    def get(self, approval_id: str) -> Approval:
        return self._find(approval_id).approval

    def decide(
        self, approval_id: str, decision: object, *, message: str | None = None, rule: str | None = None
    ) -> Approval:
        """Answer a question. Raises `ApprovalClosed` when it is no longer open, and says how that came.

        With `allow_always`, calls like this one are allowed too from now on: those with the same arguments or, if
        there is a `rule`, those for which it is true. This one call is allowed either way.
        """
        word = parse_decision(decision)
        check_message(message)
        if rule is not None and word is not Decision.ALLOW_ALWAYS:
            with within("rule"):
                raise InvalidInput(f"a rule goes with 'allow_always', not with '{word}'")
        question = self._find(approval_id)
        if not question.pending:
            raise too_late(question.approval)
        with within("rule"):
            compiled = Rule.compile(rule, what="the rule of the decision") if rule is not None else None
        if word is Decision.ALLOW_ALWAYS:
            self._grant(question, compiled)
        decided = replace(
            question.approval,
            state=ApprovalState.DENIED if word is Decision.DENY else ApprovalState.ALLOWED,
            decision=word,
            decided_at=moment(self._clock.now_ms()),
            message=message,
            rule=rule,
        )
        self._move(question, decided, "approval.decided")
        return decided

    def decide_many(self, decisions: Iterable[Mapping[str, Any]]) -> list[Decided]:
        """Each on its own, reported in the same order: `{"id", "decision", "message"?, "rule"?}`."""
        return [self._decide_one(item) for item in mappings(decisions)]

    def use(self, approval_id: str, request_digest: str, *, again: bool = False) -> bool:
        """Whether exactly this request may be made now. True once, and never again; but `again`, for one that was
        allowed and of which it is known that it was not made then.

        A request that is not the one that was allowed cancels the approval: the answer was to another question.
        After False the approval's state says why: pending, denied, expired, cancelled, or allowed, which means that
        it was used before.
        """
        question = self._look(approval_id)
        if question is None or question.pending:
            return False
        if approval_id not in self._open:
            return again and question.used and question.approval.request_digest == request_digest
        if question.approval.request_digest != request_digest:
            self._cancel(question)
            return False
        self._shut(question)
        question.used = True
        self._note(question)
        return True

    def cancel(self, approval_ids: Iterable[str]) -> None:
        """Nobody waits for these any more. What was used, or ended in another way, stays as it is."""
        for approval_id in tuple(approval_ids):
            question = self._look(approval_id)
            if question is not None and approval_id in self._open:
                self._cancel(question)

    def forget_session(self, session_id: str) -> None:
        """Cancel what is open and take back what was granted."""
        self.cancel([key for key, question in self._open.items() if question.approval.session_id == session_id])
        self._grants.forget(session_id)

    async def asked(self) -> None:
        """Returns when there is an open question; at once if there is one."""
        while not any(question.pending for question in self._open.values()):
            self._news.clear()
            await self._news.wait()

    async def decided(self, approval_ids: Collection[str]) -> None:
        """Returns when one of them is no longer pending; at once for one that is not known."""
        while questions := self._all_pending(approval_ids):
            await change(questions, self._clock)

    def watch(self, approval_ids: Collection[str], changed: Callable[[], None]) -> Callable[[], None]:
        """Have `changed` called whenever something happens to one of them, be it that its time is over; what is
        returned ends that."""
        questions = [question for approval_id in approval_ids if (question := self._look(approval_id)) is not None]
        alarm: asyncio.TimerHandle | None = None

        def look() -> None:
            """Looking at a question is what ends its time. The clock need not agree with the loop's on when that is."""
            nonlocal alarm
            alarm = None
            if ends := [one.expires_ms for one in self._all_pending(approval_ids) if one.expires_ms is not None]:
                left_ms = max(min(ends) - self._clock.now_ms(), 1)
                alarm = asyncio.get_running_loop().call_later(left_ms / 1000, look)

        def unwatch() -> None:
            if alarm is not None:
                alarm.cancel()
            for question in questions:
                question.watchers = tuple(watcher for watcher in question.watchers if watcher is not changed)

        for question in questions:
            question.watchers = (*question.watchers, changed)
        look()
        return unwatch

    async def answered(self, approval_ids: Collection[str]) -> bool:
        """Wait while the approver is at work on one of them: True when one is no longer pending, False when all of
        them are and the approver has nothing more to say."""
        while (questions := self._all_pending(approval_ids)) and self.being_answered(approval_ids):
            await change(questions, self._clock)
        return not questions

    def are_open(self, approval_ids: Collection[str]) -> bool:
        """Whether none of them has been answered, or ended in another way."""
        return bool(self._all_pending(approval_ids))

    def being_answered(self, approval_ids: Collection[str]) -> bool:
        """Whether the approver is at work on one of them."""
        questions = [self._look(approval_id) for approval_id in approval_ids]
        return any(question is not None and question.answering is not None for question in questions)

    def grant_for(
        self, session_id: str, *, capability: str, terms: str, arguments_digest: str, facts: Facts
    ) -> Grant | None:
        """The decision of this session that allows such a call for good, if there is one."""
        return self._grants.find(
            session_id, capability=capability, terms=terms, arguments_digest=arguments_digest, facts=facts
        )

    async def close(self) -> None:
        """Stop the approver's work. What is pending stays so."""
        if self._inquiries is not None:
            await self._inquiries.close()

    def list(self, *, state: object = None, session_id: str | None = None) -> list[Approval]:
        """The newest last."""
        wanted = parse_state(state) if state is not None else None
        for approval_id in tuple(self._open):
            self._look(approval_id)
        questions = sorted((*self._closed, *self._open.values()), key=lambda question: question.number)
        return [
            question.approval
            for question in questions
            if (wanted is None or question.approval.state is wanted)
            and (session_id is None or question.approval.session_id == session_id)
        ]

    def restore(self, question: Question) -> None:
        """A question of another process, as it was there. One that allows for good does so here."""
        approval = question.approval
        self._asked = max(self._asked, question.number)
        # Of several about one call, the last one that was asked: those before were answers to something else.
        known = self._restored.get(place := (approval.cell_id, question.call_number))
        if known is None or known.number <= question.number:
            self._restored[place] = question
        if approval.decision is Decision.ALLOW_ALWAYS:
            rule = Rule.compile(approval.rule, what="the rule of the decision") if approval.rule is not None else None
            self._grant(question, rule)
        if approval.state is ApprovalState.PENDING or (approval.state is ApprovalState.ALLOWED and not question.used):
            self._open[approval.id] = question
            self._news.set()
        else:
            self._closed.add(question)

    def note_again(self, approval_id: str) -> None:
        """Have a question recorded as it is: what stands in its place is not from here."""
        if (question := self._look(approval_id)) is not None:
            self._note(question)

    def restored(self, cell_id: str, call_number: int) -> Question | None:
        """The question of another process about that call."""
        return self._restored.get((cell_id, call_number))

    def _note(self, question: Question, kind: str | None = None) -> bool:
        """Whether that was told as well."""
        if self._record is None:
            return False
        approval = question.approval
        return self._record(question, (kind, _data(approval)) if kind and self._heard(approval.session_id) else None)

    # -- finding -------------------------------------------------------------------------------------------------

    def _look(self, approval_id: str) -> Question | None:
        """The question as it is at this moment: whoever sees it sees that it has expired."""
        question = self._open.get(approval_id)
        if question is None:
            return self._closed.get(approval_id)
        if question.expires_ms is not None and self._clock.now_ms() >= question.expires_ms:
            self._move(question, replace(question.approval, state=ApprovalState.EXPIRED), "approval.expired")
        return question

    def _find(self, approval_id: object) -> Question:
        question = self._look(approval_id) if isinstance(approval_id, str) else None
        if question is None:
            raise ApprovalNotFound(f"there is no approval {approval_id!r}", hint="list the approvals to see their ids")
        return question

    def _all_pending(self, approval_ids: Collection[str]) -> "list[Question]":
        """Their questions if every one of them is pending, and nothing otherwise."""
        questions = [
            question for approval_id in approval_ids if (question := self._look(approval_id)) and question.pending
        ]
        return questions if len(questions) == len(approval_ids) else []

    # -- moving --------------------------------------------------------------------------------------------------

    def _move(self, question: Question, approval: Approval, kind: str) -> None:
        question.approval = approval
        if approval.state is not ApprovalState.ALLOWED:
            self._shut(question)
        told = self._note(question, kind)
        question.stop_answering()
        question.wake()
        if not told:
            self._tell(kind, approval)

    def _cancel(self, question: Question) -> None:
        self._move(question, replace(question.approval, state=ApprovalState.CANCELLED), "approval.cancelled")

    def _shut(self, question: Question) -> None:
        del self._open[question.approval.id]
        self._closed.add(question)

    def _grant(self, question: Question, rule: Rule | None) -> None:
        approval = question.approval
        digest = question.arguments_digest if rule is None else None
        self._grants.add(Grant(approval.id, approval.session_id, approval.capability, question.terms, digest, rule))

    def _decide_one(self, item: Mapping[str, Any]) -> Decided:
        given = item.get("id")
        approval_id = given if isinstance(given, str) else ""
        try:
            check_fields(item)
            decided = self.decide(approval_id, item["decision"], message=item.get("message"), rule=item.get("rule"))
        except CloisterError as refusal:
            return refused(approval_id, refusal)
        return Decided(approval_id, decided)

    def _inquire(self, question: Question, inquiries: Inquiries) -> None:
        def decide(answer: Answer) -> None:
            self.decide(question.approval.id, answer.decision, message=answer.message, rule=answer.rule)

        task = inquiries.start(question.approval, decide)
        if task is not None:
            question.answer_with(task)

    def _tell(self, kind: str, approval: Approval) -> None:
        if self._emit is None or not self._heard(approval.session_id):
            return
        try:
            self._emit(kind, approval.session_id, _data(approval))
        # Containment: what happened has happened, whether or not those who hear of it can cope.
        except Exception as error:
            log.error("a listener failed on %s of %s", kind, approval.id, exc_info=error)


def _data(approval: Approval) -> Mapping[str, Any]:
    # The arguments are JSON already, and may be large.
    return {**to_json(replace(approval, arguments=None)), "arguments": approval.arguments}
