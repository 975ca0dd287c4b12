//! Policies in a YAML file. What is wrong is told with the path of the field and the line.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::fields::Fields;
use crate::cli::problem::Problem;
use crate::cli::text::clean;

/// No file of policies is longer.
const BYTES_MAX: u64 = 4 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    consumers: BTreeMap<String, Fields>,
}

/// The policies of a file by their consumers.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Fields>, Problem> {
    let wrong = |error: String| Problem::usage(format!("{}: {error}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if size > BYTES_MAX {
        return Err(wrong(format!("has {size} bytes, must be at most {BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    parse(&text).map_err(wrong)
}

fn parse(text: &str) -> Result<BTreeMap<String, Fields>, String> {
    let mut path = String::new();
    let parsed = serde_saphyr::with_deserializer_from_str(text, |yaml| {
        serde_path_to_error::deserialize::<_, File>(yaml).map_err(|error| {
            path = error.path().to_string();
            error.into_inner()
        })
    });
    let file = parsed.map_err(|error| {
        let line = error.location().map_or_else(String::new, |at| format!("line {}: ", at.line()));
        let place = if path == "." || path.is_empty() { String::new() } else { format!("{path}: ") };
        // The position is told already.
        let said = error.without_snippet().to_string();
        let said = said.lines().next().unwrap_or_default();
        let said = said.split_once(" at line ").map_or(said, |(said, _)| said);
        clean(&format!("{line}{place}{said}"))
    })?;
    for (consumer, fields) in &file.consumers {
        match (fields.delete, fields.paths().is_empty()) {
            (true, false) => {
                return Err(format!("consumers.{}: `delete` and fields exclude each other", clean(consumer)));
            }
            (false, true) => {
                return Err(format!("consumers.{}: states no field, nor `delete: true`", clean(consumer)));
            }
            (true, true) | (false, false) => {}
        }
    }
    Ok(file.consumers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_states_fields_by_consumer() {
        let text = "consumers:\n  payments:\n    lease: 2m\n    on_expiry: PARK_IF_STARTED\n    \
                    backoff: {initial: 5s, max: 10m}\n  old: {delete: true}\n";
        let policies = parse(text).unwrap();
        let paths = policies["payments"].paths();
        assert_eq!(paths, ["lease", "on_expiry", "backoff.initial", "backoff.max"]);
        assert!(policies["old"].delete);
    }

    #[test]
    fn what_is_wrong_is_told_with_path_and_line() {
        for (text, says) in [
            ("consumers:\n  pay:\n    leese: 2m\n", &["line 3", "consumers.pay.leese", "unknown field"][..]),
            ("consumers:\n  pay:\n    lease: soon\n", &["line 3", "consumers.pay.lease", "soon", "30s"]),
            ("consumers:\n  pay:\n    backoff:\n      most: 1s\n", &["line 4", "consumers.pay.backoff.most"]),
            ("consumers:\n  pay:\n    on_expiry: EXPLODE\n", &["line 3", "EXPLODE", "PARK_IF_STARTED"]),
            ("consumers:\n  pay:\n    max_attempts: many\n", &["line 3", "consumers.pay.max_attempts"]),
            ("consumer: {}\n", &["line 1", "consumer"]),
            ("consumers:\n  pay: {lease: 1s}\n  pay: {lease: 2s}\n", &["line 3", "pay"]),
            ("consumers:\n  pay: {}\n", &["consumers.pay", "states no field"]),
            ("consumers:\n  pay: {delete: true, lease: 1s}\n", &["consumers.pay", "exclude"]),
            ("consumers: [\n", &["line"]),
            ("", &[]),
        ] {
            let error = parse(text).unwrap_err();
            for word in says {
                assert!(error.contains(word), "{text:?} must say {word:?}: {error}");
            }
        }
    }
}
