"""Questions to people as rows of a store."""

from typing import Any

from cloister.core.approval import Approval
from cloister.core.wire import from_json, to_json
from cloister.gate.question import Question
from cloister.ports.rows import ApprovalRow


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
