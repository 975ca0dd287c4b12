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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::problem::tests::status;
    use crate::proto;

    #[test]
    fn answers_that_a_ledger_must_never_give_are_wrong_and_transient_refusals_are_not() {
        use ErrorReason::{
            ClaimClosed, EntryNotFound, InvalidField, LeaseLost, Overloaded, QuotaExceeded, StoreUnavailable,
            TokenFromFuture,
        };
        // The reason; whether it is wrong for a Complete or Renew; whether the load continues, also after a Release.
        for (reason, wrong, continues, after_release) in [
            (LeaseLost, true, false, true),
            (ClaimClosed, true, false, true),
            (EntryNotFound, true, false, true),
            (TokenFromFuture, true, false, true),
            (Overloaded, false, true, true),
            (QuotaExceeded, false, true, true),
            (StoreUnavailable, false, true, true),
            (InvalidField, false, false, false),
        ] {
            let status = status(reason, &[]);
            for call in [CallKind::Complete, CallKind::Renew] {
                assert_eq!(is_wrong(call, &status), wrong, "{call:?} {reason:?}");
                assert_eq!(goes_on(call, reason), continues, "{call:?} {reason:?}");
            }
            // Another caller may hold a hot key after its lease.
            assert!(!is_wrong(CallKind::Release, &status), "{reason:?}");
            assert_eq!(goes_on(CallKind::Release, reason), after_release, "{reason:?}");
        }
        // A proxy or the connection failed: the ledger said nothing.
        assert!(!is_wrong(CallKind::Complete, &Status::unavailable("")));
    }

    #[test]
    fn verdicts_have_the_words_of_the_contract() {
        for (shown, word) in [
            (Verdict::Acquired(proto::Acquired::default()), "acquired"),
            (Verdict::Completed(proto::Completed::default()), "completed"),
            (Verdict::InProgress(proto::InProgress::default()), "in_progress"),
            (Verdict::Failed(proto::Failed::default()), "failed"),
            (Verdict::Suppressed(proto::Suppressed::default()), "suppressed"),
            (Verdict::Backoff(proto::Backoff::default()), "backoff"),
            (Verdict::OutsideWindow(proto::OutsideWindow::default()), "outside_window"),
            (Verdict::FingerprintMismatch(proto::FingerprintMismatch::default()), "fingerprint_mismatch"),
            (Verdict::Parked(proto::Parked::default()), "parked"),
            (Verdict::Rejected(proto::Rejected::default()), "rejected"),
        ] {
            assert_eq!(verdict(&shown), word);
        }
    }
}
