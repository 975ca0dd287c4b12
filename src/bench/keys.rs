//! The messages of a run: their consumers and their names.

use uuid::Uuid;

use super::ids::{Ids, Maker, uuid_text};
use crate::common::random;
use crate::proto;

/// The prefix of the name of each consumer that a run writes under.
const CONSUMER: &str = "bench-";
const SOURCE: &str = "bench";
const OWNER_BYTES_MAX: usize = 128;

/// The state of a message before it is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageState {
    /// It was never claimed.
    Fresh,
    /// It was completed before the run.
    Done,
    /// Other calls claim it too: the index of the hot key.
    Hot(u32),
}

/// A message; small, so that its texts are not kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    id: Uuid,
    consumer: u32,
    pub(super) kind: MessageState,
}

/// Names the messages of a run.
#[derive(Debug)]
pub(super) struct Names {
    ids: Maker,
    consumers: Vec<String>,
    pub(super) owner: String,
}

impl Names {
    /// For this number of consumers, numbered from `first` on.
    pub(super) fn new(ids: Ids, first: u32, consumers: u32) -> Names {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host: String = host.chars().filter(|c| !c.is_control()).collect();
        let process = std::process::id().to_string();
        let room = OWNER_BYTES_MAX - CONSUMER.len() - process.len() - 1;
        let host = &host[..host.floor_char_boundary(room)];
        Names {
            ids: Maker::new(ids),
            consumers: (first..first.saturating_add(consumers))
                .map(|number| format!("{CONSUMER}{number}"))
                .collect(),
            owner: format!("{CONSUMER}{host}-{process}"),
        }
    }

    /// The consumers, as text for people.
    pub(super) fn consumers(&self) -> String {
        match &self.consumers[..] {
            [first, .., last] => format!("{first} to {last}"),
            [only] => only.clone(),
            [] => String::new(),
        }
    }

    /// A message whose name was not used before.
    pub(super) fn key(&self, kind: MessageState) -> Message {
        let id = self.ids.make();
        Message { id, consumer: below(id, u32::try_from(self.consumers.len()).unwrap_or(1)), kind }
    }

    pub(super) fn message(&self, key: &Message) -> proto::EntryKey {
        let consumer = usize::try_from(key.consumer).ok().and_then(|place| self.consumers.get(place));
        proto::EntryKey {
            consumer: consumer.cloned().unwrap_or_default(),
            source: SOURCE.to_owned(),
            id: self.ids.text(key.id),
            ..proto::EntryKey::default()
        }
    }

    /// A delivery of the message: each has its own claim id.
    pub(super) fn claim(&self, key: &Message) -> proto::ClaimRequest {
        proto::ClaimRequest {
            key: Some(self.message(key)),
            claim_id: uuid_text(random::id()),
            owner: self.owner.clone(),
            ..proto::ClaimRequest::default()
        }
    }
}

/// A number below `bound`, from the random end of an id.
pub(super) fn below(id: Uuid, bound: u32) -> u32 {
    let (_, low) = id.as_u64_pair();
    // The low 32 bits have no version and no variant.
    u32::try_from(low & u64::from(u32::MAX)).unwrap_or(0) % bound.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_has_a_name_of_the_run() {
        for (ids, version) in [(Ids::Random, 4), (Ids::V7, 7)] {
            let names = Names::new(ids, 1, 3);
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..200 {
                let key = names.key(MessageState::Fresh);
                let (one, again) = (names.claim(&key), names.claim(&key));
                assert_eq!(one.key, again.key);
                assert_ne!(one.claim_id, again.claim_id);
                let message = one.key.unwrap();
                assert_eq!(Uuid::try_parse(&message.id).unwrap().get_version_num(), version);
                assert_eq!(Uuid::try_parse(&one.claim_id).unwrap().get_version_num(), 4);
                seen.insert(message.consumer);
            }
            assert_eq!(Vec::from_iter(seen), ["bench-1", "bench-2", "bench-3"], "{ids:?}");
            assert!(names.owner.starts_with("bench-") && names.owner.len() <= OWNER_BYTES_MAX);
            assert!(names.owner.ends_with(&format!("-{}", std::process::id())));
        }
        assert_eq!(Names::new(Ids::V7, 1, 1).consumers(), "bench-1");
        assert_eq!(Names::new(Ids::V7, 1, 9).consumers(), "bench-1 to bench-9");
        assert_eq!(Names::new(Ids::V7, 7, 9).consumers(), "bench-7 to bench-15");
    }
}
