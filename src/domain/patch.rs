//! A change of some fields of a policy, and the one table of the fields that can be set.

use super::Span;
use super::policy::{FingerprintMode, OccurredAtMode, OnExpiry, Policy, ReplayMode};

macro_rules! patch {
    ($($(#[$doc:meta])* $field:ident: $type:ty => $place:ident $(. $inner:ident)?;)*) => {
        /// The fields of a policy that are set; the others keep their values.
        #[derive(Clone, Debug, Default, PartialEq)]
        #[allow(missing_docs, reason = "named as the policy's fields are")]
        pub struct PolicyPatch {
            $($(#[$doc])* pub $field: Option<$type>,)*
        }

        impl PolicyPatch {
            /// The paths of all fields, as masks, files and errors name them.
            pub const PATHS: &'static [&'static str] =
                &[$(concat!(stringify!($place) $(, ".", stringify!($inner))?)),*];

            /// Each field of this patch, or else of the lower one.
            #[must_use]
            pub fn or(self, lower: &PolicyPatch) -> PolicyPatch {
                PolicyPatch { $($field: self.$field.or_else(|| lower.$field.clone())),* }
            }

            /// Keeps only the fields with these paths. Returns the paths that the patch does not set.
            #[must_use]
            pub fn keep(&mut self, paths: &[String]) -> Vec<&'static str> {
                let mut missing = Vec::new();
                $(
                    let name = concat!(stringify!($place) $(, ".", stringify!($inner))?);
                    if !paths.iter().any(|path| path == name) {
                        self.$field = None;
                    } else if self.$field.is_none() {
                        missing.push(name);
                    }
                )*
                missing
            }

            /// Applies the fields that are set.
            fn set(&self, policy: &mut Policy) {
                $(if let Some(value) = &self.$field {
                    policy.$place $(.$inner)? = value.clone();
                })*
            }
        }
    };
}

// The field of the patch, its type, and its place in the policy.
patch! {
    lease: Span => lease;
    max_lease: Span => max_lease;
    max_hold: Span => max_hold;
    reclaim_grace: Span => reclaim_grace;
    on_expiry: OnExpiry => on_expiry;
    max_attempts: i32 => max_attempts;
    backoff_initial: Span => backoff.initial;
    backoff_multiplier: f64 => backoff.multiplier;
    backoff_max: Span => backoff.max;
    backoff_jitter: f64 => backoff.jitter;
    retention: Span => retention;
    failed_retention: Span => failed_retention;
    abandoned_retention: Span => abandoned_retention;
    result_retention: Span => result_retention;
    max_redelivery_window: Span => max_redelivery_window;
    /// The reason; an inner `None` withdraws the accepted risk.
    accepted_risk: Option<String> => accepted_risk;
    fingerprint: FingerprintMode => fingerprint;
    disabled: bool => disabled;
    claims_per_second: i32 => claims_per_second;
    occurred_at: OccurredAtMode => occurred_at;
    replay: ReplayMode => replay;
    result_bytes_max: i32 => result_bytes_max;
    inbox: bool => inbox;
    message_retention: Span => message_retention;
    backlog_max_age: Span => backlog_max_age;
}

impl PolicyPatch {
    /// The policy after the change. Retentions that the patch does not set follow `retention` where the rules
    /// require it: those of failed and abandoned entries are never shorter, that of results never longer.
    #[must_use]
    pub fn onto(&self, base: &Policy) -> Policy {
        let retention = self.retention.unwrap_or(base.retention);
        let window = self.max_redelivery_window.unwrap_or(base.max_redelivery_window);
        let mut next = base.clone();
        next.failed_retention = base.failed_retention.max(retention);
        next.abandoned_retention = base.abandoned_retention.max(retention).max(window);
        next.result_retention = if base.result_retention == base.retention {
            retention
        } else {
            base.result_retention.min(retention)
        };
        self.set(&mut next);
        next
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The paths of a JSON object's leaves.
    fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
        let Value::Object(fields) = value else { return found.push(path.to_owned()) };
        for (name, value) in fields {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            leaves(value, &path, found);
        }
    }

    /// Retentions that a patch does not set: results are kept as long as entries where they were before, else not longer.
    #[test]
    fn other_retentions_follow_the_retention() {
        let days = Span::from_days;
        let of = |results| Policy {
            retention: days(7),
            result_retention: days(results),
            failed_retention: days(30),
            abandoned_retention: days(40),
            max_redelivery_window: days(7),
            ..Policy::default()
        };
        for (results, retention, found) in [
            (7, 20, (20, 30, 40)),
            (7, 5, (5, 30, 40)),
            (3, 20, (3, 30, 40)),
            (3, 2, (2, 30, 40)),
            (7, 50, (50, 50, 50)),
        ] {
            let next =
                PolicyPatch { retention: Some(days(retention)), ..PolicyPatch::default() }.onto(&of(results));
            let (result, failed, abandoned) = found;
            assert_eq!(next.result_retention, days(result), "{results} {retention}");
            assert_eq!((next.failed_retention, next.abandoned_retention), (days(failed), days(abandoned)));
        }
        let wide = PolicyPatch { max_redelivery_window: Some(days(60)), ..PolicyPatch::default() };
        assert_eq!(wide.onto(&of(7)).abandoned_retention, days(60));
    }

    #[test]
    fn every_field_of_a_policy_can_be_set() {
        let mut fields = Vec::new();
        leaves(&serde_json::to_value(Policy::default()).unwrap(), "", &mut fields);
        let mut paths = PolicyPatch::PATHS.to_vec();
        fields.sort_unstable();
        paths.sort_unstable();
        assert_eq!(paths, fields);
    }

    #[test]
    fn patch_prefers_its_own_fields_and_keeps_the_named_ones() {
        let upper = PolicyPatch { lease: Some(Span::from_secs(1)), ..PolicyPatch::default() };
        let lower = PolicyPatch {
            lease: Some(Span::from_secs(2)),
            backoff_jitter: Some(0.5),
            disabled: Some(true),
            ..PolicyPatch::default()
        };
        let mut both = upper.or(&lower);
        assert_eq!(both, PolicyPatch { lease: Some(Span::from_secs(1)), ..lower });
        let named = ["backoff.jitter", "max_hold", "lease"].map(str::to_owned);
        assert_eq!(both.keep(&named), ["max_hold"]);
        assert_eq!(both, PolicyPatch { disabled: None, ..both.clone() });
        assert_eq!((both.lease, both.backoff_jitter), (Some(Span::from_secs(1)), Some(0.5)));
        let policy = both.onto(&Policy::default());
        assert_eq!((policy.lease, policy.backoff.jitter, policy.disabled), (Span::from_secs(1), 0.5, false));
    }
}
