-- The guard of effects in a database of your own: see docs/effects.md. For PostgreSQL, 11 or newer.
--
-- Create it in the database (not merely the server) that the effects are in, by the migrations of your service.
-- The names have the ledger's limits (128, 256 and 512 bytes): `varchar` counts characters, so all of them fit.
-- COLLATE "C" compares bytes, whatever the database's own collation is. The database's encoding must be UTF8.

CREATE TABLE effect_guard (
    idempotency_key char(36)     COLLATE "C" NOT NULL, -- of `acquired`
    replay_run      varchar(64)  COLLATE "C" NOT NULL DEFAULT '', -- empty: live
    consumer        varchar(128) COLLATE "C" NOT NULL,
    source          varchar(256) COLLATE "C" NOT NULL,
    id              varchar(512) COLLATE "C" NOT NULL,
    token           bigint       NOT NULL, -- of the attempt that had the effect
    result          bytea, -- what Complete is given; empty only while the transaction is under way
    done_at         timestamptz  NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (idempotency_key, replay_run)
);
CREATE INDEX effect_guard_done_at ON effect_guard (done_at);

-- Rows must live longer than max_hold + max_redelivery_window + the longest pause that a process may survive
-- (a stopped or suspended machine, a statement on its way through a network that stalls). With a max_hold of a day,
-- a window of 14 days and a pause of a day that is more than 16 days. Too long costs disk; too short costs a second
-- effect. To delete old rows, run this again until it deletes none; each run is one short transaction:
--
-- delete old rows: begin
-- DELETE FROM effect_guard WHERE (idempotency_key, replay_run) IN (
--     SELECT idempotency_key, replay_run FROM effect_guard
--     WHERE done_at < now() - interval '30 days' ORDER BY done_at LIMIT 1000);
-- delete old rows: end
