//! One row of a file: its fields, and the entry that they make.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use prost_types::Timestamp;
use serde::Deserialize;

use crate::cli::text::clean;
use crate::proto::{EntryKey, ImportedEntry};

/// The columns of a CSV file, and the fields of a JSON object.
pub(super) const COLUMNS: [&str; 7] =
    ["consumer", "source", "id", "completed_at", "result", "result_base64", "fingerprint_hex"];

/// The values of rows that omit them.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Defaults {
    pub(in crate::cli) consumer: String,
    pub(in crate::cli) source: String,
}

/// An instant as files write it.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Instant {
    Number(i64),
    Text(String),
}

/// A row as it was read; an empty field counts as absent.
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

    /// The entry of the row.
    pub(super) fn entry(self, defaults: &Defaults) -> Result<ImportedEntry, String> {
        let or = |given: Option<String>, default: &str, name: &str| match given {
            Some(given) if given.contains(['\n', '\r']) => {
                Err(format!("{name}: has a line break in it; is a quotation mark missing?"))
            }
            Some(given) if given.chars().any(char::is_control) => {
                Err(format!("{name}: has a control character in it"))
            }
            Some(given) if !given.is_empty() => Ok(given),
            Some(_) | None if !default.is_empty() => Ok(default.to_owned()),
            Some(_) | None => Err(format!("{name}: is missing")),
        };
        let given = |text: &String| !text.is_empty();
        let result = match (self.result.filter(given), self.result_base64.filter(given)) {
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
            key: Some(EntryKey {
                consumer: consumer?,
                source: source?,
                id: or(self.id, "", "id")?,
                ..EntryKey::default()
            }),
            completed_at: self.completed_at.as_ref().map(instant).transpose()?.flatten(),
            result: result.into(),
            fingerprint: fingerprint.into(),
        })
    }
}

/// From this value on a number counts milliseconds: as seconds it would be in the year 5138.
const MILLIS_FROM: i64 = 100_000_000_000;

fn instant(value: &Instant) -> Result<Option<Timestamp>, String> {
    let text = match value {
        Instant::Number(number) => return unix(*number).map(Some),
        Instant::Text(text) => text.trim(),
    };
    if text.is_empty() {
        return Ok(None);
    }
    if let Ok(number) = text.parse() {
        return unix(number).map(Some);
    }
    let wrong = || {
        let text = clean(text);
        format!("completed_at: {text:?} is neither an RFC 3339 time like 2026-03-01T12:00:00Z nor Unix time")
    };
    // Text beyond RFC 3339, such as a date without a zone, could only be guessed.
    let zoned = text.ends_with(['Z', 'z'])
        || text.get(text.len().saturating_sub(6)..).is_some_and(|zone| zone.starts_with(['+', '-']));
    if !zoned || !text.contains([':']) {
        return Err(wrong());
    }
    text.parse().map(Some).map_err(|_| wrong())
}

/// The years of valid numbers: from 2000 up to, but without, 2100.
const YEARS: std::ops::Range<i64> = 946_684_800..4_102_444_800;

fn unix(number: i64) -> Result<Timestamp, String> {
    let millis = number.checked_abs().is_none_or(|number| number >= MILLIS_FROM);
    let seconds = if millis { number.div_euclid(1_000) } else { number };
    if !YEARS.contains(&seconds) {
        return Err(format!("completed_at: {number} {}", implausible(number)));
    }
    let nanos = if millis { i32::try_from(number.rem_euclid(1_000)).unwrap_or(0) * 1_000_000 } else { 0 };
    Ok(Timestamp { seconds, nanos })
}

/// A guess at what a number outside these years was meant to be.
fn implausible(number: i64) -> String {
    let likely = match number {
        // A date without its hyphens.
        19_000_101..=21_991_231 => "is it a date? Write 2026-03-01T12:00:00Z",
        _ if YEARS.contains(&number.div_euclid(1_000_000)) => "is it in microseconds?",
        _ if YEARS.contains(&number.div_euclid(1_000_000_000)) => "is it in nanoseconds?",
        20_000_101_000_000..=20_991_231_235_959 => "is it a date and time? Write 2026-03-01T12:00:00Z",
        _ => "is it Unix time?",
    };
    format!("is neither in seconds nor in milliseconds an instant from 2000 to 2099; {likely}")
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
        assert_eq!(at("  ").unwrap(), "", "a blank one is absent");
        assert_eq!(at("1780000000123").unwrap(), "2026-05-28T20:26:40.123Z");
        for text in ["yesterday", "2026-05-28", "2026-05-28T20:26:40", "2026-13-28T20:26:40Z"] {
            assert!(at(text).is_err(), "{text}");
        }
    }

    #[test]
    fn implausible_instant_is_refused() {
        for (number, says) in [
            ("20261120", "is it a date?"),
            ("1780000000000000", "microseconds"),
            ("1780000000000000000", "nanoseconds"),
            ("20261120101500", "a date and time"),
            ("0", "is it Unix time?"),
            ("-9223372036854775808", "is it Unix time?"),
        ] {
            let error = at(number).unwrap_err();
            assert!(
                error.starts_with(&format!("completed_at: {number} ")) && error.contains(says),
                "{error}"
            );
        }
        assert_eq!(at("946684800").unwrap(), "2000-01-01T00:00:00Z");
    }

    #[test]
    fn row_error_names_the_field() {
        let defaults = Defaults { consumer: "c".into(), source: String::new() };
        let row = |text: &str| serde_json::from_str::<Row>(text).unwrap().entry(&defaults);
        let entry = row(r#"{"source": "s", "id": "1", "result_base64": "aGk=", "fingerprint_hex": "0aff"}"#);
        let entry = entry.unwrap();
        let expected =
            EntryKey { consumer: "c".into(), source: "s".into(), id: "1".into(), ..EntryKey::default() };
        assert_eq!(entry.key, Some(expected));
        assert_eq!((&entry.result[..], &entry.fingerprint[..]), (&b"hi"[..], &[0x0a, 0xff][..]));
        for (text, result) in [
            (r#"{"source": "s", "id": "1", "result": "a", "result_base64": ""}"#, "a"),
            (r#"{"source": "s", "id": "1", "result": "", "result_base64": "aGk="}"#, "hi"),
            (r#"{"source": "s", "id": "1", "result": "", "result_base64": ""}"#, ""),
        ] {
            assert_eq!(row(text).unwrap().result, result, "{text}");
        }
        for (text, says) in [
            (r#"{"id": "1"}"#, "source: is missing"),
            (r#"{"source": "s"}"#, "id: is missing"),
            (r#"{"source": "a\nb", "id": "1"}"#, "source: has a line break"),
            (r#"{"source": "s", "id": "a\u0007"}"#, "id: has a control character"),
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
