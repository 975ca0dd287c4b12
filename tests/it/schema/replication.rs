//! Other systems that read the database's log, by the statements of docs/postgres.md: they see entries and nothing of what the
//! ledger writes for itself; and a server that is replicated to logically takes over.

use std::time::Duration;

use idempotency_ledger::proto;
use idempotency_ledger::store::{Purpose, Store as _};
use sqlx::{Executor as _, PgConnection, Row as _};

use super::migrate;
use super::subscription::{Subscription, cluster, documented};
use crate::docs::read;
use crate::harness::details::{acquired, claim, completed, key, refusal};
use crate::harness::postgres;
use crate::harness::server::{Served, Setup, postgres_store, replica};

/// How many changes of rows, and how many messages, a reader of this publication is sent.
async fn sent(connection: &mut PgConnection, publication: &str, messages: bool) -> (usize, usize) {
    let peek = format!(
        "SELECT get_byte(data, 0) FROM pg_logical_slot_peek_binary_changes(
             'reader', NULL, NULL, 'proto_version', '1', 'publication_names', '{publication}', 'messages', '{messages}')"
    );
    let rows = connection.fetch_all(sqlx::AssertSqlSafe(peek)).await.unwrap();
    let kinds: Vec<u8> = rows.iter().map(|row| u8::try_from(row.get::<i32, _>(0)).unwrap()).collect();
    let of = |which: &[u8]| kinds.iter().filter(|kind| which.contains(kind)).count();
    (of(b"IUDT"), of(b"M"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_publication_carries_entries_and_none_of_the_ledgers_own_traces() {
    let cluster = cluster().await;
    cluster.execute("postgres", "CREATE DATABASE read_by_others").await;
    let url = cluster.url("read_by_others");
    migrate(&url);
    let mut connection = cluster.connect("read_by_others").await;
    connection
        .execute(sqlx::AssertSqlSafe(documented("docs/postgres.md", "CREATE PUBLICATION ledger_entries ")))
        .await
        .unwrap();
    connection.execute("CREATE PUBLICATION everything FOR ALL TABLES").await.unwrap();
    connection.execute("SELECT pg_create_logical_replication_slot('reader', 'pgoutput')").await.unwrap();
    let store = postgres_store(&url);
    let mut session = store.open(Purpose::Claims).await.unwrap();
    for _ in 0..3 {
        session.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    }
    // What a reader without it meets: a message for a session, and rows of meta and replicas for each heartbeat.
    let (rows, messages) = sent(&mut connection, "everything", true).await;
    assert!(rows >= 4 && messages >= 1, "{rows} {messages}");
    assert_eq!(sent(&mut connection, "ledger_entries", false).await, (0, 0));
    let page = read("docs/postgres.md");
    assert!(
        page.contains("message.prefix.exclude.list=idempotency-ledger"),
        "by which Debezium leaves messages out"
    );
    let served = Served::start(std::sync::Arc::new(store), Setup::default()).await;
    acquired(&served.client.clone().claim(claim("c", "1")).await.unwrap().into_inner());
    assert_eq!(sent(&mut connection, "ledger_entries", false).await, (1, 0), "the entry, and nothing else");
    served.stop().await;
    connection.execute("SELECT pg_drop_replication_slot('reader')").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_by_logical_replication_knows_what_is_done_and_waits_for_a_clock_that_is_behind() {
    let cluster = cluster().await;
    let mut both = Subscription::between(&cluster, "before_failover", "after_failover").await;
    // Every table but the one of migrations, which `migrate` writes on both sides.
    let publication = documented("docs/postgres.md", "CREATE PUBLICATION ledger_standby ");
    both.from.execute(sqlx::AssertSqlSafe(publication)).await.unwrap();
    let missing =
        "SELECT count(*) FROM pg_tables t WHERE t.schemaname = 'ledger' AND t.tablename <> 'migrations'
                   AND NOT EXISTS (SELECT 1 FROM pg_publication_tables p
                                   WHERE p.pubname = 'ledger_standby' AND p.tablename = t.tablename)";
    assert_eq!(
        both.from.fetch_one(missing).await.unwrap().get::<i64, _>(0),
        0,
        "docs/postgres.md leaves a table out"
    );
    both.begin(&cluster, "before_failover", "ledger_standby").await;
    let served =
        Served::start(std::sync::Arc::new(postgres_store(&cluster.url("before_failover"))), Setup::default())
            .await;
    let mut client = served.client.clone();
    let token = acquired(&client.claim(claim("c", "done")).await.unwrap().into_inner()).token;
    let request = proto::CompleteRequest { key: key("c", "done"), token, ..Default::default() };
    client.complete(request).await.unwrap();
    let held = acquired(&client.claim(claim("c", "held")).await.unwrap().into_inner()).token;
    // A ledger has no mark of its clock before its first heartbeat, and claims do not wait for that.
    let marked = "SELECT clock_mark > 0 FROM ledger.meta";
    let first_heartbeat = async {
        while !both.from.fetch_one(marked).await.unwrap().get::<bool, _>(0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), first_heartbeat).await.expect("a mark of the clock");
    drop(client);
    served.stop().await;
    both.caught_up().await;
    let (_, mut to) = both.end().await;
    // The clock of the new server is an hour behind.
    postgres::make_clock(&cluster, "after_failover").await;
    to.execute("UPDATE ledger.test_clock SET ahead = -3600000000").await.unwrap();
    let served =
        Served::start(std::sync::Arc::new(postgres_store(&cluster.url("after_failover"))), Setup::default())
            .await;
    let mut client = served.client.clone();
    completed(&client.claim(claim("c", "done")).await.unwrap().into_inner());
    let status = client.claim(claim("c", "new")).await.unwrap_err();
    assert_eq!(refusal(&status).reason, "STORE_CLOCK_BEHIND");
    let told = async {
        while served.metric("idempotency_ledger_store_clock_behind_seconds") < Some(1.0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), told).await.expect("a metric says so");
    let request = proto::CompleteRequest { key: key("c", "held"), token: held, ..Default::default() };
    client.complete(request).await.unwrap();
    to.execute("UPDATE ledger.test_clock SET ahead = 0").await.unwrap();
    // Names are numbered by the rows that are there, not by a sequence, which is not replicated: no number is used twice.
    let other = proto::ClaimRequest {
        key: Some(proto::EntryKey { source: "another".into(), ..key("c", "new").unwrap() }),
        ..claim("c", "new")
    };
    acquired(&client.claim(other).await.unwrap().into_inner());
    completed(&client.claim(claim("c", "held")).await.unwrap().into_inner());
    let names = "SELECT count(DISTINCT no) = count(*) AND count(*) = 2 FROM ledger.sources";
    assert!(to.fetch_one(names).await.unwrap().get::<bool, _>(0));
    served.stop().await;
}
