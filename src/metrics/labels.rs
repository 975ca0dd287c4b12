//! The values of labels: an answer is counted at its index among them.

/// The shared name of consumers without their own series, and of such event types of a consumer.
pub(super) const OTHER: &str = "other";
/// The verdicts of claims.
pub(super) const VERDICTS: [&str; 11] = [
    "acquired",
    "completed",
    "in_progress",
    "backoff",
    "failed",
    "parked",
    "fingerprint_mismatch",
    "outside_window",
    "rejected",
    "unavailable",
    "unanswered",
];
/// The verdicts of claims in a replay run.
pub(super) const REPLAY_VERDICTS: [&str; 5] = ["acquired", "completed", "suppressed", "refused", "other"];
/// The states that look-ups found.
pub(super) const FOUND: [&str; 10] = [
    "absent",
    "received",
    "in_progress",
    "failed_retryable",
    "completed",
    "failed_terminal",
    "parked",
    "rejected",
    "unavailable",
    "unanswered",
];
pub(super) const OPERATIONS: [&str; 4] = ["complete", "fail", "release", "renew"];
pub(super) const OUTCOMES: [&str; 7] =
    ["ok", "replayed", "late", "rejected", "superseded", "unavailable", "unanswered"];
/// The values of the label `kind` of failed attempts: the kinds of Fail.
pub(super) const KINDS: [&str; 3] = ["retryable", "terminal", "park"];
/// The number of operations that end a claim: the first ones of `OPERATIONS`.
pub(super) const ENDS: usize = 3;
/// Why claims and settlements park a message.
pub(super) const CAUSES: [&str; 4] = ["attempts_exhausted", "lease_expired", "effect_unknown", "consumer"];
