//! `bench`: its figures are those of the ledger, a server that grants twice is seen, and nothing of a server of its
//! own stays.

#[path = "../../lib/echo/service.rs"]
mod echo;

use std::collections::BTreeMap;
use std::process::{Child, Output};
use std::time::{Duration, Instant};

use idempotency_ledger::domain::Policy;
use idempotency_ledger::proto::ledger_service_server::LedgerServiceServer;
use serde_json::Value;
use tonic::transport::server::TcpIncoming;

use super::{Ran, alone, ask, command, ended};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(each_workload_does_what_it_says);

/// A short run that answers as JSON, without its duration.
const SHORT: [&str; 6] = ["bench", "--json", "--warm-up", "0s", "--in-flight", "8"];

/// The answer of a short run, and its server. On a busy machine no message ends in so short a time: a longer run follows.
async fn short_run(kind: Kind, arguments: &[&str]) -> (TestServer, Value) {
    for duration in ["300ms", "10s"] {
        let server = TestServer::start(kind).await;
        let ran = ask(&server, &[&SHORT[..], &["--for", duration], arguments].concat()).await;
        let shown = ran.json().remove(0);
        if count(&shown["count"]) > 0 {
            return (server, shown);
        }
        server.stop().await;
    }
    panic!("{arguments:?}: no message ended");
}

/// The entries of a consumer, by their states.
async fn states(server: &TestServer, consumer: &str) -> BTreeMap<String, u64> {
    let listed = ask(server, &["entries", "list", "--consumer", consumer, "--limit", "0", "--json"]).await;
    let mut counts = BTreeMap::new();
    for entry in listed.json() {
        let state = entry["state"].as_str().unwrap().trim_start_matches("ENTRY_STATE_").to_owned();
        *counts.entry(state).or_default() += 1;
    }
    counts
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

/// How many calls of a kind were answered.
fn answered(shown: &Value, call: &str) -> u64 {
    count(&shown["calls"][call]["answered"])
}

async fn each_workload_does_what_it_says(kind: Kind) {
    // The workload, how many messages a call has, which calls there are, and what they leave.
    type Leaves = fn(&Value) -> [u64; 2];
    let rows: [(&str, &str, &[&str], Leaves); 8] = [
        ("claim", "1", &["Claim"], |it| [answered(it, "Claim"), 0]),
        ("claim", "20", &["BatchClaim"], |it| [answered(it, "BatchClaim") * 20, 0]),
        ("pair", "1", &["Claim", "Complete"], |it| [0, answered(it, "Complete")]),
        ("pair", "20", &["BatchClaim", "BatchSettle"], |it| [0, answered(it, "BatchSettle") * 20]),
        ("duplicates=75%", "1", &["Claim"], |it| [count(&it["created"]), 2_000]),
        ("duplicates=100%", "10", &["BatchClaim"], |_| [0, 2_000]),
        ("renew", "1", &["Renew"], |_| [8, 0]),
        ("renew", "5", &["BatchSettle"], |_| [40, 0]),
    ];
    for (workload, batch, calls, leaves) in rows {
        let (server, shown) = short_run(kind, &["--workload", workload, "--batch", batch]).await;
        let told: Vec<&str> = shown["calls"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(told, calls, "{shown}");
        assert!(shown["perSecond"].as_f64().unwrap() > 0.0, "{shown}");
        assert_eq!(count(&shown["checked"]["wrongAnswers"]), 0, "{shown}");
        assert_eq!(count(&shown["checked"]["raced"]), 100, "{shown}");
        assert_eq!(count(&shown["checked"]["unknown"]), 0, "{shown}");
        let [held, completed] = leaves(&shown);
        let mut expected = BTreeMap::from([("IN_PROGRESS".to_owned(), held + 100)]);
        if completed > 0 {
            expected.insert("COMPLETED".to_owned(), completed);
        }
        assert_eq!(states(&server, "bench-1").await, expected, "{workload} × {batch}: {shown}");
        server.stop().await;
    }
    let (server, shown) = short_run(kind, &["--workload", "hot-keys=3", "--batch", "4"]).await;
    assert!(count(&shown["created"]) <= 3 && answered(&shown, "BatchSettle") > 0, "{shown}");
    assert_eq!(count(&shown["checked"]["wrongAnswers"]), 0, "{shown}");
    let left = states(&server, "bench-1").await;
    assert_eq!(left.values().sum::<u64>(), count(&shown["created"]) + 100, "{left:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_share_the_load_and_people_are_told_what_stays() {
    let server = TestServer::start(Kind::Sqlite).await;
    let short = ["bench", "--for", "300ms", "--warm-up", "100ms", "--in-flight", "4", "--no-check"];
    let ran = ask(&server, &[&short[..], &["--consumers", "3", "--ids", "v7", "--histogram"]].concat()).await;
    let ran = ran.says(0, &["pairs in 0.", "Claim ", "P99.9", "client: 0.", "PERCENTILE", "100.0000"]);
    assert!(!ran.out.contains("checked:"), "{ran:?}");
    let mut all = 0;
    for consumer in ["bench-1", "bench-2", "bench-3"] {
        let left = states(&server, consumer).await;
        assert!(!left.is_empty(), "{consumer}");
        all += left.values().sum::<u64>();
    }
    let stays = format!("{all} entries of bench-1 to bench-3 stay in the ledger");
    assert!(ran.err.contains(&stays), "must say {stays}: {ran:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_is_kept_and_a_step_is_found() {
    let server = TestServer::start(Kind::Sqlite).await;
    let arguments = ["bench", "--json", "--no-check", "--warm-up", "0s"];
    let rate = ["--rate", "100", "--for", "1s", "--workload", "claim", "--histogram"];
    let shown = ask(&server, &[&arguments[..], &rate].concat()).await.json().remove(0);
    let claims = answered(&shown, "Claim");
    // Every ten milliseconds, from the start on; the last ones may be answered after the end.
    assert!((90..=101).contains(&(claims + count(&shown["missed"]))), "{shown}");
    let buckets = shown["calls"]["Claim"]["histogram"].as_array().unwrap();
    let in_buckets: u64 = buckets.iter().map(|bucket| count(&bucket[1])).sum();
    assert_eq!(in_buckets, claims, "{shown}");

    let steps = ["--steps", "--for", "100ms", "--workload", "claim"];
    let shown = ask(&server, &[&arguments[..], &steps].concat()).await.json();
    let in_flight: Vec<u64> = shown[..11].iter().map(|step| count(&step["inFlight"])).collect();
    assert_eq!(in_flight, (0..=10).map(|step| 1 << step).collect::<Vec<u64>>());
    assert!(in_flight.contains(&count(&shown[11]["knee"])), "{}", shown[11]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_server_fails_where_a_limit_is_given() {
    let server = TestServer::start(Kind::Sqlite).await;
    for (max, code, says) in [("10m", 0, ""), ("10us", 1, "error: --max-p99: the 99th percentile is ")] {
        let arguments = ["bench", "--for", "100ms", "--no-check", "--max-p99", max];
        ask(&server, &arguments).await.says(code, &[says]);
    }
    let steps = ["bench", "--steps", "--for", "100ms", "--warm-up", "0s", "--no-check", "--max-p99"];
    for (max, code, says) in
        [("10m", 0, "size by "), ("10us", 1, "error: --max-p99: the 99th percentile is ")]
    {
        ask(&server, &[&steps[..], &[max]].concat()).await.says(code, &[says]);
    }
    server.stop().await;
}

/// A refusal is not a wrong answer: it is counted, and what was refused cannot be checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_of_a_quota_are_counted_and_not_wrong() {
    // Fewer than the claims of one instant.
    let quota = Policy { claims_per_second: 20, ..Policy::default() };
    let server = TestServer::start_with(Kind::Sqlite, Setup::default().with("bench-1", quota)).await;
    // Clients that renew have waited for their claims before the load.
    for (workload, batch, refused) in
        [("claim", "1", true), ("claim", "20", true), ("pair", "20", true), ("renew", "1", false)]
    {
        let run = ["bench", "--warm-up", "0s", "--for", "1s", "--in-flight", "64", "--workload", workload];
        let run = [&run[..], &["--batch", batch]].concat();
        let ran = ask(&server, &run).await.says(0, &[" could not be looked at"]);
        assert_eq!(ran.out.contains("refused: QUOTA_EXCEEDED "), refused, "{workload} × {batch}: {ran:?}");
        let shown = ask(&server, &[&run[..], &["--json"]].concat()).await.json().remove(0);
        assert_eq!(shown["refused"]["QUOTA_EXCEEDED"].is_u64(), refused, "{workload} × {batch}: {shown}");
        assert_eq!(count(&shown["checked"]["wrongAnswers"]), 0, "{workload} × {batch}: {shown}");
    }
    // Messages that must be completed before the load cannot be.
    let duplicates = ["bench", "--for", "300ms", "--workload", "duplicates=50%"];
    ask(&server, &duplicates).await.says(1, &["error: QUOTA_EXCEEDED"]);
    // A refusal that does not pass ends the load.
    ask(&server, &["policy", "set", "bench-1", "--disabled", "--reason", "r"]).await.says(0, &[]);
    for batch in ["1", "20"] {
        let run = ["bench", "--warm-up", "0s", "--for", "1m", "--workload", "claim", "--batch", batch];
        ask(&server, &run).await.says(1, &["error: CONSUMER_DISABLED"]);
    }
    server.stop().await;
}

/// A server that grants whatever is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_grants_twice_is_seen() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let service = LedgerServiceServer::new(echo::Echo::default());
    let incoming = TcpIncoming::from(listener);
    let server =
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
    for (workload, says) in [
        ("claim", "granted twice: a second claim got the token 1780000"),
        ("claim", "granted twice: 4 of 4 claims at the same time"),
        ("pair", ") after it was completed"),
        ("duplicates=50%", ") after it was completed"),
        ("hot-keys=2", "granted "),
        ("renew", "granted twice: "),
    ] {
        let mut command =
            command(&["bench", "--warm-up", "0s", "--workload", workload, "--endpoint", &endpoint]);
        if says.contains("4 of 4") {
            // One message alone, so that the first faults that are told are those of the race. Its call begins at
            // once, or at any time within a second where the machine is busy.
            command.args(["--in-flight", "1", "--batch", "1", "--rate", "1", "--for", "1s"]);
        } else {
            command.args(["--in-flight", "8", "--for", "100ms"]);
        }
        let ran = tokio::task::spawn_blocking(move || ended(command.output().unwrap())).await.unwrap();
        ran.says(1, &[says, "wrong answers", "bench-1 bench "]);
    }
    server.abort();
}

#[test]
fn values_out_of_bounds_are_refused() {
    for (arguments, says) in [
        (&["--workload", "pear"][..], "`pear` is none of claim, pair, duplicates=90%, hot-keys=10 and renew"),
        (&["--workload", "duplicates=101%"], "duplicates: `101` is not a whole number from 0 to 100"),
        (&["--batch", "0"], "0 is not in 1..=1000"),
        (&["--batch", "1001"], "1001 is not in 1..=1000"),
        (&["--in-flight", "20001"], "20001 is not in 1..=20000"),
        (&["--in-flight", "many"], "invalid digit"),
        (&["--connections", "1001"], "1001 is not in 1..=1000"),
        (
            &["--connections", "1", "--in-flight", "257"],
            "--connections: 1 carry at most 256 concurrent calls, of 257: name at least 2",
        ),
        (&["--connections", "3", "--steps"], "of 1024: name at least 4"),
        (
            &["--batch", "1000", "--in-flight", "1000"],
            "--batch: 1000 calls of 1000 messages are more than 200000",
        ),
        (&["--rate", "0"], "0 is not in 1..=1000000"),
        (&["--rate", "5", "--steps"], "cannot be used with"),
        (&["--in-flight", "5", "--steps"], "cannot be used with"),
        (&["--for", "99ms"], "--for: is 99ms, must be 100ms to 1d"),
        (&["--for", "soon"], "`soon` is not a duration"),
        (&["--warm-up", "11m"], "--warm-up: is 11m, must be 0s to 10m"),
        (&["--max-p99", "1us"], "--max-p99: is 1us, must be 10us to 10m"),
        (&["--result-bytes", "1048577"], "1048577 is not in 0..=1048576"),
        (&["--consumers", "0"], "0 is not in 1..=1000"),
        (&["--ids", "uuid"], "[possible values: random, v7, ulid, object-id, snowflake, decimal, offset]"),
    ] {
        alone(&[&["bench"], arguments].concat()).says(2, &[says]);
    }
}

#[test]
fn a_server_that_is_not_on_this_machine_is_asked_for() {
    for flag in ["--endpoint", "--server"] {
        // Nobody can be asked here; no connection is tried.
        alone(&["bench", flag, "192.0.2.1:50051"]).says(2, &["not confirmed", "--yes"]);
    }
}

/// A run with a server of its own, whose temporary files lie here. What it says goes to files beside: the end of a pipe
/// would be waited for as long as the server has it, too.
fn own(folder: &std::path::Path, said: &[std::path::PathBuf; 2], arguments: &[&str]) -> Child {
    let mut command = command(&[&["bench", "--warm-up", "0s"], arguments].concat());
    command.env("TMPDIR", folder).env("IDEMPOTENCY_LEDGER_DATABASE_URL", "postgres://127.0.0.1:1/no");
    let [out, err] = said.each_ref().map(|path| std::fs::File::create(path).unwrap());
    command.stdout(out).stderr(err).spawn().unwrap()
}

/// Whether any process has the folder in its arguments.
fn is_used(folder: &std::path::Path) -> bool {
    let name = folder.to_str().unwrap();
    std::fs::read_dir("/proc").unwrap().flatten().any(|one| {
        let arguments = std::fs::read(one.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).contains(name)
    })
}

#[test]
fn nothing_of_a_server_of_its_own_stays() {
    for (arguments, signal, code, says) in [
        (&["--for", "300ms"][..], None, 0, "new ones claimed by several at the same time"),
        (&["--for", "1m"], Some("INT"), 6, "error: interrupted"),
        (&["--for", "1m"], Some("TERM"), 6, "error: interrupted"),
        (&["--for", "1m", "--result-bytes", "1048576"], None, 1, "beyond the server's result_bytes_max"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let beside = tempfile::tempdir().unwrap();
        let said = ["out", "err"].map(|name| beside.path().join(name));
        let mut child = own(folder.path(), &said, arguments);
        if let Some(signal) = signal {
            let until = Instant::now() + Duration::from_secs(30);
            while !is_used(folder.path()) {
                assert!(Instant::now() < until, "it starts no server");
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(Duration::from_millis(500));
            crate::harness::signals::signal(signal, &[child.id()]);
        }
        let status = child.wait().unwrap();
        let [stdout, stderr] = said.map(|path| std::fs::read(path).unwrap());
        let ran: Ran = ended(Output { status, stdout, stderr });
        ran.says(code, &[says]);
        assert!(!is_used(folder.path()), "{arguments:?}: the server is still there");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{arguments:?}");
    }
}
