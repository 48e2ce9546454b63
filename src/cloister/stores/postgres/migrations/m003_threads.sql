-- Conversations: threads, turns, items, what models answered, what came in the middle, calls that a client answers.
ALTER TABLE sessions ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX sessions_of_tenant ON sessions (tenant, id);

ALTER TABLE cells ADD COLUMN thread_id text COLLATE "C", ADD COLUMN turn_id text COLLATE "C",
    ADD COLUMN item_id text COLLATE "C";

ALTER TABLE events ADD COLUMN thread_id text COLLATE "C", ADD COLUMN turn_id text COLLATE "C",
    ADD COLUMN item_id text COLLATE "C";
CREATE INDEX events_of_thread ON events (thread_id, seq) WHERE thread_id IS NOT NULL;

CREATE TABLE threads (
    id         text COLLATE "C" PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL,
    created_ms bigint NOT NULL,
    updated_ms bigint NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    archived   boolean NOT NULL,
    search     text COLLATE "C" NOT NULL,
    labels     text COLLATE "C" NOT NULL,
    doc        text NOT NULL
);
CREATE INDEX threads_of_tenant ON threads (tenant, id);
CREATE INDEX threads_of_session ON threads (session_id);

CREATE TABLE turns (
    id            text COLLATE "C" PRIMARY KEY,
    session_id    text COLLATE "C" NOT NULL,
    thread_id     text COLLATE "C" NOT NULL,
    number        bigint NOT NULL,
    state         text COLLATE "C" NOT NULL,
    live          boolean NOT NULL,
    created_ms    bigint NOT NULL,
    ended_ms      bigint,
    operation_key text COLLATE "C",
    doc           text NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX turns_of_session ON turns (session_id, id);
CREATE INDEX turns_of_thread ON turns (thread_id, id);
CREATE INDEX turns_alive ON turns (id) WHERE live;
CREATE INDEX turns_of_operation ON turns (thread_id, operation_key) WHERE operation_key IS NOT NULL;

CREATE TABLE items (
    id         text COLLATE "C" PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL,
    thread_id  text COLLATE "C" NOT NULL,
    turn_id    text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL,
    created_ms bigint NOT NULL,
    doc        text NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX items_of_session ON items (session_id);
CREATE INDEX items_of_thread ON items (thread_id, id);

CREATE TABLE answers (
    turn_id        text COLLATE "C" NOT NULL,
    number         bigint NOT NULL,
    session_id     text COLLATE "C" NOT NULL,
    thread_id      text COLLATE "C" NOT NULL,
    request_digest text COLLATE "C" NOT NULL,
    at_ms          bigint NOT NULL,
    doc            text NOT NULL,
    PRIMARY KEY (turn_id, number)
);
CREATE INDEX answers_of_session ON answers (session_id);

CREATE TABLE inputs (
    id         text COLLATE "C" PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL,
    thread_id  text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL,
    created_ms bigint NOT NULL,
    turn_id    text COLLATE "C",
    client_id  text COLLATE "C",
    doc        text NOT NULL
);
CREATE INDEX inputs_of_session ON inputs (session_id);
CREATE INDEX inputs_of_thread ON inputs (thread_id, id);
CREATE INDEX inputs_of_client ON inputs (thread_id, client_id) WHERE client_id IS NOT NULL;

CREATE TABLE tool_calls (
    id         text COLLATE "C" PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL,
    thread_id  text COLLATE "C" NOT NULL,
    turn_id    text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL,
    created_ms bigint NOT NULL,
    doc        text NOT NULL
);
CREATE INDEX tool_calls_of_session ON tool_calls (session_id, state);
CREATE INDEX tool_calls_of_thread ON tool_calls (thread_id, state);
