//! The same for keys of replay runs: a key in a run and the same key without it are two keys, each with a history of its
//! own, and what a run refuses was not applied.

use super::bad::{OK, RULES, at, claim, complete, got};
use super::bad_rules::change;
use super::{Event, InForce, Outcome, Refusal, Rules, check};
use Outcome::{Completed, InProgress};

const UNKNOWN: Rules = refusing(Refusal::RunUnknown);
const CLOSED: Rules = refusing(Refusal::RunClosed);
const FORBIDDEN: Rules = refusing(Refusal::RunForbidden);
const TOLD_UNKNOWN: Outcome = Outcome::Refused(Refusal::RunUnknown);
const TOLD_CLOSED: Outcome = Outcome::Refused(Refusal::RunClosed);
const TOLD_FORBIDDEN: Outcome = Outcome::Refused(Refusal::RunForbidden);

const fn refusing(refusal: Refusal) -> Rules {
    Rules { refuses: Some(refusal), ..RULES }
}

#[test]
#[rustfmt::skip]
fn sound_histories_of_runs_are_accepted() {
    let always = InForce::always;
    let rows: &[(&str, InForce, &[Event])] = &[
        ("not registered yet, then a plain life", change(UNKNOWN, RULES, 10, 20), &[at(1, 0, 9, claim(1), TOLD_UNKNOWN), at(1, 30, 39, claim(1), got(35)), at(1, 40, 49, complete(35), OK)]),
        ("never registered", always(UNKNOWN), &[at(1, 0, 9, claim(1), TOLD_UNKNOWN), at(2, 10, 19, claim(2), TOLD_UNKNOWN)]),
        ("closed: nothing is granted", always(CLOSED), &[at(1, 0, 9, claim(1), TOLD_CLOSED)]),
        ("closed under its holder, who completes", change(RULES, CLOSED, 10, 20), &[at(1, 0, 9, claim(1), got(5)), at(2, 30, 39, claim(2), InProgress), at(1, 40, 49, complete(5), OK), at(2, 50, 59, claim(2), Completed)]),
        ("closed, and nobody has it after the lease", change(RULES, CLOSED, 10, 20), &[at(1, 0, 9, claim(1), got(5)), at(2, 1_200, 1_210, claim(2), TOLD_CLOSED)]),
        ("granted while it was being closed", change(RULES, CLOSED, 3, 20), &[at(1, 0, 9, claim(1), got(5)), at(2, 30, 39, claim(2), InProgress)]),
        ("the policy forbids it by now, and allows it again", change(FORBIDDEN, RULES, 10, 20), &[at(1, 0, 9, claim(1), TOLD_FORBIDDEN), at(1, 30, 39, claim(1), got(35))]),
    ];
    for (name, in_force, events) in rows {
        if let Err(problem) = check(events, in_force) {
            panic!("{name}: {problem}");
        }
    }
}

#[test]
#[rustfmt::skip]
fn each_seeded_fault_of_a_run_is_caught() {
    let always = InForce::always;
    let rows: &[(&str, InForce, &[Event])] = &[
        ("granted in a run that nobody registered", always(UNKNOWN), &[at(1, 0, 9, claim(1), got(5))]),
        ("answered from the live entry: completed before anybody did", always(RULES), &[at(1, 0, 9, claim(1), Completed)]),
        ("answered from the live entry: held by nobody of the run", always(RULES), &[at(1, 0, 9, claim(1), InProgress)]),
        ("a settlement of the live entry reached the run's", always(RULES), &[at(1, 0, 9, claim(1), got(5)), at(2, 10, 19, claim(2), Completed), at(1, 20, 29, complete(5), OK)]),
        ("granted in a run that is closed", always(CLOSED), &[at(1, 0, 9, claim(1), got(5))]),
        ("granted once its close was answered", change(RULES, CLOSED, 10, 20), &[at(1, 30, 39, claim(1), got(35))]),
        ("granted though the policy forbids it", always(FORBIDDEN), &[at(1, 0, 9, claim(1), got(5))]),
        ("refused as unknown long after it was registered", change(UNKNOWN, RULES, 10, 20), &[at(1, 6_000, 6_009, claim(1), TOLD_UNKNOWN)]),
        ("refused as unknown after it was used there", change(UNKNOWN, RULES, 10, 20), &[at(1, 30, 39, claim(1), got(35)), at(2, 40, 49, claim(2), TOLD_UNKNOWN)]),
        ("refused as closed before anybody closed it", change(RULES, CLOSED, 10, 20), &[at(1, 0, 9, claim(1), TOLD_CLOSED)]),
        ("refused as closed, and applied all the same", change(RULES, CLOSED, 3, 20), &[at(1, 4, 9, claim(1), TOLD_CLOSED), at(2, 30, 39, claim(2), InProgress)]),
        ("refused as unknown, and applied all the same", change(UNKNOWN, RULES, 10, 20), &[at(1, 0, 9, claim(1), TOLD_UNKNOWN), at(2, 30, 39, claim(2), InProgress)]),
        ("a closed run hides what is done", change(RULES, CLOSED, 20, 30), &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, complete(5), OK), at(2, 40, 49, claim(2), TOLD_CLOSED)]),
        ("a closed run hides who is at work", change(RULES, CLOSED, 20, 30), &[at(1, 0, 9, claim(1), got(5)), at(2, 40, 49, claim(2), TOLD_CLOSED)]),
        ("forbidden, where it is closed", always(CLOSED), &[at(1, 0, 9, claim(1), TOLD_FORBIDDEN)]),
    ];
    for (name, in_force, events) in rows {
        assert!(check(events, in_force).is_err(), "{name} was not caught");
    }
}
