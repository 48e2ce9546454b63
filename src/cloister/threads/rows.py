"""Threads, turns and items as rows of a store, and back."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from cloister.core.approval import Approval
from cloister.core.dynamic import DynamicToolCallParams
from cloister.core.item import Item, item_from_json, item_to_json
from cloister.core.thread import Thread, ThreadDetail
from cloister.core.turn import Turn
from cloister.core.wire import keep_json, to_json
from cloister.ports.rows import AnswerRow, Conversation, ItemRow, ThreadQuery, ThreadRow, TurnRow, label_mark
from cloister.ports.store import Store
from cloister.sessions.questions import question_of


def ms_of(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def fold(text: str) -> str:
    """A title, or a part of one, as it is looked for: without regard to case."""
    return text.casefold()


def marks(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(label_mark(name, labels[name]) for name in sorted(labels))


def thread_row(thread: Thread) -> ThreadRow:
    return ThreadRow(
        thread.id,
        thread.session_id,
        ms_of(thread.created_at),
        ms_of(thread.updated_at),
        thread.tenant,
        thread.archived,
        fold(thread.title or ""),
        "".join(marks(thread.labels)),
        to_json(thread),
    )


def thread_of(row: ThreadRow) -> Thread:
    return keep_json(Thread, row.doc)


def turn_row(turn: Turn, session_id: str, digest: str) -> TurnRow:
    """`digest` is of what was asked for."""
    return TurnRow(
        turn.id,
        session_id,
        turn.thread_id,
        turn.number,
        str(turn.status),
        not turn.status.is_final,
        ms_of(turn.created_at),
        None if turn.ended_at is None else ms_of(turn.ended_at),
        turn.operation_key,
        {"turn": to_json(turn), "digest": digest},
    )


def turn_of(row: TurnRow) -> Turn:
    return keep_json(Turn, row.doc["turn"])


def item_row(item: Item, session_id: str) -> ItemRow:
    return ItemRow(
        item.id,
        session_id,
        item.thread_id,
        item.turn_id,
        str(item.kind),
        str(item.status),
        ms_of(item.created_at),
        item_to_json(item),
    )


def answer_copy(row: AnswerRow, turn_id: str, thread: Thread, item_ids: Mapping[str, str]) -> AnswerRow:
    """What a model answered, in another thread: which items it led to is said there under `items`."""
    answer: dict[str, Any] = row.doc["answer"]
    if isinstance(answer.get("items"), list):
        answer = {**answer, "items": [item_ids.get(one, one) for one in answer["items"]]}
    doc = {**row.doc, "answer": answer}
    return replace(row, turn_id=turn_id, session_id=thread.session_id, thread_id=thread.id, doc=doc)


def item_of(row: ItemRow) -> Item:
    return item_from_json(row.doc)


_PAGE = 5_000


async def all_items(store: Store, thread_id: str, after: str | None = None) -> list[Item]:
    """Those of a thread after that id, page by page."""
    found: list[Item] = []
    while page := await store.items(thread_id, after=after, limit=_PAGE):
        found += [item_of(row) for row in page]
        if len(page) < _PAGE:
            break
        after = page[-1].id
    return found


async def threads_of(store: Store, session_id: str) -> list[str]:
    """The ids of all threads of a session."""
    found: list[str] = []
    before: str | None = None
    while True:
        page = await store.threads(ThreadQuery(session_id=session_id), before=before, limit=_PAGE)
        found += [row.id for row in page.rows]
        if (before := page.before) is None:
            return found


def params_of(doc: Mapping[str, Any]) -> DynamicToolCallParams:
    return keep_json(DynamicToolCallParams, doc)


def detail_of(found: Conversation) -> ThreadDetail:
    approvals: tuple[Approval, ...] = tuple(question_of(row).approval for row in found.approvals)
    return ThreadDetail(
        thread_of(found.thread),
        tuple(map(turn_of, found.turns)),
        tuple(map(item_of, found.items)),
        found.latest_seq,
        approvals,
        tuple(params_of(row.doc["params"]) for row in found.tool_calls),
    )


def first_item_of(turn_id: str) -> str:
    """Ids go with time, and no item of a turn is older than the turn."""
    return "itm_" + turn_id.removeprefix("trn_")
