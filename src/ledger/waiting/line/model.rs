//! Every interleaving of a key's holder, its waiting calls, a claim that does not wait, and callers that go away: while no
//! call looks, no call may rest that a look would answer differently.

use std::collections::HashSet;

use uuid::Uuid;

use super::*;
use crate::domain::Span;

/// The claims: 0 does not wait. Of those that wait, 1 and 2 are the same claim.
const SAME_AS: [u128; CALLS + 1] = [7, 1, 1, 3, 4];
/// Number of waiting calls.
const CALLS: usize = 4;
/// How often a holder may fail.
const FAILURES: u8 = 3;

fn claimant(number: usize) -> Claimant {
    Claimant { claim_id: Uuid::from_u128(SAME_AS[number]), principal: "p".into(), owner: "o".into() }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Free,
    HeldBy(usize),
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelCall {
    Rests,
    /// It was called to look, and its look has not reached the store.
    Called,
    /// Its look is decided, and the room does not know yet.
    Found(LookResult),
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookResult {
    Granted,
    Held,
    Final,
}

#[derive(Clone, Debug)]
struct World {
    entry: Entry,
    calls: [ModelCall; CALLS + 1],
    line: KeyWaiters,
    failures: u8,
}

impl World {
    fn new() -> World {
        let mut line = KeyWaiters::default();
        for number in 1..=CALLS {
            line.enter(number as Seat, WaiterKind::Claims(claimant(number)));
        }
        let mut calls = [ModelCall::Rests; CALLS + 1];
        calls[0] = ModelCall::Gone;
        World { entry: Entry::HeldBy(0), calls, line, failures: 0 }
    }

    fn called(mut self, seats: &[Seat]) -> World {
        for seat in seats {
            let call = &mut self.calls[usize::try_from(*seat).expect("few calls")];
            assert_eq!(*call, ModelCall::Rests, "a call is called once until it has looked");
            *call = ModelCall::Called;
        }
        self
    }

    /// Writes the entry, and reports it to the room.
    fn written(mut self, entry: Entry) -> World {
        self.entry = entry;
        let sight = match entry {
            Entry::Free => Sight::Claimable,
            Entry::HeldBy(number) => Sight::Held(claimant(number), Span::ZERO),
            Entry::Done => Sight::Settled,
        };
        let seats = self.line.seen(&sight, false);
        self.called(&seats)
    }

    fn leaves(mut self, number: usize) -> World {
        self.calls[number] = ModelCall::Gone;
        let seats = self.line.leave(number as Seat);
        self.called(&seats)
    }

    /// All states that may follow.
    fn next(&self) -> Vec<World> {
        let mut all = Vec::new();
        match self.entry {
            Entry::HeldBy(_) => {
                if self.failures < FAILURES {
                    all.push(World { failures: self.failures + 1, ..self.clone() }.written(Entry::Free));
                }
                all.push(self.clone().written(Entry::Done));
            }
            Entry::Free => all.push(self.clone().written(Entry::HeldBy(0))),
            Entry::Done => {}
        }
        for (number, same_as) in (1..=CALLS).map(|number| (number, SAME_AS[number])) {
            match self.calls[number] {
                ModelCall::Called => {
                    let (answer, write) = match self.entry {
                        Entry::Free => (LookResult::Granted, Some(Entry::HeldBy(number))),
                        Entry::HeldBy(holder) if SAME_AS[holder] == same_as => (LookResult::Granted, None),
                        Entry::HeldBy(_) => (LookResult::Held, None),
                        Entry::Done => (LookResult::Final, None),
                    };
                    let mut looked = self.clone();
                    looked.calls[number] = ModelCall::Found(answer);
                    all.push(match write {
                        Some(entry) => looked.written(entry),
                        None => looked,
                    });
                    // Its caller goes away before it looked.
                    all.push(self.clone().leaves(number));
                }
                ModelCall::Found(LookResult::Held) => {
                    let mut waiting = self.clone();
                    waiting.calls[number] = ModelCall::Rests;
                    let seats = waiting.line.looked(number as Seat, Looked::Held);
                    all.push(waiting.called(&seats));
                    all.push(self.clone().leaves(number));
                }
                // It is answered, or its caller goes away before that: it may have been granted the key nevertheless.
                ModelCall::Found(LookResult::Granted | LookResult::Final) => {
                    all.push(self.clone().leaves(number));
                }
                ModelCall::Rests | ModelCall::Gone => {}
            }
        }
        all
    }

    /// The invariant, while no call looks.
    fn check(&self) {
        if self.calls.iter().any(|call| matches!(call, ModelCall::Called | ModelCall::Found(_))) {
            return;
        }
        for number in (1..=CALLS).filter(|number| self.calls[*number] == ModelCall::Rests) {
            let right = match self.entry {
                Entry::HeldBy(holder) => SAME_AS[holder] != SAME_AS[number],
                Entry::Free | Entry::Done => false,
            };
            assert!(right, "call {number} rests: {self:?}");
        }
    }
}

#[test]
fn no_call_rests_that_a_look_would_answer_otherwise() {
    let (mut seen, mut left) = (HashSet::new(), vec![World::new()]);
    while let Some(world) = left.pop() {
        if seen.insert(format!("{world:?}")) {
            world.check();
            left.extend(world.next());
        }
    }
    assert!(seen.len() > 1_000, "{} states", seen.len());
}
