"""Tables in memory: rows in the order of their keys, found by the session or cell that they belong to.

A row is held with its JSON as text, so that nobody who wrote it or read it can change what is held.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar, cast

from cloister.ports.journal import Entry
from cloister.ports.rows import KEYS, Row, Table, ValueRow
from cloister.stores.json_docs import dumps, dumps_intent, dumps_settled, loads, loads_intent, loads_settled

R = TypeVar("R", bound=Row)
Key: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Held(Generic[R]):
    """A row without its JSON, and its JSON as text. A call's settlement has a text of its own."""

    bare: R
    text: str
    settled: str | None = None


def freeze(row: R) -> Held[R]:
    """Raises `InvalidInput` for what is not JSON."""
    if isinstance(row, Entry):
        settled = None if row.settled is None else dumps_settled(row.settled)
        return Held(bare_entry(row), dumps_intent(row.intent), settled)
    if isinstance(row, ValueRow):
        return Held(replace(row, value=None), dumps(row.value))
    return Held(replace(row, doc={}), dumps(row.doc))


def bare_entry(entry: Entry) -> Entry:
    settled = None if entry.settled is None else replace(entry.settled, value=None)
    return replace(entry, intent=replace(entry.intent, arguments=None), settled=settled)


def thaw(held: Held[R]) -> R:
    """The row with JSON of its own."""
    row: Any = held.bare
    if isinstance(row, Entry):
        settled = None if held.settled is None else loads_settled(held.settled)
        return cast("R", Entry(loads_intent(held.text), settled, row.attempts))
    return replace(row, **{"value" if isinstance(row, ValueRow) else "doc": loads(held.text)})


def _session_of(row: Any) -> str:
    return row.intent.session_id if isinstance(row, Entry) else row.session_id


def _cell_of(row: Any) -> str:
    return row.intent.cell_id


def _thread_of(row: Any) -> str | None:
    return row.thread_id


_GROUPINGS: dict[Table, dict[str, Callable[[Any], str | None]]] = {
    table: {} if table == "sessions" else {"session": _session_of} for table in KEYS
}
_GROUPINGS["calls"]["cell"] = _cell_of
for _table in ("events", "turns", "items", "answers", "inputs", "tool_calls"):
    _GROUPINGS[_table]["thread"] = _thread_of


class MemoryTable(Generic[R]):
    def __init__(self, table: Table) -> None:
        self._rows: dict[Key, Held[R]] = {}
        self._groupings = _GROUPINGS[table]
        self._groups: dict[tuple[str, str | None], set[Key]] = {}
        # In order; None when somebody must sort them again.
        self._keys: list[Key] | None = []

    def get(self, key: Key) -> Held[R] | None:
        return self._rows.get(key)

    def put(self, key: Key, held: Held[R]) -> None:
        old = self._rows.get(key)
        if old is not None:
            self._leave_groups(key, old)
        elif self._keys is not None:
            # Most keys come in their order.
            if self._keys and key < self._keys[-1]:
                self._keys = None
            else:
                self._keys.append(key)
        self._rows[key] = held
        for grouping, group_of in self._groupings.items():
            self._groups.setdefault((grouping, group_of(held.bare)), set()).add(key)

    def drop(self, key: Key) -> None:
        old = self._rows.pop(key, None)
        if old is not None:
            self._leave_groups(key, old)
            self._keys = None

    def last_key(self) -> Key | None:
        keys = self._in_order()
        return keys[-1] if keys else None

    def keys_of(self, grouping: str, name: str) -> list[Key]:
        return sorted(self._groups.get((grouping, name), ()))

    def pages(
        self, after: Key | None = None, *, session_id: str | None = None, thread_id: str | None = None
    ) -> Iterator[Held[R]]:
        """Rows in the order of their keys, from behind `after`: all of them, or those of a session or of a thread."""
        if thread_id is not None:
            keys = self.keys_of("thread", thread_id)
        else:
            keys = self._in_order() if session_id is None else self.keys_of("session", session_id)
        start = 0 if after is None else bisect_right(keys, after)
        for place in range(start, len(keys)):
            yield self._rows[keys[place]]

    def backwards(self, before: Key | None = None) -> Iterator[Held[R]]:
        """All rows, the last key first, from in front of `before`."""
        keys = self._in_order()
        end = len(keys) if before is None else bisect_left(keys, before)
        for place in range(end - 1, -1, -1):
            yield self._rows[keys[place]]

    def _in_order(self) -> list[Key]:
        if self._keys is None:
            self._keys = sorted(self._rows)
        return self._keys

    def _leave_groups(self, key: Key, old: Held[R]) -> None:
        for grouping, group_of in self._groupings.items():
            name = (grouping, group_of(old.bare))
            keys = self._groups[name]
            keys.remove(key)
            if not keys:
                del self._groups[name]


def one(table: MemoryTable[R], *key: str | int) -> R | None:
    held = table.get(key)
    return None if held is None else thaw(held)


def some(rows: Iterable[Held[R]], limit: int | None = None) -> list[R]:
    return [thaw(held) for held in islice(rows, limit)]
