//! The policies in force: those of the file, and over them those that operators have set.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::rt::Instant;
use crate::domain::{Policy, Span, StoreTime, raised_floor};
use crate::store::{PolicyVersion, Remembered, Session, StoreError};

/// The name under which the default policy is remembered.
const DEFAULT: &str = "";

/// A default policy, and those of single consumers.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    default: Arc<Policy>,
    own: HashMap<String, Arc<Policy>>,
    /// The newest versions that operators have set, deleted ones included.
    set: HashMap<String, i32>,
    /// Consumers without a policy of their own that have a window floor of their own.
    floors: HashMap<String, Arc<Policy>>,
}

impl Policies {
    /// Policies that were validated.
    #[must_use]
    pub fn new(default: Policy, own: BTreeMap<String, Policy>) -> Policies {
        let own = own.into_iter().map(|(consumer, policy)| (consumer, Arc::new(policy))).collect();
        Policies { default: Arc::new(default), own, set: HashMap::new(), floors: HashMap::new() }
    }

    /// The policy of a consumer.
    #[must_use]
    pub fn of(&self, consumer: &str) -> Arc<Policy> {
        let own = self.own.get(consumer).or_else(|| self.floors.get(consumer));
        Arc::clone(own.unwrap_or(&self.default))
    }

    /// Whether the consumer has a policy of its own.
    #[must_use]
    pub fn registered(&self, consumer: &str) -> bool {
        self.own.contains_key(consumer)
    }

    /// The newest version that operators have set or deleted; 0: none ever.
    #[must_use]
    pub fn version(&self, consumer: &str) -> i32 {
        self.set.get(consumer).copied().unwrap_or(0)
    }

    /// Whether operators have set the policy that is in force.
    #[must_use]
    pub fn is_set(&self, consumer: &str) -> bool {
        let version = self.version(consumer);
        version > 0 && self.own.get(consumer).is_some_and(|own| own.version == version)
    }

    /// The consumers that have a policy of their own, by name.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.own.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// With what operators have set over it. A policy that can not be read leaves the one below it.
    pub(super) fn with(&self, set: &[PolicyVersion]) -> Policies {
        let mut all = self.clone();
        for one in set {
            all.set.insert(one.consumer.clone(), one.version);
            let Some(text) = &one.policy else { continue };
            match serde_json::from_str::<Policy>(text) {
                Ok(policy) => {
                    let policy = Policy { version: one.version, ..policy };
                    all.own.insert(one.consumer.clone(), Arc::new(policy));
                }
                Err(error) => {
                    tracing::error!(consumer = one.consumer, %error, "a stored policy can not be read");
                }
            }
        }
        all
    }

    /// With the window floors that are in force.
    fn with_floors(&self, remembered: &[Remembered]) -> Policies {
        let floors: HashMap<&str, StoreTime> =
            remembered.iter().map(|one| (one.consumer.as_str(), one.window_floor)).collect();
        let default_floor = floors.get(DEFAULT).copied().unwrap_or_default();
        let raised = |name: &str, policy: &Policy| {
            let floor = floors.get(name).copied().unwrap_or_default().max(default_floor);
            Arc::new(Policy { window_floor: floor, ..policy.clone() })
        };
        let own = self.own.iter().map(|(name, policy)| (name.clone(), raised(name, policy))).collect();
        // A consumer that lost its own policy keeps its floor.
        let lost = floors.iter().filter(|(name, floor)| {
            **floor > default_floor && !self.own.contains_key(**name) && **name != DEFAULT
        });
        let floors = lost.map(|(name, _)| ((*name).to_owned(), raised(name, &self.default))).collect();
        Policies { default: raised(DEFAULT, &self.default), own, set: self.set.clone(), floors }
    }
}

/// Puts policies in force against a store that may have seen others before: where a consumer's
/// effective retention got longer, its window floor rises, so that nothing that was purged under
/// the old one comes back as new. Contract, section 8.
///
/// # Errors
/// Those of the store.
pub async fn adopt(file: &Policies, session: &mut dyn Session) -> Result<Policies, StoreError> {
    let policies = file.with(&session.policies().await?);
    let (reading, remembered) = session.remembered().await?;
    let before: HashMap<&str, &Remembered> =
        remembered.iter().map(|one| (one.consumer.as_str(), one)).collect();
    let mut names: Vec<&str> = policies.own.keys().map(String::as_str).collect();
    names.extend(before.keys().filter(|name| !policies.own.contains_key(**name)));
    names.push(DEFAULT);
    names.sort_unstable();
    names.dedup();
    let mut news = Vec::new();
    for name in names {
        let own = name == DEFAULT || policies.registered(name);
        let policy = if name == DEFAULT { Arc::clone(&policies.default) } else { policies.of(name) };
        let now = in_force(&remembered, name, own, policy.retention, reading.now);
        if before.get(name) != Some(&&now) {
            news.push(now);
        }
    }
    for part in news.chunks(crate::store::ROWS_MAX) {
        session.remember(part).await?;
    }
    load(file, session).await
}

/// What is to be remembered once a consumer's effective retention is this one.
pub(super) fn in_force(
    remembered: &[Remembered],
    consumer: &str,
    own: bool,
    retention: Span,
    now: StoreTime,
) -> Remembered {
    let before = |name: &str| remembered.iter().find(|one| one.consumer == name);
    let floor_of = |name: &str| before(name).map_or(StoreTime(0), |one| one.window_floor);
    let old = before(consumer).and_then(|one| one.retention);
    let old = old.or_else(|| before(DEFAULT).and_then(|one| one.retention));
    let floor = match old {
        None => floor_of(consumer),
        Some(old) => raised_floor(floor_of(consumer).max(floor_of(DEFAULT)), old, retention, now),
    };
    Remembered { consumer: consumer.to_owned(), retention: own.then_some(retention), window_floor: floor }
}

/// The policies in force, as the store has them now.
async fn load(file: &Policies, session: &mut dyn Session) -> Result<Policies, StoreError> {
    let set = session.policies().await?;
    let (_, remembered) = session.remembered().await?;
    Ok(file.with(&set).with_floors(&remembered))
}

/// The policies that this replica goes by, and those of its file, which are below them.
pub(super) struct Live {
    pub(super) file: Policies,
    current: RwLock<(Arc<Policies>, Instant)>,
    /// One at a time reads them, so that an older reading never takes the place of a newer one.
    refreshing: tokio::sync::Mutex<()>,
    /// For how long they are good once they were read.
    trusted_for: Duration,
}

impl Live {
    pub(super) fn new(file: Policies, current: Policies, trusted_for: Duration) -> Live {
        let current = RwLock::new((Arc::new(current), Instant::now()));
        Live { file, current, refreshing: tokio::sync::Mutex::default(), trusted_for }
    }

    /// Takes over what the store has now, whichever replica it was set by.
    pub(super) async fn refresh(&self, session: &mut dyn Session) -> Result<Arc<Policies>, StoreError> {
        let _one_at_a_time = self.refreshing.lock().await;
        let asked_at = Instant::now();
        let policies = Arc::new(load(&self.file, session).await?);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = (Arc::clone(&policies), asked_at);
        Ok(policies)
    }

    /// They were read not long ago. Else nobody knows whether a consumer has been put on hold since.
    pub(super) fn trusted(&self) -> bool {
        let asked_at = self.current.read().unwrap_or_else(PoisonError::into_inner).1;
        asked_at.elapsed() < self.trusted_for
    }

    pub(super) fn current(&self) -> Arc<Policies> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).0)
    }

    pub(super) fn of(&self, consumer: &str) -> Arc<Policy> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).0.of(consumer)
    }

    pub(super) fn registered(&self, consumer: &str) -> bool {
        self.current.read().unwrap_or_else(PoisonError::into_inner).0.registered(consumer)
    }
}
