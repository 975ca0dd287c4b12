//! The calls that wait for one key, in the order of their arrival: which of them look when something happens. Pure.
//!
//! | what happens | who looks |
//! | --- | --- |
//! | the entry is settled | all |
//! | the key may be granted | the first Claim |
//! | that look is granted nothing, and does not find a holder; or its caller is gone | the next Claim that has not looked since |
//! | a claim was granted the key, or holds it | all that are the same claim |
//! | the next attempt is not due | the Claims whose wait is over before it is |
//! | a poll | in addition, the calls whose last look must be repeated |
//!
//! A call that looks while one of these happens to it looks again: its look may have been before the change.

use crate::domain::{Claimant, Sight};

/// The number of a waiting call on this server. Later calls have higher numbers.
pub(super) type Seat = u64;

/// The kind of a waiting call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WaiterKind {
    /// A Claim, and what makes another one the same.
    Claims(Claimant),
    /// A Lookup.
    LooksUp,
}

/// What a look of a waiting call found, if the call goes on waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// Another claim holds the key.
    Held,
    /// The next attempt is not due; or, of a Lookup, the entry is not settled.
    Nothing,
    /// The look failed, and is repeated at the next poll.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Rests,
    /// It looks. `again`: something happened meanwhile.
    Looks {
        again: bool,
    },
}

#[derive(Clone, Debug)]
struct Waiter {
    seat: Seat,
    who: WaiterKind,
    does: Does,
    /// The round in which it looked last.
    round: u64,
    /// Its last look must be repeated.
    repeats: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyWaiters {
    waiters: Vec<Waiter>,
    /// Whether the key may be granted, so that the Claims look one after the other.
    claimable: bool,
    /// How often the key became claimable: in each round a Claim looks at most once.
    round: u64,
}

impl KeyWaiters {
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn has_claims(&self) -> bool {
        self.waiters.iter().any(|waiter| waiter.who != WaiterKind::LooksUp)
    }

    /// Adds a call. It has looked, perhaps before the key became claimable.
    pub(super) fn enter(&mut self, seat: Seat, who: WaiterKind) {
        let round = self.round.saturating_sub(u64::from(self.claimable));
        self.waiters.push(Waiter { seat, who, does: Does::Rests, round, repeats: false });
    }

    /// Notes what was seen of the entry, in a change on this server or, if `polled`, in a poll. Returns the calls that look.
    pub(super) fn seen(&mut self, sight: &Sight, polled: bool) -> Vec<Seat> {
        let mut called = match sight {
            Sight::Settled => {
                self.claimable = false;
                self.call_all(|_| true)
            }
            Sight::Claimable => self.is_claimable(),
            Sight::Held(holder, _) => {
                self.claimable = false;
                self.call_all(
                    |waiter| matches!(&waiter.who, WaiterKind::Claims(claimant) if claimant == holder),
                )
            }
            Sight::NotDue(_) => Vec::new(),
        };
        if polled {
            called.extend(self.call_all(|waiter| waiter.repeats && waiter.does == Does::Rests));
        }
        called
    }

    /// The next attempt is due only after the wait of these calls: their verdict is not awaited any more. Returns the calls that
    /// look.
    pub(super) fn is_not_due_for(&mut self, calls: impl Fn(Seat) -> bool) -> Vec<Seat> {
        self.call_all(|waiter| waiter.who != WaiterKind::LooksUp && calls(waiter.seat))
    }

    /// The key may be granted from now on: the lease of its holder is over, or the next attempt is due. Returns the calls that
    /// look.
    pub(super) fn is_claimable(&mut self) -> Vec<Seat> {
        if !self.claimable || !self.waiters.iter().any(Waiter::claims_now) {
            self.round += 1;
        }
        self.claimable = true;
        self.next()
    }

    /// Records the result of a call's look after which the call keeps waiting. Returns the calls that look next.
    pub(super) fn looked(&mut self, seat: Seat, found: Looked) -> Vec<Seat> {
        let Some(waiter) = self.waiters.iter_mut().find(|waiter| waiter.seat == seat) else {
            return Vec::new();
        };
        let again = waiter.does == Does::Looks { again: true };
        // The key became claimable while it looked.
        let outdated = waiter.round < self.round;
        waiter.does = Does::Rests;
        waiter.repeats = found == Looked::Failed;
        match found {
            // Where the server is overloaded, the other calls would be refused one after the other.
            Looked::Failed => return Vec::new(),
            Looked::Held if !again && !outdated => self.claimable = false,
            Looked::Held | Looked::Nothing => {}
        }
        let mut called = if again { self.call_all(|waiter| waiter.seat == seat) } else { Vec::new() };
        called.extend(self.next());
        called
    }

    /// Records that a call looks a last time, since its maximum wait is reached.
    pub(super) fn looks(&mut self, seat: Seat) {
        let _called = self.call_all(|waiter| waiter.seat == seat);
    }

    /// Removes a call: it is answered, or its caller is gone. Returns the calls that look next. If the call was granted the key,
    /// that was seen before; and its attempt may have failed by now.
    pub(super) fn leave(&mut self, seat: Seat) -> Vec<Seat> {
        self.waiters.retain(|waiter| waiter.seat != seat);
        self.next()
    }

    /// The next Claim, if the key may be granted and no Claim looks.
    fn next(&mut self) -> Vec<Seat> {
        if !self.claimable || self.waiters.iter().any(Waiter::claims_now) {
            return Vec::new();
        }
        let round = self.round;
        let fits = |waiter: &&mut Waiter| waiter.who != WaiterKind::LooksUp && waiter.round < round;
        let Some(next) = self.waiters.iter_mut().find(fits) else {
            // Each of them was granted nothing.
            self.claimable = false;
            return Vec::new();
        };
        next.round = round;
        next.does = Does::Looks { again: false };
        vec![next.seat]
    }

    /// Lets all matching calls look. Those that look already look again after that.
    fn call_all(&mut self, is: impl Fn(&Waiter) -> bool) -> Vec<Seat> {
        let mut called = Vec::new();
        for waiter in self.waiters.iter_mut().filter(|waiter| is(waiter)) {
            match &mut waiter.does {
                Does::Rests => {
                    waiter.does = Does::Looks { again: false };
                    waiter.round = self.round;
                    called.push(waiter.seat);
                }
                Does::Looks { again } => *again = true,
            }
        }
        called
    }
}

impl Waiter {
    fn claims_now(&self) -> bool {
        self.who != WaiterKind::LooksUp && self.does != Does::Rests
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod model;
#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
