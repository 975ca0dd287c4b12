//! A server whose connection to the database ends under a statement sends it again, once. The first try of a claim may have
//! been applied all the same: then its answer is that of the same claim, repeated by its client.

use super::bad::{LATE, OK, RULES, at, claim, complete, got, order};
use super::search::EVENTS_MAX;
use super::{Call, Event, InForce, Order, Outcome, check};
use Outcome::{Completed, Parked};

/// What [`check`] says where each claim that was answered may have been applied before, by a try of its server.
pub(crate) fn check_with_second_tries(events: &[Event], in_force: &InForce) -> Result<(), String> {
    let is_claim =
        |event: &&Event| matches!(event.call, Call::Claim { .. } | Call::Next { .. } | Call::Store);
    let answered = events.iter().filter(is_claim).filter(|event| event.outcome != Outcome::Unknown);
    // It was applied before the answer, or never.
    let first = answered.map(|event| Event { outcome: Outcome::Unknown, ..*event });
    let all: Vec<Event> = events.iter().copied().chain(first).collect();
    if all.len() > EVENTS_MAX {
        return Err(format!("{} events and the tries before them are too many", events.len()));
    }
    check(&all, in_force)
}

#[test]
#[rustfmt::skip]
fn a_claim_may_have_been_applied_before_its_answer_but_not_after_it() {
    // The history, and whether second tries explain it; without them none of these is explained.
    let rows: &[(&str, &[Event], bool)] = &[
        ("granted, resolved by an operator, answered", &[at(1, 0, 40, claim(1), Completed), at(9, 10, 30, order(Order::Complete, true), OK)], true),
        ("granted, parked by an operator, answered", &[at(1, 0, 40, claim(1), Parked), at(9, 10, 30, order(Order::Park, false), OK)], true),
        ("the operator came when it was answered", &[at(1, 0, 9, claim(1), Completed), at(9, 10, 30, order(Order::Complete, true), OK)], false),
        ("the operator was there before it", &[at(9, 0, 9, order(Order::Complete, true), OK), at(1, 10, 30, claim(1), Completed)], false),
        ("nobody has completed it", &[at(1, 0, 40, claim(1), Completed)], false),
        ("another claim is granted while it is held", &[at(1, 0, 9, claim(1), got(5)), at(2, 10, 40, claim(2), got(35))], false),
        ("a first try granted it, the second one again", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 20, complete(5), OK), at(2, 30, 40, claim(2), got(35))], false),
        ("a token that nobody got", &[at(1, 0, 40, claim(1), Completed), at(2, 10, 30, complete(20), LATE)], false),
    ];
    for (name, events, explained) in rows {
        let in_force = InForce::always(RULES);
        assert!(check(events, &in_force).is_err(), "{name}: without second tries");
        let told = check_with_second_tries(events, &in_force);
        assert_eq!(told.is_ok(), *explained, "{name}: {told:?}");
    }
}
