"""Questions that programs wait for, and the answers to them."""

from collections.abc import Mapping

from cloister.client.answers import Outcome, Page
from cloister.client.ask import Ask, asked, at, query
from cloister.client.reading import many, one, page
from cloister.core.approval import Answer, Approval, ApprovalState, Decision


def list_(
    *,
    state: ApprovalState | str | None = None,
    session_id: str | None = None,
    limit: int | None = None,
    after: str | None = None,
) -> Ask[Page[Approval]]:
    """Questions, the oldest first."""
    asks = query(state=str(state) if state is not None else None, session_id=session_id, limit=limit, after=after)
    return Ask("GET", at("approvals"), page(Approval, "approvals"), query=asks)


def decide(
    approval_id: str, decision: Decision | str, *, message: str | None = None, rule: str | None = None
) -> Ask[Outcome]:
    """Answer one. What became of it is in the outcome, also when somebody else was first."""
    body = asked(decision=str(decision), message=message, rule=rule)
    return Ask("POST", at("approvals", approval_id), one(Outcome), body)


def decide_many(answers: Mapping[str, Answer | Decision | str]) -> Ask[tuple[Outcome, ...]]:
    """Answer several, by their ids. Each is decided, or refused, by itself."""
    decisions = [{"id": approval_id, **_said(answer)} for approval_id, answer in answers.items()]
    return Ask("POST", at("approvals", "decide"), many(Outcome, "results"), {"decisions": decisions})


def _said(answer: Answer | Decision | str) -> dict[str, str]:
    if not isinstance(answer, Answer):
        answer = Answer(answer)
    return asked(decision=str(answer.decision), message=answer.message, rule=answer.rule)
