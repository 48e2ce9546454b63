"""What a host is asked about the questions that calls have raised, and how it answers them."""

from collections.abc import Iterable, Mapping
from typing import Any

from cloister.core.approval import Approval, Decided
from cloister.gate import ApprovalDesk
from cloister.sessions.questions import QuestionBook


class Approving:
    """A part of `Cloister`."""

    _desk: ApprovalDesk
    _questions: QuestionBook

    async def approvals(self, *, state: object = None, session_id: str | None = None) -> list[Approval]:
        """The questions that calls have raised, oldest first: all, or those in one state or of one session."""
        return self._desk.list(state=state, session_id=session_id)

    async def decide(
        self, approval_id: str, decision: object, *, message: str | None = None, rule: str | None = None
    ) -> Approval:
        """Answer one: "allow" this call, "allow_always" for this and calls like it, or "deny". A denied program sees
        `message`; `rule` says which calls are alike. Whoever decides second gets `ApprovalClosed`.

        The program goes on with `await session.resume(approval.cell_id)`.
        """
        decided = self._desk.decide(approval_id, decision, message=message, rule=rule)
        await self._questions.recorded([decided.id])
        return decided

    async def decide_many(self, decisions: Iterable[Mapping[str, Any]]) -> list[Decided]:
        """Answer several: `{"id", "decision", "message"?, "rule"?}` each. Every one is decided, or refused, by itself;
        what became of it is in the same place of the answer."""
        decided = self._desk.decide_many(decisions)
        await self._questions.recorded([one.id for one in decided if one.ok])
        return decided
