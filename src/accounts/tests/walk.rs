//! A walk over every refusal of a full resource: on a small server calls begin, take bytes, rest, look again, are answered and end
//! in any order, and after each step each counter shows what its calls hold, however many were refused.

use std::collections::BTreeSet;

use super::*;
use crate::accounts::limits::OwnerKind;
use crate::common::dice::Dice;

const STEPS: usize = 6_000;
/// Calls at the same time.
const HELD_MAX: usize = 60;
/// Two principals, the principal of all callers of a server without credentials, a client without a credential, and a client that asks
/// for health once.
const WHO: [&str; 5] = ["a", "b", ANONYMOUS, "", "?"];
const NONE: PrincipalLimits = PrincipalLimits { calls_max: 0, calls_per_second: 0, bytes_max: 0 };
/// The limits of principals in turn, and who calls.
const RUNS: [(PrincipalLimits, &[&str]); 5] = [
    (NONE, &WHO),
    (NONE, &[ANONYMOUS]),
    (PrincipalLimits { calls_max: 8, ..NONE }, &WHO),
    // The rate depends on the clock: one call passes, and few more, however slow the machine is.
    (PrincipalLimits { calls_per_second: 1, ..NONE }, &WHO),
    (PrincipalLimits { bytes_max: 200_000, ..NONE }, &WHO),
];
/// Words that only one refusal has.
const REFUSALS: [&str; 8] = [
    "(connection_bytes_max)",
    "(server_bytes_max), of which",
    "(server_bytes_max) for others",
    "without a credential",
    "have not read",
    "(principal_calls_max)",
    "(principal_calls_per_second)",
    "(principal_bytes_max)",
];

/// A call, and what it must hold.
struct Held {
    call: Arc<CallAccount>,
    connection: usize,
    settles: bool,
    /// Bytes of its request that it has while it does not rest, of which those of the message end with it.
    bytes: usize,
    message: usize,
    rests: bool,
    answers: usize,
}

impl Held {
    fn requests(&self) -> usize {
        if self.rests { 0 } else { self.bytes }
    }

    fn is_of_stranger(&self) -> bool {
        self.call.state().owner.kind == OwnerKind::Stranger
    }
}

/// The sum of what these calls hold.
fn sum<'h>(held: impl Iterator<Item = &'h Held>, of: fn(&Held) -> usize) -> usize {
    held.map(of).sum()
}

struct Walk {
    who: &'static [&'static str],
    accounts: Accounts,
    clients: Vec<Client>,
    held: Vec<Held>,
    refused: BTreeSet<&'static str>,
    dice: Dice,
}

impl Walk {
    fn notes(&mut self, refused: &Rejection) {
        let known = REFUSALS.iter().find(|word| refused.message.contains(**word));
        self.refused.insert(known.unwrap_or_else(|| panic!("which refusal is {refused:?}?")));
    }

    fn begins(&mut self) {
        let (connection, who) =
            (self.dice.roll(self.clients.len()), self.who[self.dice.roll(self.who.len())]);
        let rpc = ["Claim", "Complete"][self.dice.roll(2)];
        match self.clients[connection].call(who, rpc) {
            Ok(call) => self.held.push(Held {
                call,
                connection,
                settles: who == "?" || rpc == "Complete",
                bytes: CALL_BYTES,
                message: 0,
                rests: false,
                answers: 0,
            }),
            Err(refused) => self.notes(&refused),
        }
    }

    fn takes(&mut self, number: usize) {
        let most = [2_000, 400_000][self.dice.roll(2)];
        let bytes = 1 + self.dice.roll(most);
        let held = &mut self.held[number];
        if held.rests {
            return;
        }
        match held.call.take_message(bytes) {
            Ok(()) => (held.bytes, held.message) = (held.bytes + bytes, held.message + bytes),
            Err(refused) => self.notes(&refused),
        }
    }

    fn ends_its_message(&mut self, number: usize) {
        let held = &mut self.held[number];
        if !held.rests {
            held.call.end_message();
            (held.bytes, held.message) = (held.bytes - held.message, 0);
        }
    }

    /// The call rests, or looks again.
    fn rests(&mut self, number: usize) {
        let held = &mut self.held[number];
        if !held.rests {
            held.call.rest();
            (held.message, held.rests) = (0, true);
            return;
        }
        match held.call.resume() {
            Ok(()) => held.rests = false,
            Err(refused) => self.notes(&refused),
        }
    }

    /// The call is answered, or its client takes the answer.
    fn is_answered(&mut self, number: usize) {
        let bytes = 1 + self.dice.roll(400_000);
        let held = &mut self.held[number];
        if held.answers == 0 {
            held.call.answers(bytes);
            held.answers = bytes;
        } else {
            held.call.answered(std::mem::take(&mut held.answers));
        }
    }

    fn ends(&mut self, number: usize) {
        let held = self.held.swap_remove(number);
        held.call.answered(held.answers);
    }

    fn steps(&mut self) {
        if self.held.is_empty() || self.held.len() < HELD_MAX && self.dice.roll(3) == 0 {
            return self.begins();
        }
        let number = self.dice.roll(self.held.len());
        match self.dice.roll(12) {
            0..4 => self.takes(number),
            4 => self.ends_its_message(number),
            5..7 => self.rests(number),
            7..9 => self.is_answered(number),
            _ => self.ends(number),
        }
    }

    /// Each counter shows what its calls hold.
    fn is_balanced(&self, what: &str) {
        let all = || self.held.iter();
        for (number, client) in self.clients.iter().enumerate() {
            let own = || all().filter(|held| held.connection == number);
            let connection = &client.connection;
            let counted =
                (connection.requests.bytes(), connection.answers.bytes(), connection.open().calls());
            let held = (sum(own(), Held::requests), sum(own(), |held| held.answers), own().count());
            assert_eq!(counted, held, "{what}: connection {number}");
        }
        for settles in [false, true] {
            let kind = || all().filter(|held| held.settles == settles);
            let pools = [(false, &self.accounts.0.requests), (true, &self.accounts.0.strangers)];
            for (of_strangers, pool) in pools {
                let own = kind().filter(|held| held.is_of_stranger() == of_strangers);
                assert_eq!(pool.held(settles), sum(own, Held::requests), "{what}: {of_strangers}");
            }
        }
        for one in all() {
            let owner = &one.call.state().owner;
            let own = || all().filter(|held| Arc::ptr_eq(&held.call.state().owner, owner));
            for settles in [false, true] {
                let kind = own().filter(|held| held.settles == settles);
                assert_eq!(owner.requests.held(settles), sum(kind, Held::requests), "{what}: {owner:?}");
            }
            let counts = self.accounts.0.limits.principals.calls_max > 0 && !one.is_of_stranger();
            let calls = if counts { own().filter(|held| !held.rests).count() } else { 0 };
            let held = (calls, sum(own(), |held| held.answers));
            assert_eq!((owner.calls(), owner.answers.bytes()), held, "{what}: {owner:?}");
        }
        assert_eq!(self.accounts.0.answers.bytes(), sum(all(), |held| held.answers), "{what}");
    }
}

#[test]
fn counters_show_what_calls_hold_whatever_was_refused() {
    let mut refused = BTreeSet::new();
    for (run, (principals, who)) in (0..).zip(RUNS) {
        let accounts = accounts(AccountLimits { principals, connection_bytes_max: 1 << 20, ..LIMITS });
        let clients = (1..=6).map(|address| Client::of(&accounts, address)).collect();
        let (held, dice) = (Vec::new(), Dice(run << 32));
        let mut walk = Walk { who, accounts, clients, held, refused: BTreeSet::new(), dice };
        for step in 0..STEPS {
            walk.steps();
            walk.is_balanced(&format!("run {run}, step {step}"));
        }
        while !walk.held.is_empty() {
            walk.ends(0);
        }
        walk.is_balanced("the end");
        walk.clients.clear();
        let left = walk.accounts.still_counted();
        assert!(left.is_empty(), "run {run}: {left}");
        refused.extend(walk.refused);
    }
    let missing: Vec<_> = REFUSALS.iter().filter(|word| !refused.contains(**word)).collect();
    assert!(missing.is_empty(), "nothing was refused with {missing:?}");
}
