//! The program itself: errors of its start name their setting; what breaks while it serves loses nothing.

mod acts;
mod drain;
mod early;
mod ephemeral;
mod full_disk;
pub(crate) mod log;
mod odd;
mod outputs;
mod precedence;
mod settings;
mod start;
mod supervisor;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use idempotency_ledger::proto::{self, claim_response::Verdict, ledger_service_client::LedgerServiceClient};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::details::{acquired, claim, completed, key, refusal};
use crate::harness::postgres::{Cluster, free_port};
use crate::waiting::until;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_idempotency-ledger");

fn run(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).args(["--startup-wait", "0s"]).output().unwrap()
}

/// It fails, and says all of this.
fn fails(arguments: &[&str], says: &[&str]) {
    let output = run(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{arguments:?} must fail");
    for word in says {
        assert!(text.contains(word), "{arguments:?} must say {word:?}: {text}");
    }
}

/// A server that is killed when the test ends.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Server {
    pub(crate) async fn start(database_url: &str) -> Server {
        Server::spawn(Command::new(BINARY), database_url).await
    }

    pub(crate) async fn spawn(command: Command, database_url: &str) -> Server {
        Server::with(command, database_url, &[], Stdio::null()).await
    }

    /// With settings of the test's own; `log` takes what the server logs.
    pub(crate) async fn with(
        mut command: Command,
        database_url: &str,
        settings: &[&str],
        log: Stdio,
    ) -> Server {
        let address = format!("127.0.0.1:{}", free_port());
        command.args(["serve", "--listen", &address, "--database-url", database_url]);
        if !settings.contains(&"--drain-wait") {
            command.args(["--drain-wait", "0s"]);
        }
        // Servers of many tests run on one machine: each has only the ports that its test asks for.
        if !settings.contains(&"--http-listen") {
            command.args(["--http-listen", "off"]);
        }
        let child = command.args(settings).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut server = Server { child, address };
        let until = Instant::now() + Duration::from_secs(30);
        while server.health().await != Some(ServingStatus::Serving) {
            assert!(server.child.try_wait().unwrap().is_none(), "the server ended");
            assert!(Instant::now() < until, "the server does not serve");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server
    }

    pub(crate) async fn channel(&self) -> Option<Channel> {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.ok()
    }

    pub(crate) async fn client(&self) -> LedgerServiceClient<Channel> {
        LedgerServiceClient::new(self.channel().await.unwrap())
    }

    async fn health(&self) -> Option<ServingStatus> {
        let mut client = HealthClient::new(self.channel().await?);
        let answer = client.check(HealthCheckRequest { service: String::new() }).await.ok()?;
        Some(answer.into_inner().status())
    }

    pub(crate) async fn becomes(&self, status: ServingStatus) {
        let until = Instant::now() + Duration::from_secs(30);
        while self.health().await != Some(status) {
            assert!(Instant::now() < until, "the server does not become {status:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGKILL: what a crash does.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

pub(crate) fn sqlite(folder: &Path) -> String {
    format!("sqlite://{}", folder.join("ledger.db").display())
}

/// How many threads of the runtime a server has before its first call.
async fn threads(settings: &[&str]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with(Command::new(BINARY), &sqlite(folder.path()), settings, Stdio::null()).await;
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap());
    names.filter(|name| name.starts_with("tokio-rt")).count()
}

#[tokio::test]
async fn as_many_threads_serve_calls_as_are_asked_for() {
    let one = threads(&["--threads", "1"]).await;
    assert_eq!(threads(&["--threads", "7"]).await, one + 6);
    let processors = std::thread::available_parallelism().unwrap().get();
    assert_eq!(threads(&[]).await, one + processors.div_ceil(2).max(2) - 1, "of {processors} processors");
}

#[tokio::test]
async fn a_sqlite_file_has_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    let server = Server::start(&url).await;
    fails(
        &["serve", "--listen", "127.0.0.1:0", "--database-url", &url],
        &["database_url", "in use by another"],
    );
    fails(
        &[
            "serve",
            "--listen",
            &server.address,
            "--database-url",
            &sqlite(tempfile::tempdir().unwrap().path()),
        ],
        &["listen", &server.address],
    );
    drop(server);
    // The lock ends with its process, however it died.
    drop(Server::start(&url).await);
}

#[tokio::test]
async fn a_schema_that_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    assert!(Command::new(BINARY).args(["migrate", "--database-url", &url]).status().unwrap().success());
    let newer = "UPDATE ledger.meta SET serves_from = 9999";
    {
        use sqlx::{Connection as _, Executor as _};
        let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
        connection.execute(sqlx::AssertSqlSafe(newer.replace("ledger.", ""))).await.unwrap();
        connection.close().await.unwrap();
    }
    fails(&["serve", "--database-url", &url], &["database_url", "9999"]);

    let cluster = Cluster::start("fsync = off");
    let url = cluster.url("postgres");
    fails(&["serve", "--database-url", &url], &["database_url", "idempotency-ledger migrate"]);
    fails(&["serve", "--database-url", &cluster.url("nobody")], &["database_url", "nobody"]);
    assert!(Command::new(BINARY).args(["migrate", "--database-url", &url]).status().unwrap().success());
    for (setting, says) in [
        ("synchronous_commit = off", "synchronous_commit"),
        ("default_transaction_read_only = on", "read-only"),
    ] {
        cluster.execute("template1", &format!("ALTER DATABASE postgres SET {setting}")).await;
        fails(&["serve", "--database-url", &url], &["database_url", says]);
        let name = setting.split(' ').next().unwrap();
        cluster.execute("template1", &format!("ALTER DATABASE postgres RESET {name}")).await;
    }
    cluster.execute("postgres", newer).await;
    fails(&["serve", "--database-url", &url], &["database_url", "9999", "newer"]);
}

#[tokio::test]
async fn a_database_that_goes_away_and_comes_back_loses_nothing() {
    let mut cluster = Cluster::start("");
    let url = cluster.url("postgres");
    assert!(Command::new(BINARY).args(["migrate", "--database-url", &url]).status().unwrap().success());
    let server = Server::start(&url).await;
    let mut client = server.client().await;
    let held = acquired(&client.claim(claim("c", "held")).await.unwrap().into_inner());
    let done = acquired(&client.claim(claim("c", "done")).await.unwrap().into_inner());
    let complete =
        |id: &str, token| proto::CompleteRequest { key: key("c", id), token, ..Default::default() };
    client.complete(complete("done", done.token)).await.unwrap();
    cluster.crash();
    for _ in 0..5 {
        let refused = refusal(&client.claim(claim("c", "new")).await.unwrap_err());
        assert_eq!((refused.code, refused.advice.as_str()), (Code::Unavailable, "RETRY_LATER"));
        assert!(["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN"].contains(&refused.reason.as_str()), "{refused:?}");
    }
    server.becomes(ServingStatus::NotServing).await;
    cluster.run();
    server.becomes(ServingStatus::Serving).await;
    client.complete(complete("held", held.token)).await.unwrap();
    for id in ["held", "done"] {
        completed(&client.claim(claim("c", id)).await.unwrap().into_inner());
    }
}

/// Claims and completes until the server dies; says what was acknowledged, and counts it.
async fn load(
    mut client: LedgerServiceClient<Channel>,
    worker: String,
    done: Arc<AtomicUsize>,
) -> Vec<(String, bool)> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let id = format!("{worker}-{number}");
        let Ok(answer) = client.claim(claim("c", &id)).await else { break };
        let token = acquired(&answer.into_inner()).token;
        let request = proto::CompleteRequest { key: key("c", &id), token, ..Default::default() };
        let completed = client.complete(request).await.is_ok();
        acknowledged.push((id, completed));
        done.fetch_add(1, Ordering::SeqCst);
        if !completed {
            break;
        }
    }
    acknowledged
}

async fn kill_and_look(url: &str) {
    for round in 0..3 {
        let mut server = Server::start(url).await;
        let (mut workers, done) = (Vec::new(), Arc::<AtomicUsize>::default());
        for worker in 0..8 {
            let name = format!("{round}-{worker}");
            workers.push(tokio::spawn(load(server.client().await, name, Arc::clone(&done))));
        }
        until("a hundred pairs are done", || done.load(Ordering::SeqCst) >= 100).await;
        server.child.kill().unwrap();
        let mut acknowledged = Vec::new();
        for worker in workers {
            acknowledged.extend(worker.await.unwrap());
        }
        drop(server);
        let server = Server::start(url).await;
        let mut client = server.client().await;
        for (id, done) in acknowledged {
            let answer = client.claim(claim("c", &id)).await.unwrap().into_inner();
            let known = match answer.verdict {
                Some(Verdict::Completed(_)) => true,
                Some(Verdict::InProgress(_)) => !done,
                _ => false,
            };
            assert!(known, "{id} was acknowledged: {answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_loses_nothing_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    kill_and_look(&sqlite(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_loses_nothing_on_postgres() {
    let cluster = Cluster::start("");
    let url = cluster.url("postgres");
    assert!(Command::new(BINARY).args(["migrate", "--database-url", &url]).status().unwrap().success());
    kill_and_look(&url).await;
}

#[tokio::test]
async fn logs_are_json_by_a_switch_and_hold_no_payload() {
    let folder = tempfile::tempdir().unwrap();
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let out = std::fs::File::create(folder.path().join("out")).unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let child = Command::new(BINARY)
        .args(["serve", "--listen", &address, "--database-url", &sqlite(folder.path())])
        .args(["--log-format", "json", "--log", "trace"])
        .stdout(out)
        .stderr(log)
        .spawn()
        .unwrap();
    let server = Server { child, address };
    server.becomes(ServingStatus::Serving).await;
    let mut client = server.client().await;
    let held = acquired(&client.claim(claim("c", "1")).await.unwrap().into_inner());
    let (key, token) = (key("c", "1"), held.token);
    let secret = "correct-horse-battery-staple";
    let checkpoint = Some(bytes::Bytes::from_static(secret.as_bytes()));
    client
        .renew(proto::RenewRequest { key: key.clone(), token, checkpoint, ..Default::default() })
        .await
        .unwrap();
    let error = secret.to_owned();
    client.fail(proto::FailRequest { key: key.clone(), token, error, ..Default::default() }).await.unwrap();
    let result = bytes::Bytes::from_static(secret.as_bytes());
    client
        .complete(proto::CompleteRequest {
            key,
            token,
            result,
            result_left_out: false,
            event_type: String::new(),
        })
        .await
        .unwrap();
    drop(server);
    let text = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let out = std::fs::read_to_string(folder.path().join("out")).unwrap();
    let ours: Vec<&str> = text.lines().filter(|line| line.contains("idempotency_ledger")).collect();
    assert!(!ours.is_empty());
    for line in text.lines().chain(out.lines()) {
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(line);
        assert!(parsed.is_ok(), "{line}");
    }
    assert!(ours.iter().any(|line| line.contains("\"serving\"") && line.contains("health --address")));
    assert!(!ours.iter().any(|line| line.contains(secret)), "a payload is in the log");
}
