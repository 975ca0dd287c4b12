//! The rows of docs/contract.md, section 6, that say what becomes of a reconciled effect: again, written from the text and not
//! from the core.

use idempotency_ledger_domain::{Audited, ClosedBy, FingerprintMode, ParkCause, Standing, State};

use super::spec::{self, Order, Row, World};
use super::steps::pick;
use crate::harness::random::Random;

/// What a row proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    Guard,
    Spool,
    Unfinished,
}

/// A row of a guard table or of a spool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Effect {
    pub(crate) at: i64,
    pub(crate) proof: Proof,
    pub(crate) result: Vec<u8>,
    pub(crate) print: Vec<u8>,
}

/// The rows of a key that have an event, each under its instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Vec<Effect>);

impl Seen {
    fn at(&self, at: i64) -> Option<&Effect> {
        self.0.iter().find(|effect| effect.at == at)
    }

    pub(crate) fn audited(&self, effect: &Effect) -> Audited {
        match self.at(effect.at) {
            None => Audited::New,
            Some(before) if before == effect => Audited::Same,
            Some(_) => Audited::Other,
        }
    }

    /// The row has an event from now on, if its answer says that something was written.
    pub(crate) fn note(&mut self, effect: &Effect, said: &str) {
        if ["COMPLETED", "RESOLVED", "PARKED", "DOUBLED"].contains(&said) {
            self.0.push(effect.clone());
        }
    }
}

/// The outcome of a row, and the entry of its key afterwards.
pub(crate) fn reconcile(
    row: Option<&Row>,
    effect: &Effect,
    seen: &Seen,
    world: &World<'_>,
) -> (&'static str, Option<Row>) {
    let World { policy, now, behind, ahead, .. } = *world;
    let stays = |said| (said, row.cloned());
    if policy.run != Standing::Live {
        return stays("INVALID_FIELD");
    }
    match seen.at(effect.at) {
        Some(before) if before == effect => return stays("KNOWN"),
        Some(_) => return stays("INVALID_FIELD"),
        None => {}
    }
    if behind || ahead {
        return stays(if behind { "STORE_CLOCK_BEHIND" } else { "STORE_CLOCK_AHEAD" });
    }
    let Some(row) = row else { return absent(effect, world) };
    let compared = policy.fingerprint != FingerprintMode::Ignore && !row.unpinned;
    if compared && !row.print.is_empty() && !effect.print.is_empty() && row.print != effect.print {
        return stays("MISMATCH");
    }
    let unsettled = matches!(row.by, ClosedBy::Open | ClosedBy::Expiry | ClosedBy::OperatorPark);
    if unsettled && now < row.lease_until + row.grace {
        return stays("NOT_NOW");
    }
    match (row.state, effect.proof) {
        (State::FailedTerminal, _) => stays("CONTRADICTS"),
        (State::Completed, Proof::Guard) => stays("CONFIRMED"),
        (State::Completed, _) => ("DOUBLED", Some(Row { doubled: true, ..row.clone() })),
        (_, Proof::Unfinished) => {
            let since = if matches!(row.state, State::Parked(_)) { row.parked_at } else { now };
            let open = row.by == ClosedBy::Open;
            let parked = Row {
                state: State::Parked(ParkCause::EffectUnknown),
                by: if open { ClosedBy::OperatorPark } else { row.by },
                closed_at: if open { now } else { row.closed_at },
                parked_at: since,
                unknown: true,
                changed_at: now,
                keep_until: None,
                ..row.clone()
            };
            ("PARKED", Some(parked))
        }
        (_, Proof::Guard | Proof::Spool) => {
            let resolve = Order::Complete { force: false, result: effect.result.clone() };
            match spec::order(Some(row), &resolve, world) {
                Ok(after) => ("RESOLVED", after),
                Err(reason) => stays(reason),
            }
        }
    }
}

fn absent(effect: &Effect, world: &World<'_>) -> (&'static str, Option<Row>) {
    let World { policy, now, .. } = *world;
    let done = effect.at.min(now);
    let print = if policy.fingerprint == FingerprintMode::Ignore { Vec::new() } else { effect.print.clone() };
    let fresh = Row { print, ..spec::admitted(world) };
    if effect.proof == Proof::Unfinished {
        let state = State::Parked(ParkCause::EffectUnknown);
        return ("PARKED", Some(Row { state, parked_at: now, unknown: true, keep_until: None, ..fresh }));
    }
    if done + policy.retention.0 <= now {
        return ("RETENTION_OVER", None);
    }
    let stored = Row {
        state: State::Completed,
        result: effect.result.clone(),
        closed_at: done,
        keep_until: Some(done + policy.retention.0),
        ..fresh
    };
    ("COMPLETED", Some(stored))
}

/// A random row; often one that was reconciled before, or one with the instant of such a row.
pub(crate) fn effect(random: &mut Random, seen: &Seen, now: i64) -> Effect {
    const DAY: i64 = 86_400_000_000;
    if !seen.0.is_empty() && random.percent(20) {
        return pick(random, &seen.0).clone();
    }
    let bytes = |random: &mut Random, from: &[&str]| pick(random, from).as_bytes().to_vec();
    let proof = *pick(random, &[Proof::Guard, Proof::Spool, Proof::Spool, Proof::Unfinished]);
    let result = if proof == Proof::Unfinished { Vec::new() } else { bytes(random, &["", "R4"]) };
    let at = if !seen.0.is_empty() && random.percent(10) {
        pick(random, &seen.0).at
    } else {
        // One microsecond after another, so that no two rows are the same by chance.
        now - *pick(random, &[-DAY, 0, 1, DAY - 1, DAY, 2 * DAY, 9 * DAY]) + random.below(1_000_000) as i64
    };
    Effect { at, proof, result, print: bytes(random, &["", "", "A", "B"]) }
}
