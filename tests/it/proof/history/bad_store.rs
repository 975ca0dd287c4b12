//! The same for histories over a store whose clock jumps, or that loses commits.

use super::bad::{BEGIN, OK, RULES, at, claim, complete, got, release, token};
use super::{Call, Event, InForce, Loss, Outcome, Refusal, Shift, check};

const HOUR: i64 = 3_600_000;
const FUTURE: Outcome = Outcome::Refused(Refusal::TokenFromFuture);
const ABSENT: Outcome = Outcome::Refused(Refusal::NotFound);
use Outcome::{Completed, InProgress};

/// Between two instants the store's clock is set to be ahead by so many milliseconds, and back after a while.
fn shift(from: i64, to: i64, ahead: i64, back: i64) -> InForce {
    let set = |from: i64, to: i64, ahead: i64| Shift {
        invoked: BEGIN + from * 1_000,
        returned: BEGIN + to * 1_000,
        ahead: ahead * 1_000,
    };
    InForce { shifts: vec![set(from, to, ahead), set(back, back + 1, 0)], ..InForce::always(RULES) }
}

/// Of what was answered between these instants the later part is lost.
fn loss(from: i64, until: i64) -> InForce {
    let losses = vec![Loss { from: BEGIN + from * 1_000, until: BEGIN + until * 1_000 }];
    InForce { losses, ..InForce::always(RULES) }
}

fn told_again(at: i64) -> Outcome {
    Outcome::Acquired { token: token(at), replayed: true, attempt: 0 }
}

fn renew(at: i64) -> Call {
    Call::Renew { token: token(at), started: false }
}

#[test]
#[rustfmt::skip]
fn sound_histories_over_an_ill_store_are_accepted() {
    let rows: &[(&str, InForce, &[Event])] = &[
        ("a jump ends a lease", shift(20, 21, HOUR, 9_000), &[at(1, 0, 9, claim(1), got(5)), at(2, 30, 39, claim(2), got(HOUR + 35))]),
        ("a jump amid a call", shift(33, 34, HOUR, 9_000), &[at(1, 0, 9, claim(1), got(5)), at(2, 30, 39, claim(2), got(HOUR + 35)), at(3, 50, 59, claim(3), InProgress)]),
        ("a claim from before the clock went back is held for long", shift(0, 1, HOUR, 100), &[at(1, 10, 19, claim(1), got(HOUR + 15)), at(2, 9_000, 9_009, claim(2), InProgress)]),
        ("a lost grant", loss(0, 50), &[at(1, 2, 9, claim(1), got(5)), at(2, 60, 69, claim(2), got(65)), at(1, 70, 79, complete(5), Outcome::Refused(Refusal::LeaseLost))]),
        ("a lost grant that nobody has in its place", loss(0, 50), &[at(1, 2, 9, claim(1), got(5)), at(1, 70, 79, complete(5), ABSENT)]),
        ("a lost completion", loss(15, 50), &[at(1, 2, 9, claim(1), got(5)), at(1, 16, 19, complete(5), OK), at(2, 60, 69, claim(2), InProgress), at(1, 70, 79, complete(5), OK)]),
        ("a later claim is lost, and the one before is told again", loss(15, 50), &[at(1, 2, 9, claim(1), got(5)), at(1, 10, 14, release(5), OK), at(2, 16, 19, claim(2), got(18)), at(3, 60, 69, claim(3), got(65)), at(2, 70, 79, complete(18), Outcome::Refused(Refusal::LeaseLost))]),
        ("lost with the one that followed", loss(0, 50), &[at(1, 2, 9, claim(1), got(5)), at(1, 10, 14, release(5), OK), at(2, 16, 19, claim(2), got(18)), at(2, 60, 69, renew(18), ABSENT)]),
        ("a later token is lost, an earlier claim told again", loss(15, 50), &[at(1, 2, 9, claim(1), got(5)), at(2, 1_200, 1_210, claim(1), told_again(5))]),
        ("granted by the next database before anybody knows of it", loss(0, 20), &[at(1, 2, 9, claim(1), got(5)), at(1, 10, 14, complete(5), OK), at(2, 22, 29, claim(2), got(25)), at(2, 30, 34, complete(25), OK)]),
        ("asked of one database, carried out by the next", loss(0, 20), &[at(1, 2, 9, claim(1), got(5)), at(1, 10, 14, complete(5), OK), at(2, 16, 29, claim(2), got(25)), at(2, 30, 34, complete(25), OK), at(3, 40, 49, claim(3), Completed)]),
        ("the answer of a lost completion came after the death", loss(0, 20), &[at(1, 2, 9, claim(1), got(5)), at(1, 18, 22, complete(5), OK), at(2, 30, 34, claim(2), got(32))]),
        ("nothing of it was lost", loss(0, 50), &[at(1, 2, 9, claim(1), got(5)), at(1, 16, 19, complete(5), OK), at(2, 60, 69, claim(2), Completed)]),
    ];
    for (name, in_force, events) in rows {
        if let Err(problem) = check(events, in_force) {
            panic!("{name}: {problem}");
        }
    }
}

#[test]
#[rustfmt::skip]
fn each_seeded_fault_over_an_ill_store_is_caught() {
    let rows: &[(&str, InForce, &[Event])] = &[
        ("a reclaim before the jump", shift(20, 21, HOUR, 9_000), &[at(1, 0, 9, claim(1), got(5)), at(2, 12, 19, claim(2), got(15))]),
        ("a token of the clock before the jump", shift(20, 21, HOUR, 9_000), &[at(1, 30, 39, claim(1), got(35))]),
        ("a token of the clock after its way back", shift(0, 1, HOUR, 100), &[at(1, 10, 19, claim(1), got(HOUR + 15)), at(1, 20, 29, release(HOUR + 15), OK), at(2, 200, 209, claim(2), got(205))]),
        ("a reclaim after the clock went back", shift(0, 1, HOUR, 100), &[at(1, 10, 19, claim(1), got(HOUR + 15)), at(2, 3_000, 3_009, claim(2), got(HOUR + 3_005))]),
        ("a grant that was answered before the loss", loss(20, 50), &[at(1, 2, 9, claim(1), got(5)), at(2, 60, 69, claim(2), got(65))]),
        ("a grant that was answered after the loss", loss(0, 50), &[at(1, 60, 64, claim(1), got(62)), at(2, 66, 69, claim(2), got(67))]),
        ("two holders before the loss", loss(0, 50), &[at(1, 2, 9, claim(1), got(5)), at(2, 12, 19, claim(2), got(15))]),
        ("the later one is there, the earlier one lost", loss(0, 50), &[at(1, 2, 9, claim(1), got(5)), at(1, 10, 14, complete(5), OK), at(2, 60, 69, claim(2), Completed), at(3, 70, 79, claim(3), got(75))]),
        ("two holders at the next database", loss(0, 20), &[at(1, 16, 24, claim(1), got(22)), at(2, 26, 29, claim(2), got(27)), at(1, 30, 34, renew(22), OK)]),
        ("carried out by the next database, and gone", loss(0, 20), &[at(1, 16, 24, claim(1), got(22)), at(1, 25, 29, complete(22), OK), at(2, 30, 34, claim(2), got(32))]),
        ("what is lost comes back", loss(0, 50), &[at(1, 2, 9, claim(1), got(5)), at(1, 10, 14, complete(5), OK), at(2, 60, 69, claim(2), got(65)), at(3, 70, 79, claim(3), Completed)]),
        ("a token below one that was lost", loss(0, 50), &[at(1, 2, 9, claim(1), got(5)), at(2, 60, 69, claim(2), got(4))]),
        ("a token from the future that is none", loss(20, 50), &[at(1, 2, 9, claim(1), got(5)), at(1, 60, 69, complete(5), FUTURE)]),
    ];
    for (name, in_force, events) in rows {
        assert!(check(events, in_force).is_err(), "{name} was not caught");
    }
}
