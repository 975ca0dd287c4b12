//! The words of enums: as people type them, as messages have them, and as they are shown.

use clap::ValueEnum;

use super::output::TextStyle;
use crate::proto;

macro_rules! words {
    ($(#[$doc:meta] $name:ident => $message:ident, $prefix:literal { $($variant:ident: $word:literal),* $(,)? })*) => {
        $(
            #[$doc]
            #[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
            pub(super) enum $name {
                // Both spellings are accepted: that of the command line, and that of JSON.
                $(#[value(name = $word, alias = concat!($prefix, $word))] $variant),*
            }

            impl From<$name> for proto::$message {
                fn from(word: $name) -> proto::$message {
                    match word { $($name::$variant => proto::$message::$variant),* }
                }
            }
        )*
    };
}

words! {
    /// A state.
    State => EntryState, "ENTRY_STATE_" {
        Received: "RECEIVED", InProgress: "IN_PROGRESS", FailedRetryable: "FAILED_RETRYABLE",
        Completed: "COMPLETED", FailedTerminal: "FAILED_TERMINAL", Parked: "PARKED",
    }
    /// Why an entry is parked.
    Cause => ParkCause, "PARK_CAUSE_" {
        AttemptsExhausted: "ATTEMPTS_EXHAUSTED", LeaseExpired: "LEASE_EXPIRED",
        EffectUnknown: "EFFECT_UNKNOWN", Consumer: "CONSUMER", Operator: "OPERATOR",
    }
}

/// An enum's word without its prefix; a value that this binary does not know is shown by its number.
fn bare(known: Option<&'static str>, prefix: &str, number: i32) -> String {
    known.map_or_else(
        || format!("({number})"),
        |word| match word.strip_prefix(prefix).unwrap_or(word) {
            "UNSPECIFIED" => "-".to_owned(),
            word => word.to_owned(),
        },
    )
}

pub(super) fn state(number: i32) -> String {
    bare(proto::EntryState::try_from(number).ok().map(|one| one.as_str_name()), "ENTRY_STATE_", number)
}

pub(super) fn advice(number: i32) -> String {
    bare(proto::Advice::try_from(number).ok().map(|one| one.as_str_name()), "ADVICE_", number)
}

pub(super) fn cause(number: i32) -> String {
    bare(proto::ParkCause::try_from(number).ok().map(|one| one.as_str_name()), "PARK_CAUSE_", number)
}

pub(super) fn closed_by(number: i32) -> String {
    match proto::ClosedBy::try_from(number) {
        Ok(proto::ClosedBy::Unspecified) => "open".to_owned(),
        known => bare(known.ok().map(|one| one.as_str_name()), "CLOSED_BY_", number),
    }
}

pub(super) fn replay_mode(number: i32) -> String {
    bare(proto::ReplayMode::try_from(number).ok().map(|one| one.as_str_name()), "REPLAY_MODE_", number)
}

pub(super) fn source(number: i32) -> String {
    bare(proto::PolicySource::try_from(number).ok().map(|one| one.as_str_name()), "POLICY_SOURCE_", number)
}

/// The colour of a state.
pub(super) fn style(number: i32, expired: bool) -> TextStyle {
    match proto::EntryState::try_from(number) {
        Ok(proto::EntryState::Completed) => TextStyle::Good,
        Ok(proto::EntryState::Parked | proto::EntryState::FailedTerminal) => TextStyle::Bad,
        Ok(proto::EntryState::FailedRetryable) => TextStyle::Doubtful,
        Ok(proto::EntryState::InProgress) if expired => TextStyle::Doubtful,
        Ok(proto::EntryState::InProgress | proto::EntryState::Received | proto::EntryState::Unspecified)
        | Err(_) => TextStyle::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enum_words_are_shown_without_prefix_and_unknown_numbers_in_brackets() {
        for (shown, word) in [
            (state(proto::EntryState::FailedRetryable.into()), "FAILED_RETRYABLE"),
            (state(0), "-"),
            (state(99), "(99)"),
            (advice(99), "(99)"),
            (cause(99), "(99)"),
            (closed_by(0), "open"),
            (closed_by(99), "(99)"),
        ] {
            assert_eq!(shown, word);
        }
    }

    #[test]
    fn states_that_may_need_a_person_have_a_colour() {
        use proto::EntryState::{Completed, FailedRetryable, FailedTerminal, InProgress, Parked, Received};
        for (state, expired, expected) in [
            (Completed, false, TextStyle::Good),
            (Parked, false, TextStyle::Bad),
            (FailedTerminal, false, TextStyle::Bad),
            (FailedRetryable, false, TextStyle::Doubtful),
            (InProgress, true, TextStyle::Doubtful),
            (InProgress, false, TextStyle::Plain),
            (Received, false, TextStyle::Plain),
        ] {
            assert_eq!(style(state.into(), expired), expected, "{state:?} {expired}");
        }
        assert_eq!(style(99, false), TextStyle::Plain);
    }
}
