//! One look of a `ClaimNext`: what it asks of the store, and how its candidates are judged.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::domain::{
    Claim, Doubt, DueEntry, Grant, HandOutBounds, Policy, Reason, Rejection, StoreTime, hand_out,
    hand_out_again,
};
use crate::ledger::policies::in_force::Snapshot;
use crate::store::{Candidate, Choice, Choose, Chosen, Due, HandedOut, Handout, log_unreadable};

/// A look that waits for a session.
pub(super) struct LookJob {
    /// The claim, without keys.
    pub(super) claim: Handout,
    /// How each candidate is claimed.
    pub(super) command: Claim,
    /// How much may be handed out.
    pub(super) bounds: HandOutBounds,
    /// Later than this nothing is handed out: the answer would not arrive.
    pub(super) until: Instant,
    /// Where the answer is sent.
    pub(super) answer: oneshot::Sender<Result<HandedOut, Rejection>>,
    /// From where the messages of the consumer are read.
    pub(super) cursor: Arc<tokio::sync::Mutex<super::cursor::Cursor>>,
}

/// How the candidates of a look are judged, by policies as they are in force now.
pub(super) fn judged_by(job: &LookJob, policies: &Arc<Snapshot>, withheld: bool) -> Choose {
    let (policies, claim) = (Arc::clone(policies), job.claim.clone());
    let (command, bounds) = (job.command.clone(), job.bounds);
    Arc::new(move |due: &Due| {
        let policy = policy_at(&policies, &claim.consumer, due.reading.now, withheld);
        match &due.before {
            Some(before) => again(due, before, &claim, &command, &policy),
            None => first(due, &command, bounds, &policy, policies.trusted_until),
        }
    })
}

fn policy_at(policies: &Snapshot, consumer: &str, now: StoreTime, withheld: bool) -> Policy {
    let policy = policies.of(consumer);
    let doubt = if withheld {
        Doubt::Lost
    } else if policies.trusted(now) || policy.doubt != Doubt::None {
        policy.doubt
    } else {
        Doubt::Stale
    };
    Policy { doubt, ..Policy::clone(&policy) }
}

/// A candidate that can be handed out: its entry can be read, and its message is there.
fn whole(candidate: &Candidate) -> Option<DueEntry<'_>> {
    let entry = candidate.entry.as_ref().ok()?;
    candidate.bytes.map(|bytes| DueEntry { entry, bytes })
}

fn first(
    due: &Due,
    command: &Claim,
    bounds: HandOutBounds,
    policy: &Policy,
    trusted_until: StoreTime,
) -> Choice {
    let usable: Vec<(usize, DueEntry<'_>)> =
        due.candidates.iter().enumerate().filter_map(|(place, one)| Some((place, whole(one)?))).collect();
    let entries: Vec<DueEntry<'_>> = usable.iter().map(|(_, entry)| *entry).collect();
    let chosen = hand_out(&entries, command, bounds, policy, &due.reading);
    due.candidates.iter().filter_map(|one| one.entry.as_ref().err()).for_each(log_unreadable);
    // Candidates that cannot be used are passed with those around them.
    let passed = match usable.get(chosen.passed) {
        Some((next, _)) => *next,
        None => due.candidates.len(),
    };
    let parked = chosen.parked.len();
    let writes = chosen.grants.iter().filter_map(|grant| grant.write.clone()).chain(chosen.parked);
    Choice {
        writes: writes.map(|entry| (entry, trusted_until)).collect(),
        chosen: chosen_of(&entries, chosen.grants),
        cursor: passed.checked_sub(1).and_then(|last| due.candidates.get(last)).map(|last| last.place),
        unreadable: due.candidates.len() - usable.len(),
        parked,
        refused: chosen.refused,
        repeated: false,
    }
}

/// The answer to a repeat: those of the earlier handout that this claim still holds.
fn again(due: &Due, before: &Handout, claim: &Handout, command: &Claim, policy: &Policy) -> Choice {
    let is_same = before.consumer == claim.consumer
        && before.principal == claim.principal
        && before.owner == claim.owner;
    let entries: Vec<DueEntry<'_>> = due.candidates.iter().filter_map(whole).collect();
    let grants = if is_same { hand_out_again(&entries, command, policy, &due.reading) } else { Vec::new() };
    let refused = grants.is_empty().then(closed);
    Choice {
        writes: grants.iter().filter_map(|grant| Some((grant.write.clone()?, StoreTime::MAX))).collect(),
        chosen: chosen_of(&entries, grants),
        refused,
        repeated: true,
        ..Choice::default()
    }
}

/// The refusal of a repeat that holds nothing any more.
fn closed() -> Rejection {
    Rejection::new(
        Reason::ClaimClosed,
        "what this claim_id was handed out has ended, or belongs to another caller; nothing was changed: each call of ClaimNext uses \
         a new claim_id",
    )
}

/// A repeat whose messages were all dropped since its entries were read is refused as one that holds nothing any more.
pub(super) fn refused_without_messages(mut handed_out: HandedOut) -> HandedOut {
    if handed_out.choice.repeated && handed_out.messages.iter().all(Option::is_none) {
        handed_out.choice.refused.get_or_insert_with(closed);
    }
    handed_out
}

fn chosen_of(entries: &[DueEntry<'_>], grants: Vec<Grant>) -> Vec<Chosen> {
    let chosen = |grant: Grant| {
        let due = entries.get(grant.place)?;
        let version = grant.write.map_or(due.entry.version, |next| next.version);
        Some(Chosen { key: due.entry.key.clone(), version, verdict: grant.verdict })
    };
    grants.into_iter().filter_map(chosen).collect()
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use bytes::Bytes;
    use uuid::Uuid;

    use super::*;
    use crate::domain::{Claimant, ClockLimits, Key, Reading, Store, Verdict, store_absent};
    use crate::ledger::policies::in_force::{InForce, PoliciesInForce};
    use crate::ledger::policies::table::Policies;
    use crate::store::{DuePlace, KeptMessage};

    /// A store that has lost commits hands nothing out, whatever the policies are: a message may have been processed before.
    #[test]
    fn store_that_lost_commits_hands_out_nothing() {
        let policy = Policy { inbox: true, ..Policy::default() };
        let policies = Policies::new(policy.clone(), BTreeMap::new());
        let live = PoliciesInForce::new(policies.clone(), InForce::unread(policies), Duration::MAX, false);
        let snapshot = live.snapshot();
        let now = StoreTime(1);
        let message = Store { fingerprint: Bytes::new(), occurred_at: None, traceparent: String::new() };
        let stored = store_absent(&Key::new("c", "s", "1"), &message, &policy, 1).0;
        let entry = stored.write.expect("it is stored");
        let place = DuePlace { at: now, key: entry.key.hash() };
        let command = || Claim {
            claimant: Claimant { claim_id: Uuid::nil(), principal: String::new(), owner: String::new() },
            lease: None,
            fingerprint: Bytes::new(),
            occurred_at: None,
            traceparent: String::new(),
            handed_out: true,
        };
        for (withheld, granted, refused) in [(false, 1, None), (true, 0, Some(Reason::StoreUnavailable))] {
            let job = LookJob {
                claim: Handout {
                    claim_id: Uuid::nil(),
                    consumer: "c".into(),
                    principal: String::new(),
                    owner: String::new(),
                    keys: Vec::new(),
                },
                command: command(),
                bounds: HandOutBounds { messages: 1, bytes: usize::MAX },
                until: Instant::now(),
                answer: oneshot::channel().0,
                cursor: Arc::default(),
            };
            let reading = Reading { now, token_offset: 0, mark: 0, limits: ClockLimits::NONE };
            let candidates = vec![Candidate { entry: Ok(entry.clone()), bytes: Some(1), place }];
            let choice = judged_by(&job, &snapshot, withheld)(&Due { reading, before: None, candidates });
            assert_eq!(choice.chosen.len(), granted, "{withheld}");
            assert_eq!(choice.refused.as_ref().map(|rejection| rejection.reason), refused, "{withheld}");
            let lost = choice.refused.is_some_and(|rejection| rejection.message.contains("lost commits"));
            assert_eq!(lost, withheld, "it says what an operator must do");
        }
    }

    #[test]
    fn repeat_that_is_answered_no_message_is_refused() {
        let now = StoreTime(1);
        let kept = || Some(KeptMessage { message: Bytes::new(), stored_at: now });
        for (repeated, messages, refused) in [
            (true, vec![None], true),
            (true, vec![None, kept()], false),
            (false, vec![None], false),
            (false, vec![], false),
        ] {
            let chosen = messages.iter().map(|_| Chosen {
                key: Key::new("c", "s", "1"),
                version: 1,
                verdict: Verdict::Suppressed { replay_run: String::new() },
            });
            let choice = Choice { chosen: chosen.collect(), repeated, ..Choice::default() };
            let reading = Reading { now, token_offset: 0, mark: 0, limits: ClockLimits::NONE };
            let count = messages.len();
            let looked = HandedOut { reading, choice, messages, full: false, next_due: None };
            let found = refused_without_messages(looked).choice.refused;
            assert_eq!(
                found.map(|rejection| rejection.reason),
                refused.then_some(Reason::ClaimClosed),
                "{repeated} {count}"
            );
        }
    }
}
