//! Settings and statements of connections. The first line of each statement is its name in `pg_stat_statements` and in logs.

/// Settings of a new connection. They pin the plans of the hot statements (generic plans): on a table that was never analysed,
/// the planner would otherwise read all rows of a consumer for one key, and on a large one start parallel workers for a few
/// rows.
///
/// A pinned plan is kept until the next ANALYZE, so it must be right for every later size of the table, even if it was made for
/// an almost empty one. So the statements by key use `e.key = ANY (ARRAY[r.key])` instead of `e.key = r.key`: for an equality
/// the planner may choose a merge join, which scans a whole index in the order of the key; `ANY` cannot be merged. No other
/// index with the key fits these statements: the others are partial.
///
/// Keys are looked up one by one, from `unnest`: the planner estimates ten look-ups in one scan as dearer than a scan of a small
/// index.
pub const SETTINGS: &str = "\
SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off; \
SET enable_mergejoin = off; SET jit = off; SET max_parallel_workers_per_gather = 0; \
SET idle_in_transaction_session_timeout = '10s'; SET idle_session_timeout = 0; SET timezone = 'UTC'";

/// Settings of a session of the inbox. A server that stops between the statements of a handout keeps its row locks for a second:
/// only calls for these very keys wait meanwhile. Why hash joins: `inbox_statements.rs`.
pub(super) const INBOX_SETTINGS: &str = "\
SET idle_in_transaction_session_timeout = '1s'; SET enable_hashjoin = on; SET enable_nestloop = off";

/// Disables `transaction_timeout`, which exists from Postgres 17 on.
pub(super) const NO_TRANSACTION_TIMEOUT: &str = "\
SELECT set_config('transaction_timeout', '0', false)
WHERE current_setting('transaction_timeout', true) IS NOT NULL";

/// The first statement of `migrate`: the timeout of its role may be too short for any other statement.
pub(super) const NO_STATEMENT_TIMEOUT: &str = "SET statement_timeout = 0";

/// Settings of the connection of `migrate`: timeouts of the role must not end it within or between statements. Every wait for a
/// lock is bounded, in case a forgotten transaction holds it; migrations have shorter bounds.
pub(super) const OWNER_SETTINGS: &str = "\
SET idle_session_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '5s'";

/// Settings that detect a client that is gone, and so end the session, and the locks, of a server that vanished. Not every operating system
/// supports all of them.
pub(super) const WATCHES: &str = "\
SET client_connection_check_interval = '5s'; SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; \
SET tcp_keepalives_count = 3; SET tcp_user_timeout = '15s'";

/// The backend and server of a transaction behind a pooler.
pub(super) const BEGUN: &str = "\
-- ledger.begun
SELECT pg_backend_pid() AS pid, (extract(epoch FROM now()) * 1000000)::bigint AS started,
       (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS server_started,
       CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
            THEN set_config('transaction_timeout', '0', true) END AS without_timeout";

/// A write that touches no row and so does not wait for a lock; like every commit it waits for the synchronous standbys.
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

/// Reads the key format of the schema: 1 if it has no column for it.
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
