//! Sessions with Postgres live for a time, and are replaced without anybody noticing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use idempotency_ledger::proto;
use idempotency_ledger::store::{PostgresSource, UrlSource};
use sqlx::PgConnection;

use super::cluster;
use crate::harness::postgres::Cluster;
use crate::harness::server::{Served, Setup, postgres_store_of};
use crate::schema::load::Load;

const LIFETIME: Duration = Duration::from_millis(400);
/// What each server has a session for.
const PURPOSES: [&str; 5] = ["claims", "heartbeat", "open claims", "purge", "reads"];

/// The backends of a server, by what they are for.
async fn backends(connection: &mut PgConnection) -> BTreeMap<String, BTreeSet<i32>> {
    let rows: Vec<(String, i32)> = sqlx::query_as(
        "SELECT application_name, pid FROM pg_stat_activity WHERE application_name LIKE 'idempotency-ledger %'",
    )
    .fetch_all(connection)
    .await
    .unwrap();
    let mut all: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
    for (name, pid) in rows {
        all.entry(name.replace("idempotency-ledger ", "")).or_default().insert(pid);
    }
    all
}

/// A server whose sessions live shortly, of a role whose password is in this file.
async fn served(cluster: &Cluster, password_file: &std::path::Path) -> Served {
    let url = UrlSource::Text(cluster.url_of("app@"));
    let source = PostgresSource { url, user_file: None, password_file: Some(password_file.to_owned()) };
    Served::start(Arc::new(postgres_store_of(source, Some(LIFETIME))), Setup::default()).await
}

/// Until none of these sessions is there any more.
async fn all_are_replaced(connection: &mut PgConnection, before: &BTreeMap<String, BTreeSet<i32>>) {
    let until = Instant::now() + Duration::from_secs(30);
    let old: BTreeSet<i32> = before.values().flatten().copied().collect();
    while backends(connection).await.values().any(|now| !now.is_disjoint(&old)) {
        assert!(Instant::now() < until, "some of the old sessions are still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How many sessions were replaced, and how many tries failed, by the metrics.
fn counted(served: &Served, outcome: &str) -> BTreeMap<String, f64> {
    let one = |purpose: &str| {
        let labels = format!("outcome=\"{outcome}\",purpose=\"{}\"", purpose.replace(' ', "_"));
        let series = format!("idempotency_ledger_store_sessions_replaced_total{{{labels}}}");
        (purpose.to_owned(), served.metric(&series).unwrap())
    };
    PURPOSES.into_iter().map(one).collect()
}

/// Under load every session is replaced many times, those that rest too, and no call is refused; also while no new
/// one can be opened, since the old ones go on then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_replaced_under_load_and_nobody_notices() {
    let cluster = cluster("app", "first").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "first\n").unwrap();
    let served = served(&cluster, &file).await;
    let mut admin = served.admin.clone();
    let filter = Some(proto::EntryFilter { consumer: "c".into(), ..Default::default() });
    admin.list_entries(proto::ListEntriesRequest { filter, ..Default::default() }).await.unwrap();
    let load = Load::start(&served.client, 8);
    let mut connection = cluster.connect("postgres").await;
    let mut seen: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
    let until = Instant::now() + Duration::from_secs(60);
    let replaced = |seen: &BTreeMap<String, BTreeSet<i32>>| {
        PURPOSES.iter().all(|purpose| seen.get(*purpose).is_some_and(|pids| pids.len() >= 5))
    };
    while !replaced(&seen) {
        assert!(Instant::now() < until, "not all are replaced: {seen:?}");
        let now = backends(&mut connection).await;
        for (purpose, pids) in now {
            // Two for claims, one for all else; one that comes for each that goes, and one that is on its way out.
            let most = if purpose == "claims" { 6 } else { 3 };
            assert!(pids.len() <= most, "{purpose}: {pids:?}");
            seen.entry(purpose).or_default().extend(pids);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (purpose, count) in counted(&served, "ok") {
        // The first one of them replaced none, and the last one may come to be counted yet.
        let least = if purpose == "claims" { 2.0 } else { 3.0 };
        assert!((least..500.0).contains(&count), "{purpose}: {count}, of {seen:?}");
    }
    std::fs::rename(&file, folder.path().join("away")).unwrap();
    // What was being opened by then.
    tokio::time::sleep(LIFETIME).await;
    let before = backends(&mut connection).await;
    let (done, failed) = (counted(&served, "ok"), counted(&served, "failed"));
    load.more(50).await;
    tokio::time::sleep(LIFETIME * 3).await;
    assert_eq!(backends(&mut connection).await, before, "nobody can open a session");
    assert_eq!(counted(&served, "ok"), done);
    let grew = counted(&served, "failed").into_iter().all(|(purpose, count)| count > failed[&purpose]);
    assert!(grew, "{failed:?}, and then {:?}", counted(&served, "failed"));
    std::fs::rename(folder.path().join("away"), &file).unwrap();
    all_are_replaced(&mut connection, &before).await;
    load.more(50).await;
    let sum = load.end().await;
    assert!(sum.refused.is_empty(), "{:?}", sum.refused);
    served.stop().await;
}

/// Where the own server takes no new sessions and another one would, the old sessions go on: nobody writes there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_not_replaced_by_one_with_another_server() {
    let (own, other) = (cluster("app", "first").await, cluster("app", "first").await);
    let url = format!(
        "postgres://app:first@127.0.0.1:{},127.0.0.1:{}/postgres?sslmode=disable",
        own.port, other.port
    );
    let store = postgres_store_of(PostgresSource::of_url(&url), Some(LIFETIME));
    let served = Served::start(Arc::new(store), Setup::default()).await;
    let load = Load::start(&served.client, 4);
    load.more(50).await;
    // The purge and the search for open claims have theirs, too.
    tokio::time::sleep(LIFETIME * 2).await;
    own.admit("host all app 127.0.0.1/32 reject").await;
    tokio::time::sleep(LIFETIME).await;
    let mut connection = own.connect("postgres").await;
    let before = backends(&mut connection).await;
    assert_eq!(before.get("claims").map(BTreeSet::len), Some(3), "{before:?}");
    load.more(50).await;
    tokio::time::sleep(LIFETIME * 3).await;
    assert_eq!(backends(&mut connection).await, before, "the old sessions go on");
    own.admit("host all all 127.0.0.1/32 scram-sha-256").await;
    all_are_replaced(&mut connection, &before).await;
    let sum = load.end().await;
    assert!(sum.refused.is_empty(), "{:?}", sum.refused);
    served.stop().await;
    let mut connection = other.connect("postgres").await;
    let entries: i64 =
        sqlx::query_scalar("SELECT count(*) FROM ledger.entries").fetch_one(&mut connection).await.unwrap();
    assert_eq!(entries, 0);
}
