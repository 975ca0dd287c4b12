//! Messages as canonical proto3 JSON, by their descriptors.

use std::borrow::Cow;
use std::fmt::Write as _;

use prost::Message;
use prost_reflect::DynamicMessage;

use super::problem::Problem;
use super::text::hidden;
use crate::proto::pool;

/// A message of our package, by its name there.
pub(super) fn value<M: Message>(name: &str, message: &M) -> Result<serde_json::Value, Problem> {
    let made = || {
        let pool = pool()?;
        let full = format!("idempotency.ledger.v1.{name}");
        let descriptor = pool.get_message_by_name(&full).ok_or_else(|| format!("{full} is not known"))?;
        let bytes = message.encode_to_vec();
        let dynamic = DynamicMessage::decode(descriptor, &bytes[..]).map_err(|error| error.to_string())?;
        serde_json::to_value(dynamic).map_err(|error| error.to_string())
    };
    made().map_err(|error: String| Problem::failed(format!("the answer cannot be written as JSON: {error}")))
}

/// The message as JSON text in one line.
pub(super) fn text<M: Message>(name: &str, message: &M) -> Result<String, Problem> {
    value(name, message).map(|value| value.to_string())
}

/// The message as JSON text in one line, with a mark if it is the answer to a dry run.
pub(super) fn marked<M: Message>(name: &str, message: &M, dry_run: bool) -> Result<String, Problem> {
    let mut value = value(name, message)?;
    if let (true, Some(object)) = (dry_run, value.as_object_mut()) {
        object.insert("dryRun".to_owned(), true.into());
    }
    Ok(value.to_string())
}

/// The same JSON with an escape for each invisible character of its texts, and for each that affects a
/// terminal. JSON itself escapes only those below U+0020. Such a character occurs only within a text, where
/// its escape means the same.
pub(super) fn harmless(json: &str) -> Cow<'_, str> {
    let hides = |one: char| hidden(one) && one > '\u{1f}';
    if !json.contains(hides) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for one in json.chars() {
        if hides(one) {
            for unit in one.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _written = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(one);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_equivalently() {
        for (text, written) in [
            ("b\u{e4}nk \u{1f4b0}", "\"b\u{e4}nk \u{1f4b0}\""),
            ("a\u{9b}2J\u{7f}", "\"a\\u009b2J\\u007f\""),
            ("\u{202e}a\u{2066}\u{200b}", "\"\\u202ea\\u2066\\u200b\""),
            ("a\n\u{1b}", "\"a\\n\\u001b\""),
            ("a\u{e0041}", "\"a\\udb40\\udc41\""),
        ] {
            let json = serde_json::Value::from(text).to_string();
            assert_eq!(harmless(&json), written, "{text:?}");
            let read: serde_json::Value = serde_json::from_str(&harmless(&json)).unwrap();
            assert_eq!(read, text, "{text:?}");
        }
    }
    use crate::proto::{Entry, EntryKey, EntryState};

    #[test]
    fn message_becomes_canonical_json() {
        let entry = Entry {
            key: Some(EntryKey {
                consumer: "c".into(),
                source: "s".into(),
                id: "i".into(),
                ..EntryKey::default()
            }),
            state: EntryState::Parked.into(),
            version: 1 << 53,
            created_at: Some(prost_types::Timestamp { seconds: 1_780_000_000, nanos: 0 }),
            fingerprint: vec![1, 2].into(),
            ..Entry::default()
        };
        let expected = serde_json::json!({
            "key": { "consumer": "c", "source": "s", "id": "i" },
            "state": "ENTRY_STATE_PARKED",
            "version": "9007199254740992",
            "createdAt": "2026-05-28T20:26:40Z",
            "fingerprint": "AQI=",
        });
        assert_eq!(value("Entry", &entry).unwrap(), expected);
    }
}
