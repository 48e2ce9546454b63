"""`cloister threads`: the conversations of a server, one command each."""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from cloister.cli.approve import Mode, Prompt, approver
from cloister.cli.calls import are_shown
from cloister.cli.exits import DENIED, EXIT_OF_TURN, FAILED, OK
from cloister.cli.failures import UsageError, complain, log_to
from cloister.cli.interrupt import Interrupted, run_interruptibly
from cloister.cli.kept.where import tell
from cloister.cli.options import AsJson
from cloister.cli.remote.screen import Screen
from cloister.cli.remote.talk import NobodyAnswers, Talk
from cloister.cli.remote.where import HERE, Server, ways_on
from cloister.cli.source import STANDARD_INPUT
from cloister.cli.tables import facts, show
from cloister.cli.terminal import ProgramOutput, flat, one_json_object
from cloister.core.approval import Answer, Approval, Approver
from cloister.core.content import text_of
from cloister.core.envelope import Envelope, envelope_to_json
from cloister.core.item import AgentMessage, CellRun, Item, ToolCall, UserMessage, item_to_json
from cloister.core.language import Language
from cloister.core.thread import DriverKind, Thread, ThreadParams
from cloister.core.turn import Receipt, SteerParams, SteerReceipt, Turn, TurnParams
from cloister.core.wire import to_json

if TYPE_CHECKING:
    from cloister.client import AsyncClient, Page

ThreadId = Annotated[str, Parameter(help="The thread: `cloister threads list` shows them.")]
TurnId = Annotated[str | None, Parameter(name="--turn", metavar="ID", help="Which turn.  [default: the one that runs]")]
Text = Annotated[str, Parameter(help="What to say; - reads standard input.", allow_leading_hyphen=True)]
Model = Annotated[str | None, Parameter(name=["--model", "-m"], metavar="NAME", help="The model, such as openai:NAME.")]
_WIDTH = 60


def list_(
    *,
    search: Annotated[str | None, Parameter(help="Those with this in their titles.")] = None,
    archived: Annotated[
        bool, Parameter(negative="", show_default=False, help="Those that were put away, instead of the others.")
    ] = False,
    session: Annotated[str | None, Parameter(metavar="ID", help="Those of this session.")] = None,
    limit: Annotated[int, Parameter(help="How many at most.")] = 50,
    after: Annotated[str | None, Parameter(metavar="PLACE", help="Go on where an earlier list ended.")] = None,
    server: Server = HERE,
    as_json: AsJson = False,
) -> int:
    async def work(client: "AsyncClient") -> "Page[Thread]":
        return await client.threads.list(limit=limit, after=after, search=search, archived=archived, session_id=session)

    found = server.do(work)
    if as_json:
        more = {"next_after": found.next_after} if found.next_after is not None else {}
        with one_json_object() as write:
            write({"ok": True, "threads": [to_json(one) for one in found.items], **more})
        return OK
    rows = [(one.id, one.title, one.model, one.driver, one.session_id, one.updated_at) for one in found.items]
    show(["thread", "title", "model", "driver", "session", "changed"], rows, "there are none")
    if found.next_after is not None:
        print(f"there are more: --after {found.next_after}", file=sys.stderr)
    return OK


def show_(thread: ThreadId, /, *, server: Server = HERE, as_json: AsJson = False) -> int:
    detail = server.do(lambda client: client.threads.get(thread))
    if as_json:
        with one_json_object() as write:
            write({"ok": True, **to_json(detail)})
        return OK
    one = detail.thread
    facts(
        [
            ("thread", one.id),
            ("title", one.title),
            ("session", one.session_id),
            ("model", one.model),
            ("driver", one.driver),
            ("begun", one.created_at),
            ("archived", one.archived),
            ("labels", [f"{name}={value}" for name, value in one.labels.items()]),
            ("turns", len(detail.turns)),
            ("tokens", sum(turn.usage.tokens for turn in detail.turns)),
            ("last event", detail.latest_seq),
        ]
    )
    for item in detail.items:
        print(flat(line_of(item)))
    for question in detail.pending_approvals:
        print(flat(f"waits for approval: {question.capability} {json.dumps(question.arguments)}  {question.id}"))
    for call in detail.pending_tool_calls:
        print(flat(f"waits for a client: {call.tool} {json.dumps(call.arguments)}  {call.call_id}"))
    return OK


def new(
    *,
    title: Annotated[str | None, Parameter(help="What it is called.")] = None,
    model: Model = None,
    language: Annotated[
        Literal["python", "typescript"] | None,
        Parameter(name=["--language", "-l"], help="Of its programs.  [default: python]", show_default=False),
    ] = None,
    driver: Annotated[
        Literal["code", "native"], Parameter(help="The model writes programs, or makes plain tool calls.")
    ] = "code",
    session: Annotated[str | None, Parameter(metavar="ID", help="The session that its programs live in.")] = None,
    system_prompt: Annotated[str | None, Parameter(metavar="TEXT", help="What the model is told first.")] = None,
    label: Annotated[
        list[str] | None, Parameter(negative="", metavar="NAME=TEXT", help="A label of it. Repeatable.")
    ] = None,
    server: Server = HERE,
    as_json: AsJson = False,
) -> int:
    params = thread_params(title, model, language, driver, session, system_prompt, _labels(label or []))
    made = server.do(lambda client: client.threads.create(params))
    tell(as_json, {"thread": to_json(made)}, made.id)
    return OK


def thread_params(
    title: str | None = None,
    model: str | None = None,
    language: str | None = None,
    driver: str = "code",
    session: str | None = None,
    system_prompt: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> ThreadParams:
    return ThreadParams(
        title=title,
        model=model,
        session_id=session,
        system_prompt=system_prompt,
        driver=DriverKind(driver),
        labels=labels or {},
        language=Language(language) if language is not None else None,
    )


def _labels(given: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for pair in given:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"--label {pair!r} is not NAME=TEXT", "for example --label team=a")
        labels[name] = text
    return labels


def send(
    thread: ThreadId,
    text: Text,
    /,
    *,
    model: Model = None,
    key: Annotated[
        str | None, Parameter(metavar="KEY", help="The same key with the same words is the same turn.")
    ] = None,
    switch_provider: Annotated[
        bool, Parameter(negative="", show_default=False, help="The model may be of another provider than so far.")
    ] = False,
    wait: Annotated[
        bool, Parameter(negative="--no-wait", show_default=False, help="Show the turn until it ends, or only begin it.")
    ] = True,
    approve: Annotated[Mode, Parameter(help="What becomes of calls that need approval.")] = "ask",
    calls: Annotated[
        bool | None,
        Parameter(name="--calls", negative="--no-calls", show_default=False, help="Show programs and calls on stderr."),
    ] = None,
    server: Server = HERE,
    as_json: AsJson = False,
) -> int:
    said = _said(text, 'for example: cloister threads send THREAD "What is new?"')
    params = TurnParams(said, model=model, operation_key=key, switch_provider=switch_provider)
    output = ProgramOutput()
    log_to(output.log)
    screen = Screen(output, said=not as_json, work=are_shown(calls, as_json=as_json))

    async def work() -> tuple[Turn, int]:
        async with server.client() as client:
            if not wait:
                return (await client.threads.turn(thread, params)).turn, OK
            talk = Talk(client, await client.threads.get(thread), screen, asker_of(approve, output))
            turn: Turn | None = None
            try:
                turn = begun = await talk.say(params)
                await talk.until(lambda: begun.id in talk.ended)
                return talk.ended[begun.id], EXIT_OF_TURN[talk.ended[begun.id].status]
            except NobodyAnswers as open_question:
                nobody(open_question.approval)
                assert turn is not None
                return turn, DENIED
            finally:
                await talk.close()

    try:
        with ways_on():
            turn, code = run_interruptibly(work())
    except Interrupted:
        output.report(f"cloister: the turn goes on at the server, and cloister threads interrupt {thread} ends it")
        raise
    finally:
        output.finish()
    if as_json:
        with one_json_object() as write:
            write({"ok": code == OK, "turn": to_json(turn)})
    elif not wait:
        print(turn.id)
    return code


def _said(text: str, hint: str) -> str:
    said = sys.stdin.read() if text == STANDARD_INPUT else text
    if not said.strip():
        raise UsageError("there is nothing to say", hint)
    return said


def asker_of(mode: Mode, output: ProgramOutput) -> Approver | None:
    """None where there is nobody to ask: unlike those of a `run`, questions of a server can wait."""
    if mode != "ask":
        return approver(mode, output.held)
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    prompt = Prompt(sys.stdin.fileno(), sys.stderr, output.held)

    async def asker(approval: Approval) -> Answer | None:
        nonlocal prompt
        answer = await prompt.ask(approval)
        if answer is None:
            # Who has put off one is still there, and may be asked again.
            prompt = Prompt(sys.stdin.fileno(), sys.stderr, output.held)
        return answer

    return asker


def nobody(question: Approval) -> None:
    complain(
        f"`{question.capability}` needs approval, and there is no terminal to ask at; the turn waits",
        f"cloister threads answer {question.id} allow",
    )


def answer(
    approval: Annotated[str, Parameter(help="The question: `cloister threads show` has its id.")],
    decision: Annotated[Literal["allow", "always", "deny"], Parameter(help="What you say to it.")],
    /,
    *,
    message: Annotated[
        str | None, Parameter(name=["--message", "-m"], metavar="TEXT", help="What the program is told.")
    ] = None,
    server: Server = HERE,
    as_json: AsJson = False,
) -> int:
    word = "allow_always" if decision == "always" else decision
    done = server.do(lambda client: client.approvals.decide(approval, word, message=message))
    tell(as_json, {"outcome": done.outcome, "id": done.id}, f"{done.id}: {done.outcome.replace('_', ' ')}")
    return OK if done.outcome in ("executed", "denied") else FAILED


def steer(
    thread: ThreadId,
    text: Text,
    /,
    *,
    turn: TurnId = None,
    input_id: Annotated[
        str | None, Parameter(name="--id", metavar="ID", help="What comes with the same id is told once.")
    ] = None,
    server: Server = HERE,
    as_json: AsJson = False,
) -> int:
    said = _said(text, 'for example: cloister threads steer THREAD "in euros, please"')

    async def work(client: "AsyncClient") -> SteerReceipt:
        return await client.threads.steer(thread, await _turn(client, thread, turn), SteerParams(said, input_id))

    receipt = server.do(work)
    tell(as_json, {"receipt": to_json(receipt)}, receipt.receipt.value)
    return FAILED if receipt.receipt is Receipt.DROPPED else OK


def interrupt(thread: ThreadId, /, *, turn: TurnId = None, server: Server = HERE, as_json: AsJson = False) -> int:
    async def work(client: "AsyncClient") -> Turn:
        return await client.threads.interrupt(thread, await _turn(client, thread, turn))

    ended = server.do(work)
    tell(as_json, {"turn": to_json(ended)}, f"{ended.id} is {ended.status}")
    return OK


async def _turn(client: "AsyncClient", thread: str, turn: str | None) -> str:
    """The turn that is meant. Raises `UsageError` when none runs."""
    if turn is not None:
        return turn
    running = [one.id for one in (await client.threads.get(thread)).turns if not one.status.is_final]
    if not running:
        raise UsageError(f"no turn of {thread} goes on", "--turn names one that has ended")
    return running[0]


def fork(
    thread: ThreadId,
    /,
    *,
    turn: Annotated[
        str | None, Parameter(name="--turn", metavar="ID", help="Up to the end of this one.  [default: the last]")
    ] = None,
    server: Server = HERE,
    as_json: AsJson = False,
) -> int:
    made = server.do(lambda client: client.threads.fork(thread, turn))
    tell(as_json, {"thread": to_json(made)}, made.id)
    return OK


def compact(
    thread: ThreadId,
    /,
    *,
    keep_last: Annotated[
        int | None, Parameter(metavar="N", help="Leave the last turns as they are.", show_default=False)
    ] = None,
    summary: Annotated[
        str | None, Parameter(metavar="TEXT", help="The summary.  [default: the model writes it]", show_default=False)
    ] = None,
    through: Annotated[
        str | None, Parameter(metavar="ITEM", help="The last item that it stands for.", show_default=False)
    ] = None,
    server: Server = HERE,
    as_json: AsJson = False,
) -> int:
    item = server.do(
        lambda client: client.threads.compact(thread, keep_last=keep_last, summary=summary, through_item_id=through)
    )
    tell(as_json, {"item": item_to_json(item)}, item.detail.summary)
    return OK


def archive(
    thread: ThreadId,
    /,
    *,
    undo: Annotated[bool, Parameter(negative="", show_default=False, help="Take it out again.")] = False,
    server: Server = HERE,
    as_json: AsJson = False,
) -> int:
    changed = server.do(lambda client: client.threads.update(thread, {"archived": not undo}))
    tell(as_json, {"thread": to_json(changed)}, f"{changed.id} is {'taken out' if undo else 'put away'}")
    return OK


def events(
    thread: ThreadId,
    /,
    *,
    since: Annotated[int, Parameter(metavar="SEQ", help="Those after this one.")] = 0,
    follow: Annotated[
        bool,
        Parameter(
            name=["--follow", "-f"], negative="", show_default=False, help="Go on with those that come, until Ctrl-C."
        ),
    ] = False,
    server: Server = HERE,
    as_json: AsJson = False,
) -> int:
    async def work(client: "AsyncClient") -> None:
        latest = None if follow else (await client.threads.get(thread)).latest_seq
        if latest is not None and latest <= since:
            return
        async with client.events(thread_id=thread, since=since) as stream:
            async for event in stream:
                if not (latest is not None and event.is_ephemeral):
                    print(json.dumps(envelope_to_json(event)) if as_json else _event_line(event), flush=True)
                if latest is not None and event.seq is not None and event.seq >= latest:
                    return

    server.do(work)
    return OK


# -- lines ------------------------------------------------------------------------------------------------------------


def _event_line(event: Envelope) -> str:
    number = str(event.seq) if event.seq is not None else "-"
    about = event.item_id or event.turn_id or ""
    return flat(f"{number:>6}  {event.timestamp:%H:%M:%S}  {event.event:<24}  {about}").rstrip()


def line_of(item: Item) -> str:
    """An item on one line."""
    detail = item.detail
    match detail:
        case UserMessage(content):
            said = text_of(content)
        case AgentMessage(text):
            said = text
        case CellRun(code):
            said = code
        case ToolCall():
            said = f"{detail.tool} {json.dumps(detail.arguments)}"
        case _:
            said = json.dumps(to_json(detail))
    said = " ".join(said.split())
    return f"{item.kind:<18}  {item.status:<11}  {said if len(said) <= _WIDTH else said[: _WIDTH - 1] + '…'}"
