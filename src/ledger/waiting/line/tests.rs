use uuid::Uuid;

use super::*;
use crate::domain::Span;

const NONE: [Seat; 0] = [];
const SECOND: Span = Span::from_secs(1);

fn claimant(number: u128) -> Claimant {
    Claimant { claim_id: Uuid::from_u128(number), principal: "p".into(), owner: "o".into() }
}

fn held_by(number: u128) -> Sight {
    Sight::Held(claimant(number), SECOND)
}

/// Claims 1, 2, 3 and so on, and a Lookup behind them with seat 9.
fn line(claims: u64) -> KeyWaiters {
    let mut line = KeyWaiters::default();
    for seat in 1..=claims {
        line.enter(seat, WaiterKind::Claims(claimant(u128::from(seat))));
    }
    line.enter(9, WaiterKind::LooksUp);
    line
}

#[test]
fn all_calls_look_at_a_settled_entry() {
    let mut line = line(3);
    assert_eq!(line.seen(&Sight::Settled, false), [1, 2, 3, 9]);
    assert_eq!(line.seen(&Sight::Settled, true), NONE, "they look already");
    assert_eq!(
        line.looked(2, Looked::Held),
        [2],
        "and again: the first look may have been before the change"
    );
    for seat in [1, 2, 3, 9] {
        assert_eq!(line.leave(seat), NONE, "{seat}");
    }
    assert!(line.is_empty());
}

#[test]
fn of_the_claims_only_the_first_looks_at_a_claimable_key() {
    let mut line = line(3);
    assert_eq!(line.seen(&Sight::Claimable, false), [1]);
    assert_eq!(line.seen(&Sight::Claimable, true), NONE, "it looks already");
    assert_eq!(line.is_claimable(), NONE, "the same by the time");
    assert_eq!(line.seen(&held_by(1), false), NONE, "it was granted");
    assert_eq!(line.leave(1), NONE);
    // Its attempt fails.
    assert_eq!(line.seen(&Sight::Claimable, false), [2]);
}

#[test]
fn the_next_claim_looks_after_a_look_without_a_grant() {
    for (what, end) in [("refused, or its caller is gone", None), ("backoff", Some(Looked::Nothing))] {
        let mut line = line(3);
        let mut called = line.seen(&Sight::Claimable, false);
        for seat in 1..=3 {
            assert_eq!(called, [seat], "{what}");
            called = match end {
                None => line.leave(seat),
                Some(looked) => line.looked(seat, looked),
            };
        }
        assert_eq!(called, NONE, "{what}: each looks once");
    }
}

#[test]
fn a_look_that_finds_a_holder_lets_no_other_call_look() {
    let mut line = line(3);
    assert_eq!(line.seen(&Sight::Claimable, false), [1]);
    assert_eq!(line.looked(1, Looked::Held), NONE);
    assert_eq!(line.leave(1), NONE);
    assert_eq!(line.seen(&Sight::Claimable, false), [2]);
    // Another claim is granted the key and fails while it looks: what it found is older than that.
    assert_eq!(line.seen(&held_by(7), false), NONE);
    assert_eq!(line.seen(&Sight::Claimable, false), NONE);
    assert_eq!(line.looked(2, Looked::Held), [2]);
    assert_eq!(line.looked(2, Looked::Held), NONE);
}

#[test]
fn the_same_claim_looks_when_its_own_claim_is_granted() {
    let mut line = line(3);
    line.enter(4, WaiterKind::Claims(claimant(2)));
    for polled in [false, true] {
        assert_eq!(line.seen(&held_by(8), polled), NONE, "another's");
        assert_eq!(line.seen(&held_by(2), polled), [2, 4]);
        assert_eq!(line.looked(2, Looked::Held), NONE);
        assert_eq!(line.looked(4, Looked::Held), NONE);
    }
    // Another owner makes it another claim.
    let other = Claimant { owner: "other".into(), ..claimant(2) };
    assert_eq!(line.seen(&Sight::Held(other, SECOND), true), NONE);
    // Granted to one of the two that are the same, which looks: the other one looks too.
    assert_eq!(line.seen(&Sight::Claimable, false), [1]);
    assert_eq!(line.leave(1), [2]);
    assert_eq!(line.seen(&held_by(2), false), [4]);
    assert_eq!(line.leave(2), NONE);
}

#[test]
fn a_look_that_failed_is_repeated_at_the_next_poll_and_calls_no_other() {
    let mut line = line(3);
    assert_eq!(line.seen(&Sight::Claimable, false), [1]);
    assert_eq!(line.looked(1, Looked::Failed), NONE);
    assert_eq!(line.seen(&held_by(7), true), [1], "for any holder");
    assert_eq!(line.looked(1, Looked::Held), NONE);
    assert_eq!(line.seen(&held_by(7), true), NONE, "once");
    assert_eq!(line.seen(&Sight::Settled, false), [1, 2, 3, 9]);
    for seat in [1, 2, 3, 9] {
        assert_eq!(line.looked(seat, Looked::Failed), NONE);
    }
    assert_eq!(line.seen(&Sight::Settled, true), [1, 2, 3, 9]);
}

#[test]
fn no_call_looks_before_the_next_attempt_is_due() {
    let mut line = line(2);
    assert_eq!(line.seen(&Sight::NotDue(SECOND), true), NONE);
    assert_eq!(line.is_claimable(), [1], "once it is due");
}

#[test]
fn a_lookup_looks_only_when_the_entry_is_settled() {
    let mut line = KeyWaiters::default();
    line.enter(1, WaiterKind::LooksUp);
    assert!(!line.has_claims());
    for sight in [Sight::Claimable, held_by(1), Sight::NotDue(SECOND)] {
        assert_eq!(line.seen(&sight, true), NONE, "{sight:?}");
    }
    assert_eq!(line.seen(&Sight::Settled, true), [1]);
}
