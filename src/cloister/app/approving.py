"""What a host is asked about the questions that calls have raised, and how it answers them."""

from collections.abc import Iterable, Mapping
from typing import Any

from cloister.core.approval import Approval, Decided
from cloister.core.errors import ApprovalNotFound, CloisterError
from cloister.gate import ApprovalDesk
from cloister.gate.decisions import mappings, refused
from cloister.ports.rows import ApprovalRow
from cloister.sessions.ledger import Ledger
from cloister.sessions.questions import QuestionBook


class Approving:
    """A part of `Cloister`."""

    _desk: ApprovalDesk
    _ledger: Ledger | None
    _questions: QuestionBook

    async def approvals(self, *, state: object = None, session_id: str | None = None) -> list[Approval]:
        """The questions that calls have raised here, oldest first: all, or those in one state or of one session."""
        return self._desk.list(state=state, session_id=session_id)

    async def approval(self, approval_id: str) -> Approval:
        """One question: of this host, or of the store if another host asked it, or one before this. Raises
        `ApprovalNotFound`."""
        try:
            return self._desk.get(approval_id)
        except ApprovalNotFound:
            row = await self._row(approval_id)
            if row is None:
                raise
            # Here, because what looks after stores knows hosts.
            from cloister.app.kept.answering import as_it_is

            return as_it_is(row)

    async def decide(
        self, approval_id: str, decision: object, *, message: str | None = None, rule: str | None = None
    ) -> Approval:
        """Answer one: "allow" this call, "allow_always" for this and calls like it, or "deny". A denied program sees
        `message`; `rule` says which calls are alike. Whoever decides second gets `ApprovalClosed`. A question of
        another host on the same store is answered there: the answer is safe in the store, and that host takes it.

        The program goes on with `await session.resume(approval.cell_id)`.
        """
        try:
            decided = self._desk.decide(approval_id, decision, message=message, rule=rule)
        except ApprovalNotFound:
            if self._ledger is None or await self._row(approval_id) is None:
                raise
            # Here, because what looks after stores knows hosts.
            from cloister.app.kept.answering import answer

            elsewhere = await answer(self._ledger.store, approval_id, decision, message=message, rule=rule)
            return elsewhere.approval
        await self._questions.recorded([decided.id])
        return decided

    async def decide_many(self, decisions: Iterable[Mapping[str, Any]]) -> list[Decided]:
        """Answer several: `{"id", "decision", "message"?, "rule"?}` each. Every one is decided, or refused, by itself;
        what became of it is in the same place of the answer."""
        items = mappings(decisions)
        decided = self._desk.decide_many(items)
        await self._questions.recorded([one.id for one in decided if one.ok])
        for place, one in enumerate(decided):
            if one.error is not None and one.error["code"] == ApprovalNotFound.code:
                decided[place] = await self._elsewhere(one.id, items[place])
        return decided

    async def _row(self, approval_id: object) -> ApprovalRow | None:
        """What is written down of it. What is no name at all is no key of a store either."""
        if self._ledger is None or not isinstance(approval_id, str) or not approval_id.isidentifier():
            return None
        return await self._ledger.store.approval(approval_id)

    async def _elsewhere(self, approval_id: str, item: Mapping[str, Any]) -> Decided:
        """Of what this host does not know."""
        message, rule = item.get("message"), item.get("rule")
        try:
            return Decided(approval_id, await self.decide(approval_id, item["decision"], message=message, rule=rule))
        except CloisterError as error:
            return refused(approval_id, error)
