"""How often one cell may call one tool: a bound of the tool's own, beside the cell's budget of calls.

Calls are told apart by their keys, so a call that is made again after a crash is not counted twice; what a cell has
called in another process is found in the journal. Never more calls of a cell are let through than allowed.
"""

from collections import OrderedDict
from collections.abc import Sequence

from cloister.core.codes import Code
from cloister.ports.journal import Journal
from cloister.tools.context import CallContext
from cloister.tools.tool import ToolError

# Cells that are remembered; of one that is not, the journal knows.
_MOST_CELLS = 10_000


class Allowance:
    """`journals` are those that the calls of a host's sessions are in; they may be filled in later."""

    def __init__(self, name: str, most: int, journals: Sequence[Journal]) -> None:
        self._name = name
        self._most = most
        self._journals = journals
        # The keys of the calls that were let through, by cell; the cell that called longest ago first.
        self._admitted: OrderedDict[str, set[str]] = OrderedDict()

    async def admit(self, context: CallContext) -> None:
        """Raises `ToolError` for one call too many."""
        cell_id, key = context.cell_id, context.idempotency_key
        admitted = self._admitted.get(cell_id)
        if admitted is None:
            before = await self._before(cell_id, key)
            # Another call of the cell may have come meanwhile.
            admitted = self._admitted.setdefault(cell_id, before)
        self._admitted.move_to_end(cell_id)
        while len(self._admitted) > _MOST_CELLS:
            self._admitted.popitem(last=False)
        if key in admitted:
            return
        if len(admitted) >= self._most:
            raise ToolError(
                Code.EXTERNAL_CALLS_EXCEEDED,
                f"`{self._name}` may be called {self._most} times in a cell, and was",
                "ask for more at once, or go on in another cell",
            )
        admitted.add(key)

    async def _before(self, cell_id: str, key: str) -> set[str]:
        """What the cell has called before this process knew of it, or before it was forgotten."""
        number = int(key.rpartition("/")[2])
        found: dict[int, str] = {}
        for journal in self._journals:
            for entry in await journal.of_cell(cell_id):
                error = entry.settled.error if entry.settled is not None else None
                refused = error is not None and error.code == Code.EXTERNAL_CALLS_EXCEEDED
                if entry.intent.name == self._name and entry.intent.number < number and not refused:
                    found[entry.intent.number] = entry.intent.key
        return {found[one] for one in sorted(found)[: self._most]}
