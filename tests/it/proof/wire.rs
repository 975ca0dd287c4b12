//! Operations of the spec as calls, and what came back.

use std::sync::atomic::{AtomicU64, Ordering};

use idempotency_ledger::domain::{FailureKind, State};
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::lookup_result::Outcome as Looked;
use idempotency_ledger::proto::settlement::Action;
use idempotency_ledger::proto::settlement_result::Outcome;
use idempotency_ledger::proto::{self, Advice};
use idempotency_ledger::rpc::Limits;
use tonic::Status;
use tonic::transport::Channel;
use tonic_types::StatusExt as _;
use uuid::Uuid;

use super::reconciled::{Effect, Proof};
use super::reported;
use super::spec::{Op, Order, Said};

/// What came back for one operation.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Claim(Result<proto::ClaimResponse, Status>),
    Settle(Result<Outcome, Status>),
    Lookup(Result<Looked, Status>),
    /// With the payload that was sent.
    Store(Vec<u8>, Result<proto::StoreResponse, Status>),
}

impl Answer {
    /// In the spec's words. The wire does not repeat the cause of PARKED: `parked` is what is expected.
    pub(crate) fn said(&self, parked: Option<State>) -> Said {
        match self {
            Answer::Claim(Ok(response)) => match &response.verdict {
                Some(proto::claim_response::Verdict::Rejected(it)) => reported::rejected(it, parked),
                _ => reported::claimed(response),
            },
            Answer::Settle(Ok(outcome)) => reported::settled(outcome, parked),
            Answer::Lookup(Ok(Looked::Lookup(response))) => reported::found(response, parked),
            Answer::Lookup(Ok(Looked::Rejected(it))) => reported::rejected(it, parked),
            Answer::Store(_, Ok(response)) => reported::stored(response, parked),
            Answer::Claim(Err(status))
            | Answer::Settle(Err(status))
            | Answer::Lookup(Err(status))
            | Answer::Store(_, Err(status)) => reported::refused(status, parked),
        }
    }

    pub(crate) fn advice(&self) -> Option<String> {
        let word = |advice: Advice| Some(advice.as_str_name().trim_start_matches("ADVICE_").to_owned());
        match self {
            Answer::Claim(Ok(response)) => word(response.advice()),
            Answer::Settle(Ok(Outcome::Complete(it))) => word(it.advice()),
            Answer::Settle(Ok(Outcome::Fail(it))) => word(it.advice()),
            Answer::Settle(Ok(Outcome::Release(it))) => word(it.advice()),
            Answer::Settle(Ok(Outcome::Renew(_))) => None,
            Answer::Settle(Ok(Outcome::Rejected(it))) => word(it.advice()),
            Answer::Lookup(Ok(Looked::Lookup(_))) => None,
            Answer::Lookup(Ok(Looked::Rejected(it))) => word(it.advice()),
            Answer::Store(_, Ok(response)) => word(response.advice()),
            Answer::Claim(Err(status))
            | Answer::Settle(Err(status))
            | Answer::Lookup(Err(status))
            | Answer::Store(_, Err(status)) => {
                let details = status.get_error_details();
                details.error_info().and_then(|info| info.metadata.get("advice").cloned())
            }
        }
    }
}

fn span(micros: i64) -> prost_types::Duration {
    prost_types::Duration { seconds: micros / 1_000_000, nanos: (micros % 1_000_000) as i32 * 1_000 }
}

pub(crate) fn claim(key: &proto::EntryKey, op: &Op) -> proto::ClaimRequest {
    let Op::Claim { who, lease, print, occurred_at } = op else { panic!("{op:?} is no claim") };
    proto::ClaimRequest {
        key: Some(key.clone()),
        claim_id: Uuid::from_u128(who.0).to_string(),
        owner: who.1.clone(),
        lease: lease.map(span),
        fingerprint: print.clone().into(),
        occurred_at: occurred_at.map(instant),
        event_type: String::new(),
        wait: None,
    }
}

/// A message whose payload no other call sends.
fn store(key: &proto::EntryKey, op: &Op) -> proto::StoreRequest {
    let Op::Store { print, occurred_at } = op else { panic!("{op:?} stores nothing") };
    proto::StoreRequest {
        key: Some(key.clone()),
        message: Some(proto::Message { payload: next_payload().into(), ..Default::default() }),
        fingerprint: print.clone().into(),
        occurred_at: occurred_at.map(instant),
    }
}

fn next_payload() -> Vec<u8> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed).to_be_bytes().to_vec()
}

fn payload(request: &proto::StoreRequest) -> Vec<u8> {
    request.message.as_ref().map(|message| message.payload.to_vec()).unwrap_or_default()
}

fn instant(micros: i64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: micros.div_euclid(1_000_000),
        nanos: micros.rem_euclid(1_000_000) as i32 * 1_000,
    }
}

fn lookup(key: &proto::EntryKey) -> proto::LookupRequest {
    proto::LookupRequest { key: Some(key.clone()), wait: None }
}

pub(crate) fn action(key: &proto::EntryKey, op: &Op) -> Action {
    let key = Some(key.clone());
    let limits = Limits::default();
    let beyond = |limit: usize| vec![7; limit + 1].into();
    match op.clone() {
        Op::Claim { .. } | Op::Lookup | Op::Store { .. } => panic!("{op:?} is not a settlement"),
        // One too large, and one that its client leaves out, are the same.
        Op::Complete { token, result, too_large } => Action::Complete(proto::CompleteRequest {
            key,
            token,
            result: if too_large && token % 2 == 0 { beyond(limits.result) } else { result.into() },
            result_left_out: too_large,
            event_type: String::new(),
        }),
        Op::Fail { token, kind, error, retry_after } => {
            let kind = match kind {
                FailureKind::Retryable => proto::FailureKind::Retryable,
                FailureKind::Terminal => proto::FailureKind::Terminal,
                FailureKind::Park => proto::FailureKind::Park,
            };
            let retry_after = retry_after.map(span);
            let event_type = String::new();
            Action::Fail(proto::FailRequest { key, token, kind: kind.into(), error, retry_after, event_type })
        }
        Op::Release { token, delay, unpin } => {
            let delay = Some(span(delay));
            Action::Release(proto::ReleaseRequest {
                key,
                token,
                delay,
                unpin_fingerprint: unpin,
                event_type: String::new(),
            })
        }
        Op::Renew { token, lease, started, checkpoint, too_large } => Action::Renew(proto::RenewRequest {
            key,
            token,
            lease: lease.map(span),
            effect_started: started,
            checkpoint: if too_large { Some(beyond(limits.checkpoint)) } else { checkpoint.map(Into::into) },
        }),
    }
}

/// One call for one operation.
/// With a `wait` a Claim and a Lookup are answered what they are answered without it, if nothing happens meanwhile.
pub(crate) async fn call(
    client: &mut LedgerServiceClient<Channel>,
    key: &proto::EntryKey,
    op: &Op,
    wait: Option<prost_types::Duration>,
) -> Answer {
    if matches!(op, Op::Claim { .. }) {
        let request = proto::ClaimRequest { wait, ..claim(key, op) };
        return Answer::Claim(client.claim(request).await.map(tonic::Response::into_inner));
    }
    if *op == Op::Lookup {
        let found = client.lookup(proto::LookupRequest { wait, ..lookup(key) }).await;
        return Answer::Lookup(found.map(|found| Looked::Lookup(found.into_inner())));
    }
    if matches!(op, Op::Store { .. }) {
        let request = store(key, op);
        let payload = payload(&request);
        return Answer::Store(payload, client.store(request).await.map(tonic::Response::into_inner));
    }
    Answer::Settle(match action(key, op) {
        Action::Complete(it) => client.complete(it).await.map(|it| Outcome::Complete(it.into_inner())),
        Action::Fail(it) => client.fail(it).await.map(|it| Outcome::Fail(it.into_inner())),
        Action::Release(it) => client.release(it).await.map(|it| Outcome::Release(it.into_inner())),
        Action::Renew(it) => client.renew(it).await.map(|it| Outcome::Renew(it.into_inner())),
    })
}

/// An operator's change of the entry as it is now: its version then, or why it was refused; with the
/// version that was expected.
pub(crate) async fn order(
    admin: &mut AdminServiceClient<Channel>,
    key: &proto::EntryKey,
    order: &Order,
    request_id: &str,
) -> (i64, Result<Option<i64>, String>) {
    let seen = admin.get_entry(proto::GetEntryRequest { key: Some(key.clone()), ..Default::default() }).await;
    let absent = i64::from(!matches!(order, Order::Redrive { admit: true, .. }));
    let expected_version = seen.map_or(absent, |seen| seen.into_inner().entry.unwrap().version);
    let done = order_of(admin, key, order, request_id, expected_version).await;
    (expected_version, done.map(|entry| entry.map(|entry| entry.version)))
}

/// An operator's change of a version of an entry: the entry then, or why it was refused.
pub(crate) async fn order_of(
    admin: &mut AdminServiceClient<Channel>,
    key: &proto::EntryKey,
    order: &Order,
    request_id: &str,
    expected_version: i64,
) -> Result<Option<proto::Entry>, String> {
    let key = Some(key.clone());
    let (request_id, reason) = (request_id.to_owned(), "a test".to_owned());
    let resolve =
        |force, state: proto::EntryState, result: &[u8], evidence: &str| proto::ResolveEntryRequest {
            key: key.clone(),
            request_id: request_id.clone(),
            expected_version,
            reason: reason.clone(),
            force,
            state: state.into(),
            result: result.to_vec().into(),
            evidence: evidence.to_owned(),
        };
    let done = match order.clone() {
        Order::Redrive { force, drop_fingerprint, admit } => {
            let request = proto::RedriveEntryRequest {
                key: key.clone(),
                request_id: request_id.clone(),
                expected_version,
                reason: reason.clone(),
                force,
                drop_fingerprint,
                admit,
            };
            admin.redrive_entry(request).await.map(|it| it.into_inner().entry)
        }
        Order::Park => {
            let request = proto::ParkEntryRequest {
                key: key.clone(),
                request_id: request_id.clone(),
                expected_version,
                reason: reason.clone(),
            };
            admin.park_entry(request).await.map(|it| it.into_inner().entry)
        }
        Order::Complete { force, result } => {
            let request = resolve(force, proto::EntryState::Completed, &result, "");
            admin.resolve_entry(request).await.map(|it| it.into_inner().entry)
        }
        Order::FailTerminal { force, error } => {
            let request = resolve(force, proto::EntryState::FailedTerminal, b"", &error);
            admin.resolve_entry(request).await.map(|it| it.into_inner().entry)
        }
        Order::NotDone { force } => {
            let request = resolve(force, proto::EntryState::Received, b"", "looked");
            admin.resolve_entry(request).await.map(|it| it.into_inner().entry)
        }
        Order::Delete { force } => {
            let request = proto::DeleteEntryRequest {
                key: key.clone(),
                request_id: request_id.clone(),
                expected_version,
                reason: reason.clone(),
                force,
                key_hash: String::new(),
            };
            admin.delete_entry(request).await.map(|_| None)
        }
    };
    // Without a reason the connection was lost: nobody knows.
    let refused = |status: Status| {
        let details = status.get_error_details();
        // Nobody listens: it was never sent.
        let unsent = status.message().contains("tcp connect error");
        let made_on_the_way = if unsent { "NOT_THERE" } else { "" };
        details.error_info().map_or_else(|| made_on_the_way.to_owned(), |info| info.reason.clone())
    };
    done.map_err(refused)
}

/// The answer to one reconciled row: its word, or why it was refused.
pub(crate) async fn reconcile(
    admin: &mut AdminServiceClient<Channel>,
    key: &proto::EntryKey,
    effect: &Effect,
    dry_run: bool,
) -> String {
    let evidence = match effect.proof {
        Proof::Guard => proto::EffectEvidence::Guard,
        Proof::Spool => proto::EffectEvidence::Spool,
        Proof::Unfinished => proto::EffectEvidence::SpoolUnfinished,
    };
    let row = proto::ReconcileRow {
        key: Some(key.clone()),
        at: Some(instant(effect.at)),
        evidence: evidence.into(),
        result: effect.result.clone().into(),
        fingerprint: effect.print.clone().into(),
    };
    let request = proto::ReconcileEntriesRequest { reason: "a test".into(), dry_run, rows: vec![row] };
    let answered = match admin.reconcile_entries(request).await {
        Ok(answer) => answer.into_inner().results.remove(0),
        Err(status) => {
            let details = status.get_error_details();
            return details.error_info().map_or_else(|| format!("{status:?}"), |info| info.reason.clone());
        }
    };
    match answered.rejected {
        Some(rejected) => rejected.reason().as_str_name().trim_start_matches("ERROR_REASON_").to_owned(),
        None => answered.outcome().as_str_name().trim_start_matches("RECONCILE_OUTCOME_").to_owned(),
    }
}

/// One batch for several operations: all claims, all look-ups, all messages to store, or all settlements.
pub(crate) async fn batch(
    client: &mut LedgerServiceClient<Channel>,
    ops: &[(proto::EntryKey, Op)],
) -> Result<Vec<Answer>, Status> {
    if matches!(ops[0].1, Op::Claim { .. }) {
        let requests = ops.iter().map(|(key, op)| claim(key, op)).collect();
        let responses =
            client.batch_claim(proto::BatchClaimRequest { requests }).await?.into_inner().responses;
        assert_eq!(responses.len(), ops.len());
        return Ok(responses.into_iter().map(|response| Answer::Claim(Ok(response))).collect());
    }
    if ops[0].1 == Op::Lookup {
        let requests = ops.iter().map(|(key, _)| lookup(key)).collect();
        let responses =
            client.batch_lookup(proto::BatchLookupRequest { requests }).await?.into_inner().responses;
        assert_eq!(responses.len(), ops.len());
        let found = responses.into_iter().map(|one| Answer::Lookup(Ok(one.outcome.expect("an outcome"))));
        return Ok(found.collect());
    }
    if matches!(ops[0].1, Op::Store { .. }) {
        let requests: Vec<_> = ops.iter().map(|(key, op)| store(key, op)).collect();
        let payloads: Vec<_> = requests.iter().map(payload).collect();
        let responses =
            client.batch_store(proto::BatchStoreRequest { requests }).await?.into_inner().responses;
        assert_eq!(responses.len(), ops.len());
        let stored = payloads.into_iter().zip(responses);
        return Ok(stored.map(|(payload, one)| Answer::Store(payload, Ok(one))).collect());
    }
    let settlements =
        ops.iter().map(|(key, op)| proto::Settlement { action: Some(action(key, op)) }).collect();
    let results = client.batch_settle(proto::BatchSettleRequest { settlements }).await?.into_inner().results;
    assert_eq!(results.len(), ops.len());
    Ok(results.into_iter().map(|result| Answer::Settle(Ok(result.outcome.expect("an outcome")))).collect())
}
