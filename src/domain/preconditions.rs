//! Preconditions of a claim: what is answered before its entry is looked at (demands of the policy, the key's
//! replay run), and what stops a grant. See docs/contract.md, sections 4 and 8.

use bytes::Bytes;

use super::command::Claim;
use super::hold::held_consumers;
use super::policy::{Doubt, FingerprintMode, OccurredAtMode, ReplayMode};
use super::reason::{Reason, Rejection, Violation};
use super::replay::{RunMode, Standing};
use super::reply::{Answer, Reply, Verdict};
use super::{Key, Policy, StoreTime};

/// What a claim is answered whatever its entry is; `None` if the entry decides.
pub(super) fn without_entry(key: &Key, claim: &Claim, policy: &Policy, now: StoreTime) -> Option<Answer> {
    let demanded = || lacks(&claim.fingerprint, claim.occurred_at, policy);
    if let Some(rejection) = (!claim.handed_out).then(demanded).flatten() {
        return Some(Err(rejection));
    }
    match policy.run {
        Standing::Live | Standing::Known { mode: RunMode::Rebuild, .. } => None,
        // The runs are read together with the policies: where the policies are too old, so is the list of runs,
        // and the run may exist.
        Standing::Unknown if matches!(policy.doubt, Doubt::Stale | Doubt::Lost) => {
            Some(Err(refusal_by(policy, Reason::StoreUnavailable)))
        }
        Standing::Unknown => Some(Err(refusal(Reason::ReplayRunUnknown))),
        // A message that is acknowledged unprocessed is lost: whatever stops a grant also stops this answer.
        Standing::Known { mode: RunMode::Suppress, .. } => Some(match held_back(policy, now) {
            Some(reason) => Err(refusal_by(policy, reason)),
            None => Ok(Reply::Verdict(Verdict::Suppressed { replay_run: key.replay_run().to_owned() })),
        }),
    }
}

/// The refusal of a claim, or of a message to store, that lacks what the policy demands of every one; `None` if it lacks nothing.
/// While the policy is in doubt it is refused for that, since the demand may not be in force.
pub(super) fn lacks(
    fingerprint: &Bytes,
    occurred_at: Option<StoreTime>,
    policy: &Policy,
) -> Option<Rejection> {
    let wrong = |field: &str, text: &str| Violation { field: field.into(), description: text.into() };
    let mut violations = Vec::new();
    if policy.fingerprint == FingerprintMode::Require && fingerprint.is_empty() {
        let text = "is empty, but the consumer's policy requires one: send a digest of the payload";
        violations.push(wrong("fingerprint", text));
    }
    if policy.occurred_at == OccurredAtMode::Require && occurred_at.is_none() {
        let text = "is unset, but the consumer's policy requires it: send the instant at which the producer made \
                    the message, such as the `time` of a CloudEvent";
        violations.push(wrong("occurred_at", text));
    }
    if violations.is_empty() {
        return None;
    }
    Some(doubtful(policy).map_or_else(|| Rejection::invalid(violations), |reason| refusal_by(policy, reason)))
}

/// Why it is unknown whether the policy stops grants; `None` if it is known.
pub(super) fn doubtful(policy: &Policy) -> Option<Reason> {
    match policy.doubt {
        Doubt::None => None,
        Doubt::Unreadable => Some(Reason::PolicyUnreadable),
        Doubt::Stale | Doubt::Lost => Some(Reason::StoreUnavailable),
    }
}

/// Why the policy grants nothing now, and parks nothing in place of a grant; `None` if it grants.
pub(super) fn held_back(policy: &Policy, now: StoreTime) -> Option<Reason> {
    doubtful(policy)
        .or(policy.holds_back().then_some(Reason::ConsumerDisabled))
        .or((now > policy.run.grants_until()).then_some(Reason::ReplayRunClosed))
        .or((policy.run != Standing::Live && policy.replay == ReplayMode::Forbid)
            .then_some(Reason::ReplayForbidden))
}

/// The refusal of a claim for the reason that [`held_back`] returned, with what the caller must do.
pub(super) fn refusal_by(policy: &Policy, reason: Reason) -> Rejection {
    if reason == Reason::StoreUnavailable && policy.doubt == Doubt::Lost {
        return Rejection::new(
            reason,
            "the store has lost commits, so that this message may have been processed before; nothing was changed: try \
             again later; an operator puts the right file in place or accepts the loss (--accept-loss)",
        );
    }
    match &policy.held_by {
        Some(prefix) if reason == Reason::ConsumerDisabled && !policy.disabled => Rejection::new(
            reason,
            format!("an operator holds {}: no new grants until the hold ends", held_consumers(prefix)),
        ),
        Some(_) | None => refusal(reason),
    }
}

/// A refusal for this reason, with what to do.
pub(super) fn refusal(reason: Reason) -> Rejection {
    let why = if reason == Reason::ConsumerDisabled {
        "the consumer's policy is `disabled`: no new grants until an operator enables it"
    } else if reason == Reason::PolicyUnreadable {
        "the consumer's policy was set by a newer version and this server cannot read it, so it grants nothing: \
         try again later; upgrade this server, or have an operator set a policy that it can read"
    } else if reason == Reason::StoreUnavailable {
        "the policies could not be read for too long, and may have changed since; nothing was changed: try again \
         later"
    } else if reason == Reason::ReplayRunUnknown {
        "no operator has created this replay run, so nothing is processed or acknowledged: have one create it \
         (CreateReplayRun), or correct replay_run"
    } else if reason == Reason::ReplayRunClosed {
        "this replay run is closed or over, and grants nothing more: stop the replay, or have an operator create a \
         new run"
    } else if reason == Reason::EntryUnreadable {
        "the next token of this key would not be below 2^53: the stored token or the store's clock is damaged; nothing \
         was changed: an operator must look, see \"A damaged row\" in docs/runbooks.md"
    } else if reason == Reason::InboxOff {
        "the consumer's policy does not have `inbox`, so that its messages are not stored: let the broker deliver them, or have an \
         operator switch the inbox on (SetPolicy)"
    } else if reason == Reason::BacklogFull {
        "the messages that are stored wait for too long (backlog_max_age), or take too many bytes (inbox_bytes_max); nothing was \
         stored: the message stays with its broker; start workers that call ClaimNext"
    } else {
        "the consumer's policy forbids replays by now, so nothing more is granted in this run: stop the replay"
    };
    Rejection::new(reason, why)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{Claimant, lookup};

    /// The run may have been created since the policies were read: the caller is not sent to an operator for a run that exists.
    #[test]
    fn unknown_run_is_unavailable_while_the_list_of_runs_may_be_too_old() {
        let claim = Claim {
            claimant: Claimant { claim_id: Uuid::nil(), principal: String::new(), owner: String::new() },
            lease: None,
            fingerprint: Bytes::new(),
            occurred_at: None,
            traceparent: String::new(),
            handed_out: false,
        };
        for (doubt, reason, says) in [
            (Doubt::None, Reason::ReplayRunUnknown, "CreateReplayRun"),
            (Doubt::Unreadable, Reason::ReplayRunUnknown, "CreateReplayRun"),
            (Doubt::Stale, Reason::StoreUnavailable, "could not be read for too long"),
            (Doubt::Lost, Reason::StoreUnavailable, "has lost commits"),
        ] {
            let policy = Policy { doubt, run: Standing::Unknown, ..Policy::default() };
            let claimed = without_entry(&Key::new("c", "s", "1"), &claim, &policy, StoreTime(0));
            let claimed = claimed.expect("no entry decides").expect_err("nothing is granted");
            assert_eq!(claimed.reason, reason, "{doubt:?}");
            assert!(claimed.message.contains(says), "{claimed:?}");
            let looked_up = lookup::without_entry(&policy).expect("no entry decides");
            assert_eq!(looked_up.expect_err("nothing is found").reason, reason, "{doubt:?}");
        }
    }

    fn held(prefix: &str, disabled: bool) -> Policy {
        Policy { disabled, held_by: Some(prefix.into()), ..Policy::default() }
    }

    /// Each refusal says what to do next: no two reasons have the same text.
    #[test]
    fn refusal_has_the_text_of_its_reason() {
        let disabled = Policy { disabled: true, ..Policy::default() };
        for (policy, reason, says) in [
            (Policy::default(), Reason::ConsumerDisabled, "until an operator enables it"),
            (disabled, Reason::ConsumerDisabled, "until an operator enables it"),
            (held("pay", true), Reason::ConsumerDisabled, "until an operator enables it"),
            (held("pay", false), Reason::ConsumerDisabled, "until the hold ends"),
            (held("pay", false), Reason::ReplayRunClosed, "is closed or over"),
            (Policy::default(), Reason::PolicyUnreadable, "set by a newer version"),
            (Policy::default(), Reason::StoreUnavailable, "could not be read for too long"),
            (Policy::default(), Reason::ReplayRunUnknown, "CreateReplayRun"),
            (Policy::default(), Reason::EntryUnreadable, "A damaged row"),
            (Policy::default(), Reason::InboxOff, "does not have `inbox`"),
            (Policy::default(), Reason::BacklogFull, "inbox_bytes_max"),
            (Policy::default(), Reason::ReplayForbidden, "forbids replays by now"),
        ] {
            let refused = refusal_by(&policy, reason);
            assert_eq!(refused.reason, reason);
            assert!(refused.message.contains(says), "{reason}: {}", refused.message);
        }
    }

    #[test]
    fn run_grants_until_the_last_instant_before_its_end() {
        let end = StoreTime(1_000);
        let run = Standing::Known { mode: RunMode::Rebuild, end };
        let policy = Policy { run, replay: ReplayMode::Rebuild, ..Policy::default() };
        let forbidden = Policy { replay: ReplayMode::Forbid, ..policy.clone() };
        for (policy, now, reason) in [
            (&policy, 999, None),
            (&policy, 1_000, Some(Reason::ReplayRunClosed)),
            (&forbidden, 999, Some(Reason::ReplayForbidden)),
        ] {
            assert_eq!(held_back(policy, StoreTime(now)), reason, "{now}");
        }
    }
}
