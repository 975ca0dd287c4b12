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
