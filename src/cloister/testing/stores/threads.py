"""Conversations: who lists which threads, what is found of a turn, streams of events, and all of a thread at once."""

from collections.abc import Callable
from typing import Any

from cloister.core.errors import InvalidInput
from cloister.ports.rows import Append, Drop, EventRow, Put, ThreadQuery, ThreadRow, Write, label_mark
from cloister.ports.store import Store
from cloister.testing.behaviour import Chapter
from cloister.testing.stores.lab import (
    NOW_MS,
    StoreLab,
    append,
    approval,
    cell,
    item,
    model_answer,
    put,
    refused,
    said,
    same,
    session,
    thread,
    tool_call,
    turn,
    write,
)

chapter = Chapter[StoreLab]()


async def _listed(store: Store, limit: int = 100, **terms: Any) -> list[str]:
    """The ids of all pages."""
    query = ThreadQuery(**terms)
    names: list[str] = []
    before: str | None = None
    while True:
        page = await store.threads(query, before=before, limit=limit)
        assert len(page.rows) <= limit
        names += [row.id for row in page.rows]
        if page.before is None:
            return names
        assert before is None or page.before < before
        before = page.before


@chapter(
    "threads are listed by page, the newest first, by tenant, title, labels, session and whether they are archived"
)
async def _list(lab: StoreLab) -> None:
    rows: list[ThreadRow] = [
        thread(
            f"thr_{n:02}",
            f"ses_{n % 2}",
            tenant=("", "acme", "Acme")[n % 3],
            archived=n % 4 == 0,
            search=f"straße {n:02} 100%_\U0001f600",
            labels=label_mark("env", "prod" if n % 2 else "test") + label_mark("n", str(n)),
        )
        for n in range(25)
    ]
    store = lab.store
    await put(store, *rows)
    everything = [row.id for row in reversed(rows)]
    for limit in (1, 4, 25, 100):
        assert await _listed(store, limit) == everything
    cases: list[tuple[dict[str, Any], Callable[[int], bool]]] = [
        ({"tenant": "acme"}, lambda n: n % 3 == 1),
        ({"tenant": "nobody"}, lambda n: False),
        ({"tenant": "acme", "archived": True}, lambda n: n % 3 == 1 and n % 4 == 0),
        ({"archived": False, "session_id": "ses_1"}, lambda n: n % 4 != 0 and n % 2 == 1),
        ({"search": "SSE 0"}, lambda n: False),
        ({"search": "ße 0"}, lambda n: n < 10),
        ({"search": "_"}, lambda n: True),
        ({"search": "7 100%_\U0001f600"}, lambda n: n % 10 == 7),
        ({"search": ""}, lambda n: True),
        ({"labels": (label_mark("env", "prod"),)}, lambda n: n % 2 == 1),
        ({"labels": (label_mark("env", "test"), label_mark("n", "2"))}, lambda n: n == 2),
        ({"labels": (label_mark("env", "pro"),)}, lambda n: False),
    ]
    for terms, wanted in cases:
        expected = [row.id for n, row in reversed(list(enumerate(rows))) if wanted(n)]
        assert await _listed(store, 3, **terms) == expected, terms
    await refused(InvalidInput, store, Put(thread(search="\x00")))


@chapter("sessions and approvals are listed of one tenant, or of all")
async def _tenants(lab: StoreLab) -> None:
    store = lab.store
    await put(store, session("ses_a"), session("ses_b", tenant="acme"), session("ses_c", tenant="acme"))
    await put(store, approval("apr_1"), approval("apr_2", "ses_c"), approval("apr_3", "ses_c", state="allowed"))
    assert [row.id for row in await store.sessions()] == ["ses_a", "ses_b", "ses_c"]
    assert [row.id for row in await store.sessions(tenant="acme", after="ses_b")] == ["ses_c"]
    assert [row.id for row in await store.sessions(tenant="")] == ["ses_a"]
    assert [row.id for row in await store.approvals(tenant="acme")] == ["apr_2", "apr_3"]
    assert [row.id for row in await store.approvals(tenant="acme", state="pending")] == ["apr_2"]
    assert [row.id for row in await store.approvals(tenant="")] == ["apr_1"]


@chapter("turns, items, answers, inputs and calls of a client are found by what they belong to")
async def _found(lab: StoreLab) -> None:
    store = lab.store
    turns = [
        turn("trn_1", operation_key="k", live=False, number=1),
        turn("trn_2", number=2),
        turn("trn_3", "ses_b", thread_id="thr_b", operation_key="k"),
    ]
    items = [item(f"itm_{n}", thread_id="thr_b" if n == 3 else "thr_a") for n in range(5)]
    answers = [model_answer(n) for n in (10, 2, 1)] + [model_answer(1, turn_id="trn_b")]
    inputs = [said("inp_1", client_id="c"), said("inp_2", state="delivered"), said("inp_3", thread_id="thr_b")]
    calls = [tool_call("cal_1"), tool_call("cal_2", state="resolved"), tool_call("cal_3", "ses_b", thread_id="thr_b")]
    await put(store, *turns, *items, *answers, *inputs, *calls)
    same(list(await store.turns()), turns)
    same(list(await store.turns(live=True)), turns[1:])
    same(list(await store.turns(thread_id="thr_a", live=False)), turns[:1])
    same(list(await store.turns(session_id="ses_b")), turns[2:])
    same(list(await store.turns(thread_id="thr_b", operation_key="k")), turns[2:])
    same(list(await store.turns(thread_id="thr_a", after="trn_1", limit=1)), turns[1:2])
    same(list(await store.items("thr_a", after="itm_1")), [items[2], items[4]])
    same(list(await store.items("thr_a", limit=2)), items[:2])
    assert [row.number for row in await store.answers("trn_a")] == [1, 2, 10]
    same(list(await store.inputs("thr_a", state="queued")), inputs[:1])
    same(list(await store.inputs("thr_a", client_id="c")), inputs[:1])
    same(list(await store.inputs("thr_b", client_id="c")), [])
    same(list(await store.tool_calls(thread_id="thr_a", state="pending")), calls[:1])
    same(list(await store.tool_calls(session_id="ses_b")), calls[2:])
    same(await store.tool_call("cal_2"), calls[1])
    await write(store, Drop("sessions", ("ses_b",)))
    assert await store.turn("trn_3") is None
    assert await store.tool_call("cal_3") is None
    assert len(await store.answers("trn_a")) == 3


def _event(n: int) -> Write:
    if n % 3 == 0:
        return Append("ses_a", "cell.started", NOW_MS + n)
    return Append("ses_a", "turn.started", NOW_MS + n, {"n": n}, f"thr_{n % 3}", "trn_a", "itm_a")


@chapter("a thread has a stream of its own among the events of its session, and its last is known up to any number")
async def _streams(lab: StoreLab) -> None:
    store = lab.store
    numbers = list(await write(store, *(_event(n) for n in range(12))))
    await append(store, 1, "ses_b")
    mine = numbers[1::3]
    rows = await store.events(thread_id="thr_1")
    assert [row.seq for row in rows] == mine
    same(rows[0], EventRow(mine[0], "ses_a", "turn.started", NOW_MS + 1, {"n": 1}, "thr_1", "trn_a", "itm_a"))
    assert [row.seq for row in await store.events(thread_id="thr_1", since=mine[1], limit=1)] == [mine[2]]
    assert [row.seq for row in await store.events(session_id="ses_b", thread_id="thr_1")] == []
    assert [row.seq for row in await store.events(session_id="ses_a", limit=4)] == numbers[:4]
    assert await store.last_event(thread_id="thr_1") == mine[-1]
    assert await store.last_event(thread_id="thr_1", upto=mine[2] - 1) == mine[1]
    assert await store.last_event(thread_id="thr_1", upto=mine[0] - 1) == 0
    assert await store.last_event(session_id="ses_a", upto=numbers[5]) == numbers[5]
    assert await store.last_event(session_id="ses_nobody") == 0
    assert await store.last_event(upto=numbers[3]) == numbers[3]


@chapter("events of a thread are not pruned while it is there")
async def _not_pruned(lab: StoreLab) -> None:
    store = lab.store
    await put(store, session(), thread("thr_1"))
    numbers = await write(store, *(_event(n) for n in range(6)))
    assert await store.prune(keep_events=0) == 4
    assert [row.seq for row in await store.events()] == [numbers[1], numbers[4]]
    await write(store, Drop("sessions", ("ses_a",)))
    assert await store.prune(events_before_ms=NOW_MS + 1000) == 2


@chapter("all of a thread is read as it was at one moment")
async def _conversation(lab: StoreLab) -> None:
    store = lab.store
    assert await store.conversation("thr_a") is None
    mine = [thread(), turn("trn_1"), turn("trn_2"), item("itm_1"), tool_call("cal_1"), approval("apr_1")]
    others = [
        thread("thr_b", "ses_b"),
        turn("trn_3", thread_id="thr_b"),
        item("itm_2", thread_id="thr_b"),
        tool_call("cal_2", state="timeout"),
        approval("apr_2", state="denied"),
        approval("apr_3", cell_id="cel_b"),
    ]
    await put(store, *mine, *others, cell(thread_id="thr_a"), cell("cel_b", thread_id="thr_b"))
    first, *_ = await write(store, Append("ses_a", "turn.started", NOW_MS, {}, "thr_a"), Append("ses_a", "x", NOW_MS))
    read = await store.conversation("thr_a")
    assert read is not None
    together = [read.thread, *read.turns, *read.items, *read.tool_calls, *read.approvals]
    same(together, mine)
    assert read.latest_seq == first
