//! ClaimNext: who is handed what, and whose handout a repeat is answered. docs/contract.md, section 15.

use std::sync::Arc;
use std::time::Duration;

use idempotency_ledger::domain::{Key, Policy, Span};
use idempotency_ledger::identity::Guard;
use idempotency_ledger::proto::{self, EntryState};
use tonic::{Code, Request};

use super::next::{complete, entry};
use super::{handed, ids, inbox, message, next, seconds, server, server_with, stored};
use crate::harness::details::{acquired, claim, refusal};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Served, Setup, TestServer};
use crate::identity::{People, by};

on_both_stores!(
    repeat_by_another_principal_is_closed,
    handout_is_forgotten_after_an_hour,
    concurrent_repeats_are_answered_one_handout,
    handout_whose_answer_was_lost_is_answered_to_its_repeat,
    call_with_less_than_a_second_left_is_handed_nothing,
    unreadable_and_lost_rows_are_passed_over,
    suspect_is_handed_out_between_its_neighbours,
    store_and_claim_of_one_key_both_take_effect,
    store_and_claim_that_race_leave_one_entry,
    switching_the_inbox_off_refuses_store_alone,
    repeat_is_re_armed_one_time,
);

/// The ids of a handout.
async fn names(server: &mut TestServer, max: i32) -> Vec<String> {
    handed(server, next(max)).await.into_iter().map(|(id, _)| id).collect()
}

/// A second server on the same store, whose writes can fail.
async fn faulty(server: &TestServer) -> (Served, Arc<Plan>) {
    let plan = Arc::new(Plan::default());
    let store = FaultyStore { inner: Arc::clone(&server.at.store), plan: Arc::clone(&plan) };
    (Served::start(Arc::new(store), Setup::default().with("c", inbox())).await, plan)
}

async fn repeat_by_another_principal_is_closed(kind: Kind) {
    let people = People::new(&[("one", &[("c", "claim settle store")]), ("other", &[("c", "claim")])]);
    let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default().with("c", inbox()) };
    let mut server = server_with(kind, setup).await;
    server.client.store(by(people.token("one"), message("1"))).await.unwrap();
    let asked = next(1);
    let first = server.client.claim_next(by(people.token("one"), asked.clone())).await.unwrap();
    let first = ids(&first.into_inner());
    assert_eq!(first.len(), 1);
    let refused = server.client.claim_next(by(people.token("other"), asked.clone())).await.unwrap_err();
    let refusal = refusal(&refused);
    assert_eq!((refusal.code, refusal.reason.as_str()), (Code::Aborted, "CLAIM_CLOSED"));
    let again = server.client.claim_next(by(people.token("one"), asked)).await.unwrap().into_inner();
    assert_eq!(ids(&again), first, "its own caller is answered its handout");
    server.stop().await;
}

async fn handout_is_forgotten_after_an_hour(kind: Kind) {
    let setup = Setup { purge_every: Duration::from_millis(50), ..Setup::default().with("c", inbox()) };
    let mut server = server_with(kind, setup).await;
    let mut asked = Vec::new();
    for id in ["1", "2"] {
        stored(&mut server, id).await;
        let one = next(1);
        let [(id, token)] = handed(&mut server, one.clone()).await.try_into().unwrap();
        complete(&mut server, &id, token).await;
        asked.push(one);
        server.advance(seconds(1)).await;
    }
    // A second more than an hour after the first handout, and an hour after the second one.
    server.at.set_clock(crate::harness::server::START + Span::from_secs(3_601)).await;
    let since = std::time::Instant::now();
    while server.at.number("SELECT count(*) FROM @ledger.handouts").await > 1 {
        assert!(since.elapsed() < Duration::from_secs(60), "no handout is forgotten");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let refused = server.client.claim_next(asked[1].clone()).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "CLAIM_CLOSED", "remembered for an hour");
    assert!(handed(&mut server, asked[0].clone()).await.is_empty(), "like a claim_id that was never used");
    server.stop().await;
}

async fn concurrent_repeats_are_answered_one_handout(kind: Kind) {
    let setup = || Setup { inbox_sessions: 2, ..Setup::default() }.with("c", inbox());
    let mut server = server_with(kind, setup()).await;
    let other = Served::start(Arc::clone(&server.at.store), setup()).await;
    for round in 0..10 {
        for part in ["a", "b", "c"] {
            stored(&mut server, &format!("{part}{round}")).await;
        }
        let asked = next(2);
        let calls = (0..6).map(|number| {
            let mut client = if number % 2 == 0 { server.client.clone() } else { other.client.clone() };
            let asked = asked.clone();
            async move { client.claim_next(asked).await }
        });
        let answers = futures_util::future::join_all(calls).await;
        let found: Vec<_> = answers.iter().map(|answer| ids(answer.as_ref().unwrap().get_ref())).collect();
        // A look skips what a look of the same call at the other server holds at that moment.
        let count = found[0].len();
        assert!((1..=2).contains(&count) && found.iter().all(|one| *one == found[0]), "{found:?}");
        assert_eq!(handed(&mut server, next(9)).await.len(), 3 - count, "no other message was touched");
    }
    other.stop().await;
    server.stop().await;
}

async fn handout_whose_answer_was_lost_is_answered_to_its_repeat(kind: Kind) {
    let mut server = server(kind).await;
    for id in ["1", "2", "3"] {
        stored(&mut server, id).await;
    }
    let (mut other, plan) = faulty(&server).await;
    for (fault, left) in [(Inject::LostAnswer, 1), (Inject::LostRequest, 0)] {
        plan.next([fault]);
        let asked = next(if left == 1 { 2 } else { 9 });
        let refused = other.client.claim_next(asked.clone()).await.unwrap_err();
        assert_eq!(refusal(&refused).reason, "OUTCOME_UNKNOWN", "{fault:?}");
        let again = ids(&other.client.claim_next(asked.clone()).await.unwrap().into_inner());
        assert_eq!(again.len(), if left == 1 { 2 } else { 1 }, "{fault:?}");
        assert_eq!(handed(&mut server, asked).await, again, "{fault:?}: at every server");
    }
    assert!(handed(&mut server, next(9)).await.is_empty());
    other.stop().await;
    server.stop().await;
}

async fn call_with_less_than_a_second_left_is_handed_nothing(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "1").await;
    for wait in [None, Some(prost_types::Duration { seconds: 9, nanos: 0 })] {
        let mut asked = Request::new(proto::ClaimNextRequest { wait, ..next(1) });
        asked.set_timeout(Duration::from_millis(950));
        let answer = server.client.claim_next(asked).await.unwrap().into_inner();
        assert!(answer.messages.is_empty() && answer.retry_after.is_some(), "{answer:?}");
        let now = server.entry(&Key::new("c", "tests", "1")).await.unwrap();
        assert_eq!((now.attempts, now.claimant), (0, None), "it was granted to no call");
    }
    let mut asked = Request::new(next(1));
    asked.set_timeout(Duration::from_secs(9));
    assert_eq!(server.client.claim_next(asked).await.unwrap().into_inner().messages.len(), 1);
    server.stop().await;
}

async fn unreadable_and_lost_rows_are_passed_over(kind: Kind) {
    let mut server = server(kind).await;
    for id in ["unreadable", "lost", "1", "2"] {
        stored(&mut server, id).await;
        server.advance(seconds(1)).await;
    }
    server.at.execute("UPDATE @entries SET history = '[{' WHERE id = 'unreadable'").await;
    server
        .at
        .execute("DELETE FROM @ledger.messages WHERE key = (SELECT key FROM @entries WHERE id = 'lost')")
        .await;
    // Both are older than what the cursor leaves behind it: a call for one message that waits passes them.
    server.advance(seconds(10)).await;
    let wait = Some(prost_types::Duration { seconds: 9, nanos: 0 });
    let one = handed(&mut server, proto::ClaimNextRequest { wait, ..next(1) }).await;
    assert_eq!(one.iter().map(|one| &*one.0).collect::<Vec<_>>(), ["1"]);
    assert_eq!(names(&mut server, 9).await, ["2"]);
    assert!(names(&mut server, 9).await.is_empty());
    let lost = entry(&mut server, "lost").await;
    assert_eq!((lost.state(), lost.attempts), (EntryState::Received, 0), "nothing of them is changed");
    server.stop().await;
}

/// The candidates before the first suspect, or that suspect.
async fn suspect_is_handed_out_between_its_neighbours(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "poison").await;
    assert_eq!(names(&mut server, 9).await, ["poison"]);
    server.advance(seconds(31)).await;
    assert_eq!(names(&mut server, 9).await, ["poison"]);
    // It is due again after 31 s: the one before it is due two seconds sooner, those behind it a second later.
    server.advance(seconds(29)).await;
    stored(&mut server, "before").await;
    server.advance(seconds(3)).await;
    for id in ["behind", "last"] {
        stored(&mut server, id).await;
    }
    for expected in [&["before"][..], &["poison"], &["behind", "last"], &[]] {
        let mut found = names(&mut server, 9).await;
        found.sort();
        assert_eq!(found, expected);
    }
    // An attempt that ends by its holder ends the row of those whose lease ran out.
    server.advance(seconds(31)).await;
    let mut all = Vec::new();
    while all.len() < 4 {
        all.extend(handed(&mut server, next(9)).await);
    }
    for (id, token) in all {
        let request = proto::ReleaseRequest {
            key: crate::harness::details::key("c", &id),
            token,
            ..Default::default()
        };
        server.client.release(request).await.unwrap();
    }
    assert_eq!(names(&mut server, 9).await.len(), 4, "no message is a suspect any more");
    server.stop().await;
}

/// Each in turn is the first to write, while the other one has found no entry.
async fn store_and_claim_of_one_key_both_take_effect(kind: Kind) {
    let mut server = server(kind).await;
    let (other, plan) = faulty(&server).await;
    plan.close();
    let mut client = other.client.clone();
    let stores = tokio::spawn(async move { client.store(message("1")).await });
    plan.arrived(1).await;
    acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    plan.open();
    let answer = stores.await.unwrap().unwrap().into_inner();
    assert_eq!(super::answered(&answer).0, "stored IN_PROGRESS", "the message is attached");
    plan.close();
    let (mut client, writes) = (other.client.clone(), plan.writes.load(std::sync::atomic::Ordering::SeqCst));
    let claims = tokio::spawn(async move { client.claim(claim("c", "2")).await });
    plan.arrived(writes + 1).await;
    stored(&mut server, "2").await;
    plan.open();
    assert_eq!(acquired(&claims.await.unwrap().unwrap().into_inner()).attempt, 1);
    for id in ["1", "2"] {
        let now = entry(&mut server, id).await;
        let found = (now.state(), now.message_state(), now.attempts);
        assert_eq!(found, (EntryState::InProgress, proto::MessageState::Kept, 1), "{id}");
    }
    other.stop().await;
    server.stop().await;
}

async fn store_and_claim_that_race_leave_one_entry(kind: Kind) {
    let mut server = server(kind).await;
    let other = Served::start(Arc::clone(&server.at.store), Setup::default().with("c", inbox())).await;
    for round in 0..20 {
        let id = format!("r{round}");
        let (mut stores, mut claims) = (server.client.clone(), other.client.clone());
        let (kept, claimed) = tokio::join!(stores.store(message(&id)), claims.claim(claim("c", &id)));
        let kept = super::answered(&kept.unwrap().into_inner()).0;
        assert!(["stored RECEIVED", "stored IN_PROGRESS"].contains(&&*kept), "{kept}");
        let claimed = acquired(&claimed.unwrap().into_inner());
        assert_eq!(claimed.attempt, 1);
        let now = entry(&mut server, &id).await;
        let found = (now.state(), now.message_state());
        assert_eq!(found, (EntryState::InProgress, proto::MessageState::Kept), "{kept}");
        complete(&mut server, &id, claimed.token).await;
    }
    assert!(names(&mut server, 99).await.is_empty());
    other.stop().await;
    server.stop().await;
}

async fn switching_the_inbox_off_refuses_store_alone(kind: Kind) {
    let mut server = server_with(kind, Setup::default().with("c", Policy { ..inbox() })).await;
    for id in ["1", "2", "3"] {
        stored(&mut server, id).await;
    }
    let asked = next(1);
    let before = handed(&mut server, asked.clone()).await;
    let request = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "off".into(),
        reason: "back to the broker".into(),
        policy: Some(proto::Policy { inbox: Some(false), ..Default::default() }),
        ..Default::default()
    };
    server.admin.set_policy(request).await.unwrap();
    for id in ["new", "1"] {
        let refused = server.client.store(message(id)).await.unwrap_err();
        assert_eq!(refusal(&refused).reason, "INBOX_OFF", "{id}");
    }
    assert_eq!(handed(&mut server, asked).await, before, "a repeat");
    assert_eq!(names(&mut server, 1).await.len(), 1, "stored messages are handed out");
    let done = complete(&mut server, &before[0].0, before[0].1).await;
    assert!(!done.late);
    let left = ["1", "2", "3"].map(|id| Key::new("c", "tests", id));
    let free = server.entries(&left).await.into_iter().flatten().find(|entry| entry.attempts == 0).unwrap();
    let taken = server.client.claim(claim("c", free.key.id())).await.unwrap().into_inner();
    acquired(&taken);
    server.stop().await;
}

async fn repeat_is_re_armed_one_time(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "1").await;
    let asked = next(1);
    let [(_, token)] = handed(&mut server, asked.clone()).await.try_into().unwrap();
    // The seconds that pass before the repeat, and what remains of its lease.
    for (passed, lease) in [(20, 10), (10, 30), (29, 1)] {
        server.advance(seconds(passed)).await;
        let answer = server.client.claim_next(asked.clone()).await.unwrap().into_inner();
        let acquired = answer.messages[0].acquired.clone().unwrap();
        let left = acquired.lease.map(|left| left.seconds);
        assert_eq!((acquired.token, acquired.replayed, left), (token, true, Some(lease)), "{passed} s later");
        assert_eq!(answer.messages[0].message, message("1").message);
        assert!(handed(&mut server, next(9)).await.is_empty(), "it is held");
    }
    server.advance(seconds(1)).await;
    let refused = server.client.claim_next(asked).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "CLAIM_CLOSED", "its one re-arming was used");
    server.advance(seconds(1)).await;
    let [(_, later)] = handed(&mut server, next(9)).await.try_into().unwrap();
    assert!(later > token, "after the grace it is another claim's");
    server.stop().await;
}
