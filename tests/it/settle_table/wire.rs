//! The same rows through the wire of a server on each store, as batches and as single calls.

use bytes::Bytes;
use idempotency_ledger::domain::{Entry, Key, ParkCause, State};
use idempotency_ledger::proto::{self, settlement::Action, settlement_result::Outcome};

use super::{Case, Op, Want, cases, check_entry, consumer, entry, key, policy, token, want};
use crate::harness::details::refusal;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(the_wire_answers_every_row,);

async fn the_wire_answers_every_row(kind: Kind) {
    let cases = cases();
    let setup = Setup::default()
        .with("last", policy(&Case { last_attempt: true, ..cases[0] }))
        .with("more", policy(&Case { last_attempt: false, ..cases[0] }));
    let mut server = TestServer::start_with(kind, setup).await;
    let now = server.at.now();
    let entries: Vec<Entry> =
        cases.iter().enumerate().filter_map(|(number, case)| entry(case, number, now)).collect();
    server.put(&entries).await;
    let keys: Vec<Key> = cases.iter().enumerate().map(|(number, case)| key(case, number)).collect();
    let before = server.entries(&keys).await;

    // Half of them as batches, half as single calls: the same answers.
    let mut got = Vec::new();
    for (part, cases) in cases.chunks(100).enumerate() {
        let from = part * 100;
        if part % 2 == 0 {
            let settlements = cases.iter().enumerate().map(|(n, case)| settlement(case, from + n)).collect();
            let batch = proto::BatchSettleRequest { settlements };
            let results = server.client.batch_settle(batch).await.unwrap().into_inner().results;
            assert_eq!(results.len(), cases.len());
            got.extend(results.into_iter().map(|result| of_outcome(result.outcome.unwrap())));
        } else {
            for (n, case) in cases.iter().enumerate() {
                got.push(single(&mut server, settlement(case, from + n)).await);
            }
        }
    }
    let after = server.entries(&keys).await;
    for (number, (case, (got, advice))) in cases.iter().zip(got).enumerate() {
        let want = want(case);
        assert_eq!(got, without_cause(&want), "{case:?}");
        check_entry(case, &want, before[number].as_ref(), after[number].as_ref(), now);
        let state = after[number].as_ref().map(|entry| entry.state);
        let expected = match state {
            _ if matches!(want, Want::Renewed { .. }) => "",
            Some(State::Completed) => "ACK",
            Some(State::FailedTerminal | State::Parked(_)) => "DEAD_LETTER",
            Some(State::Received | State::InProgress | State::FailedRetryable) | None => "RETRY_LATER",
        };
        assert_eq!(advice, expected, "{case:?}");
    }
    server.stop().await;
}

/// The wire tells the state, not the cause.
fn without_cause(want: &Want) -> Want {
    let plain = |state: State| match state {
        State::Parked(_) => State::Parked(ParkCause::Operator),
        other => other,
    };
    match want.clone() {
        Want::Failed { replayed, state } => Want::Failed { replayed, state: plain(state) },
        Want::Released { state: State::Received, replayed } => {
            Want::Released { replayed, state: State::Received }
        }
        Want::Released { replayed, .. } => {
            Want::Released { replayed, state: State::Parked(ParkCause::Operator) }
        }
        other => other,
    }
}

fn settlement(case: &Case, number: usize) -> proto::Settlement {
    let key = Some(proto::EntryKey {
        consumer: consumer(case).into(),
        source: "table".into(),
        id: format!("settle-{number}"),
        ..Default::default()
    });
    let token = token(case);
    let fail = |kind: proto::FailureKind| {
        Action::Fail(proto::FailRequest {
            key: key.clone(),
            token,
            kind: kind.into(),
            error: "second".into(),
            retry_after: None,
            event_type: "sent".into(),
        })
    };
    let action = match case.op {
        Op::Complete => Action::Complete(proto::CompleteRequest {
            key: key.clone(),
            token,
            result: Bytes::from_static(b"second"),
            result_left_out: false,
            event_type: String::new(),
        }),
        Op::Oversized => Action::Complete(proto::CompleteRequest {
            key: key.clone(),
            token,
            result: Bytes::from(vec![7; 16_385]),
            result_left_out: false,
            event_type: String::new(),
        }),
        // Unset is RETRYABLE.
        Op::Retryable => fail(proto::FailureKind::Unspecified),
        Op::Terminal => fail(proto::FailureKind::Terminal),
        Op::Park => fail(proto::FailureKind::Park),
        Op::Release => {
            let delay = Some(prost_types::Duration { seconds: 9, nanos: 0 });
            Action::Release(proto::ReleaseRequest {
                key: key.clone(),
                token,
                delay,
                unpin_fingerprint: false,
                event_type: String::new(),
            })
        }
        Op::Renew => Action::Renew(proto::RenewRequest { key: key.clone(), token, ..Default::default() }),
    };
    proto::Settlement { action: Some(action) }
}

fn word(advice: proto::Advice) -> String {
    advice.as_str_name().trim_start_matches("ADVICE_").to_owned()
}

fn domain_state(state: proto::EntryState) -> State {
    match state {
        proto::EntryState::Received => State::Received,
        proto::EntryState::InProgress => State::InProgress,
        proto::EntryState::FailedRetryable => State::FailedRetryable,
        proto::EntryState::Completed => State::Completed,
        proto::EntryState::FailedTerminal => State::FailedTerminal,
        proto::EntryState::Parked => State::Parked(ParkCause::Operator),
        proto::EntryState::Unspecified => panic!("no state"),
    }
}

fn of_outcome(outcome: Outcome) -> (Want, String) {
    match outcome {
        Outcome::Complete(done) => {
            let (replayed, late, dropped) = (done.replayed, done.late, done.result_dropped);
            (Want::Completed { replayed, late, dropped }, word(done.advice()))
        }
        Outcome::Fail(done) => {
            (Want::Failed { replayed: done.replayed, state: domain_state(done.state()) }, word(done.advice()))
        }
        Outcome::Release(done) => {
            let parked = done.advice() == proto::Advice::DeadLetter;
            let state = if parked { State::Parked(ParkCause::Operator) } else { State::Received };
            (Want::Released { replayed: done.replayed, state }, word(done.advice()))
        }
        Outcome::Renew(done) => (Want::Renewed { revived: done.revived }, String::new()),
        Outcome::Rejected(rejected) => {
            let reason = rejected.reason().as_str_name().trim_start_matches("ERROR_REASON_");
            (Want::Refused(reason), word(rejected.advice()))
        }
    }
}

async fn single(server: &mut TestServer, settlement: proto::Settlement) -> (Want, String) {
    let client = &mut server.client;
    let outcome = match settlement.action.unwrap() {
        Action::Complete(request) => {
            client.complete(request).await.map(|ok| Outcome::Complete(ok.into_inner()))
        }
        Action::Fail(request) => client.fail(request).await.map(|ok| Outcome::Fail(ok.into_inner())),
        Action::Release(request) => client.release(request).await.map(|ok| Outcome::Release(ok.into_inner())),
        Action::Renew(request) => client.renew(request).await.map(|ok| Outcome::Renew(ok.into_inner())),
    };
    match outcome {
        Ok(outcome) => of_outcome(outcome),
        Err(status) => {
            let refusal = refusal(&status);
            (Want::Refused(Box::leak(refusal.reason.into_boxed_str())), refusal.advice)
        }
    }
}
