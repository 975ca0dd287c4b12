//! The stored form of a policy, and which servers can read it.
//!
//! The form is JSON, with spans in microseconds. A field at its default is not written, so that a server
//! which does not know the field yet can read every policy that does not use it. A server refuses to read a
//! policy with a field or word that it does not know: a rule that it ignored could be the one that stops
//! grants.
//!
//! A field of [`Policy`] that is added from now on needs one line in [`LATER`] and nothing else: a change
//! that uses it is then refused while a server that cannot read it is live. A field of the backoff is a part
//! of `backoff`, which is written whole or not at all: leave it out of the JSON where it is at its default
//! (`skip_serializing_if`), and name it here as `backoff`.

use serde_json::{Map, Value};

use super::policy::Policy;

/// The format of the first stored policies.
const FIRST: i32 = 1;

/// The fields, or single words of a field, that were added after the first format, and the format that each
/// needs.
const LATER: &[Later] = &[
    ("occurred_at", None, 2),
    ("replay", None, 3),
    ("result_bytes_max", None, 5),
    ("inbox", None, 6),
    ("message_retention", None, 6),
    ("backlog_max_age", None, 6),
];

/// A field, the word that is new in it (`None` if the field itself is new), and the format that it needs.
type Later = (&'static str, Option<&'static str>, i32);

/// The newest format of stored policies that this binary reads and writes.
pub const POLICY_FORMAT: i32 = newest(LATER);

/// A policy as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPolicy {
    /// The JSON.
    pub json: String,
    /// The format that a server must read to understand it.
    pub format: i32,
}

impl Policy {
    /// The policy in its stored form.
    ///
    /// # Errors
    /// A value that JSON cannot represent.
    pub fn to_stored(&self) -> Result<StoredPolicy, serde_json::Error> {
        let usual = fields(&Policy::default())?;
        let mut own = fields(self)?;
        own.retain(|name, value| usual.get(name) != Some(value));
        Ok(StoredPolicy { format: needed(&own, LATER), json: serde_json::to_string(&own)? })
    }

    /// Reads a stored policy, completely or not at all.
    ///
    /// # Errors
    /// The field or the word that this binary does not know.
    pub fn from_stored(json: &str) -> Result<Policy, serde_json::Error> {
        serde_json::from_str(json)
    }
}

fn fields(policy: &Policy) -> Result<Map<String, Value>, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(policy)?)
}

const fn newest(later: &[Later]) -> i32 {
    let (mut newest, mut at) = (FIRST, 0);
    while at < later.len() {
        if later[at].2 > newest {
            newest = later[at].2;
        }
        at += 1;
    }
    newest
}

/// The format that these fields need.
fn needed(fields: &Map<String, Value>, later: &[Later]) -> i32 {
    let used = |(field, word, _): &&Later| match (fields.get(*field), word) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(value), Some(word)) => value.as_str() == Some(*word),
    };
    later.iter().filter(used).map(|(.., format)| *format).max().unwrap_or(FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backoff, OnExpiry, Span};

    #[test]
    fn stored_policy_omits_defaults() {
        assert_eq!(Policy::default().to_stored().unwrap().json, "{}");
        let held = Policy { disabled: true, ..Policy::default() };
        assert_eq!(
            held.to_stored().unwrap(),
            StoredPolicy { json: r#"{"disabled":true}"#.into(), format: 1 }
        );
        let other = Policy {
            lease: Span::from_secs(60),
            backoff: Backoff { jitter: 0.0, ..Policy::default().backoff },
            on_expiry: OnExpiry::Park,
            accepted_risk: Some("replays are never that old".into()),
            ..Policy::default()
        };
        let stored = other.to_stored().unwrap();
        assert_eq!(Policy::from_stored(&stored.json).unwrap(), other);
        // Servers from before this rule expect every field of a backoff.
        let back_off = r#""backoff":{"initial":1000000,"jitter":0.0,"max":300000000,"multiplier":2.0}"#;
        assert!(stored.json.contains(back_off), "{}", stored.json);
    }

    #[test]
    fn stored_policy_with_unknown_field_is_refused() {
        for (json, says) in [
            (r#"{"disabled":true,"quorum":3}"#, "quorum"),
            (r#"{"on_expiry":"ASK_SOMEBODY"}"#, "ASK_SOMEBODY"),
            (r#"{"fingerprint":"SALTED"}"#, "SALTED"),
            (r#"{"backoff":{"initial":0,"multiplier":2.0,"max":0,"jitter":0.0,"budget":7}}"#, "budget"),
            (r#"{"disabled":"until Monday"}"#, "until Monday"),
        ] {
            let error = Policy::from_stored(json).map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|error| error.contains(says)), "{json}: {error:?}");
        }
    }

    #[test]
    fn stored_policy_states_the_format_it_needs() {
        const LATER: &[Later] = &[("on_expiry", Some("PARK"), 3), ("max_attempts", None, 2)];
        assert_eq!(newest(LATER), 3);
        assert_eq!(newest(&[]), 1);
        let format = |policy: &Policy| {
            let stored = policy.to_stored().unwrap().json;
            needed(&serde_json::from_str(&stored).unwrap(), LATER)
        };
        let usual = Policy::default();
        assert_eq!(format(&usual), 1);
        assert_eq!(format(&Policy { max_attempts: 3, ..usual.clone() }), 2);
        assert_eq!(format(&Policy { on_expiry: OnExpiry::ParkIfStarted, ..usual.clone() }), 1);
        assert_eq!(format(&Policy { on_expiry: OnExpiry::Park, max_attempts: 3, ..usual }), 3);
    }
}
