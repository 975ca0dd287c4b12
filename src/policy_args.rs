//! The fields of a policy as people write them: as flags, in YAML and in TOML, under the names of the
//! contract.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::common::duration_arg::DurationArg;
use crate::proto::{self, FingerprintMode, OccurredAtMode, OnExpiry, ReplayMode, policy_fields};

/// The fields that are stated; the others keep their values.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[group(skip)]
pub struct PolicyArgs {
    /// The lease of a claim that asks for no lease
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    pub lease: Option<DurationArg>,
    /// The longest lease: a claim that asks for more gets this
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    pub max_lease: Option<DurationArg>,
    /// How long a claim may be held, renewals included
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    pub max_hold: Option<DurationArg>,
    /// How long the key is granted to no other claim after its lease has ended
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    pub reclaim_grace: Option<DurationArg>,
    /// What happens to a claim that expires
    #[arg(long, ignore_case = true, help_heading = "Fields")]
    #[serde(deserialize_with = "word")]
    pub on_expiry: Option<OnExpiry>,
    /// Maximum number of attempts (0 = no limit)
    #[arg(long, value_name = "N", help_heading = "Fields")]
    pub max_attempts: Option<i32>,
    /// When the next attempt is due
    #[command(flatten)]
    pub backoff: BackoffArgs,
    /// How long a completed entry is kept
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    pub retention: Option<DurationArg>,
    /// How long a terminally failed entry is kept
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    pub failed_retention: Option<DurationArg>,
    /// How long an entry is kept that no client claims any more
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    pub abandoned_retention: Option<DurationArg>,
    /// How long a result is returned
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    pub result_retention: Option<DurationArg>,
    /// The longest time after which a message can still be delivered again
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    pub max_redelivery_window: Option<DurationArg>,
    /// Why a retention below that window is accepted; empty: it is not accepted
    #[arg(long, value_name = "WHY", help_heading = "Fields")]
    pub accepted_risk: Option<String>,
    /// How fingerprints are treated
    #[arg(long, ignore_case = true, help_heading = "Fields")]
    #[serde(deserialize_with = "word")]
    pub fingerprint: Option<FingerprintMode>,
    /// Stop all new grants
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Fields")]
    pub disabled: Option<bool>,
    /// Maximum number of Claims that each server accepts per second (0 = no limit)
    #[arg(long, value_name = "N", help_heading = "Fields")]
    pub claims_per_second: Option<i32>,
    /// Whether a Claim must state when its message was made
    #[arg(long, ignore_case = true, help_heading = "Fields")]
    #[serde(deserialize_with = "word")]
    pub occurred_at: Option<OccurredAtMode>,
    /// Which replay runs may be created
    #[arg(long, ignore_case = true, help_heading = "Fields")]
    #[serde(deserialize_with = "word")]
    pub replay: Option<ReplayMode>,
    /// The largest result that is stored, in bytes (0 = the server's bound)
    #[arg(long, value_name = "BYTES", help_heading = "Fields")]
    pub result_bytes_max: Option<i32>,
    /// Store messages, to be acknowledged before they are processed
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Fields")]
    pub inbox: Option<bool>,
    /// How long a stored message is kept after it was completed
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    pub message_retention: Option<DurationArg>,
    /// How long the oldest stored message may be due before no more are stored (0 = no limit)
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    pub backlog_max_age: Option<DurationArg>,
    /// In a file of `policy apply`: delete the policy that operators set for the consumer
    #[arg(skip)]
    pub delete: bool,
}

/// When the next attempt is due.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[group(skip)]
pub struct BackoffArgs {
    /// The wait after the first failed attempt
    #[arg(long = "backoff-initial", value_name = "DURATION", help_heading = "Fields")]
    pub initial: Option<DurationArg>,
    /// The factor by which the wait grows from attempt to attempt
    #[arg(long = "backoff-multiplier", value_name = "FACTOR", help_heading = "Fields")]
    pub multiplier: Option<f64>,
    /// The longest wait
    #[arg(long = "backoff-max", value_name = "DURATION", help_heading = "Fields")]
    pub max: Option<DurationArg>,
    /// The share of the wait that jitter may take away, 0 to 1
    #[arg(long = "backoff-jitter", value_name = "SHARE", help_heading = "Fields")]
    pub jitter: Option<f64>,
}

impl PolicyArgs {
    /// The paths of the stated fields.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        // An empty text is stated, too: it withdraws the accepted risk.
        let emptied = |path: &str| path == "accepted_risk" && self.accepted_risk.is_some();
        let fields = policy_fields(&self.message()).into_iter();
        let stated = fields.filter(|(path, value)| !value.is_empty() || emptied(path));
        stated.map(|(path, _)| path.to_owned()).collect()
    }

    /// The message that sets the stated fields, and nothing else.
    #[must_use]
    pub fn message(&self) -> proto::Policy {
        let PolicyArgs {
            lease,
            max_lease,
            max_hold,
            reclaim_grace,
            on_expiry,
            max_attempts,
            backoff: BackoffArgs { initial, multiplier, max, jitter },
            retention,
            failed_retention,
            abandoned_retention,
            result_retention,
            max_redelivery_window,
            accepted_risk,
            fingerprint,
            disabled,
            claims_per_second,
            occurred_at,
            replay,
            result_bytes_max,
            inbox,
            message_retention,
            backlog_max_age,
            delete: _,
        } = self;
        proto::Policy {
            lease: time(*lease),
            max_lease: time(*max_lease),
            max_hold: time(*max_hold),
            reclaim_grace: time(*reclaim_grace),
            on_expiry: on_expiry.unwrap_or_default().into(),
            max_attempts: *max_attempts,
            backoff: Some(proto::BackoffPolicy {
                initial: time(*initial),
                multiplier: *multiplier,
                max: time(*max),
                jitter: *jitter,
            }),
            retention: time(*retention),
            failed_retention: time(*failed_retention),
            abandoned_retention: time(*abandoned_retention),
            result_retention: time(*result_retention),
            max_redelivery_window: time(*max_redelivery_window),
            accepted_risk: accepted_risk.clone().unwrap_or_default(),
            fingerprint: fingerprint.unwrap_or_default().into(),
            disabled: *disabled,
            claims_per_second: *claims_per_second,
            occurred_at: occurred_at.unwrap_or_default().into(),
            replay: replay.unwrap_or_default().into(),
            result_bytes_max: *result_bytes_max,
            inbox: *inbox,
            message_retention: time(*message_retention),
            backlog_max_age: time(*backlog_max_age),
        }
    }
}

/// A duration as a message; one beyond the range of messages becomes the longest one, which every rule
/// refuses.
fn time(value: Option<DurationArg>) -> Option<prost_types::Duration> {
    const MAX: prost_types::Duration = prost_types::Duration { seconds: 315_576_000_000, nanos: 0 };
    value
        .map(|value| std::time::Duration::from(value).try_into().unwrap_or(MAX))
        .map(|value: prost_types::Duration| if value.seconds > MAX.seconds { MAX } else { value })
}

/// An enum's word, in any case, as on the command line.
fn word<'de, D: Deserializer<'de>, T: ValueEnum>(from: D) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(from)?;
    T::from_str(&text, true).map(Some).map_err(|_| {
        let words = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let words: Vec<String> = words.map(|word| word.get_name().to_owned()).collect();
        D::Error::custom(format!("{text:?} is none of {}", words.join(", ")))
    })
}

impl ValueEnum for OnExpiry {
    fn value_variants<'a>() -> &'a [OnExpiry] {
        &[OnExpiry::Reclaim, OnExpiry::Park, OnExpiry::ParkIfStarted]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        self.as_str_name().strip_prefix("ON_EXPIRY_").map(PossibleValue::new)
    }
}

impl ValueEnum for FingerprintMode {
    fn value_variants<'a>() -> &'a [FingerprintMode] {
        &[FingerprintMode::Verify, FingerprintMode::Ignore, FingerprintMode::Require]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        self.as_str_name().strip_prefix("FINGERPRINT_MODE_").map(PossibleValue::new)
    }
}

impl ValueEnum for OccurredAtMode {
    fn value_variants<'a>() -> &'a [OccurredAtMode] {
        &[OccurredAtMode::Optional, OccurredAtMode::Require]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        self.as_str_name().strip_prefix("OCCURRED_AT_MODE_").map(PossibleValue::new)
    }
}

impl ValueEnum for ReplayMode {
    fn value_variants<'a>() -> &'a [ReplayMode] {
        &[ReplayMode::Forbid, ReplayMode::Suppress, ReplayMode::Rebuild]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        self.as_str_name().strip_prefix("REPLAY_MODE_").map(PossibleValue::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_but_unspecified<T: TryFrom<i32> + ValueEnum + PartialEq + std::fmt::Debug>() {
        let published: Vec<T> = (1..).map_while(|number| T::try_from(number).ok()).collect();
        assert_eq!(T::value_variants(), published);
    }

    #[test]
    fn every_word_can_be_typed() {
        all_but_unspecified::<OnExpiry>();
        all_but_unspecified::<FingerprintMode>();
        all_but_unspecified::<OccurredAtMode>();
        all_but_unspecified::<ReplayMode>();
    }

    #[test]
    fn duration_beyond_messages_becomes_the_longest() {
        let longest = |text: &str| time(Some(text.parse().unwrap())).unwrap().seconds;
        assert_eq!(longest("315576000001s"), 315_576_000_000);
        assert_eq!(longest("18446744073709551615s"), 315_576_000_000);
        assert_eq!(longest("90s"), 90);
    }
}
