//! The checker, checked: histories that it must accept, and histories with one fault each that it
//! must not.

use super::{Backoff, Call, Event, Expiry, InForce, Kind, Order, Outcome, Refusal, Rules, check};

pub(super) const RULES: Rules = Rules {
    lease: 1_000_000,
    grace: 100_000,
    expiry: Expiry::ParkIfStarted,
    max_attempts: 0,
    backoff: Backoff::NONE,
    refuses: None,
};
/// When every history begins.
pub(super) const BEGIN: i64 = 1_780_000_000_000_000;

/// A call by client 1, 2, …, invoked and returned so many milliseconds after the beginning.
pub(super) fn at(client: u64, from: i64, to: i64, call: Call, outcome: Outcome) -> Event {
    let returned = if outcome == Outcome::Unknown { i64::MAX } else { BEGIN + to * 1_000 };
    Event { client, replica: 0, call, outcome, invoked: BEGIN + from * 1_000, returned }
}

pub(super) fn claim(claim: u64) -> Call {
    Call::Claim { claim }
}

/// The token of a grant so many milliseconds after the beginning, first in its batch.
pub(super) fn token(at: i64) -> i64 {
    BEGIN + at * 1_000 + 1
}

pub(super) fn got(at: i64) -> Outcome {
    Outcome::Acquired { token: token(at), replayed: false, attempt: 0 }
}

fn again(at: i64) -> Outcome {
    Outcome::Acquired { token: token(at), replayed: true, attempt: 0 }
}

pub(super) fn complete(at: i64) -> Call {
    Call::Complete { token: token(at) }
}

pub(super) fn fail(at: i64, kind: Kind) -> Call {
    Call::Fail { token: token(at), kind, at_once: true }
}

pub(super) fn release(at: i64) -> Call {
    Call::Release { token: token(at) }
}

fn renew(at: i64, started: bool) -> Call {
    Call::Renew { token: token(at), started }
}

pub(super) fn order(order: Order, force: bool) -> Call {
    Call::Order { order, force }
}

pub(super) const OK: Outcome = Outcome::Settled { replayed: false, late: false };
pub(super) const LATE: Outcome = Outcome::Settled { replayed: false, late: true };
const REPLAYED: Outcome = Outcome::Settled { replayed: true, late: false };
const LOST: Outcome = Outcome::Refused(Refusal::LeaseLost);
const CLOSED: Outcome = Outcome::Refused(Refusal::ClaimClosed);
use Outcome::{Completed, InProgress, Parked, Unknown};

#[test]
#[rustfmt::skip]
fn sound_histories_are_accepted() {
    let rows: &[(&str, &[Event])] = &[
        ("a plain life", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, complete(5), OK), at(2, 20, 29, claim(2), Completed)]),
        ("one of two at once", &[at(1, 0, 9, claim(1), got(5)), at(2, 0, 9, claim(2), InProgress)]),
        ("asked before it was granted, answered after", &[at(2, 0, 99, claim(2), got(95)), at(1, 1, 50, claim(1), got(5)), at(1, 51, 90, release(5), OK)]),
        ("a reclaim after lease and grace", &[at(1, 0, 9, claim(1), got(5)), at(2, 1_200, 1_210, claim(2), got(1_205)), at(1, 1_220, 1_230, complete(5), LOST)]),
        ("a late completion that nobody overtook", &[at(1, 0, 9, claim(1), got(5)), at(1, 2_000, 2_010, complete(5), LATE)]),
        ("a lost answer, then the same claim again", &[at(1, 0, 0, claim(1), Unknown), at(1, 20, 30, claim(1), again(5)), at(1, 31, 40, complete(5), OK)]),
        ("a lost claim that was applied blocks the others", &[at(1, 0, 0, claim(1), Unknown), at(2, 20, 30, claim(2), InProgress), at(2, 1_200, 1_210, claim(2), got(1_205))]),
        ("a lost claim that was not", &[at(1, 0, 0, claim(1), Unknown), at(2, 20, 30, claim(2), got(25))]),
        ("a lost complete that was applied", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 0, complete(5), Unknown), at(2, 20, 30, claim(2), Completed)]),
        ("a lost complete that was not", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 0, complete(5), Unknown), at(2, 1_200, 1_210, claim(2), got(1_205))]),
        ("a lost complete, repeated", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 0, complete(5), Unknown), at(1, 20, 30, complete(5), REPLAYED)]),
        ("released, taken by another, settled late in vain", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, release(5), OK), at(2, 20, 29, claim(2), got(25)), at(1, 30, 39, complete(5), LOST)]),
        ("released, then completed by the handler", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, release(5), OK), at(1, 20, 29, complete(5), LATE), at(2, 30, 39, claim(2), Completed)]),
        ("a re-armed lease", &[at(1, 0, 9, claim(1), got(5)), at(1, 1_500, 1_510, claim(1), again(5)), at(2, 2_000, 2_010, claim(2), InProgress), at(1, 3_000, 3_010, claim(1), CLOSED)]),
        ("started, expired, parked", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, renew(5, true), OK), at(2, 1_300, 1_310, claim(2), Parked), at(1, 1_400, 1_410, complete(5), LATE)]),
        ("parked by an operator, completed by its holder", &[at(1, 0, 9, claim(1), got(5)), at(9, 10, 19, order(Order::Park, false), OK), at(2, 20, 29, claim(2), Parked), at(1, 30, 39, complete(5), LATE)]),
        ("completed, redriven by force, granted again", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, complete(5), OK), at(9, 20, 29, order(Order::Redrive, true), OK), at(2, 30, 39, claim(2), got(35)), at(1, 40, 49, complete(5), LOST)]),
        ("deleted, granted again with a higher token", &[at(1, 0, 9, claim(1), got(5)), at(9, 20, 29, order(Order::Delete, true), OK), at(2, 30, 39, claim(2), got(35))]),
        ("two tokens in one millisecond", &[at(1, 0, 9, claim(1), got(5)), at(1, 5, 9, release(5), OK), at(2, 5, 9, claim(2), Outcome::Acquired { token: token(5) + 1, replayed: false, attempt: 0 })]),
    ];
    for (name, events) in rows {
        if let Err(problem) = check(events, &InForce::always(RULES)) {
            panic!("{name}: {problem}");
        }
    }
}

#[test]
#[rustfmt::skip]
fn each_seeded_fault_is_caught() {
    let rows: &[(&str, &[Event])] = &[
        ("two live holders", &[at(1, 0, 9, claim(1), got(5)), at(2, 20, 29, claim(2), got(25))]),
        ("a reclaim before the lease is over", &[at(1, 0, 9, claim(1), got(5)), at(2, 900, 910, claim(2), got(905))]),
        ("a reclaim within the grace", &[at(1, 0, 9, claim(1), got(5)), at(2, 1_050, 1_060, claim(2), got(1_055))]),
        ("a reclaim of a renewed lease", &[at(1, 0, 9, claim(1), got(5)), at(1, 900, 909, renew(5, false), OK), at(2, 1_200, 1_210, claim(2), got(1_205))]),
        ("the same token for two claims", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, release(5), OK), at(2, 20, 29, claim(2), got(5))]),
        ("a token that shrinks", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, release(5), OK), at(2, 20, 29, claim(2), got(3))]),
        ("a token that restarts from one", &[at(1, 0, 9, claim(1), Outcome::Acquired { token: 1, replayed: false, attempt: 0 })]),
        ("acquired after a returned complete", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, complete(5), OK), at(2, 5_000, 5_010, claim(2), got(5_005))]),
        ("completed without a complete", &[at(1, 0, 9, claim(1), got(5)), at(2, 20, 29, claim(2), Completed)]),
        ("completed, though the complete was refused", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, fail(5, Kind::Terminal), OK), at(1, 20, 29, complete(5), CLOSED), at(2, 30, 39, claim(2), Completed)]),
        ("a stale read after a complete", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, complete(5), OK), at(2, 20, 29, claim(2), InProgress)]),
        ("a complete accepted after another reclaimed", &[at(1, 0, 9, claim(1), got(5)), at(2, 1_200, 1_210, claim(2), got(1_205)), at(1, 1_220, 1_230, complete(5), LATE)]),
        ("a lease lost to nobody", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, complete(5), LOST)]),
        ("an acknowledged complete that is gone", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, complete(5), OK), at(2, 15, 29, claim(2), got(28)), at(2, 30, 39, claim(3), InProgress)]),
        ("an acknowledged grant that is gone", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, complete(5), Outcome::Refused(Refusal::NotFound))]),
        ("an acknowledged release that is gone", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, release(5), OK), at(2, 20, 29, claim(2), InProgress)]),
        ("in progress long after lease and grace", &[at(1, 0, 9, claim(1), got(5)), at(2, 1_500, 1_510, claim(2), InProgress)]),
        ("a replay of another's claim", &[at(1, 0, 9, claim(1), got(5)), at(2, 20, 29, claim(2), again(5))]),
        ("re-armed twice", &[at(1, 0, 9, claim(1), got(5)), at(1, 1_500, 1_510, claim(1), again(5)), at(1, 3_000, 3_010, claim(1), again(5))]),
        ("granted to the same claim after its release", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, release(5), OK), at(1, 20, 29, claim(1), got(25))]),
        ("released though started", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, renew(5, true), OK), at(1, 20, 29, release(5), OK)]),
        ("reclaimed though started", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, renew(5, true), OK), at(2, 1_300, 1_310, claim(2), got(1_305))]),
        ("a terminal failure that did not hold", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, fail(5, Kind::Terminal), OK), at(2, 20, 29, claim(2), got(25))]),
        ("a first complete that says replayed to nobody's complete, undone", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, complete(5), REPLAYED), at(2, 20, 29, claim(2), InProgress)]),
        ("not late, though the lease was long over", &[at(1, 0, 9, claim(1), got(5)), at(1, 2_000, 2_010, complete(5), OK)]),
        ("late, though the lease was alive", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, complete(5), LATE)]),
        ("redriven under its holder without force", &[at(1, 0, 9, claim(1), got(5)), at(9, 10, 19, order(Order::Redrive, false), OK), at(2, 20, 29, claim(2), got(25))]),
        ("an old token settles after a redrive", &[at(1, 0, 9, claim(1), got(5)), at(9, 1_200, 1_210, order(Order::Redrive, false), OK), at(1, 1_220, 1_230, complete(5), LATE)]),
        ("deleted, and the token shrinks", &[at(1, 0, 9, claim(1), got(8)), at(9, 10, 19, order(Order::Delete, true), OK), at(2, 5, 39, claim(2), got(6))]),
        ("resolved as completed, and granted again", &[at(1, 0, 9, claim(1), got(5)), at(9, 1_200, 1_210, order(Order::Complete, false), OK), at(2, 1_220, 1_230, claim(2), got(1_225))]),
        ("parked, and granted all the same", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, release(5), OK), at(9, 20, 29, order(Order::Park, false), OK), at(2, 30, 39, claim(2), got(35))]),
        ("a token from the client's future", &[at(1, 0, 9, claim(1), got(50))]),
        ("a lost complete seen, then unseen", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 0, complete(5), Unknown), at(2, 20, 29, claim(2), Completed), at(3, 30, 39, claim(3), InProgress)]),
    ];
    for (name, events) in rows {
        assert!(check(events, &InForce::always(RULES)).is_err(), "{name} was not caught");
    }
}

/// Two dozen calls whose answers were lost, each perhaps granted after the last known holder's lease.
#[test]
fn many_unknown_outcomes_are_judged_all_the_same() {
    let told = |at_ms, attempt| Outcome::Acquired { token: token(at_ms), replayed: false, attempt };
    let mut events = vec![at(1, 0, 9, claim(1), told(5, 1))];
    for number in 2..14 {
        events.push(at(number, 8 * number as i64, 0, claim(number), Unknown));
        events.push(at(number, 8 * number as i64 + 4, 0, claim(number), Unknown));
        events.push(at(1, 8 * number as i64 + 6, 0, renew(5, false), Unknown));
    }
    let grant = |attempt| at(99, 900_000, 900_010, claim(99), told(900_005, attempt));
    let history = |attempt| [events.clone(), vec![grant(attempt)]].concat();
    let in_force = InForce::always(RULES);
    for possible in [2, 3, 14] {
        assert_eq!(check(&history(possible), &in_force), Ok(()), "attempt {possible}");
    }
    let problem = check(&history(1), &in_force).unwrap_err();
    assert!(problem.contains("no order explains"), "{problem}");
}
