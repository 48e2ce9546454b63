"""Where a store is, as users write it: `memory:`, `sqlite:///path/to/file.db`, `postgresql://user@host/database`."""

from typing import cast
from urllib.parse import parse_qs, unquote, urlsplit

from cloister.core.errors import InvalidInput
from cloister.ports.clock import Clock
from cloister.ports.store import Store

_HINT = "use memory:, sqlite:///path/to/file.db or postgresql://user@host/database"


def make_store(url: object, clock: Clock) -> Store | None:
    """The store, not yet open. None for `memory:`, where nothing is written down."""
    if not isinstance(url, str):
        if hasattr(url, "write") and hasattr(url, "claim"):
            return cast("Store", url)
        raise InvalidInput(f"a store is named by a URL, not by {type(url).__name__}", hint=_HINT)
    scheme = url.partition(":")[0].lower()
    match scheme:
        case "memory":
            if url.lower() not in ("memory:", "memory://"):
                raise InvalidInput(f"{url!r} is no store: memory: takes nothing after it", hint=_HINT)
            return None
        case "sqlite":
            return _sqlite(url, clock)
        case "postgresql" | "postgres":
            return _postgres(url)
        case _:
            raise InvalidInput(f"{_shown(url)} is no store", hint=_HINT)


def _postgres(url: str) -> Store:
    try:
        # Imported here: a host that does not use it need not have its driver.
        from cloister.stores.postgres import PostgresStore
    except ImportError:
        raise InvalidInput(
            "PostgreSQL needs its driver, which is not installed", hint="pip install 'cloister[postgres]'"
        ) from None
    return PostgresStore(url)


def _sqlite(url: str, clock: Clock) -> Store:
    from cloister.stores.sqlite import SqliteStore

    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or not path.strip("/") or not url.lower().startswith("sqlite://"):
        raise InvalidInput(f"{_shown(url)} names no file", hint="write sqlite:///absolute/path.db, with three slashes")
    asked = parse_qs(parts.query, keep_blank_values=True)
    synchronous = asked.pop("synchronous", ["full"])[-1]
    if asked or parts.fragment or synchronous not in ("full", "normal"):
        raise InvalidInput(
            f"{_shown(url)} asks for what SQLite stores do not have", hint="there is ?synchronous=full and =normal"
        )
    return SqliteStore(path, clock=clock, synchronous="normal" if synchronous == "normal" else "full")


def _shown(url: str) -> str:
    """Without what may be a password."""
    head, at, tail = url.rpartition("@")
    return repr(f"{head.partition('://')[0]}://…@{tail}" if at else url)[:200]
