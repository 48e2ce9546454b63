"""Questions to people, answered from outside the host that asks: by the desk itself, for the moment.

Where no host has the session, the answer is written down as the decision that it is, and whoever goes on with the
session next finds it there; but a question that nobody waits for any more is cancelled instead. Where one has it, the
answer is left for that host (`sessions/questions.py`): it decides, and this waits a while for what becomes of it.
Either way an answer is written only in exchange for an open question.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cloister.app.kept.claimed import claimed, others
from cloister.core.approval import Approval, ApprovalState, parse_state
from cloister.core.errors import ApprovalNotFound, SessionExists, StoreConflict
from cloister.core.event import Emit
from cloister.core.ids import IdSource
from cloister.core.wire import to_json
from cloister.gate import ApprovalDesk
from cloister.gate.decisions import too_late
from cloister.gate.question import Question
from cloister.ports.clock import SystemClock
from cloister.ports.rows import Append, ApprovalRow, Batch, Decide, Write
from cloister.ports.store import Store
from cloister.sessions.abandoned import has_ended
from cloister.sessions.questions import ANSWERED, answered_row, approval_row, seen_question

_PAGE = 1000
# How often it is looked what has become of an answer, at most and at least.
_OFTEN_SECONDS = 0.02
_RARELY_MS = 500

# "executed": the call was made and has ended. "allowed", "denied": so it was decided, and written down. "expired",
# "cancelled": so it ended before the answer was taken. "written": the host has not taken the answer yet.
Outcome: TypeAlias = Literal["executed", "allowed", "denied", "expired", "cancelled", "written"]


@dataclass(frozen=True, slots=True)
class Answered:
    """What an answer has come to. `host` has the session, if anybody does; `call` is how the call has ended."""

    approval: Approval
    outcome: Outcome
    host: str | None = None
    call: str | None = None


# What must be read for those in one state: an expired question stands there as it was until a host has looked at it.
_READ: Mapping[ApprovalState, tuple[str, ...]] = {
    ApprovalState.PENDING: (ApprovalState.PENDING,),
    ApprovalState.ALLOWED: (ApprovalState.ALLOWED, ANSWERED),
    ApprovalState.DENIED: (ApprovalState.DENIED, ANSWERED),
    ApprovalState.EXPIRED: (ApprovalState.EXPIRED, ApprovalState.PENDING, ApprovalState.ALLOWED, ANSWERED),
    ApprovalState.CANCELLED: (ApprovalState.CANCELLED,),
}


async def questions(store: Store, *, state: str | None = None, session_id: str | None = None) -> list[Approval]:
    """The oldest first. Whatever has expired by now is shown so, though nobody has written it down yet."""
    wanted = parse_state(state) if state is not None else None
    found: dict[str, Approval] = {}
    for one in _READ[wanted] if wanted is not None else (None,):
        after: str | None = None
        while rows := await store.approvals(session_id=session_id, state=one, after=after, limit=_PAGE):
            found |= {row.id: as_it_is(row) for row in rows}
            after = rows[-1].id
    kept = [one for one in found.values() if wanted is None or one.state is wanted]
    return sorted(kept, key=lambda one: (one.created_at, one.id))


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
    store: Store,
    approval_id: str,
    decision: object,
    *,
    message: str | None = None,
    rule: str | None = None,
    wait_ms: int = 0,
) -> Answered:
    """Decide a question, or have the host that has its session decide it so; for that one, wait up to `wait_ms`. Raises
    `ApprovalNotFound`, and `ApprovalClosed` for one that is decided, or over."""
    row = await find_question(store, approval_id)
    try:
        async with claimed(store, row.session_id) as ours:
            # Read now that the session is ours: it may have been answered until then.
            row = await store.approval(row.id) or row
            events: list[Append] = []
            moved: list[Question] = []

            cell = await store.cell(row.cell_id)
            within = (cell.thread_id, cell.turn_id, cell.item_id) if cell is not None else ()

            def emit(kind: str, session_id: str, data: Mapping[str, Any]) -> None:
                # In the stream of the thread as well that the cell is of.
                events.append(Append(session_id, kind, SystemClock().now_ms(), data, *within))

            desk, approval = _desk(row, moved, emit)
            if cell is None or not cell.live or has_ended(cell):
                # Its host was killed as it asked, or has ended without a word: nobody waits for the answer.
                desk.cancel([approval.id])
            try:
                decided = desk.decide(approval.id, decision, message=message, rule=rule)
            finally:
                # That it is over is written down too.
                writes: list[Write] = [Decide(approval_row(one), was=row.state) for one in moved[-1:]]
                if writes:
                    await ours.write([*writes, *events])
            return Answered(decided, "denied" if decided.state is ApprovalState.DENIED else "allowed")
    except SessionExists:
        decided = await _leave(store, row, decision, message, rule)
    return await _became(store, decided, wait_ms)


async def _leave(store: Store, row: ApprovalRow, decision: object, message: str | None, rule: str | None) -> Approval:
    """Write an answer for whoever has the session, now or next. Of many, one is written."""
    while True:
        desk, approval = _desk(row)
        decided = desk.decide(approval.id, decision, message=message, rule=rule)
        now_ms = SystemClock().now_ms()
        told = Append(row.session_id, "approval.answered", now_ms, _told(decided))
        try:
            await store.write(Batch((Decide(answered_row(row, decided, now_ms), was=row.state), told)))
            return decided
        except StoreConflict:
            # Somebody was there first. What that was is what the desk says of the row as it is now.
            row = await find_question(store, row.id)


async def _became(store: Store, ours: Approval, wait_ms: int) -> Answered:
    """What the host has done with an answer, as far as that can be seen within `wait_ms`."""
    host, loop = await others(store), asyncio.get_running_loop()
    until = loop.time() + wait_ms / 1000
    while True:
        seen = await store.last_event()
        now = await _now(store, ours, host)
        left_ms = int((until - loop.time()) * 1000)
        if now.outcome not in ("written", "allowed") or left_ms <= 0:
            return now
        await store.wait_for_events(seen, min(left_ms, _RARELY_MS))
        # A busy host writes many; one look is for all of them.
        await asyncio.sleep(_OFTEN_SECONDS)


async def _now(store: Store, ours: Approval, host: str) -> Answered:
    row = await store.approval(ours.id)
    if row is None:
        raise ApprovalNotFound(f"approval {ours.id!r} went with its session while it was being decided")
    if row.state == ApprovalState.PENDING:
        said = f"{host} could not take this answer, and approval {ours.id!r} is open again"
        raise StoreConflict(said, hint="the log of that host says why")
    is_taken, approval = row.state != ANSWERED, as_it_is(row)
    if is_taken and approval.decision is not None and _said(approval) != _said(ours):
        # The host's own decision came first, and went over the answer.
        raise too_late(approval)
    match approval.state:
        case ApprovalState.EXPIRED:
            return Answered(approval, "expired", host)
        case ApprovalState.CANCELLED:
            return Answered(approval, "cancelled", host)
        case _ if not is_taken:
            return Answered(approval, "written", host)
        case ApprovalState.DENIED:
            return Answered(approval, "denied", host)
        case _:
            number = row.doc["call_number"]
            entry = next((one for one in await store.calls(row.cell_id) if one.intent.number == number), None)
            if entry is None or entry.settled is None:
                return Answered(approval, "allowed", host)
            return Answered(approval, "executed", host, str(entry.settled.status))


def _said(approval: Approval) -> tuple[object, ...]:
    return approval.decision, approval.message, approval.rule


def _told(approval: Approval) -> dict[str, Any]:
    return {**to_json(approval), "arguments": approval.arguments}


def _desk(
    row: ApprovalRow, moved: list[Question] | None = None, emit: Emit | None = None
) -> tuple[ApprovalDesk, Approval]:
    clock = SystemClock()

    def record(question: Question, _told: object) -> bool:
        if moved is not None:
            moved.append(question)
        return False

    desk = ApprovalDesk(clock, IdSource(clock.now_ms), record=record, emit=emit)
    question = seen_question(row)
    desk.restore(question)
    return desk, question.approval
