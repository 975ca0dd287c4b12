//! The policies in force: those of the file, overridden by those that operators have set.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::domain::{
    Doubt, Hold, Key, Namespace, Policy, PolicyVersion, ReplayRun, RunCounts, Span, Standing, StoreTime,
    raised_floor,
};
use crate::store::EffectiveRetention;

/// The name under which the default policy's retention is stored.
pub(super) const DEFAULT: &str = "";

/// A default policy, and those of single consumers.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    default: Arc<Policy>,
    own: HashMap<String, Arc<Policy>>,
    /// The last version that operators have set for each consumer, deletions included.
    set: HashMap<String, Set>,
    /// The consumers of `set` whose policies cannot be read: each heartbeat counts them. A walk over 30,000 policies for this count took
    /// a replica of the tests 7.4 to 11.4 % of a core, this set 2.8 % (`proof::live::policy_costs`).
    unreadable: BTreeSet<String>,
    /// Consumers without a policy that have a window floor.
    floors: HashMap<String, Arc<Policy>>,
    /// The standing of replay runs, by the names of their namespaces.
    runs: HashMap<Box<str>, Standing>,
    /// Number of runs that each principal has created.
    run_creators: HashMap<Box<str>, usize>,
    /// The holds in force.
    holds: Arc<[Hold]>,
    /// For each hold, the widest first: the policy of the held consumers that have no policy.
    held: Vec<(Arc<str>, Arc<Policy>)>,
}

/// The last version that operators have set for a consumer.
#[derive(Clone, Debug)]
struct Set {
    version: i32,
    /// The stored form; `None` if the policy was deleted.
    json: Option<Arc<str>>,
    /// The policy. If it cannot be read: the last one that could be, in doubt.
    policy: Option<Arc<Policy>>,
    /// Why it cannot be read; `None` if it can.
    problem: Option<Arc<str>>,
}

impl Set {
    fn new(newest: &PolicyVersion, before: Option<&Set>, file: &Policies) -> Set {
        let version = newest.version;
        let Some(json) = &newest.policy else {
            return Set { version, json: None, policy: None, problem: None };
        };
        let (policy, problem) = match Policy::from_stored(json) {
            Ok(policy) => (Policy { version, ..policy }, None),
            Err(error) => {
                let last = before.and_then(|before| before.policy.clone());
                let last = last.unwrap_or_else(|| file.of(&newest.consumer));
                let policy = Policy { doubt: Doubt::Unreadable, ..Policy::clone(&last) };
                (policy, Some(Arc::from(error.to_string())))
            }
        };
        Set { version, json: Some(Arc::from(json.as_str())), policy: Some(Arc::new(policy)), problem }
    }

    /// Whether it is the same version: then it is not parsed again.
    fn is(&self, newest: &PolicyVersion) -> bool {
        self.version == newest.version && self.json.as_deref() == newest.policy.as_deref()
    }
}

/// A stored policy that this replica cannot read.
pub(super) struct Unreadable<'a> {
    pub(super) consumer: &'a str,
    pub(super) version: i32,
    pub(super) problem: &'a str,
}

impl Policies {
    /// Policies that were validated.
    #[must_use]
    pub fn new(default: Policy, own: BTreeMap<String, Policy>) -> Policies {
        let own = own.into_iter().map(|(consumer, policy)| (consumer, Arc::new(policy))).collect();
        Policies {
            default: Arc::new(default),
            own,
            set: HashMap::new(),
            unreadable: BTreeSet::new(),
            floors: HashMap::new(),
            runs: HashMap::new(),
            run_creators: HashMap::new(),
            holds: Arc::default(),
            held: Vec::new(),
        }
    }

    /// The policy of a consumer.
    #[must_use]
    pub fn of(&self, consumer: &str) -> Arc<Policy> {
        let own = self.own.get(consumer).or_else(|| self.floors.get(consumer));
        let held = || Some(&self.held.iter().find(|(prefix, _)| consumer.starts_with(&**prefix))?.1);
        Arc::clone(own.or_else(held).unwrap_or(&self.default))
    }

    /// The policy of a key's consumer, with the standing of the key's run.
    #[must_use]
    pub fn of_key(&self, key: &Key) -> Arc<Policy> {
        let policy = self.of(key.consumer());
        if !key.is_of_run() {
            return policy;
        }
        Arc::new(Policy { run: self.standing(key.namespace()), ..Policy::clone(&policy) })
    }

    /// The standing of a run.
    pub(super) fn standing(&self, namespace: &Namespace) -> Standing {
        self.runs.get(namespace.name()).copied().unwrap_or(Standing::Unknown)
    }

    /// Number of runs that may have entries.
    pub(super) fn count_runs(&self, consumer: &str, actor: &str) -> RunCounts {
        let own = self.runs.keys().filter(|name| Namespace::stored(name).consumer() == consumer);
        RunCounts {
            of_consumer: own.count(),
            of_principal: self.run_creators.get(actor).copied().unwrap_or(0),
            of_all: self.runs.len(),
        }
    }

    /// The policy of consumers that have no configured one.
    pub(super) fn default_policy(&self) -> &Policy {
        &self.default
    }

    /// Whether the consumer has a configured policy.
    #[must_use]
    pub fn registered(&self, consumer: &str) -> bool {
        self.own.contains_key(consumer)
    }

    /// The newest version that operators have set or deleted; 0 if there never was one.
    #[must_use]
    pub fn version(&self, consumer: &str) -> i32 {
        self.set.get(consumer).map_or(0, |set| set.version)
    }

    /// Whether operators have set the policy that is in force.
    #[must_use]
    pub fn is_set(&self, consumer: &str) -> bool {
        self.set.get(consumer).is_some_and(|set| set.json.is_some())
    }

    /// The policy of a consumer in its stored form; `None` if it has no configured one.
    pub(super) fn stored(&self, consumer: &str) -> Option<String> {
        let json = self.set.get(consumer).and_then(|set| set.json.as_deref());
        json.map(str::to_owned).or_else(|| Some(self.own.get(consumer)?.to_stored().ok()?.json))
    }

    /// The consumers that have a configured policy, by name.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.own.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// The consumers that have a configured policy, in any order, and their policies.
    pub(super) fn own(&self) -> impl Iterator<Item = (&str, &Policy)> {
        self.own.iter().map(|(name, policy)| (name.as_str(), &**policy))
    }

    /// The stored policies that this replica cannot read, by consumer.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = Unreadable<'_>> {
        self.unreadable.iter().filter_map(|consumer| {
            let set = self.set.get(consumer)?;
            let problem = set.problem.as_deref()?;
            Some(Unreadable { consumer, version: set.version, problem })
        })
    }

    /// Overrides them with what operators have set. A policy that cannot be read is, in doubt, the one that `before` had, or the
    /// one that it overrides. What has not changed since `before` is not parsed again.
    pub(super) fn with(&self, set: &[PolicyVersion], before: Option<&Policies>) -> Policies {
        let mut all = self.clone();
        for one in set {
            let before = before.and_then(|before| before.set.get(&one.consumer));
            let set = match before {
                Some(same) if same.is(one) => same.clone(),
                before => Set::new(one, before, self),
            };
            if let Some(policy) = &set.policy {
                all.own.insert(one.consumer.clone(), Arc::clone(policy));
            }
            if set.problem.is_some() {
                all.unreadable.insert(one.consumer.clone());
            } else {
                all.unreadable.remove(&one.consumer);
            }
            all.set.insert(one.consumer.clone(), set);
        }
        all
    }

    /// Sets the window floors in force.
    pub(super) fn with_floors(mut self, retentions: &[EffectiveRetention]) -> Policies {
        let floors: HashMap<&str, StoreTime> =
            retentions.iter().map(|one| (one.consumer.as_str(), one.window_floor)).collect();
        let default_floor = floors.get(DEFAULT).copied().unwrap_or_default();
        let raise = |name: &str, policy: &mut Arc<Policy>| {
            let window_floor = floors.get(name).copied().unwrap_or_default().max(default_floor);
            if policy.window_floor != window_floor {
                *policy = Arc::new(Policy { window_floor, ..Policy::clone(policy) });
            }
        };
        for (name, policy) in &mut self.own {
            raise(name, policy);
        }
        // A consumer whose policy was deleted keeps its floor.
        let lost =
            floors.iter().filter(|(name, floor)| **floor > default_floor && !self.own.contains_key(**name));
        let raised = |name: &str| {
            let mut policy = Arc::clone(&self.default);
            raise(name, &mut policy);
            policy
        };
        self.floors = lost.map(|(name, _)| ((*name).to_owned(), raised(name))).collect();
        raise(DEFAULT, &mut self.default);
        self
    }
}

impl Policies {
    /// Sets these replay runs. A consumer's policy determines until when one is open.
    pub(super) fn with_runs(mut self, runs: &[ReplayRun]) -> Policies {
        let mut until: HashMap<&str, StoreTime> = HashMap::new();
        for run in runs {
            let name = Namespace::new(&run.consumer, &run.name).name().into();
            self.runs.insert(name, run.standing());
            *self.run_creators.entry(run.actor.as_str().into()).or_default() += 1;
            let latest = until.entry(&run.consumer).or_default();
            *latest = (*latest).max(run.end());
        }
        for (consumer, replays_until) in until {
            let policy = Arc::new(Policy { replays_until, ..Policy::clone(&self.of(consumer)) });
            let all = if self.registered(consumer) { &mut self.own } else { &mut self.floors };
            all.insert(consumer.to_owned(), policy);
        }
        self
    }
}

impl Policies {
    /// The holds in force, by prefix.
    #[must_use]
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    /// Sets these holds: the last layer, since each consumer's policy names the widest hold of it.
    pub(super) fn with_holds(mut self, holds: impl Into<Arc<[Hold]>>) -> Policies {
        self.holds = holds.into();
        let mut prefixes: Vec<Arc<str>> =
            self.holds.iter().map(|hold| Arc::from(hold.prefix.as_str())).collect();
        prefixes.sort_by_key(|prefix| prefix.len());
        let with =
            |policy: &Policy, held_by: Option<Arc<str>>| Arc::new(Policy { held_by, ..policy.clone() });
        for (name, policy) in self.own.iter_mut().chain(&mut self.floors) {
            let widest = prefixes.iter().find(|prefix| name.starts_with(&***prefix)).cloned();
            if policy.held_by != widest {
                *policy = with(policy, widest);
            }
        }
        let default = &self.default;
        self.held =
            prefixes.into_iter().map(|prefix| (Arc::clone(&prefix), with(default, Some(prefix)))).collect();
        self
    }
}

/// The effective retentions that the store keeps, by consumer.
pub(super) type ByConsumer<'a> = HashMap<&'a str, &'a EffectiveRetention>;

pub(super) fn by_consumer(retentions: &[EffectiveRetention]) -> ByConsumer<'_> {
    retentions.iter().map(|one| (one.consumer.as_str(), one)).collect()
}

/// What the store records once a consumer's effective retention is this one.
pub(super) fn in_force(
    before: &ByConsumer<'_>,
    consumer: &str,
    own: bool,
    retention: Span,
    now: StoreTime,
) -> EffectiveRetention {
    let floor_of = |name: &str| before.get(name).map_or(StoreTime(0), |one| one.window_floor);
    let old = before.get(consumer).and_then(|one| one.retention);
    let old = old.or_else(|| before.get(DEFAULT).and_then(|one| one.retention));
    let floor = match old {
        None => floor_of(consumer),
        Some(old) => raised_floor(floor_of(consumer).max(floor_of(DEFAULT)), old, retention, now),
    };
    EffectiveRetention {
        consumer: consumer.to_owned(),
        retention: own.then_some(retention),
        window_floor: floor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::RunMode;

    fn hold(prefix: &str) -> Hold {
        Hold { prefix: prefix.to_owned(), created_at: StoreTime(1), actor: "a".into(), reason: "r".into() }
    }

    fn set(consumer: &str, version: i32, policy: &Policy) -> PolicyVersion {
        PolicyVersion {
            consumer: consumer.into(),
            version,
            policy: policy.to_stored().ok().map(|stored| stored.json),
            created_at: StoreTime(1),
            actor: "a".into(),
            reason: "r".into(),
        }
    }

    fn floor(consumer: &str, window_floor: i64) -> EffectiveRetention {
        EffectiveRetention { window_floor: StoreTime(window_floor), ..EffectiveRetention::nothing(consumer) }
    }

    /// A restored database may have another policy under the same number.
    #[test]
    fn version_is_parsed_again_where_its_number_or_policy_has_changed() {
        let policy = |lease| Policy { lease: Span::from_secs(lease), ..Policy::default() };
        let first = Policies::default().with(&[set("c", 1, &policy(30))], None);
        for (version, lease, is_same) in [(1, 30, true), (2, 30, false), (1, 40, false)] {
            let next = Policies::default().with(&[set("c", version, &policy(lease))], Some(&first));
            let (before, after) = (first.of("c"), next.of("c"));
            assert_eq!(Arc::ptr_eq(&before, &after), is_same, "{version} {lease}");
            assert_eq!((after.version, after.lease), (version, Span::from_secs(lease)));
        }
    }

    /// Only a consumer without a policy, and above the floor of all, has a policy for its floor.
    #[test]
    fn floors_raise_every_policy_and_add_the_fewest() {
        let own = BTreeMap::from([("own".to_owned(), Policy::default())]);
        let floors =
            [floor(DEFAULT, 5), floor("own", 9), floor("low", 4), floor("same", 5), floor("high", 7)];
        let policies = Policies::new(Policy::default(), own).with_floors(&floors);
        for (consumer, expected) in [("own", 9), ("low", 5), ("same", 5), ("high", 7), ("none", 5)] {
            assert_eq!(policies.of(consumer).window_floor, StoreTime(expected), "{consumer}");
        }
        let added: Vec<&String> = policies.floors.keys().collect();
        assert_eq!(added, ["high"]);
    }

    /// A hold covers a consumer wherever its policy comes from.
    #[test]
    fn hold_covers_every_consumer_with_its_prefix() {
        let own = BTreeMap::from([("p-own".to_owned(), Policy::default())]);
        let set = set("p-set", 1, &Policy::default());
        let floor = floor("p-floor", 7);
        let run = ReplayRun {
            consumer: "p-run".into(),
            name: "rebuild".into(),
            mode: RunMode::Rebuild,
            created_at: StoreTime(1),
            ends_at: StoreTime(9),
            closed_at: None,
            actor: "a".into(),
            reason: "r".into(),
        };
        let read =
            Policies::new(Policy::default(), own).with(&[set], None).with_floors(&[floor]).with_runs(&[run]);
        for (holds, held_by) in [
            (&[][..], None),
            (&["p-"], Some("p-")),
            (&["q"], None),
            (&[""], Some("")),
            // The widest hold is named.
            (&["p-", "p"], Some("p")),
        ] {
            let holds: Vec<Hold> = holds.iter().map(|prefix| hold(prefix)).collect();
            let policies = read.clone().with_holds(holds.clone());
            for consumer in ["p-own", "p-set", "p-floor", "p-run", "p-none"] {
                assert_eq!(policies.of(consumer).held_by.as_deref(), held_by, "{consumer} under {holds:?}");
            }
        }
    }
}
