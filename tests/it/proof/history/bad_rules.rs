//! The same for histories amid changes of the rules: which are sound, and which are not.

use super::bad::{BEGIN, LATE, OK, RULES, at, claim, complete, fail, got, order, release, token};
use super::{
    Backoff, Call, Change, Event, Expiry, InForce, Kind, Order, Outcome, Raise, Refusal, Rules, check,
};

const GRACEFUL: Rules = Rules { grace: 400_000, ..RULES };
const DISABLED: Rules = Rules { refuses: Some(Refusal::Disabled), ..RULES };
const TWICE: Rules = Rules { max_attempts: 2, ..RULES };
const SLOW: Rules =
    Rules { backoff: Backoff { initial: 200_000, multiplier: 2.0, max: 800_000, jitter: 0.5 }, ..RULES };
const LONG: Rules = Rules { lease: 2_000_000, ..RULES };
const RECLAIM: Rules = Rules { expiry: Expiry::Reclaim, ..RULES };
const NO_MORE: Outcome = Outcome::Refused(Refusal::Disabled);
const CLOSED: Outcome = Outcome::Refused(Refusal::ClaimClosed);
use Outcome::{Backoff as Waits, Completed, Failed, InProgress, Parked, Unknown};

/// From these rules on to those, by a call on replica 0 between two instants.
pub(super) fn change(first: Rules, rules: Rules, from: i64, to: i64) -> InForce {
    let change = Change { rules, replica: 0, invoked: BEGIN + from * 1_000, returned: BEGIN + to * 1_000 };
    InForce { changes: vec![change], ..InForce::always(first) }
}

/// The offset of tokens is raised by a minute, between two instants.
fn raise(from: i64, to: i64) -> InForce {
    let (invoked, returned) = (BEGIN + from * 1_000, BEGIN + to * 1_000);
    let raises = vec![Raise { invoked, returned, offset: 60_000_000 }];
    InForce { raises, ..InForce::always(RULES) }
}

/// The same call on the other replica, which learns of a change within five seconds.
fn there(event: Event) -> Event {
    Event { replica: 1, ..event }
}

/// A grant with its number.
fn nth(at: i64, attempt: i32) -> Outcome {
    Outcome::Acquired { token: token(at), replayed: false, attempt }
}

/// A failure that leaves the wait to the policy.
fn fails(at: i64) -> Call {
    Call::Fail { token: token(at), kind: Kind::Retryable, at_once: false }
}

#[test]
#[rustfmt::skip]
fn sound_histories_amid_changes_are_accepted() {
    let always = InForce::always;
    let rows: &[(&str, InForce, &[Event])] = &[
        ("disabled, and so refused", always(DISABLED), &[at(1, 0, 9, claim(1), NO_MORE)]),
        ("granted, then disabled: settlements and final verdicts still work", change(RULES, DISABLED, 10, 20), &[at(1, 0, 9, claim(1), got(5)), at(1, 30, 39, complete(5), OK), at(2, 40, 49, claim(2), Completed)]),
        ("granted while the switch was being thrown", change(RULES, DISABLED, 3, 20), &[at(1, 0, 9, claim(1), got(5))]),
        ("granted elsewhere a while after it was thrown here", change(RULES, DISABLED, 3, 20), &[there(at(1, 4_000, 4_009, claim(1), got(4_005)))]),
        ("an early reclaim of a claim that was granted under the shorter grace", change(RULES, GRACEFUL, 50, 60), &[at(1, 0, 9, claim(1), got(5)), at(2, 1_200, 1_210, claim(2), got(1_205))]),
        ("either grace, elsewhere", change(RULES, GRACEFUL, 0, 1), &[there(at(1, 2, 9, claim(1), got(5))), there(at(2, 1_300, 1_310, claim(2), InProgress)), there(at(2, 1_500, 1_510, claim(2), got(1_505)))]),
        ("two attempts, then parked", always(TWICE), &[at(1, 0, 9, claim(1), nth(5, 1)), at(1, 10, 19, fail(5, Kind::Retryable), OK), at(2, 20, 29, claim(2), nth(25, 2)), at(2, 30, 39, fail(25, Kind::Retryable), OK), at(3, 40, 49, claim(3), Parked), at(2, 50, 59, complete(25), LATE)]),
        ("a released attempt is given back", always(TWICE), &[at(1, 0, 9, claim(1), nth(5, 1)), at(1, 10, 19, release(5), OK), at(2, 20, 29, claim(2), nth(25, 1)), at(2, 30, 39, fail(25, Kind::Retryable), OK), at(3, 40, 49, claim(3), nth(45, 2))]),
        ("a redrive gives all attempts back", always(TWICE), &[at(1, 0, 9, claim(1), nth(5, 1)), at(2, 1_200, 1_210, claim(2), nth(1_205, 2)), at(2, 1_220, 1_229, fail(1_205, Kind::Retryable), OK), at(9, 1_230, 1_239, order(Order::Redrive, false), OK), at(3, 1_240, 1_249, claim(3), nth(1_245, 1))]),
        ("the limit came too late for a third attempt", change(RULES, TWICE, 50, 60), &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, fail(5, Kind::Retryable), OK), at(2, 20, 29, claim(2), got(25)), at(2, 30, 39, fail(25, Kind::Retryable), OK), at(3, 40, 49, claim(3), nth(45, 3)), at(3, 70, 79, fail(45, Kind::Retryable), OK), at(4, 80, 89, claim(4), Parked)]),
        ("an expired last attempt is parked", always(TWICE), &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, fail(5, Kind::Retryable), OK), at(2, 20, 29, claim(2), got(25)), at(3, 1_200, 1_210, claim(3), Parked), at(2, 1_220, 1_230, complete(25), LATE)]),
        ("a back-off with its jitter", always(SLOW), &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, fails(5), OK), at(2, 100, 109, claim(2), Waits), at(2, 180, 189, claim(2), got(185)), at(2, 190, 199, fails(185), OK), at(3, 380, 389, claim(3), Waits), at(3, 600, 609, claim(3), got(605))]),
        ("a longer lease for whoever is granted after it", change(RULES, LONG, 50, 60), &[at(1, 0, 9, claim(1), got(5)), at(2, 1_200, 1_210, claim(2), got(1_205)), at(3, 3_200, 3_210, claim(3), InProgress), at(3, 3_310, 3_320, claim(3), got(3_315))]),
        ("tokens before, amid and after a raise of their offset", raise(15, 30), &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 14, release(5), OK), at(2, 16, 20, claim(2), got(60_018)), at(2, 21, 25, release(60_018), OK), at(3, 31, 39, claim(3), got(60_035)), at(4, 1_200, 1_210, claim(4), got(61_205))]),
        ("what is fixed at the grant stays", change(RULES, RECLAIM, 10, 15), &[at(1, 0, 9, claim(1), got(5)), at(1, 20, 29, Call::Renew { token: token(5), started: true }, OK), at(2, 1_300, 1_310, claim(2), Parked)]),
    ];
    for (name, in_force, events) in rows {
        if let Err(problem) = check(events, in_force) {
            panic!("{name}: {problem}");
        }
    }
}

#[test]
#[rustfmt::skip]
fn each_seeded_fault_amid_changes_is_caught() {
    let always = InForce::always;
    let shown = |in_force: InForce, at: i64| InForce { shown: vec![(1, BEGIN + at * 1_000, 1)], ..in_force };
    let rows: &[(&str, InForce, &[Event])] = &[
        ("granted though disabled", always(DISABLED), &[at(1, 0, 9, claim(1), got(5))]),
        ("granted here right after the switch was thrown here", change(RULES, DISABLED, 0, 10), &[at(1, 11, 20, claim(1), got(15))]),
        ("granted elsewhere more than five seconds after it was thrown", change(RULES, DISABLED, 0, 10), &[there(at(1, 5_011, 5_020, claim(1), got(5_015)))]),
        ("granted elsewhere after that replica has shown the switch", shown(change(RULES, DISABLED, 0, 10), 50), &[there(at(1, 60, 70, claim(1), got(65)))]),
        ("refused though never disabled", always(RULES), &[at(1, 0, 9, claim(1), NO_MORE)]),
        ("refused before it was disabled", change(RULES, DISABLED, 10, 20), &[at(1, 0, 9, claim(1), NO_MORE)]),
        ("refused here after it was enabled here", change(DISABLED, RULES, 0, 10), &[at(1, 11, 20, claim(1), NO_MORE)]),
        ("refused instead of a final verdict", change(RULES, DISABLED, 20, 29), &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, complete(5), OK), at(2, 30, 39, claim(2), NO_MORE)]),
        ("refused instead of a replay", change(RULES, DISABLED, 10, 20), &[at(1, 0, 9, claim(1), got(5)), at(1, 30, 39, claim(1), NO_MORE)]),
        ("parked though disabled", change(RULES, DISABLED, 20, 29), &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, Call::Renew { token: token(5), started: true }, OK), at(2, 1_300, 1_310, claim(2), Parked)]),
        ("a reclaim within the longest grace possible", change(GRACEFUL, GRACEFUL, 0, 1), &[at(1, 2, 9, claim(1), got(5)), at(2, 1_200, 1_210, claim(2), got(1_205))]),
        ("a reclaim within the shortest grace possible", change(RULES, GRACEFUL, 0, 1), &[there(at(1, 2, 9, claim(1), got(5))), there(at(2, 1_050, 1_060, claim(2), got(1_055)))]),
        ("a reclaim by a grace that came after the grant", change(GRACEFUL, RULES, 20, 30), &[at(1, 0, 9, claim(1), got(5)), at(2, 1_200, 1_210, claim(2), got(1_205))]),
        ("a third attempt of two", always(TWICE), &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, fail(5, Kind::Retryable), OK), at(2, 1_200, 1_210, claim(2), got(1_205)), at(3, 2_500, 2_510, claim(3), got(2_505))]),
        ("a third attempt under every limit that may be in force", change(TWICE, Rules { max_attempts: 1, ..RULES }, 0, 1), &[there(at(1, 2, 9, claim(1), got(5))), there(at(1, 10, 19, fail(5, Kind::Retryable), OK)), there(at(2, 20, 29, claim(2), got(25))), there(at(3, 1_500, 1_510, claim(3), got(1_505)))]),
        ("parked with an attempt left", always(TWICE), &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, fail(5, Kind::Retryable), OK), at(2, 20, 29, claim(2), Parked)]),
        ("a number of an attempt that was skipped", always(RULES), &[at(1, 0, 9, claim(1), nth(5, 2))]),
        ("a released attempt that counts", always(RULES), &[at(1, 0, 9, claim(1), nth(5, 1)), at(1, 10, 19, release(5), OK), at(2, 20, 29, claim(2), nth(25, 2))]),
        ("granted within the shortest back-off", always(SLOW), &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, fails(5), OK), at(2, 50, 59, claim(2), got(55))]),
        ("waiting beyond the longest back-off", always(SLOW), &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, fails(5), OK), at(2, 300, 309, claim(2), Waits)]),
        ("waiting though it was failed for at once", always(SLOW), &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, fail(5, Kind::Retryable), OK), at(2, 30, 39, claim(2), Waits)]),
        ("a back-off of what failed for good", always(SLOW), &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, fail(5, Kind::Terminal), OK), at(2, 12, 39, claim(2), Waits), at(2, 40, 49, claim(3), Failed)]),
        ("a lease that is shorter than any that may be in force", always(LONG), &[at(1, 0, 9, claim(1), got(5)), at(2, 1_200, 1_210, claim(2), got(1_205))]),
        ("reclaimed by a policy that came after the grant", change(RULES, RECLAIM, 10, 15), &[at(1, 0, 9, claim(1), got(5)), at(1, 20, 29, Call::Renew { token: token(5), started: true }, OK), at(2, 1_300, 1_310, claim(2), got(1_305))]),
        ("parked by a policy that came after the grant", change(RECLAIM, Rules { expiry: Expiry::Park, ..RULES }, 10, 15), &[at(1, 0, 9, claim(1), got(5)), at(2, 1_300, 1_310, claim(2), Parked)]),
        ("a lost grant that no policy allowed", always(DISABLED), &[at(1, 0, 0, claim(1), Unknown), at(2, 20, 29, claim(2), InProgress)]),
        ("a token without the offset that was raised before", raise(0, 10), &[at(1, 11, 19, claim(1), got(15))]),
        ("a token with an offset that was not raised yet", raise(20, 30), &[at(1, 11, 19, claim(1), got(60_015))]),
        ("an early reclaim under a raised offset", raise(0, 10), &[at(1, 11, 19, claim(1), got(60_015)), at(2, 1_050, 1_060, claim(2), got(61_055))]),
        ("closed to somebody else", always(SLOW), &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, fails(5), OK), at(2, 20, 29, claim(2), CLOSED)]),
    ];
    for (name, in_force, events) in rows {
        assert!(check(events, in_force).is_err(), "{name} was not caught");
    }
}
