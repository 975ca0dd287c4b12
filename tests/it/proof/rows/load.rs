//! Fills the table by SQL, as the ledger would have written it.

use sqlx::{AssertSqlSafe, Executor as _, Row as _};

use crate::harness::postgres::Cluster;

/// Until the table is filled nothing has to survive a crash; nobody vacuums or analyses behind our back.
pub(super) const SETTINGS: &str = "fsync = off\nfull_page_writes = off\nwal_level = minimal\nmax_wal_senders = 0\n\
    max_wal_size = 2GB\ncheckpoint_timeout = 1h\nautovacuum = off\nshared_buffers = 256MB";

pub(super) const CONSUMERS: u64 = 50;
/// How many entries the purge finds due, at the most.
const DUE: u64 = 5_000;

/// As an operator does it.
pub(super) async fn migrate(cluster: &Cluster) {
    let url = cluster.url("postgres");
    let migrate = move || {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_idempotency-ledger"));
        command.args(["migrate", "--database-url", &url]).output().unwrap()
    };
    let done = tokio::task::spawn_blocking(migrate).await.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Days of entries, the oldest of them due; of a hundred 99 are COMPLETED. Without its indexes the table is
/// filled at once and then indexed, and without statistics at the end.
pub(super) async fn fill(cluster: &Cluster, rows: u64, seed: u64) {
    let mut connection = cluster.connect("postgres").await;
    let due = DUE.min(rows / 10);
    let definitions = connection
        .fetch_all(
            "SELECT indexname, indexdef, indexname = 'entries_pkey' AS is_primary FROM pg_indexes
             WHERE schemaname = 'ledger' AND tablename = 'entries'",
        )
        .await
        .unwrap();
    let mut statements = vec![
        "SET maintenance_work_mem = '512MB'".to_owned(),
        "SET max_parallel_maintenance_workers = 1".to_owned(),
        "CREATE TEMP TABLE era AS SELECT ledger.clock() - 60000000 AS until, 7 * 86400000000 AS retention"
            .to_owned(),
        format!(
            "INSERT INTO ledger.consumers (no, name, marked_at, marked_key)
             SELECT n, 'consumer-' || lpad(n::text, 2, '0'), era.until, 'ffffffff-ffff-ffff-ffff-ffffffffffff'
             FROM era, generate_series(1, {CONSUMERS}) AS n"
        ),
        "INSERT INTO ledger.sources (no, name) SELECT n, 'shop-' || n FROM generate_series(1, 3) AS n"
            .to_owned(),
        "INSERT INTO ledger.principals (no, name) VALUES (1, 'anonymous')".to_owned(),
        "INSERT INTO ledger.terms (no, policy_version, grace, max_hold, on_expiry, retention, failed_retention,
                                   abandoned_retention)
         SELECT 1, 0, 1000000, 86400000000, 1, retention, 30 * 86400000000, 30 * 86400000000 FROM era"
            .to_owned(),
        "ALTER TABLE ledger.entries DROP CONSTRAINT entries_pkey".to_owned(),
    ];
    let mut indexes =
        vec!["ALTER TABLE ledger.entries ADD CONSTRAINT entries_pkey PRIMARY KEY (key)".to_owned()];
    for row in &definitions {
        if !row.get::<bool, _>("is_primary") {
            statements.push(format!("DROP INDEX ledger.{}", row.get::<String, _>("indexname")));
            indexes.push(row.get("indexdef"));
        }
    }
    // A table that this very transaction has emptied needs no log.
    statements.push("BEGIN".to_owned());
    statements.push("TRUNCATE ledger.entries".to_owned());
    statements.push(entries(rows, due, seed));
    statements.push("COMMIT".to_owned());
    statements.append(&mut indexes);
    // What the making of the indexes has found out by the way is forgotten again.
    statements.push(
        "UPDATE pg_class SET reltuples = -1, relpages = 0, relallvisible = 0
         WHERE oid IN (SELECT 'ledger.entries'::regclass UNION ALL
                       SELECT indexrelid FROM pg_index WHERE indrelid = 'ledger.entries'::regclass)"
            .to_owned(),
    );
    statements.push("CHECKPOINT".to_owned());
    statements.push("ALTER SYSTEM SET fsync = on".to_owned());
    statements.push("ALTER SYSTEM SET full_page_writes = on".to_owned());
    statements.push("SELECT pg_reload_conf()".to_owned());
    for statement in statements {
        let done = connection.execute(AssertSqlSafe(statement.clone())).await;
        done.unwrap_or_else(|error| panic!("{error}: {statement}"));
    }
}

/// The rows, of all states in every hundredth; as the store writes them, see `src/store/row.rs`.
fn entries(rows: u64, due: u64, seed: u64) -> String {
    format!(
        "INSERT INTO ledger.entries
            (key, claim_id, created_at, token, lease_until, not_before, consumer, source, principal, terms,
             attempts, version, state, closed_by, cause, attention, updated_at, id, owner, last_error)
        SELECT encode(substring(sha256(int4send(octet_length(consumer)) || convert_to(consumer, 'UTF8') ||
                                       int4send(octet_length(source)) || convert_to(source, 'UTF8') ||
                                       int4send(octet_length(id)) || convert_to(id, 'UTF8')) FOR 16), 'hex')::uuid,
               md5(id)::uuid, at, token, at + 30000000, CASE WHEN state IN (1, 3) THEN changed_at END,
               consumer_no, source_no, 1, 1, CASE WHEN state = 1 THEN 0 ELSE 1 END,
               token - token % 1000 + CASE state WHEN 2 THEN 0 ELSE 1 END, state,
               CASE state WHEN 1 THEN 5 WHEN 2 THEN 0 WHEN 3 THEN 2 WHEN 4 THEN 1 WHEN 5 THEN 3 ELSE 4 END,
               CASE WHEN state = 6 THEN 1 + i % 5 END, CASE WHEN state <> 4 THEN state END,
               CASE WHEN state <> 2 THEN changed_at END, id, 'worker-' || i % 40,
               CASE WHEN state IN (3, 5, 6) THEN 'the provider said no' END
        FROM (
            SELECT i, at, at + 1 AS token, consumer_no, 'consumer-' || lpad(consumer_no::text, 2, '0') AS
                   consumer, source_no, 'shop-' || source_no AS source, id,
                   at + 40000 + i % 1000000 AS changed_at,
                   (CASE WHEN class < 9900 THEN 4 WHEN class < 9920 THEN 1 WHEN class < 9950 THEN 2
                         WHEN class < 9970 THEN 3 WHEN class < 9985 THEN 5 ELSE 6 END)::smallint AS state
            FROM (
                SELECT i, i * 7919 % 10000 AS class,
                       until - CASE WHEN i <= {due} THEN retention + 86400000000
                                    ELSE (retention::numeric * ({rows} - i) / {rows})::bigint + 60000000 END
                             - i * 31337 % 3000000 AS at,
                       1 + (hashint8(i) & 2147483647) % {CONSUMERS} AS consumer_no,
                       1 + (hashint8(-i) & 2147483647) % 3 AS source_no,
                       md5('{seed} ' || i) AS id
                FROM era, generate_series(1, {rows}::bigint) AS i OFFSET 0
            ) AS raw OFFSET 0
        ) AS made"
    )
}

/// As autovacuum does it in time.
pub(super) async fn analyse(cluster: &Cluster) {
    cluster.execute("postgres", "VACUUM (ANALYZE) ledger.entries").await;
    cluster.execute("postgres", "ANALYZE").await;
}

pub(super) async fn size(cluster: &Cluster) -> String {
    let mut connection = cluster.connect("postgres").await;
    let row = connection
        .fetch_one(
            "SELECT pg_size_pretty(pg_table_size('ledger.entries')) || ' and ' ||
                    pg_size_pretty(pg_indexes_size('ledger.entries')) || ' of indexes'",
        )
        .await
        .unwrap();
    row.get(0)
}
