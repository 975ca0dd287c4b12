//! What an answer means for the load: which refusals pass, and which the ledger must never give.

use tonic::Status;

use super::tally::Call;
use crate::cli::problem;
use crate::cli::problem::Problem;
use crate::proto::{ErrorReason, claim_response::Verdict};

/// The word of a verdict, for people.
pub(super) fn verdict(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Acquired(_) => "acquired",
        Verdict::Completed(_) => "completed",
        Verdict::InProgress(_) => "in_progress",
        Verdict::Backoff(_) => "backoff",
        Verdict::Failed(_) => "failed",
        Verdict::Parked(_) => "parked",
        Verdict::FingerprintMismatch(_) => "fingerprint_mismatch",
        Verdict::OutsideWindow(_) => "outside_window",
        Verdict::Suppressed(_) => "suppressed",
        Verdict::Rejected(_) => "rejected",
    }
}

/// Says that somebody or something else ended the claim.
pub(super) fn of_another(reason: ErrorReason) -> bool {
    matches!(
        reason,
        ErrorReason::LeaseLost
            | ErrorReason::ClaimClosed
            | ErrorReason::EntryNotFound
            | ErrorReason::TokenFromFuture
    )
}

/// What the ledger does not store is not measured.
pub(super) fn results_dropped(bytes: usize) -> Problem {
    Problem::failed(format!(
        "results of {bytes} bytes are beyond the server's result_bytes_max, and are dropped"
    ))
    .next("measure with fewer --result-bytes, or raise result_bytes_max of the server or the policy")
}

/// Nobody else knows the token: the ledger may not say that it is over. Of a hot key it may, after its lease.
pub(super) fn is_wrong(call: Call, status: &Status) -> bool {
    call != Call::Release && problem::reason(status).is_some_and(|(_, reason)| of_another(reason))
}

/// Passes by itself, or concerns one claim of a hot key alone.
pub(super) fn goes_on(call: Call, reason: ErrorReason) -> bool {
    let passes = matches!(
        reason,
        ErrorReason::Overloaded
            | ErrorReason::QuotaExceeded
            | ErrorReason::StoreUnavailable
            | ErrorReason::StoreClockBehind
            | ErrorReason::StoreClockAhead
            | ErrorReason::Draining
            | ErrorReason::OutcomeUnknown
            | ErrorReason::DeadlineExceeded
            | ErrorReason::Cancelled
    );
    passes || call == Call::Release && of_another(reason)
}
