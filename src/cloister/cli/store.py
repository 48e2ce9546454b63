"""`cloister store`: look after a store, and take it elsewhere.

Only `import` makes a store that is not there; the others say that there is none.
"""

import os
import secrets
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from cloister.cli.exits import FAILED, OK
from cloister.cli.failures import UsageError
from cloister.cli.interrupt import Interrupted, run_interruptibly
from cloister.cli.options import AsJson
from cloister.cli.source import STANDARD_INPUT
from cloister.cli.terminal import one_json_object, safe
from cloister.core.event import EventRetention
from cloister.ports.clock import SystemClock

if TYPE_CHECKING:
    from cloister.app.config import Config
    from cloister.ports.store import Store
    from cloister.stores.moving import Counts

_DEFAULT = "that of the configuration, or cloister.db in the data directory"
Url = Annotated[str | None, Parameter(help=f"The store.  [default: {_DEFAULT}]")]
StoreUrl = Annotated[
    str | None, Parameter(name=["--store", "-s"], metavar="URL", help=f"The store.  [default: {_DEFAULT}]")
]
File = Annotated[str, Parameter(help="Where it is written; not yet there.")]
ExportedFile = Annotated[str, Parameter(help="What `cloister store export` wrote.")]

_DOING = {"export": "exporting", "verify": "reading", "import": "importing"}
_BETWEEN_SECONDS = 0.1


def check(url: Url = None, /, *, as_json: AsJson = False) -> int:
    """Look whether a store is sound."""
    where, findings = run_interruptibly(_check(url))
    if as_json:
        with one_json_object() as write:
            write({"ok": not findings, "store": where, "findings": findings})
    elif findings:
        print("\n".join(safe(finding) for finding in findings))
    else:
        print(f"{safe(where)} is sound.")
    return FAILED if findings else OK


async def _check(url: str | None) -> tuple[str, list[str]]:
    with _Progress() as progress:
        async with existing_store(url) as store:
            progress.say(f"checking {store.url}")
            return store.url, list(await store.check())


def vacuum(url: Url = None, /, *, as_json: AsJson = False) -> int:
    """Remove what nothing refers to, and give room back to the system."""
    where, blobs = run_interruptibly(_vacuum(url))
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "store": where, "removed_blobs": blobs})
    else:
        print(f"{_number(blobs, 'blob')} went from {safe(where)}.")
    return OK


async def _vacuum(url: str | None) -> tuple[str, int]:
    with _Progress() as progress:
        async with existing_store(url) as store:
            progress.say(f"looking for blobs to remove in {store.url}")
            blobs = await store.collect()
            progress.say(f"giving room back in {store.url}")
            await store.vacuum()
            return store.url, blobs


def migrate(url: Url = None, /, *, as_json: AsJson = False) -> int:
    """Bring a store to the newest schema, as opening it would."""
    where, before, now = run_interruptibly(_migrate(url))
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "store": where, "schema_before": before, "schema": now})
    elif before == now:
        print(f"{safe(where)} has schema {now}, which is the newest.")
    else:
        print(f"{safe(where)} went from schema {before} to {now}.")
    return OK


async def _migrate(url: str | None) -> tuple[str, int, int]:
    address, store = made(url)
    if not await is_there(address, store):
        raise _missing(url, store)
    before, newest = await schema_of(address, store)
    async with store:
        return store.url, before, newest


def prune(
    url: Url = None,
    /,
    *,
    max_age_days: Annotated[float | None, Parameter(help="Drop events that are older.")] = None,
    max_events: Annotated[int | None, Parameter(help="Drop the oldest ones beyond so many.")] = None,
    as_json: AsJson = False,
) -> int:
    """Drop old events from the log. Those of sessions with cells that have not ended all stay."""
    if max_age_days is None and max_events is None:
        raise UsageError("nothing says which events are to go", "give --max-age-days or --max-events")
    age_ms = None if max_age_days is None else int(max_age_days * 86_400_000)
    bounds = EventRetention(max_age_ms=age_ms, max_events=max_events)
    where, dropped = run_interruptibly(_prune(url, bounds))
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "store": where, "dropped_events": dropped})
    else:
        print(f"{_number(dropped, 'event')} went from {safe(where)}.")
    return OK


async def _prune(url: str | None, bounds: EventRetention) -> tuple[str, int]:
    age_ms = bounds.max_age_ms
    before_ms = SystemClock().now_ms() - age_ms if age_ms is not None else None
    async with existing_store(url) as store:
        return store.url, await store.prune(events_before_ms=before_ms, keep_events=bounds.max_events)


def export(file: File, /, *, store: StoreUrl = None, as_json: AsJson = False) -> int:
    """Write all that is in a store to one file."""
    path = _named(file)
    if os.path.lexists(path):
        raise UsageError(f"{file!r} is there already", "name a file that is not, or remove it first")
    with _Progress() as progress:
        where, counts = run_interruptibly(_export(path, store, progress), progress.stop)
    _report(as_json, where, path, counts, f"{safe(where)} is in {safe(str(path))}")
    return OK


async def _export(path: Path, url: str | None, progress: "_Progress") -> "tuple[str, Counts]":
    from cloister.stores.moving import export

    async with existing_store(url) as store:
        # Under its name there is the whole file or none.
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                counts = await export(store, out, progress)
                out.flush()
                os.fsync(out.fileno())
            draft.rename(path)
        except OSError as error:
            raise UsageError(
                f"{str(path)!r} cannot be written: {error.strerror}", "name a file in a directory that has room for it"
            ) from error
        finally:
            with suppress(OSError):
                draft.unlink()
        return store.url, counts


def import_(file: ExportedFile, /, *, store: StoreUrl = None, as_json: AsJson = False) -> int:
    """Fill an empty store from a file."""
    path = _named(file)
    with _Progress() as progress:
        where, counts = run_interruptibly(_import(path, store, progress), progress.stop)
    _report(as_json, where, path, counts, f"{safe(str(path))} is in {safe(where)}")
    return OK


async def _import(path: Path, url: str | None, progress: "_Progress") -> "tuple[str, Counts]":
    from cloister.stores.moving import import_, verify

    try:
        source = path.open("rb")
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    with source:
        if not source.seekable():
            raise UsageError(f"{str(path)!r} cannot be read twice", "write it to a file first")
        address, store = made(url)
        if not await is_there(address, store):
            # Or a file that is refused would leave an empty store where there was none.
            await verify(source, progress)
        async with store:
            return store.url, await import_(store, source, progress)


# -- which store, which file ------------------------------------------------------------------------------------------


def made(url: str | None, config: "Config | None" = None) -> "tuple[str, Store]":
    """Not opened yet; the one of the configuration, or else that of the data directory, if none is named."""
    from cloister.app.address import make_store
    from cloister.app.config import load_config
    from cloister.app.keys import data_directory
    from cloister.stores.sqlite import SqliteStore

    url = url if url is not None else (config or load_config()).get("store")
    if url is None:
        store = SqliteStore(data_directory() / "cloister.db", clock=SystemClock())
        return store.url, store
    made = make_store(url, SystemClock())
    if made is None:
        raise UsageError(f"{url!r} keeps nothing", "name a store: sqlite:///path/to/file.db, postgresql://user@host/db")
    return url, made


def is_default_there() -> bool:
    """Whether there is a store where none is named: one that is configured, or in the data directory."""
    from cloister.app.config import load_config
    from cloister.app.keys import data_directory

    return load_config().get("store") is not None or (data_directory() / "cloister.db").exists()


@asynccontextmanager
async def existing_store(url: str | None, config: "Config | None" = None) -> "AsyncGenerator[Store, None]":
    """Opened, if it is there: opening makes one otherwise."""
    address, store = made(url, config)
    if not await is_there(address, store):
        raise _missing(url, store)
    async with store:
        yield store


def _missing(url: str | None, store: "Store") -> UsageError:
    hint = "name another" if url else "name one, or set CLOISTER_DATA_DIR to the directory that has it"
    return UsageError(f"there is no store {store.url}", hint)


async def schema_of(address: str, store: "Store") -> tuple[int, int]:
    """The schema that it has and the newest that is known, without opening it."""
    from cloister.stores.versions import schema_in_postgres, schema_in_sqlite

    if store.url.startswith("sqlite://"):
        return schema_in_sqlite(store.url.removeprefix("sqlite://"))
    return await schema_in_postgres(address)


async def is_there(address: str, store: "Store") -> bool:
    if store.url.startswith("sqlite://"):
        try:
            return os.stat(store.url.removeprefix("sqlite://")).st_size > 0
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            # Opening it says what is wrong.
            return True
    from cloister.stores.moving import is_in_postgres

    return await is_in_postgres(address)


def _named(file: str) -> Path:
    if file == STANDARD_INPUT:
        raise UsageError("a store goes to a file and comes from one, not through a pipe", "name a file")
    return Path(file)


# -- what is said -----------------------------------------------------------------------------------------------------


def _report(as_json: bool, where: str, path: Path, counts: "Counts", said: str) -> None:
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "store": where, "file": str(path), "rows": counts.rows, "blobs": counts.blobs})
        return
    rows = sum(counts.rows.values())
    sessions = _number(counts.rows["sessions"], "session")
    print(f"{said}: {sessions}, {_number(rows, 'row')} in all, {_number(counts.blobs, 'blob')}.")


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


class _Progress:
    """One line on stderr that is written over and gone at the end; nothing where that is no terminal.

    It is where long work stops when a signal came: there, and not in the middle of a write.
    """

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._next = 0.0
        self._signum: int | None = None

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *exc: object) -> None:
        self._write("")

    def __call__(self, doing: str, counts: "Counts") -> None:
        if self._signum is not None:
            raise Interrupted(self._signum)
        if self._shown and time.monotonic() >= self._next:
            self._next = time.monotonic() + _BETWEEN_SECONDS
            rows = sum(counts.rows.values())
            self.say(f"{_DOING[doing]}: {_number(rows, 'row')}, {_number(counts.blobs, 'blob')}")

    def say(self, text: str) -> None:
        self._write(safe(text)[: _columns() - 1])

    def stop(self, signum: int) -> bool:
        """The first signal is for us; the next ends the work wherever it is."""
        first = self._signum is None
        self._signum = signum
        return first

    def _write(self, line: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\x1b[2K{line}")
            sys.stderr.flush()


def _columns() -> int:
    try:
        # A terminal that does not know its size says 0.
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80
