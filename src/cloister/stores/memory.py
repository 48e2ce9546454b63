"""A journal in memory: for tests, and for `durability="none"`. It is gone with its process.

Calls that are not settled are kept as long as it lives. Settled ones are dropped, the oldest settlement first, when
there are more than `keep_settled` of them or when their values take more than about `keep_bytes`; the newest stays
in any case. What was dropped is as if it had never been.
"""

import asyncio
from typing import Any, cast

from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.ports.journal import Entry, Intent, Settled
from cloister.stores import rules

# What an entry takes besides its values, roughly.
_ENTRY_BYTES = 1000
# How many parts of a value are weighed on the event loop: about a millisecond.
_QUICK = 5_000


class MemoryJournal:
    remembers_all = False

    def __init__(self, keep_settled: int = 10_000, keep_bytes: int = 64 << 20) -> None:
        for name, bound in (("keep_settled", keep_settled), ("keep_bytes", keep_bytes)):
            if isinstance(bound, bool) or not isinstance(bound, int) or bound < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidInput(f"{name} must be a positive whole number, not {bound!r}")
        self._keep_settled = keep_settled
        self._keep_bytes = keep_bytes
        self._entries: dict[str, Entry] = {}
        self._cells: dict[str, set[str]] = {}
        # Settled keys in the order of their settlements, each with its weight.
        self._settled: dict[str, int] = {}
        self._bytes = 0

    async def intend(self, intent: Intent) -> None:
        known = intent.key in self._entries
        self._entries[intent.key] = rules.intended(self._entries.get(intent.key), intent)
        if known:
            self._bytes -= self._settled.pop(intent.key, 0)
        else:
            self._cells.setdefault(intent.cell_id, set()).add(intent.key)

    async def settle(self, settled: Settled) -> None:
        held = self._entries.get(settled.key)
        arguments = held.intent.arguments if held is not None else None
        # Awaited before anything is looked at: from there on nobody comes between.
        weight = _ENTRY_BYTES + await _weigh([arguments, settled.value])
        self._entries[settled.key] = rules.settled(self._entries.get(settled.key), settled)
        self._settled[settled.key] = weight
        self._bytes += weight
        self._trim()

    async def settle_soon(self, settled: Settled) -> None:
        await self.settle(settled)

    async def look_up(self, key: str) -> Entry | None:
        return self._entries.get(key)

    async def of_cell(self, cell_id: str) -> list[Entry]:
        entries = [self._entries[key] for key in self._cells.get(cell_id, ())]
        return sorted(entries, key=lambda entry: entry.intent.number)

    def _trim(self) -> None:
        while len(self._settled) > 1 and (len(self._settled) > self._keep_settled or self._bytes > self._keep_bytes):
            oldest = next(iter(self._settled))
            self._bytes -= self._settled.pop(oldest)
            cell_id = self._entries.pop(oldest).intent.cell_id
            keys = self._cells[cell_id]
            keys.remove(oldest)
            if not keys:
                del self._cells[cell_id]


async def _weigh(value: Json) -> int:
    """About how many bytes `value` takes."""
    weight = _walk(value, _QUICK)
    return weight if weight is not None else await asyncio.to_thread(lambda: _walk(value, None) or 0)


def _walk(root: Json, most: int | None) -> int | None:
    """None if it has more than `most` parts. What is shared is counted as often as it is written: an upper bound."""
    weight, parts, todo = 0, 0, [root]
    while todo:
        value: Any = todo.pop()
        parts += 1
        if most is not None and parts > most:
            return None
        weight += 16
        if isinstance(value, str):
            weight += len(value)
        elif isinstance(value, list):
            todo.extend(cast("list[Json]", value))
        elif isinstance(value, dict):
            for key, part in cast("dict[str, Json]", value).items():
                weight += len(key)
                todo.append(part)
    return weight
