//! Lookup, asked before each Claim of the table: what a Claim would find, for the same claim and for others. It changes nothing.

use bytes::Bytes;
use futures_util::StreamExt as _;
use idempotency_ledger::domain::{Entry, Key, ParkCause};
use idempotency_ledger::proto::lookup_response::Found;
use idempotency_ledger::proto::lookup_result::Outcome;
use idempotency_ledger::proto::{self, EntryState};

use super::cases::{cases, consumer, entry, key, policy};
use super::{Case, Prints, Time, Was};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(lookup_finds_every_row_and_changes_none,);

/// What must be found: the state, and the fields of what the entry holds as text.
fn want(case: &Case) -> (EntryState, String) {
    let pinned = matches!(case.prints, Prints::Stored | Prints::Equal | Prints::Different);
    match case.was {
        Was::Absent => (EntryState::Unspecified, "nothing".into()),
        Was::Received(_) | Was::FailedRetryable => {
            let state = if case.was == Was::FailedRetryable {
                EntryState::FailedRetryable
            } else {
                EntryState::Received
            };
            let holds = if case.time == Time::Grace {
                let left = case.exhausted.then_some(0);
                format!("backoff {left:?} broken 1000 ms")
            } else {
                "nothing".into()
            };
            (state, holds)
        }
        // Not what becomes of it: that is for the next Claim to decide.
        Was::InProgress => {
            let over = match case.time {
                Time::Running => "lease 1",
                Time::Grace => "lease 0, waits",
                Time::Expired | Time::HoldOver => "lease 0",
            };
            (EntryState::InProgress, format!("in progress, holder, attempt 1, {over}"))
        }
        Was::Completed(_) => (EntryState::Completed, format!("completed, unverified {pinned}")),
        Was::FailedTerminal => (EntryState::FailedTerminal, "failed: broken".into()),
        Was::Parked(cause) => (EntryState::Parked, format!("parked {cause:?}: broken")),
    }
}

fn has(duration: Option<&prost_types::Duration>) -> bool {
    duration.is_some_and(|span| span.seconds > 0 || span.nanos > 0)
}

fn got(response: &proto::LookupResponse) -> (EntryState, String) {
    let wait = response.retry_after.as_ref();
    let holds = match &response.found {
        None => {
            assert!(wait.is_none(), "{response:?}");
            "nothing".into()
        }
        Some(Found::Backoff(it)) => {
            let millis = wait.map(|wait| wait.seconds * 1_000 + i64::from(wait.nanos) / 1_000_000);
            format!("backoff {:?} {} {} ms", it.attempts_left, it.last_error, millis.expect("a wait"))
        }
        Some(Found::InProgress(it)) => {
            assert!(wait.is_some() && it.lease.is_some(), "{response:?}");
            let lease = has(it.lease.as_ref());
            let waits = if !lease && has(wait) { ", waits" } else { "" };
            assert!(!lease || has(wait), "{response:?}");
            format!("in progress, {}, attempt {}, lease {}{waits}", it.owner, it.attempt, i32::from(lease))
        }
        Some(Found::Completed(it)) => {
            assert!(wait.is_none() && !it.by_this_claim && it.attempt == 1, "{response:?}");
            format!("completed, unverified {}", it.fingerprint_unverified)
        }
        Some(Found::Failed(it)) => {
            assert!(wait.is_none() && it.failed_at.is_some(), "{response:?}");
            format!("failed: {}", it.error)
        }
        Some(Found::Parked(it)) => {
            assert!(wait.is_none() && it.parked_at.is_some(), "{response:?}");
            let cause = match it.cause() {
                proto::ParkCause::AttemptsExhausted => ParkCause::AttemptsExhausted,
                proto::ParkCause::LeaseExpired => ParkCause::LeaseExpired,
                proto::ParkCause::EffectUnknown => ParkCause::EffectUnknown,
                proto::ParkCause::Consumer => ParkCause::Consumer,
                proto::ParkCause::Operator => ParkCause::Operator,
                proto::ParkCause::Unspecified => panic!("parked without a cause"),
            };
            format!("parked {cause:?}: {}", it.error)
        }
    };
    (response.state(), holds)
}

async fn lookup_finds_every_row_and_changes_none(kind: Kind) {
    let cases = cases();
    let mut setup = Setup::default();
    for case in &cases {
        setup.own.insert(consumer(case), policy(case));
    }
    let server = TestServer::start_with(kind, setup).await;
    let at = server.at.now();
    let entries: Vec<Entry> =
        cases.iter().enumerate().filter_map(|(number, case)| entry(case, number, at)).collect();
    server.put(&entries).await;
    let keys: Vec<Key> = cases.iter().enumerate().map(|(number, case)| key(case, number)).collect();
    let before = server.entries(&keys).await;
    let requests: Vec<proto::LookupRequest> = cases
        .iter()
        .enumerate()
        .map(|(number, case)| {
            let (consumer, source, id) = (consumer(case), "table".into(), format!("case-{number}"));
            let key = Some(proto::EntryKey { consumer, source, id, ..Default::default() });
            proto::LookupRequest { key, wait: None }
        })
        .collect();

    let mut client = server.client.clone();
    let mut found = Vec::new();
    for part in requests.chunks(1_000) {
        let request = proto::BatchLookupRequest { requests: part.to_vec() };
        for result in client.batch_lookup(request).await.unwrap().into_inner().responses {
            let Some(Outcome::Lookup(response)) = result.outcome else { panic!("{result:?}") };
            found.push(response);
        }
    }
    assert_eq!(found.len(), cases.len());
    // One in seven alone, too: the answer is the same.
    let kinds = |response: &proto::LookupResponse| {
        (response.state, response.attempt, response.found.as_ref().map(std::mem::discriminant))
    };
    let (mut waited, mut later) = (0, Vec::new());
    for (number, request) in requests.into_iter().enumerate().step_by(7) {
        let alone = client.lookup(request.clone()).await.unwrap().into_inner();
        assert_eq!(alone, found[number], "{:?}", cases[number]);
        // And with a wait that is over before anything happens: what is not settled waits.
        let settled = matches!(cases[number].was, Was::Completed(_) | Was::FailedTerminal | Was::Parked(_));
        waited += usize::from(!settled);
        let (mut client, number) = (client.clone(), number);
        later.push(async move {
            let wait = Some(prost_types::Duration { seconds: 0, nanos: 700_000_000 });
            (number, client.lookup(proto::LookupRequest { wait, ..request }).await.unwrap().into_inner())
        });
    }
    for (number, later) in futures_util::stream::iter(later).buffered(64).collect::<Vec<_>>().await {
        assert_eq!(kinds(&later), kinds(&found[number]), "{:?}", cases[number]);
    }
    let over = server.metric("idempotency_ledger_wait_seconds_count{outcome=\"over\"}").unwrap();
    assert_eq!(over as usize, waited);
    for (case, response) in cases.iter().zip(&found) {
        assert_eq!(got(response), want(case), "{case:?}");
        let attempt = i32::from(case.was != Was::Absent);
        assert_eq!(response.attempt, attempt, "{case:?}");
        if let Some(Found::Completed(it)) = &response.found {
            assert_eq!(it.result, Bytes::new(), "{case:?}");
        }
    }
    assert_eq!(server.entries(&keys).await, before, "a look-up has changed an entry, or made one");
    server.stop().await;
}
