"""Rows that are alike, as one statement: each statement hands the interpreter's lock over and takes it back, and that
takes longer than most rows do.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import TypeVar

from cloister.stores.sqlite.link import Columns, Link

T = TypeVar("T")
# Few enough statements to be kept prepared, and none so large that others wait for it.
_SIZES = (16, 8, 4, 2, 1)


def parts(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """All of them, in lots of the sizes that there are statements for."""
    done = 0
    for size in _SIZES:
        while len(rows) - done >= size:
            yield rows[done : done + size]
            done += size


@lru_cache(maxsize=64)
def repeated(statement: str, count: int) -> str:
    """An INSERT of one row as one of `count` rows."""
    head, values, rest = statement.partition(" VALUES ")
    row, end, tail = rest.partition(")")
    return f"{head}{values}{', '.join([row + end] * count)}{tail}"


def inserted(link: Link, statement: str, rows: Sequence[Columns]) -> list[int]:
    """The numbers of the rows, which a table gives one after the other."""
    numbers: list[int] = []
    for some in parts(rows):
        last = link.inserted(repeated(statement, len(some)), tuple(chain.from_iterable(some)))
        numbers.extend(range(last - len(some) + 1, last + 1))
    return numbers


def changed(link: Link, statement: str, rows: Sequence[Columns]) -> int:
    """How many of the rows were written."""
    return sum(link.changes(repeated(statement, len(some)), tuple(chain.from_iterable(some))) for some in parts(rows))
