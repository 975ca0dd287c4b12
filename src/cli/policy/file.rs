//! Policies in a YAML file. An error names the path of the field and the line.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use crate::cli::problem::Problem;
use crate::cli::text::clean;
use crate::policy_args::PolicyArgs;

/// The maximum size of a policy file.
const BYTES_MAX: u64 = 4 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    consumers: Option<BTreeMap<String, PolicyArgs>>,
}

/// The policies of a file, or of standard input as `-`, by consumer.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, PolicyArgs>, Problem> {
    let wrong = |error: String| Problem::usage(format!("{}: {error}", path.display()));
    let mut text = String::new();
    let mut input: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).map_err(|error| wrong(error.to_string()))?)
    };
    input.by_ref().take(BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(wrong(format!("is longer than {BYTES_MAX} bytes")));
    }
    parse(&text).map_err(wrong)
}

fn parse(text: &str) -> Result<BTreeMap<String, PolicyArgs>, String> {
    const NONE: &str = "names no consumer; for example `consumers: {payments: {lease: 2m}}`";
    let said = |line: &str| !line.trim().is_empty() && !line.starts_with(['#', '-']);
    if !text.lines().any(said) {
        return Err(NONE.to_owned());
    }
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
        // The position is reported already.
        let said = error.without_snippet().to_string();
        let said = said.lines().next().unwrap_or_default();
        let said = said.split_once(" at line ").map_or(said, |(said, _)| said);
        let example = example(&path).filter(|_| !said.contains("unknown field")).unwrap_or_default();
        clean(&format!("{line}{place}{said}{example}"))
    })?;
    let consumers = file.consumers.unwrap_or_default();
    if consumers.is_empty() {
        return Err(NONE.to_owned());
    }
    for (consumer, fields) in &consumers {
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
    Ok(consumers)
}

/// An example of how a field is written, by the last word of its path.
fn example(path: &str) -> Option<String> {
    let field = path.rsplit('.').next()?;
    let value = match field {
        "consumers" => "{payments: {lease: 2m}}",
        "backoff" => "{initial: 5s, max: 10m}",
        "max_attempts" | "claims_per_second" => "10",
        "multiplier" => "2.0",
        "jitter" => "0.2",
        "disabled" | "delete" => "true",
        "accepted_risk" => "\"why\"",
        "lease" | "max_lease" | "max_hold" | "reclaim_grace" | "initial" | "max" => "2m",
        "retention"
        | "failed_retention"
        | "abandoned_retention"
        | "result_retention"
        | "max_redelivery_window" => "7d",
        _ => return None,
    };
    Some(format!("; for example `{field}: {value}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto;

    #[test]
    fn policy_file_states_fields_by_consumer() {
        let text = "consumers:\n  payments:\n    lease: 2m\n    on_expiry: park_if_started\n    \
                    backoff: {initial: 5s, max: 10m}\n  old: {delete: true}\n";
        let policies = parse(text).unwrap();
        let paths = policies["payments"].paths();
        assert_eq!(paths, ["lease", "on_expiry", "backoff.initial", "backoff.max"]);
        assert!(policies["old"].delete);
    }

    /// The values that the server reports for a policy can be put into a file unchanged.
    #[test]
    fn policy_file_accepts_values_of_the_server() {
        let time = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
        let policy = proto::Policy {
            lease: time(90, 0),
            max_lease: time(1, 500_000_000),
            max_hold: time(86_400, 0),
            reclaim_grace: time(0, 0),
            on_expiry: proto::OnExpiry::ParkIfStarted.into(),
            max_attempts: Some(0),
            backoff: Some(proto::BackoffPolicy {
                initial: time(0, 250_000),
                multiplier: Some(1.5),
                max: time(7_200, 0),
                jitter: Some(0.0),
            }),
            retention: time(604_800, 0),
            failed_retention: time(604_801, 0),
            abandoned_retention: time(60, 0),
            result_retention: time(0, 0),
            max_redelivery_window: time(1_209_600, 0),
            accepted_risk: "a newsletter: it's \"fine\" # for us".into(),
            fingerprint: proto::FingerprintMode::Require.into(),
            disabled: Some(true),
            claims_per_second: Some(50),
            occurred_at: proto::OccurredAtMode::Require.into(),
            replay: proto::ReplayMode::Rebuild.into(),
            result_bytes_max: Some(1_024),
            inbox: Some(true),
            message_retention: time(3_600, 0),
            backlog_max_age: time(86_400, 0),
        };
        let mut text = "consumers:\n  c:\n".to_owned();
        for (path, value) in proto::policy_fields(&policy) {
            assert!(!value.is_empty(), "{path} is set");
            let value = if path == "accepted_risk" { format!("{value:?}") } else { value };
            let line = match path.strip_prefix("backoff.") {
                None => format!("    {path}: {value}\n"),
                Some("initial") => format!("    backoff:\n      initial: {value}\n"),
                Some(part) => format!("      {part}: {value}\n"),
            };
            text.push_str(&line);
        }
        let read = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read["c"].message(), policy, "{text}");
    }

    #[test]
    fn policy_file_errors_have_path_and_line() {
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
            ("", &["names no consumer", "for example"]),
            ("# nothing\n---\n", &["names no consumer"]),
            ("consumers:\n", &["names no consumer"]),
            ("consumers: {}\n", &["names no consumer"]),
            ("consumers:\n  pay:\n    max_attempts: many\n", &["for example `max_attempts: 10`"]),
            ("consumers:\n  pay:\n    backoff: 5s\n", &["for example `backoff: {initial: 5s"]),
        ] {
            let error = parse(text).unwrap_err();
            for word in says {
                assert!(error.contains(word), "{text:?} must say {word:?}: {error}");
            }
        }
    }

    #[test]
    fn policy_file_is_bounded() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let policy = "consumers: {c: {lease: 1m}}\n";
        for (bytes, says) in [(BYTES_MAX, None), (BYTES_MAX + 1, Some(": is longer than 4194304 bytes"))] {
            let comment = "#".repeat(usize::try_from(bytes).unwrap() - policy.len());
            std::fs::write(file.path(), format!("{policy}{comment}")).unwrap();
            match (read(file.path()), says) {
                (Ok(policies), None) => assert!(policies.contains_key("c")),
                (Err(problem), Some(says)) => assert!(problem.text.ends_with(says), "{problem:?}"),
                (read, _) => panic!("{bytes}: {:?}", read.map(|policies| policies.len())),
            }
        }
    }
}
