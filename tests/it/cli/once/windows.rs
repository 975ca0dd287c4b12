//! A run that is killed in each window, and the run after it.

use std::sync::atomic::Ordering;

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::EntryState;

use super::{Folder, PAY, deaf, once, start, state, until, until_state};
use crate::harness::cutter::{Cutter, Lost};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};
use crate::harness::signals::signal;

on_both_stores!(
    killed_before_the_answer_to_claim_the_next_run_waits_and_pays,
    killed_while_the_command_runs_the_next_run_waits_and_pays,
    killed_before_complete_the_next_run_has_the_same_key,
    killed_after_complete_the_next_run_prints_the_result,
    runs_side_by_side_pay_once,
    lost_answers_are_repeated_and_pay_once,
);

/// Beyond the lease and the grace of the usual policy.
const BEYOND: Span = Span(40_000_000);

/// While the lease lasts the next run is told to come later; afterwards it pays, and the one after that has the result.
async fn goes_on(server: &TestServer, folder: &Folder, id: &str, effects_before: usize) {
    once(server, folder, &[], id, PAY).await.says(75, &["in_progress"]);
    assert_eq!(folder.lines("effects").len(), effects_before, "amid the lease");
    server.advance(BEYOND).await;
    once(server, folder, &[], id, PAY).await.is(0, "paid\n");
    once(server, folder, &[], id, PAY).await.is(0, "paid\n");
    assert_eq!(folder.lines("effects").len(), effects_before + 1);
}

async fn killed_before_the_answer_to_claim_the_next_run_waits_and_pays(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    let proxy = deaf::before(server.address(), b"unanswered").await;
    let run = start(&proxy, folder.0.path(), &[], "unanswered", PAY);
    until_state(&server, "unanswered", EntryState::InProgress).await;
    run.kill();
    goes_on(&server, &folder, "unanswered", 0).await;
    server.stop().await;
}

async fn killed_while_the_command_runs_the_next_run_waits_and_pays(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    let script = "echo $$ >began; exec sleep 1000";
    let run = start(&server.address().to_string(), folder.0.path(), &[], "running", script);
    let pid: u32 = folder.line("began").await.parse().unwrap();
    run.kill();
    // A run that is killed cannot end its command.
    signal("KILL", &[pid]);
    goes_on(&server, &folder, "running", 0).await;
    server.stop().await;
}

async fn killed_before_complete_the_next_run_has_the_same_key(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    let script = format!("{PAY}; kill -KILL $PPID");
    let ran = once(&server, &folder, &[], "unsettled", &script).await;
    assert_eq!(ran.code, -1, "killed: {ran:?}");
    goes_on(&server, &folder, "unsettled", 1).await;
    let effects = folder.lines("effects");
    let words: Vec<Vec<&str>> = effects.iter().map(|line| line.split(' ').collect()).collect();
    let [first, second] = words.as_slice() else { panic!("{effects:?}") };
    assert_eq!((first[0], first[1], second[1]), (second[0], "1", "2"), "{effects:?}");
    assert!(first[2].parse::<i64>().unwrap() < second[2].parse().unwrap(), "tokens grow: {effects:?}");
    server.stop().await;
}

async fn killed_after_complete_the_next_run_prints_the_result(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    let proxy = deaf::before(server.address(), b"paid\n").await;
    let run = start(&proxy, folder.0.path(), &[], "settled", PAY);
    until_state(&server, "settled", EntryState::Completed).await;
    run.kill();
    once(&server, &folder, &[], "settled", PAY).await.is(0, "paid\n");
    assert_eq!(folder.lines("effects").len(), 1);
    server.stop().await;
}

async fn runs_side_by_side_pay_once(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    let script = format!("echo began >>began; until [ -e go ]; do sleep 0.01; done; {PAY}");
    let address = server.address().to_string();
    let runs: Vec<_> = (0..6).map(|_| start(&address, folder.0.path(), &[], "together", &script)).collect();
    let mut runs: Vec<_> = runs.into_iter().map(|run| tokio::spawn(run.ran())).collect();
    until("all but the holder ended", || runs.iter().filter(|run| !run.is_finished()).count() == 1).await;
    assert_eq!(state(&server, "together").await, Some(EntryState::InProgress));
    std::fs::write(folder.path("go"), "").unwrap();
    let mut codes = Vec::new();
    for run in runs.drain(..) {
        codes.push(run.await.unwrap().code);
    }
    codes.sort_unstable();
    assert_eq!(codes, [0, 75, 75, 75, 75, 75]);
    assert_eq!((folder.lines("began").len(), folder.lines("effects").len()), (1, 1));
    server.stop().await;
}

/// The connection breaks in place of the answer to Claim and to Complete; and behind each packet of the client in turn, after
/// the server has read it.
async fn lost_answers_are_repeated_and_pay_once(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    for (id, bytes) in [("lost-claim", &b"lost-claim"[..]), ("lost-complete", b"paid\n")] {
        let (proxy, cut) = deaf::cutting(server.address(), bytes).await;
        let script = PAY.replace("effects", id);
        start(&proxy, folder.0.path(), &[], id, &script).ran().await.is(0, "paid\n");
        assert!(cut.load(Ordering::SeqCst), "{id}: no answer was lost");
        once(&server, &folder, &[], id, &script).await.is(0, "paid\n");
        let effects = folder.lines(id);
        assert!(effects.len() == 1 && effects[0].contains(" 1 "), "{id}: the first attempt: {effects:?}");
    }
    for packet in 1..=8 {
        let id = format!("packet-{packet}");
        let cutter = Cutter::before(server.address(), packet, Lost::Answer).await;
        let script = PAY.replace("effects", &id);
        let ran = start(&cutter.address.to_string(), folder.0.path(), &["--timeout", "1s"], &id, &script)
            .ran()
            .await;
        once(&server, &folder, &[], &id, &script).await.is(0, "paid\n");
        let effects = folder.lines(&id);
        assert_eq!(effects.len(), 1, "{id}: {ran:?}");
        assert!(effects[0].contains(" 1 "), "the first attempt: {effects:?}");
    }
    server.stop().await;
}
