//! A real Envoy with the file that the repository ships: addresses and ports alone are others.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::postgres::free_port;

const SHIPPED: &str = "deploy/envoy/envoy.yaml";
const INSTALL: &str = "no Envoy was found; `tests/run tools` installs it into target/venv; or name one in \
                       IDEMPOTENCY_LEDGER_TEST_ENVOY";
/// Of the shipped file: `num_retries`, and the first one.
pub(super) const TRIES: u64 = 3;

pub(super) struct Envoy {
    /// Where clients reach the replicas.
    pub(super) address: SocketAddr,
    admin: SocketAddr,
    folder: PathBuf,
    child: Child,
}

/// The program: the one that is named, else that of the checks' own tools, else on the PATH.
fn program() -> PathBuf {
    if let Some(named) = std::env::var_os("IDEMPOTENCY_LEDGER_TEST_ENVOY") {
        return named.into();
    }
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/venv/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(ours)
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join("envoy"))
        .find(|program| program.exists())
        .expect(INSTALL)
}

/// The shipped file, for these replicas, with ports that are free here.
fn configuration(listen: SocketAddr, admin: SocketAddr, replicas: &[SocketAddr]) -> String {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join(SHIPPED);
    let mut text = std::fs::read_to_string(shipped).unwrap();
    let mut put = |old: &str, new: SocketAddr| {
        assert_eq!(text.matches(old).count(), 1, "{SHIPPED} must have this once: {old}");
        text = text.replace(old, &format!("address: {}, port_value: {}", new.ip(), new.port()));
    };
    put("address: 127.0.0.1, port_value: 50050", listen);
    put("address: 127.0.0.1, port_value: 9901", admin);
    for (index, replica) in replicas.iter().enumerate() {
        put(&format!("address: ledger-{}.example, port_value: 50051", index + 1), *replica);
    }
    text
}

impl Envoy {
    /// Starts it before these replicas; `folder` keeps its configuration and its log.
    pub(super) fn start(folder: &Path, replicas: &[SocketAddr]) -> Envoy {
        Envoy::start_changed(folder, replicas, |text| text)
    }

    /// The same with a change of the configuration.
    pub(super) fn start_changed(
        folder: &Path,
        replicas: &[SocketAddr],
        change: impl FnOnce(String) -> String,
    ) -> Envoy {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let (address, admin) = (local(free_port()), local(free_port()));
        let folder = folder.to_owned();
        let file = folder.join("envoy.yaml");
        std::fs::write(&file, change(configuration(address, admin, replicas))).unwrap();
        let log = |name| std::fs::File::create(folder.join(name)).unwrap();
        let child = Command::new(program())
            .arg("--config-path")
            .arg(file)
            .args(["--concurrency", "2", "--disable-hot-restart", "--log-level", "warning"])
            .stdin(Stdio::null())
            .stdout(log("envoy.ended"))
            .stderr(log("envoy.log"))
            .spawn()
            .expect(INSTALL);
        Envoy { address, admin, folder, child }
    }

    /// Waits until this is so of each of these replicas, as Envoy sees them; how long that took.
    pub(super) async fn sees(&self, replicas: &[SocketAddr], healthy: bool, within: Duration) -> Duration {
        let started = Instant::now();
        loop {
            let clusters = self.clusters().await.unwrap_or_default();
            let good = |replica: &SocketAddr| {
                let flags = format!("::{replica}::health_flags::");
                let line = clusters.lines().find(|line| line.contains(&flags));
                line.is_some_and(|line| line.ends_with("::healthy") == healthy)
            };
            if replicas.iter().all(good) {
                return started.elapsed();
            }
            assert!(
                started.elapsed() < within,
                "after {within:?} Envoy does not see {replicas:?} as {}: {clusters}\n{}",
                if healthy { "healthy" } else { "unhealthy" },
                std::fs::read_to_string(self.folder.join("envoy.log")).unwrap_or_default()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What it knows of the replicas: lines of text.
    async fn clusters(&self) -> std::io::Result<String> {
        let mut connection = TcpStream::connect(self.admin).await?;
        connection.write_all(b"GET /clusters HTTP/1.1\r\nhost: envoy\r\nconnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    /// The calls that Envoy has ended by itself, a line each.
    pub(super) fn ended(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.join("envoy.ended")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}
