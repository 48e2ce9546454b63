# pyright: reportPrivateUsage=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""Where a host can be killed by name. Loaded in the child only, before it opens anything.

`CRASH_AT=before:intent:3` kills at the third time that an intent is handed to the store. What a batch is, by its most
telling write: began, suspended, asked, ended, read, intent, settlement, question, answer, values, session, events;
and of a conversation: reply (what a model has answered), turn, turn_end, steer, delivered, tool_call, tool_answer (of
the client), item, thread.

- `before:X`     X is handed over; it and what is still on its way into the file may be lost.
- `committed:X`  X is in the file, and nobody in the process has been told.
- `after:X`      those who wait for X are about to be told.
- `stall:X`      X, and all after it, does not get into the file any more; the process goes on for a moment and is
                 killed then: whatever it tells anybody in that moment must not rely on X.

Beside the store: tool (around the effect), dispatch, dump, resume, end, claim.
"""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from cloister.cells.berth import Berth
from cloister.cells.runner import Runner
from cloister.core.capability import HARMLESS
from cloister.gate import execution
from cloister.ports.rows import (
    AnswerRow,
    Append,
    ApprovalRow,
    Batch,
    CellRow,
    InputRow,
    Intend,
    ItemRow,
    Put,
    SessionRow,
    Settle,
    ThreadRow,
    ToolCallRow,
    TurnRow,
    ValueRow,
)
from cloister.sessions.driving import Driving
from cloister.stores.sqlite.receipt import Receipt
from cloister.stores.sqlite.store import SqliteStore
from cloister.stores.sqlite.writer import Writer

STALL_SECONDS = 0.15
# The first of them that is in a batch is what it is about.
_TELLING = (
    *("reply", "turn_end", "turn", "tool_answer", "tool_call", "steer", "delivered"),
    *("ended", "read", "asked", "intent", "suspended", "began", "settlement", "question", "answer", "item", "thread"),
)


def kind_of(batch: Batch) -> str:
    kinds = {_kind(write) for write in batch.writes}
    for telling in _TELLING:
        if telling in kinds:
            return telling
    return "session" if "session" in kinds else next(iter(kinds - {"other"}), "other")


def _kind(write: object) -> str:
    match write:
        case Intend(intent=intent):
            # One that must be there before its call is made.
            return "other" if intent.idempotent and intent.side_effect in HARMLESS else "intent"
        case Settle():
            return "settlement"
        case Append():
            return "events"
        case Put(row=CellRow(doc=doc, live=live)):
            if "direct" in doc:
                return ("directed" if live else "told") if "result" in doc else "direct"
            if "result" in doc:
                return "ended" if live else "read"
            if "asleep" in doc:
                return "asked" if doc["asked"] else "suspended"
            return "began"
        case Put(row=ApprovalRow(state=state)):
            return "question" if state == "pending" else "answer"
        case Put(row=SessionRow()):
            return "session"
        case Put(row=ValueRow()):
            return "values"
        case Put(row=AnswerRow()):
            return "reply"
        case Put(row=TurnRow(live=live)):
            return "turn" if live else "turn_end"
        case Put(row=InputRow(state=state)):
            return "steer" if state == "queued" else "delivered"
        case Put(row=ToolCallRow(state=state)):
            return "tool_call" if state == "pending" else "tool_answer"
        case Put(row=ItemRow()):
            return "item"
        case Put(row=ThreadRow()):
            return "thread"
        case _:
            return "other"


class Points:
    def __init__(self, at: str | None) -> None:
        self.counts: Counter[str] = Counter()
        self._at, _, nth = (at or "").rpartition(":")
        self._nth = int(nth or 0)
        self._lock = threading.Lock()
        self._kinds: dict[int, str] = {}
        self._stalled: set[int] = set()

    def hit(self, point: str) -> bool:
        """Counts; kills if this is where."""
        with self._lock:
            self.counts[point] += 1
            here = point == self._at and self.counts[point] == self._nth
        if here and not point.startswith("stall:"):
            os.kill(os.getpid(), signal.SIGKILL)
        return here

    def install(self) -> None:
        self._wrap_store()
        for owner, name, point in (
            (Berth, "dump", "dump"),
            (Runner, "_resume", "resume"),
            (Driving, "_finish", "end"),
            (execution, "dispatch", "dispatch"),
            (SqliteStore, "claim", "claim"),
        ):
            setattr(owner, name, self._around(getattr(owner, name), point))

    def _around(self, inner: Callable[..., Any], point: str) -> Callable[..., Any]:
        async def outer(*args: Any, **kwargs: Any) -> Any:
            self.hit(f"before:{point}")
            out = await inner(*args, **kwargs)
            self.hit(f"after:{point}")
            return out

        return outer

    def _wrap_store(self) -> None:
        write, settle, announce, commit = SqliteStore.write, Receipt.settle, Writer._announce, Writer._commit
        kinds, points = self._kinds, self

        def writing(store: SqliteStore, batch: Batch) -> Any:
            kind = kind_of(batch)
            points.hit(f"before:{kind}")
            stalled = points.hit(f"stall:{kind}")
            receipt = _hold_writer(lambda: write(store, batch)) if stalled else write(store, batch)
            kinds[id(receipt)] = kind
            return receipt

        def _hold_writer(put: Callable[[], Any]) -> Any:
            with points._lock:
                receipt = put()
                points._stalled.add(id(receipt))
            return receipt

        def committing(writer: Writer, group: list[Any]) -> Any:
            with points._lock:
                stalled = any(id(job.receipt) in points._stalled for job in group)
            if stalled:
                # Nothing of the group gets in. Long enough for whoever does not wait for it to go on.
                time.sleep(STALL_SECONDS)
                os.kill(os.getpid(), signal.SIGKILL)
            return commit(writer, group)

        def announcing(writer: Writer, outcomes: list[Any], last_event: int) -> None:
            for job, _, error in outcomes:
                if error is None and (kind := kinds.get(id(job.receipt))) is not None:
                    points.hit(f"committed:{kind}")
            announce(writer, outcomes, last_event)

        def settling(receipt: Any, value: Any, error: BaseException | None) -> None:
            if (kind := kinds.pop(id(receipt), None)) is not None and error is None:
                points.hit(f"after:{kind}")
            settle(receipt, value, error)

        SqliteStore.write = writing  # type: ignore[method-assign]
        Receipt.settle = settling  # type: ignore[method-assign]
        Writer._announce = announcing  # type: ignore[method-assign]
        Writer._commit = committing  # type: ignore[method-assign]
