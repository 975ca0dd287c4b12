//! The claim, and what its verdict means for the command.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tonic::Status;
use tonic_types::StatusExt as _;

use super::exit::{DEAD_LETTER, DONE, LATER, USAGE};
use crate::cli::client::{Client, ConsumerClient};
use crate::cli::problem::{Problem, reason};
use crate::cli::text::clean;
use crate::cli::{json, retry};
use crate::proto::{
    Acquired, Advice, ClaimRequest, ClaimResponse, Completed, EntryKey, ErrorReason, claim_response::Verdict,
};

/// A claim that this process holds.
pub(super) struct Held {
    pub(super) client: Client,
    pub(super) ledger: ConsumerClient,
    pub(super) key: EntryKey,
    pub(super) token: i64,
    pub(super) lease: Duration,
    /// When the granted call was sent: the lease is counted from then.
    pub(super) sent: Instant,
    pub(super) acquired: Acquired,
}

/// The outcome of the claim.
pub(super) enum ClaimOutcome {
    /// The command may run.
    Held(Box<Held>),
    /// The command may not run: the exit code, the stored result, and a note.
    Over { code: u8, result: Bytes, note: Option<String> },
}

/// Claims, and repeats the identical call while its outcome is unknown.
pub(super) async fn claim(
    client: Client,
    key: EntryKey,
    lease: Option<Duration>,
) -> Result<ClaimOutcome, Problem> {
    let ledger = client.connect_ledger().await?;
    let lease = lease.map(prost_types::Duration::try_from).transpose();
    let request = ClaimRequest {
        key: Some(key.clone()),
        claim_id: retry::id(),
        owner: format!("once on {}", clean(&rustix::system::uname().nodename().to_string_lossy())),
        lease: lease.map_err(|_| Problem::usage("--lease: is too long"))?,
        ..ClaimRequest::default()
    };
    let mut sent = Instant::now();
    let answer = retry::until_known(|| {
        sent = Instant::now();
        let (mut ledger, request) = (ledger.clone(), client.request(request.clone()));
        async move { ledger.claim(request).await }
    });
    let answer = match answer.await {
        Ok(known) => known.answer,
        Err(status) => return Ok(refused(&status)),
    };
    if let (Advice::Process, Some(Verdict::Acquired(acquired))) = (answer.advice(), &answer.verdict) {
        let (acquired, token) = (acquired.clone(), acquired.token);
        let lease = acquired.lease.and_then(|lease| Duration::try_from(lease).ok()).unwrap_or_default();
        return Ok(ClaimOutcome::Held(Box::new(Held { client, ledger, key, token, lease, sent, acquired })));
    }
    not_granted(&answer)
}

/// What follows from a verdict that is not a grant: by the advice alone, so that the verdict of a newer
/// server is handled correctly too.
fn not_granted(answer: &ClaimResponse) -> Result<ClaimOutcome, Problem> {
    let code = match answer.advice() {
        Advice::Ack => DONE,
        Advice::DeadLetter => DEAD_LETTER,
        Advice::RetryLater | Advice::Process | Advice::Unspecified => LATER,
    };
    if let Some(Verdict::Completed(done)) = answer.verdict.as_ref().filter(|_| code == DONE) {
        return Ok(ClaimOutcome::Over { code, result: done.result.clone(), note: lacking(done) });
    }
    let note = Some(why(answer)?);
    Ok(ClaimOutcome::Over { code, result: Bytes::new(), note })
}

/// Why the command may not run, for people.
fn why(answer: &ClaimResponse) -> Result<String, Problem> {
    let said = match &answer.verdict {
        Some(Verdict::InProgress(held)) => {
            format!("in_progress: {} has the claim, attempt {}", clean(&held.owner), held.attempt)
        }
        Some(Verdict::Backoff(failed)) => {
            format!("backoff: the last error is: {}", clean(&failed.last_error))
        }
        Some(Verdict::Parked(parked)) => {
            let cause = parked.cause().as_str_name().trim_start_matches("PARK_CAUSE_");
            format!("parked ({cause}): {}", clean(&parked.error))
        }
        Some(Verdict::Failed(failed)) => format!("failed for good: {}", clean(&failed.error)),
        _ => json::text("ClaimResponse", answer)?,
    };
    let later = answer.retry_after.and_then(|later| Duration::try_from(later).ok());
    Ok(later.map_or_else(|| said.clone(), |later| format!("{said}; it may run in {later:?}")))
}

/// Why a stored result is incomplete.
fn lacking(done: &Completed) -> Option<String> {
    let expired = "an earlier run was done; its result is not kept any longer";
    let omitted = "an earlier run was done; its result was left out of the answer";
    let dropped = "an earlier run was done; its output was too long to be stored";
    (done.result_expired.then_some(expired))
        .or_else(|| done.result_dropped.then_some(dropped))
        .or_else(|| done.result_omitted.then_some(omitted))
        .map(str::to_owned)
}

fn refused(status: &Status) -> ClaimOutcome {
    let details = status.get_error_details();
    let advice = details.error_info().and_then(|info| info.metadata.get("advice"));
    let code = match reason(status) {
        Some((_, ErrorReason::InvalidField)) => USAGE,
        _ if advice.is_some_and(|advice| advice == "DEAD_LETTER") => DEAD_LETTER,
        _ => LATER,
    };
    ClaimOutcome::Over { code, result: Bytes::new(), note: Some(Problem::of(status).text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::problem::tests::status;
    use crate::proto::Failed;

    #[test]
    fn message_that_failed_for_good_is_not_run_and_says_why() {
        let failed = Failed { error: "no\x1b such account".into(), ..Failed::default() };
        let answer = ClaimResponse {
            advice: Advice::DeadLetter.into(),
            verdict: Some(Verdict::Failed(failed)),
            ..ClaimResponse::default()
        };
        let Ok(ClaimOutcome::Over { code, note, .. }) = not_granted(&answer) else {
            panic!("it may not run")
        };
        let says = "failed for good: no\u{fffd} such account";
        assert_eq!((code, note.as_deref()), (DEAD_LETTER, Some(says)));
    }

    /// A verdict without a text here is shown as it arrived.
    #[test]
    fn suppressed_message_is_done_and_names_its_run() {
        let suppressed = crate::proto::Suppressed { replay_run: "2026-q1".into() };
        let answer = ClaimResponse {
            advice: Advice::Ack.into(),
            verdict: Some(Verdict::Suppressed(suppressed)),
            ..ClaimResponse::default()
        };
        let Ok(ClaimOutcome::Over { code, note, .. }) = not_granted(&answer) else {
            panic!("it may not run")
        };
        assert_eq!(code, DONE);
        assert!(note.is_some_and(|note| note.contains("2026-q1")));
    }

    #[test]
    fn refused_claim_exits_by_its_advice() {
        for (reason, advice, exit) in [
            (ErrorReason::TooLarge, "DEAD_LETTER", DEAD_LETTER),
            (ErrorReason::KeyCollision, "DEAD_LETTER", DEAD_LETTER),
            (ErrorReason::Overloaded, "RETRY_LATER", LATER),
            // The caller has named a wrong field: its message is not at fault.
            (ErrorReason::InvalidField, "DEAD_LETTER", USAGE),
        ] {
            let ClaimOutcome::Over { code, .. } = refused(&status(reason, &[("advice", advice)])) else {
                panic!("it may not run")
            };
            assert_eq!(code, exit, "{reason:?} {advice}");
        }
        let ClaimOutcome::Over { code, .. } = refused(&Status::unavailable("")) else {
            panic!("it may not run")
        };
        assert_eq!(code, LATER);
    }
}
