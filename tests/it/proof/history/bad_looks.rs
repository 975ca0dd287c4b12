//! The checker's eye for look-ups: what they may find, and what they must not.

use super::bad::{OK, RULES, at, claim, complete, fail, got, order, release};
use super::{Call::Lookup, Event, InForce, Kind, Order, Outcome, Refusal, Seen, check};
use Seen::{Absent, Backoff, Completed, Due, Expired, Failed, Held, Parked};

fn found(seen: Seen, attempt: i32) -> Outcome {
    Outcome::Found { seen, attempt }
}

fn look(from: i64, to: i64, seen: Seen, attempt: i32) -> Event {
    at(7, from, to, Lookup, found(seen, attempt))
}

#[test]
#[rustfmt::skip]
fn a_lookup_is_explained_by_the_state_of_its_key() {
    let held = at(1, 0, 9, claim(1), got(5));
    let rows: &[(&str, &[Event], bool)] = &[
        ("a key that was never claimed", &[look(0, 9, Absent, 0)], true),
        ("a claim under its lease", &[held, look(10, 19, Held, 1)], true),
        ("before the grant, amid it", &[at(1, 0, 40, claim(1), got(30)), look(5, 9, Absent, 0)], true),
        ("in grace it is held", &[held, look(1_050, 1_060, Held, 1)], true),
        ("a claim that has expired", &[held, look(1_200, 1_210, Expired, 1)], true),
        ("failed, and due at once", &[held, at(1, 10, 19, fail(5, Kind::Retryable), OK), look(20, 29, Due, 1)], true),
        ("released: the attempt was given back", &[held, at(1, 10, 19, release(5), OK), look(20, 29, Due, 0)], true),
        ("completed", &[held, at(1, 10, 19, complete(5), OK), look(20, 29, Completed, 1)], true),
        ("failed for good", &[held, at(1, 10, 19, fail(5, Kind::Terminal), OK), look(20, 29, Failed, 1)], true),
        ("parked", &[held, at(1, 10, 19, fail(5, Kind::Park), OK), look(20, 29, Parked, 1)], true),
        ("deleted by an operator", &[held, at(1, 10, 19, complete(5), OK), at(9, 20, 29, order(Order::Delete, true), OK), look(30, 39, Absent, 0)], true),
        ("amid a Complete, whose answer is unknown", &[held, at(1, 10, 0, complete(5), Outcome::Unknown), look(20, 29, Completed, 1)], true),
        ("a stale one: held after it was completed", &[held, at(1, 10, 19, complete(5), OK), look(20, 29, Held, 1)], false),
        ("absent after the grant", &[held, look(10, 19, Absent, 0)], false),
        ("completed by nobody", &[held, look(10, 19, Completed, 1)], false),
        ("completed, and then held again", &[held, at(1, 10, 50, complete(5), OK), look(20, 29, Completed, 1), look(30, 39, Held, 1)], false),
        ("expired under its lease", &[held, look(10, 19, Expired, 1)], false),
        ("held when it has expired", &[held, look(1_200, 1_210, Held, 1)], false),
        ("parked by a look at what has expired", &[held, look(1_200, 1_210, Parked, 1)], false),
        ("waiting for a back-off that is over", &[held, at(1, 10, 19, fail(5, Kind::Retryable), OK), look(30, 39, Backoff, 1)], false),
        ("another attempt than the claim's", &[held, look(10, 19, Held, 2)], false),
        ("an attempt that was given back", &[held, at(1, 10, 19, release(5), OK), look(20, 29, Due, 1)], false),
        ("what a claim is told", &[held, at(7, 10, 19, Lookup, Outcome::InProgress)], false),
        ("a hold holds no look-up back", &[held, at(7, 10, 19, Lookup, Outcome::Refused(Refusal::Disabled))], false),
        ("a run that is known", &[held, at(7, 10, 19, Lookup, Outcome::Refused(Refusal::RunUnknown))], false),
    ];
    for (name, events, explained) in rows {
        let told = check(events, &InForce::always(RULES));
        assert_eq!(told.is_ok(), *explained, "{name}: {told:?}");
    }
}
