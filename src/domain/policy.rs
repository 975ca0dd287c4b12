//! The policy: the rules of one consumer.

use std::sync::Arc;

use super::replay::{RunMode, Standing};
use super::{Span, StoreTime};

/// What happens to a claim whose lease and grace are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OnExpiry {
    /// The next claim is granted.
    Reclaim,
    /// The entry is parked.
    Park,
    /// The entry is parked if the effect had started, else the next claim is granted.
    ParkIfStarted,
}

/// How fingerprints are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FingerprintMode {
    /// Compared where both are present.
    Verify,
    /// Neither compared nor stored.
    Ignore,
    /// A claim without one is refused.
    Require,
}

/// Whether a claim must say when its message was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OccurredAtMode {
    /// A message without an age is inside the window.
    Optional,
    /// A claim without it is refused.
    Require,
}

/// Which replay runs a consumer may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReplayMode {
    /// No replay runs.
    Forbid,
    /// Runs whose messages are acknowledged unprocessed.
    Suppress,
    /// Runs whose messages are processed again.
    Rebuild,
}

/// The backoff after a failure: `min(max, initial × multiplier^(attempt − 1))`, less up to the share `jitter`
/// of it.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    /// The delay after the first attempt.
    pub initial: Span,
    /// By how much the delay grows from attempt to attempt; at least 1.
    pub multiplier: f64,
    /// The longest delay.
    pub max: Span,
    /// The share of the delay that the jitter may take away: 0 to 1.
    pub jitter: f64,
}

/// Why it is not known what a consumer's policy says at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// The policy is not in doubt.
    #[default]
    None,
    /// The newest stored version has a word or a field that this replica cannot read.
    Unreadable,
    /// The policy was read too long ago: it may have been changed since.
    Stale,
    /// The store has lost commits: its policies and entries may be older than what was acknowledged.
    Lost,
}

/// The rules of one consumer. Their stored form: [`Policy::to_stored`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Counts the changes of the policy by operators; 0 if the policy is the configuration's.
    #[serde(skip)]
    pub version: i32,
    /// The lease of a claim that asks for none.
    pub lease: Span,
    /// The longest lease: a claim that asks for more gets this.
    pub max_lease: Span,
    /// How long a claim may be held, renewals included.
    pub max_hold: Span,
    /// How long after its lease has ended the key is granted to no other claim.
    pub reclaim_grace: Span,
    /// What happens to a claim that expires.
    pub on_expiry: OnExpiry,
    /// The number of attempts; 0 for no limit.
    pub max_attempts: i32,
    /// When the next attempt is due.
    pub backoff: Backoff,
    /// How long a completed entry is kept.
    pub retention: Span,
    /// How long a terminally failed entry is kept.
    pub failed_retention: Span,
    /// How long an entry is kept that no client claims any more.
    pub abandoned_retention: Span,
    /// How long a result is handed out.
    pub result_retention: Span,
    /// The longest time after which a message can still be delivered again; zero if it is not stated.
    pub max_redelivery_window: Span,
    /// The reason for which a retention below the redelivery window was accepted.
    pub accepted_risk: Option<String>,
    /// How fingerprints are treated.
    pub fingerprint: FingerprintMode,
    /// Stops new grants.
    pub disabled: bool,
    /// The number of claims that each server accepts per second (rate limit); 0 for no limit.
    pub claims_per_second: i32,
    /// Whether a claim must say when its message was made.
    pub occurred_at: OccurredAtMode,
    /// Which replay runs the consumer may have.
    pub replay: ReplayMode,
    /// The largest result that is stored, in bytes; 0 for the server's bound, which no policy exceeds.
    pub result_bytes_max: i32,
    /// Whether messages are stored, to be acknowledged before they are processed.
    pub inbox: bool,
    /// How long a message is kept after it was completed.
    pub message_retention: Span,
    /// How long the oldest message may be due before no more are stored; zero for no limit.
    pub backlog_max_age: Span,
    /// Messages made at or before this instant may have been purged. Only grows.
    #[serde(skip)]
    pub window_floor: StoreTime,
    /// Whether these rules may not be the ones in force: then nothing is granted or parked by them.
    #[serde(skip)]
    pub doubt: Doubt,
    /// The standing of the run of the key that is decided.
    #[serde(skip)]
    pub run: Standing,
    /// When the last of the consumer's replay runs ends.
    #[serde(skip)]
    pub replays_until: StoreTime,
    /// The prefix of the widest hold in force for the consumer, empty if that is the hold of all consumers:
    /// no new grants. `None` if no hold is in force.
    #[serde(skip)]
    pub held_by: Option<Arc<str>>,
    /// The messages that are stored wait for too long, or take too many bytes: no more are stored.
    #[serde(skip)]
    pub backlog_full: bool,
}

/// The shortest lease.
pub(super) const LEASE_MIN: Span = Span::from_secs(1);
/// The bounds of `retention`.
const RETENTION_MIN: Span = Span::from_secs(3_600);
const RETENTION_MAX: Span = Span::from_days(3_650);
/// The largest bound of a result that a server may be set to.
const RESULT_BYTES_MAX: i32 = 1_048_576;
/// The longest hold.
const HOLD_MAX: Span = Span::from_days(400);

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            version: 0,
            lease: Span::from_secs(30),
            max_lease: Span::from_secs(15 * 60),
            max_hold: Span::from_days(1),
            reclaim_grace: Span::from_secs(1),
            on_expiry: OnExpiry::Reclaim,
            max_attempts: 10,
            backoff: Backoff {
                initial: Span::from_secs(1),
                multiplier: 2.0,
                max: Span::from_secs(300),
                jitter: 0.2,
            },
            retention: Span::from_days(7),
            failed_retention: Span::from_days(30),
            abandoned_retention: Span::from_days(30),
            result_retention: Span::from_days(7),
            max_redelivery_window: Span::ZERO,
            accepted_risk: None,
            fingerprint: FingerprintMode::Verify,
            disabled: false,
            claims_per_second: 0,
            occurred_at: OccurredAtMode::Optional,
            replay: ReplayMode::Forbid,
            result_bytes_max: 0,
            inbox: false,
            message_retention: Span::ZERO,
            backlog_max_age: Span::from_days(7),
            window_floor: StoreTime(0),
            doubt: Doubt::None,
            run: Standing::Live,
            replays_until: StoreTime(0),
            held_by: None,
            backlog_full: false,
        }
    }
}

/// Why a policy is refused: the field, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct PolicyError {
    /// The field's name, as in the contract.
    pub field: &'static str,
    /// The error, and the limit.
    pub problem: String,
    /// The violation is a retention below the redelivery window (`RETENTION_TOO_SHORT`).
    pub retention_too_short: bool,
}

impl Policy {
    /// Whether new grants are stopped: by the consumer's own policy, or by a hold.
    #[must_use]
    pub fn holds_back(&self) -> bool {
        self.disabled || self.held_by.is_some()
    }

    /// The lease that is granted: the policy's where none is asked for, else the asked one within the bounds.
    #[must_use]
    pub fn granted_lease(&self, asked: Option<Span>) -> Span {
        asked.unwrap_or(self.lease).max(LEASE_MIN).min(self.max_lease)
    }

    /// The number of attempts left after `used`; `None` if unlimited.
    #[must_use]
    pub fn attempts_left(&self, used: i32) -> Option<i32> {
        (self.max_attempts > 0).then(|| self.max_attempts.saturating_sub(used).max(0))
    }

    /// The number of used attempts from which an entry has at most one left; `None` if unlimited.
    #[must_use]
    pub fn near_exhaustion_from(&self) -> Option<i32> {
        (self.max_attempts > 0).then(|| self.max_attempts - 1)
    }

    /// Whether a result of this many bytes is stored. The server's own bound was checked before.
    #[must_use]
    pub fn stores_result(&self, bytes: usize) -> bool {
        self.result_bytes_max == 0 || usize::try_from(self.result_bytes_max).is_ok_and(|max| bytes <= max)
    }

    /// No further attempt is allowed after `used`.
    #[must_use]
    pub fn exhausted(&self, used: i32) -> bool {
        self.max_attempts > 0 && used >= self.max_attempts
    }

    /// The mode of a replay run that is created now; `None` if no run may be created.
    #[must_use]
    pub fn run_mode(&self) -> Option<RunMode> {
        match self.replay {
            ReplayMode::Forbid => None,
            ReplayMode::Suppress => Some(RunMode::Suppress),
            ReplayMode::Rebuild => Some(RunMode::Rebuild),
        }
    }

    /// Everything that is wrong with the policy, as a whole.
    ///
    /// # Errors
    /// All violations together.
    pub fn validate(&self) -> Result<(), Vec<PolicyError>> {
        let mut errors = Vec::new();
        let mut wrong = |field, problem: String| {
            errors.push(PolicyError { field, problem, retention_too_short: false });
        };
        let mut within = |field, value: Span, min: Span, max: Span| {
            if value < min || value > max {
                wrong(field, format!("is {}, must be {} to {}", text(value), text(min), text(max)));
            }
        };
        within("max_lease", self.max_lease, LEASE_MIN, Span::from_days(30));
        within("lease", self.lease, LEASE_MIN, self.max_lease.max(LEASE_MIN));
        within("max_hold", self.max_hold, self.max_lease, HOLD_MAX);
        within("reclaim_grace", self.reclaim_grace, Span::ZERO, Span::from_secs(3_600));
        within("backoff.max", self.backoff.max, Span::ZERO, Span::from_days(30));
        within("backoff.initial", self.backoff.initial, Span::ZERO, self.backoff.max);
        within("retention", self.retention, RETENTION_MIN, RETENTION_MAX);
        within("failed_retention", self.failed_retention, self.retention, RETENTION_MAX);
        let abandoned_min = self.retention.max(self.max_redelivery_window);
        within("abandoned_retention", self.abandoned_retention, abandoned_min, RETENTION_MAX);
        within("result_retention", self.result_retention, Span::ZERO, self.retention);
        within("message_retention", self.message_retention, Span::ZERO, self.retention);
        within("backlog_max_age", self.backlog_max_age, Span::ZERO, RETENTION_MAX);
        within("max_redelivery_window", self.max_redelivery_window, Span::ZERO, RETENTION_MAX);
        if !(1.0..=100.0).contains(&self.backoff.multiplier) {
            wrong("backoff.multiplier", format!("is {}, must be 1 to 100", self.backoff.multiplier));
        }
        if !(0.0..=1.0).contains(&self.backoff.jitter) {
            wrong("backoff.jitter", format!("is {}, must be 0 to 1", self.backoff.jitter));
        }
        if !(0..=1_000_000).contains(&self.max_attempts) {
            wrong("max_attempts", format!("is {}, must be 0 (no limit) to 1000000", self.max_attempts));
        }
        if !(0..=1_000_000).contains(&self.claims_per_second) {
            wrong(
                "claims_per_second",
                format!("is {}, must be 0 (no limit) to 1000000", self.claims_per_second),
            );
        }
        if !(0..=RESULT_BYTES_MAX).contains(&self.result_bytes_max) {
            let text =
                format!("is {}, must be 0 (the server's bound) to {RESULT_BYTES_MAX}", self.result_bytes_max);
            wrong("result_bytes_max", text);
        }
        if self.retention < self.max_redelivery_window && self.accepted_risk.is_none() {
            errors.push(PolicyError {
                field: "retention",
                problem: format!(
                    "is {}, shorter than max_redelivery_window ({}): a message could be delivered again \
                     after it was forgotten; lengthen it, or accept the risk and say why (accepted_risk)",
                    text(self.retention),
                    text(self.max_redelivery_window)
                ),
                retention_too_short: true,
            });
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

/// A span for people, in the largest unit that fits.
fn text(span: Span) -> String {
    let units = [(86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s")];
    for (size, unit) in units {
        if span.0 != 0 && span.0 % size == 0 {
            return format!("{}{unit}", span.0 / size);
        }
    }
    format!("{}ms", span.0 / 1_000)
}

#[cfg(test)]
mod tests;
