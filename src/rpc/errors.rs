//! The one map from refusals to gRPC: status code, `ErrorInfo`, `BadRequest`, `RetryInfo`.

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

use super::convert;
use super::proto::{self, ErrorReason};
use crate::domain::{Reason, Rejection, Span, State};

/// The domain of every `ErrorInfo`.
pub(super) const DOMAIN: &str = "idempotency.ledger.v1";

/// Whether a refusal answers a claim: `CLAIM_CLOSED` is ABORTED there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum During {
    Claim,
    Other,
}

pub(super) fn internal(message: &str) -> Rejection {
    tracing::error!(message, "a bug of the server");
    Rejection::new(Reason::Internal, "a bug of the server; nothing is known to be changed")
}

pub(super) fn reason(reason: Reason) -> ErrorReason {
    match reason {
        Reason::InvalidField => ErrorReason::InvalidField,
        Reason::TooManyItems => ErrorReason::TooManyItems,
        Reason::TooLarge => ErrorReason::TooLarge,
        Reason::ClaimClosed => ErrorReason::ClaimClosed,
        Reason::EffectStarted => ErrorReason::EffectStarted,
        Reason::LeaseLimitReached => ErrorReason::LeaseLimitReached,
        Reason::TokenFromFuture => ErrorReason::TokenFromFuture,
        Reason::ConsumerDisabled => ErrorReason::ConsumerDisabled,
        Reason::UnknownConsumer => ErrorReason::UnknownConsumer,
        Reason::RetentionTooShort => ErrorReason::RetentionTooShort,
        Reason::StateNotAllowed => ErrorReason::StateNotAllowed,
        Reason::LeaseLost => ErrorReason::LeaseLost,
        Reason::VersionMismatch => ErrorReason::VersionMismatch,
        Reason::EntryNotFound => ErrorReason::EntryNotFound,
        Reason::PolicyNotFound => ErrorReason::PolicyNotFound,
        Reason::Unauthenticated => ErrorReason::Unauthenticated,
        Reason::ConsumerNotAllowed => ErrorReason::ConsumerNotAllowed,
        Reason::Overloaded => ErrorReason::Overloaded,
        Reason::QuotaExceeded => ErrorReason::QuotaExceeded,
        Reason::StoreUnavailable => ErrorReason::StoreUnavailable,
        Reason::StoreClockBehind => ErrorReason::StoreClockBehind,
        Reason::Draining => ErrorReason::Draining,
        Reason::OutcomeUnknown => ErrorReason::OutcomeUnknown,
        Reason::DeadlineExceeded => ErrorReason::DeadlineExceeded,
        Reason::Cancelled => ErrorReason::Cancelled,
        Reason::KeyCollision => ErrorReason::KeyCollision,
        Reason::EntryUnreadable => ErrorReason::EntryUnreadable,
        Reason::Internal => ErrorReason::Internal,
        Reason::Unimplemented => ErrorReason::Unimplemented,
    }
}

fn code(reason: Reason, during: During) -> Code {
    match reason {
        Reason::InvalidField | Reason::TooManyItems | Reason::TooLarge => Code::InvalidArgument,
        Reason::ClaimClosed if during == During::Claim => Code::Aborted,
        Reason::ClaimClosed
        | Reason::EffectStarted
        | Reason::LeaseLimitReached
        | Reason::TokenFromFuture
        | Reason::ConsumerDisabled
        | Reason::UnknownConsumer
        | Reason::RetentionTooShort
        | Reason::StateNotAllowed => Code::FailedPrecondition,
        Reason::LeaseLost | Reason::VersionMismatch => Code::Aborted,
        Reason::EntryNotFound | Reason::PolicyNotFound => Code::NotFound,
        Reason::Unauthenticated => Code::Unauthenticated,
        Reason::ConsumerNotAllowed => Code::PermissionDenied,
        Reason::Overloaded | Reason::QuotaExceeded => Code::ResourceExhausted,
        Reason::StoreUnavailable | Reason::StoreClockBehind | Reason::Draining | Reason::OutcomeUnknown => {
            Code::Unavailable
        }
        Reason::DeadlineExceeded => Code::DeadlineExceeded,
        Reason::Cancelled => Code::Cancelled,
        Reason::KeyCollision | Reason::EntryUnreadable | Reason::Internal => Code::Internal,
        Reason::Unimplemented => Code::Unimplemented,
    }
}

/// How long to wait, where a retry of the same call helps.
fn retry_after(rejection: &Rejection) -> Option<Span> {
    rejection.retry_after.or(match rejection.reason {
        Reason::OutcomeUnknown | Reason::DeadlineExceeded | Reason::Cancelled | Reason::Draining => {
            Some(Span::from_millis(50))
        }
        Reason::Overloaded | Reason::QuotaExceeded => Some(Span::from_millis(250)),
        Reason::StoreUnavailable | Reason::StoreClockBehind => Some(Span::from_secs(1)),
        Reason::ConsumerDisabled => Some(Span::from_secs(30)),
        Reason::InvalidField
        | Reason::TooManyItems
        | Reason::TooLarge
        | Reason::ClaimClosed
        | Reason::EffectStarted
        | Reason::LeaseLimitReached
        | Reason::TokenFromFuture
        | Reason::UnknownConsumer
        | Reason::RetentionTooShort
        | Reason::StateNotAllowed
        | Reason::LeaseLost
        | Reason::VersionMismatch
        | Reason::EntryNotFound
        | Reason::PolicyNotFound
        | Reason::Unauthenticated
        | Reason::ConsumerNotAllowed
        | Reason::KeyCollision
        | Reason::EntryUnreadable
        | Reason::Internal
        | Reason::Unimplemented => None,
    })
}

/// The bare word of a prefixed enum value.
fn bare<'w>(word: &'w str, prefix: &str) -> &'w str {
    word.strip_prefix(prefix).unwrap_or(word)
}

pub(super) fn status(rejection: &Rejection, during: During) -> Status {
    let mut metadata = HashMap::from([("advice".to_owned(), rejection.advice().word().to_owned())]);
    if let Some(state) = rejection.state {
        metadata.insert("current_state".to_owned(), state_word(state).to_owned());
    }
    let word = bare(reason(rejection.reason).as_str_name(), "ERROR_REASON_");
    let mut details = ErrorDetails::with_error_info(word, DOMAIN, metadata);
    if !rejection.violations.is_empty() {
        let violations = rejection.violations.iter();
        details.set_bad_request(
            violations
                .map(|one| FieldViolation::new(one.field.clone(), one.description.clone()))
                .collect::<Vec<_>>(),
        );
    }
    if let Some(wait) = retry_after(rejection) {
        details.set_retry_info(Some(wait.to_std().max(Duration::from_millis(1))));
    }
    Status::with_error_details(code(rejection.reason, during), rejection.message.clone(), details)
}

fn state_word(state: State) -> &'static str {
    bare(convert::state(state).as_str_name(), "ENTRY_STATE_")
}

pub(super) fn rejected(rejection: &Rejection, during: During) -> proto::Rejected {
    let violations = rejection.violations.iter();
    proto::Rejected {
        reason: reason(rejection.reason).into(),
        code: code(rejection.reason, during).into(),
        message: rejection.message.clone(),
        field_violations: violations
            .map(|one| proto::FieldViolation {
                field: one.field.clone(),
                description: one.description.clone(),
            })
            .collect(),
        retry_after: retry_after(rejection).map(convert::duration),
        current_state: rejection.state.map_or(proto::EntryState::Unspecified, convert::state).into(),
        advice: convert::advice(rejection.advice()).into(),
    }
}

/// Says once, where operators look, what a person should look into.
pub(super) fn note(rejection: &Rejection, key: &crate::domain::Key) {
    if let Some(alert) = rejection.alert {
        let reason = bare(reason(rejection.reason).as_str_name(), "ERROR_REASON_");
        tracing::error!(reason, consumer = key.consumer(), key = %key.hash(), "{alert}");
    }
}
