"""`cloister approvals`: questions that calls have raised, and answers to them.

An answer is written into the store. The program goes on where a host with its tools opens the session. While a host has
the session open, the answer is that host's to take, and this says which it is.
"""

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from cloister.cli.approve import described, in_full
from cloister.cli.exits import OK
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.kept.where import HERE, Place, tell
from cloister.cli.options import AsJson
from cloister.cli.tables import facts, show
from cloister.cli.terminal import flat, one_json_object
from cloister.core.approval import Approval, Decision
from cloister.core.wire import to_json

if TYPE_CHECKING:
    from cloister.ports.rows import EventRow
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
Count = Annotated[int | None, Parameter(help="Stop after so many lines.")]
Timeout = Annotated[int | None, Parameter(help="Stop after so long.")]
_KINDS = ("approval.required", "approval.decided", "approval.expired", "approval.cancelled")
_LONG_MS = 60_000
_PAGE = 1000
_WIDTH = 60


def list_(*, state: State = "pending", session: OfSession = None, place: Place = HERE, as_json: AsJson = False) -> int:
    from cloister.app.kept import questions

    async def work(store: "Store") -> list[Approval]:
        return await questions(store, state=None if state == "all" else state, session_id=session)

    found = place.do(work)
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "approvals": [_plain(one) for one in found]})
        return OK
    rows = [(one.id, one.session_id, one.capability, _short(one.arguments), one.state, one.created_at) for one in found]
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
            write({"ok": True, "approval": _plain(found)})
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
    place: Place = HERE,
    as_json: AsJson = False,
) -> int:
    decision = Decision.ALLOW_ALWAYS if always else Decision.ALLOW
    return _decide(approval, decision, message, rule, place, as_json)


def deny(approval: ApprovalId, /, *, message: Message = None, place: Place = HERE, as_json: AsJson = False) -> int:
    return _decide(approval, Decision.DENY, message, None, place, as_json)


def _decide(
    approval: str, decision: Decision, message: str | None, rule: str | None, place: Place, as_json: bool
) -> int:
    from cloister.app.kept import answer

    async def work(store: "Store") -> Approval:
        return await answer(store, approval, decision, message=message, rule=rule)

    decided = place.do(work)
    said = (
        f"{decided.id} is {decided.state}. The program goes on where session {decided.session_id} is opened with its "
        f"tools: cloister repl --session {decided.session_id} --tools …"
    )
    tell(as_json, {"approval": _plain(decided)}, said)
    return OK


def watch(
    *,
    session: OfSession = None,
    max_lines: Count = None,
    timeout_ms: Timeout = None,
    place: Place = HERE,
    as_json: AsJson = False,
) -> int:
    return run_interruptibly(_watch(session, max_lines, timeout_ms, place, as_json))


async def _watch(session: str | None, most: int | None, timeout_ms: int | None, place: Place, as_json: bool) -> int:
    import time

    from cloister.app.kept import questions

    until = time.monotonic() + timeout_ms / 1000 if timeout_ms is not None else None
    told = 0

    def write(line: str) -> bool:
        nonlocal told
        print(line, flush=True)
        told += 1
        return most is not None and told >= most

    async with place.open() as store:
        # What is asked from here on comes as an event: nothing falls between the two.
        since = await store.last_event()
        shown: set[tuple[str, str]] = set()
        for one in await questions(store, state="pending", session_id=session):
            shown.add((one.id, "approval.required"))
            if write(_line("approval.required", _plain(one), as_json)):
                return OK
        while True:
            left_ms = _LONG_MS if until is None else int((until - time.monotonic()) * 1000)
            if left_ms <= 0:
                return OK
            while rows := await store.events(session_id=session, since=since, limit=_PAGE):
                since = rows[-1].seq
                for row in rows:
                    if _is_new(row, shown) and write(_line(row.kind, dict(row.doc), as_json)):
                        return OK
            await store.wait_for_events(since, min(left_ms, _LONG_MS))


def _is_new(row: "EventRow", shown: set[tuple[str, str]]) -> bool:
    return row.kind in _KINDS and (str(row.doc.get("id")), row.kind) not in shown


def _line(kind: str, approval: dict[str, Any], as_json: bool) -> str:
    if as_json:
        return json.dumps({"event": kind, "approval": approval})
    what = kind.removeprefix("approval.")
    verb = "asks" if what == "required" else approval.get("decision") or what
    arguments = _short(approval.get("arguments"))
    return flat(f"{approval['id']}  {approval['session_id']}  {verb}  {approval['capability']}  {arguments}")


def _plain(approval: Approval) -> dict[str, Any]:
    return {**to_json(approval), "arguments": approval.arguments}


def _short(arguments: Any) -> str:
    text = json.dumps(arguments, ensure_ascii=False)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
