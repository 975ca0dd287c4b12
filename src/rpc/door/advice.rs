//! The advice of an answer as plain headers: verdicts have the status 200, and a script with `curl -f` alone
//! must not take `in_progress` for permission to process.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue};
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, ReflectMessage as _, Value};

const ADVICE: &str = "idempotency-ledger-advice";
const RETRY_AFTER_MS: &str = "idempotency-ledger-retry-after-ms";
/// The enum of advices, and the prefix of its values.
const ADVICE_ENUM: &str = "idempotency.ledger.v1.Advice";
const ADVICE_PREFIX: &str = "ADVICE_";

/// The advice and the wait of an answer.
#[derive(Debug, Default)]
pub(super) struct Advised {
    advice: Option<HeaderValue>,
    retry_after: Option<Duration>,
}

/// Whether messages of this type have an advice.
pub(super) fn may_be_in(message: &MessageDescriptor) -> bool {
    let field = message.get_field_by_name("advice").map(|field| field.kind());
    matches!(field, Some(Kind::Enum(kind)) if kind.full_name() == ADVICE_ENUM)
}

impl Advised {
    /// From the message's own `advice` and `retry_after`.
    pub(super) fn by(message: &DynamicMessage) -> Advised {
        let advice =
            message.get_field_by_name("advice").and_then(|value| word(message, value.as_enum_number()?));
        let after = message.get_field_by_name("retry_after");
        let after = after.filter(|_| message.has_field_by_name("retry_after"));
        Advised { advice, retry_after: after.and_then(|value| duration(&value)) }
    }

    /// How long to wait before the same call is repeated; the advice of a refusal is among its headers
    /// already.
    pub(super) fn wait(retry_after: Option<Duration>) -> Advised {
        Advised { advice: None, retry_after }
    }

    pub(super) fn insert(self, headers: &mut HeaderMap) {
        if let Some(advice) = self.advice {
            headers.insert(ADVICE, advice);
        }
        if let Some(wait) = self.retry_after {
            // Rounded up: a client that retries too early only has to wait again.
            let millis = wait.as_nanos().div_ceil(1_000_000);
            let millis = u64::try_from(millis).unwrap_or(u64::MAX);
            headers.insert(RETRY_AFTER_MS, HeaderValue::from(millis));
            headers.insert(RETRY_AFTER, HeaderValue::from(millis.div_ceil(1_000)));
        }
    }
}

fn word(message: &DynamicMessage, number: i32) -> Option<HeaderValue> {
    let descriptor = message.descriptor();
    let Kind::Enum(kind) = descriptor.get_field_by_name("advice")?.kind() else { return None };
    let value = kind.get_value(number).filter(|_| number != 0)?;
    HeaderValue::from_str(value.name().strip_prefix(ADVICE_PREFIX).unwrap_or(value.name())).ok()
}

fn duration(value: &Value) -> Option<Duration> {
    let message = value.as_message()?;
    let seconds = message.get_field_by_name("seconds")?.as_i64()?;
    let nanos = message.get_field_by_name("nanos")?.as_i32()?;
    Some(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_rounded_up() {
        for (wait, millis, seconds) in [
            (Duration::ZERO, "0", "0"),
            (Duration::from_micros(1), "1", "1"),
            (Duration::from_secs(1), "1000", "1"),
            (Duration::from_micros(1_000_001), "1001", "2"),
            (Duration::from_secs(30), "30000", "30"),
        ] {
            let mut headers = HeaderMap::new();
            Advised::wait(Some(wait)).insert(&mut headers);
            assert_eq!(
                (&headers[RETRY_AFTER_MS], &headers[RETRY_AFTER]),
                (&millis.parse().unwrap(), &seconds.parse().unwrap()),
                "{wait:?}"
            );
        }
        let mut headers = HeaderMap::new();
        Advised::default().insert(&mut headers);
        assert!(headers.is_empty());
    }
}
