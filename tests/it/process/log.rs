//! A log whose reader stalls: no call waits for it, what is dropped is counted and reported, and the process ends.

use std::io::{BufRead as _, BufReader, PipeReader, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use idempotency_ledger::proto::{self, claim_response::Verdict};
use sqlx::Executor as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic_health::pb::health_check_response::ServingStatus;

use super::{BINARY, Server, sqlite};
use crate::harness::details::{acquired, claim, key};
use crate::harness::postgres::{self as pg, free_port};
use crate::harness::signals::signal;

/// What a pipe holds by default.
pub(super) const PIPE_BYTES: usize = 65_536;
/// How long a server may take to serve on a busy machine.
const SERVES_WITHIN: Duration = Duration::from_secs(30);
/// Longer than any call takes on a busy machine, and shorter than its deadline.
const CALL_MAX: Duration = Duration::from_secs(10);
/// The drain is 0s; the rest is for the log and for what blocks a thread.
pub(crate) const END_MAX: Duration = Duration::from_secs(8);

/// A pipe that is full, so that the next byte waits for its reader.
fn full_pipe() -> (PipeReader, Stdio) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b'\n'; PIPE_BYTES]).unwrap();
    (reader, writer.into())
}

pub(crate) async fn ends(child: &mut Child, within: Duration) -> ExitStatus {
    let until = Instant::now() + within;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < until, "the process does not end within {within:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn get(address: &str, path: &str) -> String {
    let answered = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    };
    timeout(CALL_MAX, answered).await.unwrap_or_else(|_| panic!("{path} is not answered"))
}

fn dropped(metrics: &str) -> u64 {
    let name = "idempotency_ledger_log_lines_dropped_total ";
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("the metric is there");
    value.parse().unwrap()
}

/// Reads what the pipe holds until a line has this word.
fn read_until(reader: PipeReader, word: &'static str) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut lines = BufReader::new(reader).lines().map_while(Result::ok);
        lines.find(|line| line.contains(word)).expect("the log says so")
    })
}

/// 400 claims at the most verbose level: more than the queue of the log and the pipe hold together.
async fn stalled(format: &str, url: &str) {
    let (reader, log) = full_pipe();
    let observed = format!("127.0.0.1:{}", free_port());
    let settings = ["--log-format", format, "--log", "trace", "--observe-listen", &observed];
    let serves = Server::with(Command::new(BINARY), url, &settings, log);
    let mut server = timeout(SERVES_WITHIN, serves).await.expect("it does not wait for its log");
    let client = server.client().await;
    let mut claims = Vec::new();
    for consumer in 0..8 {
        let mut client = client.clone();
        claims.push(tokio::spawn(async move {
            for number in 0..50 {
                let request = claim(&format!("consumer-{consumer}"), &number.to_string());
                let answer = timeout(CALL_MAX, client.claim(request)).await.expect("answered").unwrap();
                assert!(matches!(answer.into_inner().verdict, Some(Verdict::Acquired(_))));
            }
        }));
    }
    for claims in claims {
        claims.await.unwrap();
    }
    assert!(get(&observed, "/livez").await.starts_with("HTTP/1.1 200"));
    assert!(get(&observed, "/readyz").await.starts_with("HTTP/1.1 200"));
    assert!(dropped(&get(&observed, "/metrics").await) > 0, "400 calls at level trace fit into the queue");
    let reported = read_until(reader, "lines of the log were dropped");
    let line = tokio::task::spawn_blocking(|| reported.join().unwrap()).await.unwrap();
    if format == "json" {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(line["dropped"].as_u64().unwrap() > 0, "{line}");
        assert_eq!(line["level"], "WARN");
    }
    // The pipe's reader has gone: a log that is closed ends nothing either.
    let mut client = client.clone();
    client.claim(proto::ClaimRequest { ..claim("after", "1") }).await.unwrap();
    signal("TERM", &[server.child.id()]);
    assert_eq!(ends(&mut server.child, END_MAX).await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_log_of_text_delays_no_call() {
    let folder = tempfile::tempdir().unwrap();
    stalled("text", &sqlite(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_log_of_json_delays_no_call() {
    let folder = tempfile::tempdir().unwrap();
    stalled("json", &sqlite(folder.path())).await;
}

/// Standard output and standard error are often one pipe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_starts_and_ends_though_both_its_outputs_stall() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, out) = full_pipe();
    let (other, log) = full_pipe();
    let mut command = Command::new(BINARY);
    let address = format!("127.0.0.1:{}", free_port());
    command.args(["serve", "--listen", &address, "--database-url", &sqlite(folder.path())]);
    command.args(["--drain-wait", "0s", "--observe-listen", "off"]);
    let child = command.stdout(out).stderr(log).spawn().unwrap();
    let mut server = Server { child, address };
    let serves = server.becomes(ServingStatus::Serving);
    timeout(SERVES_WITHIN, serves).await.expect("it does not wait for its outputs");
    signal("TERM", &[server.child.id()]);
    assert_eq!(ends(&mut server.child, END_MAX).await.code(), Some(0));
    drop((reader, other));
}

/// The report of the fault is lost, and the exit code is that of the fault.
#[tokio::test]
async fn a_refused_start_ends_though_its_log_stalls() {
    for (arguments, code) in [
        (&["serve", "--queue-max", "3"][..], 2),
        (&["serve", "--database-url", "postgres://127.0.0.1:1/x", "--startup-wait", "0s"], 1),
        (&["migrate", "--database-url", "postgres://127.0.0.1:1/x"], 1),
    ] {
        let (reader, log) = full_pipe();
        let mut child =
            Command::new(BINARY).args(arguments).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        assert_eq!(ends(&mut child, END_MAX).await.code(), Some(code), "{arguments:?}");
        drop(reader);
    }
}

/// Lines of commands are a few a second, however many of them fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_batches_of_alerts_write_few_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let file = std::fs::File::create(&path).unwrap();
    let settings = ["--log-format", "json", "--observe-listen", "off"];
    let mut server =
        Server::with(Command::new(BINARY), &sqlite(folder.path()), &settings, Stdio::from(file)).await;
    let mut client = server.client().await;
    // A token from the future: each of these settlements is worth an ERROR.
    let settle = |number: usize, token: i64| {
        let request = proto::CompleteRequest {
            key: key("alerts", &number.to_string()),
            token: token + 1_000,
            ..Default::default()
        };
        proto::Settlement { action: Some(proto::settlement::Action::Complete(request)) }
    };
    let requests = (0..1_000).map(|number| claim("alerts", &number.to_string())).collect();
    let granted = client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
    let tokens: Vec<i64> = granted.responses.iter().map(|one| acquired(one).token).collect();
    for _ in 0..2 {
        let settlements = tokens.iter().enumerate().map(|(number, token)| settle(number, *token)).collect();
        client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap();
    }
    signal("TERM", &[server.child.id()]);
    assert_eq!(ends(&mut server.child, END_MAX).await.code(), Some(0));
    let text = std::fs::read_to_string(&path).unwrap();
    let errors = text.lines().filter(|line| line.contains("\"ERROR\"")).count();
    assert!(errors > 0, "{text}");
    assert!(errors < 40, "{errors} lines for 2,000 commands");
}

/// An extension, or a trigger of another application, may send a notice for each row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_of_postgres_for_each_row_writes_few_lines() {
    let database = pg::database().await;
    let mut connection = pg::shared().connect(&database).await;
    let trigger = "CREATE FUNCTION public.notices() RETURNS trigger LANGUAGE plpgsql AS \
                   $$ BEGIN RAISE WARNING 'a row of another application'; RETURN NEW; END $$; \
                   CREATE TRIGGER notices BEFORE INSERT ON ledger.entries FOR EACH ROW EXECUTE FUNCTION public.notices()";
    connection.execute(sqlx::raw_sql(trigger)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let file = std::fs::File::create(&path).unwrap();
    let url = pg::shared().url(&database);
    let mut server =
        Server::with(Command::new(BINARY), &url, &["--observe-listen", "off"], Stdio::from(file)).await;
    let requests = (0..1_000).map(|number| claim("notices", &number.to_string())).collect();
    server.client().await.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap();
    // The next line of the kind may be written a second after the first one, and has the number of those between them.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    acquired(server.client().await.claim(claim("notices", "last")).await.unwrap().get_ref());
    signal("TERM", &[server.child.id()]);
    assert_eq!(ends(&mut server.child, END_MAX).await.code(), Some(0));
    let text = std::fs::read_to_string(&path).unwrap();
    let notices = text.lines().filter(|line| line.contains("a row of another application")).count();
    assert!((1..40).contains(&notices), "{notices} lines for 1,000 rows: {text}");
    let held_back =
        text.lines().filter_map(|line| line.split("held_back=").nth(1)?.trim().parse::<usize>().ok());
    let held_back = held_back.sum::<usize>();
    assert!(
        held_back > 0 && held_back + notices <= 1_001,
        "{held_back} and {notices} of 1,001 notices: {text}"
    );
}
