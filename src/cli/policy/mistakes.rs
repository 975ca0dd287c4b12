//! Known mistakes of policies, as pure functions of the stated policy and of how long handlers take.

use std::time::Duration;

use super::observed::Observed;
use crate::cli::text::{counted, duration, exact};
use crate::proto::{self, OccurredAtMode, OnExpiry};

/// The subject of the check.
pub(super) struct Subject {
    pub(super) consumer: String,
    /// From a file without a server: only the stated fields.
    pub(super) policy: proto::Policy,
    /// The refusals of the server.
    pub(super) refused: Vec<String>,
    pub(super) observed: Option<Observed>,
}

/// From this factor on a lease is far above what handlers take: a crash then stalls its message for that
/// long.
const FAR_ABOVE: u32 = 20;
/// A lease below this is not worth a warning.
const LEASE_SHORT: Duration = Duration::from_mins(1);
const SAMPLE_MIN: usize = 20;

/// The mistakes of a whole policy, by field.
pub(super) fn warnings(policy: &proto::Policy, observed: Option<Observed>) -> Vec<(&'static str, String)> {
    check(&Subject { consumer: String::new(), policy: policy.clone(), refused: Vec::new(), observed })
}

/// The mistakes of a policy. A field that is not stated is not checked.
pub(super) fn check(subject: &Subject) -> Vec<(&'static str, String)> {
    let Subject { policy, refused, observed, .. } = subject;
    if !refused.is_empty() {
        // The values of the other fields are only known once these are corrected.
        let refused = refused.iter().map(|one| ("policy", format!("the server would refuse it: {one}")));
        return refused.collect();
    }
    let time = |value: Option<prost_types::Duration>| value.and_then(|value| Duration::try_from(value).ok());
    let text = |value: Duration| exact(&duration(value));
    let mut found: Vec<(&'static str, String)> = Vec::new();
    let mut warn = |field, text: String| found.push((field, text));
    let retention = time(policy.retention);
    let window = time(policy.max_redelivery_window).filter(|window| !window.is_zero());
    let longest_wait = policy.backoff.and_then(|backoff| time(backoff.max));
    match (window, retention) {
        (None, _) => warn(
            "max_redelivery_window",
            "is not stated: it is not checked that retention is longer than a message can still be delivered \
             again, and a server with require_redelivery_window refuses the policy. State the longest of broker \
             retention, replay and dead-letter horizons"
                .into(),
        ),
        (Some(window), Some(retention)) if retention < window && !policy.accepted_risk.is_empty() => warn(
            "retention",
            format!(
                "is {}, shorter than max_redelivery_window ({}), and accepted: a message can be processed \
                 again after it was forgotten{}",
                text(retention),
                text(window),
                if policy.occurred_at() == OccurredAtMode::Require {
                    ""
                } else {
                    "; with `occurred_at: REQUIRE` it is refused instead (outside_window)"
                }
            ),
        ),
        (Some(_), _) => {}
    }
    if let (Some(window), Some(wait)) = (window, longest_wait)
        && wait > window
    {
        warn(
            "backoff.max",
            format!(
                "is {}, longer than max_redelivery_window ({}): the broker gives up before the next attempt \
                 is due",
                text(wait),
                text(window)
            ),
        );
    }
    if policy.max_attempts == Some(0) {
        warn(
            "max_attempts",
            "is 0, no limit: a message that always fails is retried for ever, and no person sees it".into(),
        );
    }
    if time(policy.result_retention).is_some_and(|span| span.is_zero()) {
        warn(
            "result_retention",
            "is 0: deliveries that come again are never answered with the result".into(),
        );
    }
    if time(policy.reclaim_grace).is_some_and(|span| span.is_zero()) {
        warn(
            "reclaim_grace",
            "is 0: a Complete that comes a moment after the lease races with the next grant".into(),
        );
    }
    match policy.on_expiry() {
        OnExpiry::Unspecified | OnExpiry::Reclaim => {}
        OnExpiry::Park => warn(
            "on_expiry",
            "is PARK: each crash of a worker, and each deployment that kills one, leaves entries that wait \
             for a person"
                .into(),
        ),
        OnExpiry::ParkIfStarted => warn(
            "on_expiry",
            "is PARK_IF_STARTED: it protects only handlers that call Renew(effect_started) and wait for OK \
             before the effect"
                .into(),
        ),
    }
    if policy.disabled == Some(true) {
        warn("disabled", "is true: nothing new is granted".into());
    }
    if let (Some(observed), Some(own)) = (observed, time(policy.lease)) {
        found.extend(lease(own, observed));
    }
    found.extend(observed.as_ref().and_then(names_that_grow));
    found
}

fn lease(lease: Duration, observed: &Observed) -> Option<(&'static str, String)> {
    let text = |value: Duration| exact(&duration(Duration::from_millis(as_millis(value))));
    let figures = format!(
        "the newest {} took {} (99th percentile), at most {}",
        counted(observed.sample, "completed entry", "completed entries"),
        text(observed.p99),
        text(observed.max)
    );
    if lease <= observed.max {
        return Some((
            "lease",
            format!(
                "is {}, and {figures}: without renewals the lease ends while the handler is at work, and \
                 another one may begin",
                text(lease)
            ),
        ));
    }
    if observed.sample >= SAMPLE_MIN && lease > LEASE_SHORT && lease > observed.p99 * FAR_ABOVE {
        return Some((
            "lease",
            format!(
                "is {}, and {figures}: after a crash the message waits for the rest of the lease. Shorten it, \
                 and renew in the few that take longer",
                text(lease)
            ),
        ));
    }
    None
}

/// The mistake of naming each object in `source`: the sample has more than half as many sources as entries,
/// and the store keeps every source forever.
fn names_that_grow(observed: &Observed) -> Option<(&'static str, String)> {
    let Observed { sample, sources, .. } = *observed;
    (sample >= SAMPLE_MIN && sources * 2 > sample).then(|| {
        (
            "source",
            format!(
                "the newest {} have {sources} different sources: each source is stored for ever. Name the producer in \
                 `source`, and the object in `id`",
                counted(sample, "completed entry", "completed entries")
            ),
        )
    })
}

fn as_millis(value: Duration) -> u64 {
    u64::try_from(value.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy_args::PolicyArgs;

    fn fields(yaml: &str, observed: Option<Observed>) -> Vec<&'static str> {
        let fields: PolicyArgs = serde_saphyr::from_str(yaml).unwrap();
        let policy = fields.message();
        let subject = Subject { consumer: "c".into(), policy, refused: Vec::new(), observed };
        check(&subject).into_iter().map(|(field, _)| field).collect()
    }

    fn took(p99: u64, max: u64) -> Observed {
        Observed { sample: 200, p99: Duration::from_secs(p99), max: Duration::from_secs(max), sources: 1 }
    }

    #[test]
    fn each_mistake_is_found_alone() {
        let fine = "{max_redelivery_window: 7d, retention: 7d, lease: 30s, backoff: {max: 5m}}";
        assert!(fields(fine, Some(took(20, 25))).is_empty());
        for (yaml, observed, expected) in [
            ("{}", None, &["max_redelivery_window"][..]),
            ("{max_redelivery_window: 0s}", None, &["max_redelivery_window"]),
            ("{max_redelivery_window: 14d, retention: 7d, accepted_risk: newsletter}", None, &["retention"]),
            ("{max_redelivery_window: 1h, backoff: {max: 2h}}", None, &["backoff.max"]),
            ("{max_redelivery_window: 7d, max_attempts: 0}", None, &["max_attempts"]),
            ("{max_redelivery_window: 7d, result_retention: 0s}", None, &["result_retention"]),
            ("{max_redelivery_window: 7d, reclaim_grace: 0s}", None, &["reclaim_grace"]),
            ("{max_redelivery_window: 7d, on_expiry: PARK}", None, &["on_expiry"]),
            ("{max_redelivery_window: 7d, on_expiry: PARK_IF_STARTED}", None, &["on_expiry"]),
            ("{max_redelivery_window: 7d, disabled: true}", None, &["disabled"]),
            ("{max_redelivery_window: 7d, lease: 30s}", Some(took(20, 31)), &["lease"]),
            ("{max_redelivery_window: 7d, lease: 5m}", Some(took(2, 3)), &["lease"]),
        ] {
            assert_eq!(fields(yaml, observed), expected, "{yaml}");
        }
    }

    #[test]
    fn source_per_object_is_a_warning() {
        for (sample, sources, warned) in
            [(200, 101, true), (200, 100, false), (20, 11, true), (19, 19, false), (200, 1, false)]
        {
            let observed = Observed { sample, sources, ..took(20, 25) };
            let found = fields("{max_redelivery_window: 7d, lease: 30s}", Some(observed));
            assert_eq!(found, if warned { &["source"][..] } else { &[] }, "{sources} of {sample}");
        }
    }

    #[test]
    fn refused_policy_has_no_further_warnings() {
        let policy = proto::Policy { max_attempts: Some(0), ..Default::default() };
        let refused = vec!["retention: is too short".to_owned()];
        let subject = Subject { consumer: "c".into(), policy, refused, observed: None };
        let says = ("policy", "the server would refuse it: retention: is too short".to_owned());
        assert_eq!(check(&subject), [says]);
    }

    #[test]
    fn figures_are_in_the_warning() {
        let (_, text) = lease(Duration::from_secs(30), &took(20, 31)).unwrap();
        assert!(
            text.contains("newest 200") && text.contains("20s (99th") && text.contains("at most 31s"),
            "{text}"
        );
    }

    #[test]
    fn accepted_risk_names_the_refusal_that_would_avoid_it() {
        for (mode, suggested) in
            [("", true), (", occurred_at: OPTIONAL", true), (", occurred_at: REQUIRE", false)]
        {
            let yaml =
                format!("{{max_redelivery_window: 14d, retention: 7d, accepted_risk: newsletter{mode}}}");
            let fields: PolicyArgs = serde_saphyr::from_str(&yaml).unwrap();
            let found = warnings(&fields.message(), None);
            let [("retention", text)] = &found[..] else { panic!("{found:?}") };
            assert_eq!(
                text.contains("with `occurred_at: REQUIRE` it is refused instead"),
                suggested,
                "{text}"
            );
        }
    }
}
