"""What there is to say of the sessions in a store, without opening one."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cloister.core.wire import format_time
from cloister.ports.clock import moment
from cloister.ports.rows import SessionRow
from cloister.ports.store import Store

_PAGE = 1000
_CELLS = 10_000


@dataclass(frozen=True, slots=True)
class Overview:
    id: str
    language: str
    title: str | None
    labels: Mapping[str, str]
    created_at: datetime
    last_used_at: datetime
    # Cells that have not ended, or whose end nobody has read, by their state.
    cells: Mapping[str, int]
    open_questions: int
    # How many cells there were.
    last_cell: int
    tools: tuple[str, ...]
    durability: str

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "language": self.language,
            "title": self.title,
            "labels": dict(self.labels),
            "created_at": format_time(self.created_at),
            "last_used_at": format_time(self.last_used_at),
            "cells": dict(self.cells),
            "open_questions": self.open_questions,
            "last_cell": self.last_cell,
            "tools": list(self.tools),
            "durability": self.durability,
        }


async def overviews(store: Store) -> list[Overview]:
    """All of them, in the order of their ids."""
    cells: dict[str, Counter[str]] = {}
    after: str | None = None
    while live := await store.cells(live=True, after=after, limit=_CELLS):
        for row in live:
            cells.setdefault(row.session_id, Counter())[row.state] += 1
        after = live[-1].id
    asked: Counter[str] = Counter()
    after = None
    while pending := await store.approvals(state="pending", after=after, limit=_PAGE):
        asked.update(row.session_id for row in pending)
        after = pending[-1].id
    made: list[Overview] = []
    after = None
    while rows := await store.sessions(after=after, limit=_PAGE):
        made += [_overview(row, cells.get(row.id, Counter()), asked[row.id]) for row in rows]
        after = rows[-1].id
    return made


async def overview(store: Store, row: SessionRow) -> Overview:
    cells = Counter(cell.state for cell in await store.cells(row.id, live=True))
    return _overview(row, cells, len(await store.approvals(session_id=row.id, state="pending")))


def _overview(row: SessionRow, cells: Counter[str], asked: int) -> Overview:
    doc = row.doc
    return Overview(
        id=row.id,
        language=doc["language"],
        title=doc["title"],
        labels=doc["labels"],
        created_at=moment(row.created_ms),
        last_used_at=moment(row.used_ms),
        cells=dict(sorted(cells.items())),
        open_questions=asked,
        last_cell=doc["last_cell"],
        tools=tuple(sorted(doc["capabilities"])),
        durability=doc["durability"],
    )
