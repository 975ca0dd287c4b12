-- The guard of effects in a database of your own: see docs/effects.md. For MySQL 8.0.13 and MariaDB 10.2, or newer.
--
-- Create it in the database that the effects are in, by the migrations of your service. It and every table that an
-- effect writes to must be InnoDB: other engines do not roll back.
--
-- Text is compared by its collation here, mostly without regard to upper and lower case, and often without regard to
-- spaces at the end: utf8mb4_bin and ascii_bin ignore those too. So the names are varbinary: bytes. What the key has
-- is ASCII without spaces, which ascii_bin compares as bytes. Add no unique key on the names: as utf8mb4 they would be
-- (128 + 256 + 512) * 4 = 3584 bytes long, and an index holds 3072, or 767 a column in old row formats. This key
-- has 100.

CREATE TABLE effect_guard (
    idempotency_key char(36)    CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- of `acquired`
    replay_run      varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- empty: live
    consumer        varbinary(128) NOT NULL,
    source          varbinary(256) NOT NULL,
    id              varbinary(512) NOT NULL,
    token           bigint         NOT NULL, -- of the attempt that had the effect
    result          longblob, -- what Complete is given; empty only while the transaction is under way
    done_at         datetime(6)    NOT NULL DEFAULT (utc_timestamp(6)),
    PRIMARY KEY (idempotency_key, replay_run),
    KEY effect_guard_done_at (done_at)
) ENGINE = InnoDB;

-- Rows must live longer than max_hold + max_redelivery_window + the longest pause that a process may survive
-- (a stopped or suspended machine, a statement on its way through a network that stalls). With a max_hold of a day,
-- a window of 14 days and a pause of a day that is more than 16 days. Too long costs disk; too short costs a second
-- effect. To delete old rows, run this again until it deletes none; each run is one short transaction:
--
-- delete old rows: begin
-- DELETE FROM effect_guard WHERE done_at < utc_timestamp(6) - INTERVAL 30 DAY ORDER BY done_at LIMIT 1000;
-- delete old rows: end
