//! Converts refusals to gRPC: status code, `ErrorInfo`, `BadRequest`, `RetryInfo`, trailers. What depends on
//! the reason alone is in [`reasons`].

use std::collections::HashMap;
use std::time::Duration;

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

use super::fit::cut;
use super::reasons::{self, AdviceRule, During, Pushback};
use super::words;
use crate::common::log_limit::error_once_a_second;
use crate::domain::{Advice, Reason, Rejection, Span, State, Violation};
use crate::proto::{self, ERROR_DOMAIN};

/// Trailers that repeat the error's details as text, for clients that cannot read details.
const REASON_TRAILER: &str = "idempotency-ledger-reason";
const ADVICE_TRAILER: &str = "idempotency-ledger-advice";
/// The wait of `RetryInfo` in milliseconds, for clients that cannot read error details: the pushback is
/// absent where the wait is longer than a second.
const RETRY_AFTER_TRAILER: &str = "idempotency-ledger-retry-after-ms";
/// How long a gRPC client waits before it retries within the call, in milliseconds; negative if it must not
/// retry.
const PUSHBACK_TRAILER: &str = "grpc-retry-pushback-ms";
/// A longer wait does not belong within a call.
const PUSHBACK_MAX: Span = Span::from_secs(1);

/// Bounds on the size of an error, whatever was in the request: all trailers of an answer together stay below
/// 6 KiB as sent. Many clients accept at most 8 KiB, and drop the details of an answer with more. The message
/// is sent twice, percent-encoded and within the details; the details are sent as base64.
const MESSAGE_MAX: usize = 640;
const MESSAGE_SENT_MAX: usize = 1_024;
const FIELD_MAX: usize = 200;
pub(super) const DESCRIPTION_MAX: usize = 400;
/// The bound of all violations together, encoding included.
const VIOLATIONS_BYTES_MAX: usize = 1_792;
const VIOLATION_OVERHEAD: usize = 10;
/// The number of violations that are kept.
pub(super) const VIOLATIONS_MAX: usize = 32;

pub(crate) fn internal(contradiction: &str) -> Rejection {
    error_once_a_second!(contradiction, "a bug of the server");
    Rejection::new(Reason::Internal, "a bug of the server; nothing is known to be changed")
}

/// How long to wait, where a retry of the same call helps.
fn retry_after(rejection: &Rejection) -> Option<Span> {
    rejection.retry_after.or(reasons::rule(rejection.reason).retry_after)
}

/// What to do with the broker's message.
fn advice(rejection: &Rejection) -> Advice {
    match reasons::rule(rejection.reason).advice {
        AdviceRule::Later => Advice::RetryLater,
        AdviceRule::ByState => rejection.state.map_or(Advice::RetryLater, Advice::of_state),
        AdviceRule::ByFields => {
            // The faults that are not listed may be in any field.
            let only_message = rejection.left_out == 0
                && !rejection.violations.is_empty()
                && rejection.violations.iter().all(|violation| is_of_message(&violation.field));
            if only_message { Advice::DeadLetter } else { Advice::RetryLater }
        }
    }
}

/// Whether a path is `key.source`, `key.id`, or under `message`, of the request or of one item of a batch: these belong to the
/// message. The consumer and the run belong to the process: one unset variable would dead-letter a whole
/// topic. False for a batch that cannot be decoded: it is not known which of its messages is at fault, and
/// the others must not be dead-lettered for it.
fn is_of_message(field: &str) -> bool {
    let mut parts = field.split('.').skip_while(|part| part.ends_with(']'));
    let mut part = parts.next();
    // The action of a settlement in a batch.
    if matches!(part, Some("complete" | "fail" | "release" | "renew")) {
        part = parts.next();
    }
    match part {
        Some("message") => parts.next().is_some(),
        Some("key") => matches!(parts.next(), Some("source" | "id")),
        Some(_) | None => false,
    }
}

/// The texts of a refusal, cut to fit an answer.
struct Rendered {
    message: String,
    violations: Vec<Violation>,
    left_out: usize,
}

fn render(rejection: &Rejection) -> Rendered {
    let mut bytes = 0;
    let all = rejection.violations.iter().map(|one| Violation {
        field: cut(&one.field, FIELD_MAX),
        description: cut(&one.description, DESCRIPTION_MAX),
    });
    let fits = |one: &Violation| {
        bytes += one.field.len() + one.description.len() + VIOLATION_OVERHEAD;
        bytes <= VIOLATIONS_BYTES_MAX
    };
    let violations: Vec<Violation> = all.take(VIOLATIONS_MAX).take_while(fits).collect();
    let left_out = rejection.left_out + rejection.violations.len() - violations.len();
    let more = if left_out == 0 { String::new() } else { format!("; {left_out} more faults are not listed") };
    let message = message(&rejection.message, &more);
    Rendered { message, violations, left_out }
}

/// A message with its ending; the first part is cut where both together would be too long.
fn message(text: &str, end: &str) -> String {
    let room = MESSAGE_SENT_MAX - sent_bytes(end);
    let mut max = MESSAGE_MAX - end.len();
    let mut short = cut(text, max);
    while sent_bytes(&short) > room {
        // Each byte may be sent as three.
        max -= (sent_bytes(&short) - room).div_ceil(3);
        short = cut(text, max);
    }
    short + end
}

/// The size of a message when it is percent-encoded, as `grpc-message` is.
fn sent_bytes(text: &str) -> usize {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"#%<>`?{}".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { 1 } else { 3 }).sum()
}

pub(crate) fn status(rejection: &Rejection, during: During) -> Status {
    let Rendered { message, violations, left_out } = render(rejection);
    let advice = advice(rejection).word();
    let mut metadata = HashMap::from([("advice".to_owned(), advice.to_owned())]);
    if let Some(state) = rejection.state {
        metadata.insert("current_state".to_owned(), state_word(state).to_owned());
    }
    if left_out > 0 {
        metadata.insert("violations_omitted".to_owned(), left_out.to_string());
    }
    let word = rejection.reason.word();
    let mut details = ErrorDetails::with_error_info(word, ERROR_DOMAIN, metadata);
    if !violations.is_empty() {
        let violations = violations.into_iter();
        details.set_bad_request(
            violations.map(|one| FieldViolation::new(one.field, one.description)).collect::<Vec<_>>(),
        );
    }
    let wait = retry_after(rejection).map(|wait| wait.to_std().max(Duration::from_millis(1)));
    if wait.is_some() {
        details.set_retry_info(wait);
    }
    let mut status = Status::with_error_details(code(rejection, during), message, details);
    let trailers = status.metadata_mut();
    trailers.insert(REASON_TRAILER, MetadataValue::from_static(word));
    trailers.insert(ADVICE_TRAILER, MetadataValue::from_static(advice));
    if let Some(wait) = wait {
        // Rounded up: no client retries too early.
        let millis = u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
        trailers.insert(RETRY_AFTER_TRAILER, MetadataValue::from(millis));
    }
    if let Some(wait) = pushback(rejection) {
        trailers.insert(PUSHBACK_TRAILER, MetadataValue::from(wait));
    }
    status
}

fn code(rejection: &Rejection, during: During) -> Code {
    reasons::rule(rejection.reason).code(during)
}

/// The milliseconds after which a gRPC client repeats the call by itself; negative if it must not; `None` if
/// the caller decides.
fn pushback(rejection: &Rejection) -> Option<i64> {
    match reasons::rule(rejection.reason).pushback {
        Pushback::Stop => Some(-1),
        Pushback::Caller => None,
        Pushback::Wait => retry_after(rejection)
            .filter(|wait| *wait <= PUSHBACK_MAX)
            .map(|wait| wait.micros().max(0) / 1_000),
    }
}

fn state_word(state: State) -> &'static str {
    let word = words::state(state).as_str_name();
    word.strip_prefix("ENTRY_STATE_").unwrap_or(word)
}

/// The status of a refusal of any call but a claim.
#[allow(clippy::needless_pass_by_value, reason = "as `map_err` calls it")]
pub(crate) fn refused(rejection: Rejection) -> Status {
    status(&rejection, During::Other)
}

pub(crate) fn rejected(rejection: &Rejection, during: During) -> proto::Rejected {
    let Rendered { message, violations, .. } = render(rejection);
    let violations = violations.into_iter();
    proto::Rejected {
        reason: reasons::published(rejection.reason).into(),
        code: code(rejection, during).into(),
        message,
        field_violations: violations
            .map(|one| proto::FieldViolation { field: one.field, description: one.description })
            .collect(),
        retry_after: retry_after(rejection).map(words::duration),
        current_state: rejection.state.map_or(proto::EntryState::Unspecified, words::state).into(),
        advice: words::advice(advice(rejection)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size that a client counts for the header fields: HTTP/2 adds 32 bytes to each.
    fn sent(status: Status) -> usize {
        let response: http::Response<()> = status.into_http();
        let fields = response.headers().iter();
        fields.map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
    }

    #[test]
    fn trailers_of_every_refusal_fit() {
        for text in ["x", " ", "%", "é", "\u{10ffff}", "\u{7f}"] {
            for (length, count) in [(0, 0), (1, 1), (100, 3), (700, 7), (100_000, 2), (10, 5_000)] {
                let long = text.repeat(length);
                let one = Violation { field: long.clone(), description: long.clone() };
                let rejection = Rejection {
                    state: Some(State::FailedRetryable),
                    retry_after: Some(Span(i64::MAX)),
                    left_out: usize::MAX / 2,
                    ..Rejection::invalid(vec![one; count])
                };
                for rejection in [Rejection { message: text.repeat(5_000), ..rejection.clone() }, rejection] {
                    let sent = sent(status(&rejection, During::Other));
                    assert!(sent < 5 * 1_024, "{sent} bytes for {length} x {text:?}, {count} times");
                    let size = prost::Message::encoded_len(&rejected(&rejection, During::Other));
                    assert!(size <= 2_600, "{size} bytes of one item");
                }
            }
        }
    }

    #[test]
    #[rustfmt::skip]
    fn reason_advice_and_pushback_are_readable() {
        let with = |reason, wait| Rejection { retry_after: Some(wait), ..Rejection::new(reason, "") };
        for (rejection, word, advice, pushback, wait) in [
            (Rejection::new(Reason::OutcomeUnknown, ""), "OUTCOME_UNKNOWN", "RETRY_LATER", Some("50"), Some("50")),
            (Rejection::new(Reason::Overloaded, ""), "OVERLOADED", "RETRY_LATER", Some("250"), Some("250")),
            (Rejection::new(Reason::StoreUnavailable, ""), "STORE_UNAVAILABLE", "RETRY_LATER", Some("1000"), Some("1000")),
            (with(Reason::QuotaExceeded, Span::from_millis(999)), "QUOTA_EXCEEDED", "RETRY_LATER", Some("999"), Some("999")),
            (with(Reason::QuotaExceeded, Span::from_millis(1_001)), "QUOTA_EXCEEDED", "RETRY_LATER", None, Some("1001")),
            (with(Reason::QuotaExceeded, Span(1_001)), "QUOTA_EXCEEDED", "RETRY_LATER", Some("1"), Some("2")),
            (Rejection::new(Reason::ConsumerDisabled, ""), "CONSUMER_DISABLED", "RETRY_LATER", None, Some("30000")),
            (Rejection::new(Reason::DeadlineExceeded, ""), "DEADLINE_EXCEEDED", "RETRY_LATER", None, Some("50")),
            (Rejection::new(Reason::Cancelled, ""), "CANCELLED", "RETRY_LATER", None, Some("50")),
            (Rejection::in_state(Reason::ClaimClosed, State::Received, ""), "CLAIM_CLOSED", "RETRY_LATER", Some("-1"), None),
            (Rejection::in_state(Reason::LeaseLost, State::Completed, ""), "LEASE_LOST", "ACK", Some("-1"), None),
            (Rejection::invalid(vec![Violation { field: "key.id".into(), description: String::new() }]), "INVALID_FIELD", "DEAD_LETTER", Some("-1"), None),
        ] {
            let response: http::Response<()> = status(&rejection, During::Other).into_http();
            let trailer = |name| response.headers().get(name).map(|value| value.to_str().unwrap());
            assert_eq!(trailer(REASON_TRAILER), Some(word));
            assert_eq!(trailer(ADVICE_TRAILER), Some(advice), "{word}");
            assert_eq!(trailer(PUSHBACK_TRAILER), pushback, "{word}");
            assert_eq!(trailer(RETRY_AFTER_TRAILER), wait, "{word}");
        }
    }

    #[test]
    fn violations_beyond_the_bound_are_counted() {
        let one = |number| Violation { field: format!("field[{number}]"), description: "is wrong".into() };
        let few = render(&Rejection::invalid((0..20).map(one).collect()));
        assert_eq!((few.violations.len(), few.left_out), (20, 0));
        let many = render(&Rejection { left_out: 5, ..Rejection::invalid((0..100).map(one).collect()) });
        assert_eq!((many.violations.len(), many.left_out), (VIOLATIONS_MAX, 73));
        assert!(many.message.contains("field[0]: is wrong; "), "{}", many.message);
        assert!(many.message.ends_with("… [truncated]; 73 more faults are not listed"), "{}", many.message);
    }

    #[test]
    fn message_is_measured_percent_encoded() {
        for text in ["plain", "a b", "50% <of> \"it\" #1 `x`? {}", "größer…\u{0}\n"] {
            let status = Status::new(Code::Internal, text);
            let response: http::Response<()> = status.into_http();
            assert_eq!(response.headers()["grpc-message"].len(), sent_bytes(text), "{text:?}");
        }
    }
}
