"""A connection as the rest of the store uses it: statements with their columns in, rows out.

Statements are prepared once: `apsw` keeps those that it has seen, by their text.
"""

from typing import Any, TypeAlias

import apsw

Columns: TypeAlias = tuple[Any, ...]


class Link:
    """One connection, used by one thread at a time."""

    __slots__ = ("_cursor", "raw")

    def __init__(self, raw: apsw.Connection) -> None:
        self.raw = raw
        self._cursor: Any = raw.cursor()

    def run(self, statement: str, columns: Columns = ()) -> None:
        self._cursor.execute(statement, columns)

    def rows(self, statement: str, columns: Columns = ()) -> list[Columns]:
        return self._cursor.execute(statement, columns).fetchall()

    def value(self, statement: str, columns: Columns = ()) -> Any:
        """The first column of the only row."""
        return self.rows(statement, columns)[0][0]

    def changes(self, statement: str, columns: Columns = ()) -> int:
        """How many rows it wrote over or removed."""
        self._cursor.execute(statement, columns)
        return self.raw.changes()

    def inserted(self, statement: str, columns: Columns = ()) -> int:
        """The number of the row that it made."""
        self._cursor.execute(statement, columns)
        return self.raw.last_insert_rowid()

    def close(self) -> None:
        self.raw.close(True)
