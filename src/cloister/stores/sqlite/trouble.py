"""What SQLite's errors mean to a caller: the path, what happened, what to do about it."""

import apsw

from cloister.core.errors import StoreError, StoreUnavailable, StoreUnusable

RESTORE = "restore it from a backup, or save what can be read with `sqlite3 {path} .recover`"


def trouble(error: apsw.Error, path: str) -> StoreError:
    """A new exception each time: several callers raise theirs."""
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.FormatError):
        return damaged(path, str(error))
    what, hint = _words(error)
    return StoreUnavailable(f"the store {path} {what}", hint=hint)


def damaged(path: str, what: str) -> StoreUnusable:
    return StoreUnusable(f"the store {path} is damaged: {what}", hint=RESTORE.format(path=path))


def _words(error: apsw.Error) -> tuple[str, str]:
    match error:
        case apsw.FullError():
            return "cannot be written: the disk is full", "make room on its disk; it goes on by itself then"
        case apsw.ReadOnlyError():
            return "is read-only", "give this user the right to write to the file and its directory"
        case apsw.BusyError() | apsw.LockedError():
            return (
                "is locked by another process, longer than we wait",
                "look for one that is stopped, or in a long transaction on this file",
            )
        case apsw.CantOpenError() | apsw.PermissionsError():
            return f"cannot be opened: {error}", "look at the permissions of the file and its directory"
        case apsw.IOError():
            return f"cannot be read or written: {error}", "look at its disk and at the system's log"
        case apsw.NoMemError():
            return "could not get enough memory", "give this process more, or write less at once"
        case _:
            return f"did not do it: {error}", "`cloister doctor` looks at the whole store"
