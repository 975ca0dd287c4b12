//! The safety check during the load: no message is granted to two claims at the same time, and the tokens of
//! a message grow.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::keys::{Message, MessageState, Names};
use crate::cli::text::clean;
use crate::proto;

/// Further faults are counted, but not described.
const DESCRIBED_MAX: usize = 5;

/// Answers that the ledger must never give.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) count: u64,
    /// Descriptions of the first of them.
    pub(super) descriptions: Vec<String>,
}

/// The state of a hot key.
#[derive(Clone, Copy, Debug, Default)]
struct HotKey {
    /// A claim is held, and its release has not been sent yet.
    live: bool,
    token: i64,
}

/// The grants of a run.
#[derive(Debug)]
pub(super) struct Grants {
    hot: Vec<Mutex<HotKey>>,
    faults: Mutex<Faults>,
}

impl Grants {
    pub(super) fn new(hot_keys: u32) -> Grants {
        let hot = (0..hot_keys).map(|_| Mutex::default()).collect();
        Grants { hot, faults: Mutex::default() }
    }

    /// Records a grant. The answer that grants a hot key must be recorded before the claim is released: until
    /// then no other claim can be granted, however late an answer arrives. Returns whether it was the key's
    /// first grant.
    pub(super) fn granted(&self, names: &Names, key: &Message, grant: &proto::Acquired) -> bool {
        match key.kind {
            MessageState::Fresh => {
                if grant.token <= 0 {
                    self.fault(names, key, &format!("granted with the token {}", grant.token));
                }
                true
            }
            MessageState::Done => {
                self.fault(names, key, &format!("granted (token {}) after it was completed", grant.token));
                false
            }
            MessageState::Hot(place) => {
                let Some(mut held) = self.held(place) else { return false };
                let before = *held;
                *held = HotKey { live: true, token: grant.token.max(before.token) };
                drop(held);
                if grant.token <= before.token {
                    let text = format!("granted with the token {} after {}", grant.token, before.token);
                    self.fault(names, key, &text);
                } else if before.live && !grant.effect_unknown {
                    // `effect_unknown` means that the lease of the other claim was over.
                    let text = format!(
                        "granted twice: token {} while the claim with token {} was held",
                        grant.token, before.token
                    );
                    self.fault(names, key, &text);
                }
                before.token == 0
            }
        }
    }

    /// Records that the claim is about to be released: from now on another claim may be granted.
    pub(super) fn given_back(&self, key: &Message) {
        if let MessageState::Hot(place) = key.kind
            && let Some(mut held) = self.held(place)
        {
            held.live = false;
        }
    }

    fn held(&self, place: u32) -> Option<MutexGuard<'_, HotKey>> {
        let held = self.hot.get(usize::try_from(place).ok()?)?;
        Some(held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records an answer that the ledger must never give.
    pub(super) fn fault(&self, names: &Names, key: &Message, what: &str) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.count += 1;
        if faults.descriptions.len() < DESCRIBED_MAX {
            let message = names.message(key);
            faults
                .descriptions
                .push(clean(&format!("{} {} {}: {what}", message.consumer, message.source, message.id)));
        }
    }

    pub(super) fn faults(&self) -> Faults {
        std::mem::take(&mut *self.faults.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::ids::Ids;

    /// Grants by token, with a `+` where the lease of the previous claim was over; `b` releases the claim.
    fn descriptions(kind: MessageState, story: &str) -> Vec<String> {
        let (names, grants) = (Names::new(Ids::Random, 1, 1), Grants::new(2));
        let key = names.key(kind);
        for step in story.split_whitespace() {
            if step == "b" {
                grants.given_back(&key);
                continue;
            }
            let token = step.trim_start_matches('+').parse().unwrap();
            let effect_unknown = step.starts_with('+');
            grants.granted(
                &names,
                &key,
                &proto::Acquired { token, effect_unknown, ..proto::Acquired::default() },
            );
        }
        let described = grants.faults().descriptions;
        described.iter().map(|text| text.split_once(": ").unwrap().1.to_owned()).collect()
    }

    #[test]
    fn double_grant_is_a_fault() {
        for (kind, story, says) in [
            (MessageState::Fresh, "7", &[][..]),
            (MessageState::Fresh, "0", &["granted with the token 0"]),
            (MessageState::Done, "7", &["granted (token 7) after it was completed"]),
            (MessageState::Hot(0), "7 b 8 b 9", &[]),
            (MessageState::Hot(1), "7 8", &["granted twice: token 8 while the claim with token 7 was held"]),
            (MessageState::Hot(1), "7 b 7", &["granted with the token 7 after 7"]),
            (MessageState::Hot(1), "7 b 6 b 8", &["granted with the token 6 after 7"]),
            (
                MessageState::Hot(1),
                "7 b 6 b 7",
                &["granted with the token 6 after 7", "granted with the token 7 after 7"],
            ),
            // The lease of the first claim was over.
            (MessageState::Hot(0), "7 +8 b 9", &[]),
            (MessageState::Hot(0), "7 +7", &["granted with the token 7 after 7"]),
        ] {
            assert_eq!(descriptions(kind, story), says, "{story}");
        }
    }

    #[test]
    fn faults_are_counted_and_the_first_described() {
        let (names, grants) = (Names::new(Ids::Random, 1, 1), Grants::new(0));
        for _ in 0..100 {
            grants.fault(&names, &names.key(MessageState::Fresh), "bad");
        }
        let faults = grants.faults();
        assert_eq!((faults.count, faults.descriptions.len()), (100, DESCRIBED_MAX));
    }
}
