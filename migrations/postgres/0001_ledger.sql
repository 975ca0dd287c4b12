-- The ledger. Instants are microseconds since the Unix epoch of this database's clock; spans are
-- microseconds. The numbers of states, causes and the like are those of the protobuf enums.

-- The one clock: nothing but this function tells the time.
CREATE FUNCTION ledger.clock() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- One row. clock_mark is the highest reading of clock + token_offset that was ever written down; policy_epoch
-- counts the changes of what is in force: the purge takes nothing by older rules. serves_from is the lowest schema
-- version a binary may have been made for, level the newest feature that is in use: see docs/changing.md.
-- audit_kept_for is how long events of the audit are kept at least, whatever the role of a server asks for.
CREATE TABLE ledger.meta (
    one          smallint PRIMARY KEY CHECK (one = 1),
    token_offset bigint NOT NULL,
    clock_mark   bigint NOT NULL,
    policy_epoch bigint NOT NULL,
    serves_from  integer NOT NULL DEFAULT 1,
    level        integer NOT NULL DEFAULT 1,
    audit_kept_for bigint NOT NULL DEFAULT 86400000000
);
INSERT INTO ledger.meta (one, token_offset, clock_mark, policy_epoch) VALUES (1, 0, 0, 0);

-- What repeats in entries is a number there. The consumer with the empty name stands for the default policy.
-- `retention` is the effective one as last put in force. Up to the mark, which follows a minute behind, every
-- claim that is still open is in the index of what operators look for. The purge has looked at every entry that was
-- created up to purge_passed once, and is at purge_again with looking at those that it left: see
-- src/ledger/upkeep/purge.rs. A server takes a consumer's turn when it is due and nobody holds it. A change of what is
-- in force makes it due, and ends a turn that is held.
CREATE TABLE ledger.consumers (
    no           integer PRIMARY KEY,
    name         text COLLATE "C" NOT NULL UNIQUE,
    retention    bigint,
    window_floor bigint NOT NULL DEFAULT 0,
    marked_at    bigint NOT NULL DEFAULT 0,
    marked_key   uuid   NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    purge_due    bigint NOT NULL DEFAULT 0,
    purge_held   bigint NOT NULL DEFAULT 0, -- until this instant
    purge_passed bigint NOT NULL DEFAULT 0,
    purge_again  bigint NOT NULL DEFAULT 0,
    purge_again_due bigint NOT NULL DEFAULT 0
);
CREATE TABLE ledger.sources (
    no   integer PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);
CREATE TABLE ledger.principals (
    no   integer PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

-- The terms of grants: what a policy said then, as far as an entry goes by it for the rest of its claim's life.
CREATE TABLE ledger.terms (
    no                  integer PRIMARY KEY,
    policy_version      integer NOT NULL,
    grace               bigint NOT NULL,
    max_hold            bigint NOT NULL,
    on_expiry           smallint NOT NULL,
    retention           bigint NOT NULL,
    failed_retention    bigint NOT NULL,
    abandoned_retention bigint NOT NULL,
    UNIQUE (policy_version, grace, max_hold, on_expiry, retention, failed_retention, abandoned_retention)
);

-- A column that may be empty is empty where its value follows from others: so is nearly all of a claim that is
-- granted and completed once. First stands what a completion leaves as it is, then what it changes, then what it
-- leaves again: Postgres logs only what lies between.
CREATE TABLE ledger.entries (
    key                  uuid PRIMARY KEY, -- a hash of consumer, source and id: see src/domain/key.rs
    claim_id             uuid,
    id_uuid              uuid, -- the id where it is a UUID in canonical form; then id is empty
    created_at           bigint NOT NULL,
    token                bigint NOT NULL,
    lease_until          bigint NOT NULL,
    granted_at           bigint, -- empty: created_at
    not_before           bigint, -- empty: granted_at
    consumer             integer NOT NULL,
    source               integer NOT NULL,
    principal            integer,
    terms                integer NOT NULL,
    attempts             integer NOT NULL,
    rearmed              boolean, -- empty, here and below: no
    effect_started       boolean,
    prior_effect_started boolean,
    version              bigint NOT NULL,
    state                smallint NOT NULL,
    closed_by            smallint NOT NULL,
    cause                smallint, -- empty where it is not PARKED
    attention            smallint, -- the state, where it is not COMPLETED; empty too for a first claim that is young
    effect_unknown       boolean,
    updated_at           bigint, -- empty: granted_at
    closed_at            bigint, -- empty: updated_at, where the claim is closed
    parked_at            bigint, -- empty: updated_at, where it is PARKED
    retain_until         bigint, -- empty: what the terms of the grant say
    result               bytea,
    id                   text COLLATE "C",
    owner                text,
    fingerprint          bytea,
    traceparent          bytea,
    last_error           text,
    history              text,
    checkpoint           bytea
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- No index holds a column that a claim's completion changes: completions stay heap-only updates. The one
-- exception is `attention`: a first claim has none until it is a minute old, or changed.
CREATE INDEX entries_by_consumer ON ledger.entries (consumer, created_at);
CREATE INDEX entries_attention ON ledger.entries (consumer, attention, created_at, key)
    INCLUDE (cause, attempts) WHERE attention IS NOT NULL;

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
CREATE INDEX audit_by_time ON ledger.audit (at, request_id);
CREATE INDEX audit_by_consumer ON ledger.audit (consumer, at, request_id);
CREATE INDEX audit_by_key ON ledger.audit (key, at, request_id);

-- Forgets the oldest events from before an instant: the owner's, so that nobody else needs the right to delete one.
CREATE FUNCTION ledger.forget_audit(before bigint, at_most bigint) RETURNS bigint
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
WITH gone AS (
    DELETE FROM ledger.audit
    WHERE request_id IN (
        SELECT a.request_id FROM ledger.audit a
        WHERE a.at < (SELECT least($1, ledger.clock() - audit_kept_for) FROM ledger.meta)
        ORDER BY a.at, a.request_id LIMIT $2 FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM gone
$$;

-- What the purge of each server did.
CREATE TABLE ledger.purges (
    replica           uuid PRIMARY KEY,
    last_run_at       bigint NOT NULL,
    purged_total      bigint NOT NULL,
    purged_per_second double precision NOT NULL,
    last_error        text,
    last_error_at     bigint
);

-- The replicas that were heard of, and the newest feature that each knows, formats of policies included: a policy
-- that one of them could not read is not written while it is at work. Each replica writes its own row with
-- every heartbeat, and waits for nobody there.
CREATE TABLE ledger.replicas (
    replica  uuid PRIMARY KEY,
    heard_at bigint NOT NULL,
    speaks   integer NOT NULL,
    version  text NOT NULL
) WITH (fillfactor = 50);
