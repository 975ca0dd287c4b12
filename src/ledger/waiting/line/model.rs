//! Every interleaving of a key's holder, its waiting calls, a claim that does not wait, and callers that go away: while
//! no call looks, no call may rest that a look would answer otherwise.

use std::collections::HashSet;

use uuid::Uuid;

use super::*;
use crate::domain::Span;

/// The claims: 0 does not wait. Of those that wait 1 and 2 are the same claim.
const SAME_AS: [u128; CALLS + 1] = [7, 1, 1, 3, 4];
/// How many calls wait.
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
enum Call {
    Rests,
    /// It was called to look, and its look has not reached the store.
    Called,
    /// Its look is decided, and the room does not know yet.
    Found(Answer),
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Granted,
    Held,
    Final,
}

#[derive(Clone, Debug)]
struct World {
    entry: Entry,
    calls: [Call; CALLS + 1],
    line: Line,
    failures: u8,
}

impl World {
    fn new() -> World {
        let mut line = Line::default();
        for number in 1..=CALLS {
            line.enter(number as Seat, Who::Claims(claimant(number)));
        }
        let mut calls = [Call::Rests; CALLS + 1];
        calls[0] = Call::Gone;
        World { entry: Entry::HeldBy(0), calls, line, failures: 0 }
    }

    fn called(mut self, seats: &[Seat]) -> World {
        for seat in seats {
            let call = &mut self.calls[usize::try_from(*seat).expect("few calls")];
            assert_eq!(*call, Call::Rests, "a call is called once until it has looked");
            *call = Call::Called;
        }
        self
    }

    /// The entry is written, and the room hears of it.
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
        self.calls[number] = Call::Gone;
        let seats = self.line.leave(number as Seat);
        self.called(&seats)
    }

    /// All that may happen next.
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
                Call::Called => {
                    let (answer, write) = match self.entry {
                        Entry::Free => (Answer::Granted, Some(Entry::HeldBy(number))),
                        Entry::HeldBy(holder) if SAME_AS[holder] == same_as => (Answer::Granted, None),
                        Entry::HeldBy(_) => (Answer::Held, None),
                        Entry::Done => (Answer::Final, None),
                    };
                    let mut looked = self.clone();
                    looked.calls[number] = Call::Found(answer);
                    all.push(match write {
                        Some(entry) => looked.written(entry),
                        None => looked,
                    });
                    // Its caller goes away before it looked.
                    all.push(self.clone().leaves(number));
                }
                Call::Found(Answer::Held) => {
                    let mut waiting = self.clone();
                    waiting.calls[number] = Call::Rests;
                    let seats = waiting.line.looked(number as Seat, Looked::Held);
                    all.push(waiting.called(&seats));
                    all.push(self.clone().leaves(number));
                }
                // It is answered, or its caller goes away before that: it may have been granted the key all the same.
                Call::Found(Answer::Granted | Answer::Final) => all.push(self.clone().leaves(number)),
                Call::Rests | Call::Gone => {}
            }
        }
        all
    }

    /// What must not be, while no call looks.
    fn check(&self) {
        if self.calls.iter().any(|call| matches!(call, Call::Called | Call::Found(_))) {
            return;
        }
        for number in (1..=CALLS).filter(|number| self.calls[*number] == Call::Rests) {
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
