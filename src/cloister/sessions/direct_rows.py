"""Direct calls that wait for a person, as rows of a store: cells without a program, with one call.

A call is written down before its caller is told that it waits, and where calls are kept at all. It does not know how
calls are made; it says what is left of them, so that another process can go on. One whose arguments have the value of a
secret in them is not written down: handles are, values never.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cloister.core.cell import CellState
from cloister.core.codes import Code, RunStatus
from cloister.core.diagnostic import ErrorObject
from cloister.core.errors import SessionClosed, StoreError
from cloister.core.run import RunResult
from cloister.core.strand import Strand
from cloister.core.wire import from_json, to_json
from cloister.gate import Asked, Handles
from cloister.ports.clock import Clock
from cloister.ports.engine import Call
from cloister.ports.rows import CellRow, Doc, Put
from cloister.sessions.keeper import Keeper

log = logging.getLogger("cloister.sessions")
# The only call of its cell.
NUMBER = 1


@dataclass(frozen=True, slots=True)
class KeptCall:
    """What another process left of a call: what it was asked, or how it ended and that nobody has read so."""

    cell_id: str
    call: Call
    asked: Doc
    result: RunResult | None = None


def is_direct(row: CellRow) -> bool:
    return "direct" in row.doc


def kept_call(row: CellRow) -> KeptCall:
    direct = row.doc["direct"]
    asked = direct["asked"]
    result = from_json(RunResult, row.doc["result"]) if "result" in row.doc else None
    # Its arguments are those that a person was asked about, arranged already.
    return KeptCall(row.id, Call(NUMBER, direct["name"], size=asked["size"]), asked, result)


class DirectRows:
    def __init__(
        self,
        keeper: Keeper,
        session_id: str,
        clock: Clock,
        handles: Handles,
        leaving: Callable[[], bool],
    ) -> None:
        self._keeper = keeper
        self._session_id = session_id
        self._clock = clock
        self._handles = handles
        self._leaving = leaving
        # Those that have not been read to their end, as they were written last.
        self._rows: dict[str, CellRow] = {}

    def take_up(self, row: CellRow) -> None:
        """A call that another process has written down."""
        self._rows[row.id] = row

    async def waits(self, cell_id: str, asked: Asked, strand: Strand | None = None) -> None:
        """Returns when it is safe that it waits. Raises `StoreError`, and then it is not written down."""
        if not self._keeper.keeps_calls:
            return
        known = self._rows.get(cell_id)
        if known is not None and known.doc["direct"]["asked"]["approval_id"] == asked.approval.id:
            return
        redactor, arguments = self._handles.redactor(), asked.passage.arguments
        if redactor and redactor.value(arguments) != arguments:
            log.warning("call %s has a secret's value among its arguments, and is not written down", cell_id)
            return
        doc: dict[str, Any] = {
            "direct": {"name": asked.passage.call.name, "asked": asked.to_json()},
            "program": {"code": "", "inputs": {}},
            "isolated": False,
        }
        number = known.number if known is not None else self._keeper.next_number()
        created_ms = known.created_ms if known is not None else self._clock.now_ms()
        row = CellRow(cell_id, self._session_id, number, str(CellState.ASLEEP), True, created_ms, doc=doc)
        if strand is not None:
            row = replace(row, thread_id=strand.thread_id, turn_id=strand.turn_id, item_id=strand.item_id)
        await self._keeper.write([Put(row)])
        self._rows[cell_id] = row

    async def ended(self, cell_id: str, result: RunResult, state: CellState | None = None) -> None:
        """How it ended, for whoever goes on in its place; and then that its caller knows."""
        row = self._rows.pop(cell_id, None)
        if row is None or self._leaving():
            # Who leaves takes nothing along.
            return
        doc: Doc = {**row.doc, "result": to_json(result), "content": []}
        ended_ms = row.ended_ms if row.ended_ms is not None else self._clock.now_ms()
        ended = replace(row, state=str(state or _state_of(result)), ended_ms=ended_ms, doc=doc)
        try:
            if row.ended_ms is None:
                await self._keeper.write([Put(ended)])
            await self._keeper.write([Put(replace(ended, live=False))])
        except (StoreError, SessionClosed) as error:
            # How the call itself ended is in the journal: whoever takes this up finds it there.
            log.error("the end of call %s could not be written down: %s", cell_id, error)

    async def give_up(self, error: ErrorObject) -> None:
        """End all that nobody has gone on with."""
        for cell_id, row in list(self._rows.items()):
            if row.ended_ms is None:
                await self.ended(cell_id, RunResult(RunStatus.INTERRUPTED, cell_id, error=error))


def _state_of(result: RunResult) -> CellState:
    if result.error is None:
        return CellState.COMPLETED
    return CellState.INTERRUPTED if result.error.code == Code.INTERRUPTED else CellState.FAILED
