//! The same rows through the wire of a server on each store, many calls at once.

use bytes::Bytes;
use idempotency_ledger::domain::{Entry, Key, ParkCause};
use idempotency_ledger::proto::{self, claim_response};

use super::cases::{asked, cases, consumer, entry, key, policy};
use super::{TOKEN, Want, check_entry, leak, want};
use crate::harness::details::refusal;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(the_wire_answers_every_row, a_wait_changes_no_row,);

async fn the_wire_answers_every_row(kind: Kind) {
    answers_every_row(kind, None).await;
}

/// A wait that is over before anything happens: those that are `in_progress` wait, and all are answered what they are
/// answered without it.
async fn a_wait_changes_no_row(kind: Kind) {
    answers_every_row(kind, Some(prost_types::Duration { seconds: 0, nanos: 700_000_000 })).await;
}

async fn answers_every_row(kind: Kind, wait: Option<prost_types::Duration>) {
    let cases = cases();
    let mut setup = Setup::default();
    for case in &cases {
        setup.own.insert(consumer(case), policy(case));
    }
    let server = TestServer::start_with(kind, setup).await;
    let entries: Vec<Entry> =
        cases.iter().enumerate().filter_map(|(number, case)| entry(case, number, server.at.now())).collect();
    server.put(&entries).await;
    let keys: Vec<Key> = cases.iter().enumerate().map(|(number, case)| key(case, number)).collect();
    let before = server.entries(&keys).await;

    // Many at once, so that they meet in batches.
    let mut answers = Vec::new();
    for part in cases.iter().enumerate().collect::<Vec<_>>().chunks(64) {
        let calls = part.iter().map(|(number, case)| {
            let mut client = server.client.clone();
            let (claim_id, owner, print) = asked(case);
            let request = proto::ClaimRequest {
                key: Some(proto::EntryKey {
                    consumer: consumer(case),
                    source: "table".into(),
                    id: format!("case-{number}"),
                    ..Default::default()
                }),
                claim_id: claim_id.to_string(),
                owner: owner.into(),
                fingerprint: Bytes::from_static(print),
                wait,
                ..Default::default()
            };
            async move { client.claim(request).await }
        });
        answers.extend(futures_util::future::join_all(calls).await);
    }
    let after = server.entries(&keys).await;
    let waited = server.metric("idempotency_ledger_wait_seconds_count{outcome=\"over\"}").unwrap();
    let awaited = cases.iter().filter(|case| wait.is_some() && want(case) == Want::InProgress).count();
    assert_eq!(waited as usize, awaited, "a back-off here goes on for longer than the wait");
    for (number, (case, answer)) in cases.iter().zip(answers).enumerate() {
        let want = want(case);
        let rearmed = after[number].as_ref().is_some_and(|entry| entry.rearmed) && !case.rearmed;
        let (got, advice) = match answer {
            Err(status) => {
                let refusal = refusal(&status);
                (Want::Refused(leak(&refusal.reason)), refusal.advice)
            }
            Ok(response) => {
                let response = response.into_inner();
                let advice = response.advice().as_str_name().trim_start_matches("ADVICE_").to_owned();
                (of_response(response, rearmed), advice)
            }
        };
        assert_eq!(got, want, "{case:?}");
        assert_eq!(advice, advice_of(&want), "{case:?}");
        check_entry(case, &want, before[number].as_ref(), after[number].as_ref());
    }
    server.stop().await;
}

/// The advice of each verdict: docs/contract.md, section 4.
fn advice_of(want: &Want) -> &'static str {
    match want {
        Want::Granted { .. } | Want::Replayed { .. } => "PROCESS",
        Want::Completed { .. } => "ACK",
        Want::InProgress | Want::Backoff | Want::Refused(_) => "RETRY_LATER",
        Want::Failed | Want::Parked(_) | Want::Mismatch => "DEAD_LETTER",
    }
}

fn of_response(response: proto::ClaimResponse, rearmed: bool) -> Want {
    use claim_response::Verdict as V;
    let waits = response.retry_after.is_some();
    match response.verdict.expect("a verdict") {
        V::Acquired(acquired) if acquired.replayed => {
            assert_eq!(acquired.token, TOKEN);
            Want::Replayed { rearmed }
        }
        V::Acquired(acquired) => Want::Granted {
            attempt: acquired.attempt,
            effect_unknown: acquired.effect_unknown,
            prior_effect_started: acquired.prior_effect_started,
        },
        V::Completed(completed) => Want::Completed { by_this_claim: completed.by_this_claim },
        V::InProgress(_) => {
            assert!(waits, "in_progress without retry_after");
            Want::InProgress
        }
        V::Backoff(_) => {
            assert!(waits, "backoff without retry_after");
            Want::Backoff
        }
        V::Failed(failed) => {
            assert_eq!(failed.error, "broken");
            Want::Failed
        }
        V::Parked(parked) => Want::Parked(match parked.cause() {
            proto::ParkCause::AttemptsExhausted => ParkCause::AttemptsExhausted,
            proto::ParkCause::LeaseExpired => ParkCause::LeaseExpired,
            proto::ParkCause::EffectUnknown => ParkCause::EffectUnknown,
            proto::ParkCause::Consumer => ParkCause::Consumer,
            proto::ParkCause::Operator => ParkCause::Operator,
            proto::ParkCause::Unspecified => panic!("parked without a cause"),
        }),
        V::FingerprintMismatch(mismatch) => {
            assert_eq!((&mismatch.expected[..], &mismatch.presented[..]), (&b"A"[..], &b"B"[..]));
            Want::Mismatch
        }
        other @ (V::OutsideWindow(_) | V::Suppressed(_) | V::Rejected(_)) => panic!("{other:?}"),
    }
}
