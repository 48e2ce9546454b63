"""A line of those who wait, fair between keys: whoever brings a hundred waits behind one who brings one.

Every key has a line of its own, first come, first served, and the keys take turns: one that was served goes to the
back of the round, and so does one that comes anew. A key that has nobody waiting is forgotten. Not for threads.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairLine(Generic[T]):
    __slots__ = ("_round", "_size")

    def __init__(self) -> None:
        # In the order of the round; no line in it is empty.
        self._round: OrderedDict[Hashable, deque[T]] = OrderedDict()
        self._size = 0

    def put(self, key: Hashable, item: T) -> None:
        line = self._round.get(key)
        if line is None:
            line = self._round[key] = deque()
        line.append(item)
        self._size += 1

    def pop(self) -> T:
        """The one whose turn it is; `IndexError` if nobody waits."""
        if not self._round:
            raise IndexError("nobody waits in this line")
        key, line = next(iter(self._round.items()))
        item = line.popleft()
        self._size -= 1
        if line:
            self._round.move_to_end(key)
        else:
            del self._round[key]
        return item

    def remove(self, key: Hashable, item: T) -> bool:
        """Take `item` out of the line of `key`; False if it does not wait there. Others keep their turns."""
        line = self._round.get(key)
        if line is None:
            return False
        try:
            line.remove(item)
        except ValueError:
            return False
        self._size -= 1
        if not line:
            del self._round[key]
        return True

    def __len__(self) -> int:
        return self._size

    def __bool__(self) -> bool:
        return self._size > 0
