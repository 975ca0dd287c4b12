//! Store: what refuses it, and what does not matter for it. docs/contract.md, section 15.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use idempotency_ledger::domain::{FingerprintMode, Key, Policy};
use idempotency_ledger::proto::{self, Advice, FailureKind};

use super::next::complete;
use super::store_table::{answer_to, failed, held};
use super::{handed, inbox, message, message_of, next, seconds, server, server_with, stored};
use crate::harness::details::{claim, fields, refusal};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Served, Setup, TestServer, TestStore, replica};

on_both_stores!(
    disabled_held_and_exhausted_consumers_may_store,
    unregistered_consumer_stores_nothing,
    by_an_unreadable_policy_nothing_is_written,
    by_a_stale_policy_nothing_is_written,
    ignored_fingerprints_are_neither_compared_nor_stored,
    inbox_off_is_answered_before_the_entry_is_read,
    inbox_off_is_answered_while_the_store_is_away,
    store_whose_answer_was_lost_is_a_duplicate,
    clock_that_is_behind_refuses_new_entries_alone,
    clock_that_has_jumped_refuses_new_entries_alone,
    full_backlog_refuses_the_message_of_an_entry_that_exists,
    backlog_max_age_of_zero_is_no_limit,
    backlog_is_that_of_readable_messages_of_its_consumer,
    completion_between_the_look_and_the_write_of_a_store_wins,
    message_retention_beyond_the_retention_is_refused,
    message_from_before_the_window_floor_is_outside_the_window,
);

/// Asks for the result of a Store as a word: the verdict, or the reason of the refusal with the state.
async fn word(server: &mut TestServer, request: proto::StoreRequest) -> String {
    match server.client.store(request).await {
        Ok(answer) => super::answered(&answer.into_inner()).0,
        Err(status) => {
            let refused = refusal(&status);
            assert_eq!(refused.advice, "RETRY_LATER", "{status:?}");
            format!("{} {}", refused.reason, refused.state).trim_end().to_owned()
        }
    }
}

/// Entries of each kind of the table, each under an id that names it.
async fn one_of_each(server: &mut TestServer) {
    stored(server, "kept").await;
    failed(server, "failed", FailureKind::Terminal).await;
    let token = held(server, "completed").await;
    complete(server, "completed", token).await;
    held(server, "held").await;
}

/// Checks what a Store of each kind of entry is answered.
async fn are_answered(server: &mut TestServer, absent: &str, held: &str) {
    for (id, expected) in [
        ("absent", absent),
        ("held", held),
        ("kept", "already_stored RECEIVED"),
        ("completed", "completed"),
        ("failed", "failed broken"),
    ] {
        assert_eq!(word(server, message(id)).await, expected, "{id}");
    }
}

async fn is_absent(server: &TestServer, id: &str) -> bool {
    server.entry(&Key::new("c", "tests", id)).await.is_none()
}

async fn disabled_held_and_exhausted_consumers_may_store(kind: Kind) {
    let setup = Setup::default()
        .with("disabled", Policy { disabled: true, ..inbox() })
        .with("held", inbox())
        .with("c", Policy { max_attempts: 1, ..inbox() });
    let mut server = server_with(kind, setup).await;
    server.client.claim(claim("held", "claimed")).await.unwrap();
    server.admin.hold_consumers(crate::holds::hold("held")).await.unwrap();
    // All attempts are used, and no claim holds the key any more.
    held(&mut server, "exhausted").await;
    server.advance(seconds(60)).await;
    for (consumer, id, expected) in [
        ("disabled", "1", "stored RECEIVED"),
        ("disabled", "1", "already_stored RECEIVED"),
        ("held", "1", "stored RECEIVED"),
        ("held", "claimed", "stored IN_PROGRESS"),
        ("c", "exhausted", "stored IN_PROGRESS"),
    ] {
        let found = answer_to(&mut server, message_of(consumer, id)).await;
        assert_eq!(found, (expected.to_owned(), Advice::Ack), "{consumer} {id}");
    }
    for consumer in ["disabled", "held"] {
        let refused = server.client.claim(claim(consumer, "1")).await.unwrap_err();
        assert_eq!(refusal(&refused).reason, "CONSUMER_DISABLED", "{consumer}: nothing is granted");
        let asked = proto::ClaimNextRequest { consumer: consumer.into(), ..next(9) };
        let refused = server.client.claim_next(asked).await.unwrap_err();
        assert_eq!(refusal(&refused).reason, "CONSUMER_DISABLED", "{consumer}: nothing is handed out");
    }
    assert!(handed(&mut server, next(9)).await.is_empty(), "an exhausted message is parked");
    server.stop().await;
}

async fn unregistered_consumer_stores_nothing(kind: Kind) {
    let setup = Setup { registered_only: true, ..Setup::default() }.with("c", inbox());
    let mut server = server_with(kind, setup).await;
    assert_eq!(word(&mut server, message_of("stranger", "1")).await, "UNKNOWN_CONSUMER");
    let requests = vec![message_of("stranger", "1"), message("1")];
    let batch = server.client.batch_store(proto::BatchStoreRequest { requests }).await.unwrap();
    let words: Vec<String> = batch.into_inner().responses.iter().map(|one| super::answered(one).0).collect();
    assert_eq!(words, ["rejected ERROR_REASON_UNKNOWN_CONSUMER", "stored RECEIVED"]);
    let asked = proto::ClaimNextRequest { consumer: "stranger".into(), ..next(1) };
    let refused = server.client.claim_next(asked).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "UNKNOWN_CONSUMER");
    server.stop().await;
}

async fn by_an_unreadable_policy_nothing_is_written(kind: Kind) {
    let mut server = server(kind).await;
    one_of_each(&mut server).await;
    crate::unreadable::newer(&server.at, "c", 1, r#"{"inbox":true,"quorum":3}"#).await;
    let request = proto::GetPolicyRequest { consumer: "c".into() };
    assert!(server.admin.get_policy(request).await.unwrap().into_inner().policy.unwrap().unreadable);
    are_answered(&mut server, "POLICY_UNREADABLE", "POLICY_UNREADABLE IN_PROGRESS").await;
    assert!(is_absent(&server, "absent").await);
    server.stop().await;
}

async fn by_a_stale_policy_nothing_is_written(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let setup = Setup { policies_trusted_for: Duration::from_secs(10), ..Setup::default() };
    let mut server = TestServer::on(at, setup.with("c", inbox())).await;
    one_of_each(&mut server).await;
    plan.no_policies.store(true, Ordering::SeqCst);
    server.advance(seconds(11)).await;
    are_answered(&mut server, "STORE_UNAVAILABLE", "STORE_UNAVAILABLE IN_PROGRESS").await;
    assert!(is_absent(&server, "absent").await);
    server.stop().await;
}

async fn ignored_fingerprints_are_neither_compared_nor_stored(kind: Kind) {
    let policy = Policy { fingerprint: FingerprintMode::Ignore, ..inbox() };
    let mut server = server_with(kind, Setup::default().with("c", policy)).await;
    held(&mut server, "held").await;
    let with =
        |id: &str, digest: u8| proto::StoreRequest { fingerprint: vec![digest; 32].into(), ..message(id) };
    for (id, digest, expected) in [
        ("1", 1, "stored RECEIVED"),
        ("1", 2, "already_stored RECEIVED"),
        ("held", 1, "stored IN_PROGRESS"),
        ("held", 2, "already_stored IN_PROGRESS"),
    ] {
        assert_eq!(word(&mut server, with(id, digest)).await, expected, "{id} {digest}");
        let entry = server.entry(&Key::new("c", "tests", id)).await.unwrap();
        assert!(entry.fingerprint.is_empty(), "{id}: nothing is pinned");
    }
    server.stop().await;
}

async fn inbox_off_is_answered_before_the_entry_is_read(kind: Kind) {
    // One byte is too many after the first message: with a full backlog a Store that may write loads its entry first.
    let setup = || Setup { inbox_bytes_max: 1, ..Setup::default().with("c", inbox()) };
    let mut server = server_with(kind, setup()).await;
    server.client.claim(claim("plain", "1")).await.unwrap();
    server.at.execute("UPDATE @entries SET state = 42 WHERE id = '1'").await;
    stored(&mut server, "first").await;
    let mut other = Served::start(Arc::clone(&server.at.store), setup()).await;
    let refused = other.client.store(message("second")).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "BACKLOG_FULL");
    let series = "idempotency_ledger_store_statement_seconds_count{statement=\"load\"}";
    let before = other.metric(series);
    let refused = other.client.store(message_of("plain", "1")).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "INBOX_OFF");
    assert_eq!(other.metric(series), before, "no entry was read");
    other.stop().await;
    server.stop().await;
}

async fn inbox_off_is_answered_while_the_store_is_away(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let require = Policy { fingerprint: FingerprintMode::Require, ..inbox() };
    let setup = Setup::default().with("c", inbox()).with("require", require);
    let mut server = TestServer::on(at, setup).await;
    plan.no_sessions.store(true, Ordering::SeqCst);
    for (consumer, expected) in
        [("plain", "INBOX_OFF"), ("require", "INVALID_FIELD"), ("c", "STORE_UNAVAILABLE")]
    {
        assert_eq!(word(&mut server, message_of(consumer, "1")).await, expected, "{consumer}");
    }
    plan.no_sessions.store(false, Ordering::SeqCst);
    stored(&mut server, "1").await;
    server.stop().await;
}

/// Store has no id: its repeat is a duplicate, with the same advice.
async fn store_whose_answer_was_lost_is_a_duplicate(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let mut server = TestServer::on(at, Setup::default().with("c", inbox())).await;
    for (fault, of_new, of_held) in [
        (Inject::LostAnswer, "already_stored RECEIVED", "already_stored IN_PROGRESS"),
        (Inject::LostRequest, "stored RECEIVED", "stored IN_PROGRESS"),
    ] {
        let (new, held_id) = (format!("new {fault:?}"), format!("held {fault:?}"));
        held(&mut server, &held_id).await;
        // The message of an entry that exists is written after an insert that finds it.
        for (id, before, expected) in [(&new, 0, of_new), (&held_id, 1, of_held)] {
            plan.next(std::iter::repeat_n(Inject::Nothing, before).chain([fault]));
            assert_eq!(word(&mut server, message(id)).await, "OUTCOME_UNKNOWN", "{id}");
            assert_eq!(word(&mut server, message(id)).await, expected, "{id}");
        }
    }
    assert_eq!(server.at.number("SELECT count(*) FROM @ledger.messages").await, 4);
    server.stop().await;
}

/// A server whose store has a mark of its clock, and entries of each kind.
async fn marked(kind: Kind) -> TestServer {
    let policy = Policy { backlog_max_age: seconds(0), ..inbox() };
    let at = TestStore::new(kind).await.judged().await;
    let mut server = TestServer::on(at, Setup::default().with("c", policy)).await;
    one_of_each(&mut server).await;
    for _ in 0..3 {
        server.at.session().await.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    }
    server
}

async fn clock_that_is_behind_refuses_new_entries_alone(kind: Kind) {
    let mut server = marked(kind).await;
    server.advance(seconds(-3_600)).await;
    are_answered(&mut server, "STORE_CLOCK_BEHIND", "stored IN_PROGRESS").await;
    assert!(is_absent(&server, "absent").await);
    server.stop().await;
}

async fn clock_that_has_jumped_refuses_new_entries_alone(kind: Kind) {
    let mut server = marked(kind).await;
    let made = server.at.now();
    server.advance(seconds(368 * 86_400)).await;
    are_answered(&mut server, "STORE_CLOCK_AHEAD", "stored IN_PROGRESS").await;
    // Before the window: by the clock that has jumped the message would be a dead letter.
    let made = prost_types::Timestamp { seconds: made.micros() / 1_000_000, nanos: 0 };
    let young = proto::StoreRequest { occurred_at: Some(made), ..message("young") };
    assert_eq!(word(&mut server, young).await, "STORE_CLOCK_AHEAD");
    assert!(is_absent(&server, "absent").await && is_absent(&server, "young").await);
    server.stop().await;
}

/// Stores with this bound after the oldest message has been due for a long time. Returns the result of an absent key, of one that
/// is held, and of one that is kept.
async fn after_a_day(kind: Kind, backlog_max_age: i64) -> [String; 3] {
    let setup = || {
        let policy = Policy { backlog_max_age: seconds(backlog_max_age), ..inbox() };
        Setup::default().with("c", policy)
    };
    let mut server = server_with(kind, setup()).await;
    stored(&mut server, "kept").await;
    held(&mut server, "held").await;
    server.advance(seconds(86_400)).await;
    // A server reads the backlog every ten seconds: another one reads it now.
    let other = Served::start(Arc::clone(&server.at.store), setup()).await;
    server.client = other.client.clone();
    let mut words = Vec::new();
    for id in ["absent", "held", "kept"] {
        words.push(word(&mut server, message(id)).await);
    }
    other.stop().await;
    server.stop().await;
    words.try_into().unwrap()
}

async fn full_backlog_refuses_the_message_of_an_entry_that_exists(kind: Kind) {
    let expected = ["BACKLOG_FULL", "BACKLOG_FULL IN_PROGRESS", "already_stored RECEIVED"];
    assert_eq!(after_a_day(kind, 86_399).await, expected);
}

async fn backlog_max_age_of_zero_is_no_limit(kind: Kind) {
    let expected = ["stored RECEIVED", "stored IN_PROGRESS", "already_stored RECEIVED"];
    assert_eq!(after_a_day(kind, 0).await, expected);
    assert_eq!(after_a_day(kind, 86_400).await, expected, "the bound itself is no longer than the bound");
}

async fn backlog_is_that_of_readable_messages_of_its_consumer(kind: Kind) {
    let setup = || Setup::default().with("c", inbox()).with("d", inbox());
    let mut server = server_with(kind, setup()).await;
    stored(&mut server, "1").await;
    server.advance(seconds(8 * 86_400)).await;
    for (consumer, damaged, expected) in
        [("d", false, "stored RECEIVED"), ("c", false, "BACKLOG_FULL"), ("c", true, "stored RECEIVED")]
    {
        if damaged {
            server.at.execute("UPDATE @entries SET history = '[{' WHERE id = '1'").await;
        }
        let other = Served::start(Arc::clone(&server.at.store), setup()).await;
        server.client = other.client.clone();
        assert_eq!(word(&mut server, message_of(consumer, "2")).await, expected, "{consumer} {damaged}");
        other.stop().await;
    }
    server.stop().await;
}

async fn completion_between_the_look_and_the_write_of_a_store_wins(kind: Kind) {
    let mut server = server(kind).await;
    let token = held(&mut server, "1").await;
    let plan = Arc::new(Plan::default());
    let store = FaultyStore { inner: Arc::clone(&server.at.store), plan: Arc::clone(&plan) };
    let other = Served::start(Arc::new(store), Setup::default().with("c", inbox())).await;
    // The insert of what seems new finds the entry; the write of the message, after the look, waits at the gate.
    plan.close();
    let mut client = other.client.clone();
    let stores = tokio::spawn(async move { client.store(message("1")).await });
    plan.arrived(1).await;
    plan.let_through();
    plan.arrived(2).await;
    complete(&mut server, "1", token).await;
    plan.open();
    let answer = stores.await.unwrap().unwrap().into_inner();
    assert_eq!(super::answered(&answer), ("completed".to_owned(), Advice::Ack));
    assert_eq!(server.at.number("SELECT count(*) FROM @ledger.messages").await, 0, "no message is kept");
    other.stop().await;
    server.stop().await;
}

async fn message_retention_beyond_the_retention_is_refused(kind: Kind) {
    let mut server = server(kind).await;
    let days = |days: i64| Some(prost_types::Duration { seconds: days * 86_400, nanos: 0 });
    for (number, (retention, message_retention, wrong)) in
        [(7, 8, true), (7, 7, false), (30, 8, false), (8, 30, true)].into_iter().enumerate()
    {
        let policy = proto::Policy {
            retention: days(retention),
            message_retention: days(message_retention),
            inbox: Some(true),
            ..Default::default()
        };
        let request = proto::SetPolicyRequest {
            consumer: format!("p{number}"),
            request_id: "set".into(),
            reason: "a bound".into(),
            policy: Some(policy),
            ..Default::default()
        };
        let wrongs = match server.admin.set_policy(request).await {
            Ok(_) => Vec::new(),
            Err(refused) => fields(&refused),
        };
        let expected: &[&str] = if wrong { &["policy.message_retention"] } else { &[] };
        assert_eq!(wrongs, expected, "{message_retention} of {retention} days");
    }
    server.stop().await;
}

/// A longer retention does not bring back the entries that a shorter one has let go: their messages are not new.
async fn message_from_before_the_window_floor_is_outside_the_window(kind: Kind) {
    let mut server = server(kind).await;
    let policy = proto::Policy {
        inbox: Some(true),
        retention: Some(prost_types::Duration { seconds: 30 * 86_400, nanos: 0 }),
        ..Default::default()
    };
    let request = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "longer".into(),
        reason: "replays are older".into(),
        policy: Some(policy),
        ..Default::default()
    };
    server.admin.set_policy(request).await.unwrap();
    for (days, word) in [(6, "stored RECEIVED"), (8, "outside_window"), (31, "outside_window")] {
        let made = prost_types::Timestamp { seconds: START.micros() / 1_000_000 - days * 86_400, nanos: 0 };
        let request = proto::StoreRequest { occurred_at: Some(made), ..message(&format!("{days} days old")) };
        assert_eq!(answer_to(&mut server, request).await.0, word, "{days} days old");
    }
    server.stop().await;
}
