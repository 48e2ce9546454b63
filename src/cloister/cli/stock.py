"""What is in a store, for `doctor`: looked at without bringing it up to date, and without taking anything over."""

from collections import Counter
from dataclasses import dataclass, field

from cloister.core.errors import CloisterError

_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Stock:
    url: str
    # None where there is no store yet.
    schema: int | None = None
    newest_schema: int | None = None
    # Of other processes that have it open.
    hosts: int = 0
    sessions: int = 0
    # Cells that have not ended, or whose end nobody has read, by their state.
    cells: dict[str, int] = field(default_factory=dict[str, int])
    open_questions: int = 0
    # Sessions with such cells that no host goes on with: the next one will.
    left: list[str] = field(default_factory=list[str])
    error: str | None = None


async def take_stock(url: str | None) -> Stock:
    from cloister.cli.store import is_there, made, schema_of

    address, store = made(url)
    try:
        if not await is_there(address, store):
            return Stock(store.url)
        schema, newest = await schema_of(address, store)
        if schema != newest:
            return Stock(store.url, schema, newest)
        async with store:
            cells: Counter[str] = Counter()
            after: str | None = None
            while rows := await store.cells(live=True, after=after, limit=_PAGE):
                cells.update(row.state for row in rows)
                after = rows[-1].id
            sessions, after = 0, None
            while some := await store.sessions(after=after, limit=_PAGE):
                sessions, after = sessions + len(some), some[-1].id
            return Stock(
                store.url,
                schema,
                newest,
                hosts=len(await store.owners()),
                sessions=sessions,
                cells=dict(cells),
                open_questions=len(await store.approvals(state="pending", limit=_PAGE)),
                left=list(await store.orphans(limit=20)),
            )
    except CloisterError as error:
        return Stock(store.url, error=error.message)


def in_words(stock: Stock) -> str:
    if stock.error is not None:
        return stock.error
    if stock.schema is None:
        return f"{stock.url}: none yet; the first session that is named makes it"
    if stock.schema != stock.newest_schema:
        return f"{stock.url}: schema {stock.schema}, and this Cloister writes {stock.newest_schema}"
    cells = ", ".join(f"{count:,} {state}" for state, count in sorted(stock.cells.items())) or "none to go on with"
    said = f"{stock.url}: schema {stock.schema}, {stock.sessions:,} sessions; cells: {cells}"
    if stock.open_questions:
        said += f"; {stock.open_questions:,} open questions"
    if stock.hosts:
        said += f"; open in {stock.hosts} other process{'' if stock.hosts == 1 else 'es'}"
    if stock.left:
        said += f"; to be gone on with: {', '.join(stock.left)}"
    return said
