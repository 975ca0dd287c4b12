//! One row of a file: its fields, and the entry that they make.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use prost_types::Timestamp;
use serde::Deserialize;

use crate::cli::text::clean;
use crate::rpc::proto::{EntryKey, ImportedEntry};

/// The columns of a CSV file, and the fields of a JSON object.
pub(super) const COLUMNS: [&str; 7] =
    ["consumer", "source", "id", "completed_at", "result", "result_base64", "fingerprint_hex"];

/// What rows are that do not say it.
#[derive(Clone, Debug, Default)]
pub(super) struct Defaults {
    pub(super) consumer: String,
    pub(super) source: String,
}

/// An instant as files have it.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Instant {
    Number(i64),
    Text(String),
}

/// A row as it was read; an empty field is one that is not there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Row {
    consumer: Option<String>,
    source: Option<String>,
    id: Option<String>,
    completed_at: Option<Instant>,
    result: Option<String>,
    result_base64: Option<String>,
    fingerprint_hex: Option<String>,
}

impl Row {
    /// A field of a CSV file, by its column.
    pub(super) fn set(&mut self, column: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        let value = Some(value.to_owned());
        match column {
            "consumer" => self.consumer = value,
            "source" => self.source = value,
            "id" => self.id = value,
            "completed_at" => self.completed_at = value.map(Instant::Text),
            "result" => self.result = value,
            "result_base64" => self.result_base64 = value,
            "fingerprint_hex" => self.fingerprint_hex = value,
            _ => {}
        }
    }

    /// The entry that it makes.
    pub(super) fn entry(self, defaults: &Defaults) -> Result<ImportedEntry, String> {
        let or = |given: Option<String>, default: &str, name: &str| match given {
            Some(given) if !given.is_empty() => Ok(given),
            Some(_) | None if !default.is_empty() => Ok(default.to_owned()),
            Some(_) | None => Err(format!("{name}: is missing")),
        };
        let result = match (self.result, self.result_base64) {
            (Some(_), Some(_)) => {
                return Err("result and result_base64: only one of them can be the result".to_owned());
            }
            (Some(text), None) => text.into_bytes(),
            (None, Some(text)) => {
                BASE64_STANDARD.decode(text.trim()).map_err(|error| format!("result_base64: {error}"))?
            }
            (None, None) => Vec::new(),
        };
        let fingerprint = self.fingerprint_hex.unwrap_or_default();
        let fingerprint =
            hex::decode(fingerprint.trim()).map_err(|error| format!("fingerprint_hex: {error}"))?;
        let consumer = or(self.consumer, &defaults.consumer, "consumer");
        let source = or(self.source, &defaults.source, "source");
        Ok(ImportedEntry {
            key: Some(EntryKey { consumer: consumer?, source: source?, id: or(self.id, "", "id")? }),
            completed_at: self.completed_at.as_ref().map(instant).transpose()?.flatten(),
            result: result.into(),
            fingerprint: fingerprint.into(),
        })
    }
}

/// From here on a number counts milliseconds: as seconds it would lie in the year 5138.
const MILLIS_FROM: i64 = 100_000_000_000;

fn instant(value: &Instant) -> Result<Option<Timestamp>, String> {
    let text = match value {
        Instant::Number(number) => return Ok(Some(unix(*number))),
        Instant::Text(text) => text.trim(),
    };
    if text.is_empty() {
        return Ok(None);
    }
    if let Ok(number) = text.parse() {
        return Ok(Some(unix(number)));
    }
    let wrong = || {
        let text = clean(text);
        format!("completed_at: {text:?} is neither an RFC 3339 time like 2026-03-01T12:00:00Z nor Unix time")
    };
    // What is accepted beyond RFC 3339 would be guessing, such as a date without a zone.
    let zoned = text.ends_with(['Z', 'z'])
        || text.get(text.len().saturating_sub(6)..).is_some_and(|zone| zone.starts_with(['+', '-']));
    if !zoned || !text.contains([':']) {
        return Err(wrong());
    }
    text.parse().map(Some).map_err(|_| wrong())
}

fn unix(number: i64) -> Timestamp {
    if number.abs() < MILLIS_FROM {
        return Timestamp { seconds: number, nanos: 0 };
    }
    let nanos = i32::try_from(number.rem_euclid(1_000)).unwrap_or(0) * 1_000_000;
    Timestamp { seconds: number.div_euclid(1_000), nanos }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Result<String, String> {
        instant(&Instant::Text(text.into())).map(|at| at.map_or_else(String::new, |at| at.to_string()))
    }

    #[test]
    fn instants_are_rfc_3339_or_unix_time() {
        for text in [
            "2026-05-28T20:26:40Z",
            "2026-05-28T22:26:40+02:00",
            "1780000000",
            "1780000000000",
            " 1780000000 ",
        ] {
            assert_eq!(at(text).unwrap(), "2026-05-28T20:26:40Z", "{text}");
        }
        assert_eq!(at("1780000000123").unwrap(), "2026-05-28T20:26:40.123Z");
        for text in ["yesterday", "2026-05-28", "2026-05-28T20:26:40", "2026-13-28T20:26:40Z"] {
            assert!(at(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_row_says_which_field_is_wrong() {
        let defaults = Defaults { consumer: "c".into(), source: String::new() };
        let row = |text: &str| serde_json::from_str::<Row>(text).unwrap().entry(&defaults);
        let entry = row(r#"{"source": "s", "id": "1", "result_base64": "aGk=", "fingerprint_hex": "0aff"}"#);
        let entry = entry.unwrap();
        let expected = EntryKey { consumer: "c".into(), source: "s".into(), id: "1".into() };
        assert_eq!(entry.key, Some(expected));
        assert_eq!((&entry.result[..], &entry.fingerprint[..]), (&b"hi"[..], &[0x0a, 0xff][..]));
        for (text, says) in [
            (r#"{"id": "1"}"#, "source: is missing"),
            (r#"{"source": "s"}"#, "id: is missing"),
            (r#"{"source": "s", "id": "1", "result_base64": "!"}"#, "result_base64"),
            (r#"{"source": "s", "id": "1", "fingerprint_hex": "0"}"#, "fingerprint_hex"),
            (r#"{"source": "s", "id": "1", "result": "a", "result_base64": "YQ=="}"#, "only one"),
            (r#"{"source": "s", "id": "1", "completed_at": "soon"}"#, "completed_at"),
        ] {
            let error = row(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
