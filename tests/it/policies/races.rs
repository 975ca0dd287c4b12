//! Policies while others read, write and grant: the newest reading wins, and a hold is kept.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use idempotency_ledger::domain::{Policy, Span};
use idempotency_ledger::proto::{self, claim_response::Verdict};
use idempotency_ledger::store::EffectiveRetention;
use tonic::Code;

use super::{days, get, put, reason, seconds, set};
use crate::harness::details::{acquired, claim, key, refusal};
use crate::harness::faulty::{FaultyStore, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Served, Setup, TestServer, TestStore};

on_both_stores!(
    a_policy_is_in_force_with_the_next_call_and_soon_everywhere,
    by_policies_that_can_not_be_read_nothing_is_granted,
    of_two_readings_the_older_never_wins,
    a_start_beside_a_change_writes_down_what_is_in_force,
    server_that_another_one_overtakes_at_its_start_reads_all_again,
    a_grant_under_way_does_not_outlive_a_hold,
);

async fn a_policy_is_in_force_with_the_next_call_and_soon_everywhere(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let mut other = Served::start(Arc::clone(&server.at.store), Setup::default()).await;
    assert_eq!(get(&mut server, "c").await.source(), proto::PolicySource::Default);
    let policy = proto::Policy { lease: seconds(60), ..Default::default() };
    let now = put(&mut server, set("c", 0, policy)).await;
    assert_eq!((now.version, now.source()), (1, proto::PolicySource::Set));
    assert_eq!(now.policy.unwrap().retention, days(7), "the rest stays");
    let held = acquired(&server.client.claim(claim("c", "here")).await.unwrap().into_inner());
    assert_eq!(held.lease, seconds(60));
    // Elsewhere within five seconds.
    let until = Instant::now() + Duration::from_secs(30);
    for number in 0.. {
        let id = format!("there {number}");
        let held = acquired(&other.client.claim(claim("c", &id)).await.unwrap().into_inner());
        if held.lease == seconds(60) {
            break;
        }
        assert!(Instant::now() < until, "the other replica never took it over");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    other.stop().await;
    server.stop().await;
}

/// Two servers with different files start: the later one must not take for written what the other has replaced.
async fn server_that_another_one_overtakes_at_its_start_reads_all_again(kind: Kind) {
    let at = TestStore::new(kind).await;
    let (plan, retention) = (Arc::new(Plan::default()), Span::from_days(14));
    let (longer, window_floor) = (Some(Span::from_days(30)), START - Span::from_days(9));
    *plan.overtakes.lock().unwrap() =
        Some(EffectiveRetention { consumer: "c".into(), retention: longer, window_floor });
    let store = FaultyStore { inner: Arc::clone(&at.store), plan: Arc::clone(&plan) };
    let setup = Setup::default().with("c", Policy { retention, ..Policy::default() });
    let server = Served::start(Arc::new(store), setup).await;
    let found = at.session().await.policy_book().effective_retentions().await.unwrap().1;
    let found = found.into_iter().find(|one| one.consumer == "c").unwrap();
    assert_eq!((found.retention, found.window_floor), (Some(retention), window_floor));
    server.stop().await;
}

/// What the server answers once it is this, by and by.
async fn in_time<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("it comes within a minute")
}

async fn by_policies_that_can_not_be_read_nothing_is_granted(kind: Kind) {
    let at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    let store = FaultyStore { inner: Arc::clone(&at.store), plan: Arc::clone(&plan) };
    let setup = Setup { policies_trusted_for: TRUSTED_FOR, ..Setup::default() };
    let mut server = Served::start(Arc::new(store), setup).await;
    let first = repeatable("c", "held");
    let held = acquired(&server.client.claim(first.clone()).await.unwrap().into_inner()).token;
    let released = acquired(&server.client.claim(claim("c", "released")).await.unwrap().into_inner()).token;
    let request = proto::ReleaseRequest {
        key: key("c", "released"),
        token: released,
        delay: None,
        unpin_fingerprint: false,
        event_type: String::new(),
    };
    server.client.release(request).await.unwrap();
    plan.no_policies.store(true, Ordering::SeqCst);
    at.set_clock(START + Span::from_secs(9)).await;
    for id in ["new", "released"] {
        let status = server.client.claim(claim("c", id)).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{id}");
        assert!(status.message().starts_with("the policies could not be read for too long"), "{status:?}");
        assert_eq!(refusal(&status).reason, "STORE_UNAVAILABLE");
    }
    // What grants nothing goes on.
    let replay = acquired(&server.client.claim(first.clone()).await.unwrap().into_inner());
    assert!(replay.replayed && replay.token == held);
    let request = proto::CompleteRequest { key: key("c", "held"), token: held, ..Default::default() };
    server.client.complete(request).await.unwrap();
    let done = server.client.claim(claim("c", "held")).await.unwrap().into_inner();
    assert!(matches!(done.verdict, Some(Verdict::Completed(_))), "{done:?}");
    plan.no_policies.store(false, Ordering::SeqCst);
    in_time(async || server.client.claim(claim("c", "new")).await.ok()).await;
    server.stop().await;
}

/// Within this time a hold is in force everywhere.
const TRUSTED_FOR: Duration = Duration::from_secs(10);

/// A delivery whose repeat is known as such.
fn repeatable(consumer: &str, id: &str) -> proto::ClaimRequest {
    let claim_id = uuid::Builder::from_random_bytes([7; 16]).into_uuid().to_string();
    proto::ClaimRequest { claim_id, ..claim(consumer, id) }
}

/// A replica is stuck over a reading of the policies while another change is made by way of it.
async fn of_two_readings_the_older_never_wins(kind: Kind) {
    let at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    let store = FaultyStore { inner: Arc::clone(&at.store), plan: Arc::clone(&plan) };
    let mut server = Served::start(Arc::new(store), Setup::default()).await;
    let mut other = Served::start(Arc::clone(&at.store), Setup::default()).await;
    acquired(&server.client.claim(claim("c", "before")).await.unwrap().into_inner());
    let (has_read, go_on) = plan.slow_reading();
    let policy = proto::Policy { lease: seconds(60), ..Default::default() };
    other.admin.set_policy(set("other", 0, policy)).await.unwrap();
    has_read.await.unwrap();
    let held = proto::Policy { disabled: Some(true), ..Default::default() };
    server.admin.set_policy(set("c", 0, held)).await.unwrap();
    drop(go_on);
    let until = Instant::now() + Duration::from_millis(500);
    for number in 0.. {
        let refused = server.client.claim(claim("c", &format!("after {number}"))).await;
        let refused = refused.expect_err("an older reading of the policies won");
        assert_eq!(reason(refused), (Code::FailedPrecondition, "CONSUMER_DISABLED".into()));
        if Instant::now() > until {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    other.stop().await;
    server.stop().await;
}

/// A server starts, and has read the policies, when an operator changes one.
async fn a_start_beside_a_change_writes_down_what_is_in_force(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut other = Served::start(Arc::clone(&at.store), Setup::default()).await;
    let retention = |span| proto::Policy { retention: days(span), ..Default::default() };
    other.admin.set_policy(set("c", 0, retention(9))).await.unwrap();
    let floor = START - Span::from_days(7);
    let plan = Arc::new(Plan::default());
    let store = FaultyStore { inner: Arc::clone(&at.store), plan: Arc::clone(&plan) };
    let (has_read, go_on) = plan.slow_reading();
    let starting = tokio::spawn(Served::start(Arc::new(store), Setup::default()));
    has_read.await.unwrap();
    other.admin.set_policy(set("c", 1, retention(8))).await.unwrap();
    drop(go_on);
    let started = starting.await.unwrap();
    let written = at.session().await.policy_book().effective_retentions().await.unwrap().1;
    let written = written.into_iter().find(|one| one.consumer == "c").unwrap();
    assert_eq!((written.retention, written.window_floor), (Some(Span::from_days(8)), floor));
    started.stop().await;
    other.stop().await;
}

/// A statement stands still on its way to the store while another replica puts the consumer on hold: when it goes
/// on, 9 s of the store's clock later, it grants nothing.
async fn a_grant_under_way_does_not_outlive_a_hold(kind: Kind) {
    let park = Policy { on_expiry: idempotency_ledger::domain::OnExpiry::Park, ..Policy::default() };
    for (case, statements) in [("new", 1), ("released", 2), ("expired", 2), ("parked", 2), ("failed", 1)] {
        let at = TestStore::new(kind).await;
        let plan = Arc::new(Plan::default());
        let store = FaultyStore { inner: Arc::clone(&at.store), plan: Arc::clone(&plan) };
        let consumer = if case == "parked" { "careful" } else { "c" };
        let setup = || {
            let setup = Setup { policies_trusted_for: TRUSTED_FOR, ..Setup::default() };
            setup.with("careful", park.clone())
        };
        let mut here = Served::start(Arc::new(store), setup()).await;
        let mut there = Served::start(Arc::clone(&at.store), setup()).await;
        let mut token = 0;
        if case != "new" {
            token = acquired(&here.client.claim(claim(consumer, "1")).await.unwrap().into_inner()).token;
        }
        if case == "released" {
            let request = proto::ReleaseRequest {
                key: key(consumer, "1"),
                token,
                delay: None,
                unpin_fingerprint: false,
                event_type: String::new(),
            };
            here.client.release(request).await.unwrap();
        }
        let now = START + Span::from_secs(60);
        at.set_clock(now).await;
        // The heartbeat has seen the new clock, so that the first statement is the guess again.
        in_time(async || here.client.claim(claim(consumer, "another")).await.ok()).await;
        let before = plan.writes.load(Ordering::SeqCst);
        plan.close();
        let mut client = here.client.clone();
        let answer = tokio::spawn(async move {
            if case == "failed" {
                let request = proto::FailRequest { key: key(consumer, "1"), token, ..Default::default() };
                return client.fail(request).await.map(drop);
            }
            client.claim(claim(consumer, "1")).await.map(drop)
        });
        for statement in 1..=statements {
            plan.arrived(before + statement).await;
            if statement < statements {
                plan.let_through();
            }
        }
        let hold = proto::Policy { disabled: Some(true), ..Default::default() };
        there.admin.set_policy(set(consumer, 0, hold)).await.unwrap();
        at.set_clock(now + Span::from_secs(9)).await;
        plan.open();
        let answer = answer.await.unwrap();
        if case == "failed" {
            answer.expect("a settlement grants nothing, and goes on");
        } else {
            let refused = reason(answer.expect_err(case));
            assert_eq!(refused, (Code::FailedPrecondition, "CONSUMER_DISABLED".into()), "{case}");
        }
        there.stop().await;
        here.stop().await;
    }
}
