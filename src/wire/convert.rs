//! Converts protobuf messages to commands, and replies to protobuf messages.

use bytes::Bytes;

use super::errors;
use super::fields::{FieldChecks, FieldScope, Limits};
use super::words::{advice, duration, on_expiry, park_cause, state, timestamp, uuid};
use crate::common::random;
use crate::domain::{
    Advice, Claim, Claimant, Command, FailureKind, Malformed, Rejection, Reply, Settle, Span, Submission,
    Verdict,
};
use crate::proto::{self, claim_response, settlement, settlement_result};

/// The command that a message asks for, or why the message is malformed.
pub(crate) type ParsedCommand = Result<Submission, Box<Malformed>>;

/// A claim by `principal`, whose trace context is `traceparent`. `repeats`: an earlier item of the same batch
/// has the same `claim_id`.
pub(crate) fn claim(
    request: proto::ClaimRequest,
    principal: &str,
    traceparent: &str,
    limits: &Limits,
    part: FieldScope,
    repeats: bool,
) -> ParsedCommand {
    let mut fields = FieldChecks::of(limits, part);
    let key = fields.own_key(request.key);
    let claim_id = fields.claim_id(&request.claim_id);
    if repeats {
        fields.wrong(
            "claim_id",
            "is that of an earlier item of this batch: each delivery needs its own claim_id",
        );
    }
    fields.text("owner", &request.owner, limits.owner);
    let lease = fields.lease(request.lease.as_ref());
    fields.bytes("fingerprint", &request.fingerprint, limits.fingerprint);
    let occurred_at = fields.instant("occurred_at", request.occurred_at.as_ref());
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
        handed_out: false,
    };
    let event_type = fields.event_type(request.event_type);
    let wait = fields.wait(request.wait.as_ref(), part);
    let asked = fields.submission(key, Command::Claim(claim));
    asked.map(|asked| Submission { event_type, wait, ..asked })
}

/// Copies bytes out of their request: a command that waits in the queue must not keep the whole request in
/// memory.
fn own(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

pub(crate) fn renew(request: proto::RenewRequest, limits: &Limits, part: FieldScope) -> ParsedCommand {
    let mut fields = FieldChecks::of(limits, part);
    let key = fields.own_key(request.key);
    fields.token(request.token);
    let lease = request.lease.as_ref().and_then(|lease| fields.asked_lease(lease));
    let sent = request.checkpoint.as_ref();
    let checkpoint = sent.and_then(|sent| fields.carried("checkpoint", sent, limits.checkpoint)).map(own);
    let settle = Settle::Renew {
        lease,
        effect_started: request.effect_started,
        checkpoint_dropped: sent.is_some() && checkpoint.is_none(),
        checkpoint,
    };
    fields.submission(key, Command::Settle(request.token, settle))
}

pub(crate) fn complete(request: proto::CompleteRequest, limits: &Limits, part: FieldScope) -> ParsedCommand {
    let mut fields = FieldChecks::of(limits, part);
    let key = fields.own_key(request.key);
    fields.token(request.token);
    // A result that is too large is dropped; the completion itself counts. A result that is present is
    // stored, whatever the flag says.
    let result = fields.carried("result", &request.result, limits.result).map(own);
    let left_out = result.as_ref().is_none_or(|result| request.result_left_out && result.is_empty());
    let event_type = fields.event_type(request.event_type);
    let settle = Settle::Complete { result: result.unwrap_or_default(), left_out };
    let asked = fields.submission(key, Command::Settle(request.token, settle));
    asked.map(|asked| Submission { event_type, ..asked })
}

pub(crate) fn fail(request: proto::FailRequest, limits: &Limits, part: FieldScope) -> ParsedCommand {
    let mut fields = FieldChecks::of(limits, part);
    let key = fields.own_key(request.key);
    fields.token(request.token);
    let kind = match proto::FailureKind::try_from(request.kind) {
        Ok(proto::FailureKind::Unspecified | proto::FailureKind::Retryable) => FailureKind::Retryable,
        Ok(proto::FailureKind::Terminal) => FailureKind::Terminal,
        Ok(proto::FailureKind::Park) => FailureKind::Park,
        // A kind that only a newer client knows: the attempt failed in any case, and another attempt is safe.
        Err(_) => {
            fields.corrected("kind", format!("is {}, which is not known: taken as RETRYABLE", request.kind));
            FailureKind::Retryable
        }
    };
    let retry_after = request.retry_after.as_ref().map(|delay| fields.delay("retry_after", delay));
    let event_type = fields.event_type(request.event_type);
    let settle = Settle::Fail { kind, error: fields.error(&request.error), retry_after };
    let asked = fields.submission(key, Command::Settle(request.token, settle));
    asked.map(|asked| Submission { event_type, ..asked })
}

pub(crate) fn release(request: proto::ReleaseRequest, limits: &Limits, part: FieldScope) -> ParsedCommand {
    let mut fields = FieldChecks::of(limits, part);
    let key = fields.own_key(request.key);
    fields.token(request.token);
    let delay = request.delay.as_ref().map_or(Span::ZERO, |delay| fields.delay("delay", delay));
    let unpin = request.unpin_fingerprint;
    let event_type = fields.event_type(request.event_type);
    let asked = fields.submission(key, Command::Settle(request.token, Settle::Release { delay, unpin }));
    asked.map(|asked| Submission { event_type, ..asked })
}

/// The settlement with this index in its batch.
pub(crate) fn settle(settlement: proto::Settlement, limits: &Limits, index: usize) -> ParsedCommand {
    const LIST: &str = "settlements";
    let of = |choice| FieldScope::Choice { list: LIST, index, choice };
    match settlement.action {
        Some(settlement::Action::Complete(request)) => complete(request, limits, of("complete")),
        Some(settlement::Action::Fail(request)) => fail(request, limits, of("fail")),
        Some(settlement::Action::Release(request)) => release(request, limits, of("release")),
        Some(settlement::Action::Renew(request)) => renew(request, limits, of("renew")),
        None => {
            let mut fields = FieldChecks::of(limits, FieldScope::Item { list: LIST, index });
            fields.wrong("action", "is missing: set one of complete, fail, release, renew");
            fields.submission(None, Command::Settle(0, Settle::Release { delay: Span::ZERO, unpin: false }))
        }
    }
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
            result_dropped,
            completed_at,
            attempt,
            by_this_claim,
            fingerprint_unverified,
        } => claim_response::Verdict::Completed(proto::Completed {
            result,
            result_expired,
            result_omitted: false,
            result_dropped,
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
        Verdict::Parked { cause, error, parked_at, newly: _ } => {
            claim_response::Verdict::Parked(proto::Parked {
                cause: park_cause(cause).into(),
                error,
                parked_at: Some(timestamp(parked_at)),
            })
        }
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

/// The answer to a settlement, as an item of a batch; each single RPC takes its own kind out of it.
pub(crate) fn outcome(reply: &Reply) -> Result<settlement_result::Outcome, Rejection> {
    Ok(match *reply {
        Reply::Renewed { lease, hold, on_expiry: expiry, revived, checkpoint_dropped } => {
            settlement_result::Outcome::Renew(proto::RenewResponse {
                lease: Some(duration(lease)),
                revived,
                hold: Some(duration(hold)),
                on_expiry: on_expiry(expiry).into(),
                checkpoint_dropped,
            })
        }
        Reply::Completed { replayed, late, result_dropped, .. } => {
            settlement_result::Outcome::Complete(proto::CompleteResponse {
                advice: proto::Advice::Ack.into(),
                replayed,
                late,
                result_dropped,
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
        Reply::Released { state: now, replayed, unpinned, .. } => {
            settlement_result::Outcome::Release(proto::ReleaseResponse {
                advice: advice(Advice::of_state(now)).into(),
                replayed,
                fingerprint_unpinned: unpinned,
            })
        }
        Reply::Verdict(_) | Reply::Found(_) => {
            return Err(errors::internal("another kind of answer answered a settlement"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_and_settlements_keep_their_event_type() {
        let key = Some(proto::EntryKey {
            consumer: "c".into(),
            source: "s".into(),
            id: "i".into(),
            ..Default::default()
        });
        let (limits, event_type) = (Limits::default(), String::from("order.paid"));
        let claims = proto::ClaimRequest {
            key: key.clone(),
            claim_id: random::id().to_string(),
            event_type: event_type.clone(),
            ..Default::default()
        };
        let completes = proto::CompleteRequest {
            key: key.clone(),
            token: 1,
            event_type: event_type.clone(),
            ..Default::default()
        };
        let fails = proto::FailRequest {
            key: key.clone(),
            token: 1,
            event_type: event_type.clone(),
            ..Default::default()
        };
        let releases =
            proto::ReleaseRequest { key, token: 1, event_type: event_type.clone(), ..Default::default() };
        for (what, parsed) in [
            ("Claim", claim(claims, "p", "", &limits, FieldScope::Whole, false)),
            ("Complete", complete(completes, &limits, FieldScope::Whole)),
            ("Fail", fail(fails, &limits, FieldScope::Whole)),
            ("Release", release(releases, &limits, FieldScope::Whole)),
        ] {
            assert_eq!(parsed.expect(what).event_type, event_type, "{what}");
        }
    }
}
