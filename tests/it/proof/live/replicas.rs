//! Server processes over one Postgres: started, killed, stopped, started again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::world::CONFIGURATION;
use crate::harness::log_reader::{LogReader, MUCH};
use crate::harness::postgres::free_port;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_idempotency-ledger");

pub(crate) struct Replica {
    pub(crate) address: SocketAddr,
    database_url: String,
    folder: PathBuf,
    /// How long it serves on after SIGTERM.
    pub(crate) drain_wait: Duration,
    /// Where it is observed, if it is.
    pub(crate) observed: Option<SocketAddr>,
    /// Its program.
    pub(crate) binary: PathBuf,
    /// Further arguments.
    pub(crate) settings: Vec<String>,
    /// What reads its log, where that may stall; else its log is a file.
    pub(crate) log_reader: Option<LogReader>,
    child: Option<Child>,
}

impl Replica {
    /// `folder` keeps its configuration and its log.
    pub(crate) fn new(folder: &Path, database_url: &str) -> Replica {
        let address: SocketAddr = format!("127.0.0.1:{}", free_port()).parse().unwrap();
        let folder = folder.join(address.port().to_string());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("ledger.toml"), CONFIGURATION).unwrap();
        Replica {
            address,
            database_url: database_url.to_owned(),
            folder,
            drain_wait: Duration::ZERO,
            observed: None,
            binary: PathBuf::from(BINARY),
            settings: Vec::new(),
            log_reader: None,
            child: None,
        }
    }

    /// What its configuration says besides.
    pub(crate) fn configure(&self, more: &str) {
        std::fs::write(self.folder.join("ledger.toml"), format!("{CONFIGURATION}{more}")).unwrap();
    }

    /// Starts it; with `crash_at` it kills itself where that says (`point:passes`).
    pub(crate) fn start(&mut self, crash_at: Option<&str>) {
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log")).unwrap();
        let (log, level) = match &self.log_reader {
            Some(reader) => (reader.reads_into(log), MUCH),
            None => (log.into(), "warn"),
        };
        let mut command = Command::new(&self.binary);
        command
            .args(["serve", "--listen", &self.address.to_string(), "--database-url", &self.database_url])
            .arg("--config")
            .arg(self.folder.join("ledger.toml"))
            .args(["--drain-wait", &format!("{}s", self.drain_wait.as_secs()), "--log", level])
            .stdout(Stdio::null())
            .stderr(log);
        command.args(&self.settings);
        if let Some(address) = self.observed {
            command.args(["--observe-listen", &address.to_string()]);
        }
        if let Some(point) = crash_at {
            command.env("IDEMPOTENCY_LEDGER_CRASH_AT", point);
        }
        self.child = Some(command.spawn().unwrap());
    }

    /// All that it has logged.
    pub(crate) fn log(&self) -> String {
        crate::harness::log_file::settled(&self.folder.join("log"))
    }

    /// The sum of all series of a metric whose labels say this; zero where there are none.
    pub(crate) async fn metric(&self, name: &str, label: &str) -> f64 {
        let mut stream = TcpStream::connect(self.observed.expect("an observed replica")).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let mine = |line: &&str| {
            let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']));
            rest.is_some_and(|rest| rest.contains(label))
        };
        let value = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        text.lines().filter(mine).map(value).sum()
    }

    /// Whether its process is there.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Its resident memory.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it lives");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _gone = child.kill();
            let _status = child.wait();
        }
    }

    /// Whether it has ended by itself within this time.
    pub(crate) async fn dies(&mut self, within: Duration) -> bool {
        let until = Instant::now() + within;
        while Instant::now() < until {
            if self.child.as_mut().unwrap().try_wait().unwrap().is_some() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        false
    }

    /// After it has ended by itself: whether all was in order.
    pub(crate) fn ended_well(&mut self) -> bool {
        self.child.as_mut().unwrap().wait().unwrap().success()
    }

    /// Waits until it takes connections.
    pub(crate) async fn listens(&self) {
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(self.address).await.is_err() {
            assert!(Instant::now() < until, "a replica does not listen: see {}", self.folder.display());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until it takes connections, or its process has ended.
    pub(crate) async fn listens_unless_it_ends(&mut self) {
        let until = Instant::now() + Duration::from_secs(30);
        while self.is_alive() && TcpStream::connect(self.address).await.is_err() {
            assert!(Instant::now() < until, "a replica does not listen: see {}", self.folder.display());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until it says that it can serve, its store included.
    pub(crate) async fn serves(&self, within: Duration) {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        let mut health = HealthClient::new(endpoint.timeout(Duration::from_secs(1)).connect_lazy());
        let until = Instant::now() + within;
        loop {
            let answer = health.check(HealthCheckRequest::default()).await;
            if answer.is_ok_and(|answer| answer.get_ref().status() == ServingStatus::Serving) {
                return;
            }
            assert!(Instant::now() < until, "a replica does not serve: see {}", self.folder.display());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kill();
    }
}
