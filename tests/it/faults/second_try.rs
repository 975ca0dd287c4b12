//! A command whose outcome is unknown is tried once more: one call takes effect once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{self, claim_response::Verdict};

use super::{delivery, server};
use crate::harness::details::{acquired, key, refusal};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Served, Setup, TestServer, TestStore};

on_both_stores!(
    a_grant_whose_answer_came_too_late_is_not_armed_once_more,
    a_grant_that_others_took_over_is_not_given_once_more,
    a_grant_that_was_deleted_since_is_not_given_once_more,
    a_renewal_that_revived_the_lease_says_so,
);

/// A claim that was applied, whose answer waits at the gate to be lost; what it is refused with.
async fn stalled(
    server: &TestServer,
    plan: &Arc<Plan>,
    number: u128,
    faults: &[Inject],
) -> tokio::task::JoinHandle<String> {
    let writes = plan.writes.load(Ordering::SeqCst);
    plan.next(faults.iter().copied());
    plan.close();
    faults.iter().for_each(|_| plan.let_through());
    let mut client = server.client.clone();
    let refused = async move { client.claim(delivery("1", number)).await.unwrap_err() };
    let stalled = tokio::spawn(async move { refusal(&refused.await).reason });
    plan.arrived(writes + faults.len() + 1).await;
    stalled
}

/// A server whose store fails as planned, and another one on the same store.
async fn two_servers(kind: Kind) -> (TestServer, Arc<Plan>, Served) {
    let mut at = TestStore::new(kind).await;
    let (store, plan) = (Arc::clone(&at.store), Arc::new(Plan::default()));
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let server = TestServer::on(at, Setup::default()).await;
    (server, plan, Served::start(store, Setup::default()).await)
}

fn failed(held: &proto::Acquired) -> proto::FailRequest {
    let retry_after = Some(prost_types::Duration::default());
    proto::FailRequest { key: key("c", "1"), token: held.token, retry_after, ..Default::default() }
}

/// One call takes effect once: to arm the claim again is for the caller's own repeat.
async fn a_grant_whose_answer_came_too_late_is_not_armed_once_more(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    let first = stalled(&server, &plan, 1, &[Inject::LateLostAnswer]).await;
    server.advance(Span::from_secs(31)).await;
    plan.open();
    assert_eq!(first.await.unwrap(), "OUTCOME_UNKNOWN");
    let held = acquired(&server.client.claim(delivery("1", 1)).await.unwrap().into_inner());
    assert!(held.replayed, "its own claim, armed by its own repeat");
    let closed = server.client.claim(delivery("1", 2)).await.unwrap().into_inner();
    assert!(matches!(closed.verdict, Some(Verdict::InProgress(_))), "the lease runs again: {closed:?}");
    server.stop().await;
}

/// The second try finds the lease that the first one has renewed.
async fn a_renewal_that_revived_the_lease_says_so(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    let held = acquired(&server.client.claim(delivery("1", 1)).await.unwrap().into_inner());
    let renew = || proto::RenewRequest { key: key("c", "1"), token: held.token, ..Default::default() };
    // How long the claim is held before it is renewed, what becomes of the first try, and whether the lease was over.
    for (seconds, fault, revived) in [
        (31, Some(Inject::LostAnswer), true),
        (31, Some(Inject::LostRequest), true),
        (31, None, true),
        (5, Some(Inject::LostAnswer), false),
        (5, Some(Inject::LostRequest), false),
    ] {
        server.advance(Span::from_secs(seconds)).await;
        plan.next(fault);
        let answer = server.client.renew(renew()).await.unwrap().into_inner();
        assert_eq!(answer.revived, revived, "{seconds} s, {fault:?}");
    }
    server.stop().await;
}

/// Nobody can tell any more whether the first one was applied: the entry knows its last claim alone.
async fn a_grant_that_others_took_over_is_not_given_once_more(kind: Kind) {
    let (mut server, plan, mut other) = two_servers(kind).await;
    let first = stalled(&server, &plan, 1, &[Inject::LateLostAnswer]).await;
    server.advance(Span::from_secs(32)).await;
    let second = acquired(&other.client.claim(delivery("1", 2)).await.unwrap().into_inner());
    assert_eq!(second.attempt, 2, "the first one was applied");
    other.client.fail(failed(&second)).await.unwrap();
    plan.open();
    assert_eq!(first.await.unwrap(), "OUTCOME_UNKNOWN");
    let third = acquired(&server.client.claim(delivery("1", 3)).await.unwrap().into_inner());
    assert_eq!(third.attempt, 3, "nobody was granted anything meanwhile");
    server.client.fail(failed(&third)).await.unwrap();
    // An insert that may have come and gone.
    plan.next([Inject::LostRequest]);
    let refused = refusal(&server.client.claim(delivery("1", 4)).await.unwrap_err());
    assert_eq!(refused.reason, "OUTCOME_UNKNOWN");
    let fourth = acquired(&server.client.claim(delivery("1", 4)).await.unwrap().into_inner());
    assert_eq!((fourth.attempt, fourth.replayed), (4, false), "nothing was applied");
    server.client.fail(failed(&fourth)).await.unwrap();
    // A change of an entry that is still the same: certainly not applied.
    plan.next([Inject::Conflict, Inject::LostRequest]);
    let fifth = acquired(&server.client.claim(delivery("1", 5)).await.unwrap().into_inner());
    assert_eq!((fifth.attempt, fifth.replayed), (5, false));
    other.stop().await;
    server.stop().await;
}

/// The same where the entry is gone by then.
async fn a_grant_that_was_deleted_since_is_not_given_once_more(kind: Kind) {
    let (mut server, plan, mut other) = two_servers(kind).await;
    let held = acquired(&server.client.claim(delivery("1", 1)).await.unwrap().into_inner());
    server.client.fail(failed(&held)).await.unwrap();
    // The insert that is guessed loses; the change of the entry is applied.
    let second = stalled(&server, &plan, 2, &[Inject::Conflict, Inject::LateLostAnswer]).await;
    server.advance(Span::from_secs(120)).await;
    let sought = || proto::GetEntryRequest { key: key("c", "1"), ..Default::default() };
    let entry = other.admin.get_entry(sought()).await.unwrap().into_inner().entry.unwrap();
    assert_eq!(entry.attempts, 2, "it was applied");
    let delete = proto::DeleteEntryRequest {
        key: key("c", "1"),
        request_id: "delete".into(),
        expected_version: entry.version,
        reason: "the customer asked for it".into(),
        force: true,
        key_hash: String::new(),
    };
    other.admin.delete_entry(delete).await.unwrap();
    plan.open();
    assert_eq!(second.await.unwrap(), "OUTCOME_UNKNOWN");
    let gone = other.admin.get_entry(sought()).await.unwrap_err();
    assert_eq!(refusal(&gone).reason, "ENTRY_NOT_FOUND", "nothing was granted meanwhile");
    other.stop().await;
    server.stop().await;
}
