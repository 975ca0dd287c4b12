//! Reasons for a refusal. Their words are published API.

use std::fmt;

use super::{Span, State};

macro_rules! reasons {
    ($($reason:ident = $word:literal,)*) => {
        /// A refusal's reason: the words of `ErrorReason` in the protobuf contract.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each word is explained once, at ErrorReason in ledger.proto")]
        pub enum Reason { $($reason),* }

        impl Reason {
            /// All reasons.
            pub const ALL: &[Reason] = &[$(Reason::$reason),*];

            /// The word of `ErrorReason` without its prefix, as it stands in `ErrorInfo.reason`, trailers and logs.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Reason::$reason => $word),* }
            }
        }
    };
}

reasons! {
    InvalidField = "INVALID_FIELD",
    TooManyItems = "TOO_MANY_ITEMS",
    TooLarge = "TOO_LARGE",
    ClaimClosed = "CLAIM_CLOSED",
    EffectStarted = "EFFECT_STARTED",
    LeaseLimitReached = "LEASE_LIMIT_REACHED",
    TokenFromFuture = "TOKEN_FROM_FUTURE",
    ConsumerDisabled = "CONSUMER_DISABLED",
    UnknownConsumer = "UNKNOWN_CONSUMER",
    RetentionTooShort = "RETENTION_TOO_SHORT",
    StateNotAllowed = "STATE_NOT_ALLOWED",
    TooRecent = "TOO_RECENT",
    ReplayRunUnknown = "REPLAY_RUN_UNKNOWN",
    ReplayRunClosed = "REPLAY_RUN_CLOSED",
    ReplayForbidden = "REPLAY_FORBIDDEN",
    LeaseLost = "LEASE_LOST",
    VersionMismatch = "VERSION_MISMATCH",
    EntryNotFound = "ENTRY_NOT_FOUND",
    PolicyNotFound = "POLICY_NOT_FOUND",
    Unauthenticated = "UNAUTHENTICATED",
    ConsumerNotAllowed = "CONSUMER_NOT_ALLOWED",
    Overloaded = "OVERLOADED",
    QuotaExceeded = "QUOTA_EXCEEDED",
    StoreUnavailable = "STORE_UNAVAILABLE",
    StoreClockBehind = "STORE_CLOCK_BEHIND",
    StoreClockAhead = "STORE_CLOCK_AHEAD",
    Draining = "DRAINING",
    OutcomeUnknown = "OUTCOME_UNKNOWN",
    DeadlineExceeded = "DEADLINE_EXCEEDED",
    Cancelled = "CANCELLED",
    KeyCollision = "KEY_COLLISION",
    EntryUnreadable = "ENTRY_UNREADABLE",
    PolicyUnreadable = "POLICY_UNREADABLE",
    InboxOff = "INBOX_OFF",
    BacklogFull = "BACKLOG_FULL",
    Internal = "INTERNAL",
    Unimplemented = "UNIMPLEMENTED",
}

impl Reason {
    /// Whether the reason concerns a replay run.
    #[must_use]
    pub const fn is_of_a_run(self) -> bool {
        matches!(self, Reason::ReplayRunUnknown | Reason::ReplayRunClosed | Reason::ReplayForbidden)
    }

    /// Whether the ledger failed to do its part: nothing is wrong with the call, nor with what was done
    /// before.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(
            self,
            Reason::Overloaded
                | Reason::StoreUnavailable
                | Reason::StoreClockBehind
                | Reason::StoreClockAhead
                | Reason::Draining
                | Reason::OutcomeUnknown
                | Reason::DeadlineExceeded
                | Reason::KeyCollision
                | Reason::EntryUnreadable
                | Reason::PolicyUnreadable
                | Reason::Internal
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.word())
    }
}

/// One fault of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The dotted path.
    pub field: String,
    /// The error, and the limit.
    pub description: String,
}

/// A condition that a person must look into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alert {
    /// The reason of the refused call that revealed it; the caller may have been given a less specific one.
    pub reason: Reason,
    /// What the condition means.
    pub text: &'static str,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Which of the contract's reasons it is.
    pub reason: Reason,
    /// For people: what happened, and what to do next. Never a payload, never a driver's text.
    pub message: String,
    /// The entry's state, where it was read.
    pub state: Option<State>,
    /// Of `InvalidField`: every fault, up to a bound.
    pub violations: Vec<Violation>,
    /// The number of further faults that are not listed.
    pub left_out: usize,
    /// The condition that a person must look into: only a bug, a contradiction or a loss of commits explains
    /// this refusal.
    pub alert: Option<Alert>,
    /// When a repeat will help, where that is known; otherwise its reason determines it.
    pub retry_after: Option<Span>,
    /// The refusal is of a report of an effect that another claim has reported as done.
    pub doubled: bool,
}

impl Rejection {
    /// A refusal without an entry.
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<String>) -> Rejection {
        Rejection {
            reason,
            message: message.into(),
            state: None,
            violations: Vec::new(),
            left_out: 0,
            alert: None,
            retry_after: None,
            doubled: false,
        }
    }

    /// A refusal because of the state that the entry is in.
    #[must_use]
    pub fn in_state(reason: Reason, state: State, message: impl Into<String>) -> Rejection {
        Rejection { state: Some(state), ..Rejection::new(reason, message) }
    }

    /// A refusal because of fields.
    #[must_use]
    pub fn invalid(violations: Vec<Violation>) -> Rejection {
        let list: Vec<String> = violations
            .iter()
            .map(|violation| format!("{}: {}", violation.field, violation.description))
            .collect();
        Rejection { violations, ..Rejection::new(Reason::InvalidField, list.join("; ")) }
    }

    /// The refusal of an item of a batch: its fields get the item's path, where they have no path yet.
    #[must_use]
    pub fn within(mut self, prefix: &str) -> Rejection {
        for violation in self.violations.iter_mut().filter(|one| !one.field.starts_with(prefix)) {
            violation.field.insert_str(0, prefix);
        }
        self
    }

    /// The refusal with an alert, where `alert` says why.
    #[must_use]
    pub fn alerting(mut self, alert: Option<&'static str>) -> Rejection {
        self.alert = alert.map(|text| Alert { reason: self.reason, text });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_runs_and_failures_are_those_of_the_contract() {
        let of = |is: fn(Reason) -> bool| -> Vec<String> {
            Reason::ALL.iter().filter(|reason| is(**reason)).map(ToString::to_string).collect()
        };
        assert_eq!(of(Reason::is_of_a_run), ["REPLAY_RUN_UNKNOWN", "REPLAY_RUN_CLOSED", "REPLAY_FORBIDDEN"]);
        assert_eq!(
            of(Reason::is_failure),
            [
                "OVERLOADED",
                "STORE_UNAVAILABLE",
                "STORE_CLOCK_BEHIND",
                "STORE_CLOCK_AHEAD",
                "DRAINING",
                "OUTCOME_UNKNOWN",
                "DEADLINE_EXCEEDED",
                "KEY_COLLISION",
                "ENTRY_UNREADABLE",
                "POLICY_UNREADABLE",
                "INTERNAL",
            ]
        );
    }

    #[test]
    fn refusal_of_an_item_has_the_path_of_the_item_one_time() {
        let violation = |field: &str| Violation { field: field.into(), description: "is empty".into() };
        let refused = Rejection::invalid(vec![violation("key.id"), violation("items[3].owner")]);
        assert_eq!(
            (refused.reason, refused.message.as_str()),
            (Reason::InvalidField, "key.id: is empty; items[3].owner: is empty")
        );
        let fields: Vec<String> = refused
            .within("items[3].")
            .within("items[3].")
            .violations
            .into_iter()
            .map(|one| one.field)
            .collect();
        assert_eq!(fields, ["items[3].key.id", "items[3].owner"]);
    }
}
