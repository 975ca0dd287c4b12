//! The table of errors of docs/contract.md, section 7: one row for each reason, with everything that depends
//! on the reason alone. The compiler demands exactly one row for each [`Reason`] and for each published
//! [`ErrorReason`].

use tonic::Code;

use crate::domain::{Reason, Span};
use crate::proto::ErrorReason;

/// Whether a refusal answers a claim: `CLAIM_CLOSED` is ABORTED there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum During {
    Claim,
    Other,
}

/// Everything that depends on a reason alone.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    code: Code,
    /// The status code where the refused call is a Claim, if that code is different.
    code_on_claim: Option<Code>,
    pub(super) applied: Applied,
    /// How long to wait before the call is repeated, where a repeat can help.
    pub(super) retry_after: Option<Span>,
    pub(super) pushback: Pushback,
    pub(super) advice: AdviceRule,
}

/// Whether the call that was refused may have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Applied {
    No,
    /// Unknown: repeat the identical request.
    Unknown,
}

/// What a gRPC client does by itself, within the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushback {
    /// It does not repeat the call: no repeat can help.
    Stop,
    /// It waits for `retry_after`, unless that is too long within a call, and repeats the call.
    Wait,
    /// No pushback: the time of the call is over, and the caller decides on another call.
    Caller,
}

/// What decides the advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdviceRule {
    /// Always `RETRY_LATER`.
    Later,
    /// By the state of the entry; `RETRY_LATER` where no entry was read.
    ByState,
    /// `DEAD_LETTER` if every fault lies in the message's key, else `RETRY_LATER`.
    ByFields,
}

const fn ms(millis: i64) -> Span {
    Span::from_millis(millis)
}

macro_rules! reasons {
    ($($reason:ident, $code:ident $(/ $on_claim:ident)?, $applied:ident, $retry:expr, $pushback:ident, $advice:ident;)*) => {
        /// The word for a reason on the wire.
        pub(super) const fn published(reason: Reason) -> ErrorReason {
            match reason { $(Reason::$reason => ErrorReason::$reason),* }
        }

        #[cfg(test)]
        const ALL: &[Reason] = &[$(Reason::$reason),*];

        /// The row of a published reason.
        const fn rule_of(reason: ErrorReason) -> Option<Rule> {
            match reason {
                ErrorReason::Unspecified => None,
                $(ErrorReason::$reason => Some(rule(Reason::$reason))),*
            }
        }

        /// The row of a reason.
        pub(super) const fn rule(reason: Reason) -> Rule {
            #[allow(unused_mut, unused_assignments, reason = "one row has another code for Claim")]
            match reason {
                $(Reason::$reason => {
                    let mut code_on_claim = None;
                    $(code_on_claim = Some(Code::$on_claim);)?
                    Rule {
                        code: Code::$code,
                        code_on_claim,
                        applied: Applied::$applied,
                        retry_after: $retry,
                        pushback: Pushback::$pushback,
                        advice: AdviceRule::$advice,
                    }
                })*
            }
        }
    };
}

reasons! {
    // Reason           status (/ on Claim)            applied  retry after       pushback  advice
    InvalidField,       InvalidArgument,               No,      None,             Stop,     ByFields;
    TooManyItems,       InvalidArgument,               No,      None,             Stop,     Later;
    TooLarge,           InvalidArgument,               No,      None,             Stop,     Later;
    ClaimClosed,        FailedPrecondition / Aborted,  No,      None,             Stop,     ByState;
    EffectStarted,      FailedPrecondition,            No,      None,             Stop,     ByState;
    LeaseLimitReached,  FailedPrecondition,            No,      None,             Stop,     ByState;
    TokenFromFuture,    FailedPrecondition,            No,      None,             Stop,     ByState;
    ConsumerDisabled,   FailedPrecondition,            No,      Some(ms(30_000)), Wait,     Later;
    UnknownConsumer,    FailedPrecondition,            No,      None,             Stop,     Later;
    RetentionTooShort,  FailedPrecondition,            No,      None,             Stop,     Later;
    StateNotAllowed,    FailedPrecondition,            No,      None,             Stop,     ByState;
    TooRecent,          FailedPrecondition,            No,      Some(ms(60_000)), Wait,     Later;
    ReplayRunUnknown,   FailedPrecondition,            No,      Some(ms(30_000)), Wait,     Later;
    ReplayRunClosed,    FailedPrecondition,            No,      Some(ms(30_000)), Wait,     Later;
    ReplayForbidden,    FailedPrecondition,            No,      Some(ms(30_000)), Wait,     Later;
    LeaseLost,          Aborted,                       No,      None,             Stop,     ByState;
    VersionMismatch,    Aborted,                       No,      None,             Stop,     ByState;
    EntryNotFound,      NotFound,                      No,      None,             Stop,     Later;
    PolicyNotFound,     NotFound,                      No,      None,             Stop,     Later;
    Unauthenticated,    Unauthenticated,               No,      None,             Stop,     Later;
    ConsumerNotAllowed, PermissionDenied,              No,      None,             Stop,     Later;
    Overloaded,         ResourceExhausted,             No,      Some(ms(250)),    Wait,     Later;
    QuotaExceeded,      ResourceExhausted,             No,      Some(ms(250)),    Wait,     Later;
    StoreUnavailable,   Unavailable,                   No,      Some(ms(1_000)),  Wait,     Later;
    StoreClockBehind,   Unavailable,                   No,      Some(ms(1_000)),  Wait,     Later;
    StoreClockAhead,    Unavailable,                   No,      Some(ms(1_000)),  Wait,     Later;
    Draining,           Unavailable,                   No,      Some(ms(50)),     Wait,     Later;
    OutcomeUnknown,     Unavailable,                   Unknown, Some(ms(50)),     Wait,     Later;
    DeadlineExceeded,   DeadlineExceeded,              Unknown, Some(ms(50)),     Caller,   Later;
    Cancelled,          Cancelled,                     Unknown, Some(ms(50)),     Caller,   Later;
    KeyCollision,       Internal,                      No,      None,             Stop,     Later;
    EntryUnreadable,    Internal,                      No,      None,             Stop,     Later;
    PolicyUnreadable,   Internal,                      No,      Some(ms(30_000)), Wait,     Later;
    Internal,           Internal,                      No,      None,             Stop,     Later;
    Unimplemented,      Unimplemented,                 No,      None,             Stop,     Later;
    InboxOff,           FailedPrecondition,            No,      Some(ms(30_000)), Wait,     Later;
    BacklogFull,        ResourceExhausted,             No,      Some(ms(5_000)),  Wait,     Later;
}

impl Rule {
    /// The status code, which for one reason depends on the call.
    pub(super) fn code(self, during: During) -> Code {
        let on_claim = self.code_on_claim.filter(|_| during == During::Claim);
        on_claim.unwrap_or(self.code)
    }
}

/// The prefix of a reason's published name.
const PREFIX: &str = "ERROR_REASON_";

impl ErrorReason {
    /// The reason of a bare word, as `ErrorInfo.reason` has it; `None` if only a newer server knows the word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<ErrorReason> {
        ErrorReason::from_str_name(&format!("{PREFIX}{word}"))
    }

    /// Whether a call that was refused for this reason may have been applied anyway.
    #[must_use]
    pub fn outcome_unknown(self) -> bool {
        rule_of(self).is_some_and(|rule| rule.applied == Applied::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_published_under_its_word() {
        for reason in ALL {
            assert_eq!(ErrorReason::from_word(reason.word()), Some(published(*reason)), "{reason:?}");
        }
    }

    #[test]
    fn rows_are_consistent() {
        let mut rows = 0;
        for reason in (1..).map_while(|number| ErrorReason::try_from(number).ok()) {
            let rule = rule_of(reason).unwrap();
            assert_eq!(rule.retry_after.is_none(), rule.pushback == Pushback::Stop, "{reason:?}");
            if reason.outcome_unknown() {
                assert!(rule.retry_after.is_some(), "{reason:?}: the identical request must be repeated");
                assert_eq!(rule.advice, AdviceRule::Later, "{reason:?}");
            }
            rows += 1;
        }
        assert_eq!(rows, 37, "reasons are published without a gap in their numbers");
    }
}
