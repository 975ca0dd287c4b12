//! The inbox of one key: an entry, and the message that it keeps in another table, where the message of an earlier life of the key
//! may still be. Walks through every interleaving, within bounds, of Stores, looks of ClaimNext and their repeats, a plain Claim,
//! settlements, an operator's changes, the erasure, the collector of messages that no entry keeps, the purge, and the store's clock.
//!
//! Every decision is the core's: `store`, `hand_out`, `hand_out_again`, `decide`, `operate`, `is_over`. The erasure is two steps here
//! and one statement in the stores: the order that a database gives to the parts of that statement is among those of the model. A
//! plain Claim, a settlement and an operator's change are one step each: their races for one row are in the first model.
//!
//! Not here: handouts of several messages, handouts that are forgotten after an hour, and a Release that unpins the fingerprint.

mod background;
mod bugs;
mod events;
mod looks;
mod one_inbox;
mod promises;
mod rules;
mod scenarios;
mod stores;
mod world;

use std::fmt::Write as _;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use self::bugs::BUGS;
use self::events::Event;
use self::one_inbox::{OneInbox, promised};
use self::promises::Promise;
use self::rules::{RULES, Rules};
use self::scenarios::{SCENARIOS, Scenario};

struct Found {
    states: usize,
    /// What it must come across, and has not.
    missed: Vec<Event>,
    /// The promise that is broken, and a way there.
    broken: Option<(&'static str, String)>,
}

/// Ends at the first promise that is broken; where one is watched, only at that.
fn search(scenario: Scenario, rules: Rules, watched: Option<Promise>) -> Found {
    let name = |promise| promised().into_iter().find(|(known, _)| *known == promise).unwrap().1.name;
    let until =
        watched.map_or(HasDiscoveries::AnyFailures, |promise| HasDiscoveries::AnyOf([name(promise)].into()));
    let checker = OneInbox::new(scenario, rules).checker().finish_when(until).spawn_bfs().join();
    let mut found = checker.discoveries().into_iter();
    let broken = found.find(|(broken, _)| watched.is_none_or(|watched| name(watched) == *broken));
    let steps = |path: stateright::Path<_, _>| {
        let steps: Vec<String> = path.into_actions().iter().map(|action| format!("{action:?}")).collect();
        steps.join(", ")
    };
    let broken = broken.map(|(promise, path)| (promise, steps(path)));
    Found { states: checker.unique_state_count(), missed: checker.model().missed(), broken }
}

#[test]
fn every_interleaving_keeps_the_message() {
    for scenario in SCENARIOS {
        let began = Instant::now();
        let found = search(*scenario, RULES, None);
        println!("{}: {} states, {:.1} s", scenario.name, found.states, began.elapsed().as_secs_f64());
        if let Some((promise, steps)) = found.broken {
            panic!("{}: {promise}, broken by {steps}", scenario.name);
        }
        assert!(found.missed.is_empty(), "{}: {:?} never happened", scenario.name, found.missed);
    }
}

#[test]
fn row_locks_are_not_relied_on() {
    for name in ["expiry", "operator"] {
        let scenario = SCENARIOS.iter().find(|known| known.name == name).unwrap();
        let scenario = Scenario { sees: &[Event::CommitLost, Event::HandedOut], ..*scenario };
        let found = search(scenario, Rules { locks: false, ..RULES }, None);
        println!("{name} without locks: {} states", found.states);
        assert_eq!(found.broken, None, "{name} without locks");
        assert!(found.missed.is_empty(), "{name} without locks: {:?} never happened", found.missed);
    }
}

#[test]
fn each_seeded_bug_breaks_a_promise() {
    let mut survived = String::new();
    for (bug, rules, scenario, promise) in BUGS {
        let scenario = SCENARIOS.iter().find(|known| known.name == *scenario).unwrap();
        let found = search(*scenario, *rules, Some(*promise));
        match found.broken {
            Some((_, steps)) => println!("{bug}: {promise:?} after {} states: {steps}", found.states),
            None => writeln!(survived, "{bug}: {promise:?} holds in {} states", found.states).unwrap(),
        }
    }
    assert_eq!(survived, "");
}
