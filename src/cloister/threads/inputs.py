"""Words that come in the middle of a turn, in line for the next request of their thread.

Each is written down before its receipt says so. An id that the client gave is one of its kind in the thread: what comes
again under it is what came first.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cloister.core.errors import QueueFull, TurnNotFound
from cloister.core.turn import Receipt, SteerReceipt
from cloister.ports.rows import InputRow, Put, Write
from cloister.ports.store import Store
from cloister.threads.pen import Pen
from cloister.threads.rows import ms_of

MAX_INPUTS = 256


class Line:
    """Of one thread. Whoever calls `say` does so one at a time."""

    def __init__(self, pen: Pen, store: Store) -> None:
        self._pen = pen
        self._store = store
        self._waiting: list[InputRow] = []
        # Set when there is something new in it.
        self.came = asyncio.Event()

    async def load(self) -> None:
        """What has been written down, and not delivered."""
        self._waiting = list(await self._store.inputs(self._pen.thread_id, state="queued"))
        if self._waiting:
            self.came.set()

    def has(self, turn_id: str) -> bool:
        """Whether something waits that was said for that turn."""
        return any(row.turn_id == turn_id for row in self._waiting)

    def notices(self) -> list[InputRow]:
        """What cells have to tell, and nobody has been told."""
        return [row for row in self._waiting if row.doc["kind"] == "notification" and row.doc.get("cell_id")]

    def take(self, is_wanted: Callable[[InputRow], bool]) -> list[InputRow]:
        """Those that are wanted, which leave the line."""
        taken = [row for row in self._waiting if is_wanted(row)]
        self._waiting = [row for row in self._waiting if not is_wanted(row)]
        return taken

    def give_back(self, rows: Sequence[InputRow]) -> None:
        """What was taken and could not be written down is first in line again."""
        self._waiting = [*rows, *self._waiting]
        self.came.set()

    def dropped(self, row: InputRow) -> tuple[Write, ...]:
        """How it is written down that its turn ended before it was delivered."""
        gone = replace(row, state="dropped")
        return (Put(gone), self._told("turn.steer_dropped", gone))

    async def say(
        self,
        kind: str,
        content: Sequence[Mapping[str, Any]],
        client_id: str | None,
        turn_id: str | None,
        *,
        is_over: Callable[[], bool] = bool,
        **more: Any,
    ) -> SteerReceipt:
        """`is_over` says whether the turn has ended by the time that it is asked."""
        pen = self._pen
        if client_id is not None:
            known = await self._store.inputs(pen.thread_id, client_id=client_id, limit=1)
            if known:
                return _receipt(known[0])
        doc = {"kind": kind, "content": [dict(part) for part in content], **more}
        row = InputRow(
            pen.new_id("inp_"), pen.session_id, pen.thread_id, "queued", ms_of(pen.now()), turn_id, client_id, doc
        )
        if turn_id is not None and is_over():
            found = await self._store.turn(turn_id)
            if found is None or found.thread_id != pen.thread_id:
                raise TurnNotFound(f"thread {pen.thread_id!r} has no turn {turn_id!r}")
            await pen.write(*self.dropped(row))
            return _receipt(replace(row, state="dropped"))
        if len(self._waiting) >= MAX_INPUTS:
            raise QueueFull(f"{MAX_INPUTS} inputs wait for the next request of thread {pen.thread_id!r} already")
        # In line before it is written: a turn that ends meanwhile drops it.
        self._waiting.append(row)
        try:
            await pen.write(Put(row), self._told("turn.steered", row))
        except BaseException:
            self._waiting = [one for one in self._waiting if one.id != row.id]
            raise
        self.came.set()
        return _receipt(await self._now(row))

    async def _now(self, row: InputRow) -> InputRow:
        """As it is by now: it may have been delivered or dropped while it was written."""
        if any(one.id == row.id for one in self._waiting):
            return row
        rows = await self._store.inputs(self._pen.thread_id)
        return next((one for one in rows if one.id == row.id), row)

    def _told(self, kind: str, row: InputRow) -> Write:
        payload: dict[str, Any] = {"input_id": row.id, "input": row.doc["content"], "receipt": row.state}
        if row.client_id is not None:
            payload["id"] = row.client_id
        return self._pen.event(kind, payload, row.turn_id)


def _receipt(row: InputRow) -> SteerReceipt:
    return SteerReceipt(row.turn_id or "", row.id, Receipt(row.state), row.client_id)
