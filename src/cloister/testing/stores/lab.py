"""A lab: one store under test, what else its maker can do with it, and rows to try it with."""

import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from cloister.core.call import CallStatus
from cloister.core.capability import SideEffect
from cloister.core.digest import digest_bytes
from cloister.core.errors import CloisterError
from cloister.ports.journal import Entry, Intent, Settled, call_key
from cloister.ports.rows import (
    KEYS,
    AnswerRow,
    Append,
    ApprovalRow,
    AttachmentRow,
    Batch,
    CellRow,
    EventRow,
    Fence,
    FileRow,
    InputRow,
    ItemRow,
    Put,
    PutBlob,
    Row,
    SecretRow,
    SessionRow,
    SnapshotRow,
    Table,
    ThreadRow,
    ToolCallRow,
    TurnRow,
    ValueRow,
    Write,
)
from cloister.ports.store import Store
from cloister.stores.rules import key_of

E = TypeVar("E", bound=CloisterError)

NOW_MS = 1_700_000_000_000
# Longer than any wait of the suite should take; only a store that hangs gets there.
PATIENCE_S = 30.0

# JSON that is easily written back as something else.
HARD: list[dict[str, Any]] = [
    {"b": 1, "a": [None, True, False, 0, 0.0, -0.0, 1, 1.0, 0.1, 5e-324, 1.7976931348623157e308, 1e16]},
    {"": "", "key with \u2028, \U0001f600, \u00e9, e\u0301 and \x00": "text with \x00, \x7f, \\, \" and '"},
    {"numbers": [2**53 + 1, -(2**63), 2**63, 2**64, -(2**200), 10**300, 12345678901234567890.0]},
    {"deep": [[[[[[[[{"a": {"b": {"c": []}}}]]]]]]]]},
    {"not what it seems": ["1", "true", "null", "1e3", "2024-01-01", "\\u0041", "{}", ""]},
    {"z": 1, "a": 2, "m": {"z": 1, "a": 2}, "10": 1, "9": 2},
    {},
]
# What is not JSON, or no text.
NOT_JSON: list[Any] = [math.nan, math.inf, "half a pair: \ud83d", {"\udc00": 1}, b"bytes", {1, 2}, object()]


@dataclass(frozen=True)
class StoreLab:
    """`store` is open and empty, and closed by whoever made the lab; a behaviour may close it before.

    `another` opens one more handle on the same data, in this process and on this event loop; None if there is no such
    thing. `advance` lets so many milliseconds pass for the store and all its handles, without waiting for them: on the
    clock that they were given, or by moving back all moments that they wrote down. Waits are in real time.
    """

    store: Store
    another: Callable[[], AbstractAsyncContextManager[Store]] | None = None
    advance: Callable[[int], Awaitable[None]] | None = None

    def open(self) -> AbstractAsyncContextManager[Store]:
        assert self.another is not None, "this behaviour is of stores that can be opened twice"
        return self.another()

    async def let_pass(self, ms: int) -> None:
        assert self.advance is not None, "this behaviour is of labs that can let time pass"
        await self.advance(ms)


# -- rows -----------------------------------------------------------------------------------------------------------


def session(id: str = "ses_a", **fields: Any) -> SessionRow:
    return replace(SessionRow(id, NOW_MS, NOW_MS + 1), **fields)


def cell(id: str = "cel_a", session_id: str = "ses_a", **fields: Any) -> CellRow:
    return replace(CellRow(id, session_id, 1, "waiting", live=True, created_ms=NOW_MS), **fields)


def approval(id: str = "apr_a", session_id: str = "ses_a", **fields: Any) -> ApprovalRow:
    return replace(ApprovalRow(id, session_id, "cel_a", "pending", NOW_MS), **fields)


def snapshot(id: str = "snp_a", session_id: str = "ses_a", **fields: Any) -> SnapshotRow:
    return replace(SnapshotRow(id, session_id, NOW_MS, name_of(b"image")), **fields)


def event(seq: int = 1, session_id: str = "ses_a", **fields: Any) -> EventRow:
    return replace(EventRow(seq, session_id, "cell.yielded", NOW_MS), **fields)


def value(key: str = "key", session_id: str = "ses_a", **fields: Any) -> ValueRow:
    return replace(ValueRow(session_id, key, None, NOW_MS, NOW_MS + 1), **fields)


def file(path: str = "/a", session_id: str = "ses_a", **fields: Any) -> FileRow:
    return replace(FileRow(session_id, path, name_of(b"file"), 4, NOW_MS), **fields)


def secret(name: str = "TOKEN", session_id: str = "ses_a", **fields: Any) -> SecretRow:
    return replace(SecretRow(session_id, name, b"\x00sealed\xff", NOW_MS, NOW_MS + 1), **fields)


def attachment(data: bytes = b"picture", session_id: str = "ses_a", **fields: Any) -> AttachmentRow:
    return replace(AttachmentRow(session_id, name_of(data), "image/png", len(data), NOW_MS), **fields)


def thread(id: str = "thr_a", session_id: str = "ses_a", **fields: Any) -> ThreadRow:
    return replace(ThreadRow(id, session_id, NOW_MS, NOW_MS + 1), **fields)


def turn(id: str = "trn_a", session_id: str = "ses_a", **fields: Any) -> TurnRow:
    return replace(TurnRow(id, session_id, "thr_a", 1, "queued", live=True, created_ms=NOW_MS), **fields)


def item(id: str = "itm_a", session_id: str = "ses_a", **fields: Any) -> ItemRow:
    return replace(ItemRow(id, session_id, "thr_a", "trn_a", "cell", "queued", NOW_MS), **fields)


def model_answer(number: int = 1, session_id: str = "ses_a", **fields: Any) -> AnswerRow:
    return replace(AnswerRow("trn_a", number, session_id, "thr_a", f"{number:064x}", NOW_MS), **fields)


def said(id: str = "inp_a", session_id: str = "ses_a", **fields: Any) -> InputRow:
    return replace(InputRow(id, session_id, "thr_a", "queued", NOW_MS), **fields)


def tool_call(id: str = "cal_a", session_id: str = "ses_a", **fields: Any) -> ToolCallRow:
    return replace(ToolCallRow(id, session_id, "thr_a", "trn_a", "pending", NOW_MS), **fields)


def intent(number: int = 1, cell_id: str = "cel_a", session_id: str = "ses_a", **fields: Any) -> Intent:
    made = Intent(
        key=call_key(cell_id, number),
        call_id=f"cal_{number}",
        session_id=session_id,
        cell_id=cell_id,
        number=number,
        name="shop.refund",
        side_effect=SideEffect.WRITE,
        idempotent=True,
        arguments={"order": number},
        request_digest=f"{number:064x}",
        at_ms=NOW_MS + number,
    )
    return replace(made, **fields)


def settlement(number: int = 1, cell_id: str = "cel_a", **fields: Any) -> Settled:
    return replace(Settled(call_key(cell_id, number), CallStatus.OK, NOW_MS + 9, value=[number]), **fields)


def one_of_each(session_id: str = "ses_a", doc: Any = None) -> list[Row]:
    """A row for every table, all of one session, with ids of its own, with `doc` wherever there is place for one."""
    mine = {"session_id": session_id}
    held = {} if doc is None else {"doc": doc}
    call = intent(1, f"cel_{session_id}", session_id, arguments=doc)
    return [
        session(session_id, **held),
        cell(f"cel_{session_id}", **mine, **held),
        Entry(call, settlement(1, f"cel_{session_id}", value=doc), attempts=2),
        approval(f"apr_{session_id}", **mine, **held),
        snapshot(f"snp_{session_id}", **mine, **held),
        value(**mine, value=doc),
        file(**mine, **held),
        secret(**mine, **held),
        attachment(**mine, **held),
        thread(f"thr_{session_id}", **mine, **held),
        turn(f"trn_{session_id}", **mine, **held),
        item(f"itm_{session_id}", **mine, **held),
        model_answer(turn_id=f"trn_{session_id}", **mine, **held),
        said(f"inp_{session_id}", **mine, **held),
        tool_call(f"cal_{session_id}", **mine, **held),
    ]


# -- blobs ----------------------------------------------------------------------------------------------------------


def name_of(data: bytes) -> str:
    return digest_bytes(data)


def blob(data: bytes) -> PutBlob:
    return PutBlob(name_of(data), data)


# What `one_of_each` refers to.
BLOBS = [blob(b"image"), blob(b"file"), blob(b"picture")]


# -- writing and reading --------------------------------------------------------------------------------------------


async def write(store: Store, *writes: Write, fence: Fence | None = None) -> tuple[int, ...]:
    return await store.write(Batch(writes, fence))


async def put(store: Store, *rows: Row) -> None:
    await store.write(Batch(tuple(Put(row) for row in rows)))


async def append(store: Store, count: int = 1, session_id: str = "ses_a", **fields: Any) -> tuple[int, ...]:
    one = replace(Append(session_id, "cell.yielded", NOW_MS), **fields)
    return await store.write(Batch((one,) * count))


async def refused(kind: type[E], store: Store, *writes: Write, fence: Fence | None = None) -> E:
    """The refusal of that kind. It comes with the answer, never from `write` itself."""
    answer = store.write(Batch(writes, fence))
    try:
        await answer
    except kind as refusal:
        return refusal
    raise AssertionError(f"it was not refused: {writes!r:.500}")


def same(read: object, written: object) -> None:
    # Equality alone takes False for 0, 1.0 for 1 and -0.0 for 0, and does not see the order of keys.
    assert type(read) is type(written), f"{read!r:.500} is not {written!r:.500}"
    assert repr(read) == repr(written), f"{read!r:.500} is not {written!r:.500}"


async def read_back(store: Store, row: Row) -> Row | None:
    """The row with the same key, by the read that is made for it."""
    match row:
        case SessionRow():
            return await store.session(row.id)
        case CellRow():
            return await store.cell(row.id)
        case Entry():
            return await store.call(row.intent.key)
        case ApprovalRow():
            return await store.approval(row.id)
        case SnapshotRow():
            return _only([it for it in await store.snapshots(row.session_id) if it.id == row.id])
        case EventRow():
            return _only([it for it in await store.events(since=row.seq - 1, limit=1) if it.seq == row.seq])
        case ValueRow():
            return _only([it for it in await store.values(row.session_id) if it.key == row.key])
        case FileRow():
            return _only([it for it in await store.files(row.session_id) if it.path == row.path])
        case SecretRow():
            return _only([it for it in await store.secrets(row.session_id) if it.name == row.name])
        case AttachmentRow():
            return _only([it for it in await store.attachments(row.session_id) if it.blob == row.blob])
        case ThreadRow():
            return await store.thread(row.id)
        case TurnRow():
            return await store.turn(row.id)
        case ItemRow():
            return _only([it for it in await store.items(row.thread_id) if it.id == row.id])
        case AnswerRow():
            return _only([it for it in await store.answers(row.turn_id) if it.number == row.number])
        case InputRow():
            return _only([it for it in await store.inputs(row.thread_id) if it.id == row.id])
        case ToolCallRow():
            return await store.tool_call(row.id)


R = TypeVar("R")


def _only(rows: list[R]) -> R | None:
    assert len(rows) <= 1, f"one key, many rows: {rows!r:.500}"
    return rows[0] if rows else None


async def scanned(store: Store, table: Table, limit: int = 1000) -> list[Row]:
    """All rows of a table, page by page."""
    rows: list[Row] = []
    after: tuple[str | int, ...] | None = None
    while page := await store.scan(table, after=after, limit=limit):
        assert len(page) <= limit
        rows.extend(page)
        after = key_of(page[-1])
    return rows


async def everything(store: Store) -> dict[str, list[Row]]:
    return {table: await scanned(store, table) for table in KEYS}
