//! Whether the ledger keeps its promise under this load: no message is granted to two at once, and the tokens of a
//! message grow.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::keys::{Key, Kind, Names};
use crate::cli::text::clean;
use crate::proto;

/// More faults are counted, not told.
const TOLD_MAX: usize = 5;

/// Answers that the ledger must never give.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) count: u64,
    /// The first of them.
    pub(super) told: Vec<String>,
}

/// What is known of a key that many claim.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Somebody has the claim, and has not begun to give it back.
    live: bool,
    token: i64,
}

/// The grants of a run.
#[derive(Debug)]
pub(super) struct Grants {
    hot: Vec<Mutex<Held>>,
    faults: Mutex<Faults>,
}

impl Grants {
    pub(super) fn new(hot_keys: u32) -> Grants {
        let hot = (0..hot_keys).map(|_| Mutex::default()).collect();
        Grants { hot, faults: Mutex::default() }
    }

    /// A claim was granted. Of a key with many claims the answer that grants it must be judged before the claim is
    /// given back: nobody else can be granted it before that, however late an answer comes. Says whether it was the
    /// key's first grant.
    pub(super) fn granted(&self, names: &Names, key: &Key, grant: &proto::Acquired) -> bool {
        match key.kind {
            Kind::Fresh => {
                if grant.token <= 0 {
                    self.fault(names, key, &format!("granted with the token {}", grant.token));
                }
                true
            }
            Kind::Done => {
                self.fault(names, key, &format!("granted (token {}) after it was completed", grant.token));
                false
            }
            Kind::Hot(place) => {
                let Some(mut held) = self.held(place) else { return false };
                let before = *held;
                *held = Held { live: true, token: grant.token.max(before.token) };
                drop(held);
                if grant.token <= before.token {
                    let text = format!("granted with the token {} after {}", grant.token, before.token);
                    self.fault(names, key, &text);
                } else if before.live && !grant.effect_unknown {
                    // With `effect_unknown` the lease of the other claim was over.
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

    /// From here on somebody else may be granted the key.
    pub(super) fn given_back(&self, key: &Key) {
        if let Kind::Hot(place) = key.kind
            && let Some(mut held) = self.held(place)
        {
            held.live = false;
        }
    }

    fn held(&self, place: u32) -> Option<MutexGuard<'_, Held>> {
        let held = self.hot.get(usize::try_from(place).ok()?)?;
        Some(held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The ledger gave an answer that it must never give.
    pub(super) fn fault(&self, names: &Names, key: &Key, what: &str) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.count += 1;
        if faults.told.len() < TOLD_MAX {
            let message = names.message(key);
            faults
                .told
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

    /// Grants by token, `+` with the lease of the claim before over; `b`: the claim is given back.
    fn told(kind: Kind, story: &str) -> Vec<String> {
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
        let told = grants.faults().told;
        told.iter().map(|text| text.split_once(": ").unwrap().1.to_owned()).collect()
    }

    #[test]
    fn a_ledger_that_grants_twice_is_seen() {
        for (kind, story, says) in [
            (Kind::Fresh, "7", &[][..]),
            (Kind::Fresh, "0", &["granted with the token 0"]),
            (Kind::Done, "7", &["granted (token 7) after it was completed"]),
            (Kind::Hot(0), "7 b 8 b 9", &[]),
            (Kind::Hot(1), "7 8", &["granted twice: token 8 while the claim with token 7 was held"]),
            (Kind::Hot(1), "7 b 7", &["granted with the token 7 after 7"]),
            (Kind::Hot(1), "7 b 6 b 8", &["granted with the token 6 after 7"]),
            (
                Kind::Hot(1),
                "7 b 6 b 7",
                &["granted with the token 6 after 7", "granted with the token 7 after 7"],
            ),
            // The lease of the first was over.
            (Kind::Hot(0), "7 +8 b 9", &[]),
            (Kind::Hot(0), "7 +7", &["granted with the token 7 after 7"]),
        ] {
            assert_eq!(told(kind, story), says, "{story}");
        }
    }

    #[test]
    fn many_faults_are_counted_and_few_are_told() {
        let (names, grants) = (Names::new(Ids::Random, 1, 1), Grants::new(0));
        for _ in 0..100 {
            grants.fault(&names, &names.key(Kind::Fresh), "bad");
        }
        let faults = grants.faults();
        assert_eq!((faults.count, faults.told.len()), (100, TOLD_MAX));
    }
}
