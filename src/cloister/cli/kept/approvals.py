"""`cloister approvals`: questions that calls have raised, and answers to them.

An answer is written into the store. A host that has the session takes it from there, and this waits a moment to say
what became of it; otherwise the program goes on where a host with its tools opens the session.
"""

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal, assert_never

from cyclopts import Parameter

from cloister.cli.approve import described, in_full
from cloister.cli.exits import FAILED, OK
from cloister.cli.kept.where import HERE, Place, tell
from cloister.cli.options import AsJson
from cloister.cli.tables import facts, show
from cloister.cli.terminal import one_json_object
from cloister.core.approval import Answer, Approval, Decision
from cloister.core.wire import to_json

if TYPE_CHECKING:
    from cloister.app.kept import Answered
    from cloister.ports.store import Store

ApprovalId = Annotated[str, Parameter(help="The question; the end of its id will do while it is open.")]
State = Annotated[
    Literal["pending", "allowed", "denied", "expired", "cancelled", "all"], Parameter(help="Which questions.")
]
OfSession = Annotated[str | None, Parameter(name="--session", metavar="ID", help="Only those of this session.")]
Message = Annotated[str | None, Parameter(name=["--message", "-m"], help="What the program is told.")]
Always = Annotated[
    bool,
    Parameter(negative="", show_default=False, help="Also calls of the same tool with the same arguments from now on."),
]
RuleOf = Annotated[
    str | None,
    Parameter(
        name="--rule", metavar="CEL", help="With --always: calls for which this is true, whatever their arguments."
    ),
]
WaitMs = Annotated[
    int, Parameter(help="How long to wait for what a host that has the session does with the answer; 0 to leave it.")
]
WAIT_MS = 5_000
_WIDTH = 60


def list_(*, state: State = "pending", session: OfSession = None, place: Place = HERE, as_json: AsJson = False) -> int:
    from cloister.app.kept import questions

    async def work(store: "Store") -> list[Approval]:
        return await questions(store, state=None if state == "all" else state, session_id=session)

    found = place.do(work)
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "approvals": [plain(one) for one in found]})
        return OK
    rows = [(one.id, one.session_id, one.capability, short(one.arguments), one.state, one.created_at) for one in found]
    columns = ["approval", "session", "tool", "arguments", "state", "asked"]
    show(columns, rows, "nobody is asked anything" if state == "pending" else "there are none")
    return OK


def show_(approval: ApprovalId, /, *, place: Place = HERE, as_json: AsJson = False) -> int:
    from cloister.app.kept.answering import as_it_is, find_question

    async def work(store: "Store") -> Approval:
        return as_it_is(await find_question(store, approval))

    found = place.do(work)
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "approval": plain(found)})
        return OK
    facts(
        [
            ("approval", found.id),
            ("state", found.state),
            ("session", found.session_id),
            ("cell", found.cell_id),
            ("asked", found.created_at),
            ("expires", found.expires_at),
            ("decided", found.decided_at),
            ("decision", found.decision),
            ("message", found.message),
            ("rule", found.rule),
        ]
    )
    print(described(found, "below") + in_full(found), end="")
    return OK


def allow(
    approval: ApprovalId,
    /,
    *,
    always: Always = False,
    rule: RuleOf = None,
    message: Message = None,
    wait_ms: WaitMs = WAIT_MS,
    place: Place = HERE,
    as_json: AsJson = False,
) -> int:
    decision = Decision.ALLOW_ALWAYS if always else Decision.ALLOW
    return _decide(approval, Answer(decision, message, rule), wait_ms, place, as_json)


def deny(
    approval: ApprovalId,
    /,
    *,
    message: Message = None,
    wait_ms: WaitMs = WAIT_MS,
    place: Place = HERE,
    as_json: AsJson = False,
) -> int:
    return _decide(approval, Answer(Decision.DENY, message), wait_ms, place, as_json)


def _decide(approval: str, given: Answer, wait_ms: int, place: Place, as_json: bool) -> int:
    from cloister.app.kept import answer

    async def work(store: "Store") -> "Answered":
        return await answer(store, approval, given.decision, message=given.message, rule=given.rule, wait_ms=wait_ms)

    done = place.do(work)
    data = {"approval": plain(done.approval), "outcome": done.outcome, "host": done.host, "call": done.call}
    tell(as_json, data, said_of(done))
    return FAILED if done.outcome in ("expired", "cancelled") else OK


def said_of(done: "Answered") -> str:
    """What became of an answer, in a sentence or two."""
    asked, its = done.approval, f"session {done.approval.session_id}"
    match done.outcome:
        case "executed":
            return f"{asked.id} is {asked.state}, and {done.host} has made the call: {done.call}"
        case "written":
            return (
                f"{asked.id}: {asked.decision!r} is written down, and {done.host}, which has {its}, has not taken it "
                "yet. It counts for whoever goes on with the session."
            )
        case "allowed" | "denied" if done.host is not None:
            more = "" if done.outcome == "denied" else "; the call has not ended yet"
            return f"{asked.id} is {asked.state}: {done.host}, which has {its}, has taken the answer{more}"
        case "allowed" | "denied":
            return (
                f"{asked.id} is {asked.state}. The program goes on where {its} is opened with its tools: "
                f"cloister repl --session {asked.session_id} --tools …"
            )
        case "expired" | "cancelled":
            return f"{asked.id} was {done.outcome} before {done.host} could take the answer: it does not count"
        case _:
            assert_never(done.outcome)


# -- inside -----------------------------------------------------------------------------------------------------------


def plain(approval: Approval) -> dict[str, Any]:
    return {**to_json(approval), "arguments": approval.arguments}


def short(arguments: Any) -> str:
    text = json.dumps(arguments, ensure_ascii=False)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
