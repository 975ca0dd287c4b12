//! A spool of ten thousand effects, twice; and one whose server is killed in the middle.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::{
    self, EffectEvidence, ReconcileEntriesRequest, ReconcileOutcome, ReconcileResult, ReconcileRow,
};

use super::{AT, answered, instant, request, row};
use crate::harness::on_both_stores;
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, TestServer};
use crate::process::{BINARY, Server, sqlite};

on_both_stores!(a_spool_of_ten_thousand_effects_is_brought_in_once,);

const EFFECTS: i64 = 10_000;
const PART: usize = 500;
/// One effect in this number has no end.
const UNFINISHED: i64 = 50;

fn effect(number: i64) -> ReconcileRow {
    let evidence =
        if number % UNFINISHED == 0 { EffectEvidence::SpoolUnfinished } else { EffectEvidence::Spool };
    ReconcileRow { at: instant(AT + Span(number)), ..row(&format!("e{number}"), evidence) }
}

fn count(results: &[ReconcileResult], outcome: ReconcileOutcome) -> usize {
    results.iter().filter(|result| result.outcome() == outcome && result.rejected.is_none()).count()
}

async fn a_spool_of_ten_thousand_effects_is_brought_in_once(kind: Kind) {
    let server = TestServer::start(kind).await;
    let effects: Vec<_> = (0..EFFECTS).map(effect).collect();
    let (all, parked) = (effects.len(), (EFFECTS / UNFINISHED) as usize);
    let send = async |dry_run| {
        let mut results = Vec::new();
        for part in effects.chunks(PART) {
            let part = ReconcileEntriesRequest { dry_run, ..request(part.to_vec()) };
            results.extend(answered(&server, part).await.unwrap());
        }
        results
    };
    for dry_run in [true, false] {
        let results = send(dry_run).await;
        assert_eq!(count(&results, ReconcileOutcome::Completed), all - parked, "dry run: {dry_run}");
        assert_eq!(count(&results, ReconcileOutcome::Parked), parked, "dry run: {dry_run}");
    }
    for dry_run in [true, false] {
        assert_eq!(count(&send(dry_run).await, ReconcileOutcome::Known), all, "dry run: {dry_run}");
    }
    let number = |what: &'static str| server.at.number(what);
    assert_eq!(number("SELECT count(*) FROM @ledger.entries").await, EFFECTS);
    assert_eq!(number("SELECT count(*) FROM @ledger.audit").await, EFFECTS, "an event each");
    server.stop().await;
}

/// A spool as a package writes it, of an outage that is still to come: by the store's clock its effects have just happened.
fn spool(prefix: &str, effects: i64) -> String {
    let mut text = String::new();
    for number in 0..effects {
        let line = |event: &str, minute: i64| {
            format!(
                "{{\"v\":1,\"event\":\"{event}\",\"row\":\"{number:032x}\",\"at\":\"2090-01-01T00:{minute:02}:00.{number:06}Z\",\
                 \"consumer\":\"c\",\"source\":\"tests\",\"id\":\"{prefix}{number}\"}}"
            )
        };
        writeln!(text, "{}\n{}", line("begin", 1), line("end", 2)).unwrap();
    }
    text
}

/// Runs the command against a server: its exit code and output. `None` if the server was killed meanwhile; the command, which
/// waits for an answer, is then killed too.
async fn reconcile(server: &mut Server, file: &Path) -> Option<(Option<i32>, String)> {
    let mut command = Command::new(BINARY);
    command.args([
        "entries",
        "reconcile",
        file.to_str().unwrap(),
        "--reason",
        "the ledger was away",
        "--yes",
    ]);
    command.args(["--endpoint", &server.address, "--json"]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    loop {
        if server.child.try_wait().unwrap().is_some() {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        if child.try_wait().unwrap().is_some() {
            let output = child.wait_with_output().unwrap();
            return Some((output.status.code(), String::from_utf8(output.stdout).unwrap()));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// How many effects were brought in, and how many were known before.
fn outcomes(report: &str) -> (usize, usize) {
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    let of = |word: &str| report["outcomes"][word].as_u64().unwrap_or(0) as usize;
    let (completed, known) = (of("COMPLETED"), of("KNOWN"));
    assert_eq!(report["rows"].as_u64(), Some((completed + known) as u64), "{report}");
    (completed, known)
}

async fn events(server: &Server) -> usize {
    let mut admin = AdminServiceClient::new(server.channel().await.unwrap());
    let (mut count, mut page_token) = (0, String::new());
    loop {
        let request = proto::ListAuditEventsRequest { page_size: 1_000, page_token, ..Default::default() };
        let page = admin.list_audit_events(request).await.unwrap().into_inner();
        count += page.events.iter().filter(|event| event.action == "RECONCILE_COMPLETED").count();
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return count;
        }
    }
}

/// Each effect once, whatever was written when the server died in the third of four requests.
async fn kill_in_the_middle(url: &str, folder: &Path) {
    const ALL: usize = 4 * PART;
    for (round, point) in ["before_send", "after_send", "after_commit"].into_iter().enumerate() {
        let file = folder.join(format!("{point}.jsonl"));
        std::fs::write(&file, spool(point, ALL as i64)).unwrap();
        let mut command = Command::new(BINARY);
        command.env("IDEMPOTENCY_LEDGER_CRASH_AT", format!("{point}:3"));
        let mut server = Server::spawn(command, url).await;
        assert_eq!(reconcile(&mut server, &file).await, None, "{point}: the server dies before the end");
        drop(server);
        let mut server = Server::start(url).await;
        let (code, report) = reconcile(&mut server, &file).await.unwrap();
        let (completed, known) = outcomes(&report);
        assert_eq!((code, completed + known), (Some(0), ALL), "{point}: {report}");
        // Whether a statement that was sent is carried out is open; before and after that it is not.
        let written = match point {
            "before_send" => 2 * PART..=2 * PART,
            "after_commit" => 3 * PART..=3 * PART,
            _ => 2 * PART..=3 * PART,
        };
        assert!(written.contains(&known), "{point}: what was written is known, and nothing else: {report}");
        let (_, report) = reconcile(&mut server, &file).await.unwrap();
        assert_eq!(outcomes(&report), (0, ALL), "{point}: the same file again");
        assert_eq!(events(&server).await, (round + 1) * ALL, "{point}: an event each");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_the_middle_brings_no_effect_in_twice_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    kill_in_the_middle(&sqlite(folder.path()), folder.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_the_middle_brings_no_effect_in_twice_on_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let database = pg::database().await;
    kill_in_the_middle(&pg::shared().url(&database), folder.path()).await;
}
