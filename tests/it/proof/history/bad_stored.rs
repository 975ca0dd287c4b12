//! Histories with stored messages, some of them impossible: the checker must know which.

use super::bad::{LATE, OK, RULES, at, claim, complete, got};
use super::{Call, Event, InForce, Outcome, Refusal, Seen, check};
use Outcome::{Completed, InProgress, Unknown};

const STORE: Call = Call::Store;
const NEW: Outcome = Outcome::Stored { before: false, seen: Seen::Due };
const BEFORE: Outcome = Outcome::Stored { before: true, seen: Seen::Due };
const ATTACHED: Outcome = Outcome::Stored { before: false, seen: Seen::Held };

fn next(claim: u64) -> Call {
    Call::Next { claim }
}

#[test]
#[rustfmt::skip]
fn a_message_is_handed_out_where_it_is_kept_and_to_one_claim() {
    // The history, and whether the contract explains it.
    let rows: &[(&str, &[Event], bool)] = &[
        ("stored, handed out, completed", &[at(1, 0, 9, STORE, NEW), at(2, 10, 19, next(2), got(15)), at(2, 20, 30, complete(15), OK)], true),
        ("handed out although it was never stored", &[at(2, 10, 19, next(2), got(15))], false),
        ("handed out before it was stored", &[at(2, 0, 9, next(2), got(5)), at(1, 10, 19, STORE, ATTACHED)], false),
        ("stored twice", &[at(1, 0, 9, STORE, NEW), at(1, 10, 19, STORE, BEFORE)], true),
        ("stored as new twice", &[at(1, 0, 9, STORE, NEW), at(1, 10, 19, STORE, NEW)], false),
        ("kept before, although no call stored it", &[at(1, 0, 9, STORE, BEFORE)], false),
        ("its Store without an answer took effect", &[at(1, 0, 0, STORE, Unknown), at(1, 10, 19, STORE, BEFORE)], true),
        ("attached to a claim", &[at(1, 0, 9, claim(1), got(5)), at(2, 10, 19, STORE, ATTACHED)], true),
        ("attached to a claim that had ended", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, complete(5), OK), at(2, 20, 29, STORE, ATTACHED)], false),
        ("done when it is stored", &[at(1, 0, 9, claim(1), got(5)), at(1, 10, 19, complete(5), OK), at(2, 20, 29, STORE, Completed)], true),
        ("completed although no claim completed it", &[at(2, 20, 29, STORE, Completed)], false),
        ("handed to two live claims", &[at(1, 0, 9, STORE, NEW), at(2, 10, 19, next(2), got(15)), at(3, 20, 29, next(3), got(25))], false),
        ("handed out while a plain claim holds it", &[at(1, 0, 9, claim(1), got(5)), at(2, 10, 19, STORE, ATTACHED), at(3, 20, 29, next(3), got(25))], false),
        ("claimed while a handout holds it", &[at(1, 0, 9, STORE, NEW), at(2, 10, 19, next(2), got(15)), at(3, 20, 29, claim(3), InProgress)], true),
        ("granted while a handout without an answer may hold it", &[at(1, 0, 9, STORE, NEW), at(2, 10, 0, next(2), Unknown), at(3, 20, 29, claim(3), InProgress)], true),
        ("a token that no client was given completes it", &[at(1, 0, 9, STORE, NEW), at(2, 10, 19, complete(5), LATE)], false),
        ("handed out after it was completed", &[at(1, 0, 9, STORE, NEW), at(2, 10, 19, next(2), got(15)), at(2, 20, 29, complete(15), OK), at(3, 30, 39, next(3), got(35))], false),
        ("a Store is refused as a claim is", &[at(1, 0, 9, STORE, Outcome::Refused(Refusal::Disabled))], false),
    ];
    for (name, events, explained) in rows {
        let found = check(events, &InForce::always(RULES));
        assert_eq!(found.is_ok(), *explained, "{name}: {found:?}");
    }
}
