"""Questions to people as rows of a store."""

from collections.abc import Awaitable, Sequence
from typing import Any

from cloister.core.approval import Approval, ApprovalState
from cloister.core.wire import from_json, to_json
from cloister.gate.question import Question
from cloister.ports.rows import ApprovalRow, Put
from cloister.sessions.ledger import Ledger

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


class QuestionBook:
    """Writes down what becomes of questions, where there is a ledger."""

    def __init__(self, ledger: Ledger | None) -> None:
        self._ledger = ledger
        # The last write of each, for whoever must know that it is safe.
        self._writes: dict[str, Awaitable[object]] = {}

    def record(self, question: Question) -> None:
        session_id, ledger = question.approval.session_id, self._ledger
        if ledger is None or ledger.fences.get(session_id) is None or ledger.leaving:
            return
        if question.approval.state is ApprovalState.PENDING and not ledger.keeps_calls(session_id):
            # The cell that asks is not gone on with either.
            return
        row = approval_row(question)
        self._writes[row.id] = ledger.ink.write(session_id, Put(row))
        while len(self._writes) > _RECORDS:
            del self._writes[next(iter(self._writes))]

    async def recorded(self, approval_ids: Sequence[str]) -> None:
        """Returns when what was decided is safe."""
        for approval_id in approval_ids:
            written = self._writes.pop(approval_id, None)
            if written is not None:
                await written
