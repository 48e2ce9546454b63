"""Threads and their turns."""

from collections.abc import Mapping
from typing import Any

from cloister.client.answers import Begun, Page
from cloister.client.ask import Ask, Reply, asked, at, query
from cloister.client.reading import item, nothing, one, page, part, parts, read_item, received
from cloister.core.approval import Approval
from cloister.core.dynamic import DynamicToolCallParams, DynamicToolCallResult
from cloister.core.item import Item
from cloister.core.thread import Thread, ThreadDetail, ThreadParams
from cloister.core.turn import SteerParams, SteerReceipt, Turn, TurnParams
from cloister.core.wire import to_json

# A model may take its time for a summary.
_COMPACT_MS = 600_000


def create(params: ThreadParams | None = None) -> Ask[Thread]:
    """A new thread. With a `session_id` it joins that session, otherwise it gets one of its own."""
    return Ask("POST", at("threads"), one(Thread), to_json(params or ThreadParams()))


def get(thread_id: str) -> Ask[ThreadDetail]:
    """All of it, as it is at one moment: `events(thread_id=…, since=detail.latest_seq)` goes on from there."""
    return Ask("GET", at("threads", thread_id), _detail)


def _detail(reply: Reply) -> ThreadDetail:
    data = reply.data
    latest = part(data, "latest_seq")
    return ThreadDetail(
        received(Thread, part(data, "thread")),
        tuple(received(Turn, each) for each in parts(data, "turns")),
        tuple(read_item(each) for each in parts(data, "items")),
        latest if isinstance(latest, int) else 0,
        tuple(received(Approval, each) for each in parts(data, "pending_approvals")),
        tuple(received(DynamicToolCallParams, each) for each in parts(data, "pending_tool_calls")),
    )


def list_(
    *,
    limit: int | None = None,
    after: str | None = None,
    search: str | None = None,
    archived: bool | None = None,
    session_id: str | None = None,
    label: str | None = None,
) -> Ask[Page[Thread]]:
    """Some threads, the newest first. `search` is a part of the title, `label` is `name=text`."""
    asks = query(limit=limit, after=after, search=search, archived=archived, session_id=session_id, label=label)
    return Ask("GET", at("threads"), page(Thread, "threads"), query=asks)


def update(thread_id: str, patch: Mapping[str, Any]) -> Ask[Thread]:
    """Change its `title`, `labels`, `metadata`, `archived`, `model` or `system_prompt`; None takes one away."""
    return Ask("PATCH", at("threads", thread_id), one(Thread), dict(patch))


def fork(thread_id: str, turn_id: str | None = None) -> Ask[Thread]:
    """A new thread with what was said up to the end of that turn, or of the last that has ended."""
    return Ask("POST", at("threads", thread_id, "fork"), one(Thread), asked(turn_id=turn_id))


def compact(
    thread_id: str,
    *,
    keep_last: int | None = None,
    summary: str | None = None,
    through_item_id: str | None = None,
) -> Ask[Item]:
    """Have models told a summary in place of what was said; without a `summary` the model writes it."""
    body = asked(keep_last=keep_last, summary=summary, through_item_id=through_item_id)
    return Ask("POST", at("threads", thread_id, "compact"), item, body, takes_ms=_COMPACT_MS)


def turn(thread_id: str, params: TurnParams | str) -> Ask[Begun]:
    """Say something: a turn that begins now, or when those before it have ended. With an `operation_key` it is begun
    once however often it is asked for, and so it is asked again when the connection breaks."""
    if isinstance(params, str):
        params = TurnParams(params)
    keyed = params.operation_key is not None
    return Ask("POST", at("threads", thread_id, "turns"), _begun, to_json(params), keyed=keyed)


def _begun(reply: Reply) -> Begun:
    thread, turn = received(Thread, part(reply.data, "thread")), received(Turn, part(reply.data, "turn"))
    return Begun(thread, turn, again=reply.status == 200)


def get_turn(thread_id: str, turn_id: str) -> Ask[Turn]:
    """A turn as it is now."""
    return Ask("GET", at("threads", thread_id, "turns", turn_id), one(Turn))


def steer(thread_id: str, turn_id: str, params: SteerParams | str) -> Ask[SteerReceipt]:
    """Say something in the middle of a turn. What has an `id` is delivered once, and so it is sent again when the
    connection breaks."""
    if isinstance(params, str):
        params = SteerParams(params)
    path = at("threads", thread_id, "turns", turn_id, "steer")
    return Ask("POST", path, one(SteerReceipt), to_json(params), keyed=params.id is not None)


def interrupt(thread_id: str, turn_id: str) -> Ask[Turn]:
    """End a turn for sure: when this returns, its cells have stopped."""
    return Ask("POST", at("threads", thread_id, "turns", turn_id, "interrupt"), one(Turn), {})


def answer(thread_id: str, turn_id: str, call_id: str, result: DynamicToolCallResult) -> Ask[None]:
    """The client's answer to a call of its tool; durable when this returns. `ToolCallNotFound` where none is waited
    for, such as after another answer."""
    path = at("threads", thread_id, "turns", turn_id, "tool-calls", call_id, "result")
    return Ask("POST", path, nothing, to_json(result))
