//! The way of one delivery: claim, the handler's work, settlement. Each rule cites docs/clients.md by its number.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use prost::Message;
use tokio::time::Instant;

use crate::{
    calls::{CALL_TIMEOUT, DEFAULT_DELAY, Failure, Method, SHORTEST_DELAY, Transport, repeated, span},
    error::{ClaimError, Steer, Unexpected},
    hold::{Hold, delay},
    options::{Asked, Meaning},
    outcome::{Advice, EffectResult, Outcome},
    proto as pb,
};

pub(crate) const CLAIM_BUDGET: Duration = Duration::from_secs(10);
const SETTLE_BUDGET: Duration = Duration::from_secs(20);
const ERROR_LENGTH: usize = 2000; // characters; the ledger cuts at 2 KiB
/// How long until a claim is tried again whose policy does not protect its effect.
const MENDING_DELAY: Duration = Duration::from_secs(5);
pub(crate) const LATER: Advice = Advice::RetryLater { after: DEFAULT_DELAY };

/// What a Claim came to.
pub(crate) enum Begun {
    /// The handler runs now.
    Held(Arc<Hold>),
    /// It does not: what became of the delivery.
    Ended(Outcome),
}

/// How a handler ended.
pub(crate) enum Ending {
    Done(EffectResult),
    Steered(Steer),
    Panicked,
}

impl<R: Into<EffectResult>> From<Result<R, Steer>> for Ending {
    fn from(returned: Result<R, Steer>) -> Self {
        returned.map_or_else(Self::Steered, |result| Self::Done(result.into()))
    }
}

/// Claims the message. `stopping`: the client closes, or the caller is gone.
pub(crate) async fn begin(
    transport: &Arc<dyn Transport>,
    asked: Asked,
    stopping: impl Fn() -> bool,
    repeat_announced: bool,
) -> Begun {
    let Asked { request, fault } = asked;
    if let Some(fault) = fault {
        let detail = fault.to_string();
        let refused = Outcome::new(Advice::DeadLetter).because("INVALID_FIELD");
        return Begun::Ended(Outcome { detail, error: Some(Arc::new(fault)), ..refused });
    }
    let wait = span(request.wait.as_ref());
    let (budget, timeout) = (CLAIM_BUDGET + wait, CALL_TIMEOUT + wait);
    let called = repeated(&**transport, Method::Claim, &request, budget, timeout).await;
    let (answer, sent): (pb::ClaimResponse, Instant) = match called {
        Ok(answered) => answered,
        Err(failure) => {
            let outcome = refused(&failure, Outcome::new(LATER));
            return Begun::Ended(Outcome { away: failure.away(), ..outcome });
        }
    };
    let granted = match answer.verdict {
        // Rule 9: only this verdict with only this advice is a grant.
        Some(pb::claim_response::Verdict::Acquired(granted))
            if answer.advice == pb::Advice::Process as i32 =>
        {
            granted
        }
        verdict => return Begun::Ended(answered(answer.advice, answer.retry_after.as_ref(), verdict)),
    };
    let hold = Arc::new(Hold::new(Arc::clone(transport), request, granted, sent));
    admitted(hold, stopping, repeat_announced).await
}

/// The claim, where its handler may begin now; else what became of it.
pub(crate) async fn admitted(hold: Arc<Hold>, stopping: impl Fn() -> bool, repeat_announced: bool) -> Begun {
    if let Some(reason) = hold.lost() {
        // While it waited for a handler: another attempt may be running, and nothing is settled.
        return Begun::Ended(Outcome::new(LATER).because(reason));
    }
    if stopping() {
        return Begun::Ended(given_back(&hold, "CLOSING").await);
    }
    if !hold.made_sure().await {
        return Begun::Ended(given_back(&hold, "LEASE_OVER").await);
    }
    if hold.granted.prior_effect_started && !repeat_announced {
        // Rule 14.
        let park = Steer::park("an earlier attempt had announced its effect");
        let parked = finish(&hold, Ending::Steered(park), Meaning::Park).await;
        return Begun::Ended(Outcome { effect_unknown: true, ..parked.because("PRIOR_EFFECT_STARTED") });
    }
    Begun::Held(hold)
}

/// Releases a claim whose handler has not begun.
pub(crate) async fn given_back(hold: &Hold, reason: &str) -> Outcome {
    finish(hold, Ending::Steered(Steer::give_back()), Meaning::Park).await.because(reason)
}

/// Settles by how the handler ended. Nothing is sent after the first settlement (rule 13).
pub(crate) async fn finish(hold: &Hold, ending: Ending, unexpected: Meaning) -> Outcome {
    let _one_at_a_time = hold.settling.lock().await;
    let error = match &ending {
        Ending::Steered(Steer::Unexpected(Unexpected { error, .. })) => Some(Arc::clone(error)),
        Ending::Steered(_) | Ending::Done(_) | Ending::Panicked => None,
    };
    if let Some(settled) = hold.settled.get() {
        return Outcome { error, ..settled.clone() };
    }
    let outcome = match ending {
        Ending::Done(result) => {
            hold.completing.store(true, SeqCst);
            complete(hold, result).await
        }
        Ending::Steered(steer) => fail(hold, meant(hold, steer, unexpected)).await,
        Ending::Panicked => fail(hold, meant_by_name(hold, "panic", unexpected)).await,
    };
    let effect_unknown = outcome.effect_unknown || hold.granted.effect_unknown;
    let settled = Outcome { attempt: attempt(hold.granted.attempt), effect_unknown, ..outcome };
    Outcome { error, ..hold.settled.get_or_init(|| settled).clone() }
}

/// What an error of the handler says of its effect.
fn meant(hold: &Hold, steer: Steer, unexpected: Meaning) -> Steer {
    match steer {
        // Rule 15: nothing has begun.
        Steer::Claim(ClaimError::NotProtected { .. }) => Steer::GiveBack {
            reason: Some("NOT_PROTECTED".to_owned()),
            after: MENDING_DELAY,
            unpin_fingerprint: false,
        },
        Steer::Claim(ClaimError::AnnouncementFailed { .. }) => {
            Steer::Retry { reason: Some("AnnouncementFailed".to_owned()), after: None }
        }
        Steer::Claim(ClaimError::Lost { reason }) => {
            Steer::Doubtful { reason: Some(hold.over().unwrap_or(reason)) }
        }
        Steer::Claim(ClaimError::CheckpointDropped) => meant_by_name(hold, "CheckpointDropped", unexpected),
        Steer::Unexpected(Unexpected { name, .. }) => meant_by_name(hold, &name, unexpected),
        Steer::Retry { .. }
        | Steer::Terminal { .. }
        | Steer::Park { .. }
        | Steer::Doubtful { .. }
        | Steer::GiveBack { .. } => steer,
    }
}

fn meant_by_name(hold: &Hold, name: &str, unexpected: Meaning) -> Steer {
    // A handler whose claim is lost cannot say what became of the effect: rule 12.
    if let Some(reason) = hold.lost() {
        return Steer::Doubtful { reason: Some(reason) };
    }
    let reason = Some(name.to_owned());
    match unexpected {
        Meaning::Park => Steer::Park { reason },
        Meaning::Retry => Steer::Retry { reason, after: None },
        Meaning::Doubtful => Steer::Doubtful { reason },
    }
}

async fn complete(hold: &Hold, done: EffectResult) -> Outcome {
    let base = Outcome {
        result: (!done.left_out).then(|| done.bytes.clone()),
        result_dropped: done.left_out,
        ..Outcome::new(LATER)
    };
    let mut request = pb::CompleteRequest {
        key: Some(hold.key.clone()),
        token: hold.granted.token,
        result: done.bytes,
        result_left_out: done.left_out,
        event_type: hold.event_type.clone(),
    };
    let mut answer = settle::<pb::CompleteResponse>(hold, Method::Complete, &request).await;
    let too_large = answer.as_ref().is_err_and(|failure| failure.reason.as_deref() == Some("TOO_LARGE"));
    if too_large && !request.result.is_empty() {
        (request.result, request.result_left_out) = (bytes::Bytes::new(), true); // Rule 22.
        answer = settle(hold, Method::Complete, &request).await;
    }
    match answer {
        Ok(answer) => advised(answer.advice, None, Outcome { result_dropped: answer.result_dropped, ..base }), // Rule 21.
        Err(failure) => refused(&failure, base),
    }
}

async fn fail(hold: &Hold, steer: Steer) -> Outcome {
    let (key, token, event_type) = (Some(hold.key.clone()), hold.granted.token, hold.event_type.clone());
    let (kind, reason, after) = match steer {
        Steer::GiveBack { reason, after, unpin_fingerprint } => {
            let request =
                pb::ReleaseRequest { key, token, delay: Some(delay(after)), unpin_fingerprint, event_type };
            let base = Outcome::new(Advice::RetryLater { after: after.max(SHORTEST_DELAY) });
            let base = base.because(reason.unwrap_or_else(|| "GiveBack".to_owned()));
            return match settle::<pb::ReleaseResponse>(hold, Method::Release, &request).await {
                Ok(answer) => advised(answer.advice, None, base),
                Err(failure) => refused(&failure, base),
            };
        }
        Steer::Retry { reason, after } => {
            (pb::FailureKind::Retryable, reason.unwrap_or_else(|| "Retry".into()), after)
        }
        Steer::Terminal { reason } => {
            (pb::FailureKind::Terminal, reason.unwrap_or_else(|| "Terminal".into()), None)
        }
        Steer::Park { reason } => (pb::FailureKind::Park, reason.unwrap_or_else(|| "Park".into()), None),
        // Rule 12: nothing is settled, and the lease ends by itself.
        Steer::Doubtful { reason } => return in_doubt(reason),
        Steer::Claim(_) | Steer::Unexpected(_) => return in_doubt(None), // `meant` has made another one of it.
    };
    let error = reason.chars().take(ERROR_LENGTH).collect();
    let request =
        pb::FailRequest { key, token, kind: kind as i32, error, retry_after: after.map(delay), event_type };
    let base = Outcome::new(LATER).because(reason);
    match settle::<pb::FailResponse>(hold, Method::Fail, &request).await {
        Ok(answer) => advised(answer.advice, answer.retry_after.as_ref(), base),
        Err(failure) => refused(&failure, base),
    }
}

fn in_doubt(reason: Option<String>) -> Outcome {
    let reason = reason.unwrap_or_else(|| "DOUBTFUL".to_owned());
    Outcome { effect_unknown: true, ..Outcome::new(LATER).because(reason) }
}

async fn settle<A: Message + Default>(
    hold: &Hold,
    method: Method,
    request: &impl Message,
) -> Result<A, Failure> {
    let answered = repeated(&*hold.transport, method, request, SETTLE_BUDGET, CALL_TIMEOUT).await;
    answered.map(|(answer, _)| answer)
}

/// What a verdict other than a grant says. One that this version does not know means `RETRY_LATER` (rule 8).
fn answered(
    advice: i32,
    retry_after: Option<&prost_types::Duration>,
    verdict: Option<pb::claim_response::Verdict>,
) -> Outcome {
    use pb::claim_response::Verdict;
    let name = match &verdict {
        Some(Verdict::Completed(_)) => "completed",
        Some(Verdict::InProgress(_)) => "in_progress",
        Some(Verdict::Backoff(_)) => "backoff",
        Some(Verdict::Failed(_)) => "failed",
        Some(Verdict::Parked(_)) => "parked",
        Some(Verdict::FingerprintMismatch(_)) => "fingerprint_mismatch",
        Some(Verdict::OutsideWindow(_)) => "outside_window",
        Some(Verdict::Rejected(_)) => "rejected",
        Some(Verdict::Suppressed(_)) => "suppressed",
        Some(Verdict::Acquired(_)) => "acquired",
        None => "UNKNOWN_VERDICT",
    };
    let trusted = !matches!(verdict, None | Some(Verdict::Acquired(_)));
    let outcome = Outcome::new(LATER).because(name);
    let outcome = advised(if trusted { advice } else { 0 }, retry_after, outcome);
    match verdict {
        Some(Verdict::Completed(done)) if known(advice).is_some() => {
            let missing = done.result_dropped || done.result_expired || done.result_omitted; // Rule 21.
            Outcome {
                result: (!missing).then_some(done.result),
                replayed: true,
                reason: None,
                result_dropped: done.result_dropped,
                attempt: attempt(done.attempt),
                ..outcome
            }
        }
        _ => outcome,
    }
}

/// The advice of an answer. `None` for PROCESS, for none, and for one that this version does not know.
pub(crate) fn known(advice: i32) -> Option<Advice> {
    match pb::Advice::try_from(advice) {
        Ok(pb::Advice::Ack) => Some(Advice::Ack),
        Ok(pb::Advice::DeadLetter) => Some(Advice::DeadLetter),
        Ok(pb::Advice::RetryLater) => Some(LATER),
        Ok(pb::Advice::Process | pb::Advice::Unspecified) | Err(_) => None,
    }
}

/// The base with the advice of an answer (rules 7 and 8), and with the wait that it names (rule 10).
pub(crate) fn advised(advice: i32, named: Option<&prost_types::Duration>, base: Outcome) -> Outcome {
    let advice = match (known(advice).unwrap_or(LATER), named) {
        (Advice::RetryLater { .. }, Some(named)) => {
            Advice::RetryLater { after: span(Some(named)).max(SHORTEST_DELAY) }
        }
        (Advice::RetryLater { .. }, None) => base.advice,
        (other, _) => other,
    };
    Outcome { advice, ..base }
}

/// What an error says: its own advice (rule 5), and `RETRY_LATER` where it is not the ledger's (rule 3).
pub(crate) fn refused(failure: &Failure, base: Outcome) -> Outcome {
    let detail = failure.text.clone();
    Outcome { advice: failure.advised(), detail, ..base.because(failure.name()) }
}

fn attempt(number: i32) -> u32 {
    u32::try_from(number).unwrap_or_default()
}
