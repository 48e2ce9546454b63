"""The first schema.

Rows with a doc of any size are rowid tables, because a page of an index holds rows of a kilobyte at most without
overflow; small ones are stored in their key. Digests and ids are text: whoever opens the file with `sqlite3` can read
them. Numbers of events are never used again, not even those of events that were pruned: AUTOINCREMENT.
"""

SCHEMA = """
CREATE TABLE sessions (
    id TEXT NOT NULL UNIQUE,
    created_ms INTEGER NOT NULL,
    used_ms INTEGER NOT NULL,
    image TEXT,
    head INTEGER NOT NULL DEFAULT 0,
    owner TEXT,
    fence INTEGER NOT NULL DEFAULT 0,
    doc TEXT NOT NULL
) STRICT;

CREATE TABLE owners (
    id TEXT PRIMARY KEY,
    expires_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row. Fences come from one source for all sessions: one that is dropped and made anew must not see an old one fit.
CREATE TABLE fences (last INTEGER NOT NULL) STRICT;
INSERT INTO fences VALUES (0);

CREATE TABLE cells (
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    state TEXT NOT NULL,
    live INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    image TEXT,
    doc TEXT NOT NULL
) STRICT;
CREATE INDEX cells_by_session ON cells (session_id, id);
CREATE INDEX cells_live ON cells (id) WHERE live;

-- `status` and `settled`, which is the whole settlement, are NULL while there is none.
CREATE TABLE calls (
    key TEXT NOT NULL UNIQUE,
    call_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    cell_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    side_effect TEXT NOT NULL,
    idempotent INTEGER NOT NULL,
    request_digest TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    status TEXT,
    arguments TEXT,
    settled TEXT
) STRICT;
CREATE INDEX calls_by_cell ON calls (cell_id, number);
CREATE INDEX calls_by_session ON calls (session_id);

CREATE TABLE approvals (
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    cell_id TEXT NOT NULL,
    state TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    doc TEXT NOT NULL
) STRICT;
CREATE INDEX approvals_by_session ON approvals (session_id, id);
CREATE INDEX approvals_by_state ON approvals (state, id);

CREATE TABLE snapshots (
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    image TEXT NOT NULL,
    cell_id TEXT,
    call_number INTEGER,
    doc TEXT NOT NULL
) STRICT;
CREATE INDEX snapshots_by_session ON snapshots (session_id, id);

CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    doc TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_session ON events (session_id);

CREATE TABLE "values" (
    session_id TEXT NOT NULL,
    key TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (session_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE files (
    session_id TEXT NOT NULL,
    path TEXT NOT NULL,
    blob TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    modified_ms INTEGER NOT NULL,
    doc TEXT NOT NULL,
    PRIMARY KEY (session_id, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE secrets (
    session_id TEXT NOT NULL,
    name TEXT NOT NULL,
    sealed BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    doc TEXT NOT NULL,
    PRIMARY KEY (session_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE attachments (
    session_id TEXT NOT NULL,
    blob TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    doc TEXT NOT NULL,
    PRIMARY KEY (session_id, blob)
) STRICT, WITHOUT ROWID;

-- The bytes are in a table of their own: to say that a blob was written again, or to look for those that nothing refers
-- to, no page of them is touched. `packed` says that they are compressed with zstd.
CREATE TABLE blobs (
    name TEXT PRIMARY KEY,
    written_ms INTEGER NOT NULL,
    packed INTEGER NOT NULL,
    content INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE contents (
    id INTEGER PRIMARY KEY,
    data BLOB NOT NULL
) STRICT;
"""
