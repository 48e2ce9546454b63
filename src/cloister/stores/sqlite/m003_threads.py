"""Conversations: threads, turns, items, what models answered, what came in the middle, and calls that a client answers.

A page of threads is found in an index that has all that they are listed by, so that a search reads no doc.
"""

SCHEMA = """
ALTER TABLE sessions ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
CREATE INDEX sessions_by_tenant ON sessions (tenant, id);

ALTER TABLE cells ADD COLUMN thread_id TEXT;
ALTER TABLE cells ADD COLUMN turn_id TEXT;
ALTER TABLE cells ADD COLUMN item_id TEXT;

ALTER TABLE events ADD COLUMN thread_id TEXT;
ALTER TABLE events ADD COLUMN turn_id TEXT;
ALTER TABLE events ADD COLUMN item_id TEXT;
CREATE INDEX events_by_thread ON events (thread_id) WHERE thread_id IS NOT NULL;

CREATE TABLE threads (
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    archived INTEGER NOT NULL,
    search TEXT NOT NULL,
    labels TEXT NOT NULL,
    doc TEXT NOT NULL
) STRICT;
CREATE INDEX threads_listed ON threads (id, tenant, archived, session_id, search, labels);
CREATE INDEX threads_of_tenant ON threads (tenant, id, archived, session_id, search, labels);
CREATE INDEX threads_by_session ON threads (session_id);

CREATE TABLE turns (
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    state TEXT NOT NULL,
    live INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    operation_key TEXT,
    doc TEXT NOT NULL
) STRICT;
CREATE INDEX turns_by_session ON turns (session_id, id);
CREATE INDEX turns_by_thread ON turns (thread_id, id);
CREATE INDEX turns_live ON turns (id) WHERE live;
CREATE INDEX turns_by_operation ON turns (thread_id, operation_key) WHERE operation_key IS NOT NULL;

CREATE TABLE items (
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    doc TEXT NOT NULL
) STRICT;
CREATE INDEX items_by_session ON items (session_id);
CREATE INDEX items_by_thread ON items (thread_id, id);

CREATE TABLE answers (
    turn_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    request_digest TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    doc TEXT NOT NULL,
    UNIQUE (turn_id, number)
) STRICT;
CREATE INDEX answers_by_session ON answers (session_id);

CREATE TABLE inputs (
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    state TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    turn_id TEXT,
    client_id TEXT,
    doc TEXT NOT NULL
) STRICT;
CREATE INDEX inputs_by_session ON inputs (session_id);
CREATE INDEX inputs_by_thread ON inputs (thread_id, id);
CREATE INDEX inputs_by_client ON inputs (thread_id, client_id) WHERE client_id IS NOT NULL;

CREATE TABLE tool_calls (
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    state TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    doc TEXT NOT NULL
) STRICT;
CREATE INDEX tool_calls_by_session ON tool_calls (session_id, state);
CREATE INDEX tool_calls_by_thread ON tool_calls (thread_id, state);
"""
