"""Questions to people, answered where no host has their session: by the desk itself, for the moment.

The answer is written down only if the question is still as it was. Whoever goes on with the session next finds it
there, as it finds the answers of a host that has ended.
"""

from collections.abc import Mapping
from typing import Any

from cloister.app.kept.claimed import claimed
from cloister.core.approval import Approval, ApprovalState, parse_state
from cloister.core.errors import ApprovalNotFound
from cloister.core.event import Emit
from cloister.core.ids import IdSource
from cloister.gate import ApprovalDesk
from cloister.gate.question import Question
from cloister.ports.clock import SystemClock
from cloister.ports.rows import Append, ApprovalRow, Decide, Write
from cloister.ports.store import Store
from cloister.sessions.questions import approval_row, question_of

_PAGE = 1000


async def questions(store: Store, *, state: str | None = None, session_id: str | None = None) -> list[Approval]:
    """The oldest first. Whatever has expired by now is shown so, though nobody has written it down yet."""
    wanted = parse_state(state) if state is not None else None
    found: list[Approval] = []
    after: str | None = None
    # An expired question is pending in the store until a host has looked at it.
    read = ApprovalState.PENDING if wanted is ApprovalState.EXPIRED else wanted
    for one in dict.fromkeys((read, wanted)):
        after = None
        while rows := await store.approvals(session_id=session_id, state=one, after=after, limit=_PAGE):
            found += [as_it_is(row) for row in rows]
            after = rows[-1].id
    kept = {one.id: one for one in found if wanted is None or one.state is wanted}
    return sorted(kept.values(), key=lambda one: (one.created_at, one.id))


def as_it_is(row: ApprovalRow) -> Approval:
    desk, approval = _desk(row)
    return desk.get(approval.id)


async def find_question(store: Store, approval_id: str) -> ApprovalRow:
    """By its id, or by the end of it if no other has that among those that are open."""
    row = await store.approval(approval_id)
    if row is not None:
        return row
    near = [one.id for one in await questions(store, state="pending") if approval_id and one.id.endswith(approval_id)]
    row = await store.approval(near[0]) if len(near) == 1 else None
    if row is None:
        why = f"{approval_id!r} is the end of {len(near)} ids" if near else f"there is no approval {approval_id!r}"
        raise ApprovalNotFound(f"{why} in {store.url}", hint="cloister approvals list shows them")
    return row


async def answer(
    store: Store, approval_id: str, decision: str, *, message: str | None = None, rule: str | None = None
) -> Approval:
    """Decide a question. Raises `ApprovalNotFound`, `ApprovalClosed`, or `SessionExists` naming who has the session."""
    row = await find_question(store, approval_id)
    async with claimed(store, row.session_id) as ours:
        # Read now that the session is ours: it may have been answered until then.
        row = await store.approval(row.id) or row
        events: list[Append] = []
        moved: list[Question] = []

        def emit(kind: str, session_id: str, data: Mapping[str, Any]) -> None:
            events.append(Append(session_id, kind, SystemClock().now_ms(), data))

        desk, approval = _desk(row, moved, emit)
        try:
            return desk.decide(approval.id, decision, message=message, rule=rule)
        finally:
            # That its time is over is written down too.
            writes: list[Write] = [Decide(approval_row(one), was=row.state) for one in moved[-1:]]
            if writes:
                await ours.write([*writes, *events])


def _desk(
    row: ApprovalRow, moved: list[Question] | None = None, emit: Emit | None = None
) -> tuple[ApprovalDesk, Approval]:
    clock = SystemClock()
    record = moved.append if moved is not None else None
    desk = ApprovalDesk(clock, IdSource(clock.now_ms), record=record, emit=emit)
    question = question_of(row)
    desk.restore(question)
    return desk, question.approval
