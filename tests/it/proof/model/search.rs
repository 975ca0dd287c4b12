//! One search: all states of one scenario, or as many as are wanted.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model};

use super::one_key::OneKey;
use super::promises::Promise;
use super::properties::promised;
use super::rules::Rules;
use super::scenarios::Scenario;

pub(super) struct Found {
    /// Different states.
    pub(super) states: u64,
    /// There are no others.
    pub(super) exhausted: bool,
    pub(super) broken: Option<Broken>,
}

/// A promise that does not hold.
pub(super) struct Broken {
    pub(super) promise: &'static str,
    /// One way there.
    pub(super) steps: String,
}

/// Ends at the first promise that is broken; where one is watched, only at that.
pub(super) fn search(
    scenario: &Scenario,
    rules: Rules,
    threads: usize,
    limit: u64,
    watched: Option<Promise>,
    mut progress: impl FnMut(u64),
) -> Found {
    let model = OneKey::new(scenario, rules);
    let watched = watched.map(name_of);
    let until = watched.map_or(HasDiscoveries::AnyFailures, |name| HasDiscoveries::AnyOf([name].into()));
    let checker = model.checker().finish_when(until).threads(threads).spawn_dfs();
    let states = |checker: &_| u64::try_from(Checker::unique_state_count(checker)).unwrap();
    while !checker.is_done() {
        sleep(Duration::from_millis(5));
        progress(states(&checker));
        if states(&checker) >= limit {
            checker.model().enough.store(true, Ordering::Relaxed);
        }
    }
    let checker = checker.join();
    let exhausted = !checker.model().enough.load(Ordering::Relaxed);
    Found { states: states(&checker), exhausted, broken: broken(&checker, watched, exhausted) }
}

fn name_of(promise: Promise) -> &'static str {
    promised().into_iter().find(|(known, _)| *known == promise).unwrap().1.name
}

/// A promise that was broken, or a witness that never appeared.
fn broken(checker: &impl Checker<OneKey>, watched: Option<&str>, exhausted: bool) -> Option<Broken> {
    let found = checker.discoveries();
    for property in checker.model().properties() {
        if watched.is_some_and(|watched| property.name != watched) {
            continue;
        }
        let discovery = found.get(property.name);
        match discovery {
            Some(path) if property.expectation.discovery_is_failure() => {
                let mut steps = String::new();
                for (world, action) in path.clone().into_vec() {
                    writeln!(steps, "{world:?}\n{action:?}\n").unwrap();
                }
                return Some(Broken { promise: property.name, steps });
            }
            None if exhausted && !property.expectation.discovery_is_failure() => {
                return Some(Broken { promise: property.name, steps: "it never happened".into() });
            }
            Some(_) | None => {}
        }
    }
    None
}
