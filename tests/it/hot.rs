//! Hot keys: whoever waits for one key shares a load and a write, and is answered as if served one after the other.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use bytes::Bytes;
use futures_util::future::join_all;
use idempotency_ledger::proto::settlement::Action;
use idempotency_ledger::proto::settlement_result::Outcome;
use idempotency_ledger::proto::{self, EntryState, claim_response::Verdict};
use sqlx::Executor as _;

use crate::harness::details::{acquired, claim, completed, key};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_both_stores;
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, Setup, TestServer, TestStore};

on_both_stores!(
    many_calls_for_one_key_cost_few_statements,
    commands_of_one_key_share_a_load_and_a_write,
    nothing_of_a_lost_write_counts,
    an_unknown_outcome_is_unknown_for_those_who_changed_something,
);

async fn server(kind: Kind) -> (TestServer, Arc<Plan>) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    (TestServer::on(at, Setup::default()).await, plan)
}

/// How many loads and writes there were since the last look.
fn statements(plan: &Plan) -> (usize, usize) {
    (plan.loads.swap(0, SeqCst), plan.writes.swap(0, SeqCst))
}

fn renew(token: i64) -> Action {
    Action::Renew(proto::RenewRequest {
        key: key("c", "hot"),
        token,
        checkpoint: Some(Bytes::from(vec![1])),
        ..Default::default()
    })
}

fn fail(token: i64, error: &str) -> Action {
    let (error, retry_after) = (error.to_owned(), Some(prost_types::Duration::default()));
    Action::Fail(proto::FailRequest { key: key("c", "hot"), token, error, retry_after, ..Default::default() })
}

fn complete(token: i64) -> Action {
    Action::Complete(proto::CompleteRequest { key: key("c", "hot"), token, ..Default::default() })
}

/// What became of each: a word, or the reason of its refusal.
async fn settle(server: &mut TestServer, actions: Vec<Action>) -> Vec<String> {
    let settlements = actions.into_iter().map(|action| proto::Settlement { action: Some(action) }).collect();
    let answer = server.client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap();
    let word = |result: proto::SettlementResult| match result.outcome.unwrap() {
        Outcome::Renew(_) => "renewed".to_owned(),
        Outcome::Complete(done) => format!("completed{}", if done.replayed { ", replayed" } else { "" }),
        Outcome::Fail(done) => format!("failed{}", if done.replayed { ", replayed" } else { "" }),
        Outcome::Release(_) => "released".to_owned(),
        Outcome::Rejected(rejected) => rejected.reason().as_str_name().replace("ERROR_REASON_", ""),
    };
    answer.into_inner().results.into_iter().map(word).collect()
}

async fn held(server: &mut TestServer) -> i64 {
    acquired(&server.client.claim(claim("c", "hot")).await.unwrap().into_inner()).token
}

async fn entry(server: &mut TestServer) -> proto::Entry {
    let request = proto::GetEntryRequest { key: key("c", "hot"), ..Default::default() };
    server.admin.get_entry(request).await.unwrap().into_inner().entry.unwrap()
}

async fn many_calls_for_one_key_cost_few_statements(kind: Kind) {
    const CALLS: usize = 64;
    let (mut server, plan) = server(kind).await;
    let calls = |server: &TestServer| {
        let clients = (0..CALLS).map(|_| server.client.clone()).collect::<Vec<_>>();
        join_all(clients.into_iter().map(|mut client| async move {
            client.claim(claim("c", "hot")).await.unwrap().into_inner().verdict.unwrap()
        }))
    };
    let answers = calls(&server).await;
    let granted: Vec<i64> = answers
        .iter()
        .filter_map(|verdict| if let Verdict::Acquired(held) = verdict { Some(held.token) } else { None })
        .collect();
    let waiting = answers.iter().filter(|verdict| matches!(verdict, Verdict::InProgress(_))).count();
    assert_eq!((granted.len(), waiting), (1, CALLS - 1));
    let (loads, writes) = statements(&plan);
    assert!(loads + writes < CALLS / 2, "{loads} loads, {writes} writes");
    assert_eq!(settle(&mut server, vec![complete(granted[0])]).await, ["completed"]);
    statements(&plan);
    let answers = calls(&server).await;
    assert!(answers.iter().all(|verdict| matches!(verdict, Verdict::Completed(_))));
    let (loads, writes) = statements(&plan);
    assert!(loads + writes < CALLS / 2, "{loads} loads, {writes} writes");
    server.stop().await;
}

/// What was asked in one call, what it is answered, and how many loads and writes it takes.
async fn commands_of_one_key_share_a_load_and_a_write(kind: Kind) {
    type Asks = fn(i64) -> Vec<Action>;
    let rows: &[(Asks, &[&str], (usize, usize), i64)] = &[
        (|t| vec![renew(t); 5], &["renewed"; 5], (1, 1), 1),
        // The guess of the first Complete, and one look for whoever comes behind it.
        (
            |t| vec![complete(t), complete(t), renew(t)],
            &["completed", "completed, replayed", "CLAIM_CLOSED"],
            (1, 1),
            1,
        ),
        (
            |t| vec![renew(t), fail(t, "no"), fail(t, "no"), renew(t), complete(t)],
            &["renewed", "failed", "failed, replayed", "CLAIM_CLOSED", "completed"],
            (1, 1),
            1,
        ),
        (|t| vec![renew(t - 1), renew(t + 1)], &["LEASE_LOST", "TOKEN_FROM_FUTURE"], (1, 0), 0),
    ];
    for (number, (asks, told, cost, steps)) in rows.iter().enumerate() {
        let (mut server, plan) = server(kind).await;
        let token = held(&mut server).await;
        let before = entry(&mut server).await.version;
        statements(&plan);
        assert_eq!(settle(&mut server, asks(token)).await, *told, "{number}");
        assert_eq!(statements(&plan), *cost, "{number}: loads and writes");
        assert_eq!(entry(&mut server).await.version - before, *steps, "{number}: steps of the version");
        server.stop().await;
    }
    // Claims: whoever comes behind a first grant needs no load.
    let (mut server, plan) = server(kind).await;
    let requests = vec![claim("c", "hot"); 4];
    let answer = server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap();
    let answers = answer.into_inner().responses;
    let token = acquired(&answers[0]).token;
    assert!(answers[1..].iter().all(|answer| matches!(answer.verdict, Some(Verdict::InProgress(_)))));
    assert_eq!(statements(&plan), (0, 1));
    settle(&mut server, vec![complete(token)]).await;
    let requests = vec![claim("c", "hot"); 4];
    statements(&plan);
    let answer = server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap();
    answer.into_inner().responses.iter().for_each(|answer| drop(completed(answer)));
    let (loads, writes) = statements(&plan);
    assert!(loads <= 1 && writes <= 1, "{loads} loads, {writes} writes");
    server.stop().await;
}

async fn nothing_of_a_lost_write_counts(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    let token = held(&mut server).await;
    let before = entry(&mut server).await.version;
    statements(&plan);
    plan.next([Inject::Conflict, Inject::Conflict]);
    let told = settle(&mut server, vec![renew(token), fail(token, "no"), complete(token)]).await;
    assert_eq!(told, ["renewed", "failed", "completed"]);
    assert_eq!(statements(&plan), (3, 3));
    let entry = entry(&mut server).await;
    assert_eq!((entry.version, entry.state()), (before + 1, EntryState::Completed));
    server.stop().await;
}

async fn an_unknown_outcome_is_unknown_for_those_who_changed_something(kind: Kind) {
    // The write was applied and its answer lost: the second look tells who is who.
    let (mut server, plan) = server(kind).await;
    let token = held(&mut server).await;
    plan.next([Inject::LostAnswer]);
    let told = settle(&mut server, vec![renew(token), fail(token, "no"), renew(token)]).await;
    // By then the claim has ended: whether this very Renew was carried out cannot be told.
    assert_eq!(told, ["OUTCOME_UNKNOWN", "failed, replayed", "CLAIM_CLOSED"]);
    server.stop().await;
    // It was lost twice: who changed something is told that it is unknown, who did not is answered.
    let (mut server, plan) = self::server(kind).await;
    let token = held(&mut server).await;
    plan.next([Inject::LostRequest, Inject::LostRequest]);
    let told = settle(&mut server, vec![renew(token), fail(token, "no"), renew(token)]).await;
    assert_eq!(told, ["OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN", "renewed"]);
    server.stop().await;
}

/// Of commands that are written together the one is found that the database refuses: the others succeed.
#[tokio::test]
async fn one_poisoned_command_does_not_fail_the_others_of_its_key() {
    let mut server = TestServer::start(Kind::Postgres).await;
    let token = held(&mut server).await;
    let mut connection = pg::shared().connect(server.at.database.as_ref().unwrap()).await;
    connection
        .execute("ALTER TABLE ledger.entries ADD CONSTRAINT no_poison CHECK (last_error <> 'poison')")
        .await
        .unwrap();
    let mut actions = vec![renew(token); 9];
    actions.insert(6, fail(token, "poison"));
    actions.push(complete(token));
    let mut told = vec!["renewed"; 9];
    told.insert(6, "INTERNAL");
    told.push("completed");
    assert_eq!(settle(&mut server, actions).await, told);
    server.stop().await;
}
