//! A database of several servers: the one that takes writes is found, whatever the others are.

use std::net::TcpListener;
use std::time::Duration;

use sqlx::Connection as _;
use tonic_health::pb::health_check_response::ServingStatus;

use super::load::Load;
use super::{run, served};
use crate::harness::postgres::{Cluster, free_port};
use crate::harness::timer::Timer;

/// Servers of one URL, and the database.
fn url(ports: &[u16], options: &str) -> String {
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("postgres://postgres@{}/postgres?sslmode=disable{options}", hosts.join(","))
}

async fn cluster() -> Cluster {
    tokio::task::spawn_blocking(|| Cluster::start("fsync = off")).await.unwrap()
}

/// One is down, one takes connections and says nothing, one is read-only, and one takes writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writable_server_of_several_is_found() {
    let (standby, primary) = (cluster().await, cluster().await);
    standby.execute("postgres", "ALTER SYSTEM SET default_transaction_read_only = on").await;
    standby.execute("postgres", "SELECT pg_reload_conf()").await;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = [free_port(), silent.local_addr().unwrap().port(), standby.port, primary.port];
    let url = url(&ports, "&target_session_attrs=read-write");
    let (text, code) = run(&["migrate", "--database-url", &url]);
    assert_eq!(code, Some(0), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let server = served(&url, &[], &folder.path().join("log"));
    server.becomes(ServingStatus::Serving).await;
    let load = Load::start(&server.client().await, 4);
    load.more(50).await;
    assert_eq!(load.end().await.refused.len(), 0);
    let mut connection = sqlx::PgConnection::connect(&standby.url("postgres")).await.unwrap();
    let there: bool = sqlx::query_scalar("SELECT to_regclass('ledger.meta') IS NOT NULL")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert!(!there, "the read-only server has a ledger");
}

/// Where none takes writes, what each of them says is told, within the time of one.
#[tokio::test]
async fn where_no_server_takes_writes_each_is_told_in_time() {
    let silent: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let mut ports: Vec<u16> = silent.iter().map(|one| one.local_addr().unwrap().port()).collect();
    ports.push(free_port());
    let timer = Timer::start();
    let (text, code) = run(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--startup-wait",
        "0s",
        "--database-url",
        &url(&ports, ""),
    ]);
    assert_eq!(code, Some(1), "{text}");
    // The servers share five seconds; five for each of the four silent ones would be twenty.
    timer.within(Duration::from_secs(9), "the end of a server without a writable database");
    for port in ports {
        assert!(text.matches(&format!("127.0.0.1:{port}: ")).count() >= 1, "{port} is not told: {text}");
    }
}

/// The primary dies while a server works, and another is writable from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_goes_over_to_the_new_primary() {
    let (mut old, new) = (cluster().await, cluster().await);
    let url = url(&[old.port, new.port], "");
    for one in [&old, &new] {
        let (text, code) = run(&["migrate", "--database-url", &one.url("postgres")]);
        assert_eq!(code, Some(0), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let server = served(&url, &[], &folder.path().join("log"));
    server.becomes(ServingStatus::Serving).await;
    let load = Load::start(&server.client().await, 4);
    load.more(20).await;
    let old = tokio::task::spawn_blocking(move || {
        old.crash();
        old
    })
    .await
    .unwrap();
    let timer = Timer::start();
    load.more(20).await;
    timer.within(Duration::from_secs(8), "the way to the new primary");
    drop((load.end().await, old));
    let mut connection = sqlx::PgConnection::connect(&new.url("postgres")).await.unwrap();
    let entries: i64 =
        sqlx::query_scalar("SELECT count(*) FROM ledger.entries").fetch_one(&mut connection).await.unwrap();
    assert!(entries >= 20, "{entries}");
}
