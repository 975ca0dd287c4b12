-- The ledger. Instants are microseconds since the Unix epoch, of the clock of the process that owns
-- the file; spans are
-- microseconds. The numbers of states, causes and the like are those of the protobuf enums.

-- One row. clock_mark is the highest reading of clock + token_offset that was ever written down.
CREATE TABLE meta (
    one          integer PRIMARY KEY CHECK (one = 1),
    token_offset integer NOT NULL,
    clock_mark   integer NOT NULL
);
INSERT INTO meta VALUES (1, 0, 0);

-- Consumers and sources repeat in every row: there they are numbers. The consumer with the empty
-- name stands for the default policy. `retention` is the effective one as last put in force.
CREATE TABLE consumers (
    no           integer PRIMARY KEY,
    name         text NOT NULL UNIQUE,
    retention    integer,
    window_floor integer NOT NULL DEFAULT 0
);
CREATE TABLE sources (
    no   integer PRIMARY KEY,
    name text NOT NULL UNIQUE
);

CREATE TABLE entries (
    key                  blob NOT NULL PRIMARY KEY, -- the first 128 bits of the SHA-256 of the length-prefixed key
    version              integer NOT NULL,
    token                integer NOT NULL,
    granted_at           integer NOT NULL,
    lease_until          integer NOT NULL,
    grace                integer NOT NULL,
    hold_until           integer NOT NULL,
    retention            integer NOT NULL,
    not_before           integer NOT NULL,
    sweep_at             integer NOT NULL,
    created_at           integer NOT NULL,
    updated_at           integer NOT NULL,
    closed_at            integer,
    parked_at            integer,
    retain_until         integer,
    claim_id             blob,
    consumer             integer NOT NULL,
    source               integer NOT NULL,
    policy_version       integer NOT NULL,
    attempts             integer NOT NULL,
    state                integer NOT NULL,
    cause                integer NOT NULL,
    closed_by            integer NOT NULL,
    on_expiry            integer NOT NULL,
    attention            integer, -- the state, where it is neither IN_PROGRESS nor COMPLETED
    rearmed              integer NOT NULL,
    effect_started       integer NOT NULL,
    prior_effect_started integer NOT NULL,
    effect_unknown       integer NOT NULL,
    id                   text NOT NULL,
    principal            text,
    owner                text,
    last_error           text,
    history              text,
    traceparent          text,
    fingerprint          blob,
    result               blob,
    checkpoint           blob
);

CREATE INDEX entries_sweep ON entries (sweep_at);
CREATE INDEX entries_by_consumer ON entries (consumer, created_at, key);
CREATE INDEX entries_attention ON entries (consumer, attention, created_at, key)
    WHERE attention IS NOT NULL;

-- The rules of consumers, each change a version; the newest is in force.
CREATE TABLE policies (
    consumer   integer NOT NULL,
    version    integer NOT NULL,
    policy     text,
    deleted    integer NOT NULL,
    created_at integer NOT NULL,
    actor      text NOT NULL,
    reason     text NOT NULL,
    PRIMARY KEY (consumer, version)
);

-- What operators did. Append-only.
CREATE TABLE audit (
    request_id text PRIMARY KEY,
    at         integer NOT NULL,
    actor      text NOT NULL,
    action     text NOT NULL,
    consumer   text,
    key        blob,
    reason     text NOT NULL,
    before     text,
    after      text
);
CREATE INDEX audit_by_time ON audit (at);
