//! The policies in force.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::domain::{Policy, StoreTime, raised_floor};
use crate::store::{Remembered, Session, StoreError};

/// The policies in force: a default, and those of single consumers.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    default: Arc<Policy>,
    own: HashMap<String, Arc<Policy>>,
    registered: HashSet<String>,
}

impl Policies {
    /// Policies that were validated.
    #[must_use]
    pub fn new(default: Policy, own: BTreeMap<String, Policy>) -> Policies {
        let registered = own.keys().cloned().collect();
        let own = own.into_iter().map(|(consumer, policy)| (consumer, Arc::new(policy))).collect();
        Policies { default: Arc::new(default), own, registered }
    }

    /// The policy of a consumer.
    #[must_use]
    pub fn of(&self, consumer: &str) -> Arc<Policy> {
        Arc::clone(self.own.get(consumer).unwrap_or(&self.default))
    }

    /// Whether the consumer has a policy of its own.
    #[must_use]
    pub fn registered(&self, consumer: &str) -> bool {
        self.registered.contains(consumer)
    }
}

/// Puts policies in force against a store that may have seen others before: where a consumer's
/// effective retention got longer, its window floor rises, so that nothing that was purged under
/// the old one comes back as new. Contract, section 8.
///
/// # Errors
/// Those of the store.
pub async fn adopt(policies: &Policies, session: &mut dyn Session) -> Result<Policies, StoreError> {
    const DEFAULT: &str = "";
    let (reading, remembered) = session.remembered().await?;
    let before: HashMap<&str, &Remembered> =
        remembered.iter().map(|one| (one.consumer.as_str(), one)).collect();
    let old_default = before.get(DEFAULT).and_then(|one| one.retention);
    let floor_of = |consumer: &str| before.get(consumer).map_or(StoreTime(0), |one| one.window_floor);

    let mut names: Vec<&str> = policies.own.keys().map(String::as_str).collect();
    names.extend(before.keys().filter(|name| !policies.own.contains_key(**name)));
    names.push(DEFAULT);
    names.sort_unstable();
    names.dedup();
    let mut floors: HashMap<&str, StoreTime> = HashMap::new();
    let mut news = Vec::new();
    for name in names {
        let policy = if name == DEFAULT { Arc::clone(&policies.default) } else { policies.of(name) };
        let old = before.get(name).and_then(|one| one.retention).or(old_default);
        let floor = match old {
            None => floor_of(name),
            Some(old) => {
                raised_floor(floor_of(name).max(floor_of(DEFAULT)), old, policy.retention, reading.now)
            }
        };
        floors.insert(name, floor);
        let own = name == DEFAULT || policies.registered(name);
        let now = Remembered {
            consumer: name.to_owned(),
            retention: own.then_some(policy.retention),
            window_floor: floor,
        };
        if before.get(name) != Some(&&now) {
            news.push(now);
        }
    }
    for part in news.chunks(crate::store::ROWS_MAX) {
        session.remember(part).await?;
    }

    let default_floor = floors.get(DEFAULT).copied().unwrap_or_default();
    let with_floor = |name: &str, policy: &Policy| {
        let floor = floors.get(name).copied().unwrap_or_default().max(default_floor);
        Arc::new(Policy { window_floor: floor, ..policy.clone() })
    };
    let mut own: HashMap<String, Arc<Policy>> =
        policies.own.iter().map(|(name, policy)| (name.clone(), with_floor(name, policy))).collect();
    // A consumer that lost its own policy keeps its floor.
    for (name, floor) in &floors {
        if *floor > default_floor && !own.contains_key(*name) && *name != DEFAULT {
            own.insert((*name).to_owned(), with_floor(name, &policies.default));
        }
    }
    let default = with_floor(DEFAULT, &policies.default);
    Ok(Policies { default, own, registered: policies.registered.clone() })
}
