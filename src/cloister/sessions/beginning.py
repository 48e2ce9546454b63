"""How a session begins: with what it was given, with what a snapshot has, or with what was written down."""

import os
import secrets
import string
from collections.abc import Callable, Mapping

from cloister.cells.seats import Namespace
from cloister.core.file import Mount
from cloister.ports.rows import Put, SessionRow, Write
from cloister.sessions.envelope import Envelope
from cloister.sessions.files import Files
from cloister.sessions.grounds import Grounds, SessionOptions
from cloister.sessions.keeper import Keeper
from cloister.sessions.ledger import Ledger
from cloister.sessions.values import Values

_MARK_LETTERS = string.ascii_lowercase + string.digits


def mark_of(origin: Envelope | None, kept: SessionRow | None) -> str:
    """What a session's programs know their secrets' handles by: what they knew them by before, or something new."""
    known = kept.doc["mark"] if kept is not None else origin.mark if origin is not None else ""
    return known or "".join(secrets.choice(_MARK_LETTERS) for _ in range(20))


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


def first_files(
    options: SessionOptions, grounds: Grounds, keeper: Keeper | None, mounts: Mapping[str, Mount], *, is_new: bool
) -> Files:
    """The session's files, with those that it was given if it is new. What a snapshot or a store has comes later."""
    ledger = grounds.ledger
    files = Files(
        grounds.wiring.clock,
        grounds.file_limits,
        {**grounds.mounts, **mounts},
        session_id=options.id,
        keep=keeper.write if keeper is not None else None,
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
    row: Callable[[str | None], SessionRow], namespace: Namespace, values: Values, files: Files, keeper: Keeper | None
) -> list[Write]:
    """What is written down of a session before it has run anything: what came with a snapshot."""
    assert keeper is not None
    image = keeper.begins_with(namespace.state)
    session = row(keeper.image)
    return [*image, *map(Put, values.rows(session.id)), *files.book.everything(), Put(session)]
