"""Rows: that they come back as they were, are written over, and go."""

import copy
from dataclasses import replace
from typing import Any, cast

from cloister.core.call import CallStatus
from cloister.core.diagnostic import ErrorObject, Span
from cloister.core.errors import InvalidInput
from cloister.ports.journal import Entry, Intent
from cloister.ports.rows import (
    KEYS,
    TABLE_OF,
    AnswerRow,
    Append,
    ApprovalRow,
    CellRow,
    Decide,
    Drop,
    EventRow,
    FileRow,
    InputRow,
    Intend,
    ItemRow,
    MoveHead,
    Put,
    SecretRow,
    SessionRow,
    Settle,
    SnapshotRow,
    ThreadRow,
    ToolCallRow,
    TurnRow,
    ValueRow,
    Write,
    label_mark,
)
from cloister.stores.rules import key_of
from cloister.testing.behaviour import Chapter
from cloister.testing.stores.lab import (
    BLOBS,
    HARD,
    NOT_JSON,
    NOW_MS,
    StoreLab,
    append,
    approval,
    attachment,
    cell,
    event,
    everything,
    file,
    intent,
    name_of,
    one_of_each,
    put,
    read_back,
    refused,
    said,
    same,
    secret,
    session,
    settlement,
    snapshot,
    thread,
    turn,
    value,
    write,
)

chapter = Chapter[StoreLab]()


@chapter("an empty store has nothing in it")
async def _empty(lab: StoreLab) -> None:
    store = lab.store
    assert await everything(store) == {table: [] for table in KEYS}
    assert await store.session("ses_a") is None
    assert await store.cell("cel_a") is None
    assert await store.call("cel_a/1") is None
    assert await store.approval("apr_a") is None
    assert await store.blob(name_of(b"")) is None
    for rows in (store.values, store.files, store.secrets, store.attachments, store.snapshots):
        assert list(await rows("ses_a")) == []
    assert list(await store.calls("cel_a")) == []
    assert list(await store.events()) == []


@chapter("a row of every table comes back as it was, whatever JSON its doc is")
async def _round_trip(lab: StoreLab) -> None:
    for place, doc in enumerate(HARD):
        for row in [*one_of_each(f"ses_{place}", doc), event(place + 1, doc=doc)]:
            await put(lab.store, row)
            same(await read_back(lab.store, row), row)


@chapter("a stored value is any JSON, not only an object")
async def _values(lab: StoreLab) -> None:
    for place, held in enumerate([None, True, False, 0, 0.0, -0.0, "", "text", "\x00", [], [None], {}, *HARD]):
        row = value(f"key {place}", value=held)
        await put(lab.store, row)
        same(await read_back(lab.store, row), row)


@chapter("every field of a row comes back, those that may be absent as well")
async def _fields(lab: StoreLab) -> None:
    image = name_of(b"image")
    error = ErrorObject("NO_STOCK", "no \u00bb\u00a7\u00ab left\x00", "order \nless", Span(1, 2, 3, 4))
    rows = [
        session("ses_1", image=image, created_ms=0, used_ms=-1),
        session("ses_2", image=None, used_ms=2**62),
        cell("cel_1", number=7, state="completed", live=False, ended_ms=NOW_MS, image=image),
        cell("cel_2", live=True, ended_ms=None, image=None),
        snapshot("snp_1", cell_id="cel_1", call_number=3),
        snapshot("snp_2", cell_id=None, call_number=None),
        snapshot("snp_3", blobs=(image, name_of(b"file"))),
        secret("A", sealed=b""),
        secret("B", sealed=bytes(range(256))),
        file("/a", size_bytes=2**40),
        attachment(b"x", media_type="text/plain; charset=utf-8"),
        Entry(intent(1, arguments=None)),
        Entry(
            intent(2, idempotent=False),
            settlement(2, value=None, response_digest="d" * 64, usage={"input_tokens": 3}),
            attempts=3,
        ),
        Entry(intent(3), settlement(3, status=CallStatus.ERROR, value=None, error=error)),
        Entry(intent(4), settlement(4, status=CallStatus.DENIED, error=ErrorObject("NO", "no", None, Span(1, 2)))),
        event(5, kind="", at_ms=0),
        event(6, thread_id="thr_1", turn_id="trn_1", item_id="itm_1"),
        session("ses_3", tenant="acme"),
        cell("cel_3", thread_id="thr_1", turn_id="trn_1", item_id="itm_1"),
        thread("thr_1", tenant="acme", archived=True, search="s" * 2000, labels=label_mark("a", "b" * 2000)),
        turn("trn_1", number=2**40, live=False, ended_ms=NOW_MS, operation_key="k" * 128),
        said("inp_1", turn_id="trn_1", client_id="c"),
    ]
    await put(lab.store, *rows)
    for row in rows:
        same(await read_back(lab.store, row), row)


@chapter("what is not JSON is refused as invalid, wherever a doc may be, and nothing is written")
async def _not_json(lab: StoreLab) -> None:
    await put(lab.store, approval())
    for bad in NOT_JSON:
        doc = {"held": [bad]}
        writes: list[Write] = [Put(row) for row in one_of_each(doc=doc)]
        writes += [Append("ses_a", "x", 1, doc), Decide(approval(doc=doc), "pending")]
        writes += [Intend(intent(arguments=[bad])), Put(event(1, doc=doc))]
        for one in writes:
            await refused(InvalidInput, lab.store, Put(cell("cel_other")), one)
    await write(lab.store, Intend(intent()))
    await refused(InvalidInput, lab.store, Settle(settlement(value=["\udc00"])))
    assert await lab.store.cell("cel_other") is None
    assert await lab.store.call("cel_a/1") == Entry(intent())


@chapter("a doc of 16 MiB is kept, and one that is larger is refused as invalid")
async def _sizes(lab: StoreLab) -> None:
    around = len('{"text":""}')
    most = {"text": "x" * ((16 << 20) - around)}
    await put(lab.store, session(doc=most))
    row = await lab.store.session("ses_a")
    assert row is not None
    assert row.doc == most
    await refused(InvalidInput, lab.store, Put(cell()), Put(session(doc={"text": most["text"] + "x"})))
    assert await lab.store.cell("cel_a") is None


@chapter("what a caller changes in what it has written or read is not changed in the store")
async def _not_shared(lab: StoreLab) -> None:
    inner: dict[str, int] = {"a": 1}
    doc: dict[str, Any] = {"list": [1], "object": inner}
    rows = one_of_each(doc=doc)
    kept = copy.deepcopy(rows)
    await put(lab.store, *rows)
    doc["list"] = []
    inner["b"] = 2
    for row in kept:
        read = await read_back(lab.store, row)
        same(read, row)
        match read:
            case ValueRow():
                read.value["list"].append(2)
            case Entry(intent=Intent(arguments=dict() as held)):
                held["new"] = 2
            case None:
                raise AssertionError(f"there was no {row!r}")
            case _:
                cast("Any", read).doc["list"].append(2)
        same(await read_back(lab.store, row), row)


@chapter("a row is written over the one with the same key, whole")
async def _over(lab: StoreLab) -> None:
    await put(lab.store, *one_of_each(doc={"first": 1}))
    others = [
        SessionRow("ses_a", 1, 2),
        CellRow("cel_ses_a", "ses_b", 2, "ended", live=False, created_ms=3),
        Entry(intent(1, "cel_ses_a", name="other"), attempts=9),
        ApprovalRow("apr_ses_a", "ses_b", "cel_b", "allowed", 4),
        SnapshotRow("snp_ses_a", "ses_b", 5, name_of(b"file")),
        value(value="second"),
        FileRow("ses_a", "/a", name_of(b"image"), 5, 6),
        SecretRow("ses_a", "TOKEN", b"other", 7, 8),
        attachment(media_type="image/webp"),
        ThreadRow("thr_ses_a", "ses_b", 9, 10, "acme", True, "other", label_mark("a", "b")),
        TurnRow("trn_ses_a", "ses_b", "thr_b", 2, "completed", False, 11, 12, "key"),
        ItemRow("itm_ses_a", "ses_b", "thr_b", "trn_b", "error", "failed", 13),
        AnswerRow("trn_ses_a", 1, "ses_b", "thr_b", "other", 14),
        InputRow("inp_ses_a", "ses_b", "thr_b", "dropped", 15, "trn_b", "mine"),
        ToolCallRow("cal_ses_a", "ses_b", "thr_b", "trn_b", "resolved", 16),
    ]
    await put(lab.store, *others)
    for row in others:
        same(await read_back(lab.store, row), row)
    held = await everything(lab.store)
    assert {table: len(rows) for table, rows in held.items() if rows} == {
        table: 1 for table in KEYS if table != "events"
    }


@chapter("a row that is written over with another session is that one's from then on")
async def _moved(lab: StoreLab) -> None:
    store = lab.store
    for owner in ("ses_a", "ses_b"):
        await put(store, session(owner), cell("cel", owner), approval("apr", owner), snapshot("snp", owner))
        await put(store, Entry(intent(1, "cel", owner)))
    assert list(await store.cells("ses_a")) == list(await store.snapshots("ses_a")) == []
    assert list(await store.approvals(session_id="ses_a")) == []
    await put(store, Entry(intent(7, "cel_other", "ses_b", key="cel/1")))
    assert list(await store.calls("cel")) == []
    await write(store, Drop("sessions", ("ses_a",)))
    assert list(await store.cells("ses_b")) == [cell("cel", "ses_b")]
    assert list(await store.approvals(session_id="ses_b")) == [approval("apr", "ses_b")]
    assert list(await store.snapshots("ses_b")) == [snapshot("snp", "ses_b")]
    assert [entry.intent.number for entry in await store.calls("cel_other")] == [7]


@chapter("a row that was dropped is gone, and those beside it stay")
async def _drop(lab: StoreLab) -> None:
    gone, stays = one_of_each("ses_a"), one_of_each("ses_b")
    await put(lab.store, *gone, *stays, event(1), event(2))
    # The session last: what goes with it must have gone by itself.
    for row in reversed(gone):
        await write(lab.store, Drop(TABLE_OF[type(row)], key_of(row)))
        assert await read_back(lab.store, row) is None
    await write(lab.store, Drop("events", (1,)))
    assert [row.seq for row in await lab.store.events()] == [2]
    for row in stays:
        same(await read_back(lab.store, row), row)


@chapter("to drop what is not there is no trouble")
async def _drop_nothing(lab: StoreLab) -> None:
    await put(lab.store, session("ses_b"))
    missing = [Drop(TABLE_OF[type(row)], key_of(row)) for row in [*one_of_each(), event(1)]]
    await write(lab.store, *missing, Put(cell()))
    assert await lab.store.session("ses_b") == session("ses_b")
    assert await lab.store.cell("cel_a") == cell()


@chapter("a session that is dropped goes with all that is its own, but for its events and what is another's")
async def _drop_session(lab: StoreLab) -> None:
    await write(lab.store, *BLOBS, *(Put(row) for row in [*one_of_each("ses_a"), *one_of_each("ses_b")]))
    numbers = await append(lab.store, 2, "ses_a") + await append(lab.store, 1, "ses_b")
    await put(lab.store, cell("cel_more"), value("more"), Entry(intent(2, "cel_other")))
    await write(lab.store, Drop("sessions", ("ses_a",)))
    left = await everything(lab.store)
    assert [row.seq for row in left.pop("events") if isinstance(row, EventRow)] == list(numbers)
    assert all(len(rows) == 1 for rows in left.values()), left
    for row in one_of_each("ses_b"):
        same(await read_back(lab.store, row), row)
    assert len(await lab.store.events(session_id="ses_a")) == 2


@chapter("a session that comes again after it was dropped is a new one, with a head of 0 and nothing in it")
async def _drop_and_put(lab: StoreLab) -> None:
    await put(lab.store, session(), value())
    await write(lab.store, MoveHead("ses_a", 0))
    await write(lab.store, Drop("sessions", ("ses_a",)), Put(session(used_ms=9)))
    same(await lab.store.session("ses_a"), session(used_ms=9, head=0))
    assert list(await lab.store.values("ses_a")) == []


@chapter("a row may be there before what it refers to")
async def _dangling(lab: StoreLab) -> None:
    rows = one_of_each()
    await put(lab.store, *reversed(rows[1:]))
    for row in rows[1:]:
        same(await read_back(lab.store, row), row)
    await append(lab.store, 1, "ses_nobody")
    assert len(await lab.store.events(session_id="ses_nobody")) == 1


@chapter("calls and events that come from elsewhere are put as they are, with their numbers")
async def _from_elsewhere(lab: StoreLab) -> None:
    entry = Entry(intent(), settlement(), attempts=4)
    await put(lab.store, entry, event(7), event(12, "ses_b"))
    same(await lab.store.call("cel_a/1"), entry)
    assert [row.seq for row in await lab.store.events()] == [7, 12]
    # The log goes on behind them.
    assert min(await append(lab.store, 2)) > 12
    await refused(InvalidInput, lab.store, Intend(intent()))
    # Events are numbered from 1: one with a smaller number would never be read.
    await refused(InvalidInput, lab.store, Put(event(0)))
    await put(lab.store, replace(event(7), kind="other"))
    assert [row.kind for row in await lab.store.events(limit=1)] == ["other"]
