-- The first schema. Text is compared by code points (COLLATE "C"), so that its order is Python's. Docs are JSON kept as
-- text: jsonb would round numbers, sort keys and refuse NUL.

CREATE TABLE sessions (
    id         text COLLATE "C" PRIMARY KEY,
    created_ms bigint NOT NULL,
    used_ms    bigint NOT NULL,
    doc        text NOT NULL,
    image      text,
    head       bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 80);

CREATE TABLE cells (
    id         text COLLATE "C" PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL,
    number     bigint NOT NULL,
    state      text NOT NULL,
    live       boolean NOT NULL,
    created_ms bigint NOT NULL,
    ended_ms   bigint,
    doc        text NOT NULL,
    image      text
) WITH (fillfactor = 80);
CREATE INDEX cells_of_session ON cells (session_id, id);
CREATE INDEX cells_alive ON cells (id) WHERE live;
CREATE INDEX cells_alive_of_session ON cells (session_id, id) WHERE live;

-- Room is left on each page: the settlement is written over its intent.
CREATE TABLE calls (
    key        text COLLATE "C" PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL,
    cell_id    text COLLATE "C" NOT NULL,
    number     bigint NOT NULL,
    intent     text NOT NULL,
    settled    text,
    attempts   bigint NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX calls_of_cell ON calls (cell_id, number);
CREATE INDEX calls_of_session ON calls (session_id);

CREATE TABLE approvals (
    id         text COLLATE "C" PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL,
    cell_id    text NOT NULL,
    state      text COLLATE "C" NOT NULL,
    created_ms bigint NOT NULL,
    doc        text NOT NULL
);
CREATE INDEX approvals_of_session ON approvals (session_id, id);
CREATE INDEX approvals_in_state ON approvals (state, id);

CREATE TABLE snapshots (
    id          text COLLATE "C" PRIMARY KEY,
    session_id  text COLLATE "C" NOT NULL,
    created_ms  bigint NOT NULL,
    image       text NOT NULL,
    cell_id     text,
    call_number bigint,
    doc         text NOT NULL
);
CREATE INDEX snapshots_of_session ON snapshots (session_id, id);

-- Numbers are taken under the write lock and kept to the end of the transaction, so they become visible in their order.
CREATE SEQUENCE event_numbers AS bigint;
CREATE TABLE events (
    seq        bigint PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL,
    kind       text NOT NULL,
    at_ms      bigint NOT NULL,
    doc        text NOT NULL
);
CREATE INDEX events_of_session ON events (session_id, seq);

CREATE TABLE "values" (
    session_id text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    value      text NOT NULL,
    created_ms bigint NOT NULL,
    updated_ms bigint NOT NULL,
    PRIMARY KEY (session_id, key)
);

CREATE TABLE files (
    session_id  text COLLATE "C" NOT NULL,
    path        text COLLATE "C" NOT NULL,
    blob        text NOT NULL,
    size_bytes  bigint NOT NULL,
    modified_ms bigint NOT NULL,
    doc         text NOT NULL,
    PRIMARY KEY (session_id, path)
);

CREATE TABLE secrets (
    session_id text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    sealed     bytea NOT NULL,
    created_ms bigint NOT NULL,
    updated_ms bigint NOT NULL,
    doc        text NOT NULL,
    PRIMARY KEY (session_id, name)
);

CREATE TABLE attachments (
    session_id text COLLATE "C" NOT NULL,
    blob       text COLLATE "C" NOT NULL,
    media_type text NOT NULL,
    size_bytes bigint NOT NULL,
    created_ms bigint NOT NULL,
    doc        text NOT NULL,
    PRIMARY KEY (session_id, blob)
);

-- A blob is in parts, so that neither side holds a huge one in a single message.
CREATE TABLE blobs (
    name       text COLLATE "C" PRIMARY KEY,
    size_bytes bigint NOT NULL,
    put_ms     bigint NOT NULL
);
CREATE TABLE blob_parts (
    name text COLLATE "C" NOT NULL,
    part integer NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (name, part)
);
-- Images are compressed already.
ALTER TABLE blob_parts ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE owners (
    name     text COLLATE "C" PRIMARY KEY,
    until_ms bigint NOT NULL
);
-- A session that has a row here belongs to its owner, who writes with this fence.
CREATE SEQUENCE fences AS bigint;
CREATE TABLE leases (
    session_id text COLLATE "C" PRIMARY KEY,
    owner      text COLLATE "C" NOT NULL,
    fence      bigint NOT NULL
);
CREATE INDEX leases_of_owner ON leases (owner);

CREATE FUNCTION now_ms() RETURNS bigint LANGUAGE sql VOLATILE
AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint';

-- Ends the transaction when something is not as the writer assumed. It then looks and tries again, batch by batch.
CREATE FUNCTION expect(held boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF held IS NOT TRUE THEN
        RAISE EXCEPTION 'cloister: not as the writer assumed; it looks and tries again' USING ERRCODE = 'CL001';
    END IF;
END
$$;
