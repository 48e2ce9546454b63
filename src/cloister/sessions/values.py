"""A session's stored values: key to JSON, for the host by name and for its cells as they were at one moment.

A view is the state itself, never changed after it was handed out: the next write makes another. The host gets
copies, so nothing it does to them is stored by accident. What the host sets is held to the bounds before anything
changes; what a cell wrote was held to them while it ran, and merges without being asked again.
"""

import builtins
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from cloister.cells.values import BOUNDS, CellValues, ValueBounds, check_key, check_value, entry_size, measure
from cloister.core.errors import InvalidInput, QuotaExceeded
from cloister.core.held import ValueInfo
from cloister.core.value import Json, ValueRefused
from cloister.ports.clock import Clock, moment
from cloister.ports.rows import ValueRow

Keep: TypeAlias = Callable[[Sequence[tuple[str, Json, int, int]], Sequence[str]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class _Note:
    size: int
    created_ms: int
    updated_ms: int


class Values:
    """The methods that wait are the host's; the others are for the runtime, in the middle of other work."""

    __slots__ = ("_bounds", "_clock", "_is_shared", "_keep", "_notes", "_total_bytes", "_values", "_view", "version")

    def __init__(self, clock: Clock, bounds: ValueBounds = BOUNDS, *, keep: Keep | None = None) -> None:
        self._clock = clock
        # Writes down what the host changes: keys with their values and times, and keys that are gone.
        self._keep = keep
        self._bounds = bounds
        self._values: dict[str, Json] = {}
        self._notes: dict[str, _Note] = {}
        self._total_bytes = 0
        # Counts the changes.
        self.version = 0
        # Somebody has a view of `_values`: it is copied before the next write, and not before.
        self._is_shared = False
        self._view: Mapping[str, Json] = {}

    async def get(self, key: str, default: Json = None) -> Json:
        name = check_key(key)
        return _copy(self._values[name]) if name in self._values else default

    async def set(self, key: str, value: Json) -> None:
        name = check_key(key)
        made, size = self._checked(name, value)
        old = self._notes.get(name)
        grown = entry_size(name, size) - (entry_size(name, old.size) if old is not None else 0)
        refusal = self._bounds.refusal(
            len(self._values), self._total_bytes, more_keys=int(old is None), more_bytes=grown
        )
        if refusal is not None:
            raise QuotaExceeded(f"the value for {name!r} cannot be stored: {refusal}")
        now = self._clock.now_ms()
        # Written down first: what is not safe is not there, and whoever was written last is there last.
        await self._kept([(name, made, old.created_ms if old is not None else now, now)])
        self._write(name, made, size)

    async def delete(self, key: str) -> bool:
        """False if there is nothing under `key`."""
        name = check_key(key)
        if name not in self._values:
            return False
        await self._kept((), [name])
        if name not in self._values:
            return False
        self._own()
        del self._values[name]
        self._total_bytes -= entry_size(name, self._notes.pop(name).size)
        return True

    async def list(self) -> builtins.list[ValueInfo]:
        """What is stored, sorted by key."""
        return [
            ValueInfo(key, note.size, moment(note.created_ms), moment(note.updated_ms))
            for key, note in sorted(self._notes.items())
        ]

    async def all(self) -> dict[str, Json]:
        return {key: _copy(value) for key, value in self._values.items()}

    async def replace(self, values: Mapping[str, Json]) -> None:
        """All at once: these values and no others. A key that stays keeps the time at which it came."""
        made: dict[str, tuple[Json, int]] = {}
        total = 0
        for key, value in values.items():
            name = check_key(key)
            made[name] = self._checked(name, value)
            more = entry_size(name, made[name][1])
            refusal = self._bounds.refusal(len(made) - 1, total, more_keys=1, more_bytes=more)
            if refusal is not None:
                raise QuotaExceeded(f"the values cannot be stored: {refusal}")
            total += more
        now = self._clock.now_ms()
        created = {key: self._notes[key].created_ms if key in self._notes else now for key in made}
        rows = [(key, value, created[key], now) for key, (value, _) in made.items()]
        await self._kept(rows, [key for key in self._values if key not in made])
        self._values, self._notes, self._total_bytes, self._is_shared = {}, {}, 0, False
        self.version += 1
        for name, (value, size) in made.items():
            self._values[name] = value
            self._notes[name] = _Note(size, created[name], now)
        self._total_bytes = total

    # -- for the runtime -------------------------------------------------------------------------------------

    async def _kept(self, written: Sequence[tuple[str, Json, int, int]], gone: Sequence[str] = ()) -> None:
        if self._keep is not None:
            await self._keep(written, gone)

    def view(self) -> Mapping[str, Json]:
        """The values as they are now, for good. Nobody may change what is in them."""
        if not self._is_shared:
            self._is_shared, self._view = True, MappingProxyType(self._values)
        return self._view

    def for_cell(self) -> CellValues:
        """What a cell that starts now sees."""
        return CellValues(self.view(), self._total_bytes, self._bounds)

    def rows(self, session_id: str, written: Mapping[str, Json] | None = None) -> builtins.list[ValueRow]:
        """All of them as they are written down; or these, if they were merged now."""
        written, now = self._values if written is None else written, self._clock.now_ms()
        created = {key: note.created_ms for key, note in self._notes.items() if key in written}
        return [ValueRow(session_id, key, value, created.get(key, now), now) for key, value in written.items()]

    def take_up(self, rows: Iterable[ValueRow]) -> None:
        """What another process had written down."""
        self.merge({row.key: row.value for row in rows})
        for row in rows:
            self._notes[row.key] = _Note(self._notes[row.key].size, row.created_ms, row.updated_ms)

    def start_over(self, values: Mapping[str, Json]) -> builtins.list[str]:
        """What a snapshot has, and nothing else; the keys that are gone by that."""
        gone = [key for key in self._values if key not in values]
        self._values = {key: value for key, value in self._values.items() if key in values}
        self._total_bytes -= sum(entry_size(key, self._notes.pop(key).size) for key in gone)
        self._is_shared = False
        self.version += 1
        self.merge(values)
        return gone

    def merge(self, written: Mapping[str, Json]) -> None:
        """Take over what a cell wrote: these keys and no others. Never refuses: two cells that each kept to the bounds
        may go past them together, and then it is the next write that does not fit."""
        for key, value in written.items():
            self._write(key, value, measure(value))

    # -- inside ----------------------------------------------------------------------------------------------

    def _checked(self, name: str, value: Json) -> tuple[Json, int]:
        try:
            return check_value(value, self._bounds)
        except ValueRefused as refused:
            message = f"the value for {name!r} cannot be stored: {refused.message}"
            if refused.code == "RESULT_TOO_LARGE":
                raise QuotaExceeded(message, hint=refused.hint) from None
            raise InvalidInput(message, hint=refused.hint) from None

    def _write(self, name: str, value: Json, size: int) -> None:
        self._own()
        now = self._clock.now_ms()
        old = self._notes.get(name)
        self._values[name] = value
        self._notes[name] = _Note(size, old.created_ms if old is not None else now, now)
        self._total_bytes += entry_size(name, size) - (entry_size(name, old.size) if old is not None else 0)

    def _own(self) -> None:
        self.version += 1
        if self._is_shared:
            self._values = dict(self._values)
            self._is_shared = False


def _copy(value: Json) -> Json:
    # Through JSON and not `deepcopy`: several times faster, and parts that were shared come out apart.
    return json.loads(json.dumps(value)) if isinstance(value, (list, dict)) else value
