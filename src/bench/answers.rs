//! What an answer means for the load: which refusals are transient, and which the ledger must never give.

use tonic::Status;

use super::counts::CallKind;
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

/// Whether the reason means that another caller, or an expiry, ended the claim.
pub(super) fn of_another(reason: ErrorReason) -> bool {
    matches!(
        reason,
        ErrorReason::LeaseLost
            | ErrorReason::ClaimClosed
            | ErrorReason::EntryNotFound
            | ErrorReason::TokenFromFuture
    )
}

/// Results that the ledger does not store are not measured.
pub(super) fn results_dropped(bytes: usize) -> Problem {
    Problem::failed(format!(
        "results of {bytes} bytes are beyond the server's result_bytes_max, and are dropped"
    ))
    .next("measure with fewer --result-bytes, or raise result_bytes_max of the server or the policy")
}

/// Whether the ledger must never give this answer. No other client knows the token, so the ledger must not
/// report it as over, except for a hot key after its lease.
pub(super) fn is_wrong(call: CallKind, status: &Status) -> bool {
    call != CallKind::Release && problem::reason(status).is_some_and(|(_, reason)| of_another(reason))
}

/// Whether the load continues: the refusal is transient, or concerns one claim of a hot key alone.
pub(super) fn goes_on(call: CallKind, reason: ErrorReason) -> bool {
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
    passes || call == CallKind::Release && of_another(reason)
}
