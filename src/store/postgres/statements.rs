//! Every statement that is sent to Postgres. The first line of each is its name in
//! `pg_stat_statements` and in logs.

use super::super::row::columns;

/// What a fresh connection is told. The plans of the hot statements are pinned: on a table that
/// was never analysed the planner would otherwise read all of a consumer's rows for one key, and on a
/// large one start workers for a few rows.
///
/// A pinned plan is kept until the next ANALYZE, so that it must be right for every later size of the table, also
/// where it was made for a few rows or none. Two rules of the statements by key see to that:
///
/// - `e.key = ANY (ARRAY[r.key])` in place of `e.key = r.key`. The planner reads all of an index in the order of
///   the key where it could merge by an equality. It merges by no `ANY`.
/// - `e.created_at >= ANY (ARRAY[0 * …])` is always true: no clock stands before 1970. Other indexes hold the key
///   behind other columns, and on a table of one row or none the planner finds them as cheap as the primary key.
///   This makes those that begin with other columns cost more, and the primary key not. It names the same
///   relation as the comparison of the key, so that it is never of use alone.
///
/// Keys are looked up one by one, from `unnest`: ten look-ups at once seem dearer than all of a small index.
pub const SETTINGS: &str = "\
SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off; \
SET enable_mergejoin = off; SET jit = off; SET max_parallel_workers_per_gather = 0; \
SET idle_in_transaction_session_timeout = '10s'; SET timezone = 'UTC'";

/// What ends the locks of a server that is gone without a word. Not every operating system knows all of them.
pub(super) const WATCHES: &str = "\
SET client_connection_check_interval = '5s'; SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; \
SET tcp_keepalives_count = 3; SET tcp_user_timeout = '15s'";

/// A write that touches no row, so that it waits for no lock; like every commit it waits for the standbys.
pub(super) const PROVE: &str = "\
-- ledger.prove
SELECT pg_logical_emit_message(true, 'idempotency-ledger', 'a session begins') IS NOT NULL";

/// The names of an entry's consumer and source. `OFFSET 0` keeps the planner from joining from the side of the
/// names, which would make an index of entries that begins with their consumer seem of use.
macro_rules! names {
    () => {
        "JOIN LATERAL (SELECT c.name FROM ledger.consumers c WHERE c.no = e.consumer OFFSET 0) n ON true
           JOIN LATERAL (SELECT c.name FROM ledger.sources c WHERE c.no = e.source OFFSET 0) s ON true"
    };
}
pub(super) use names;

pub(super) const TRUST: &str = "\
-- ledger.trust
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS read_only,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('synchronous_standby_names') AS standbys,
       current_setting('fsync')::boolean AS fsync,
       current_setting('server_version_num')::int AS version,
       to_regclass('ledger.meta') IS NOT NULL AS migrated,
       pg_backend_pid() AS pid,
       (SELECT (extract(epoch FROM a.backend_start) * 1000000)::bigint
        FROM pg_stat_get_activity(pg_backend_pid()) a) AS started";

pub(super) const SCHEMA: &str = "\
-- ledger.schema
SELECT coalesce(max(version), 0) AS version FROM _sqlx_migrations WHERE success";

pub(super) const LOAD: &str = concat!(
    "-- ledger.load
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS clock_now, token_offset, clock_mark FROM ledger.meta)
SELECT c.clock_now, c.token_offset, c.clock_mark, ",
    columns!(),
    "
FROM clock c
LEFT JOIN (unnest($1::uuid[]) WITH ORDINALITY AS r(key, place)
           JOIN ledger.entries e ON e.key = ANY (ARRAY[r.key]) AND e.created_at >= ANY (ARRAY[0 * r.place])
           ",
    names!(),
    ") ON true"
);

pub(super) const INSERT: &str = "\
-- ledger.insert
WITH clock AS MATERIALIZED (
    SELECT now AS clock_now, now + token_offset AS token_clock, token_offset, clock_mark
    FROM (SELECT ledger.clock() AS now, token_offset, clock_mark FROM ledger.meta OFFSET 0) AS reading
), fresh AS (
    INSERT INTO ledger.entries AS e (
        key, version, token, granted_at, lease_until, grace, hold_until, retention, not_before, sweep_at,
        created_at, updated_at, retain_until, claim_id, consumer, source, policy_version, attempts,
        state, cause, closed_by, on_expiry, rearmed, effect_started, prior_effect_started, effect_unknown,
        id, principal, owner, traceparent, fingerprint)
    SELECT r.key, c.token_clock - c.token_clock % 1000, c.token_clock + r.token, c.clock_now + r.at,
           c.clock_now + r.lease_until, r.grace, c.clock_now + r.hold_until, r.retention,
           c.clock_now + r.at, c.clock_now + r.sweep_at,
           c.clock_now + r.at - (c.clock_now + r.at) % 1000, c.clock_now + r.at,
           c.clock_now + r.retain_until, r.claim_id, r.consumer, r.source,
           r.policy_version, 1, 2, 0, 0, r.on_expiry, false, false, false, false,
           r.id, r.principal, r.owner, r.traceparent, r.fingerprint
    FROM clock c
    CROSS JOIN unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                      $9::bigint[], $10::bigint[], $11::bigint[], $12::uuid[], $13::int[], $14::int[],
                      $15::int[], $16::smallint[], $17::text[], $18::text[], $19::text[], $20::text[],
                      $21::bytea[])
         AS r(key, token, at, lease_until, grace, hold_until, retention, sweep_at, retain_until, claim_id,
              consumer, source, policy_version, on_expiry, id, principal, owner, traceparent, fingerprint)
    WHERE c.token_clock >= greatest(c.clock_mark, $1) AND c.clock_now <= $2
    ORDER BY r.key
    ON CONFLICT (key) DO NOTHING
    RETURNING e.key, e.token
)
SELECT c.clock_now, c.token_offset, c.clock_mark, f.key, f.token
FROM clock c LEFT JOIN fresh f ON true";

pub(super) const COMPLETE: &str = "\
-- ledger.complete
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS now)
UPDATE ledger.entries e
SET version = e.version + 1, state = 4, closed_by = 1, attention = NULL, closed_at = c.now, updated_at = c.now,
    retain_until = c.now + greatest(e.retention, r.retention), effect_unknown = false, result = r.result
FROM clock c CROSS JOIN unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bytea[])
     AS r(key, token, retention, result)
WHERE e.key = ANY (ARRAY[r.key]) AND e.created_at >= ANY (ARRAY[0 * r.token])
  AND e.token = r.token AND e.state = 2
RETURNING e.key, e.lease_until <= c.now AS late";

/// What may be written only until an instant is not written after it: a grant, by policies that may have changed.
pub(super) const REPLACE: &str = "\
-- ledger.replace
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS now FROM ledger.meta)
UPDATE ledger.entries e
SET version = e.version + 1, token = r.token, granted_at = r.granted_at, lease_until = r.lease_until,
    grace = r.grace, hold_until = r.hold_until, retention = r.retention, not_before = r.not_before,
    sweep_at = r.sweep_at, updated_at = r.updated_at, closed_at = r.closed_at, parked_at = r.parked_at,
    retain_until = r.retain_until, claim_id = r.claim_id, policy_version = r.policy_version,
    attempts = r.attempts, state = r.state, cause = r.cause, closed_by = r.closed_by,
    on_expiry = r.on_expiry, attention = r.attention, rearmed = r.rearmed,
    effect_started = r.effect_started, prior_effect_started = r.prior_effect_started,
    effect_unknown = r.effect_unknown, principal = r.principal, owner = r.owner,
    last_error = r.last_error, history = r.history, fingerprint = r.fingerprint, result = r.result,
    checkpoint = r.checkpoint
FROM clock c CROSS JOIN
     unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
            $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[],
            $14::bigint[], $15::uuid[], $16::int[], $17::int[], $18::smallint[], $19::smallint[],
            $20::smallint[], $21::smallint[], $22::smallint[], $23::boolean[], $24::boolean[],
            $25::boolean[], $26::boolean[], $27::text[], $28::text[], $29::text[], $30::text[],
            $31::bytea[], $32::bytea[], $33::bytea[], $34::bigint[])
     AS r(key, version, token, granted_at, lease_until, grace, hold_until, retention, not_before, sweep_at,
          updated_at, closed_at, parked_at, retain_until, claim_id, policy_version, attempts, state, cause,
          closed_by, on_expiry, attention, rearmed, effect_started, prior_effect_started, effect_unknown,
          principal, owner, last_error, history, fingerprint, result, checkpoint, until)
WHERE e.key = ANY (ARRAY[r.key]) AND e.created_at >= ANY (ARRAY[0 * r.version]) AND e.version = r.version - 1
  AND c.now <= r.until
RETURNING e.key";

/// It changes no row: it only takes the free locks for a moment. The version is asked for since no index holds
/// it: the key alone would be read from all of an index that holds it behind other columns.
pub(super) const LOCKED: &str = "\
-- ledger.locked
SELECT e.key, e.version
FROM unnest($1::uuid[]) WITH ORDINALITY AS r(key, place)
JOIN ledger.entries e ON e.key = ANY (ARRAY[r.key]) AND e.created_at >= ANY (ARRAY[0 * r.place])
WHERE e.key NOT IN (
    SELECT f.key FROM unnest($1::uuid[]) WITH ORDINALITY AS r(key, place)
    JOIN ledger.entries f ON f.key = ANY (ARRAY[r.key]) AND f.created_at >= ANY (ARRAY[0 * r.place])
    FOR NO KEY UPDATE OF f SKIP LOCKED)";

pub(super) const DUE: &str = concat!(
    "-- ledger.due
SELECT ",
    columns!(),
    "
FROM ledger.entries e ",
    names!(),
    "
WHERE e.sweep_at <= $1
ORDER BY e.sweep_at LIMIT $2"
);

pub(super) const LOOK_AGAIN: &str = "\
-- ledger.look_again
UPDATE ledger.entries e SET sweep_at = r.sweep_at
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS r(key, version, sweep_at)
WHERE e.key = ANY (ARRAY[r.key]) AND e.created_at >= ANY (ARRAY[0 * r.version]) AND e.version = r.version";

pub(super) const CONSUMERS_ADD: &str = "\
-- ledger.consumers_add
INSERT INTO ledger.consumers (no, name)
SELECT coalesce((SELECT max(no) FROM ledger.consumers), 0) + row_number() OVER (), r.name
FROM unnest($1::text[]) AS r(name)
WHERE NOT EXISTS (SELECT 1 FROM ledger.consumers n WHERE n.name = r.name)
ON CONFLICT DO NOTHING";

pub(super) const CONSUMERS_FIND: &str = "\
-- ledger.consumers_find
SELECT name, no FROM ledger.consumers WHERE name = ANY ($1::text[])";

pub(super) const SOURCES_ADD: &str = "\
-- ledger.sources_add
INSERT INTO ledger.sources (no, name)
SELECT coalesce((SELECT max(no) FROM ledger.sources), 0) + row_number() OVER (), r.name
FROM unnest($1::text[]) AS r(name)
WHERE NOT EXISTS (SELECT 1 FROM ledger.sources n WHERE n.name = r.name)
ON CONFLICT DO NOTHING";

pub(super) const SOURCES_FIND: &str = "\
-- ledger.sources_find
SELECT name, no FROM ledger.sources WHERE name = ANY ($1::text[])";

pub(super) const EFFECTIVE_RETENTIONS: &str = "\
-- ledger.effective_retentions
SELECT name, retention, window_floor FROM ledger.consumers
WHERE retention IS NOT NULL OR window_floor > 0";

/// All consumers first, by their names, and then the number: whoever changes rules takes the locks in this order.
pub(super) const PUT_IN_FORCE: &str = "\
-- ledger.put_in_force
WITH changed AS (
    UPDATE ledger.consumers n
    SET retention = r.retention, window_floor = greatest(n.window_floor, r.window_floor)
    FROM (SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
                   AS u(name, retention, window_floor, seen_retention, seen_floor)
          ORDER BY name) AS r
    WHERE n.name = r.name
      AND ($6 OR (n.retention IS NOT DISTINCT FROM r.seen_retention AND n.window_floor = r.seen_floor))
      AND (n.retention IS DISTINCT FROM r.retention OR n.window_floor < r.window_floor)
    RETURNING n.no
), counted AS MATERIALIZED (
    SELECT count(*) AS changed FROM changed
), raised AS (
    UPDATE ledger.meta SET rules = greatest(rules + 1, ledger.clock())
    FROM counted c WHERE c.changed > 0
)
SELECT changed FROM counted";

/// Writers queue up behind the lock that follows: they must not wait for long.
pub(super) const OFFSET_WAIT: &str = "\
-- ledger.offset_wait
SET LOCAL lock_timeout = '200ms'";

pub(super) const OFFSET_LOCK: &str = "\
-- ledger.offset_lock
LOCK TABLE ledger.entries IN SHARE MODE";

pub(super) const OFFSET_RAISE: &str = "\
-- ledger.offset_raise
UPDATE ledger.meta SET token_offset = $2 WHERE token_offset = $1 AND $2 > $1";

pub(super) const AUDIT_ADD: &str = "\
-- ledger.audit_add
INSERT INTO ledger.audit (request_id, at, actor, action, consumer, key, reason, before, after)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (request_id) DO NOTHING";

pub(super) const AUDITED: &str = "\
-- ledger.audited
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM ledger.audit WHERE request_id = $1";

/// What follows the prefix in the ids of an operation's entries are the 32 digits of a hash: all below the tilde.
pub(super) const COUNT_REDRIVEN: &str = "\
-- ledger.count_redriven
SELECT count(*) FROM ledger.audit
WHERE request_id > $1 AND request_id < $1 || '~'
  AND action = 'REDRIVE' AND length(request_id) = length($1) + 32";

pub(super) const AUDIT: &str = "\
-- ledger.audit
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM ledger.audit WHERE (at, request_id) < ($1, $2)
ORDER BY at DESC, request_id DESC LIMIT $3";

pub(super) const AUDIT_OF_CONSUMER: &str = "\
-- ledger.audit_of_consumer
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM ledger.audit WHERE consumer = $4 AND (at, request_id) < ($1, $2)
ORDER BY at DESC, request_id DESC LIMIT $3";

pub(super) const AUDIT_OF_ENTRY: &str = "\
-- ledger.audit_of_entry
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM ledger.audit WHERE key = $4 AND (at, request_id) < ($1, $2)
ORDER BY at DESC, request_id DESC LIMIT $3";

/// An event never changes: what is found old is old.
pub(super) const AUDIT_PURGE: &str = "\
-- ledger.audit_purge
DELETE FROM ledger.audit
WHERE request_id IN (SELECT a.request_id FROM ledger.audit a WHERE a.at < $1
                     ORDER BY a.at, a.request_id LIMIT $2 FOR UPDATE SKIP LOCKED)";

pub(super) const POLICY_ADD: &str = "\
-- ledger.policy_add
INSERT INTO ledger.policies (consumer, version, policy, deleted, created_at, actor, reason)
SELECT n.no, $2::int, $3::text, $4::boolean, $5::bigint, $6::text, $7::text
FROM ledger.consumers n
WHERE n.name = $1
  AND $2::int = 1 + coalesce((SELECT max(p.version) FROM ledger.policies p WHERE p.consumer = n.no), 0)
ON CONFLICT DO NOTHING";

pub(super) const POLICIES: &str = "\
-- ledger.policies
SELECT n.name AS consumer, p.version, p.policy, p.deleted, p.created_at, p.actor, p.reason
FROM ledger.policies p JOIN ledger.consumers n ON n.no = p.consumer
WHERE p.version = (SELECT max(q.version) FROM ledger.policies q WHERE q.consumer = p.consumer)
ORDER BY n.name";

pub(super) const POLICY_VERSIONS: &str = "\
-- ledger.policy_versions
SELECT n.name AS consumer, p.version, p.policy, p.deleted, p.created_at, p.actor, p.reason
FROM ledger.policies p JOIN ledger.consumers n ON n.no = p.consumer
WHERE n.name = $1 AND p.version < $2
ORDER BY p.version DESC LIMIT $3";
