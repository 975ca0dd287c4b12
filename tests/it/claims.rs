//! A claim's life through the wire: the edge cases of docs/contract.md, section 13, the window,
//! the lease, the invariants that one server can show.

mod carried;
mod doubled;
mod duplicates;
mod leases;
mod unpin;
mod unread;
mod window;

use std::time::Duration;

use bytes::Bytes;
use idempotency_ledger::domain::{Key, Policy, Span};
use idempotency_ledger::proto::{self, claim_response::Verdict};
use tonic::Code;

use self::window::made_at;
use crate::harness::details::{acquired, claim, completed, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Setup, TestServer};

on_both_stores!(
    a_first_claim_is_acquired_with_the_policys_lease,
    a_repeated_claim_gets_the_same_token_and_what_remains_of_the_lease,
    a_claim_without_an_id_is_not_the_same_claim,
    a_completed_message_is_answered_with_its_result_to_everybody,
    a_repeated_complete_is_ok_and_the_first_result_stays,
    release_raced_by_complete_ends_completed_and_the_attempt_counts_again,
    a_terminal_failure_contradicts_a_later_complete,
    a_failed_message_comes_back_after_its_backoff,
    a_given_retry_after_replaces_the_backoff_also_zero,
    attempts_run_out_and_the_entry_is_parked,
    a_release_gives_the_attempt_back_so_that_it_never_runs_out,
    a_result_expires_before_the_entry_does,
    fingerprints_are_pinned_at_the_first_grant_that_presents_one,
    a_disabled_consumer_still_settles_and_answers,
    consumers_do_not_see_each_other,
    the_history_keeps_the_last_ten_attempts,
    tokens_grow_across_release_failure_expiry_and_restart,
    a_clock_that_runs_backwards_stops_grants_and_nothing_else,
    a_hundred_claims_at_once_have_one_winner,
);

async fn server(kind: Kind) -> TestServer {
    TestServer::start(kind).await
}

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn span(duration: Option<prost_types::Duration>) -> Span {
    let duration = duration.expect("a duration");
    Span(duration.seconds * 1_000_000 + i64::from(duration.nanos) / 1_000)
}

/// A claim with an id of its own: a new delivery.
fn delivery(id: &str, number: u128) -> proto::ClaimRequest {
    let claim_id = uuid::Builder::from_random_bytes(number.to_be_bytes()).into_uuid();
    proto::ClaimRequest { claim_id: claim_id.to_string(), ..claim("c", id) }
}

async fn take(server: &mut TestServer, request: proto::ClaimRequest) -> proto::Acquired {
    acquired(&server.client.claim(request).await.unwrap().into_inner())
}

async fn ask(server: &mut TestServer, request: proto::ClaimRequest) -> proto::ClaimResponse {
    server.client.claim(request).await.unwrap().into_inner()
}

fn complete(id: &str, token: i64, result: &'static str) -> proto::CompleteRequest {
    proto::CompleteRequest { key: key("c", id), token, result: result.into(), ..Default::default() }
}

fn fail(id: &str, token: i64) -> proto::FailRequest {
    proto::FailRequest { key: key("c", id), token, error: "no luck".into(), ..Default::default() }
}

fn release(id: &str, token: i64) -> proto::ReleaseRequest {
    proto::ReleaseRequest { key: key("c", id), token, ..Default::default() }
}

fn renew(id: &str, token: i64) -> proto::RenewRequest {
    proto::RenewRequest { key: key("c", id), token, ..Default::default() }
}

async fn entry(server: &TestServer, id: &str) -> idempotency_ledger::domain::Entry {
    server.entry(&Key::new("c", "tests", id)).await.unwrap()
}

async fn a_first_claim_is_acquired_with_the_policys_lease(kind: Kind) {
    let mut server = server(kind).await;
    let first = take(&mut server, claim("c", "1")).await;
    assert_eq!((first.attempt, first.replayed, first.attempts_left), (1, false, Some(9)));
    assert_eq!(span(first.lease), Span::from_secs(30));
    assert!(first.token >= START.micros() && first.token < 1 << 53);
    assert_eq!(first.idempotency_key, Key::new("c", "tests", "1").idempotency_key().to_string());
    server.stop().await;
}

async fn a_repeated_claim_gets_the_same_token_and_what_remains_of_the_lease(kind: Kind) {
    let mut server = server(kind).await;
    let first = take(&mut server, delivery("1", 1)).await;
    server.advance(Span::from_secs(10)).await;
    let again = take(&mut server, delivery("1", 1)).await;
    assert!(again.replayed);
    assert_eq!((again.token, again.attempt), (first.token, 1));
    assert_eq!(span(again.lease), Span::from_secs(20));
    server.stop().await;
}

async fn a_claim_without_an_id_is_not_the_same_claim(kind: Kind) {
    let mut server = server(kind).await;
    take(&mut server, claim("c", "1")).await;
    let other = ask(&mut server, claim("c", "1")).await;
    assert_eq!(other.advice(), proto::Advice::RetryLater);
    assert_eq!(span(other.retry_after), Span::from_secs(31), "what remains, and the grace");
    let Some(Verdict::InProgress(held)) = other.verdict else { panic!("{other:?}") };
    assert_eq!((held.owner.as_str(), held.attempt, span(held.lease)), ("worker", 1, Span::from_secs(30)));
    server.stop().await;
}

async fn a_completed_message_is_answered_with_its_result_to_everybody(kind: Kind) {
    let mut server = server(kind).await;
    let first = take(&mut server, delivery("1", 1)).await;
    let done = server.client.complete(complete("1", first.token, "paid")).await.unwrap().into_inner();
    assert_eq!((done.advice(), done.replayed, done.late), (proto::Advice::Ack, false, false));
    for (number, by_this_claim) in [(1, true), (2, false)] {
        let found = completed(&ask(&mut server, delivery("1", number)).await);
        assert_eq!((&found.result[..], found.attempt, found.by_this_claim), (&b"paid"[..], 1, by_this_claim));
        assert_eq!(found.completed_at.unwrap().seconds, START.micros() / 1_000_000);
        assert!(!found.result_expired && !found.result_omitted && !found.fingerprint_unverified);
    }
    server.stop().await;
}

async fn a_repeated_complete_is_ok_and_the_first_result_stays(kind: Kind) {
    let mut server = server(kind).await;
    let first = take(&mut server, claim("c", "1")).await;
    server.client.complete(complete("1", first.token, "first")).await.unwrap();
    let before = entry(&server, "1").await;
    let again = server.client.complete(complete("1", first.token, "second")).await.unwrap().into_inner();
    assert!(again.replayed);
    assert_eq!(entry(&server, "1").await, before);
    server.stop().await;
}

async fn release_raced_by_complete_ends_completed_and_the_attempt_counts_again(kind: Kind) {
    let mut server = server(kind).await;
    let first = take(&mut server, delivery("1", 1)).await;
    server.client.release(release("1", first.token)).await.unwrap();
    assert_eq!(entry(&server, "1").await.attempts, 0);
    let done = server.client.complete(complete("1", first.token, "done")).await.unwrap().into_inner();
    assert!(done.late && !done.replayed);
    assert_eq!(completed(&ask(&mut server, delivery("1", 2)).await).attempt, 1);
    server.stop().await;
}

async fn a_terminal_failure_contradicts_a_later_complete(kind: Kind) {
    let mut server = server(kind).await;
    let first = take(&mut server, delivery("1", 1)).await;
    let terminal = proto::FailRequest { kind: proto::FailureKind::Terminal.into(), ..fail("1", first.token) };
    let failed = server.client.fail(terminal).await.unwrap().into_inner();
    assert_eq!(
        (failed.advice(), failed.state()),
        (proto::Advice::DeadLetter, proto::EntryState::FailedTerminal)
    );
    let refused = refusal(&server.client.complete(complete("1", first.token, "")).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::FailedPrecondition, "CLAIM_CLOSED"));
    let found = ask(&mut server, delivery("1", 2)).await;
    assert_eq!(found.advice(), proto::Advice::DeadLetter);
    assert!(matches!(found.verdict, Some(Verdict::Failed(failed)) if failed.error == "no luck"));
    server.stop().await;
}

async fn a_failed_message_comes_back_after_its_backoff(kind: Kind) {
    let mut server = server(kind).await;
    let first = take(&mut server, delivery("1", 1)).await;
    let failed = server.client.fail(fail("1", first.token)).await.unwrap().into_inner();
    assert_eq!((failed.advice(), failed.attempts_left), (proto::Advice::RetryLater, Some(9)));
    let wait = span(failed.retry_after);
    assert!(wait >= Span::from_millis(800) && wait <= Span::from_secs(1), "{wait:?}");
    let early = ask(&mut server, delivery("1", 2)).await;
    assert_eq!(span(early.retry_after), wait);
    assert!(matches!(early.verdict, Some(Verdict::Backoff(backoff)) if backoff.last_error == "no luck"));
    server.advance(wait).await;
    let second = take(&mut server, delivery("1", 2)).await;
    assert_eq!((second.attempt, second.last_error.as_str(), second.effect_unknown), (2, "no luck", false));
    server.stop().await;
}

async fn a_given_retry_after_replaces_the_backoff_also_zero(kind: Kind) {
    let mut server = server(kind).await;
    for (id, asked) in [("zero", 0), ("hour", 3_600)] {
        let first = take(&mut server, delivery(id, 1)).await;
        let request = proto::FailRequest { retry_after: seconds(asked), ..fail(id, first.token) };
        let failed = server.client.fail(request).await.unwrap().into_inner();
        assert_eq!(span(failed.retry_after), Span::from_secs(asked));
    }
    assert_eq!(take(&mut server, delivery("zero", 2)).await.attempt, 2);
    server.stop().await;
}

async fn attempts_run_out_and_the_entry_is_parked(kind: Kind) {
    let policy = Policy { max_attempts: 2, ..Policy::default() };
    let mut server = TestServer::start_with(kind, Setup::default().with("c", policy)).await;
    let mut last = None;
    for attempt in 1..=2 {
        let held = take(&mut server, delivery("1", attempt)).await;
        let request = proto::FailRequest { retry_after: seconds(0), ..fail("1", held.token) };
        last = Some((held.token, server.client.fail(request).await.unwrap().into_inner()));
    }
    let (token, failed) = last.unwrap();
    assert_eq!((failed.state(), failed.attempts_left), (proto::EntryState::Parked, Some(0)));
    assert_eq!(failed.advice(), proto::Advice::DeadLetter);
    let found = ask(&mut server, delivery("1", 9)).await;
    let Some(Verdict::Parked(parked)) = found.verdict else { panic!("{found:?}") };
    assert_eq!((parked.cause(), parked.error.as_str()), (proto::ParkCause::AttemptsExhausted, "no luck"));
    let done = server.client.complete(complete("1", token, "after all")).await.unwrap().into_inner();
    assert!(done.late, "the truth about the effect beats the bookkeeping");
    server.stop().await;
}

async fn a_release_gives_the_attempt_back_so_that_it_never_runs_out(kind: Kind) {
    let policy = Policy { max_attempts: 1, ..Policy::default() };
    let mut server = TestServer::start_with(kind, Setup::default().with("c", policy)).await;
    for number in 1..=5 {
        let held = take(&mut server, delivery("1", number)).await;
        assert_eq!((held.attempt, held.attempts_left), (1, Some(0)));
        server.client.release(release("1", held.token)).await.unwrap();
        let again = server.client.release(release("1", held.token)).await.unwrap().into_inner();
        assert!(again.replayed, "given back once");
        let refused = refusal(&server.client.claim(delivery("1", number)).await.unwrap_err());
        assert_eq!((refused.code, refused.reason.as_str()), (Code::Aborted, "CLAIM_CLOSED"));
    }
    server.stop().await;
}

async fn a_result_expires_before_the_entry_does(kind: Kind) {
    let policy = Policy { result_retention: Span::from_secs(60), ..Policy::default() };
    let mut server = TestServer::start_with(kind, Setup::default().with("c", policy)).await;
    let held = take(&mut server, delivery("1", 1)).await;
    server.client.complete(complete("1", held.token, "secret")).await.unwrap();
    server.advance(Span::from_secs(60)).await;
    let found = completed(&ask(&mut server, delivery("1", 2)).await);
    assert!(found.result.is_empty() && found.result_expired);
    server.stop().await;
}

async fn fingerprints_are_pinned_at_the_first_grant_that_presents_one(kind: Kind) {
    let mut server = server(kind).await;
    let with = |number, print: &'static [u8]| proto::ClaimRequest {
        fingerprint: Bytes::from_static(print),
        ..delivery("1", number)
    };
    let first = take(&mut server, with(1, b"")).await;
    server.client.release(release("1", first.token)).await.unwrap();
    let second = take(&mut server, with(2, b"A")).await;
    server.client.complete(complete("1", second.token, "")).await.unwrap();
    let rows: [(&str, u128, &[u8], Option<bool>); 3] = [
        ("another one, also when COMPLETED", 3, b"B", None),
        ("the same", 4, b"A", Some(false)),
        ("none", 5, b"", Some(true)),
    ];
    for (what, number, print, unverified) in rows {
        let answer = ask(&mut server, with(number, print)).await;
        let Some(unverified) = unverified else {
            assert_eq!(answer.advice(), proto::Advice::DeadLetter, "{what}");
            assert!(matches!(answer.verdict, Some(Verdict::FingerprintMismatch(_))), "{what}: {answer:?}");
            continue;
        };
        assert_eq!(completed(&answer).fingerprint_unverified, unverified, "{what}");
    }
    server.stop().await;
}

async fn a_disabled_consumer_still_settles_and_answers(kind: Kind) {
    let mut server = server(kind).await;
    let held = take(&mut server, delivery("held", 1)).await;
    let done = take(&mut server, delivery("done", 1)).await;
    server.client.complete(complete("done", done.token, "")).await.unwrap();
    let at = server.stop().await;
    let policy = Policy { disabled: true, ..Policy::default() };
    let mut server = TestServer::on(at, Setup::default().with("c", policy)).await;
    let refused = refusal(&server.client.claim(delivery("new", 1)).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::FailedPrecondition, "CONSUMER_DISABLED"));
    assert!(take(&mut server, delivery("held", 1)).await.replayed);
    completed(&ask(&mut server, delivery("done", 2)).await);
    server.client.renew(renew("held", held.token)).await.unwrap();
    server.client.complete(complete("held", held.token, "")).await.unwrap();
    server.stop().await;
}

async fn consumers_do_not_see_each_other(kind: Kind) {
    let mut server = server(kind).await;
    let one = take(&mut server, claim("billing", "1")).await;
    let other = take(&mut server, claim("mail", "1")).await;
    assert_ne!(one.idempotency_key, other.idempotency_key);
    let padded = take(&mut server, claim("billing ", "1")).await;
    assert!(!padded.replayed, "nothing is trimmed");
    server.stop().await;
}

async fn the_history_keeps_the_last_ten_attempts(kind: Kind) {
    let policy = Policy { max_attempts: 0, ..Policy::default() };
    let mut server = TestServer::start_with(kind, Setup::default().with("c", policy)).await;
    for number in 1..=13 {
        let held = take(&mut server, delivery("1", number)).await;
        assert_eq!(held.attempts_left, None);
        let request = proto::FailRequest { retry_after: seconds(0), ..fail("1", held.token) };
        server.client.fail(request).await.unwrap();
    }
    let request = proto::GetEntryRequest { key: key("c", "1"), ..Default::default() };
    let seen = server.admin.get_entry(request).await.unwrap().into_inner().entry.unwrap();
    let numbers: Vec<i32> = seen.history.iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(numbers, (3..=12).collect::<Vec<_>>());
    assert!(seen.history.iter().all(|attempt| attempt.error == "no luck" && attempt.owner == "worker"));
    assert_eq!((seen.attempts, seen.last_error.as_str()), (13, "no luck"));
    server.stop().await;
}

async fn tokens_grow_across_release_failure_expiry_and_restart(kind: Kind) {
    let mut server = server(kind).await;
    let mut last = 0;
    for number in 0..8 {
        let held = take(&mut server, delivery("1", number)).await;
        assert!(held.token > last, "{} after {last}", held.token);
        last = held.token;
        match number % 4 {
            0 => drop(server.client.release(release("1", last)).await.unwrap()),
            1 => {
                let request = proto::FailRequest { retry_after: seconds(0), ..fail("1", last) };
                server.client.fail(request).await.unwrap();
            }
            2 => server.advance(Span::from_secs(31)).await,
            _ => {
                server.client.release(release("1", last)).await.unwrap();
                let at = server.stop().await;
                server = TestServer::on(at, Setup::default()).await;
            }
        }
    }
    server.stop().await;
}

async fn a_clock_that_runs_backwards_stops_grants_and_nothing_else(kind: Kind) {
    let mut server = server(kind).await;
    let held = take(&mut server, delivery("held", 1)).await;
    let done = take(&mut server, delivery("done", 1)).await;
    server.client.complete(complete("done", done.token, "")).await.unwrap();
    server.at.set_clock(START - Span::from_secs(1)).await;
    for request in [delivery("new", 1), made_at("new too", 1, Span::ZERO)] {
        let refused = refusal(&server.client.claim(request).await.unwrap_err());
        assert_eq!((refused.code, refused.reason.as_str()), (Code::Unavailable, "STORE_CLOCK_BEHIND"));
        assert_eq!(refused.advice, "RETRY_LATER");
    }
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while server.metric("idempotency_ledger_store_clock_behind_seconds") < Some(1.0) {
        assert!(std::time::Instant::now() < until, "no metric tells that the clock is behind");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    completed(&ask(&mut server, delivery("done", 2)).await);
    assert!(take(&mut server, delivery("held", 1)).await.replayed);
    server.client.complete(complete("held", held.token, "")).await.unwrap();
    server.at.set_clock(START).await;
    take(&mut server, delivery("new", 1)).await;
    server.stop().await;
}

async fn a_hundred_claims_at_once_have_one_winner(kind: Kind) {
    let server = server(kind).await;
    let calls = (0..100).map(|number| {
        let mut client = server.client.clone();
        async move { client.claim(delivery("1", number)).await.unwrap().into_inner() }
    });
    let waited = tokio::time::timeout(Duration::from_secs(30), futures_util::future::join_all(calls));
    let answers = waited.await.expect("all answered");
    let winners =
        answers.iter().filter(|answer| matches!(answer.verdict, Some(Verdict::Acquired(_)))).count();
    let held = answers.iter().filter(|answer| matches!(answer.verdict, Some(Verdict::InProgress(_)))).count();
    assert_eq!((winners, held), (1, 99));
    server.stop().await;
}
