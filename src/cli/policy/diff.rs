//! Policies as rows, and the differences of two.

use crate::cli::output::{Output, TextStyle};
use crate::cli::text::clean;
use crate::proto::{self, PolicyChange, policy_fields};

/// Each field with its value, in the order of the manual.
pub(super) fn rows(policy: &proto::Policy) -> Vec<(&'static str, String)> {
    policy_fields(policy).into_iter().map(|(path, value)| (path, shown(path, &value))).collect()
}

/// The fields of two versions that differ. For a change, the server reports the differences itself.
pub(super) fn between(old: &proto::Policy, new: &proto::Policy) -> Vec<PolicyChange> {
    let both = policy_fields(old).into_iter().zip(policy_fields(new));
    let differ = both.filter(|((_, from), (_, to))| from != to);
    differ.map(|((path, from), (_, to))| PolicyChange { path: path.to_owned(), from, to }).collect()
}

/// Changes for people: `lease: 30s → 2m`.
pub(super) fn lines(output: Output, changes: &[PolicyChange]) -> Vec<String> {
    let line = |PolicyChange { path, from, to }: &PolicyChange| {
        let (from, to) = (shown(path, from), shown(path, to));
        let (from, to) = (output.styled(&from, TextStyle::Bad), output.styled(&to, TextStyle::Good));
        format!("  {}: {from} → {to}", clean(path))
    };
    changes.iter().map(line).collect()
}

/// A value of a field, for people.
fn shown(path: &str, value: &str) -> String {
    match (path, value) {
        ("max_redelivery_window", "0s" | "") => "not stated".to_owned(),
        ("max_attempts" | "claims_per_second", "0") => "0 (no limit)".to_owned(),
        (_, "") => "-".to_owned(),
        ("accepted_risk", why) => format!("\"{}\"", clean(why)),
        (_, value) => clean(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_for_people() {
        for (path, value, text) in [
            ("lease", "2m", "2m"),
            ("lease", "", "-"),
            ("max_attempts", "0", "0 (no limit)"),
            ("max_attempts", "10", "10"),
            ("claims_per_second", "0", "0 (no limit)"),
            ("max_redelivery_window", "0s", "not stated"),
            ("max_redelivery_window", "14d", "14d"),
            ("accepted_risk", "", "-"),
            ("accepted_risk", "a\x1bb", "\"a\u{fffd}b\""),
            ("quorum", "a\x1bb", "a\u{fffd}b"),
        ] {
            assert_eq!(shown(path, value), text, "{path} {value:?}");
        }
    }

    #[test]
    fn diff_names_the_changed_fields() {
        let old = proto::Policy { max_attempts: Some(3), disabled: Some(false), ..Default::default() };
        let new = proto::Policy { disabled: Some(true), ..old.clone() };
        assert!(between(&old, &old).is_empty());
        assert_eq!(lines(Output::plain(), &between(&old, &new)), ["  disabled: false → true"]);
    }
}
