//! The secrets of the store: where they are read, how they are rotated, and that nothing tells them.

pub(crate) mod memory;
mod reported;
mod rotated;
mod sessions;
mod tls;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::postgres::Cluster;
use crate::process::BINARY;

/// A migrated Postgres, in which this role has the rights of a server, and this password.
async fn cluster(role: &str, password: &str) -> Cluster {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start("fsync = off")).await.unwrap();
    cluster.execute("postgres", &format!("CREATE ROLE {role} LOGIN PASSWORD '{password}'")).await;
    grant(&cluster, role);
    cluster.admit("host all all 127.0.0.1/32 scram-sha-256").await;
    cluster
}

impl Cluster {
    /// Without a password, and without a user unless this names one.
    fn url_of(&self, user: &str) -> String {
        format!("postgres://{user}127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }
}

/// Gives a role the rights of a server.
fn grant(cluster: &Cluster, role: &str) {
    let url = cluster.url("postgres");
    let arguments = ["migrate", "--database-url", &url, "--grant-to", role];
    assert!(Command::new(BINARY).args(arguments).status().unwrap().success());
}

/// Puts a text where a file is, as a mounted secret is replaced: by a link that is turned.
fn mount(folder: &Path, name: &str, text: &str) -> String {
    let versions = std::fs::read_dir(folder).unwrap().count();
    let version = folder.join(format!("{name}-{versions}"));
    std::fs::write(&version, text).unwrap();
    std::os::unix::fs::symlink(&version, folder.join("next")).unwrap();
    std::fs::rename(folder.join("next"), folder.join(name)).unwrap();
    folder.join(name).display().to_string()
}

/// Ends the sessions of servers, once none has come or gone for a second: none is on its way then. One that rests finds
/// out when it is used.
async fn end_sessions(cluster: &Cluster) {
    let mut connection = cluster.connect("postgres").await;
    let until = Instant::now() + Duration::from_secs(30);
    let mut before = Vec::new();
    loop {
        let there =
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'idempotency-ledger %' ORDER BY 1";
        let now: Vec<i32> = sqlx::query_scalar(there).fetch_all(&mut connection).await.unwrap();
        if now == before && !now.is_empty() {
            break;
        }
        assert!(Instant::now() < until, "sessions come and go");
        before = now;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE application_name LIKE 'idempotency-ledger %'";
    cluster.execute("postgres", end).await;
}

/// Until a file has all of these.
async fn tells(log: &Path, texts: &[&str]) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let said = std::fs::read_to_string(log).unwrap();
        if texts.iter().all(|text| said.contains(text)) {
            return;
        }
        assert!(Instant::now() < until, "{texts:?} are not told: {said}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
