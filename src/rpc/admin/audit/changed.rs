//! What an operator's change replaced, by the states that its event keeps.

use serde_json::{Map, Value};

use crate::common::duration_arg::DurationArg;
use crate::domain::{AuditEvent, Policy, audit_action};
use crate::ledger::audited_policy;
use crate::proto::{AuditChange, PolicyChange};
use crate::wire::policy;

/// What of an entry, an import or the token offset an event shows, in this order.
const SHOWN: [&str; 8] = [
    "state",
    "cause",
    "attempts",
    "effect_started",
    "prior_effect_started",
    "effect_unknown",
    "stored",
    "token_offset_us",
];
/// The end of the names of spans in microseconds.
const MICROS: &str = "_us";

/// The values that an event changed.
pub(super) fn values(event: &AuditEvent) -> Vec<AuditChange> {
    match event.action.as_str() {
        audit_action::SET_POLICY | audit_action::DELETE_POLICY => of_policy(event),
        _ => of_states(event),
    }
}

/// The fields of a policy that differ. A field of a policy that is not recorded has no value: that of the server's
/// configuration was in force, or is.
fn of_policy(event: &AuditEvent) -> Vec<AuditChange> {
    let policy = |json: &Option<String>| json.as_deref().and_then(audited_policy);
    let (before, after) = (policy(&event.before), policy(&event.after));
    let usual = Policy::default();
    let changes = policy::changes(before.as_ref().unwrap_or(&usual), after.as_ref().unwrap_or(&usual));
    let change = |PolicyChange { path, from, to }| AuditChange {
        path,
        from: if before.is_some() { from } else { String::new() },
        to: if after.is_some() { to } else { String::new() },
    };
    changes.into_iter().map(change).collect()
}

fn of_states(event: &AuditEvent) -> Vec<AuditChange> {
    let object = |json: &Option<String>| -> Map<String, Value> {
        json.as_deref().and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
    };
    let (before, after) = (object(&event.before), object(&event.after));
    let change = |name: &&str| {
        let (from, to) = (text(name, before.get(*name)), text(name, after.get(*name)));
        // What an entry never had, and does not have afterwards, is not a change.
        let trivial = from.is_empty() && to == "false";
        let path = name.trim_end_matches(MICROS).to_owned();
        (from != to && !trivial).then_some(AuditChange { path, from, to })
    };
    SHOWN.iter().filter_map(change).collect()
}

/// A value for people; empty if it is not there.
fn text(name: &str, value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) if name.ends_with(MICROS) => {
            let micros = value.as_u64().map(std::time::Duration::from_micros);
            micros.map_or_else(|| value.to_string(), |span| DurationArg::from(span).to_string())
        }
        Some(value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::StoreTime;

    fn changes(action: &str, before: Option<&str>, after: Option<&str>) -> Vec<String> {
        let event = AuditEvent {
            request_id: "1".into(),
            at: StoreTime(1),
            actor: "a".into(),
            action: action.into(),
            consumer: "c".into(),
            key: None,
            reason: "r".into(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
            digest: None,
        };
        values(&event).into_iter().map(|one| format!("{} {}>{}", one.path, one.from, one.to)).collect()
    }

    #[test]
    fn audited_values_are_those_that_differ() {
        let parked =
            r#"{"state":"PARKED","cause":"CONSUMER","version":7,"attempts":3,"effect_started":false}"#;
        let received = r#"{"state":"RECEIVED","cause":null,"version":8,"attempts":0,"effect_started":false,"force":true}"#;
        assert_eq!(
            changes("REDRIVE", Some(parked), Some(received)),
            ["state PARKED>RECEIVED", "cause CONSUMER>", "attempts 3>0"]
        );
        assert_eq!(
            changes("DELETE", Some(parked), Some(r#"{"force":true}"#)),
            ["state PARKED>", "cause CONSUMER>", "attempts 3>", "effect_started false>"]
        );
        assert_eq!(changes("REDRIVE", None, Some(received)), ["state >RECEIVED", "attempts >0"]);
        let import = r#"{"state":"COMPLETED","operation_id":"i","stored":12}"#;
        assert_eq!(changes("IMPORT_ENTRIES", None, Some(import)), ["state >COMPLETED", "stored >12"]);
        let offset = |micros: i64| format!(r#"{{"token_offset_us":{micros}}}"#);
        assert_eq!(
            changes("RAISE_TOKEN_OFFSET", Some(&offset(0)), Some(&offset(3_600_000_000))),
            ["token_offset 0s>1h"]
        );
        assert!(changes("HOLD_CONSUMERS", None, Some(r#"{"prefix":"a","all":false}"#)).is_empty());
        assert!(changes("PARK", Some("no json"), None).is_empty());
    }

    #[test]
    fn audited_policies_are_compared_in_words() {
        let before = r#"{"lease":40000000,"disabled":true,"version":1}"#;
        let after = r#"{"lease":120000000,"max_attempts":3,"version":2,"update_mask":["lease"]}"#;
        assert_eq!(
            changes("SET_POLICY", Some(before), Some(after)),
            ["lease 40s>2m", "max_attempts 10>3", "disabled true>false"]
        );
        assert_eq!(changes("SET_POLICY", None, Some(r#"{"lease":120000000,"version":1}"#)), ["lease >2m"]);
        assert_eq!(changes("DELETE_POLICY", Some(before), None), ["lease 40s>", "disabled true>"]);
    }
}
