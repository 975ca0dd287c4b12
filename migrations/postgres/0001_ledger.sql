-- The ledger. Instants are microseconds since the Unix epoch of this database's clock; spans are
-- microseconds. The numbers of states, causes and the like are those of the protobuf enums.

CREATE SCHEMA IF NOT EXISTS ledger;

-- The one clock: nothing but this function tells the time.
CREATE FUNCTION ledger.clock() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- One row. clock_mark is the highest reading of clock + token_offset that was ever written down.
CREATE TABLE ledger.meta (
    one          smallint PRIMARY KEY CHECK (one = 1),
    token_offset bigint NOT NULL,
    clock_mark   bigint NOT NULL
);
INSERT INTO ledger.meta VALUES (1, 0, 0);

-- Consumers and sources repeat in every row: there they are numbers. The consumer with the empty
-- name stands for the default policy. `retention` is the effective one as last put in force.
CREATE TABLE ledger.consumers (
    no           integer PRIMARY KEY,
    name         text COLLATE "C" NOT NULL UNIQUE,
    retention    bigint,
    window_floor bigint NOT NULL DEFAULT 0
);
CREATE TABLE ledger.sources (
    no   integer PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE ledger.entries (
    key                  uuid PRIMARY KEY, -- the first 128 bits of the SHA-256 of the length-prefixed key
    version              bigint NOT NULL,
    token                bigint NOT NULL,
    granted_at           bigint NOT NULL,
    lease_until          bigint NOT NULL,
    grace                bigint NOT NULL,
    hold_until           bigint NOT NULL,
    retention            bigint NOT NULL,
    not_before           bigint NOT NULL,
    sweep_at             bigint NOT NULL,
    created_at           bigint NOT NULL,
    updated_at           bigint NOT NULL,
    closed_at            bigint,
    parked_at            bigint,
    retain_until         bigint,
    claim_id             uuid,
    consumer             integer NOT NULL,
    source               integer NOT NULL,
    policy_version       integer NOT NULL,
    attempts             integer NOT NULL,
    state                smallint NOT NULL,
    cause                smallint NOT NULL,
    closed_by            smallint NOT NULL,
    on_expiry            smallint NOT NULL,
    attention            smallint, -- the state, where it is neither IN_PROGRESS nor COMPLETED
    rearmed              boolean NOT NULL,
    effect_started       boolean NOT NULL,
    prior_effect_started boolean NOT NULL,
    effect_unknown       boolean NOT NULL,
    id                   text COLLATE "C" NOT NULL,
    principal            text,
    owner                text,
    last_error           text,
    history              text,
    traceparent          text,
    fingerprint          bytea,
    result               bytea,
    checkpoint           bytea
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- No index holds a column that a claim's completion changes: completions stay heap-only updates.
CREATE INDEX entries_sweep ON ledger.entries (sweep_at);
CREATE INDEX entries_by_consumer ON ledger.entries (consumer, created_at, key);
CREATE INDEX entries_attention ON ledger.entries (consumer, attention, created_at, key)
    WHERE attention IS NOT NULL;

-- The rules of consumers, each change a version; the newest is in force.
CREATE TABLE ledger.policies (
    consumer   integer NOT NULL,
    version    integer NOT NULL,
    policy     text,
    deleted    boolean NOT NULL,
    created_at bigint NOT NULL,
    actor      text NOT NULL,
    reason     text NOT NULL,
    PRIMARY KEY (consumer, version)
);

-- What operators did. Append-only.
CREATE TABLE ledger.audit (
    request_id text COLLATE "C" PRIMARY KEY,
    at         bigint NOT NULL,
    actor      text NOT NULL,
    action     text NOT NULL,
    consumer   text COLLATE "C",
    key        uuid,
    reason     text NOT NULL,
    before     text,
    after      text
);
CREATE INDEX audit_by_time ON ledger.audit (at);
