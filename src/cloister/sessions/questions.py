"""Questions to people as rows of a store, and answers that somebody wrote into such a row.

A question belongs to the host that has its session: it alone decides it. Anybody else leaves an answer in the row, in
exchange for its being open, so that of many there is one; the host takes it as if it had been given there. What the
host writes down of a question afterwards goes over it.
"""

import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cloister.core.approval import Approval, ApprovalState, Decision
from cloister.core.errors import ApprovalClosed, ApprovalNotFound, CloisterError
from cloister.core.wire import from_json, to_json
from cloister.gate import ApprovalDesk
from cloister.gate.question import Question
from cloister.ports.clock import moment
from cloister.ports.rows import ApprovalRow, Put
from cloister.sessions.events import Events
from cloister.sessions.ledger import Ledger

log = logging.getLogger("cloister.sessions")
# The state of a row that has an answer which no host has taken yet. To the host the question is open until then.
ANSWERED = "answered"
# So many that nobody has asked about are remembered.
_RECORDS = 100_000


def approval_row(question: Question) -> ApprovalRow:
    approval = question.approval
    doc: dict[str, Any] = {
        "approval": {**to_json(approval), "arguments": approval.arguments},
        "number": question.number,
        "terms": question.terms,
        "arguments_digest": question.arguments_digest,
        "size": question.size,
        "expires_ms": question.expires_ms,
        "call_number": question.call_number,
        "used": question.used,
    }
    created_ms = int(approval.created_at.timestamp() * 1000)
    return ApprovalRow(approval.id, approval.session_id, approval.cell_id, str(approval.state), created_ms, doc)


def question_of(row: ApprovalRow) -> Question:
    """As its host has it: one with an answer that waits to be taken is open."""
    doc = row.doc
    return Question(
        number=doc["number"],
        approval=from_json(Approval, doc["approval"]),
        terms=doc["terms"],
        arguments_digest=doc["arguments_digest"],
        size=doc["size"],
        expires_ms=doc["expires_ms"],
        call_number=doc["call_number"],
        used=doc["used"],
    )


# -- answers of others -------------------------------------------------------------------------------------------------


def answered_row(row: ApprovalRow, decided: Approval, now_ms: int) -> ApprovalRow:
    """A question's row with an answer for its host."""
    answer = {"decision": str(decided.decision), "message": decided.message, "rule": decided.rule, "at_ms": now_ms}
    return replace(row, state=ANSWERED, doc={**row.doc, "answer": answer})


def seen_question(row: ApprovalRow) -> Question:
    """As everybody but its host sees it: one that has an answer takes no other."""
    question = question_of(row)
    if row.state == ANSWERED:
        answer = row.doc["answer"]
        decision = Decision(answer["decision"])
        question.approval = replace(
            question.approval,
            state=ApprovalState.DENIED if decision is Decision.DENY else ApprovalState.ALLOWED,
            decision=decision,
            decided_at=moment(answer["at_ms"]),
            message=answer["message"],
            rule=answer["rule"],
        )
    return question


def take_answer(desk: ApprovalDesk, row: ApprovalRow) -> None:
    """Decide as the row says, if the question is one of this desk's and open."""
    answer = row.doc["answer"]
    try:
        desk.decide(row.id, answer["decision"], message=answer["message"], rule=answer["rule"])
    except ApprovalNotFound:
        # Another host's.
        return
    except ApprovalClosed:
        # It was decided here, or it is over; that is being written down, over the answer.
        return
    except CloisterError as refusal:
        log.error("the answer that was left for %s cannot be taken: %s", row.id, refusal)
        desk.note_again(row.id)


class QuestionBook:
    """Writes down what becomes of questions, where there is a ledger: with what is told of it, in one."""

    def __init__(self, ledger: Ledger | None, events: Events) -> None:
        self._ledger = ledger
        self._events = events
        # The last write of each, for whoever must know that it is safe.
        self._writes: dict[str, Awaitable[object]] = {}

    def record(self, question: Question, told: tuple[str, Mapping[str, Any]] | None = None) -> bool:
        """Whether that was told by it."""
        session_id, ledger = question.approval.session_id, self._ledger
        if ledger is None or ledger.fences.get(session_id) is None or ledger.leaving:
            return False
        if question.approval.state is ApprovalState.PENDING and not ledger.keeps_calls(session_id):
            # The cell that asks is not gone on with either.
            return False
        row = approval_row(question)
        written = self._events.emit_with(told[0], session_id, told[1], Put(row)) if told is not None else None
        self._writes[row.id] = written or ledger.ink.write(session_id, Put(row))
        while len(self._writes) > _RECORDS:
            del self._writes[next(iter(self._writes))]
        return written is not None

    async def recorded(self, approval_ids: Sequence[str]) -> None:
        """Returns when what was decided is safe."""
        for approval_id in approval_ids:
            written = self._writes.pop(approval_id, None)
            if written is not None:
                await written
