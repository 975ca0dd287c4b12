//! The messages and the handouts that the store in memory keeps.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use crate::domain::{Body, Entry, Key, KeyHash, StoreTime};
use crate::store::{Handout, KeptMessage};

#[derive(Default)]
pub(super) struct Messages {
    /// The message of each key, with its generation: the version that its entry had when it was stored.
    pub(super) kept: HashMap<KeyHash, (i64, KeptMessage)>,
    /// All messages that were ever stored, each with the number of looks before it.
    pub(super) stored: Vec<(Key, KeptMessage, usize)>,
    /// The number of looks for messages.
    pub(super) looks: usize,
    /// The handouts, and when they were made.
    handouts: HashMap<Uuid, (StoreTime, Handout)>,
    /// The rows that a transaction has locked in order to hand them out.
    pub(super) locked: HashSet<KeyHash>,
}

impl Messages {
    pub(super) fn of(&self, key: KeyHash) -> Option<KeptMessage> {
        self.kept.get(&key).map(|(_, message)| message.clone())
    }

    pub(super) fn handout(&self, claim_id: Uuid) -> Option<&Handout> {
        self.handouts.get(&claim_id).map(|(_, handout)| handout)
    }

    /// Records a handout; returns whether the claim had none.
    pub(super) fn hand_out(&mut self, handout: Handout, now: StoreTime) -> bool {
        let is_new = !self.handouts.contains_key(&handout.claim_id);
        if is_new {
            self.handouts.insert(handout.claim_id, (now, handout));
        }
        is_new
    }

    pub(super) fn forget_handouts(&mut self, before: StoreTime) -> usize {
        let count = self.handouts.len();
        self.handouts.retain(|_, (at, _)| *at >= before);
        count - self.handouts.len()
    }

    /// Whether this very message was stored under this key.
    pub(super) fn were_stored(&self, key: &Key, message: &KeptMessage) -> bool {
        self.stored.iter().any(|(of, stored, _)| of == key && stored == message)
    }

    /// Whether the entry has its message, if it must have one.
    pub(super) fn are_kept_for(&self, entry: &Entry) -> bool {
        let is_there = |(generation, _): &(i64, KeptMessage)| *generation <= entry.version;
        entry.body != Some(Body::Kept) || self.kept.get(&entry.key.hash()).is_some_and(is_there)
    }

    /// The number of looks before the first message of this key was stored.
    pub(super) fn looks_before(&self, key: &Key) -> Option<usize> {
        self.stored.iter().find(|(of, ..)| of == key).map(|(_, _, looks)| *looks)
    }

    pub(super) fn bytes(&self) -> usize {
        self.kept.values().map(|(_, kept)| kept.message.len()).sum()
    }
}

/// The number that a Store has left in its message.
pub(super) fn number_of(message: &[u8]) -> Option<u64> {
    std::str::from_utf8(message).ok()?.parse().ok()
}
