"""What waits for the writer: batches and errands, in the order in which they came."""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cloister.stores.postgres.connection import Connection
from cloister.stores.postgres.order import Order
from cloister.stores.postgres.ticket import Ticket

# A transaction of many batches pays for its commit once; a huge one would keep the others waiting.
_MOST_BATCHES = 1000
_MOST_BYTES = 32 << 20


@dataclass(slots=True)
class Errand:
    """Something else to do in a transaction of its own, under the write lock."""

    work: Callable[[Connection], Awaitable[Any]]
    ticket: Ticket[Any] = field(default_factory=Ticket[Any])


Waiting: TypeAlias = Order | Errand


class Line:
    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def append(self, item: Waiting) -> None:
        self._waiting.append(item)

    def take(self) -> Errand | list[Order]:
        """An errand, or as many batches as may go together."""
        first = self._waiting.popleft()
        if isinstance(first, Errand):
            return first
        group, size, appends = [first], first.size, first.appends
        while self._waiting and len(group) < _MOST_BATCHES:
            item = self._waiting[0]
            if isinstance(item, Errand) or size + item.size > _MOST_BYTES or (appends and item.touches_events):
                break
            group.append(item)
            size += item.size
            appends = appends or item.appends
            self._waiting.popleft()
        return group

    def take_all(self) -> list[Waiting]:
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting
