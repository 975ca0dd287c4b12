//! The policies of the file.

use std::collections::BTreeMap;

use super::checker::Checker;
use crate::domain::{Policy, PolicyError, PolicyPatch, names_many};
use crate::ledger::Policies;
use crate::policy_args::PolicyArgs;
use crate::rpc::stated_policy;

/// Checks the policies of a file: the default one, and those of consumers, which override it.
pub(super) fn policies(
    default: &PolicyArgs,
    consumers: &BTreeMap<String, PolicyArgs>,
    checker: &mut Checker,
) -> Policies {
    let lower = patch("policy", default, checker);
    let usual = lower.onto(&Policy::default());
    let inherited = usual.validate().err().unwrap_or_default();
    for error in &inherited {
        checker.wrong(&format!("policy.{}", error.field), &error.problem);
    }
    let mut own = BTreeMap::new();
    for (name, args) in consumers {
        let section = format!("consumers.{name:?}");
        let policy = patch(&section, args, checker).or(&lower).onto(&Policy::default());
        let stated = args.paths();
        // Problems of the default policy are reported only there.
        let is_own =
            |error: &PolicyError| !inherited.contains(error) || stated.iter().any(|path| path == error.field);
        for error in policy.validate().err().unwrap_or_default().iter().filter(|error| is_own(error)) {
            checker.wrong(&format!("{section}.{}", error.field), &error.problem);
        }
        if let Some(why) = names_many(name) {
            checker.wrong(&section, why);
        }
        own.insert(name.clone(), policy);
    }
    if own.contains_key("") {
        checker.wrong("consumers", "a consumer's name is empty; name the consumer");
    }
    Policies::new(usual, own)
}

/// The fields that a section of the file sets.
fn patch(section: &str, args: &PolicyArgs, checker: &mut Checker) -> PolicyPatch {
    if args.delete {
        let text = "is for files of `policy apply`; leave the section out instead";
        checker.wrong(&format!("{section}.delete"), text);
    }
    if args.inbox == Some(true) {
        let text = "is switched on by SetPolicy alone (policy set --inbox): it raises the level of the store, which a file \
                    does not; leave it out here";
        checker.wrong(&format!("{section}.inbox"), text);
    }
    stated_policy(&args.message(), args.accepted_risk.is_some()).unwrap_or_else(|violations| {
        for one in violations {
            let field = one.field.strip_prefix("policy.").unwrap_or(&one.field);
            checker.wrong(&format!("{section}.{field}"), &one.description);
        }
        PolicyPatch::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Span;
    use crate::server::config::problem::ValueSources;

    /// The policies of `[policy]` and of the consumer `c`, and the problems.
    fn read(text: &str) -> (Policy, Policy, Vec<String>) {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct File {
            policy: PolicyArgs,
            consumers: BTreeMap<String, PolicyArgs>,
        }
        let File { policy, consumers } = toml::from_str(text).unwrap();
        let mut checker = Checker::new(ValueSources::default(), Vec::new());
        let policies = policies(&policy, &consumers, &mut checker);
        let problems = checker.problems.into_iter().map(|problem| problem.text).collect();
        (Policy::clone(&policies.of("any")), Policy::clone(&policies.of("c")), problems)
    }

    #[test]
    fn consumer_fields_override_default_policy() {
        let (usual, own, problems) = read(
            "[policy]\nlease = '1m'\nretention = '60d'\nmax_redelivery_window = '61d'\naccepted_risk = 'none'\n\
             backoff = { initial = '5s', max = '10m' }\n\
             [consumers.c]\nretention = '10d'\naccepted_risk = ''\nmax_redelivery_window = '0s'\n\
             on_expiry = 'park_if_started'\nbackoff.max = '1h'\nbackoff.multiplier = 3\n",
        );
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!((usual.lease, own.lease), (Span::from_secs(60), Span::from_secs(60)));
        assert_eq!((usual.retention, own.retention), (Span::from_days(60), Span::from_days(10)));
        // A field that is not stated follows the policy's own retention, not that of the default policy.
        assert_eq!(
            (usual.failed_retention, own.failed_retention),
            (Span::from_days(60), Span::from_days(30))
        );
        assert_eq!(
            (usual.abandoned_retention, own.abandoned_retention),
            (Span::from_days(61), Span::from_days(30))
        );
        assert_eq!(
            (usual.result_retention, own.result_retention),
            (Span::from_days(60), Span::from_days(10))
        );
        assert_eq!((usual.accepted_risk.as_deref(), own.accepted_risk), (Some("none"), None));
        assert_eq!(own.on_expiry, crate::domain::OnExpiry::ParkIfStarted);
        let backoff = |policy: &Policy| (policy.backoff.initial, policy.backoff.max);
        assert_eq!(backoff(&usual), (Span::from_secs(5), Span::from_secs(600)));
        assert_eq!(own.backoff.initial, Span::from_secs(5));
        assert_eq!((own.backoff.max, own.backoff.multiplier), (Span::from_secs(3_600), 3.0));
    }

    #[test]
    fn invalid_field_is_reported_with_its_section() {
        let (_, _, problems) = read(
            "[policy]\nlease = '500ms'\nmax_redelivery_window = '14d'\naccepted_risk = ' '\n\
             [consumers.c]\nlease = '1s'\ndelete = true\ninbox = true\nretention = '99999999d'\n",
        );
        for says in [
            "policy.lease: is 500ms, must be 1s to 15m",
            "policy.retention: is 7d, shorter than max_redelivery_window (14d)",
            "consumers.\"c\".delete: is for files of `policy apply`",
            "consumers.\"c\".inbox: is switched on by SetPolicy alone",
            "consumers.\"c\".retention: is 3652500d, must be 1h to 3650d",
        ] {
            assert!(problems.iter().any(|one| one.starts_with(says)), "{says}: {problems:?}");
        }
    }

    #[test]
    fn texts_and_names_that_no_policy_may_have_are_reported() {
        for (text, says) in [
            ("[policy]\naccepted_risk = \"a\\u0007\"", "policy.accepted_risk: contains a control character"),
            (
                "[consumers.c]\naccepted_risk = \"a\\u0007\"",
                "consumers.\"c\".accepted_risk: contains a control character",
            ),
            ("[consumers.'']\nlease = '3s'", "consumers: a consumer's name is empty"),
        ] {
            let (_, _, problems) = read(text);
            assert!(matches!(&problems[..], [one] if one.starts_with(says)), "{says}: {problems:?}");
        }
    }
}
