//! Protobuf messages to commands, and replies to protobuf messages.

use bytes::Bytes;

use super::errors;
use super::fields::{Fields, Limits, Part};
use super::words::{advice, duration, on_expiry, park_cause, state, timestamp, uuid};
use crate::domain::{
    Advice, Claim, Claimant, Command, FailureKind, Key, Rejection, Reply, Settle, Span, Submission, Verdict,
};
use crate::random;
use crate::rpc::proto::{self, claim_response, settlement, settlement_result};

/// What a message asks for.
pub(crate) type Asked = Result<Submission, Rejection>;

/// A claim by `principal`, whose trace context is `traceparent`.
pub(crate) fn claim(
    request: proto::ClaimRequest,
    principal: &str,
    traceparent: &str,
    limits: &Limits,
    part: Part,
) -> Asked {
    let mut fields = Fields::of(limits, part);
    let key = fields.own_key(request.key);
    let claim_id = fields.claim_id(&request.claim_id);
    fields.text("owner", &request.owner, limits.owner);
    let lease = fields.lease(request.lease.as_ref());
    fields.bytes("fingerprint", &request.fingerprint, limits.fingerprint);
    let occurred_at = fields.instant("occurred_at", request.occurred_at.as_ref());
    fields.event_type(&request.event_type);
    let claim = Claim {
        claimant: Claimant {
            claim_id: claim_id.unwrap_or_else(random::id),
            principal: principal.to_owned(),
            owner: request.owner,
        },
        lease,
        fingerprint: own(&request.fingerprint),
        occurred_at,
        traceparent: traceparent.to_owned(),
    };
    finish(fields, key, Command::Claim(claim))
        .map(|asked| Submission { event_type: request.event_type, ..asked })
}

/// Bytes without the request around them: what waits in the queue must not keep all of it in memory.
fn own(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

pub(crate) fn renew(request: proto::RenewRequest, limits: &Limits, part: Part) -> Asked {
    let mut fields = Fields::of(limits, part);
    let key = fields.own_key(request.key);
    fields.token(request.token);
    let lease = fields.lease(request.lease.as_ref());
    fields.bytes("checkpoint", request.checkpoint.as_deref().unwrap_or_default(), limits.checkpoint);
    let settle = Settle::Renew {
        lease,
        effect_started: request.effect_started,
        checkpoint: request.checkpoint.as_ref().map(own),
    };
    finish(fields, key, Command::Settle(request.token, settle))
}

pub(crate) fn complete(request: proto::CompleteRequest, limits: &Limits, part: Part) -> Asked {
    let mut fields = Fields::of(limits, part);
    let key = fields.own_key(request.key);
    fields.token(request.token);
    fields.bytes("result", &request.result, limits.result);
    finish(fields, key, Command::Settle(request.token, Settle::Complete { result: own(&request.result) }))
}

pub(crate) fn fail(request: proto::FailRequest, limits: &Limits, part: Part) -> Asked {
    let mut fields = Fields::of(limits, part);
    let key = fields.own_key(request.key);
    fields.token(request.token);
    let kind = match proto::FailureKind::try_from(request.kind) {
        Ok(proto::FailureKind::Unspecified | proto::FailureKind::Retryable) => FailureKind::Retryable,
        Ok(proto::FailureKind::Terminal) => FailureKind::Terminal,
        Ok(proto::FailureKind::Park) => FailureKind::Park,
        Err(_) => {
            fields.wrong(
                "kind",
                format!("is {}, which is no FailureKind that this server knows", request.kind),
            );
            FailureKind::Retryable
        }
    };
    let retry_after = fields.delay("retry_after", request.retry_after.as_ref());
    fields.event_type(&request.event_type);
    let settle = Settle::Fail { kind, error: fields.error(&request.error), retry_after };
    let asked = finish(fields, key, Command::Settle(request.token, settle));
    asked.map(|asked| Submission { event_type: request.event_type, ..asked })
}

pub(crate) fn release(request: proto::ReleaseRequest, limits: &Limits, part: Part) -> Asked {
    let mut fields = Fields::of(limits, part);
    let key = fields.own_key(request.key);
    fields.token(request.token);
    let delay = fields.delay("delay", request.delay.as_ref()).unwrap_or(Span::ZERO);
    finish(fields, key, Command::Settle(request.token, Settle::Release { delay }))
}

/// The settlement with this index in its batch.
pub(crate) fn settle(settlement: proto::Settlement, limits: &Limits, index: usize) -> Asked {
    const LIST: &str = "settlements";
    let of = |choice| Part::Choice { list: LIST, index, choice };
    match settlement.action {
        Some(settlement::Action::Complete(request)) => complete(request, limits, of("complete")),
        Some(settlement::Action::Fail(request)) => fail(request, limits, of("fail")),
        Some(settlement::Action::Release(request)) => release(request, limits, of("release")),
        Some(settlement::Action::Renew(request)) => renew(request, limits, of("renew")),
        None => {
            let mut fields = Fields::of(limits, Part::Item { list: LIST, index });
            fields.wrong("action", "is missing: set one of complete, fail, release, renew");
            finish(fields, None, Command::Settle(0, Settle::Release { delay: Span::ZERO }))
        }
    }
}

pub(super) fn finish(fields: Fields<'_>, key: Option<Key>, command: Command) -> Asked {
    // Without a key there is a violation, so that the placeholder is never used.
    fields.finish(|| Submission::new(key.unwrap_or_else(|| Key::new("", "", "")), command))
}

pub(crate) fn claim_response(verdict: Verdict) -> proto::ClaimResponse {
    let mut response =
        proto::ClaimResponse { advice: advice(verdict.advice()).into(), ..proto::ClaimResponse::default() };
    response.verdict = Some(match verdict {
        Verdict::Acquired {
            token,
            attempt,
            lease,
            hold,
            on_expiry: expiry,
            replayed,
            reclaimed: _,
            effect_unknown,
            prior_effect_started,
            idempotency_key,
            checkpoint,
            last_error,
            attempts_left,
        } => claim_response::Verdict::Acquired(proto::Acquired {
            token,
            attempt,
            lease: Some(duration(lease)),
            replayed,
            effect_unknown,
            prior_effect_started,
            idempotency_key: uuid(idempotency_key),
            checkpoint,
            last_error,
            attempts_left,
            checkpoint_omitted: false,
            hold: Some(duration(hold)),
            on_expiry: on_expiry(expiry).into(),
        }),
        Verdict::Completed {
            result,
            result_expired,
            completed_at,
            attempt,
            by_this_claim,
            fingerprint_unverified,
        } => claim_response::Verdict::Completed(proto::Completed {
            result,
            result_expired,
            result_omitted: false,
            completed_at: Some(timestamp(completed_at)),
            attempt,
            by_this_claim,
            fingerprint_unverified,
        }),
        Verdict::InProgress { owner, attempt, lease, retry_after } => {
            response.retry_after = Some(duration(retry_after));
            claim_response::Verdict::InProgress(proto::InProgress {
                owner,
                attempt,
                lease: Some(duration(lease)),
            })
        }
        Verdict::Backoff { attempts_left, last_error, retry_after } => {
            response.retry_after = Some(duration(retry_after));
            claim_response::Verdict::Backoff(proto::Backoff { attempts_left, last_error })
        }
        Verdict::Failed { error, failed_at } => {
            claim_response::Verdict::Failed(proto::Failed { error, failed_at: Some(timestamp(failed_at)) })
        }
        Verdict::Parked { cause, error, parked_at } => claim_response::Verdict::Parked(proto::Parked {
            cause: park_cause(cause).into(),
            error,
            parked_at: Some(timestamp(parked_at)),
        }),
        Verdict::FingerprintMismatch { expected, presented } => {
            claim_response::Verdict::FingerprintMismatch(proto::FingerprintMismatch { expected, presented })
        }
        Verdict::OutsideWindow { window, occurred_at } => {
            claim_response::Verdict::OutsideWindow(proto::OutsideWindow {
                window: Some(duration(window)),
                occurred_at: Some(timestamp(occurred_at)),
            })
        }
        Verdict::Suppressed { replay_run } => {
            claim_response::Verdict::Suppressed(proto::Suppressed { replay_run })
        }
    });
    response
}

pub(crate) fn rejected_claim(rejected: proto::Rejected) -> proto::ClaimResponse {
    proto::ClaimResponse {
        advice: rejected.advice,
        retry_after: rejected.retry_after,
        verdict: Some(claim_response::Verdict::Rejected(rejected)),
    }
}

/// The answer to a settlement, in the form of a batch's item; each RPC takes its own out.
pub(crate) fn outcome(reply: &Reply) -> Result<settlement_result::Outcome, Rejection> {
    Ok(match *reply {
        Reply::Renewed { lease, hold, on_expiry: expiry, revived } => {
            settlement_result::Outcome::Renew(proto::RenewResponse {
                lease: Some(duration(lease)),
                revived,
                hold: Some(duration(hold)),
                on_expiry: on_expiry(expiry).into(),
            })
        }
        Reply::Completed { replayed, late, .. } => {
            settlement_result::Outcome::Complete(proto::CompleteResponse {
                advice: proto::Advice::Ack.into(),
                replayed,
                late,
            })
        }
        Reply::Failed { state: now, retry_after, attempts_left, replayed } => {
            settlement_result::Outcome::Fail(proto::FailResponse {
                advice: advice(Advice::of_state(now)).into(),
                state: state(now).into(),
                retry_after: retry_after.map(duration),
                attempts_left,
                replayed,
            })
        }
        Reply::Released { state: now, replayed, .. } => {
            settlement_result::Outcome::Release(proto::ReleaseResponse {
                advice: advice(Advice::of_state(now)).into(),
                replayed,
            })
        }
        Reply::Verdict(_) | Reply::Found(_) => {
            return Err(errors::internal("another kind of answer answered a settlement"));
        }
    })
}
