//! Every statement that is sent to Postgres. The first line of each is its name in
//! `pg_stat_statements` and in logs.

/// What a fresh connection is told. The plans of the hot statements are pinned: on a table that
/// was never analysed the planner would otherwise read all of a consumer's rows for one key, and on a
/// large one start workers for a few rows.
///
/// A pinned plan is kept until the next ANALYZE, so that it must be right for every later size of the table, also
/// where it was made for a few rows or none. So the statements by key say `e.key = ANY (ARRAY[r.key])` in place of
/// `e.key = r.key`: the planner reads all of an index in the order of the key where it could merge by an equality,
/// and it merges by no `ANY`. No other index that holds the key is of use to them: it holds a part of the rows.
///
/// Keys are looked up one by one, from `unnest`: ten look-ups at once seem dearer than all of a small index.
pub const SETTINGS: &str = "\
SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off; \
SET enable_mergejoin = off; SET jit = off; SET max_parallel_workers_per_gather = 0; \
SET idle_in_transaction_session_timeout = '10s'; SET idle_session_timeout = 0; SET timezone = 'UTC'";

/// Postgres 17 ends transactions by this setting, older ones do not know it.
pub(super) const NO_TRANSACTION_TIMEOUT: &str = "\
SELECT set_config('transaction_timeout', '0', false)
WHERE current_setting('transaction_timeout', true) IS NOT NULL";

/// The first statement of `migrate`: the timeout of its role may be too short for any other one.
pub(super) const NO_STATEMENT_TIMEOUT: &str = "SET statement_timeout = 0";

/// Settings of the connection of `migrate`: a role's settings must not end it between two statements or amid one. No
/// statement waits without a bound for a lock that a forgotten transaction holds; migrations have shorter bounds.
pub(super) const OWNER_SETTINGS: &str = "\
SET idle_session_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '5s'";

/// What ends the locks of a server that is gone without a word. Not every operating system knows all of them.
pub(super) const WATCHES: &str = "\
SET client_connection_check_interval = '5s'; SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; \
SET tcp_keepalives_count = 3; SET tcp_user_timeout = '15s'";

/// Whose transaction it is, where a pooler chooses.
pub(super) const BEGUN: &str = "\
-- ledger.begun
SELECT pg_backend_pid() AS pid, (extract(epoch FROM now()) * 1000000)::bigint AS started,
       (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS server_started,
       CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
            THEN set_config('transaction_timeout', '0', true) END AS without_timeout";

/// A write that touches no row, so that it waits for no lock; like every commit it waits for the standbys.
pub(super) const PROVE: &str = "\
-- ledger.prove
SELECT pg_logical_emit_message(true, 'idempotency-ledger', 'a session begins') IS NOT NULL";

pub(super) const TRUST: &str = "\
-- ledger.trust
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS read_only,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('synchronous_standby_names') AS standbys,
       current_setting('fsync')::boolean AS fsync,
       current_setting('server_version_num')::int AS version,
       current_setting('server_encoding') AS encoding,
       (SELECT d.datistemplate FROM pg_database d WHERE d.datname = current_database()) AS template,
       current_database()::text AS database,
       to_regclass('ledger.migrations') IS NOT NULL AS migrated,
       pg_backend_pid() AS pid,
       (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS server_started,
       (SELECT (extract(epoch FROM a.backend_start) * 1000000)::bigint
        FROM pg_stat_get_activity(pg_backend_pid()) a) AS started";

/// A schema from before the column is of format 1.
pub(super) const KEY_FORMAT: &str = "\
-- ledger.key_format
SELECT coalesce((to_jsonb(m) ->> 'key_format')::integer, 1) AS key_format,
       EXISTS (SELECT 1 FROM ledger.entries) AS has_entries
FROM ledger.meta m";

pub(super) const SCHEMA: &str = "\
-- ledger.schema
SELECT serves_from, level,
       (SELECT coalesce(max(m.version), 0) FROM ledger.migrations m WHERE m.success) AS version
FROM ledger.meta";
