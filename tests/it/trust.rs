//! What a session of Postgres is told, and which servers are not trusted with the ledger.

use idempotency_ledger::store::{Fault, Purpose, Store as _, StoreError};
use sqlx::Executor as _;

use crate::harness::pooler::Pooler;
use crate::harness::postgres::{self as pg, Cluster};
use crate::harness::server::{migrate_postgres, pooled_store, postgres_store};

/// What is refused, in the words of the log.
async fn refused(url: &str) -> String {
    match postgres_store(url).open(Purpose::Changes).await {
        Err(StoreError::NotApplied(fault @ (Fault::Schema(_) | Fault::Unavailable(_)))) => fault.to_string(),
        Err(other) => panic!("{other:?}"),
        Ok(_) => String::new(),
    }
}

#[tokio::test]
async fn a_server_whose_commits_may_be_lost_is_refused() {
    let database = pg::database().await;
    let (cluster, url) = (pg::shared(), pg::shared().url(&database));
    for (setting, word) in [
        ("synchronous_commit = off", "synchronous_commit is off"),
        ("synchronous_commit = local", ""),
        ("synchronous_commit = remote_write", ""),
        ("synchronous_commit = on", ""),
        ("default_transaction_read_only = on", "read-only"),
        ("default_transaction_read_only = off", ""),
    ] {
        cluster.execute("postgres", &format!("ALTER DATABASE {database} SET {setting}")).await;
        let problem = refused(&url).await;
        assert!(problem.contains(word) && problem.is_empty() == word.is_empty(), "{setting}: {problem:?}");
    }
}

/// `local` is enough where there is no standby, and loses commits at a failover where there is one.
#[tokio::test]
async fn local_commits_are_refused_where_there_are_standbys() {
    let settings = "synchronous_standby_names = 'one'\nsynchronous_commit = local\nfsync = off";
    let cluster = tokio::task::spawn_blocking(|| Cluster::start(settings)).await.unwrap();
    let url = cluster.url("postgres");
    migrate_postgres(&url).await;
    let problem = refused(&url).await;
    assert!(problem.contains("synchronous_commit is local"), "{problem:?}");
    cluster.execute("postgres", "ALTER SYSTEM SET synchronous_standby_names = ''").await;
    cluster.execute("postgres", "SELECT pg_reload_conf()").await;
    for _ in 0..500 {
        if refused(&url).await.is_empty() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("{}", refused(&url).await);
}

/// Each word of the settings, as the server's own sessions have them: the clock, which every one of them reads,
/// writes them down. What would go wrong without a word shows itself only on a large table, or in a failure.
#[tokio::test]
async fn a_session_is_told_all_that_it_needs() {
    let database = pg::database().await;
    let cluster = pg::shared();
    for other in ["timezone = 'Asia/Kathmandu'", "jit = on", "max_parallel_workers_per_gather = 2"] {
        cluster.execute("postgres", &format!("ALTER DATABASE {database} SET {other}")).await;
    }
    let mut connection = cluster.connect(&database).await;
    for statement in [
        "CREATE TABLE ledger.seen (who text, name text, value text)",
        "CREATE OR REPLACE FUNCTION ledger.clock() RETURNS bigint LANGUAGE sql VOLATILE AS
         $$ INSERT INTO ledger.seen SELECT current_setting('application_name'), name, current_setting(name)
            FROM pg_settings;
            SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$",
    ] {
        connection.execute(statement).await.unwrap();
    }
    let pooler = Pooler::before(([127, 0, 0, 1], cluster.port).into()).await;
    let url = cluster.url(&database);
    let stores = [(postgres_store(&url), false), (pooled_store(&pooler.url(cluster.port, &url)), true)];
    let purposes = [
        (Purpose::Claims, "claims", "250ms", "2s"),
        (Purpose::Heartbeat, "heartbeat", "250ms", "2s"),
        (Purpose::Purge, "purge", "1s", "10s"),
        (Purpose::OpenClaims, "open claims", "1s", "10s"),
        (Purpose::Waits, "waits", "250ms", "2s"),
        (Purpose::Inbox, "inbox", "250ms", "2s"),
        (Purpose::Reads, "reads", "1s", "10s"),
        (Purpose::Changes, "changes", "1s", "10s"),
    ];
    for ((store, pooled), (purpose, who, lock_timeout, statement_timeout)) in
        stores.iter().flat_map(|store| purposes.map(|purpose| (store, purpose)))
    {
        connection.execute("TRUNCATE ledger.seen").await.unwrap();
        store.open(purpose).await.unwrap();
        // Behind a pooler every transaction holds its rows until its commit comes; and the pooler watches over its own
        // connections.
        let (idle, watch) = if *pooled { (statement_timeout, "0") } else { ("10s", "5s") };
        // Its handouts lock rows between two statements.
        let is_inbox = purpose == Purpose::Inbox;
        let idle = if is_inbox { "1s" } else { idle };
        for (name, value) in [
            ("plan_cache_mode", "force_generic_plan"),
            ("enable_seqscan", "off"),
            ("enable_hashjoin", if is_inbox { "on" } else { "off" }),
            ("enable_mergejoin", "off"),
            ("jit", "off"),
            ("max_parallel_workers_per_gather", "0"),
            ("TimeZone", "UTC"),
            // A client that went silent within a transaction holds its locks for no longer.
            ("idle_in_transaction_session_timeout", idle),
            ("client_connection_check_interval", watch),
            ("lock_timeout", lock_timeout),
            ("statement_timeout", statement_timeout),
        ] {
            let seen =
                "SELECT value FROM ledger.seen WHERE who = 'idempotency-ledger ' || $1 AND name = $2 LIMIT 1";
            let seen: Option<String> =
                sqlx::query_scalar(seen).bind(who).bind(name).fetch_optional(&mut connection).await.unwrap();
            assert_eq!(seen.as_deref(), Some(value), "{name} for {who}, pooled: {pooled}");
        }
    }
}
