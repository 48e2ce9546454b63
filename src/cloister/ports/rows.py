"""What a store holds, row by row, and the changes that can be made to it.

A row is plain data: ids, times in milliseconds, and a `doc` of JSON whose meaning is its owner's. Large bytes are
blobs, named by the SHA3-256 of their content; rows refer to them by that name, and a blob that no row refers to may
be collected.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

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
    # Counts its changes: see `MoveHead`.
    head: int = 0


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


Row: TypeAlias = (
    SessionRow | CellRow | ApprovalRow | SnapshotRow | EventRow | ValueRow | FileRow | SecretRow | AttachmentRow | Entry
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
]
# What a row is found by, in each table; the first of several is the session.
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
}


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


@dataclass(frozen=True, slots=True)
class PutBlob:
    """`name` is the digest of `data`; the store need not check it. Writing what is there already costs nothing."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Intend:
    """A call's intent, by the rules of the journal port."""

    intent: Intent


@dataclass(frozen=True, slots=True)
class Settle:
    """A call's settlement, by the rules of the journal port."""

    settled: Settled


@dataclass(frozen=True, slots=True)
class Append:
    """An event at the end of the log."""

    session_id: str
    kind: str
    at_ms: int
    doc: Doc = field(default_factory=dict[str, Any])


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


@dataclass(frozen=True, slots=True)
class Fence:
    """What the owner of a session was given with it. Who has an older one is not the owner any more."""

    session_id: str
    token: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that happen together or not at all. With a fence they happen only for the session's owner."""

    writes: tuple[Write, ...]
    fence: Fence | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A session that is ours now, and what to write with."""

    fence: Fence
    row: SessionRow
