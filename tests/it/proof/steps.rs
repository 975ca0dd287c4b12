//! Random steps: policies, operations and instants, the edges before all.

use idempotency_ledger_domain::{
    Backoff, FailureKind, FingerprintMode, OccurredAtMode, OnExpiry, Policy, ReplayMode, Span,
};

use super::spec::{Op, Order, Row};
use crate::harness::random::Random;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// Who claims.
pub(crate) const OWNERS: [&str; 2] = ["a", "b"];

pub(crate) fn pick<'a, T>(random: &mut Random, from: &'a [T]) -> &'a T {
    &from[random.below(from.len() as u64) as usize]
}

/// A policy whose spans lie close together, so that their edges meet.
pub(crate) fn policy(random: &mut Random) -> Policy {
    let seconds = |random: &mut Random, from: &[i64]| Span(*pick(random, from) * SECOND);
    let retention = Span(*pick(random, &[1, 2, 7]) * DAY);
    let policy = Policy {
        version: 1 + random.below(3) as i32,
        lease: seconds(random, &[1, 5, 10]),
        max_lease: seconds(random, &[10, 20]),
        max_hold: seconds(random, &[20, 30, 60]),
        reclaim_grace: seconds(random, &[0, 1, 3]),
        on_expiry: *pick(
            random,
            &[OnExpiry::Reclaim, OnExpiry::Reclaim, OnExpiry::Park, OnExpiry::ParkIfStarted],
        ),
        max_attempts: *pick(random, &[0, 1, 2, 3, 10]),
        backoff: Backoff {
            initial: seconds(random, &[0, 1, 2]),
            multiplier: *pick(random, &[1.0, 2.0, 3.0]),
            max: seconds(random, &[2, 10]),
            jitter: 0.0,
        },
        retention,
        failed_retention: Span(retention.0 * *pick(random, &[1, 3])),
        abandoned_retention: Span(retention.0 * *pick(random, &[1, 2])),
        result_retention: Span(*pick(random, &[0, DAY / 2, DAY])),
        fingerprint: *pick(
            random,
            &[
                FingerprintMode::Verify,
                FingerprintMode::Verify,
                FingerprintMode::Ignore,
                FingerprintMode::Require,
            ],
        ),
        // Less than any result of the steps.
        result_bytes_max: i32::from(random.percent(10)),
        disabled: random.percent(4),
        held_by: random.percent(4).then(|| "".into()),
        inbox: random.percent(70),
        backlog_full: random.percent(5),
        message_retention: *pick(random, &[Span::ZERO, Span(SECOND), Span(DAY / 2), retention]),
        occurred_at: if random.percent(10) { OccurredAtMode::Require } else { OccurredAtMode::Optional },
        ..Policy::default()
    };
    policy.validate().unwrap();
    policy
}

/// What a policy says of replays by now.
pub(crate) fn replay(random: &mut Random) -> ReplayMode {
    *pick(random, &[ReplayMode::Rebuild, ReplayMode::Rebuild, ReplayMode::Suppress, ReplayMode::Forbid])
}

/// Who has claimed so far; a new delivery, a repeat, or the id of one with another owner.
pub(crate) fn claimant(random: &mut Random, known: &mut Vec<(u128, String)>) -> (u128, String) {
    if !known.is_empty() && random.percent(45) {
        // The latest most of the time.
        let back = if random.percent(70) { 1 } else { 1 + random.below(known.len() as u64) as usize };
        let (id, holder) = known[known.len() - back].clone();
        return if random.percent(15) { (id, (*pick(random, &OWNERS)).to_owned()) } else { (id, holder) };
    }
    let number = u128::from(random.next()) << 64 | u128::from(random.next());
    let id = uuid::Builder::from_random_bytes(number.to_be_bytes()).into_uuid().as_u128();
    let who = (id, (*pick(random, &OWNERS)).to_owned());
    known.push(who.clone());
    who
}

/// An operation on a key of which the spec knows `row`.
pub(crate) fn op(random: &mut Random, row: Option<&Row>, known: &mut Vec<(u128, String)>, now: i64) -> Op {
    let bytes = |random: &mut Random, from: &[&str]| pick(random, from).as_bytes().to_vec();
    if random.percent(8) {
        return Op::Lookup;
    }
    if row.is_none() && random.percent(80) || random.percent(45) {
        let lease = random.percent(30).then(|| *pick(random, &[0, 1, 3, 15, 3_600]) * SECOND);
        let occurred_at =
            random.percent(30).then(|| now - *pick(random, &[-DAY, 0, DAY - 1, DAY, 2 * DAY, 9 * DAY]));
        let print = bytes(random, &["", "", "", "A", "A", "B"]);
        return Op::Claim { who: claimant(random, known), lease, print, occurred_at };
    }
    let latest = row.map_or(now, |row| row.token);
    let past = row.map(|row| row.past.iter().filter_map(|past| past.token).collect::<Vec<_>>());
    let past = past.filter(|past| !past.is_empty()).map(|past| *pick(random, &past));
    if let Some(token) = past
        && random.percent(8)
    {
        // A holder that was superseded reports its effect.
        return Op::Complete { token, result: bytes(random, &["", "R1"]), too_large: false };
    }
    let token = match random.below(20) {
        0 if past.is_some() && random.percent(50) => past.unwrap_or(latest),
        0 => latest - 1 - random.below(3) as i64,
        1 => latest + 1 + random.below(3) as i64,
        2 => random.below(1_000) as i64 + 1,
        _ => latest,
    }
    .max(1);
    let error = |random: &mut Random| (*pick(random, &["", "E1", "E2"])).to_owned();
    match random.below(10) {
        0..3 => {
            let too_large = random.percent(20);
            let result = if too_large { Vec::new() } else { bytes(random, &["", "R1", "R2"]) };
            Op::Complete { token, result, too_large }
        }
        3..6 => Op::Fail {
            token,
            kind: *pick(
                random,
                &[FailureKind::Retryable, FailureKind::Retryable, FailureKind::Terminal, FailureKind::Park],
            ),
            error: error(random),
            retry_after: random.percent(30).then(|| *pick(random, &[0, 1, 5]) * SECOND),
        },
        6..8 => {
            Op::Release { token, delay: *pick(random, &[0, 0, 1, 5]) * SECOND, unpin: random.percent(50) }
        }
        _ => {
            let too_large = random.percent(10);
            let stored = !too_large && random.percent(30);
            Op::Renew {
                token,
                lease: random.percent(50).then(|| *pick(random, &[0, 1, 5, 15, 3_600]) * SECOND),
                started: random.percent(30),
                checkpoint: stored.then(|| bytes(random, &["", "C1", "C2"])),
                too_large,
            }
        }
    }
}

/// A message to be kept: its fingerprint, and when it was made.
pub(crate) fn message(random: &mut Random, now: i64) -> (Vec<u8>, Option<i64>) {
    let print = pick(random, &["", "", "A", "A", "B"]).as_bytes().to_vec();
    (print, random.percent(30).then(|| now - *pick(random, &[-DAY, 0, DAY - 1, DAY, 2 * DAY, 9 * DAY])))
}

/// An operator's change.
pub(crate) fn order(random: &mut Random) -> Order {
    let force = random.percent(40);
    match random.below(10) {
        0..3 => Order::Redrive { force, drop_fingerprint: random.percent(30), admit: random.percent(50) },
        3..5 => Order::Park,
        5 => Order::Complete { force, result: pick(random, &["", "R3"]).as_bytes().to_vec() },
        6 => Order::FailTerminal { force, error: "given up".into() },
        7..9 => Order::NotDone { force },
        _ => Order::Delete { force },
    }
}

/// How far the clock moves: often to an edge of the row, or one microsecond beside it.
pub(crate) fn advance(random: &mut Random, row: Option<&Row>, policy: &Policy, now: i64) -> i64 {
    if let Some(row) = row
        && random.percent(50)
    {
        let edges = [
            row.lease_until,
            row.lease_until + row.grace,
            row.hold_until,
            row.not_before,
            row.closed_at + policy.result_retention.0,
        ];
        let edge = pick(random, &edges) + *pick(random, &[-1, 0, 1]);
        if edge > now {
            return edge - now;
        }
    }
    match random.below(100) {
        0..60 => 0,
        60..97 => random.below(15) as i64 * SECOND / 2,
        _ => random.below(30) as i64 * DAY / 2,
    }
}
