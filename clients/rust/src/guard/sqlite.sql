-- The guard of effects in a database of your own: see docs/effects.md. For SQLite 3.24 or newer.
--
-- Create it in the file that the effects are in. The column types bind nothing here, and the collation BINARY, which
-- is that of every column without another one, compares bytes. The file must not be on a network's file system.

CREATE TABLE effect_guard (
    idempotency_key char(36)     NOT NULL, -- of `acquired`
    replay_run      varchar(64)  NOT NULL DEFAULT '', -- empty: live
    consumer        varchar(128) NOT NULL,
    source          varchar(256) NOT NULL,
    id              varchar(512) NOT NULL,
    token           bigint       NOT NULL, -- of the attempt that had the effect
    result          blob, -- what Complete is given; empty only while the transaction is under way
    done_at         text         NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')), -- UTC
    PRIMARY KEY (idempotency_key, replay_run)
) WITHOUT ROWID;
CREATE INDEX effect_guard_done_at ON effect_guard (done_at);

-- Rows must live longer than max_hold + max_redelivery_window + the longest pause that a process may survive
-- (a stopped or suspended machine). With a max_hold of a day, a window of 14 days and a pause of a day that is more
-- than 16 days. Too long costs disk; too short costs a second effect. To delete old rows, run this again until it
-- deletes none; each run is one short transaction:
--
-- delete old rows: begin
-- DELETE FROM effect_guard WHERE (idempotency_key, replay_run) IN (
--     SELECT idempotency_key, replay_run FROM effect_guard
--     WHERE done_at < strftime('%Y-%m-%d %H:%M:%f', 'now', '-30 days') ORDER BY done_at LIMIT 1000);
-- delete old rows: end
