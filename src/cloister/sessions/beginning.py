"""How a session begins: with what it was given, with what a snapshot has, or with what was written down."""

import os
import secrets
import string
from collections.abc import Callable, Sequence

from cloister.cells.seats import Namespace
from cloister.core.digest import digest_bytes
from cloister.ports.rows import Put, PutBlob, SessionRow, ValueRow, Write
from cloister.sessions.envelope import Envelope
from cloister.sessions.files import Files
from cloister.sessions.grounds import Grounds, SessionOptions
from cloister.sessions.keeper import Keeper
from cloister.sessions.ledger import Ledger

_MARK_LETTERS = string.ascii_lowercase + string.digits


def new_mark() -> str:
    """What a session's programs know their secrets' handles by."""
    return "".join(secrets.choice(_MARK_LETTERS) for _ in range(20))


def first_namespace(
    options: SessionOptions,
    origin: Envelope | None,
    kept: SessionRow | None = None,
    ledger: Ledger | None = None,
) -> Namespace:
    """A fresh one, the one in `origin`, or the one that `kept` names. With a cell in `origin`, nobody knows what was
    before the cell."""
    if kept is not None:
        namespace = Namespace(options.limits, kept.doc["seed"], owner=options.id)
        image = kept.image
        if ledger is not None and image is not None:
            namespace.load = lambda: ledger.store.blob(image)
        return namespace
    seed = origin.seed if origin is not None else int.from_bytes(os.urandom(7), "big")
    state = origin.state if origin is not None and origin.cell is None else None
    return Namespace(options.limits, seed, state, owner=options.id)


def first_files(options: SessionOptions, grounds: Grounds, keeper: Keeper | None, *, is_new: bool) -> Files:
    """The session's files, with those that it was given if it is new. What a snapshot or a store has comes later."""
    ledger, keep = grounds.ledger, keeper.files if keeper is not None else None
    files = Files(
        grounds.wiring.clock,
        grounds.file_limits,
        grounds.mounts,
        session_id=options.id,
        keep=keep,
        load=ledger.store.blob if ledger is not None else None,
    )
    if keeper is not None:
        keeper.book = files.book
    try:
        if is_new:
            files.seed(options.files)
    except BaseException:
        files.close()
        raise
    return files


def first_writes(
    row: Callable[[str | None], SessionRow],
    state: bytes | None,
    values: Sequence[ValueRow],
    files: Sequence[Write],
) -> list[Write]:
    """What is written down of a session before it has run anything: what came with a snapshot."""
    if state is None:
        return [*map(Put, values), *files, Put(row(None))]
    name = digest_bytes(state)
    return [PutBlob(name, state), *map(Put, values), *files, Put(row(name))]
