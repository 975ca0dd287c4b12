//! Messages as canonical proto3 JSON, strictly: an unknown field name is refused. Otherwise a mistyped
//! `replayRun` would change the live key.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;
use prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::domain::{Reason, Rejection, Violation};

/// More values than any message has: the largest batch has 1,000 items of some fifteen values. Without this
/// bound a request of 3.5 MiB could become some hundred MiB of messages before its items are counted.
const VALUES_MAX: usize = 32_768;

/// Encodes JSON as the protobuf of this message.
///
/// # Errors
/// `INVALID_FIELD`, whose description has the path of the object at fault; `TOO_MANY_ITEMS`.
pub(super) fn read(json: &[u8], message: &MessageDescriptor) -> Result<Bytes, Rejection> {
    looked_at(json)?;
    let mut track = serde_path_to_error::Track::new();
    let mut reader = serde_json::Deserializer::from_slice(json);
    let tracked = serde_path_to_error::Deserializer::new(&mut reader, &mut track);
    let read = DynamicMessage::deserialize(message.clone(), tracked);
    let read = read.map_err(|error| invalid(&track.path().to_string(), &error))?;
    Ok(read.encode_to_vec().into())
}

/// Encodes a protobuf message as JSON.
///
/// # Errors
/// The bytes are not such a message.
pub(super) fn write(message: &DynamicMessage) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(message)
}

/// Checks the whole text in one pass, without keeping any of it.
fn looked_at(json: &[u8]) -> Result<(), Rejection> {
    let mut track = serde_path_to_error::Track::new();
    let mut reader = serde_json::Deserializer::from_slice(json);
    let mut look = Look { values: 0 };
    let tracked = serde_path_to_error::Deserializer::new(&mut reader, &mut track);
    let seen = look.deserialize(tracked);
    if look.values > VALUES_MAX {
        return Err(Rejection::new(
            Reason::TooManyItems,
            format!(
                "the message has more than {VALUES_MAX} values; nothing was changed: send fewer in one call"
            ),
        ));
    }
    seen.map_err(|error| invalid(&track.path().to_string(), &error))?;
    reader.end().map_err(|error| invalid("", &error))
}

/// `INVALID_FIELD` for the whole request. JSON that is not a message is the fault of a program, not of one
/// message: under the path of a key the advice could be to give the message up.
fn invalid(path: &str, error: &serde_json::Error) -> Rejection {
    let text = error.to_string();
    let place = if path.is_empty() || path == "." || path.starts_with('?') {
        String::new()
    } else {
        format!("{path}: ")
    };
    let description =
        format!("is not the message's JSON: {place}{}; nothing was changed", without_values(&text));
    Rejection::invalid(vec![Violation { field: "request".to_owned(), description }])
}

/// The parser quotes the unexpected texts; only the names of unknown fields are kept.
fn without_values(text: &str) -> Cow<'_, str> {
    for (begins, instead) in [
        ("invalid type: string", "a text stands where something else must"),
        ("invalid value: string", "the text is not a value of the field"),
        ("unrecognized enum value", "the text is not a value of the enum"),
        ("invalid base64", "the text is not base64"),
    ] {
        if let Some(place) = text.starts_with(begins).then(|| text.rfind(" at line ")) {
            return Cow::Owned(format!("{instead}{}", place.map_or("", |place| &text[place..])));
        }
    }
    Cow::Borrowed(text)
}

/// Counts values, and refuses a name that an object has twice: two readers may each take another one.
struct Look {
    values: usize,
}

impl Look {
    fn count<E: Error>(&mut self) -> Result<(), E> {
        self.values += 1;
        if self.values > VALUES_MAX { Err(E::custom("too many values")) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for &mut Look {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Look {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(&mut *self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = fields.next_key::<Cow<'_, str>>()? {
            // A field has two names: `replayRun` and `replay_run`.
            if !names.insert(name.replace('_', "").to_ascii_lowercase()) {
                return Err(A::Error::custom(format!("the field `{name}` stands there twice")));
            }
            fields.next_value_seed(&mut *self)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{BackoffPolicy, ClaimRequest, EntryKey, Policy, SetPolicyRequest, pool};

    fn message(name: &str) -> MessageDescriptor {
        let name = format!("idempotency.ledger.v1.{name}");
        pool().expect("the pool").get_message_by_name(&name).expect("a message")
    }

    fn claim() -> MessageDescriptor {
        message("ClaimRequest")
    }

    #[test]
    fn json_becomes_the_same_message() {
        let bytes = read(br#"{"key":{"consumer":"c","source":"s","id":"i","replay_run":"r"}}"#, &claim());
        let key =
            EntryKey { consumer: "c".into(), source: "s".into(), id: "i".into(), replay_run: "r".into() };
        let expected = ClaimRequest { key: Some(key), ..ClaimRequest::default() };
        assert_eq!(bytes.expect("JSON"), expected.encode_to_vec());
    }

    #[test]
    fn json_of_each_kind_of_value_is_read() {
        let json = br#"{"expectedVersion":-7,"validateOnly":true,"reason":null,
            "policy":{"maxAttempts":3,"backoff":{"multiplier":1.5},"lease":"90s","replay":null}}"#;
        let policy = Policy {
            max_attempts: Some(3),
            backoff: Some(BackoffPolicy { multiplier: Some(1.5), ..BackoffPolicy::default() }),
            lease: Some(prost_types::Duration { seconds: 90, nanos: 0 }),
            ..Policy::default()
        };
        let expected = SetPolicyRequest {
            expected_version: -7,
            validate_only: true,
            policy: Some(policy),
            ..SetPolicyRequest::default()
        };
        let bytes = read(json, &message("SetPolicyRequest")).expect("JSON");
        assert_eq!(SetPolicyRequest::decode(bytes).expect("the message"), expected);
    }

    #[test]
    fn json_that_is_not_the_message_is_refused_with_its_field() {
        for (json, says) in [
            (r#"{"key":{"replyRun":"r"}}"#, "key: unrecognized field name 'replyRun'"),
            (r#"{"nothing":1}"#, "JSON: unrecognized field name 'nothing'"),
            (r#"{"key":{"id":"a","id":"b"}}"#, "key: the field `id` stands there twice"),
            (r#"{"key":{"replayRun":"a","replay_run":"b"}}"#, "key: the field `replay_run` stands there"),
            (r#"{"key":"secret"}"#, "key: a text stands where"),
            (r#"{"fingerprint":"secret!"}"#, "fingerprint: the text is not base64"),
            (r#"{"key":{"id":7}}"#, "key.id: invalid type: integer"),
            (r#"{"key":{}"#, "EOF"),
            (r"{} {}", "trailing characters"),
            ("[]", "invalid type: sequence"),
            ("", "EOF"),
        ] {
            let refused = read(json.as_bytes(), &claim()).expect_err(json);
            assert_eq!(refused.reason, Reason::InvalidField, "{json}");
            let Violation { field, description } = &refused.violations[0];
            assert_eq!(field, "request", "{json}: no key is at fault");
            assert!(description.contains(says) && !description.contains("secret"), "{json}: {description}");
        }
    }

    #[test]
    fn values_are_counted_before_messages_are_made() {
        let batch = message("BatchClaimRequest");
        let of = |items: usize| format!(r#"{{"requests":[{}]}}"#, vec!["{}"; items].join(","));
        assert!(read(of(VALUES_MAX - 2).as_bytes(), &batch).is_ok());
        let refused = read(of(VALUES_MAX - 1).as_bytes(), &batch).map_err(|refused| refused.reason);
        assert_eq!(refused, Err(Reason::TooManyItems));
    }
}
