//! What the ledger does about an error of Postgres: one table, by SQLSTATE, on the real statements.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use idempotency_ledger::proto::{self, ErrorReason, claim_response::Verdict};

use super::cluster;
use crate::harness::details::{acquired, claim};
use crate::harness::faulty::{FaultyStore, Plan};
use crate::harness::server::{Kind, Setup, TestServer, TestStore};
use crate::harness::signals::signal;
use crate::process::log::{END_MAX, ends};
use crate::process::{BINARY, Server};

const COMMANDS: usize = 64;

/// The reasons of a batch of claims, each once; nothing where all are granted.
fn reasons(answers: &[proto::ClaimResponse]) -> Vec<ErrorReason> {
    let rejected = answers.iter().filter_map(|answer| match &answer.verdict {
        Some(Verdict::Rejected(rejected)) => Some(rejected.reason()),
        _ => None,
    });
    let mut reasons: Vec<ErrorReason> = rejected.collect();
    assert!(reasons.is_empty() || reasons.len() == answers.len(), "some were granted: {reasons:?}");
    reasons.dedup();
    reasons
}

fn batch(prefix: &str) -> proto::BatchClaimRequest {
    let requests = (0..COMMANDS).map(|number| claim("c", &format!("{prefix}-{number}"))).collect();
    proto::BatchClaimRequest { requests }
}

/// The database refuses each write of entries with a code: what no row can cause refuses the batch as a whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_row_causes_refuses_a_batch_by_one_statement() {
    let mut at = TestStore::new(Kind::Postgres).await;
    for statement in [
        "CREATE TABLE ledger.test_refuse (code text)",
        "CREATE FUNCTION ledger.test_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
         DECLARE refused text := (SELECT max(code) FROM ledger.test_refuse);
         BEGIN
             IF refused IS NOT NULL THEN RAISE EXCEPTION 'refused' USING ERRCODE = refused; END IF;
             RETURN NULL;
         END $$",
        "CREATE TRIGGER refuse AFTER INSERT OR UPDATE ON @entries
         FOR EACH STATEMENT EXECUTE FUNCTION ledger.test_refuse()",
    ] {
        at.execute(statement).await;
    }
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let mut server = TestServer::on(at, Setup::default()).await;
    acquired(&server.client.claim(claim("c", "first")).await.unwrap().into_inner());
    for (code, reason, statements) in [
        // Disk, memory, connections, a quota of temporary files.
        ("53100", ErrorReason::StoreUnavailable, 1),
        ("53200", ErrorReason::StoreUnavailable, 1),
        ("53300", ErrorReason::StoreUnavailable, 1),
        ("53400", ErrorReason::StoreUnavailable, 1),
        // Read-only; the system; a published table without a replica identity; a broken configuration file.
        ("25006", ErrorReason::StoreUnavailable, 1),
        ("58030", ErrorReason::StoreUnavailable, 1),
        ("55000", ErrorReason::StoreUnavailable, 1),
        ("F0000", ErrorReason::StoreUnavailable, 1),
        // Rights that a quota takes away; what a look-alike of Postgres cannot do.
        ("42501", ErrorReason::StoreUnavailable, 1),
        ("0A000", ErrorReason::StoreUnavailable, 1),
        // An end of the session: tried again on a new one, since it may have been applied.
        ("57P01", ErrorReason::OutcomeUnknown, 2),
        // A row may be at fault: each is looked for.
        ("23514", ErrorReason::Internal, 2 * COMMANDS),
        ("XX001", ErrorReason::Internal, 2 * COMMANDS),
    ] {
        server.at.execute(&format!("INSERT INTO ledger.test_refuse VALUES ('{code}')")).await;
        let before = plan.writes.load(Ordering::SeqCst);
        let answers = server.client.batch_claim(batch(code)).await.unwrap().into_inner().responses;
        let sent = plan.writes.load(Ordering::SeqCst) - before;
        assert_eq!(reasons(&answers), [reason], "{code}");
        assert!(sent <= statements, "{code}: {sent} statements, at most {statements}");
        server.at.execute("DELETE FROM ledger.test_refuse").await;
        // Another session may have to be opened first.
        let until = Instant::now() + Duration::from_secs(20);
        while server.client.claim(claim("c", &format!("then-{code}"))).await.is_err() {
            assert!(Instant::now() < until, "{code}: nothing is granted afterwards");
        }
    }
    server.stop().await;
}

/// Postgres has no number left for a transaction: no row is at fault, and a batch costs one statement and one line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_at_the_end_of_its_transaction_ids_is_unavailable() {
    let mut cluster = cluster("fsync = off\nwal_level = logical").await;
    let url = cluster.url("postgres");
    assert!(Command::new(BINARY).args(["migrate", "--database-url", &url]).status().unwrap().success());
    let cluster = tokio::task::spawn_blocking(move || {
        cluster.nears_wraparound();
        cluster
    })
    .await
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let to = Stdio::from(std::fs::File::create(&log).unwrap());
    let settings = ["--log", "warn,sqlx=error", "--sessions", "1"];
    let mut server = Server::with(Command::new(BINARY), &url, &settings, to).await;
    let mut client = server.client().await;
    client.claim(claim("c", "first")).await.unwrap();
    cluster.wraps_around().await;
    let answers = client.batch_claim(batch("then")).await.unwrap().into_inner().responses;
    assert_eq!(reasons(&answers), [ErrorReason::StoreUnavailable]);
    // The server writes its log beside the answers: only a server that has ended has written each line.
    signal("TERM", &[server.child.id()]);
    assert_eq!(ends(&mut server.child, END_MAX).await.code(), Some(0));
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(text.matches("the store refuses a statement").count(), 1, "{text}");
    assert!(text.contains("wraparound") && !text.contains("for good"), "{text}");
}
