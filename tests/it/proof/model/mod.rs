//! A model check of the core and of the races for one row: every interleaving, within bounds.
//!
//! One key; three deliveries of its message, two of them in one process; servers that work on their
//! calls as `ledger::batch` does, with the real `decide`; the purge, with the real `purge`; the
//! store's clock, which stands still or goes on at any moment; an operator. Calls are repeated,
//! delayed and duplicated; Claims wait for another verdict; loss and crashes are calls that never move on.
//!
//! Two smaller models are next to it: of a message in a replay run (`runs`), and of the inbox of one key (`inbox`).

mod bugs;
mod client;
mod events;
mod fold;
mod inbox;
mod mutants;
mod one_key;
mod operator;
mod promises;
mod properties;
mod rules;
mod runs;
mod scenarios;
mod search;
mod server;
mod waits;
mod world;

use self::rules::RULES;
use self::scenarios::{SCENARIOS, Scenario};
use self::search::search;
use super::run::Run;

const THREADS: usize = 2;

/// The small run searches each scenario to its end. A larger one goes on with ever wider bounds,
/// until it has come across as many states as it is asked for; only its last search may end early.
#[test]
fn every_interleaving_keeps_the_invariants() {
    let mut run = Run::new("model", 1);
    let (mut states, mut searches, mut exhausted, mut largest) = (0, 0, 0, 0);
    for round in 0.. {
        for scenario in SCENARIOS {
            let wider = Scenario { bounds: scenario.bounds.grown(round), ..*scenario };
            let limit = if round == 0 { u64::MAX } else { run.size.saturating_sub(states) };
            if limit == 0 {
                break;
            }
            let found = search(&wider, RULES, THREADS, limit, None, |now| {
                run.progress(states + now, format_args!("{}, wider by {round}", scenario.name));
            });
            let all = if found.exhausted { "all" } else { "not all" };
            println!("{}, wider by {round}: {} states, {all}", scenario.name, found.states);
            if let Some(broken) = found.broken {
                run.fail(format_args!("{}: {}", scenario.name, broken.promise), &[("steps", broken.steps)]);
            }
            states += found.states;
            searches += 1;
            exhausted += u64::from(found.exhausted);
            largest = largest.max(found.states);
        }
        if states >= run.size {
            break;
        }
    }
    run.summary(format_args!(
        "{states} unique states in {searches} searches, {exhausted} of them exhausted, the largest of {largest}"
    ));
}
