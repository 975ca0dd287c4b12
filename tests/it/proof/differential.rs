//! The core against the spec: the same random steps, the same answers, the same rows.

// Also a module of `rules.rs`, which finds it by its path alone.
#[path = "differential/inbox.rs"]
mod inbox;
#[path = "differential/without_claim.rs"]
mod without_claim;

use idempotency_ledger_domain::{
    Changed, ClockLimits, Context, Entry, Fold, Key, Namespace, Policy, Reading, Reason, RunMode, Span,
    Standing, StoreTime, TOKEN_MAX, allowed_changes, is_over, is_over_with_its_run, operate, run_taken_from,
};

use super::reconciled::Seen;
use super::run::Run;
use super::spec::{self, Row, Said, World};
use super::{by_core, steps};
use crate::harness::random::Random;

/// After so many steps a new key begins.
const STEPS_PER_KEY: u64 = 60;

/// What was handed out so lately is not deleted.
const YOUNG: i64 = 60_000_000;

struct Walk {
    random: Random,
    policy: Policy,
    now: i64,
    offset: i64,
    entry: Option<Entry>,
    known: Vec<(u128, String)>,
    /// The effects that were reconciled.
    seen: Seen,
    /// Entries of other keys of the consumer that are due: neighbours of a handout.
    neighbours: Vec<Entry>,
    /// How many messages were handed out with others, and how many were erased.
    handed: u64,
    erased: u64,
    /// How many writes carried the changes of several commands.
    folded: u64,
    /// How many reports of one effect came after another one.
    doubled: u64,
    /// What was done and said, for a failure's sake.
    log: Vec<String>,
}

#[test]
fn the_core_and_the_spec_agree() {
    let mut run = Run::new("differential", 200_000);
    let mut seen = std::collections::BTreeMap::<String, u64>::new();
    let (mut steps, mut folded, mut doubled, mut handed, mut erased) = (0, 0, 0, 0, 0);
    let mut key_number = 0;
    while steps < run.size {
        let mut random = Random::new(run.seed.wrapping_add(key_number << 20));
        let now = 1_780_000_000_000_000;
        let policy = steps::policy(&mut random);
        let policy = in_run(&mut random, policy, now);
        let mut walk = Walk {
            random,
            policy,
            now,
            offset: 0,
            entry: None,
            known: Vec::new(),
            seen: Seen::default(),
            neighbours: Vec::new(),
            handed: 0,
            erased: 0,
            folded: 0,
            doubled: 0,
            log: Vec::new(),
        };
        for _ in 0..STEPS_PER_KEY {
            match walk.step() {
                Ok(said) => *seen.entry(kind(&said)).or_default() += 1,
                Err(problem) => run.fail(problem, &[("steps", walk.log.join("\n"))]),
            }
            steps += 1;
        }
        folded += walk.folded;
        doubled += walk.doubled;
        handed += walk.handed;
        erased += walk.erased;
        key_number += 1;
        run.progress(steps, "steps");
    }
    let fewest = seen.iter().min_by_key(|(_, times)| **times).unwrap();
    assert!(seen.len() >= 20, "too little was seen: {seen:?}");
    assert!(folded > steps / 100, "only {folded} writes carried several changes");
    assert!(doubled > steps / 2_000, "only {doubled} effects were reported twice");
    assert!(handed > steps / 1_000, "only {handed} messages were handed out together with others");
    assert!(erased > steps / 2_000, "only {erased} messages were erased");
    run.summary(format!(
        "{steps} steps on {key_number} keys, {folded} writes of several changes, {doubled} doubled effects, {handed} messages \
         handed out with others, {erased} erased, {} kinds of answers, the rarest ({}) {} times",
        seen.len(),
        fewest.0,
        fewest.1
    ));
}

fn kind(said: &Said) -> String {
    match said {
        Said::Error { reason, .. } => reason.clone(),
        other => format!("{other:?}").split([' ', '{']).next().unwrap().to_owned(),
    }
}

/// A third of the keys are of a replay run.
fn in_run(random: &mut Random, policy: Policy, now: i64) -> Policy {
    let end = StoreTime(now + random.below(40) as i64 * 3_600_000_000);
    let run = match random.below(12) {
        0 => Standing::Unknown,
        1 => Standing::Known { mode: RunMode::Suppress, end },
        2..4 => Standing::Known { mode: RunMode::Rebuild, end },
        _ => Standing::Live,
    };
    Policy { run, replay: steps::replay(random), ..policy }
}

fn key(policy: &Policy) -> Key {
    let run = if policy.run == Standing::Live { "" } else { spec::RUN };
    Key::of(Namespace::new("c", run), "s".into(), "1".into())
}

impl Walk {
    fn row(&self) -> Option<Row> {
        self.entry.as_ref().map(by_core::row)
    }

    fn step(&mut self) -> Result<Said, String> {
        let random = &mut self.random;
        if random.percent(3) {
            let version = self.policy.version + 1;
            // The key stays what it is, live or of a run; a run that is over stays so.
            let (run, replay) = (self.policy.run, steps::replay(random));
            self.policy = Policy { version, run, replay, ..steps::policy(random) };
        }
        if random.percent(1) {
            self.offset += random.below(5_000_000) as i64;
        }
        if random.below(300) == 0
            && let Some(entry) = &mut self.entry
        {
            // Damaged: few tokens are left, or none. Never a lower token: it might be that of a past attempt.
            entry.token = entry.token.max(TOKEN_MAX - 1 - random.below(4) as i64);
        }
        let row = self.entry.as_ref().map(by_core::row);
        self.now += steps::advance(random, row.as_ref(), &self.policy, self.now);
        self.queued()?;
        self.erase();
        if self.random.percent(20) {
            self.remember();
        }
        let random = &mut self.random;
        if random.percent(6) {
            return self.order();
        }
        // Replay runs have no inbox.
        if random.percent(12) && self.policy.run == Standing::Live {
            return self.stored();
        }
        if random.percent(10) && self.policy.run == Standing::Live {
            return self.handed_out();
        }
        if random.percent(4) {
            return self.reconcile();
        }
        // In four of ten steps several commands for the key wait together: they are decided together, at one
        // instant, and written once.
        let together = if random.percent(40) { 2 + random.below(4) } else { 1 };
        let behind = random.percent(2);
        let ahead = !behind && random.percent(2);
        let position = 1 + random.below(1_000) as i64;
        self.allowed(behind, ahead)?;
        self.decided(together, (behind, ahead), position)
    }

    /// Each is answered as if it had come alone, after the ones before it; what they come to is one write.
    fn decided(
        &mut self,
        together: u64,
        (behind, ahead): (bool, bool),
        position: i64,
    ) -> Result<Said, String> {
        let (key, read) = (key(&self.policy), self.entry.clone());
        let context = Context {
            policy: &self.policy,
            now: StoreTime(self.now),
            token_offset: self.offset,
            position,
            clock_behind: behind,
            clock_before_release: false,
            clock_ahead: ahead,
        };
        let mut fold = Fold::new(&key, read.as_ref());
        let (mut said, mut row, mut wrote) = (Err("nothing was asked".to_owned()), self.row(), 0);
        for number in 0..together {
            let op = steps::op(&mut self.random, row.as_ref(), &mut self.known, self.now);
            let token = fold.entry().map_or(0, |entry| entry.token);
            let folded = fold.keep(fold.decide(&by_core::command(&op), &context));
            let says = by_core::by_core(&folded.answer);
            let choice = if let Said::Acquired { token, .. } = &says { *token } else { 0 };
            let world =
                World { policy: &self.policy, now: self.now, offset: self.offset, behind, ahead, choice };
            let (expected, after) = spec::step(row.as_ref(), &op, &world);
            self.log
                .push(format!("at {}, {number} {op:?}\n  core: {says:?}\n  spec: {expected:?}", self.now));
            if says != expected {
                return Err(format!("the core says {says:?}, the spec {expected:?}, to {op:?}"));
            }
            let alarm = by_core::alarms(&folded.answer);
            if alarm != spec::alarms(row.as_ref(), &op, after.as_ref()) {
                return Err(format!("the core alarms: {alarm}, the spec not so, at {op:?} of {row:?}"));
            }
            self.doubled += u64::from(alarm);
            if fold.entry().is_some_and(|entry| entry.token < token) {
                return Err(format!("the token of {:?} after {token}", fold.entry()));
            }
            row = fold.entry().map(by_core::row);
            if row != after {
                return Err(format!("the core holds {row:?}, the spec {after:?}"));
            }
            wrote += u64::from(folded.wrote);
            said = Ok(says);
        }
        if let Some((next, _)) = fold.into_write() {
            let first = (self.now + self.offset) / 1_000 * 1_000;
            if next.version != read.as_ref().map_or(first, |entry| entry.version + 1) {
                return Err(format!("the version of {next:?} after {read:?}"));
            }
            self.entry = Some(next);
        }
        self.folded += u64::from(wrote > 1);
        self.forget()?;
        said
    }

    /// What the row says to operators: both say the same of its effect, and allow the same changes.
    fn allowed(&self, behind: bool, ahead: bool) -> Result<(), String> {
        let (Some(entry), Some(row)) = (&self.entry, self.row()) else { return Ok(()) };
        let token_clock = self.now + self.offset;
        let reading = Reading {
            now: StoreTime(self.now),
            token_offset: self.offset,
            // A reading that jumps by more than nothing is ahead where nothing is allowed.
            mark: token_clock + i64::from(behind) - i64::from(ahead),
            limits: ClockLimits { jump_max: Span::ZERO, ..ClockLimits::NONE },
        };
        let world =
            World { policy: &self.policy, now: self.now, offset: self.offset, behind, ahead, choice: 0 };
        let says = allowed_changes(entry, &reading);
        let says: Vec<_> =
            says.iter().map(|one| (by_core::word(&format!("{:?}", one.kind)), one.needs_force)).collect();
        let mut expected = spec::allowed(&row, &world);
        // The core wants a minute between, and of the version too; the contract asks for less.
        if entry.version.max(entry.token) + YOUNG >= token_clock {
            expected.retain(|(change, _)| *change != "DELETE");
        }
        let expected: Vec<_> =
            expected.into_iter().map(|(change, force)| (change.to_owned(), force)).collect();
        if (entry.effect_doubtful(), &says) != (spec::doubtful(&row), &expected) {
            return Err(format!("the core allows {says:?}, the spec {expected:?}, of {row:?}"));
        }
        Ok(())
    }

    /// An operator's change: both allow it and refuse it alike, and make the same of the row.
    fn order(&mut self) -> Result<Said, String> {
        let order = steps::order(&mut self.random);
        let behind = self.random.percent(2);
        let ahead = !behind && self.random.percent(2);
        let key = key(&self.policy);
        let expected_version = self.entry.as_ref().map_or(0, |entry| entry.version);
        let change = by_core::change(&order, expected_version);
        let context = Context {
            policy: &self.policy,
            now: StoreTime(self.now),
            token_offset: self.offset,
            position: 1,
            clock_behind: behind,
            clock_before_release: false,
            clock_ahead: ahead,
        };
        let row = self.row();
        let world =
            World { policy: &self.policy, now: self.now, offset: self.offset, behind, ahead, choice: 0 };
        let expected = spec::order(row.as_ref(), &order, &world);
        let token = row.as_ref().map_or(0, |row| row.token);
        let done = operate(&key, self.entry.as_ref(), &change, &context);
        self.log.push(format!("at {} {order:?}\n  core: {done:?}\n  spec: {expected:?}", self.now));
        match (done, expected) {
            (Err(rejection), Err(reason)) if by_core::word(&format!("{:?}", rejection.reason)) == reason => {
                return Ok(Said::Error { reason: format!("order refused: {reason}"), state: None });
            }
            // The core wants a minute between, and of the version too; the contract asks for less.
            (Err(rejection), Ok(None))
                if rejection.reason == Reason::TooRecent
                    && expected_version.max(token) + YOUNG >= self.now + self.offset => {}
            (Ok(Changed::Entry(next)), Ok(Some(after))) if by_core::row(&next) == after => {
                if next.version <= expected_version {
                    return Err(format!("the version of {next:?} after {expected_version}"));
                }
                self.entry = Some(*next);
            }
            (Ok(Changed::Gone), Ok(None)) => self.entry = None,
            (done, expected) => {
                return Err(format!("the core makes {done:?}, the spec {expected:?}, of {order:?}"));
            }
        }
        let stale = by_core::change(&order, expected_version + 1);
        let refused = operate(&key, self.entry.as_ref(), &stale, &context);
        if self.entry.as_ref().is_some_and(|entry| entry.version != expected_version + 1) && refused.is_ok() {
            return Err(format!("{stale:?} was allowed on another version"));
        }
        Ok(Said::Error {
            reason: format!("order {}", format!("{order:?}").split(' ').next().unwrap()),
            state: None,
        })
    }

    /// The purge: both know alike what may go; half of it goes.
    fn forget(&mut self) -> Result<(), String> {
        let (Some(entry), Some(row)) = (&self.entry, self.row()) else { return Ok(()) };
        let world = World {
            policy: &self.policy,
            now: self.now,
            offset: self.offset,
            behind: false,
            ahead: false,
            choice: 0,
        };
        let expected = spec::forgettable(&row, &world);
        let (now, token_clock) = (StoreTime(self.now), self.now + self.offset);
        let with_run = match self.policy.run {
            Standing::Known { end, .. } => {
                let from = run_taken_from(end, self.policy.retention);
                is_over_with_its_run(entry, from, now, token_clock)
            }
            Standing::Live | Standing::Unknown => false,
        };
        let purged = with_run || is_over(entry, &self.policy, now, token_clock);
        if purged != expected {
            return Err(format!("purged: {purged}, by the spec {expected}: {row:?}"));
        }
        if purged && self.random.percent(50) {
            self.entry = None;
            self.log.push("forgotten".into());
        }
        Ok(())
    }
}
