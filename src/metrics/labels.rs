//! The values of labels: an answer is counted at its place among them.

/// What those without a name of their own are called together: consumers, and event types of a consumer.
pub(super) const OTHER: &str = "other";
/// What a claim was answered.
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
/// What a claim in a replay run was answered.
pub(super) const REPLAY_VERDICTS: [&str; 5] = ["acquired", "completed", "suppressed", "refused", "other"];
/// What a look-up found.
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
/// What another attempt would bring.
pub(super) const KINDS: [&str; 3] = ["retryable", "terminal", "park"];
/// Of the operations, those that end a claim.
pub(super) const ENDS: usize = 3;
/// Why claims and settlements park a message.
pub(super) const CAUSES: [&str; 4] = ["attempts_exhausted", "lease_expired", "effect_unknown", "consumer"];
