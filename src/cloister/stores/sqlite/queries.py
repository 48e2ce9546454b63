"""What is read: one statement for each question, and the rows made of what it finds."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from cloister.ports.rows import KEYS, Table
from cloister.stores.sqlite.link import Link
from cloister.stores.sqlite.shapes import SHAPES
from cloister.stores.sqlite.steps import unpack

Query: TypeAlias = Callable[[Link], Any]
Parameter: TypeAlias = str | int


def rows(
    table: Table,
    conditions: Sequence[str] = (),
    parameters: Sequence[Parameter] = (),
    *,
    order: str | None = None,
    limit: int = -1,
) -> Query:
    """All rows that fulfil the conditions, each with a `?` for one of the parameters, in the order of their keys."""
    shape = SHAPES[table]
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    statement = f'SELECT {shape.select} FROM "{table}" {where}ORDER BY {order or ", ".join(KEYS[table])} LIMIT ?'  # noqa: S608
    bound = (*parameters, limit)

    def query(link: Link) -> list[Any]:
        return [shape.decode(columns) for columns in link.rows(statement, bound)]

    return query


def row(table: Table, key: str) -> Query:
    many = rows(table, (f"{KEYS[table][0]} = ?",), (key,))

    def query(link: Link) -> Any:
        found = many(link)
        return found[0] if found else None

    return query


def chosen(
    table: Table,
    *,
    after: Parameter | None = None,
    limit: int = -1,
    live: bool | None = None,
    more: tuple[str, Parameter] | None = None,
    **columns: Parameter | None,
) -> Query:
    """Those rows whose columns are as given; None is for any. `more` is one more condition, with what goes into it."""
    conditions = [f"{name} = ?" for name, value in columns.items() if value is not None]
    parameters = [value for value in columns.values() if value is not None]
    if live is not None:
        # Written like the condition of the index, or it would not be used.
        conditions.append("live" if live else "NOT live")
    if after is not None:
        conditions.append(f"{KEYS[table][0]} > ?")
        parameters.append(after)
    if more is not None:
        conditions.append(more[0])
        parameters.append(more[1])
    return rows(table, conditions, parameters, limit=limit)


def scan(table: Table, after: tuple[str | int, ...] | None, limit: int) -> Query:
    if after is None:
        return rows(table, limit=limit)
    names = KEYS[table]
    return rows(table, (f"({', '.join(names)}) > ({', '.join('?' * len(names))})",), after, limit=limit)


def blob(name: str) -> Query:
    def query(link: Link) -> bytes | None:
        found = link.rows(
            "SELECT packed, data FROM blobs JOIN contents ON contents.id = blobs.content WHERE name = ?", (name,)
        )
        if not found:
            return None
        packed, data = found[0]
        return unpack(data) if packed else data

    return query


def last_event(link: Link) -> int:
    return link.value("SELECT coalesce(max(seq), 0) FROM events")


def last_event_of(upto: int | None, **columns: str | None) -> Query:
    conditions = [f"{name} = ?" for name, value in columns.items() if value is not None]
    parameters: list[Parameter] = [value for value in columns.values() if value is not None]
    if upto is not None:
        conditions.append("seq <= ?")
        parameters.append(upto)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def query(link: Link) -> int:
        return link.value(f"SELECT coalesce(max(seq), 0) FROM events{where}", tuple(parameters))  # noqa: S608

    return query


def owners(link: Link, now_ms: int) -> list[str]:
    return [owner for (owner,) in link.rows("SELECT id FROM owners WHERE expires_ms > ? ORDER BY id", (now_ms,))]


def orphans(link: Link, now_ms: int, limit: int) -> list[str]:
    found = link.rows(
        "SELECT DISTINCT s.id FROM cells c JOIN sessions s ON s.id = c.session_id WHERE c.live "
        "AND (s.owner IS NULL OR s.owner NOT IN (SELECT id FROM owners WHERE expires_ms > ?)) ORDER BY s.id LIMIT ?",
        (now_ms, limit),
    )
    return [session_id for (session_id,) in found]
