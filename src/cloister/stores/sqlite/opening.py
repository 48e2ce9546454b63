"""From a path to a connection: whose file it is, its permissions, its migrations.

A file that is not ours is refused before SQLite touches it: SQLite would finish another program's transactions. One
that has a newer schema is refused without a byte written. What is refused stays as it was.
"""

import os
import stat
import threading
import time
from collections.abc import Callable
from typing import Literal, TypeAlias

import apsw

from cloister.core.errors import InvalidInput, StoreUnavailable, StoreUnusable
from cloister.stores.sqlite import m001_initial, m002_snapshot_blobs, m003_threads, m004_cell_operations
from cloister.stores.sqlite.link import Link
from cloister.stores.sqlite.trouble import damaged, trouble

Synchronous: TypeAlias = Literal["full", "normal"]

# "Cloi", in the header of every store.
APPLICATION_ID = 0x436C6F69
# In their order; the number of the last one applied is the file's `user_version`. One that was released stays as it is.
MIGRATIONS: tuple[str, ...] = (
    m001_initial.SCHEMA,
    m002_snapshot_blobs.SCHEMA,
    m003_threads.SCHEMA,
    m004_cell_operations.SCHEMA,
)

# Closing any descriptor of a file drops all locks that this process has on it, SQLite's too: so the one that creates
# the file must be closed before any other thread of ours can have it open.
_CREATING = threading.Lock()


def open_store(path: str, *, synchronous: Synchronous, busy_timeout_ms: int) -> Link:
    """The connection that writes. Makes the file, or brings it up to date, or refuses it."""
    try:
        _make(path)
        refuse_foreign(path)
        link = connect(path, busy_timeout_ms=busy_timeout_ms)
    except apsw.Error as error:
        raise trouble(error, path) from error
    except OSError as error:
        raise StoreUnavailable(
            f"the store {path} cannot be opened: {error.strerror or error}",
            hint="name a file in a directory that this user can write to",
        ) from error
    try:
        # A file that is refused keeps the log that it had.
        link.raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(_has_log(path)))
        _migrate(link, path)
        link.raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        _set_up_writing(link, path, synchronous, busy_timeout_ms)
    except apsw.Error as error:
        link.close()
        raise trouble(error, path) from error
    except BaseException:
        link.close()
        raise
    return link


def connect(path: str, *, busy_timeout_ms: int) -> Link:
    raw = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    link = Link(raw)
    raw.set_busy_handler(_patience(busy_timeout_ms))
    raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    # A damaged page is found when it is read, not when it has led elsewhere.
    link.rows("PRAGMA cell_size_check = 1; PRAGMA trusted_schema = 0; PRAGMA temp_store = MEMORY")
    link.rows("PRAGMA cache_size = -8000")
    return link


def _patience(timeout_ms: int) -> Callable[[int], bool]:
    """Tries again every millisecond. SQLite's own handler waits ever longer, up to 100 ms: beside a process that
    writes all the time it would never find the moment between two commits."""
    began = 0.0

    def again(count: int) -> bool:
        nonlocal began
        if count == 0:
            began = time.monotonic()
        if time.monotonic() - began >= timeout_ms / 1000:
            return False
        time.sleep(0.001)
        return True

    return again


# -- whose file it is -----------------------------------------------------------------------------------------------


def absolute(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if text in ("", ":memory:") or "\x00" in text:
        raise InvalidInput(
            f"{text!r} is no place for a store", hint="name a file, or use the store in memory if nothing shall stay"
        )
    return os.path.abspath(text)


def _make(path: str) -> None:
    _make_directory(os.path.dirname(path))
    with _CREATING:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            pass


def _make_directory(path: str) -> None:
    if os.path.isdir(path):
        return
    _make_directory(os.path.dirname(path))
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    # Or a crash of the machine could take the directory, and the store in it, away again.
    above = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(above)
    finally:
        os.close(above)


def refuse_foreign(path: str) -> None:
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise StoreUnusable(f"{path} is a directory, not a store", hint="name a file in it, such as cloister.db")
    if not stat.S_ISREG(status.st_mode):
        raise StoreUnusable(f"{path} is not a regular file", hint="name another file")
    if status.st_size == 0:
        return
    header = _header(path)
    if status.st_size < 100 or not header.startswith(b"SQLite format 3\x00"):
        raise StoreUnusable(
            f"{path} is not a database, or only the beginning of one",
            hint="name another file; if it was a store, restore it from a backup",
        )
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise StoreUnusable(f"{path} is another program's database", hint="name another file: this one stays as it is")
    _refuse_newer(int.from_bytes(header[60:64], "big"), path)
    size = int.from_bytes(header[28:32], "big") * int.from_bytes(header[16:18], "big")
    # Asked about its size last: while there is a journal, somebody may be writing what is missing.
    if not _has_log(path) and not os.path.exists(f"{path}-journal") and os.stat(path).st_size < size:
        raise damaged(path, f"it is shorter than the {size} bytes that it should have")


def _has_log(path: str) -> bool:
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


def _header(path: str) -> bytes:
    # Read by SQLite's own file layer, which keeps the descriptor while this process has locks on the file.
    file = apsw.VFSFile("unix", path, [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])
    try:
        return file.xRead(100, 0)
    finally:
        file.xClose()


def _refuse_newer(version: int, path: str) -> None:
    if version > len(MIGRATIONS):
        raise StoreUnusable(
            f"the store {path} was written by a newer Cloister: its schema is {version}, "
            f"and this one knows {len(MIGRATIONS)}",
            hint="update Cloister, or name another file",
        )


# -- bringing it up to date -------------------------------------------------------------------------------------------


def _migrate(link: Link, path: str) -> None:
    if link.raw.readonly("main"):
        raise StoreUnavailable(
            f"the store {path} is read-only", hint="give this user the right to write to the file and its directory"
        )
    # Read by itself first: a schema that cannot be read is found before anything is locked.
    link.rows("SELECT count(*) FROM sqlite_schema")
    version = int(link.value("PRAGMA user_version"))
    _refuse_newer(version, path)
    if version == len(MIGRATIONS):
        return
    # Whoever comes second waits here, and then finds it done.
    link.run("BEGIN EXCLUSIVE")
    try:
        for number in range(_version(link, path), len(MIGRATIONS)):
            link.run(MIGRATIONS[number])
        link.run(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {len(MIGRATIONS)}")
        link.run("COMMIT")
    finally:
        if link.raw.in_transaction:
            link.run("ROLLBACK")


def _version(link: Link, path: str) -> int:
    """How many migrations it has; asked in a transaction, or the two answers would not belong together."""
    version = int(link.value("PRAGMA user_version"))
    _refuse_newer(version, path)
    tables = link.value("SELECT count(*) FROM sqlite_schema")
    if bool(version) != bool(tables):
        raise damaged(path, f"it has {tables} tables and indexes, and a schema of version {version}")
    return version


def _set_up_writing(link: Link, path: str, synchronous: Synchronous, busy_timeout_ms: int) -> None:
    # To their ends, all of them: some answer with a row, and one that is not fetched is a statement in progress, beside
    # which there is no VACUUM.
    mode = _write_ahead(link, _patience(busy_timeout_ms))
    if mode != "wal":
        raise StoreUnavailable(
            f"the store {path} cannot be used by several connections: its journal is {mode!r}, not 'wal'",
            hint="use a file on a local disk: a network's file system has no memory to share",
        )
    link.rows(f"PRAGMA synchronous = {synchronous.upper()}")
    # Where a plain fsync leaves the disk's own cache out, which is macOS.
    link.rows(f"PRAGMA fullfsync = {int(synchronous == 'full')}")
    # The pages that every commit writes go into the file less often: that is done within a commit, which waits for it.
    link.rows("PRAGMA wal_autocheckpoint = 4000")
    # After a burst, the log does not stay as large as it was.
    link.rows(f"PRAGMA journal_size_limit = {64 << 20}")


def _write_ahead(link: Link, again: Callable[[int], bool]) -> str:
    # SQLite does not ask the busy handler about this one.
    tries = 0
    while True:
        try:
            return str(link.value("PRAGMA journal_mode = WAL"))
        except apsw.BusyError:
            if not again(tries):
                raise
            tries += 1
