-- The ledger. Instants are microseconds since the Unix epoch, of the clock of the process that owns
-- the file; spans are microseconds. The numbers of states, causes and the like are those of the protobuf enums.

-- One row. clock_mark is the highest reading of clock + token_offset that was ever written down; policy_epoch
-- counts the changes of what is in force: the purge takes nothing by older rules. serves_from is the lowest schema
-- version a binary may have been made for, level the newest feature that is in use: see docs/changing.md.
CREATE TABLE meta (
    one          integer PRIMARY KEY CHECK (one = 1),
    token_offset integer NOT NULL,
    clock_mark   integer NOT NULL,
    policy_epoch integer NOT NULL,
    serves_from  integer NOT NULL DEFAULT 1,
    level        integer NOT NULL DEFAULT 1
);
INSERT INTO meta (one, token_offset, clock_mark, policy_epoch) VALUES (1, 0, 0, 0);

-- What repeats in entries is a number there. The consumer with the empty name stands for the default policy.
-- `retention` is the effective one as last put in force. The purge has looked at every entry that was created up to
-- purge_passed once, and is at purge_again with looking at those that it left: see src/ledger/upkeep/purge.rs.
CREATE TABLE consumers (
    no           integer PRIMARY KEY,
    name         text NOT NULL UNIQUE,
    retention    integer,
    window_floor integer NOT NULL DEFAULT 0,
    purge_due    integer NOT NULL DEFAULT 0,
    purge_held   integer NOT NULL DEFAULT 0, -- until this instant
    purge_passed integer NOT NULL DEFAULT 0,
    purge_again  integer NOT NULL DEFAULT 0,
    purge_again_due integer NOT NULL DEFAULT 0
);
CREATE TABLE sources (
    no   integer PRIMARY KEY,
    name text NOT NULL UNIQUE
);
CREATE TABLE principals (
    no   integer PRIMARY KEY,
    name text NOT NULL UNIQUE
);

-- The terms of grants: what a policy said then, as far as an entry goes by it for the rest of its claim's life.
CREATE TABLE terms (
    no                  integer PRIMARY KEY,
    policy_version      integer NOT NULL,
    grace               integer NOT NULL,
    max_hold            integer NOT NULL,
    on_expiry           integer NOT NULL,
    retention           integer NOT NULL,
    failed_retention    integer NOT NULL,
    abandoned_retention integer NOT NULL,
    UNIQUE (policy_version, grace, max_hold, on_expiry, retention, failed_retention, abandoned_retention)
);

-- A column that may be empty is empty where its value follows from others: so is nearly all of a claim that is
-- granted and completed once.
CREATE TABLE entries (
    key                  blob NOT NULL PRIMARY KEY, -- a hash of consumer, source and id: see src/domain/key.rs
    claim_id             blob,
    id_uuid              blob, -- the id where it is a UUID in canonical form; then id is empty
    created_at           integer NOT NULL,
    token                integer NOT NULL,
    lease_until          integer NOT NULL,
    granted_at           integer, -- empty: created_at
    not_before           integer, -- empty: granted_at
    consumer             integer NOT NULL,
    source               integer NOT NULL,
    principal            integer,
    terms                integer NOT NULL,
    attempts             integer NOT NULL,
    rearmed              integer, -- empty, here and below: no
    effect_started       integer,
    prior_effect_started integer,
    version              integer NOT NULL,
    state                integer NOT NULL,
    closed_by            integer NOT NULL,
    cause                integer, -- empty where it is not PARKED
    attention            integer, -- the state, where it is not COMPLETED
    effect_unknown       integer,
    updated_at           integer, -- empty: granted_at
    closed_at            integer, -- empty: updated_at, where the claim is closed
    parked_at            integer, -- empty: updated_at, where it is PARKED
    retain_until         integer, -- empty: what the terms of the grant say
    result               blob,
    id                   text,
    owner                text,
    fingerprint          blob,
    traceparent          blob,
    last_error           text,
    history              text,
    checkpoint           blob
);

CREATE INDEX entries_by_consumer ON entries (consumer, created_at);
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
CREATE INDEX audit_by_time ON audit (at, request_id);
CREATE INDEX audit_by_consumer ON audit (consumer, at, request_id);
CREATE INDEX audit_by_key ON audit (key, at, request_id);

-- What the purge of each server did.
CREATE TABLE purges (
    replica           blob PRIMARY KEY,
    last_run_at       integer NOT NULL,
    purged_total      integer NOT NULL,
    purged_per_second real NOT NULL,
    last_error        text,
    last_error_at     integer
);

-- The replicas that were heard of, and the newest feature that each knows, formats of policies included: a policy
-- that one of them could not read is not written while it is at work.
CREATE TABLE replicas (
    replica  blob PRIMARY KEY,
    heard_at integer NOT NULL,
    speaks   integer NOT NULL,
    version  text NOT NULL
);
