"""What a store holds, row by row, and the changes that can be made to it.

A row is plain data: ids, times in milliseconds, and a `doc` of JSON whose meaning is its owner's. Large bytes are
blobs, named by the SHA3-256 of their content; rows refer to them by that name, and a blob that no row refers to may
be collected.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from cloister.core.light import light
from cloister.ports.journal import Entry, Intent, Settled

Doc: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SessionRow:
    id: str
    created_ms: int
    used_ms: int
    doc: Doc = field(default_factory=dict[str, Any])
    # The blob that its namespace is; None for one that has run nothing.
    image: str | None = None
    # Whose it is, where one host serves several; "" where it serves one.
    tenant: str = ""
    # Counts its changes: see `MoveHead`.
    head: int = 0


@light
@dataclass(frozen=True, slots=True)
class CellRow:
    id: str
    session_id: str
    # In the order of their session, from 1.
    number: int
    state: str
    # Whether somebody must go on with it.
    live: bool
    created_ms: int
    ended_ms: int | None = None
    doc: Doc = field(default_factory=dict[str, Any])
    # The blob that its suspended program is.
    image: str | None = None
    # The conversation that started it, if one did.
    thread_id: str | None = None
    turn_id: str | None = None
    item_id: str | None = None
    # The client's own name for what it asked for, one of its kind in the session.
    operation_key: str | None = None


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    id: str
    session_id: str
    cell_id: str
    state: str
    created_ms: int
    doc: Doc = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """A moment of a session that can be gone back to."""

    id: str
    session_id: str
    created_ms: int
    image: str
    cell_id: str | None = None
    # The last call that the program had made by then.
    call_number: int | None = None
    doc: Doc = field(default_factory=dict[str, Any])
    # What it keeps beside its image: the contents of files.
    blobs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Written down as JSON, it comes back as a list.
        object.__setattr__(self, "blobs", tuple(self.blobs))


@dataclass(frozen=True, slots=True)
class EventRow:
    # Given by the store: global, growing, never used twice.
    seq: int
    session_id: str
    kind: str
    at_ms: int
    doc: Doc = field(default_factory=dict[str, Any])
    # Whose stream it is in, beside its session's.
    thread_id: str | None = None
    turn_id: str | None = None
    item_id: str | None = None


@dataclass(frozen=True, slots=True)
class ValueRow:
    session_id: str
    key: str
    value: Any
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True)
class FileRow:
    session_id: str
    path: str
    blob: str
    size_bytes: int
    modified_ms: int
    doc: Doc = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class SecretRow:
    """`sealed` is encrypted before it comes here."""

    session_id: str
    name: str
    sealed: bytes
    created_ms: int
    updated_ms: int
    doc: Doc = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class AttachmentRow:
    session_id: str
    blob: str
    media_type: str
    size_bytes: int
    created_ms: int
    doc: Doc = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """`search` is its title as it is looked for, and `labels` what `label_mark` makes of each, one after the other:
    what is listed by them is found without a look into the doc."""

    id: str
    session_id: str
    created_ms: int
    updated_ms: int
    tenant: str = ""
    archived: bool = False
    search: str = ""
    labels: str = ""
    doc: Doc = field(default_factory=dict[str, Any])


def label_mark(name: str, value: str) -> str:
    """A label as a part of `ThreadRow.labels`. Neither may have a control character in it."""
    return f"\x1e{name}\x1f{value}\x1e"


@dataclass(frozen=True, slots=True)
class TurnRow:
    id: str
    session_id: str
    thread_id: str
    # In the order of their thread, from 1.
    number: int
    state: str
    # Whether somebody must go on with it.
    live: bool
    created_ms: int
    ended_ms: int | None = None
    # The client's own name for what it asked for, one of its kind in the thread.
    operation_key: str | None = None
    doc: Doc = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ItemRow:
    id: str
    session_id: str
    thread_id: str
    turn_id: str
    kind: str
    state: str
    created_ms: int
    doc: Doc = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """What a model has answered to a turn's request of that number: it was paid for, and is not asked again."""

    turn_id: str
    number: int
    session_id: str
    thread_id: str
    request_digest: str
    at_ms: int
    doc: Doc = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class InputRow:
    """Words that came in the middle of a turn, and what became of them. `turn_id` is the turn that they are for, None
    for whichever comes next."""

    id: str
    session_id: str
    thread_id: str
    state: str
    created_ms: int
    turn_id: str | None = None
    # The client's own, one of its kind in the thread.
    client_id: str | None = None
    doc: Doc = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ToolCallRow:
    """A call that the client must answer, under the id of the call."""

    id: str
    session_id: str
    thread_id: str
    turn_id: str
    state: str
    created_ms: int
    doc: Doc = field(default_factory=dict[str, Any])


Row: TypeAlias = (
    SessionRow
    | CellRow
    | ApprovalRow
    | SnapshotRow
    | EventRow
    | ValueRow
    | FileRow
    | SecretRow
    | AttachmentRow
    | ThreadRow
    | TurnRow
    | ItemRow
    | AnswerRow
    | InputRow
    | ToolCallRow
    | Entry
)
Table: TypeAlias = Literal[
    "sessions",
    "cells",
    "calls",
    "approvals",
    "snapshots",
    "events",
    "values",
    "files",
    "secrets",
    "attachments",
    "threads",
    "turns",
    "items",
    "answers",
    "inputs",
    "tool_calls",
]
# What a row is found by, in each table.
KEYS: Mapping[Table, tuple[str, ...]] = {
    "sessions": ("id",),
    "cells": ("id",),
    "calls": ("key",),
    "approvals": ("id",),
    "snapshots": ("id",),
    "events": ("seq",),
    "values": ("session_id", "key"),
    "files": ("session_id", "path"),
    "secrets": ("session_id", "name"),
    "attachments": ("session_id", "blob"),
    "threads": ("id",),
    "turns": ("id",),
    "items": ("id",),
    "answers": ("turn_id", "number"),
    "inputs": ("id",),
    "tool_calls": ("id",),
}
TABLE_OF: Mapping[type[Any], Table] = {
    SessionRow: "sessions",
    CellRow: "cells",
    Entry: "calls",
    ApprovalRow: "approvals",
    SnapshotRow: "snapshots",
    EventRow: "events",
    ValueRow: "values",
    FileRow: "files",
    SecretRow: "secrets",
    AttachmentRow: "attachments",
    ThreadRow: "threads",
    TurnRow: "turns",
    ItemRow: "items",
    AnswerRow: "answers",
    InputRow: "inputs",
    ToolCallRow: "tool_calls",
}


@light
@dataclass(frozen=True, slots=True)
class Put:
    """Write a row, over the one with the same key. A session's `head` is not written: see `MoveHead`. Calls and
    events are put only when a whole store comes from elsewhere; otherwise by `Intend`, `Settle` and `Append`."""

    row: Row


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove the row with this key, if it is there. A session goes with all that is its own, but for its events."""

    table: Table
    key: tuple[str | int, ...]


@light
@dataclass(frozen=True, slots=True)
class PutBlob:
    """`name` is the digest of `data`; the store need not check it. Writing what is there already costs nothing."""

    name: str
    data: bytes


@light
@dataclass(frozen=True, slots=True)
class Intend:
    """A call's intent, by the rules of the journal port."""

    intent: Intent


@light
@dataclass(frozen=True, slots=True)
class Settle:
    """A call's settlement, by the rules of the journal port."""

    settled: Settled


@light
@dataclass(frozen=True, slots=True)
class Append:
    """An event at the end of the log."""

    session_id: str
    kind: str
    at_ms: int
    doc: Doc = field(default_factory=dict[str, Any])
    thread_id: str | None = None
    turn_id: str | None = None
    item_id: str | None = None


@dataclass(frozen=True, slots=True)
class Decide:
    """Put an approval that is still in state `was`; refused with `StoreConflict` when it is in another."""

    row: ApprovalRow
    was: str


@dataclass(frozen=True, slots=True)
class MoveHead:
    """Compare and set: the session's head becomes `was + 1`; refused with `StoreConflict` when it is not `was`."""

    session_id: str
    was: int


Write: TypeAlias = Put | Drop | PutBlob | Intend | Settle | Append | Decide | MoveHead


@light
@dataclass(frozen=True, slots=True)
class Fence:
    """What the owner of a session was given with it. Who has an older one is not the owner any more."""

    session_id: str
    token: int


@light
@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that happen together or not at all. With a fence they happen only for the session's owner."""

    writes: tuple[Write, ...]
    fence: Fence | None = None


@dataclass(frozen=True, slots=True)
class ThreadQuery:
    """Which threads are listed; None is for any."""

    tenant: str | None = None
    archived: bool | None = None
    session_id: str | None = None
    # A part of the title, folded as `ThreadRow.search` is.
    search: str | None = None
    # Each as `label_mark` makes it.
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """Some threads, the newest first. `before` is where to go on, None at the end: a page that had to pass over many
    rows is not full, and may be empty."""

    rows: tuple[ThreadRow, ...]
    before: str | None = None


# How many threads one page looks at to find those that are wanted.
THREADS_LOOKED_AT = 20_000


@dataclass(frozen=True, slots=True)
class Conversation:
    """All of a thread at one moment."""

    thread: ThreadRow
    turns: tuple[TurnRow, ...]
    items: tuple[ItemRow, ...]
    # Those that are pending.
    tool_calls: tuple[ToolCallRow, ...]
    approvals: tuple[ApprovalRow, ...]
    # The last event of its stream.
    latest_seq: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A session that is ours now, and what to write with."""

    fence: Fence
    row: SessionRow
