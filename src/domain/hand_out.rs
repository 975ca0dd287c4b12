//! The choice of a `ClaimNext`: which of the messages that are due are granted to one claim. docs/contract.md, section 15.

use super::command::{Claim, Command};
use super::context::Context;
use super::{Entry, Policy, Reading, Reason, Rejection, Reply, Verdict, decide};

/// How much one handout may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOutBounds {
    /// Messages.
    pub messages: usize,
    /// Bytes of messages. A single message may have more.
    pub bytes: usize,
}

/// An entry that is due, and the size of its message.
#[derive(Clone, Copy, Debug)]
pub struct DueEntry<'a> {
    /// The entry.
    pub entry: &'a Entry,
    /// Bytes of its message.
    pub bytes: usize,
}

/// A message that is handed out.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// The entry to write where the version is still the one that was read. `None` if the same claim holds it already.
    pub write: Option<Entry>,
    /// Its position in the list of candidates.
    pub place: usize,
    /// `acquired`.
    pub verdict: Verdict,
}

/// What one look hands out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HandOut {
    /// The messages, in the order of the candidates.
    pub grants: Vec<Grant>,
    /// The entries that are parked in place of a grant, and are handed to no claim.
    pub parked: Vec<Entry>,
    /// The number of candidates, from the first on, that this look is done with: the cursor passes them.
    pub passed: usize,
    /// Why the first candidate that could be handed out was not; only where nothing is handed out.
    pub refused: Option<Rejection>,
}

/// Chooses from the candidates, which are in the order in which they are due. Each is decided as a Claim of `claim`. A candidate
/// whose lease ran out twice in a row is handed out alone: it may kill the workers that process it.
#[must_use]
pub fn hand_out(
    candidates: &[DueEntry<'_>],
    claim: &Claim,
    bounds: HandOutBounds,
    policy: &Policy,
    reading: &Reading,
) -> HandOut {
    let mut chosen = HandOut::default();
    let mut bytes: usize = 0;
    for (place, (due, position)) in candidates.iter().zip(1..).enumerate() {
        if chosen.grants.len() >= bounds.messages {
            break;
        }
        let context = Context::at(reading, policy, position);
        let decision = decide(&due.entry.key, Some(due.entry), &Command::Claim(claim.clone()), &context);
        match (decision.answer, decision.write) {
            (Ok(Reply::Verdict(verdict @ Verdict::Acquired { .. })), write) => {
                let is_alone = due.entry.is_suspect(reading.now);
                let is_first = chosen.grants.is_empty();
                let fits = bytes.saturating_add(due.bytes) <= bounds.bytes;
                if !is_first && (is_alone || !fits) {
                    break;
                }
                bytes = bytes.saturating_add(due.bytes);
                chosen.grants.push(Grant { write, place, verdict });
                chosen.passed = place + 1;
                if is_alone {
                    break;
                }
            }
            (Ok(_), write) => {
                chosen.parked.extend(write);
                chosen.passed = place + 1;
            }
            // One entry that no claim can get must not hold up those behind it.
            (Err(rejection), _) if rejection.reason == Reason::EntryUnreadable => chosen.passed = place + 1,
            (Err(rejection), _) => {
                chosen.refused = chosen.grants.is_empty().then_some(rejection);
                break;
            }
        }
    }
    chosen
}

/// The messages of an earlier handout of this claim that it still holds: those that the same claim is answered with `acquired`.
#[must_use]
pub fn hand_out_again(
    entries: &[DueEntry<'_>],
    claim: &Claim,
    policy: &Policy,
    reading: &Reading,
) -> Vec<Grant> {
    let grant = |(place, (due, position)): (usize, (&DueEntry<'_>, i64))| {
        if due.entry.effect_started {
            return None;
        }
        let context = Context::at(reading, policy, position);
        let decision = decide(&due.entry.key, Some(due.entry), &Command::Claim(claim.clone()), &context);
        match decision.answer {
            Ok(Reply::Verdict(verdict @ Verdict::Acquired { replayed: true, .. })) => {
                Some(Grant { write: decision.write, place, verdict })
            }
            Ok(_) | Err(_) => None,
        }
    };
    entries.iter().zip(1..).enumerate().filter_map(grant).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use uuid::Uuid;

    use super::*;
    use crate::{Claimant, ClockLimits, ClosedBy, Key, ParkCause, State, StoreTime};

    const NOW: StoreTime = StoreTime(1_780_000_000_000_000);

    fn claim() -> Claim {
        Claim {
            claimant: Claimant { claim_id: Uuid::from_u128(1), principal: "p".into(), owner: "o".into() },
            lease: None,
            fingerprint: Bytes::new(),
            occurred_at: None,
            traceparent: String::new(),
            handed_out: true,
        }
    }

    fn reading() -> Reading {
        Reading { now: NOW, token_offset: 0, mark: 0, limits: ClockLimits::NONE }
    }

    fn received(policy: &Policy) -> Entry {
        let mut entry = Entry::blank(&Key::new("c", "s", "1"), policy, NOW);
        (entry.version, entry.closed_by, entry.closed_at) = (1, ClosedBy::Store, Some(NOW));
        entry
    }

    /// An entry whose attempts are used up is parked in place of its grant.
    fn exhausted(policy: &Policy) -> Entry {
        let attempts = policy.max_attempts;
        Entry {
            state: State::FailedRetryable,
            closed_by: ClosedBy::FailRetryable,
            attempts,
            ..received(policy)
        }
    }

    /// The cursor passes all candidates that were granted or parked, or that no claim can get, and no other one.
    #[test]
    fn hand_out_passes_the_granted_and_the_parked() {
        let policy = Policy { max_attempts: 3, ..Policy::default() };
        let (due, used_up) = (received(&policy), exhausted(&policy));
        let damaged = Entry { token: crate::TOKEN_MAX, ..due.clone() };
        for (candidates, messages, places, parked, passed) in [
            (vec![], 9, vec![], 0, 0),
            (vec![(&due, 10)], 9, vec![0], 0, 1),
            (vec![(&used_up, 10)], 9, vec![], 1, 1),
            (vec![(&used_up, 10), (&due, 10), (&used_up, 10)], 9, vec![1], 2, 3),
            // No claim can get it, and it does not hold up the others.
            (vec![(&damaged, 10), (&due, 10), (&damaged, 10)], 9, vec![1], 0, 3),
            (vec![(&due, 10), (&due, 10), (&due, 10)], 2, vec![0, 1], 0, 2),
            // 100 bytes are allowed, and a first message of any size.
            (vec![(&due, 60), (&due, 40), (&due, 1)], 9, vec![0, 1], 0, 2),
            (vec![(&due, 101), (&due, 1)], 9, vec![0], 0, 1),
        ] {
            let entries: Vec<_> =
                candidates.iter().map(|&(entry, bytes)| DueEntry { entry, bytes }).collect();
            let bounds = HandOutBounds { messages, bytes: 100 };
            let found = hand_out(&entries, &claim(), bounds, &policy, &reading());
            let granted: Vec<_> = found.grants.iter().map(|grant| grant.place).collect();
            assert_eq!((granted, found.parked.len(), found.passed), (places, parked, passed));
            assert!(found.parked.iter().all(|one| one.state == State::Parked(ParkCause::AttemptsExhausted)));
            assert_eq!(found.refused, None);
        }
    }

    /// Attempts that may kill their worker are made alone.
    #[test]
    fn candidate_whose_lease_ran_out_twice_is_handed_out_alone() {
        let policy = Policy::default();
        let due = received(&policy);
        let mut suspect = due.clone();
        suspect.claimant = Some(claim().claimant);
        suspect.closed_by = ClosedBy::Open;
        suspect.lease_until = NOW - policy.reclaim_grace;
        suspect.state = State::InProgress;
        let once = suspect.clone();
        suspect.remember(NOW);
        for (candidates, places) in [
            ([&suspect, &due], vec![0]),
            ([&due, &suspect], vec![0]),
            ([&once, &due], vec![0, 1]),
            ([&due, &once], vec![0, 1]),
        ] {
            let entries = candidates.map(|entry| DueEntry { entry, bytes: 1 });
            let other =
                Claim { claimant: Claimant { claim_id: Uuid::from_u128(2), ..claim().claimant }, ..claim() };
            let found =
                hand_out(&entries, &other, HandOutBounds { messages: 9, bytes: 9 }, &policy, &reading());
            assert_eq!(found.grants.iter().map(|grant| grant.place).collect::<Vec<_>>(), places);
            assert_eq!(found.passed, places.len());
        }
    }

    /// Two candidates have two tokens, at positions from one on.
    #[test]
    fn tokens_of_a_handout_differ_by_their_positions() {
        let policy = Policy::default();
        let due = received(&policy);
        let entries = [DueEntry { entry: &due, bytes: 1 }; 2];
        let found =
            hand_out(&entries, &claim(), HandOutBounds { messages: 9, bytes: 9 }, &policy, &reading());
        let tokens: Vec<_> =
            found.grants.iter().filter_map(|grant| Some(grant.write.as_ref()?.token)).collect();
        assert_eq!(tokens, [NOW.micros() + 1, NOW.micros() + 2]);
    }

    /// A repeat is answered what its claim still holds, and was not begun.
    #[test]
    fn hand_out_again_returns_what_the_claim_still_holds() {
        let policy = Policy::default();
        let held = |started| {
            let entry = received(&policy);
            let decision = decide(
                &entry.key,
                Some(&entry),
                &Command::Claim(claim()),
                &Context::at(&reading(), &policy, 1),
            );
            Entry { effect_started: started, ..decision.write.unwrap() }
        };
        let (waiting, begun, free) = (held(false), held(true), received(&policy));
        let entries = [&begun, &waiting, &free, &waiting].map(|entry| DueEntry { entry, bytes: 1 });
        let found = hand_out_again(&entries, &claim(), &policy, &reading());
        assert_eq!(found.iter().map(|grant| grant.place).collect::<Vec<_>>(), [1, 3]);
    }
}
